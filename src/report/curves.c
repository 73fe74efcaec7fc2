/* curves.c: the training curves of a run; see report.h. */
#include <lockstep/report.h>

#include "base/alloc.h"
#include "base/c_locale.h"
#include "base/error.h"
#include "report/chart.h"
#include "log/metrics.h"
#include <stdio.h>

enum { N_LINES = 2, N_PANELS = 2, MAX_POINTS = 5000 };

/* columns: room for x, then for each line's y. */
static ls_status save(ls_context *ctx, const char *path, const char *title, bool log_loss,
                      const json_t *rows, double *columns)
{
    static const char *const keys[N_PANELS][N_LINES] = { { "train_loss", "val_loss" },
                                                         { "train_top1", "val_top1" } };
    static const char *const names[] = { "training", "validation" };
    const int64_t n = (int64_t)json_array_size(rows);
    ls__chart_line lines[N_PANELS][N_LINES];
    ls__chart_panel panels[N_PANELS] = {
        { .y_label = "loss", .log_y = log_loss, .from_zero = true, .names = names },
        { .y_label = "top-1 accuracy", .from_zero = true, .up_to = 1 },
    };
    char note[64];
    ls__metrics_column(rows, "epoch", columns);
    const int64_t n_points = ls__metrics_thin(n, MAX_POINTS, columns);
    snprintf(note, sizeof note, "%lld of %lld epochs", (long long)n_points, (long long)n);
    for (int p = 0; p < N_PANELS && n_points < n; p++) panels[p].note = note;
    for (int p = 0; p < N_PANELS; p++)
        for (int i = 0; i < N_LINES; i++) {
            double *y = columns + (1 + p * N_LINES + i) * n;
            lines[p][i] = (ls__chart_line){ .n = n_points, .x = columns, .y = y };
            if (ls__metrics_column(rows, keys[p][i], y)) panels[p].n_lines = i + 1;
            ls__metrics_thin(n, MAX_POINTS, y);
            panels[p].lines = lines[p];
        }
    panels[0].n_names = panels[0].n_lines;
    const ls__chart chart = {
        .title = title, .x_label = "epoch", .n_panels = N_PANELS, .panels = panels
    };
    return ls__chart_save(ctx, path, &chart);
}

ls_status ls_curves_write(ls_context *ctx, const char *dir, const char *title, bool log_loss)
{
    json_t *rows;
    LS__ENTER(ctx);
    if (!dir || !title) return ls__fail_null(ctx, "ls_curves_write", dir ? "title" : "dir");
    LS__IN_C_LOCALE;
    LS_TRY(ls__metrics_read(ctx, dir, &rows));
    const size_t n = json_array_size(rows), bytes = (1 + N_PANELS * N_LINES) * n * sizeof(double);
    char *path = ls__format(ctx, "%s/curves.svg", dir);
    double *columns = ls__alloc(ctx, bytes);
    ls_status status;
    if (n == 0)
        status = ls__fail(ctx, LS_ERR_DATA,
                          "%s/metrics.jsonl: no epoch is complete, or the file is missing", dir);
    else if (!path || !columns)
        status = ls__fail_memory(ctx, dir, bytes);
    else
        status = save(ctx, path, title, log_loss, rows, columns);
    ls__free(ctx, columns);
    ls__free(ctx, path);
    json_decref(rows);
    return status;
}
