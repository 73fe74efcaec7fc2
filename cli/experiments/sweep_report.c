/* sweep_report.c: see sweep_report.h. */
#include "experiments/sweep_report.h"
#include "experiments/page_command.h"
#include "io/json.h"
#include "report/page.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool sweep_report_is_sweep(const char *dir)
{
    char path[LS__RUN_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/sweep.json", dir);
    return ls__path_exists(path);
}

/* ---- The best trial ---- */

/* The options of [train] and the trial's values, as `lockstep train` reads them. False without
 * memory. */
static bool put_command(ls__html *html, const sweep_history *h, const sweep_trial *t)
{
    const char *words[LS_MAX_SETTINGS + 3] = { "train" }, *name;
    char value[SWEEP_VALUE_SIZE];
    json_t *option;
    int n = 1;
    bool good = true;
    json_object_foreach(json_object_get((json_t *)h->definition, "train"), name, option)
    {
        if (n + h->n_axes > LS_MAX_SETTINGS || !json_is_string(option)) continue;
        good = good && asprintf((char **)&words[n], "--%s=%s", name, json_string_value(option)) > 0;
        n += good;
    }
    for (int i = 0; i < h->n_axes && good; i++) {
        good = asprintf((char **)&words[n], "--%s=%s", h->axes[i].search.name,
                        sweep_history_text(h, t, i, value)) > 0;
        n += good;
    }
    const json_t *train = json_object_get(h->definition, "train");
    bool has_alpha = json_object_get(train, "alpha") || !sweep_ignores_alpha(h->dir, t->trial + 1);
    for (int i = 0; i < h->n_axes; i++)
        has_alpha = has_alpha || strcmp(h->axes[i].search.name, "alpha") == 0;
    if (good && !has_alpha) {
        words[n] = strdup("--alpha=ignore");
        good = words[n] != NULL;
        n += good;
    }
    words[n] = NULL;
    good = good && page_put_command(html, words);
    for (int i = 1; i < n; i++) free((char *)words[i]);
    return good;
}

static void put_tile(ls__html *html, const char *name, const char *value)
{
    ls__html_put(html, "<li><span>%s</span> <b>", name);
    ls__html_wrap(html, "", value, "</b></li>\n");
}

static bool put_best(ls__html *html, const sweep_history *h)
{
    const sweep_trial *best = h->n_trials > 0 ? h->ranked[0] : NULL;
    char text[SWEEP_VALUE_SIZE], name[64], weights[LS__RUN_PATH_SIZE + 32];
    if (!best || isnan(best->metric)) {
        ls__html_put(html, "<p class=\"card\">%s</p>\n",
                     best ? "All trials have failed." : "No trial has a result yet.");
        return true;
    }
    ls__page_begin_tiles(html, 3);
    snprintf(text, sizeof(text), "%.4f", best->metric);
    snprintf(name, sizeof(name), "%s %s",
             ls__run_metric_is_minimized(h->metric) ? "lowest" : "highest",
             sweep_metric_key(h->metric));
    put_tile(html, name, text);
    snprintf(text, sizeof(text), "%lld", (long long)best->trial);
    put_tile(html, "in trial", text);
    snprintf(text, sizeof(text), "%lld of %lld", (long long)best->best_epoch,
             (long long)best->epochs);
    put_tile(html, "after epoch", text);
    ls__html_put(html, "</ul>\n");
    sweep_trial_dir(h->dir, best->trial, weights);
    const bool has_weights = sweep_has_weights(weights, h->metric);
    strcat(weights, "/best.safetensors");
    if (has_weights)
        ls__html_wrap(html, "<p>weights of that epoch: <code>", weights, "</code></p>\n");
    if (!sweep_history_has_values(h, best)) return true;
    ls__html_put(html, "<div class=\"card\">\n<h3>Command of the best trial</h3>\n");
    const bool good = put_command(html, h, best);
    ls__html_put(html, "</div>\n");
    return good;
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

static bool put_importance(ls__html *html, const sweep_history *h)
{
    ls_search_effect effects[SWEEP_MAX_PARAMETERS];
    int order[SWEEP_MAX_PARAMETERS];
    int64_t epochs, n;
    if (!sweep_history_importance(h, &epochs, &n, effects)) return false;
    ls__html_put(html, "<section>\n<h2>Importance of the parameters</h2>\n");
    if (n < LS_SEARCH_IMPORTANCE_TRIALS) {
        ls__html_put(
            html,
            "<p class=\"card\">Too few trials: %lld with a result after epoch %lld; expected %d "
            "or more.</p>\n</section>\n",
            (long long)n, (long long)epochs, LS_SEARCH_IMPORTANCE_TRIALS);
        return true;
    }
    for (int i = 0; i < h->n_axes; i++) order[i] = i;
    qsort_r(order, (size_t)h->n_axes, sizeof(*order), compare_shares, effects);
    ls__page_begin_table(html, "Share of the variance that a parameter explains");
    ls__html_put(html, "<th scope=\"col\">parameter</th><th scope=\"col\" class=\"number\">share"
                       "</th><th scope=\"col\" class=\"number\">by chance</th><th scope=\"col\">"
                       "result</th></tr></thead>\n<tbody>\n");
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
    return true;
}

/* ---- The table of trials ---- */

static void put_row(ls__html *html, const sweep_history *h, int64_t rank)
{
    const sweep_trial *t = h->ranked[rank];
    char text[SWEEP_VALUE_SIZE];
    ls__html_put(html, "<tr><th scope=\"row\" class=\"number\">%lld</th>", (long long)t->trial);
    for (int i = 0; i < h->n_axes; i++)
        ls__html_cell(html, h->axes[i].names ? "<td>" : "<td class=\"number\">",
                      sweep_history_text(h, t, i, text), "</td>");
    ls__html_put(html, "<td class=\"number\">%lld</td>", (long long)t->epochs);
    if (isnan(t->metric))
        ls__html_put(html,
                     "<td class=\"number\">&ndash;</td><td class=\"number\">&ndash;</td><td>");
    else
        ls__html_put(html, "<td class=\"number\">%.4f</td><td class=\"number\">%lld</td><td>",
                     t->metric, (long long)t->best_epoch);
    const char *note = t->error                ? t->error
                       : isnan(t->metric)      ? "failed: the loss is not finite"
                       : rank == 0             ? "best"
                       : t->epochs < h->epochs ? "fewer epochs"
                                               : "";
    ls__html_cell(html, "", note, "</td></tr>\n");
}

static void put_trials(ls__html *html, const sweep_history *h)
{
    const char *const heads[] = { "epochs", sweep_metric_key(h->metric), "best epoch" };
    ls__html_put(html, "<section>\n<h2>Table of trials</h2>\n");
    ls__page_begin_table(html, "Trials, from the best to the worst");
    ls__html_put(html, "<th scope=\"col\" class=\"number\">trial</th>");
    for (int i = 0; i < h->n_axes; i++)
        ls__html_wrap(
            html, h->axes[i].names ? "<th scope=\"col\">" : "<th scope=\"col\" class=\"number\">",
            h->axes[i].search.name, "</th>");
    for (int k = 0; k < 3; k++)
        ls__html_put(html, "<th scope=\"col\" class=\"number\">%s</th>", heads[k]);
    ls__html_put(html, "<th scope=\"col\">note</th></tr></thead>\n<tbody>\n");
    const size_t begin = html->size;
    int64_t n = 0;
    while (n < h->n_trials && html->size - begin <= LS__TABLE_BYTES) put_row(html, h, n++);
    ls__page_end_table(html);
    ls__html_left_out(html, "trials", h->n_trials, n);
    ls__html_put(html, "</section>\n");
}

/* ---- The page ---- */

static void put_head(ls__html *html, const sweep_history *h)
{
    int64_t n_failed = 0, n_fewer = 0;
    for (int64_t i = 0; i < h->n_trials; i++) {
        n_failed += isnan(h->trials[i].metric);
        n_fewer += !isnan(h->trials[i].metric) && h->trials[i].epochs < h->epochs;
    }
    ls__page_begin(html, h->dir);
    ls__html_put(html, "<p>sweep of %lld trial%s", (long long)h->n_trials, plural(h->n_trials));
    ls__html_wrap(html, ", method ", ls__json_get_string(h->definition, "method"), "");
    if (n_fewer > 0) ls__html_put(html, ", %lld with fewer epochs", (long long)n_fewer);
    if (n_failed > 0) ls__html_put(html, ", %lld failed", (long long)n_failed);
    ls__html_put(html, "</p>\n");
    ls__page_main(html);
}

static bool put_page(ls__html *html, const sweep_history *h)
{
    put_head(html, h);
    if (!put_best(html, h)) return print_error(NULL, false);
    if (h->n_trials == 0) return true;
    ls__html_put(html,
                 "<section>\n<h2>Parameters and results</h2>\n<figure>\n<figcaption>A line per "
                 "trial</figcaption>\n");
    ls_status status = sweep_put_parallel(html, h);
    sweep_put_legend(html, h);
    ls__html_put(html, "</figure>\n</section>\n");
    if (status == LS_OK && !put_importance(html, h)) return false;
    if (status == LS_OK) status = sweep_put_curves(html, h);
    put_trials(html, h);
    return status == LS_OK ||
           print_error(ls_context_status(h->ctx) == LS_OK ? NULL : h->ctx, false);
}

bool sweep_report_write(ls_context *ctx, const char *dir, const char *path)
{
    sweep_history h;
    ls__html html = { .ctx = ctx };
    bool good = sweep_history_read(ctx, dir, &h) && put_page(&html, &h);
    if (good && ls__page_save(&html, dir, path) != LS_OK) good = print_error(ctx, false);
    ls__html_free(&html);
    sweep_history_close(&h);
    return good;
}
