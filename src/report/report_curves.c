/* report_curves.c: the charts of a report and of curves.svg, a point per epoch; see report.h and
 * lockstep/report.h. */
#include "report/report.h"

#include "base/alloc.h"
#include "base/c_locale.h"
#include "base/error.h"
#include "base/text.h"
#include "report/chart.h"
#include "log/metrics.h"
#include "report/page.h"
#include <lockstep/nn.h>
#include <lockstep/report.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHART_WIDTH = 400, MAX_POINTS = 5000, MAX_KEY_BYTES = 200 };

/* One run's curves of one chart: two keys in metrics.jsonl, or one and NULL. */
typedef struct curve_chart {
    const char *title, *label;
    const char *keys[2];
    double up_to; /* see ls__chart_panel */
    bool from_zero, cuts;
} curve_chart;

static const curve_chart usual_charts[] = {
    { "Loss", "loss", { "train_loss", "val_loss" }, 0, true, true },
    { "Top-1 accuracy", "top-1 accuracy", { "train_top1", "val_top1" }, 1, true },
#define CHART(name, member, minimize, reads_auc, title, axis, end)                                 \
    { title, axis, { "val_" #name, NULL }, end, true, minimize },
    LS__EVALUATION_METRICS(CHART)
#undef CHART
        { "Learning rate", "learning rate", { "lr", NULL }, 0, true },
    { "Time per epoch", "seconds", { "seconds", NULL }, 0, true, true },
    { "Share of time waiting for data", "share", { "data_wait", NULL }, 0.1, true },
};
enum { N_USUAL = sizeof(usual_charts) / sizeof(usual_charts[0]) };

/* The usual charts, and those of own metrics. */
typedef struct chart_list {
    curve_chart items[N_USUAL + LS_MAX_METRICS];
    int n;
} chart_list;

/* Appends a chart for each metric of the net; texts are borrowed from the runs. */
static void add_own_charts(chart_list *list, const ls__report_run *run)
{
    static const char train[] = "train_";
    const size_t n_rows = json_array_size(run->metrics);
    json_t *row = n_rows > 0 ? json_array_get(run->metrics, n_rows - 1) : NULL, *value;
    const char *key;
    json_object_foreach(row, key, value)
    {
        const char *name = key + sizeof(train) - 1;
        bool is_there = strncmp(key, train, sizeof(train) - 1) != 0 || strcmp(name, "top5") == 0 ||
                        strlen(key) > MAX_KEY_BYTES;
        for (int i = 0; i < list->n && !is_there; i++)
            is_there = strcmp(list->items[i].keys[0], key) == 0;
        if (is_there || list->n == N_USUAL + LS_MAX_METRICS) continue;
        curve_chart *chart = &list->items[list->n++];
        *chart = (curve_chart){ .title = name, .label = name, .keys = { key, NULL } };
        char validation[MAX_KEY_BYTES];
        snprintf(validation, sizeof validation, "val_%s", name);
        void *other = json_object_iter_at(row, validation);
        if (other) chart->keys[1] = json_object_iter_key(other);
    }
}

static const char *const sides[] = { "training", "validation" };

static void put_chart(ls__html *html, const curve_chart *c, const char *what,
                      const ls__chart_panel *panel)
{
    char label[96];
    const ls__chart chart = { .x_label = "epoch", .n_panels = 1, .panels = panel };
    ls__html_wrap(html, "<figure>\n<figcaption>", c->title, what);
    ls__html_put(html, "</figcaption>\n");
    ls__snprintf(label, sizeof label, "%s%s by epoch", c->title, what);
    ls__page_put_chart(html, label, ls__chart_draw, &chart, CHART_WIDTH);
    ls__html_put(html, "</figure>\n");
}

/* Adds a column of the rows as a line, whose x and y take 2 n numbers at `columns`. False if it has
 * no numbers. */
static bool add_line(const json_t *rows, const char *key, double *columns, ls__chart_line *line)
{
    *line = (ls__chart_line){ .x = columns, .y = columns + json_array_size(rows) };
    return ls__metrics_curve(rows, key, MAX_POINTS, columns, &line->n);
}

static int compare_values(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Where the axis of a chart ends, so that a few values far above all others, such as the first
 * epoch's loss, do not flatten it; 0 = nowhere. Of each line the largest tenth, or one, are left
 * out. *beyond, *largest: the values above. */
static double cut_at(ls__html *html, int n, const ls__chart_line *lines, int *beyond,
                     double *largest)
{
    enum { FAR = 3 };
    double high = 0, end = 0;
    *beyond = 0;
    *largest = 0;
    for (int i = 0; i < n; i++) {
        int64_t count = 0;
        double *sorted = ls__alloc(html->ctx, ((size_t)lines[i].n + 1) * sizeof *sorted);
        html->failed |= !sorted;
        if (!sorted) return 0;
        for (int64_t k = 0; k < lines[i].n; k++)
            if (isfinite(lines[i].y[k])) sorted[count++] = lines[i].y[k];
        qsort(sorted, (size_t)count, sizeof *sorted, compare_values);
        const int64_t left_out = count >= 10 ? count / 10 : 1;
        if (count > 0) high = fmax(high, sorted[count - 1]);
        if (count > left_out) end = fmax(end, sorted[count - 1 - left_out]);
        ls__free(html->ctx, sorted);
    }
    if (!(end > 0 && high > FAR * end)) return 0;
    *largest = high;
    const double limit = FAR * end;
    for (int i = 0; i < n; i++)
        for (int64_t k = 0; k < lines[i].n; k++) {
            const double y = lines[i].y[k];
            *beyond += isfinite(y) && y > limit;
            if (isfinite(y) && y <= limit) end = fmax(end, y);
        }
    return end;
}

/* Adds what the lines require to a panel with the chart's texts and lines. */
static void put_lines(ls__html *html, const curve_chart *c, const char *what,
                      ls__chart_panel *panel, ls__chart_line *lines)
{
    enum { MAX_THICK = 4 }; /* with more lines, dashes show those that lie below others */
    int beyond = 0;
    double largest = 0;
    char note[96];
    panel->y_label = c->label;
    panel->from_zero = c->from_zero;
    panel->up_to = c->up_to;
    panel->lines = lines;
    panel->may_coincide = panel->n_lines <= MAX_THICK;
    for (int i = 0; !panel->may_coincide && i < panel->n_lines; i++)
        lines[i].stroke.dash = i % 3 == 0 ? LS__SOLID : i % 3 == 1 ? LS__DASHED : LS__DOTTED;
    if (c->cuts) panel->cut_at = cut_at(html, panel->n_lines, lines, &beyond, &largest);
    if (panel->cut_at > 0) {
        snprintf(note, sizeof note, "%d value%s above the axis, up to %.5g", beyond,
                 beyond == 1 ? "" : "s", largest);
        panel->note = note;
    }
    put_chart(html, c, what, panel);
}

/* Training and validation in one chart. */
static void put_single(ls__html *html, const chart_list *list, const ls__report_run *run,
                       double *columns)
{
    const curve_chart *charts = list->items;
    const size_t stride = 2 * json_array_size(run->metrics);
    for (int c = 0; c < list->n; c++) {
        ls__chart_line lines[2];
        int n_lines = 0;
        for (int k = 0; k < 2 && charts[c].keys[k]; k++)
            if (add_line(run->metrics, charts[c].keys[k], columns + (size_t)k * stride, &lines[k]))
                n_lines = k + 1;
        if (n_lines == 0) continue;
        ls__chart_panel panel = { .n_names = charts[c].keys[1] ? n_lines : 0,
                                  .names = sides,
                                  .n_lines = n_lines };
        put_lines(html, &charts[c], "", &panel, lines);
    }
}

/* A line per run; training and validation in charts of their own. */
static void put_several(ls__html *html, const chart_list *list, int n, const ls__report_run *runs,
                        double *columns, ls__chart_line *lines, const char **names)
{
    const curve_chart *charts = list->items;
    for (int i = 0; i < n; i++) names[i] = runs[i].dir;
    for (int c = 0; c < list->n; c++)
        for (int k = 0; k < 2 && charts[c].keys[k]; k++) {
            double *at = columns;
            bool is_there = false;
            for (int i = 0; i < n; i++) {
                if (add_line(runs[i].metrics, charts[c].keys[k], at, &lines[i])) is_there = true;
                at += 2 * json_array_size(runs[i].metrics);
            }
            if (!is_there) continue;
            ls__chart_panel panel = { .n_names = n, .names = names, .n_lines = n };
            const char *what = !charts[c].keys[1] ? "" : k == 0 ? " in training" : " in validation";
            put_lines(html, &charts[c], what, &panel, lines);
        }
}

void ls__report_put_curves(ls__html *html, int n, const ls__report_run *runs)
{
    ls_context *ctx = html->ctx;
    size_t n_rows = 0;
    for (int i = 0; i < n; i++) n_rows += json_array_size(runs[i].metrics);
    double *columns = ls__alloc(ctx, 4 * n_rows * sizeof *columns);
    ls__chart_line *lines = ls__alloc(ctx, (size_t)n * sizeof *lines);
    const char **names = ls__alloc(ctx, (size_t)n * sizeof *names);
    ls__html_put(html, "<section>\n<h2>Curves</h2>\n");
    ls__report_put_problems(html, n, runs, LS__REPORT_METRICS);
    ls__html_put(html, "<div class=\"grid\">\n");
    chart_list list = { .n = N_USUAL };
    memcpy(list.items, usual_charts, sizeof usual_charts);
    for (int i = 0; i < n; i++) add_own_charts(&list, &runs[i]);
    if (!columns || !lines || !names)
        html->failed = true;
    else if (n == 1)
        put_single(html, &list, runs, columns);
    else
        put_several(html, &list, n, runs, columns, lines, names);
    ls__html_put(html, "</div>\n");
    for (int i = 0; i < n; i++)
        ls__html_left_out(html, "epochs in the charts", (int64_t)json_array_size(runs[i].metrics),
                          MAX_POINTS);
    ls__html_put(html, "</section>\n");
    ls__free(ctx, columns);
    ls__free(ctx, lines);
    ls__free(ctx, names);
}

/* ---- The training curves of a run as a file ---- */

enum { N_PANELS = 2 };

/* columns: room for 8 n numbers. */
static ls_status save_curves(ls_context *ctx, const char *path, const char *title, bool log_loss,
                             const json_t *rows, double *columns)
{
    const size_t n = json_array_size(rows);
    ls__chart_line lines[N_PANELS][2];
    ls__chart_panel panels[N_PANELS] = {
        { .y_label = "loss", .log_y = log_loss, .from_zero = true, .names = sides },
        { .y_label = "top-1 accuracy", .from_zero = true, .up_to = 1 },
    };
    char note[64];
    snprintf(note, sizeof note, "%d of %zu epochs", MAX_POINTS, n);
    for (int p = 0; p < N_PANELS; p++) {
        for (int i = 0; i < 2; i++, columns += 2 * n)
            if (add_line(rows, usual_charts[p].keys[i], columns, &lines[p][i]))
                panels[p].n_lines = i + 1;
        panels[p].lines = lines[p];
        if (n > MAX_POINTS) panels[p].note = note;
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
    const size_t n = json_array_size(rows), bytes = 8 * n * sizeof(double);
    char *path = ls__format(ctx, "%s/curves.svg", dir);
    double *columns = ls__alloc(ctx, bytes);
    ls_status status;
    if (n == 0)
        status = ls__fail(ctx, LS_ERR_DATA,
                          "%s/metrics.jsonl: no epoch is complete, or the file is missing", dir);
    else if (!path || !columns)
        status = ls__fail_memory(ctx, dir, bytes);
    else
        status = save_curves(ctx, path, title, log_loss, rows, columns);
    ls__free(ctx, columns);
    ls__free(ctx, path);
    json_decref(rows);
    return status;
}
