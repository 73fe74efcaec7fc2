/* sweep_history.c: see sweep_history.h. */
#include "experiments/sweep_history.h"
#include "io/json.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *sweep_metric_key(int metric)
{
#define KEY(NAME, word) "val_" word,
    static const char *const keys[] = { LS__METRICS(KEY) };
#undef KEY
    return keys[metric];
}

void sweep_trial_dir(const char *sweep_dir, int64_t trial, char dir[LS__RUN_PATH_SIZE])
{
    snprintf(dir, LS__RUN_PATH_SIZE, "%s/trial-%03lld", sweep_dir, (long long)trial);
}

/* The config.json of a trial's run; NULL if it can't be read. */
static json_t *read_config(const char *trial_dir)
{
    char path[LS__RUN_PATH_SIZE + 16], reason[LS__JSON_REASON_SIZE];
    json_t *config;
    snprintf(path, sizeof(path), "%s/config.json", trial_dir);
    ls__json_read_own(path, &config, reason);
    return config;
}

bool sweep_has_weights(const char *trial_dir, int metric)
{
    json_t *config = read_config(trial_dir);
    const json_t *options = json_object_get(config, "options");
    const char *loss = ls__json_get_string(options, "loss");
    const char *decides = ls__json_get_string(options, "metric");
    const bool by_loss = loss && strcmp(loss, "cross-entropy") != 0;
    if (!decides || by_loss)
        decides = ls__run_metric_name(by_loss ? LS__METRIC_LOSS : LS__METRIC_TOP1);
    const bool same = strcmp(decides, ls__run_metric_name(metric)) == 0;
    json_decref(config);
    return same;
}

bool sweep_ignores_alpha(const char *sweep_dir, int64_t n)
{
    char dir[LS__RUN_PATH_SIZE];
    json_t *config = NULL;
    for (int64_t i = 0; i < n && !config; i++) {
        sweep_trial_dir(sweep_dir, i, dir);
        config = read_config(dir);
    }
    const json_t *options = json_object_get(config, "options");
    const bool ignores = options && !json_object_get(options, "alpha");
    json_decref(config);
    return ignores;
}

/* ---- The definition ---- */

/* Options and their values, which are paths at most. */
enum { MAX_WORD_BYTES = 1024 };

static bool read_axis(const json_t *parameter, sweep_axis *axis)
{
    const json_t *values = json_object_get(parameter, "values"), *value;
    ls_search_parameter *p = &axis->search;
    size_t i;
    p->name = ls__json_get_string(parameter, "option");
    if (!p->name || strlen(p->name) > MAX_WORD_BYTES) return false;
    if (json_is_string(values)) {
        const bool is_range = sweep_parse_range(json_string_value(values), p);
        p->count = 0; /* the points of a grid are not listed */
        return is_range && p->low <= p->high && isfinite(p->high - p->low) &&
               (p->kind != LS_SEARCH_LOG || p->low > 0);
    }
    p->kind = LS_SEARCH_LIST;
    if (json_array_size(values) > SWEEP_MAX_VALUES) return false;
    axis->names = calloc(json_array_size(values) + 1, sizeof(*axis->names));
    json_array_foreach((json_t *)values, i, value)
    {
        if (!axis->names || !json_is_string(value) || json_string_length(value) > MAX_WORD_BYTES)
            return false;
        axis->names[p->count++] = json_string_value(value);
    }
    return p->count > 0;
}

static bool read_definition(sweep_history *h, const char *path)
{
    const json_t *search, *parameter;
    size_t i;
    h->definition = json_object_get(h->file, "sweep");
    search = json_object_get(h->definition, "search");
    const char *metric = ls__json_get_string(h->definition, "metric");
    h->metric = metric ? sweep_metric_find(metric) : -1;
    if (h->metric < 0 || json_array_size(search) < 1 ||
        json_array_size(search) > SWEEP_MAX_PARAMETERS)
        return fail_with(false, "%s: expected 'metric' and a list 'search' in 'sweep'", path);
    json_array_foreach((json_t *)search, i, parameter)
    {
        if (!read_axis(parameter, &h->axes[h->n_axes++]))
            return fail_with(false, "%s: element %zu of 'search' is malformed", path, i + 1);
    }
    return true;
}

/* ---- Trials ---- */

static double value_of(const sweep_axis *axis, const json_t *row)
{
    const char *text = ls__json_get_string(json_object_get(row, "options"), axis->search.name);
    char *end = NULL;
    for (int64_t i = 0; text && i < axis->search.count; i++)
        if (strcmp(axis->names[i], text) == 0) return (double)i;
    const double value = text && !axis->names ? strtod(text, &end) : NAN;
    return end && end != text && isfinite(value) ? value : NAN;
}

/* Of the run of a trial, which has the epochs of all trials. 0 for a trial that has not begun. */
static int64_t read_epochs(const sweep_history *h, int64_t trial)
{
    char dir[LS__RUN_PATH_SIZE];
    sweep_trial_dir(h->dir, trial, dir);
    json_t *config = read_config(dir);
    const int64_t epochs = ls__json_get_integer(json_object_get(config, "options"), "epochs");
    json_decref(config);
    return epochs;
}

static double metric_of(const json_t *row)
{
    const json_t *value = json_object_get(row, "value");
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* The rows of a trial follow each other, with more and more epochs. */
static bool read_trials(sweep_history *h, const char *path)
{
    const json_t *rows = json_object_get(h->file, "results"), *row;
    size_t i;
    h->trials = calloc(json_array_size(rows) + 1, sizeof(*h->trials));
    if (!h->trials) return print_error(NULL, false);
    json_array_foreach((json_t *)rows, i, row)
    {
        const json_t *number = json_object_get(row, "trial");
        sweep_trial *last = h->n_trials > 0 ? &h->trials[h->n_trials - 1] : NULL;
        const int64_t trial = json_integer_value(number);
        const int64_t epochs = ls__json_get_integer(row, "epochs");
        if (!json_is_integer(number) || trial < 0 || trial >= LS_SEARCH_MAX_TRIALS ||
            (last && trial < last->trial) ||
            (last && trial == last->trial && epochs <= last->epochs))
            return fail_with(false, "%s: result %zu is malformed", path, i + 1);
        if (!last || trial > last->trial) {
            last = &h->trials[h->n_trials++];
            last->trial = trial;
            for (int k = 0; k < h->n_axes; k++) last->values[k] = value_of(&h->axes[k], row);
            if (h->epochs == 0) h->epochs = read_epochs(h, trial);
        }
        last->epochs = epochs;
        last->best_epoch = ls__json_get_integer(row, "best_epoch");
        last->metric = metric_of(row);
        json_t *error = json_object_get(row, "error");
        if (json_is_string(error) && !ls__json_restore(h->ctx, error))
            return print_error(NULL, false);
        last->error = json_string_value(error);
    }
    return true;
}

static int compare_losses(const void *a, const void *b)
{
    const sweep_trial *x = *(const sweep_trial *const *)a, *y = *(const sweep_trial *const *)b;
    const bool x_failed = isnan(x->metric), y_failed = isnan(y->metric);
    if (x_failed != y_failed) return x_failed ? 1 : -1;
    if (!x_failed && x->metric != y->metric) return x->metric < y->metric ? -1 : 1;
    return (x->trial > y->trial) - (x->trial < y->trial);
}

static int compare_accuracies(const void *a, const void *b)
{
    const sweep_trial *x = *(const sweep_trial *const *)a, *y = *(const sweep_trial *const *)b;
    const bool both = !isnan(x->metric) && !isnan(y->metric) && x->metric != y->metric;
    return both ? compare_losses(b, a) : compare_losses(a, b);
}

static bool rank_trials(sweep_history *h)
{
    h->ranked = calloc((size_t)h->n_trials + 1, sizeof(*h->ranked));
    if (!h->ranked) return print_error(NULL, false);
    for (int64_t i = 0; i < h->n_trials; i++) h->ranked[i] = &h->trials[i];
    qsort(h->ranked, (size_t)h->n_trials, sizeof(*h->ranked),
          ls__run_metric_is_minimized(h->metric) ? compare_losses : compare_accuracies);
    return true;
}

bool sweep_history_read(ls_context *ctx, const char *dir, sweep_history *out)
{
    char path[LS__RUN_PATH_SIZE], reason[LS__JSON_REASON_SIZE];
    *out = (sweep_history){ .ctx = ctx, .dir = dir };
    snprintf(path, sizeof(path), "%s/sweep.json", dir);
    if (ls__json_read_own(path, &out->file, reason) != LS_OK)
        return fail_with(false, "%s: %s", path, reason);
    return read_definition(out, path) && read_trials(out, path) && rank_trials(out);
}

void sweep_history_close(sweep_history *h)
{
    for (int i = 0; i < h->n_axes; i++) free(h->axes[i].names);
    free(h->trials);
    free(h->ranked);
    json_decref(h->file);
    *h = (sweep_history){ 0 };
}

const char *sweep_history_text(const sweep_history *h, const sweep_trial *trial, int i,
                               char out[SWEEP_VALUE_SIZE])
{
    const double value = trial->values[i];
    if (isnan(value)) return "\xe2\x80\x93";
    if (h->axes[i].names) return h->axes[i].names[(int)value];
    snprintf(out, SWEEP_VALUE_SIZE, "%.15g", value);
    return out;
}

bool sweep_history_has_values(const sweep_history *h, const sweep_trial *trial)
{
    for (int i = 0; i < h->n_axes; i++)
        if (isnan(trial->values[i])) return false;
    return true;
}

/* ---- Importance ---- */

/* The epochs after which most results are known; of equally many the larger ones. */
static int64_t common_epochs(const json_t *rows)
{
    enum { MOST_RUNGS = 64 }; /* epochs of rungs grow by a factor */
    struct {
        int64_t epochs, n;
    } rungs[MOST_RUNGS] = { { 0, 0 } };
    const json_t *row;
    size_t i;
    int best = 0;
    json_array_foreach((json_t *)rows, i, row)
    {
        const int64_t epochs = ls__json_get_integer(row, "epochs");
        int k = 0;
        while (k + 1 < MOST_RUNGS && rungs[k].n > 0 && rungs[k].epochs != epochs) k++;
        rungs[k].epochs = epochs;
        rungs[k].n++;
    }
    for (int k = 1; k < MOST_RUNGS; k++)
        if (rungs[k].n > rungs[best].n ||
            (rungs[k].n == rungs[best].n && rungs[k].epochs > rungs[best].epochs))
            best = k;
    return rungs[best].epochs;
}

bool sweep_history_importance(const sweep_history *h, int64_t *epochs, int64_t *n,
                              ls_search_effect effects[SWEEP_MAX_PARAMETERS])
{
    const json_t *rows = json_object_get(h->file, "results"), *row;
    const size_t most = (size_t)h->n_trials + 1;
    const sweep_trial **trials = calloc(most, sizeof(*trials));
    double *metrics = calloc(most, sizeof(*metrics)), *values = calloc(most, sizeof(*values));
    const sweep_trial *at = h->trials; /* of the row: both are in the order of trials */
    bool good = trials && metrics && values;
    size_t i;
    *epochs = common_epochs(rows);
    *n = 0;
    json_array_foreach((json_t *)rows, i, row)
    {
        if (!good || ls__json_get_integer(row, "epochs") != *epochs) continue;
        while (at->trial != ls__json_get_integer(row, "trial")) at++;
        if (!sweep_history_has_values(h, at)) continue;
        trials[*n] = at;
        metrics[(*n)++] = metric_of(row);
    }
    for (int axis = 0; axis < h->n_axes && good; axis++) {
        for (int64_t k = 0; k < *n; k++) values[k] = trials[k]->values[axis];
        good =
            ls_search_importance(h->ctx, &h->axes[axis].search, *n, values, metrics,
                                 !ls__run_metric_is_minimized(h->metric), &effects[axis]) == LS_OK;
    }
    free(trials);
    free(metrics);
    free(values);
    return good || print_error(h->ctx, false);
}
