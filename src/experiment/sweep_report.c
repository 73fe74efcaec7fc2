/* sweep_report.c: see sweep_report.h. */
#include "experiment/sweep_report.h"

#include "base/c_locale.h"
#include "base/error.h"
#include "base/path.h"
#include "io/json.h"
#include "report/page.h"
#include "run/data_settings.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The text of axis i's value, or a dash. */
static const char *axis_text(const ls__sweep_history *h, const ls__sweep_past *t, int i,
                             char out[LS_SWEEP_VALUE_SIZE])
{
    return isnan(t->values[i]) ? "\xe2\x80\x93"
                               : ls__sweep_value_text(&h->axes[i], t->values[i], out);
}

/* ---- The best trial ---- */

/* The settings of [train] and the trial's values, as `lockstep train` reads them. */
static void put_command(ls__html *html, const ls__sweep_history *h, const ls__sweep_past *t,
                        const char *program_name)
{
    const json_t *train = json_object_get(h->definition, "train");
    ls__words words = { 0 };
    const char *name;
    char value[LS_SWEEP_VALUE_SIZE];
    json_t *option;
    ls__words_put(&words, "%s", program_name ? program_name : "lockstep");
    ls__words_put(&words, "train");
    json_object_foreach((json_t *)train, name, option)
    {
        if (json_is_string(option))
            ls__words_put(&words, "--%s=%s", name, json_string_value(option));
    }
    for (int i = 0; i < h->n_axes; i++)
        ls__words_put(&words, "--%s=%s", h->axes[i].search.name, axis_text(h, t, i, value));
    if (h->metric != LS__METRIC_TOP1 && !json_object_get(train, "metric"))
        ls__words_put(&words, "--metric=%s", ls__run_metric_name(h->metric));
    ls__page_put_words(html, &words);
}

static void put_best(ls__html *html, const ls__sweep_history *h, const char *program_name)
{
    const ls__sweep_past *best = h->n_trials > 0 ? h->ranked[0] : NULL;
    char text[LS_SWEEP_VALUE_SIZE], name[64], weights[LS__RUN_PATH_SIZE + 32];
    if (!best || isnan(best->last.metric)) {
        ls__html_put(html, "<p class=\"card\">%s</p>\n",
                     best ? "All trials have failed." : "No trial has a result yet.");
        return;
    }
    ls__page_begin_tiles(html, 3);
    snprintf(text, sizeof(text), "%.4f", best->last.metric);
    snprintf(name, sizeof(name), "%s %s",
             ls__run_metric_is_minimized(h->metric) ? "lowest" : "highest",
             ls__sweep_metric_key(h->metric));
    ls__page_put_tile(html, name, text);
    snprintf(text, sizeof(text), "%lld", (long long)best->last.trial);
    ls__page_put_tile(html, "in trial", text);
    snprintf(text, sizeof(text), "%lld of %lld", (long long)best->last.best_epoch,
             (long long)best->last.epochs);
    ls__page_put_tile(html, "after epoch", text);
    ls__html_put(html, "</ul>\n");
    ls__sweep_trial_dir(h->dir, best->last.trial, weights, LS__RUN_PATH_SIZE);
    strcat(weights, "/best.safetensors");
    ls__html_wrap(html, "<p>weights of that epoch: <code>", weights, "</code></p>\n");
    if (!ls__sweep_history_has_values(h, best)) return;
    ls__html_put(html, "<div class=\"card\">\n<h3>Command of the best trial</h3>\n");
    put_command(html, h, best, program_name);
    ls__html_put(html, "</div>\n");
}

/* ---- Importance ---- */

static int compare_shares(const void *a, const void *b, void *effects)
{
    const ls_search_effect *e = effects;
    const int x = *(const int *)a, y = *(const int *)b;
    const double left = isnan(e[x].share) ? -1 : e[x].share,
                 right = isnan(e[y].share) ? -1 : e[y].share;
    return left != right ? (left < right ? 1 : -1) : x - y;
}

static ls_status put_importance(ls__html *html, const ls__sweep_history *h)
{
    ls_search_effect effects[LS__SWEEP_MAX_PARAMETERS];
    int order[LS__SWEEP_MAX_PARAMETERS];
    int64_t epochs, n;
    LS_TRY(ls__sweep_history_importance(h, &epochs, &n, effects));
    ls__html_put(html, "<section>\n<h2>Importance of the parameters</h2>\n");
    if (n < LS_SEARCH_IMPORTANCE_TRIALS) {
        ls__html_put(
            html,
            "<p class=\"card\">Too few trials: %lld with a result after epoch %lld; expected %d "
            "or more.</p>\n</section>\n",
            (long long)n, (long long)epochs, LS_SEARCH_IMPORTANCE_TRIALS);
        return LS_OK;
    }
    for (int i = 0; i < h->n_axes; i++) order[i] = i;
    qsort_r(order, (size_t)h->n_axes, sizeof(*order), compare_shares, effects);
    ls__page_begin_table(html, "Share of the variance that a parameter explains", LS__TABLE_CARD);
    ls__page_put_heads(html, "parameter|#share|#by chance|result");
    ls__page_begin_rows(html);
    for (int i = 0; i < h->n_axes; i++) {
        const ls_search_effect *e = &effects[order[i]];
        ls__html_wrap(html, "<tr><th scope=\"row\">", h->axes[order[i]].search.name, "</th>");
        if (isnan(e->share))
            ls__html_put(html,
                         "<td class=\"number\">&ndash;</td><td class=\"number\">&ndash;</td>"
                         "<td>one value, too few trials per value, or equal results</td></tr>\n");
        else
            ls__html_put(html,
                         "<td class=\"number bar\" style=\"--v:%.3f\">%.0f %%</td><td "
                         "class=\"number\">&le; %.0f %%</td><td>%s</td></tr>\n",
                         e->share, 100 * e->share, 100 * e->chance,
                         e->share > e->chance ? "has an effect" : "no effect is visible");
    }
    ls__page_end_table(html);
    ls__html_put(html,
                 "<p class=\"note\">From the results of %lld trials after epoch %lld: the share of "
                 "the variance of their ranks (effect size of the Kruskal-Wallis H test). Without "
                 "any effect, 19 of 20 sweeps have a share up to the third column. The effect of "
                 "combinations of parameters is not included.</p>\n</section>\n",
                 (long long)n, (long long)epochs);
    return LS_OK;
}

/* ---- The table of trials ---- */

static void put_row(ls__html *html, const ls__sweep_history *h, int64_t rank)
{
    const ls__sweep_past *t = h->ranked[rank];
    char text[LS_SWEEP_VALUE_SIZE];
    ls__html_put(html, "<tr><th scope=\"row\" class=\"number\">%lld</th>",
                 (long long)t->last.trial);
    for (int i = 0; i < h->n_axes; i++)
        ls__html_cell(html, h->axes[i].values ? "<td>" : "<td class=\"number\">",
                      axis_text(h, t, i, text), "</td>");
    ls__html_put(html, "<td class=\"number\">%lld</td>", (long long)t->last.epochs);
    if (isnan(t->last.metric))
        ls__html_put(html,
                     "<td class=\"number\">&ndash;</td><td class=\"number\">&ndash;</td><td>");
    else
        ls__html_put(html, "<td class=\"number\">%.4f</td><td class=\"number\">%lld</td><td>",
                     t->last.metric, (long long)t->last.best_epoch);
    const char *note = t->last.error                ? t->last.error
                       : isnan(t->last.metric)      ? "failed: the loss is not finite"
                       : rank == 0                  ? "best"
                       : t->last.epochs < h->epochs ? "fewer epochs"
                                                    : "";
    ls__html_cell(html, "", note, "</td></tr>\n");
}

static void put_trials(ls__html *html, const ls__sweep_history *h)
{
    char heads[96];
    ls__html_put(html, "<section>\n<h2>Table of trials</h2>\n");
    ls__page_begin_table(html, "Trials, from the best to the worst", LS__TABLE_CARD);
    ls__page_put_heads(html, "#trial");
    for (int i = 0; i < h->n_axes; i++)
        ls__html_wrap(
            html, h->axes[i].values ? "<th scope=\"col\">" : "<th scope=\"col\" class=\"number\">",
            h->axes[i].search.name, "</th>");
    snprintf(heads, sizeof(heads), "#epochs|#%s|#best epoch|note", ls__sweep_metric_key(h->metric));
    ls__page_put_heads(html, heads);
    ls__page_begin_rows(html);
    const size_t begin = html->size;
    int64_t n = 0;
    while (n < h->n_trials && html->size - begin <= LS__TABLE_BYTES) put_row(html, h, n++);
    ls__page_end_table(html);
    ls__html_left_out(html, "trials", h->n_trials, n);
    ls__html_put(html, "</section>\n");
}

/* ---- The page ---- */

static void put_head(ls__html *html, const ls__sweep_history *h)
{
    int64_t n_failed = 0, n_fewer = 0;
    for (int64_t i = 0; i < h->n_trials; i++) {
        n_failed += isnan(h->trials[i].last.metric);
        n_fewer += !isnan(h->trials[i].last.metric) && h->trials[i].last.epochs < h->epochs;
    }
    ls__page_begin(html, h->dir);
    ls__html_put(html, "<p>sweep of %lld trial%s", (long long)h->n_trials,
                 h->n_trials == 1 ? "" : "s");
    ls__html_wrap(html, ", method ", ls__json_get_string(h->definition, "method"), "");
    if (n_fewer > 0) ls__html_put(html, ", %lld with fewer epochs", (long long)n_fewer);
    if (n_failed > 0) ls__html_put(html, ", %lld failed", (long long)n_failed);
    ls__html_put(html, "</p>\n");
    ls__page_main(html);
}

static ls_status put_page(ls__html *html, const ls__sweep_history *h, const char *program_name)
{
    put_head(html, h);
    put_best(html, h, program_name);
    if (h->n_trials == 0) return LS_OK;
    ls__html_put(html,
                 "<section>\n<h2>Parameters and results</h2>\n<figure>\n<figcaption>A line per "
                 "trial</figcaption>\n");
    ls__sweep_put_parallel(html, h);
    ls__sweep_put_legend(html, h);
    ls__html_put(html, "</figure>\n</section>\n");
    LS_TRY(put_importance(html, h));
    LS_TRY(ls__sweep_put_curves(html, h));
    put_trials(html, h);
    return LS_OK;
}

bool ls_sweep_exists(const char *dir)
{
    char path[LS__RUN_PATH_SIZE];
    return snprintf(path, sizeof(path), "%s/sweep.json", dir) < (int)sizeof(path) &&
           ls__path_exists(path);
}

ls_status ls_sweep_report_write(ls_context *ctx, const char *dir, const char *path,
                                const char *program_name)
{
    LS__ENTER(ctx);
    LS__IN_C_LOCALE;
    if (!dir) return ls__fail_null(ctx, "ls_sweep_report_write", "dir");
    ls__sweep_history h;
    ls__html html = { .ctx = ctx };
    ls_status status = ls__sweep_history_read(ctx, dir, &h);
    if (status == LS_OK) status = put_page(&html, &h, program_name);
    if (status == LS_OK) status = ls__page_save(&html, dir, path);
    if (status != LS_OK) status = ls__fail(ctx, status, "%s: %s", dir, ls_status_text(status));
    ls__bytes_free(&html);
    ls__sweep_history_close(&h);
    return status;
}
