/* report.c: the results of runs as one HTML page; see lockstep/report.h. */
#include <lockstep/report.h>

#include "base/alloc.h"
#include "base/c_locale.h"
#include "base/error.h"
#include "base/floats.h"
#include "base/text.h"
#include "io/json.h"
#include "report/page.h"
#include "report/report.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- The summary of runs ---- */

static double cell(const json_t *row, const char *key)
{
    const json_t *value = json_object_get(row, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

typedef struct summary {
    long long n_epochs, best_epoch;
    double best_top1, best_loss;             /* of validation, else of training; NaN = none */
    const char *metric;                      /* that decides, if it is not the default; else NULL */
    double best_metric;                      /* of the best epoch */
    double seconds, images_per_second, wait; /* wait: a mean over epochs */
} summary;

/* True if the value is better than the best one so far. NaN is worse than all numbers. */
static bool is_better(double value, double best, bool larger)
{
    return !isnan(value) && (isnan(best) || (larger ? value > best : value < best));
}

/* Finds the metric that decides, in a run with another one than the default: its rows have
 * "best_epoch". The name is an option of `lockstep train`; other programs' runs have it in
 * evaluation.json. */
static void find_metric(const ls__report_run *run, summary *s)
{
    const size_t n = json_array_size(run->metrics);
    const json_t *last = n > 0 ? json_array_get(run->metrics, n - 1) : NULL;
    char key[64];
    if (!json_object_get(last, "best_epoch")) return;
    s->best_epoch = ls__json_get_integer(last, "best_epoch");
    s->metric = json_string_value(ls__report_option(run, "metric"));
    if (!s->metric) s->metric = ls__json_get_string(run->evaluation, "metric");
    if (!s->metric) return;
    const json_t *best =
        s->best_epoch > 0 ? json_array_get(run->metrics, (size_t)(s->best_epoch - 1)) : NULL;
    const bool has_val = json_is_number(json_object_get(best, "val_loss"));
    ls__snprintf(key, sizeof key, "%s_%s", has_val ? "val" : "train", s->metric);
    s->best_metric = cell(best, key);
}

static summary summarize(const ls__report_run *run)
{
    summary s = { .best_top1 = NAN, .best_loss = NAN, .images_per_second = NAN };
    const json_t *row;
    size_t i;
    double loss_of_best = NAN; /* decides between equal top-1 */
    json_array_foreach(run->metrics, i, row)
    {
        const bool has_val = json_is_number(json_object_get(row, "val_loss"));
        const double top1 = cell(row, has_val ? "val_top1" : "train_top1");
        const double loss = cell(row, has_val ? "val_loss" : "train_loss");
        const bool by_top1 = !isnan(top1);
        if (by_top1 ? is_better(top1, s.best_top1, true) ||
                          (top1 == s.best_top1 && is_better(loss, loss_of_best, false))
                    : is_better(loss, s.best_loss, false)) {
            s.best_epoch = ls__json_get_integer(row, "epoch");
            loss_of_best = loss;
        }
        if (is_better(top1, s.best_top1, true)) s.best_top1 = top1;
        if (is_better(loss, s.best_loss, false)) s.best_loss = loss;
        s.seconds += fmax(0, cell(row, "seconds"));
        s.wait += fmax(0, cell(row, "data_wait"));
        s.images_per_second = cell(row, "images_per_second");
    }
    s.n_epochs = (long long)json_array_size(run->metrics);
    find_metric(run, &s);
    s.wait = s.n_epochs > 0 ? s.wait / (double)s.n_epochs : 0;
    return s;
}

/* "1:02:03", "2:03" */
static void format_time(double seconds, char *out, size_t size)
{
    const long long whole = (long long)(seconds + 0.5), hours = whole / 3600;
    if (hours > 0)
        snprintf(out, size, "%lld:%02lld:%02lld", hours, whole / 60 % 60, whole % 60);
    else
        snprintf(out, size, "%lld:%02lld", whole / 60, whole % 60);
}

enum { N_FACTS = 9, FACT_SIZE = 48 };
static const char *const fact_names[N_FACTS] = {
    "epochs",   "best top-1",       "best epoch", "lowest loss",    "time",
    "images/s", "waiting for data", "parameters", "deciding metric"
};

static void describe(const ls__report_run *run, char out[N_FACTS][FACT_SIZE])
{
    const summary s = summarize(run);
    const json_t *epochs = ls__report_option(run, "epochs");
    const long long n_parameters = ls__json_get_integer(run->config, "parameters");
    memset(out, 0, N_FACTS * FACT_SIZE);
    if (json_is_integer(epochs))
        snprintf(out[0], FACT_SIZE, "%lld of %lld", s.n_epochs,
                 (long long)json_integer_value(epochs));
    else
        snprintf(out[0], FACT_SIZE, "%lld", s.n_epochs);
    char count[LS__COUNT_SIZE];
    if (n_parameters > 0) snprintf(out[7], FACT_SIZE, "%s", ls__html_count(n_parameters, count));
    if (s.n_epochs == 0) return;
    if (s.metric)
        ls__snprintf(out[8], FACT_SIZE, "%.*s %.4f", LS__CUT(s.metric, 30), s.best_metric);
    if (!isnan(s.best_top1)) snprintf(out[1], FACT_SIZE, "%.4f", s.best_top1);
    snprintf(out[2], FACT_SIZE, "%lld", s.best_epoch);
    if (!isnan(s.best_loss)) snprintf(out[3], FACT_SIZE, "%.4f", s.best_loss);
    format_time(s.seconds, out[4], FACT_SIZE);
    if (fabs(s.images_per_second) < 1e15) /* false for NaN */
        snprintf(out[5], FACT_SIZE, "%s",
                 ls__html_count((int64_t)(s.images_per_second + 0.5), count));
    snprintf(out[6], FACT_SIZE, "%.1f %%", 100 * s.wait);
}

static const char *model_of(const ls__report_run *run)
{
    return json_string_value(ls__report_option(run, "model"));
}

static void put_summary(ls__html *html, int n, const ls__report_run *runs)
{
    char facts[N_FACTS][FACT_SIZE];
    if (n == 1) {
        describe(runs, facts);
        int n_tiles = 1;
        for (int k = 0; k < N_FACTS; k++) n_tiles += *facts[k] != '\0';
        ls__page_begin_tiles(html, n_tiles);
        ls__page_put_tile(html, "model", model_of(runs));
        for (int k = 0; k < N_FACTS; k++)
            if (*facts[k]) ls__page_put_tile(html, fact_names[k], facts[k]);
        ls__html_put(html, "</ul>\n");
        return;
    }
    int n_facts = N_FACTS - 1; /* the deciding metric only if a run has one */
    for (int i = 0; i < n; i++) {
        describe(&runs[i], facts);
        if (*facts[N_FACTS - 1]) n_facts = N_FACTS;
    }
    ls__page_begin_table(html, "Runs", LS__TABLE_CARD);
    ls__page_put_heads(html, "run|model");
    for (int k = 0; k < n_facts; k++)
        ls__html_put(html, "<th scope=\"col\" class=\"number\">%s</th>", fact_names[k]);
    ls__page_begin_rows(html);
    for (int i = 0; i < n; i++) {
        describe(&runs[i], facts);
        ls__html_wrap(html, "<tr><th scope=\"row\">", runs[i].dir, "</th>");
        ls__html_wrap(html, "<td>", model_of(&runs[i]), "</td>");
        for (int k = 0; k < n_facts; k++)
            ls__html_wrap(html, "<td class=\"number\">", *facts[k] ? facts[k] : "\xe2\x80\x93",
                          "</td>");
        ls__html_put(html, "</tr>\n");
    }
    ls__page_end_table(html);
}

/* ---- The page ---- */

static void put_page(ls__html *html, int n, const ls__report_run *runs)
{
    char title[64];
    snprintf(title, sizeof title, "%d runs", n);
    ls__page_begin(html, n > 1 ? title : runs[0].dir);
    const char *data = json_string_value(ls__report_option(&runs[0], "data-dir"));
    if (n == 1 && data) ls__html_wrap(html, "<p>trained on ", data, "</p>\n");
    ls__page_main(html);
    put_summary(html, n, runs);
    if (n == 1) ls__report_put_sessions(html, runs);
    ls__report_put_curves(html, n, runs);
    for (int i = 0; i < n; i++)
        ls__report_put_evaluation(html, &runs[i], summarize(&runs[i]).best_epoch);
    for (int i = 0; i < n; i++) ls__report_put_first_batch(html, &runs[i]);
    if (n == 1) ls__report_put_class_images(html, runs);
    ls__report_put_settings(html, n, runs);
    ls__report_put_environment(html, n, runs);
}

ls_status ls_report_write(ls_context *ctx, int n, const char *const *dirs, const char *path)
{
    LS__ENTER(ctx);
    LS__IN_C_LOCALE;
    LS__DEFAULT_FLOATS; /* printf uses the rounding mode */
    if (n < 1 || !dirs)
        return ls__fail(ctx, LS_ERR_INVALID, "ls_report_write: no run folder given");
    const size_t bytes = (size_t)n * sizeof(ls__report_run);
    ls__report_run *runs = ls__zalloc(ctx, bytes);
    if (!runs) return ls__fail_memory(ctx, "ls_report_write", bytes);
    ls_status status = LS_OK;
    for (int i = 0; i < n && status == LS_OK; i++) status = ls__report_load(ctx, dirs[i], &runs[i]);
    ls__html html = { .ctx = ctx };
    if (status == LS_OK) {
        put_page(&html, n, runs);
        status = ls__page_save(&html, runs[0].dir, path);
    }
    ls__bytes_free(&html);
    for (int i = 0; i < n; i++) ls__report_free(ctx, &runs[i]);
    ls__free(ctx, runs);
    return status;
}
