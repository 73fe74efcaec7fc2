/* lr_curve_save.c: the curve of a learning rate range test as a table and as a chart. */
#include "train/lr_find.h"

#include "base/alloc.h"
#include "base/c_locale.h"
#include "base/error.h"
#include "base/file.h"
#include "base/floats.h"
#include "base/text.h"
#include "log/run_folder.h"
#include "report/chart.h"
#include <math.h>
#include <stdio.h>

static void put_csv(ls__text *text, const ls_lr_curve *c)
{
    ls__text_put(text, "lr,loss,smoothed_loss\n");
    for (int64_t i = 0; i < c->n; i++)
        ls__text_put(text, "%.17g,%.17g,%.17g\n", c->points[i].lr, c->points[i].loss,
                     c->points[i].smoothed_loss);
}

static ls_status save_csv(const ls_lr_curve *c, const char *path)
{
    LS__IN_C_LOCALE;
    ls_context *ctx = c->owned.ctx;
    ls__text text = { 0 };
    put_csv(&text, c);
    const size_t size = text.length;
    text = (ls__text){ .buffer = ls__alloc(ctx, size + 1), .size = size + 1 };
    if (!text.buffer) return ls__fail_memory(ctx, path, size + 1);
    put_csv(&text, c);
    const ls_status status = ls__file_replace(ctx, path, text.buffer, size);
    ls__free(ctx, text.buffer);
    return status;
}

/* The point with that learning rate, as a line of one point; none: of no points. */
static ls__chart_line mark(const ls_lr_curve *c, double lr, const double *x, const double *y)
{
    int64_t i = 0;
    while (i < c->n && c->points[i].lr < lr) i++;
    const bool found = lr > 0 && i < c->n;
    return (ls__chart_line){ .n = found, .x = x + i, .y = y + i };
}

/* columns: room for three. Losses above those at which a test ends are not drawn, because the
 * others would become a flat line. */
static ls_status draw(const ls_lr_curve *c, const char *path, double *columns)
{
    enum { N_LINES = 4, NAME_SIZE = 64 };
    double *lr = columns, *loss = columns + c->n, *smoothed = columns + 2 * c->n;
    const ls_lr_suggestion s = ls_lr_curve_suggestion(c);
    for (int64_t i = 0; i < c->n; i++) {
        const ls_lr_point *p = &c->points[i];
        lr[i] = p->lr;
        loss[i] = p->loss <= LS__LR_FIND_DIVERGED * c->lowest ? p->loss : NAN;
        smoothed[i] = p->smoothed_loss;
    }
    char names[2][NAME_SIZE];
    snprintf(names[0], NAME_SIZE, "steepest descent: %.3g", s.steepest);
    snprintf(names[1], NAME_SIZE, "minimum / 10: %.3g", s.tenth_of_min);
    const char *const legend[N_LINES] = { "loss", "smoothed loss", names[0], names[1] };
    const ls__chart_line lines[N_LINES] = { { c->n, lr, loss },
                                            { c->n, lr, smoothed },
                                            mark(c, s.steepest, lr, smoothed),
                                            mark(c, s.tenth_of_min, lr, smoothed) };
    const ls__chart_panel panel = { .y_label = "loss",
                                    .n_names = s.steepest > 0 ? N_LINES : 2,
                                    .names = legend,
                                    .n_lines = N_LINES,
                                    .lines = lines };
    return ls__chart_save(c->owned.ctx, path,
                          &(ls__chart){ .title = "learning rate range test",
                                        .x_label = "learning rate",
                                        .log_x = true,
                                        .n_panels = 1,
                                        .panels = &panel });
}

ls_status ls_lr_curve_save(ls_lr_curve *curve, const char *dir)
{
    LS__DEFAULT_FLOATS;
    if (!curve) return LS_ERR_EARLIER;
    ls_context *ctx = curve->owned.ctx;
    LS__ENTER(ctx);
    if (!dir || curve->n == 0)
        return ls__fail(ctx, LS_ERR_INVALID, "ls_lr_curve_save: %s",
                        dir ? "the curve has no points" : "no folder given");
    if (ls__run_folder_is_of_program(dir))
        return ls__fail(ctx, LS_ERR_INVALID, "ls_lr_curve_save: folder '%s' holds a run", dir);
    LS_TRY(ls__run_folder_create(ctx, dir));
    const size_t bytes = 3 * (size_t)curve->n * sizeof(double);
    char *csv = ls__format(ctx, "%s/lr_find.csv", dir),
         *svg = ls__format(ctx, "%s/lr_find.svg", dir);
    double *columns = ls__alloc(ctx, bytes);
    ls_status status =
        csv && svg && columns ? save_csv(curve, csv) : ls__fail_memory(ctx, dir, bytes);
    if (status == LS_OK) status = draw(curve, svg, columns);
    ls__free(ctx, columns);
    ls__free(ctx, svg);
    ls__free(ctx, csv);
    return status;
}
