/* sweep_history.c: what the folder of a sweep contains; see sweep_report.h. */
#include "experiment/sweep_report.h"

#include "base/error.h"
#include "io/json.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The definition ---- */

/* Options and their values, which are paths at most. */
enum { MAX_WORD_BYTES = 1024 };

static bool read_axis(const json_t *parameter, ls__sweep_parameter *axis)
{
    const json_t *values = json_object_get(parameter, "values"), *value;
    ls_search_parameter *p = &axis->search;
    size_t i;
    p->name = ls__json_get_string(parameter, "option");
    if (!p->name || strlen(p->name) > MAX_WORD_BYTES) return false;
    if (json_is_string(values)) {
        const bool is_range = ls__sweep_parse_range(json_string_value(values), p);
        p->count = 0; /* the points of a grid are not listed */
        return is_range && p->low <= p->high && isfinite(p->high - p->low) &&
               (p->kind != LS_SEARCH_LOG || p->low > 0);
    }
    p->kind = LS_SEARCH_LIST;
    if (json_array_size(values) > LS__SWEEP_MAX_VALUES) return false;
    axis->values = calloc(json_array_size(values) + 1, sizeof(*axis->values));
    json_array_foreach((json_t *)values, i, value)
    {
        if (!axis->values || !json_is_string(value) || json_string_length(value) > MAX_WORD_BYTES)
            return false;
        axis->values[p->count++] = json_string_value(value);
    }
    return p->count > 0;
}

static ls_status read_definition(ls__sweep_history *h, const char *path)
{
    const json_t *search, *parameter;
    size_t i;
    h->definition = json_object_get(h->file, "sweep");
    search = json_object_get(h->definition, "search");
    const char *metric = ls__json_get_string(h->definition, "metric");
    h->metric = metric ? ls__sweep_metric_find(metric) : -1;
    if (h->metric < 0 || json_array_size(search) < 1 ||
        json_array_size(search) > LS__SWEEP_MAX_PARAMETERS)
        return ls__fail(h->ctx, LS_ERR_FORMAT,
                        "%s: expected 'metric' and a list 'search' in 'sweep'", path);
    json_array_foreach((json_t *)search, i, parameter)
    {
        if (!read_axis(parameter, &h->axes[h->n_axes++]))
            return ls__fail(h->ctx, LS_ERR_FORMAT, "%s: element %zu of 'search' is malformed", path,
                            i + 1);
    }
    return LS_OK;
}

/* ---- Trials ---- */

static double value_of(const ls__sweep_parameter *axis, const json_t *row)
{
    const char *text = ls__json_get_string(json_object_get(row, "options"), axis->search.name);
    char *end = NULL;
    for (int64_t i = 0; text && i < axis->search.count; i++)
        if (strcmp(axis->values[i], text) == 0) return (double)i;
    const double value = text && !axis->values ? strtod(text, &end) : NAN;
    return end && end != text && isfinite(value) ? value : NAN;
}

/* Of the run of a trial, which has the epochs of all trials. 0 for a trial that has not begun. */
static int64_t read_epochs(const ls__sweep_history *h, int64_t trial)
{
    char path[LS__RUN_PATH_SIZE + 16], reason[LS__JSON_REASON_SIZE];
    json_t *config;
    const int n = ls__sweep_trial_dir(h->dir, trial, path, LS__RUN_PATH_SIZE);
    snprintf(path + n, sizeof(path) - (size_t)n, "/config.json");
    ls__json_read_own(path, &config, reason);
    const int64_t epochs = ls__json_get_integer(json_object_get(config, "options"), "epochs");
    json_decref(config);
    return epochs;
}

static ls_status read_trials(ls__sweep_history *h, const char *path)
{
    const json_t *rows = json_object_get(h->file, "results");
    LS_TRY(ls__sweep_results_read(h->ctx, path, rows, &h->results));
    h->trials = calloc((size_t)h->results.n + 1, sizeof(*h->trials));
    if (!h->trials) return ls__fail_memory(h->ctx, path, 0);
    for (int64_t i = 0; i < h->results.n; i++) {
        const ls_sweep_trial *r = &h->results.items[i];
        if (i > 0 && r[-1].trial == r->trial) {
            h->trials[h->n_trials - 1].last = *r;
            continue;
        }
        ls__sweep_past *t = &h->trials[h->n_trials++];
        t->last = *r;
        for (int k = 0; k < h->n_axes; k++)
            t->values[k] = value_of(&h->axes[k], json_array_get(rows, (size_t)i));
        if (h->epochs == 0) h->epochs = read_epochs(h, r->trial);
    }
    return LS_OK;
}

/* Failed ones last. */
static int compare_trials(const void *a, const void *b, void *history)
{
    const ls_sweep_trial *x = &(*(const ls__sweep_past *const *)a)->last,
                         *y = &(*(const ls__sweep_past *const *)b)->last;
    const int metric = ((const ls__sweep_history *)history)->metric;
    const bool x_failed = isnan(x->metric), y_failed = isnan(y->metric);
    if (x_failed != y_failed) return x_failed ? 1 : -1;
    if (!x_failed && x->metric != y->metric)
        return ls__sweep_is_better(metric, x->metric, y->metric) ? -1 : 1;
    return (x->trial > y->trial) - (x->trial < y->trial);
}

static ls_status rank_trials(ls__sweep_history *h)
{
    h->ranked = calloc((size_t)h->n_trials + 1, sizeof(*h->ranked));
    if (!h->ranked) return ls__fail_memory(h->ctx, h->dir, 0);
    for (int64_t i = 0; i < h->n_trials; i++) {
        h->ranked[i] = &h->trials[i];
        h->trials[i].values[h->n_axes] = h->trials[i].last.metric;
    }
    qsort_r(h->ranked, (size_t)h->n_trials, sizeof(*h->ranked), compare_trials, h);
    return LS_OK;
}

ls_status ls__sweep_history_read(ls_context *ctx, const char *dir, ls__sweep_history *out)
{
    char path[LS__RUN_PATH_SIZE], reason[LS__JSON_REASON_SIZE];
    *out = (ls__sweep_history){ .ctx = ctx, .dir = dir };
    snprintf(path, sizeof(path), "%s/sweep.json", dir);
    const ls_status status = ls__json_read_own(path, &out->file, reason);
    if (status != LS_OK) return ls__fail(ctx, status, "%s: %s", path, reason);
    LS_TRY(read_definition(out, path));
    LS_TRY(read_trials(out, path));
    return rank_trials(out);
}

void ls__sweep_history_close(ls__sweep_history *h)
{
    for (int i = 0; i < h->n_axes; i++) free(h->axes[i].values);
    free(h->trials);
    free(h->ranked);
    ls__sweep_results_free(&h->results);
    json_decref(h->file);
    *h = (ls__sweep_history){ 0 };
}

bool ls__sweep_history_has_values(const ls__sweep_history *h, const ls__sweep_past *trial)
{
    for (int i = 0; i < h->n_axes; i++)
        if (isnan(trial->values[i])) return false;
    return true;
}

/* ---- Importance ---- */

/* The epochs after which most results are known; of equally many the larger ones. */
static int64_t common_epochs(const ls__sweep_results *results)
{
    enum { MAX_RUNGS = 64 }; /* epochs of rungs grow by a factor */
    struct {
        int64_t epochs, n;
    } rungs[MAX_RUNGS] = { { 0, 0 } };
    int best = 0;
    for (int64_t i = 0; i < results->n; i++) {
        const int64_t epochs = results->items[i].epochs;
        int k = 0;
        while (k + 1 < MAX_RUNGS && rungs[k].n > 0 && rungs[k].epochs != epochs) k++;
        rungs[k].epochs = epochs;
        rungs[k].n++;
    }
    for (int k = 1; k < MAX_RUNGS; k++)
        if (rungs[k].n > rungs[best].n ||
            (rungs[k].n == rungs[best].n && rungs[k].epochs > rungs[best].epochs))
            best = k;
    return rungs[best].epochs;
}

ls_status ls__sweep_history_importance(const ls__sweep_history *h, int64_t *epochs, int64_t *n,
                                       ls_search_effect effects[LS__SWEEP_MAX_PARAMETERS])
{
    const size_t max = (size_t)h->n_trials + 1;
    const ls__sweep_past **trials = calloc(max, sizeof(*trials));
    double *metrics = calloc(max, sizeof(*metrics)), *values = calloc(max, sizeof(*values));
    const ls__sweep_past *at = h->trials; /* of the result: both are in the order of trials */
    ls_status status = trials && metrics && values ? LS_OK : ls__fail_memory(h->ctx, h->dir, 0);
    *epochs = common_epochs(&h->results);
    *n = 0;
    for (int64_t i = 0; i < h->results.n && status == LS_OK; i++) {
        const ls_sweep_trial *r = &h->results.items[i];
        if (r->epochs != *epochs) continue;
        while (at->last.trial != r->trial) at++;
        if (!ls__sweep_history_has_values(h, at)) continue;
        trials[*n] = at;
        metrics[(*n)++] = r->metric;
    }
    for (int axis = 0; axis < h->n_axes && status == LS_OK; axis++) {
        for (int64_t k = 0; k < *n; k++) values[k] = trials[k]->values[axis];
        status = ls_search_importance(h->ctx, &h->axes[axis].search, *n, values, metrics,
                                      !ls__run_metric_is_minimized(h->metric), &effects[axis]);
    }
    free(trials);
    free(metrics);
    free(values);
    return status;
}
