/* sweep_charts.c: the charts of a sweep's report; see sweep_report.h. */
#include "base/text.h"
#include "experiment/sweep_report.h"
#include "log/metrics.h"
#include "report/chart.h"
#include "report/page.h"
#include "report/parallel.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TITLE_SIZE = 64 };
enum { MAX_POINTS = 200000 }; /* of all curves; longer ones are thinned */

/* Losses that differ by more have a logarithmic axis. */
#define LOG_RATIO 20

/* The look of the trial of a rank. Shades have equally many trials. */
static ls__svg_stroke stroke_of(const ls__sweep_history *h, int64_t rank)
{
    const ls__sweep_past *t = h->ranked[rank];
    int64_t n = h->n_trials;
    while (n > 0 && isnan(h->ranked[n - 1]->last.metric)) n--;
    if (isnan(t->last.metric)) return (ls__svg_stroke){ LS__SHADE_FAILED, LS__DOTTED };
    const int n_shades = LS__SHADE_GOOD - LS__SHADE_WORST + 1;
    const int shade = LS__SHADE_GOOD - (int)(rank * n_shades / n);
    return (ls__svg_stroke){ rank == 0 ? LS__SHADE_BEST : (ls__shade)shade,
                             t->last.epochs < h->epochs ? LS__DASHED : LS__SOLID };
}

void ls__sweep_put_legend(ls__html *html, const ls__sweep_history *h)
{
    static const struct {
        ls__svg_stroke stroke;
        double width;
        const char *text;
        bool always; /* else if there are trials with these dashes and with others */
    } looks[] = { { { LS__SHADE_BEST, LS__SOLID }, 4, "best", true },
                  { { LS__SHADE_GOOD, LS__SOLID }, 3, "best fifth", true },
                  { { LS__SHADE_WORST + 2, LS__SOLID }, 3, "middle fifth", true },
                  { { LS__SHADE_WORST, LS__SOLID }, 3, "worst fifth", true },
                  { { LS__SHADE_GOOD - 1, LS__SOLID }, 2, "all epochs", false },
                  { { LS__SHADE_GOOD - 1, LS__DASHED }, 2, "fewer epochs", false },
                  { { LS__SHADE_FAILED, LS__DOTTED }, 2, "failed", false } };
    int64_t counts[LS__DOTTED + 1] = { 0 };
    for (int64_t i = 0; i < h->n_trials; i++) counts[stroke_of(h, i).dash]++;
    ls__html_put(html, "<ul class=\"legend chart\">\n");
    for (size_t k = 0; k < sizeof(looks) / sizeof(looks[0]); k++) {
        const int64_t count = counts[looks[k].stroke.dash];
        if (!looks[k].always && (count == 0 || count == h->n_trials)) continue;
        ls__html_put(html, "<li><svg viewBox=\"0 0 44 12\" aria-hidden=\"true\">");
        ls__svg_begin_path(html, &looks[k].stroke, "", looks[k].width);
        ls__html_put(html, "M0 6H44\"/></svg>%s</li>\n", looks[k].text);
    }
    ls__html_put(html, "</ul>\n");
}

/* ---- Parallel coordinates ---- */

/* The better end is the high one. */
static ls__parallel_axis metric_axis(const ls__sweep_history *h)
{
    ls__parallel_axis a = { .name = ls__sweep_metric_key(h->metric), .low = 0, .high = 1 };
    for (int64_t i = h->n_trials - 1; i >= 0; i--) {
        const double value = h->ranked[i]->last.metric;
        if (isnan(value)) {
            a.beyond = "failed";
            continue;
        }
        if (i == h->n_trials - 1 || isnan(h->ranked[i + 1]->last.metric)) a.low = value;
        a.high = value;
    }
    a.is_log = ls__run_metric_is_minimized(h->metric) && a.high > 0 && a.low > LOG_RATIO * a.high;
    return a;
}

static void make_title(const ls_sweep_trial *r, char out[TITLE_SIZE])
{
    if (isnan(r->metric))
        snprintf(out, TITLE_SIZE, "trial %lld: failed", (long long)r->trial);
    else
        snprintf(out, TITLE_SIZE, "trial %lld: %.4f after %lld epoch%s", (long long)r->trial,
                 r->metric, (long long)r->epochs, ls__plural(r->epochs));
}

void ls__sweep_put_parallel(ls__html *html, const ls__sweep_history *h)
{
    const size_t n = (size_t)h->n_trials + 1;
    ls__parallel_axis axes[LS__SWEEP_MAX_PARAMETERS + 1];
    ls__parallel_line *lines = calloc(n, sizeof(*lines));
    char(*titles)[TITLE_SIZE] = calloc(n, sizeof(*titles));
    ls__parallel chart = { .n_axes = h->n_axes + 1, .axes = axes, .lines = lines };
    for (int i = 0; i < h->n_axes; i++) {
        const ls__sweep_parameter *a = &h->axes[i];
        axes[i] = (ls__parallel_axis){ .name = a->search.name,
                                       .low = a->search.low,
                                       .high = a->search.high,
                                       .is_log = a->search.kind == LS_SEARCH_LOG,
                                       .n_names = a->values ? a->search.count : 0,
                                       .names = a->values };
    }
    axes[h->n_axes] = metric_axis(h);
    html->failed |= !lines || !titles;
    for (int64_t rank = h->n_trials - 1; rank >= 0 && !html->failed; rank--) {
        const ls__sweep_past *t = h->ranked[rank];
        const int64_t k = chart.n_lines;
        if (!ls__sweep_history_has_values(h, t)) continue;
        make_title(&t->last, titles[k]);
        lines[chart.n_lines++] = (ls__parallel_line){ titles[k], t->values, stroke_of(h, rank) };
    }
    ls__page_put_charts(html, " parallel", "The trials as parallel coordinates", ls__parallel_draw,
                        &chart);
    free(lines);
    free(titles);
}

/* ---- Curves ---- */

/* The epochs and the metric of a trial's run, in memory that the caller frees. */
static ls_status read_curve(const ls__sweep_history *h, const ls__sweep_past *t,
                            ls__chart_line *line)
{
    char dir[LS__RUN_PATH_SIZE];
    json_t *rows;
    ls__sweep_trial_dir(h->dir, t->last.trial, dir, sizeof(dir));
    const ls_status status = ls__metrics_read(h->ctx, dir, &rows);
    if (status != LS_OK) return status;
    const size_t n = json_array_size(rows);
    double *columns = calloc(2 * n + 1, sizeof(*columns));
    const int64_t share = MAX_POINTS / (h->n_trials + 1), max = share > 2 ? share : 2;
    line->x = columns;
    line->y = columns ? columns + n : NULL;
    if (columns &&
        !ls__metrics_curve(rows, ls__sweep_metric_key(h->metric), max, columns, &line->n))
        line->n = 0;
    json_decref(rows);
    return columns ? LS_OK : LS_ERR_MEMORY;
}

static bool needs_log(const ls__sweep_history *h, const ls__chart_line *lines)
{
    double low = INFINITY, high = -INFINITY;
    for (int64_t i = 0; i < h->n_trials; i++)
        for (int64_t k = 0; k < lines[i].n; k++) {
            if (!isfinite(lines[i].y[k])) continue;
            low = fmin(low, lines[i].y[k]);
            high = fmax(high, lines[i].y[k]);
        }
    return ls__run_metric_is_minimized(h->metric) && low > 0 && high > LOG_RATIO * low;
}

ls_status ls__sweep_put_curves(ls__html *html, const ls__sweep_history *h)
{
    ls__chart_line *lines = calloc((size_t)h->n_trials + 1, sizeof(*lines));
    ls_status status = lines ? LS_OK : LS_ERR_MEMORY;
    bool any = false;
    for (int64_t k = 0; k < h->n_trials && status == LS_OK; k++) { /* the best one on top */
        const int64_t rank = h->n_trials - 1 - k;
        lines[k].stroke = stroke_of(h, rank);
        status = read_curve(h, h->ranked[rank], &lines[k]);
        any = any || lines[k].n > 0;
    }
    if (status == LS_OK && any) {
        const ls__chart_panel panel = { .y_label = ls__sweep_metric_key(h->metric),
                                        .log_y = needs_log(h, lines),
                                        .n_lines = (int)h->n_trials,
                                        .lines = lines };
        ls__html_put(html,
                     "<section>\n<h2>Curves</h2>\n<figure>\n<figcaption>%s of each trial by "
                     "epoch</figcaption>\n",
                     ls__sweep_metric_key(h->metric));
        const ls__chart chart = { .x_label = "epoch", .n_panels = 1, .panels = &panel };
        ls__page_put_charts(html, "", "The metric of each trial by epoch", ls__chart_draw, &chart);
        ls__sweep_put_legend(html, h);
        ls__html_put(html, "</figure>\n</section>\n");
    }
    for (int64_t k = 0; lines && k < h->n_trials; k++) free((double *)lines[k].x);
    free(lines);
    return status;
}
