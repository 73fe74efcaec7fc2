/* lr_curve.c: the curve of a learning rate range test: smoothing, suggestions, files. */
#include "train/lr_find.h"

#include "arith/functions.h"
#include "base/alloc.h"
#include "base/c_locale.h"
#include "base/error.h"
#include "base/file.h"
#include "base/floats.h"
#include "base/text.h"
#include "report/chart.h"
#include "log/run_folder.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

bool ls__lr_curve_add(ls_lr_curve *c, double lr, double loss, double smoothing)
{
    if (!isfinite(loss)) {
        c->end = LS_LR_FIND_NONFINITE;
        return true;
    }
    c->average = smoothing * c->average + (1 - smoothing) * loss;
    const double unseen = smoothing > 0 ? ls__power_of(smoothing, (double)(c->n + 1)) : 0;
    const double smoothed = c->average / (1 - unseen);
    c->points[c->n++] = (ls_lr_point){ lr, loss, smoothed };
    if (c->n == 1 || smoothed < c->lowest) c->lowest = smoothed;
    if (smoothed > LS__LR_FIND_DIVERGED * c->lowest) c->end = LS_LR_FIND_DIVERGED;
    return c->end == LS_LR_FIND_DIVERGED;
}

/* The standard deviation of the losses of points 0 to n - 1 about their trend. */
static double noise(const ls_lr_point *points, int64_t n)
{
    double sum = 0;
    for (int64_t i = 1; i + 1 < n; i++) {
        const double d = points[i + 1].loss - 2 * points[i].loss + points[i - 1].loss;
        sum += d * d;
    }
    return n > 2 ? sqrt(sum / (6 * (double)(n - 2))) : 0;
}

static double mean_loss(const ls_lr_point *points, int64_t begin, int64_t end)
{
    double sum = 0;
    for (int64_t i = begin; i < end; i++) sum += points[i].loss;
    return sum / (double)(end - begin);
}

/* The fall of the mean loss from the `width` points before the ones that end at i, fewer at the
 * beginning, in standard errors of the difference. i >= width. */
static double fall_at(const ls_lr_point *points, int64_t i, int64_t width, double sigma)
{
    const int64_t middle = i + 1 - width, begin = middle > width ? middle - width : 0;
    const double fall = mean_loss(points, begin, middle) - mean_loss(points, middle, i + 1);
    const double error = sigma * sqrt(1.0 / (double)(middle - begin) + 1.0 / (double)width);
    return fall > 0 ? fall / error : 0;
}

ls_lr_suggestion ls_lr_suggest(const ls_lr_point *points, int64_t n)
{
    LS__DEFAULT_FLOATS;
    ls_lr_suggestion out = { 0 };
    if (!points) n = 0;
    const int64_t first = n / 10, width = first > 0 ? first : 1;
    int64_t lowest = first;
    for (int64_t i = first; i < n; i++)
        if (points[i].smoothed_loss < points[lowest].smoothed_loss) lowest = i;
    const double sigma = noise(points, lowest + 1);
    double steepest = 0;
    for (int64_t i = width; i <= lowest && i + 1 < n; i++) {
        const double slope = (points[i + 1].smoothed_loss - points[i - 1].smoothed_loss) /
                             ((ls__log2(points[i + 1].lr) - ls__log2(points[i - 1].lr)) * M_LN2);
        if (!(slope < 0)) continue;
        const double fall = fall_at(points, i, width, sigma);
        out.fall = fmax(out.fall, fall);
        if (fall < LS_LR_FIND_MIN_FALL || slope >= steepest) continue;
        steepest = slope;
        out.steepest = points[i].lr;
    }
    if (out.steepest > 0) out.tenth_of_min = points[lowest].lr / 10;
    return out;
}

ls_lr_suggestion ls_lr_curve_suggestion(const ls_lr_curve *curve)
{
    return curve ? ls_lr_suggest(curve->points, curve->n) : (ls_lr_suggestion){ 0 };
}

int64_t ls_lr_curve_point_count(const ls_lr_curve *curve)
{
    return curve ? curve->n : 0;
}

ls_lr_point ls_lr_curve_point_at(const ls_lr_curve *curve, int64_t i)
{
    return curve && i >= 0 && i < curve->n ? curve->points[i] : (ls_lr_point){ 0 };
}

ls_lr_find_end ls_lr_curve_end(const ls_lr_curve *curve)
{
    return curve ? curve->end : LS_LR_FIND_DONE;
}

/* ---- Files ---- */

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
