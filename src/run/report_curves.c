/* report_curves.c: the charts of a report, a point per epoch; see report.h. */
#include "run/report.h"

#include "base/alloc.h"
#include "base/error.h"
#include "run/chart.h"
#include "run/metrics.h"
#include "run/page.h"
#include <stdio.h>

enum { CHART_WIDTH = 400 };

/* One run's curves of one chart: two keys in metrics.jsonl, or one and NULL. */
typedef struct curve_chart {
    const char *title, *label;
    const char *keys[2];
    double up_to; /* see ls__chart_panel */
    bool from_zero;
} curve_chart;

static const curve_chart charts[] = {
    { "Loss", "loss", { "train_loss", "val_loss" }, 0, true },
    { "Top-1 accuracy", "top-1 accuracy", { "train_top1", "val_top1" }, 1, true },
    { "Learning rate", "learning rate", { "lr", NULL }, 0, true },
    { "Time per epoch", "seconds", { "seconds", NULL }, 0, true },
    { "Share of time waiting for data", "share", { "data_wait", NULL }, 0.1, true },
};
enum { N_CHARTS = sizeof(charts) / sizeof(charts[0]) };

static ls_status put_chart(ls__html *html, const curve_chart *c, const char *what,
                           const ls__chart_panel *panel)
{
    char *text, label[96];
    size_t size;
    const ls__chart chart = {
        .x_label = "epoch", .width = CHART_WIDTH, .n_panels = 1, .panels = panel
    };
    LS_TRY(ls__chart_format(html->ctx, &chart, &text, &size));
    ls__html_put(html, "<figure>\n<figcaption>%s%s</figcaption>\n", c->title, what);
    snprintf(label, sizeof label, "%s%s by epoch", c->title, what);
    ls__page_put_svg(html, "", label, text, size);
    ls__html_put(html, "</figure>\n");
    return LS_OK;
}

/* Adds the column of a run as a line, whose x and y take 2 n numbers at `room`. False if it has no
 * numbers. */
static bool add_line(const ls__report_run *run, const char *key, double *room, ls__chart_line *line)
{
    const int64_t n = (int64_t)json_array_size(run->metrics);
    *line = (ls__chart_line){ .n = n, .x = room, .y = room + n };
    const bool has_epochs = ls__metrics_column(run->metrics, "epoch", room);
    return ls__metrics_column(run->metrics, key, room + n) && has_epochs;
}

/* Training and validation in one chart. */
static ls_status put_single(ls__html *html, const ls__report_run *run, double *room)
{
    static const char *const names[] = { "training", "validation" };
    const size_t stride = 2 * json_array_size(run->metrics);
    for (int c = 0; c < N_CHARTS; c++) {
        ls__chart_line lines[2];
        int n_lines = 0;
        for (int k = 0; k < 2 && charts[c].keys[k]; k++)
            if (add_line(run, charts[c].keys[k], room + (size_t)k * stride, &lines[k]))
                n_lines = k + 1;
        if (n_lines == 0) continue;
        const ls__chart_panel panel = { .y_label = charts[c].label,
                                        .from_zero = charts[c].from_zero,
                                        .up_to = charts[c].up_to,
                                        .n_names = charts[c].keys[1] ? n_lines : 0,
                                        .names = names,
                                        .n_lines = n_lines,
                                        .lines = lines };
        LS_TRY(put_chart(html, &charts[c], "", &panel));
    }
    return LS_OK;
}

/* A line per run; training and validation in charts of their own. */
static ls_status put_several(ls__html *html, int n, const ls__report_run *runs, double *room,
                             ls__chart_line *lines, const char **names)
{
    for (int i = 0; i < n; i++) names[i] = runs[i].dir;
    for (int c = 0; c < N_CHARTS; c++)
        for (int k = 0; k < 2 && charts[c].keys[k]; k++) {
            double *at = room;
            bool is_there = false;
            for (int i = 0; i < n; i++) {
                if (add_line(&runs[i], charts[c].keys[k], at, &lines[i])) is_there = true;
                at += 2 * json_array_size(runs[i].metrics);
            }
            if (!is_there) continue;
            const ls__chart_panel panel = { .y_label = charts[c].label,
                                            .from_zero = charts[c].from_zero,
                                            .up_to = charts[c].up_to,
                                            .n_names = n,
                                            .names = names,
                                            .n_lines = n,
                                            .lines = lines };
            const char *what = !charts[c].keys[1] ? "" : k == 0 ? " in training" : " in validation";
            LS_TRY(put_chart(html, &charts[c], what, &panel));
        }
    return LS_OK;
}

ls_status ls__report_put_curves(ls__html *html, int n, const ls__report_run *runs)
{
    ls_context *ctx = html->ctx;
    size_t n_rows = 0;
    for (int i = 0; i < n; i++) n_rows += json_array_size(runs[i].metrics);
    double *room = ls__alloc(ctx, 4 * n_rows * sizeof *room);
    ls__chart_line *lines = ls__alloc(ctx, (size_t)n * sizeof *lines);
    const char **names = ls__alloc(ctx, (size_t)n * sizeof *names);
    ls__html_put(html, "<section>\n<h2>Curves</h2>\n");
    ls__report_put_problems(html, n, runs, LS__REPORT_METRICS);
    ls__html_put(html, "<div class=\"grid\">\n");
    ls_status status;
    if (!room || !lines || !names)
        status = ls__fail_memory(ctx, "report", 4 * n_rows * sizeof *room);
    else if (n == 1)
        status = put_single(html, runs, room);
    else
        status = put_several(html, n, runs, room, lines, names);
    ls__html_put(html, "</div>\n</section>\n");
    ls__free(ctx, room);
    ls__free(ctx, lines);
    ls__free(ctx, names);
    return status;
}
