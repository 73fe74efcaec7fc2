/* sweep_results.c: the results of a sweep and OUT/sweep.json; see sweep.h. */
#include "base/error.h"
#include "base/text.h"
#include "checkpoint/identity.h"
#include "experiment/sweep.h"
#include "io/json.h"
#include "log/metrics.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int ls__sweep_trial_dir(const char *sweep_dir, int64_t trial, char *out, size_t size)
{
    return snprintf(out, size, "%s/trial-%03lld", sweep_dir, (long long)trial);
}

/* ---- What the results depend on: options and images ---- */

static json_t *parameter_to_json(const ls__sweep_parameter *p)
{
    if (!p->values) return json_string(p->text);
    ls__json_builder list = { json_array(), false };
    for (int64_t i = 0; i < p->search.count; i++) ls__json_append(&list, json_string(p->values[i]));
    return ls__json_finish(&list);
}

/* Whether a trial does not depend on the number of trials. */
static bool can_extend(const ls_sweep *s)
{
    return s->values.method == LS_SEARCH_RANDOM || s->values.method == LS_SEARCH_TPE;
}

static json_t *make_definition(const ls_sweep *s)
{
    const ls__sweep_file *f = &s->file;
    ls__json_builder all = { json_object(), false }, train = { json_object(), false },
                     search = { json_array(), false };
    json_t *options = ls__settings_to_json(ls_sweep_settings(), &s->values);
    for (int i = 0; i < f->n_fixed; i++)
        if (!f->fixed[i].setting->execution || strcmp(f->fixed[i].setting->name, "data-dir") == 0)
            ls__json_put(&train, f->fixed[i].setting->name, parameter_to_json(&f->fixed[i]));
    for (int i = 0; i < f->n_searched; i++)
        ls__json_append(&search, json_pack("{s:s,s:o}", "option", f->searched[i].setting->name,
                                           "values", parameter_to_json(&f->searched[i])));
    for (const ls_setting *o = ls_sweep_settings(); o->kind != LS_SETTING_END; o++)
        if (o->name && !o->execution && !(can_extend(s) && strcmp(o->name, "trials") == 0))
            ls__json_put(&all, o->name, json_incref(json_object_get(options, o->name)));
    json_decref(options);
    ls__json_put(&all, "train", ls__json_finish(&train));
    ls__json_put(&all, "search", ls__json_finish(&search));
    return ls__json_finish(&all);
}

/* Writes the differences, each as a line after `where`, as many as there is room for. Returns them;
 * NULL without memory. */
static json_t *list_differences(const char *where, const json_t *stored, const json_t *here,
                                ls__text *out)
{
    char text[512];
    size_t i;
    json_t *difference, *all = ls__identity_differences(stored, here, true);
    json_array_foreach(all, i, difference)
        ls__text_put(out, "%s%s: %s", i > 0 ? "\n" : "", where,
                     ls__identity_text(difference, "in the sweep", "now", text, sizeof(text)));
    return all;
}

/* The definition with the values of [search] by option, so that a difference names its option, and
 * with their order. */
static json_t *search_by_option(const json_t *definition)
{
    ls__json_builder all = { json_copy((json_t *)definition), false },
                     search = { json_object(), false }, order = { json_array(), false };
    size_t i;
    json_t *one;
    json_array_foreach(json_object_get(definition, "search"), i, one)
    {
        json_t *name = json_object_get(one, "option");
        const char *key = json_is_string(name) ? json_string_value(name) : "";
        ls__json_put(&search, key, json_incref(json_object_get(one, "values")));
        ls__json_append(&order, json_incref(name));
    }
    ls__json_put(&all, "search", ls__json_finish(&search));
    ls__json_put(&all, "order of [search]", ls__json_finish(&order));
    return ls__json_finish(&all);
}

static ls_status check_definition(const ls_sweep *s, const char *path, const json_t *stored)
{
    char lines[LS__MESSAGE_SIZE] = "";
    json_t *there = search_by_option(stored), *here = search_by_option(s->definition);
    json_t *all = there && here
                      ? list_differences(path, there, here, &(ls__text){ lines, sizeof(lines), 0 })
                      : NULL;
    json_decref(there);
    json_decref(here);
    if (!all) return ls__fail_memory(s->ctx, path, 0);
    if (json_array_size(all) > 0) {
        ls__fail(s->ctx, LS_ERR_SETTING,
                 "%s: the folder contains another sweep; choose another --out", path);
        ls__error_hint(s->ctx, "%s", lines);
    }
    json_decref(all);
    return ls_context_status(s->ctx);
}

/* With --force, adds the differences to s->forced. */
static ls_status check_images(ls_sweep *s, const json_t *stored)
{
    char lines[LS__MESSAGE_SIZE] = "";
    const char *dir = ls__sweep_fixed_text(&s->file, "data-dir");
    json_t *all = list_differences(dir, stored, s->images, &(ls__text){ lines, sizeof(lines), 0 });
    if (json_array_size(all) > 0 && !s->values.force) {
        ls__fail(s->ctx, LS_ERR_MISMATCH,
                 "%s: the images are not those that the sweep in %s has trained on; restore them, "
                 "or choose another --out. If only unreadable images were repaired, --force "
                 "continues",
                 dir, s->values.out);
        ls__error_hint(s->ctx, "%s", lines);
    }
    for (char *line = lines, *end; s->values.force && *line; line = end + (*end != '\0')) {
        end = line + strcspn(line, "\n");
        ls__warn(s->ctx, LS_LOG_RUN, "%.*s", (int)(end - line), line);
    }
    if (!all || json_array_extend(s->forced, all) != 0) ls__fail_memory(s->ctx, "sweep", 0);
    json_decref(all);
    return ls_context_status(s->ctx);
}

/* ---- Results ---- */

static bool is_before(const ls_sweep_trial *r, int64_t trial, int64_t epochs)
{
    return r->trial < trial || (r->trial == trial && r->epochs < epochs);
}

/* How many results are before this one. */
static int64_t count_before(const ls__sweep_results *results, int64_t trial, int64_t epochs)
{
    int64_t low = 0, high = results->n;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (is_before(&results->items[middle], trial, epochs))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const ls_sweep_trial *ls__sweep_find(const ls_sweep *s, int64_t trial, int64_t epochs)
{
    const int64_t i = count_before(&s->results, trial, epochs);
    const ls_sweep_trial *r = i < s->results.n ? &s->results.items[i] : NULL;
    return r && r->trial == trial && r->epochs == epochs ? r : NULL;
}

const ls_sweep_trial *ls_sweep_trial_at(const ls_sweep *sweep, int64_t trial)
{
    const int64_t n = sweep ? count_before(&sweep->results, trial, INT64_MAX) : 0;
    const ls_sweep_trial *last = n > 0 ? &sweep->results.items[n - 1] : NULL;
    return last && last->trial == trial ? last : NULL;
}

ls_status ls__sweep_add(ls_context *ctx, ls__sweep_results *results, const ls_sweep_trial *result)
{
    if (results->n == results->capacity) {
        const int64_t capacity = 2 * results->capacity + 16;
        ls_sweep_trial *larger = realloc(results->items, (size_t)capacity * sizeof(*larger));
        if (!larger) {
            free((char *)result->error);
            return ls__fail_memory(ctx, "sweep", (size_t)capacity * sizeof(*larger));
        }
        results->items = larger;
        results->capacity = capacity;
    }
    const int64_t i = count_before(results, result->trial, result->epochs);
    memmove(&results->items[i + 1], &results->items[i],
            (size_t)(results->n++ - i) * sizeof(*result));
    results->items[i] = *result;
    return LS_OK;
}

/* Of a trial that has begun. */
static json_t *values_to_json(const ls_sweep *s, int64_t trial)
{
    ls__json_builder values = { json_object(), false };
    for (int i = 0; i < s->file.n_searched; i++) {
        const ls__sweep_parameter *p = &s->file.searched[i];
        char text[LS_SWEEP_VALUE_SIZE];
        ls__json_put_text(&values, p->setting->name,
                          ls__sweep_value_text(p, ls_search_value(s->search, trial, i), text));
    }
    return ls__json_finish(&values);
}

static json_t *result_to_json(const ls_sweep *s, const ls_sweep_trial *r)
{
    ls__json_builder row = { json_object(), false };
    ls__json_put(&row, "trial", json_integer(r->trial));
    ls__json_put(&row, "epochs", json_integer(r->epochs));
    ls__json_put(&row, "options", values_to_json(s, r->trial));
    ls__json_put(&row, "value", isnan(r->metric) ? json_null() : json_real(r->metric));
    ls__json_put(&row, "best_epoch", isnan(r->metric) ? json_null() : json_integer(r->best_epoch));
    if (r->error) ls__json_put(&row, "error", ls__json_text(s->ctx, r->error));
    return ls__json_finish(&row);
}

ls_status ls__sweep_results_write(ls_sweep *s)
{
    char path[LS__RUN_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/sweep.json", s->values.out);
    ls__json_builder all = { json_object(), false }, results = { json_array(), false };
    for (int64_t i = 0; i < s->results.n; i++)
        ls__json_append(&results, result_to_json(s, &s->results.items[i]));
    ls__json_put(&all, "sweep", json_incref(s->definition));
    ls__json_put(&all, "images", json_incref(s->images));
    if (json_array_size(s->forced) > 0) ls__json_put(&all, "forced", json_incref(s->forced));
    ls__json_put(&all, "results", ls__json_finish(&results));
    json_t *json = ls__json_finish(&all);
    const ls_status status = ls__json_save(s->ctx, path, json);
    json_decref(json);
    s->is_report_old |= status == LS_OK;
    return status;
}

/* ---- Reading ---- */

void ls__sweep_results_free(ls__sweep_results *results)
{
    for (int64_t i = 0; i < results->n; i++) free((char *)results->items[i].error);
    free(results->items);
    *results = (ls__sweep_results){ 0 };
}

/* A row has a trial, and more epochs than the row before it of the same trial. Those who continue
 * the sweep check the rest. */
static bool read_row(const ls__sweep_results *before, const json_t *row, ls_sweep_trial *out)
{
    const json_t *trial = json_object_get(row, "trial"), *value = json_object_get(row, "value");
    const ls_sweep_trial *last = before->n > 0 ? &before->items[before->n - 1] : NULL;
    *out = (ls_sweep_trial){ .trial = json_integer_value(trial),
                             .epochs = ls__json_get_integer(row, "epochs"),
                             .metric = json_is_number(value) ? json_number_value(value) : NAN,
                             .best_epoch = ls__json_get_integer(row, "best_epoch") };
    return json_is_integer(trial) && out->trial >= 0 && out->trial < LS_SEARCH_MAX_TRIALS &&
           (!value || json_is_number(value) || json_is_null(value)) &&
           (!last || is_before(last, out->trial, out->epochs));
}

static ls_status fail_row(ls_context *ctx, const char *path, size_t i)
{
    return ls__fail(ctx, LS_ERR_FORMAT, "%s: result %zu is malformed", path, i + 1);
}

ls_status ls__sweep_results_read(ls_context *ctx, const char *path, const json_t *rows,
                                 ls__sweep_results *out)
{
    size_t i;
    json_t *row;
    json_array_foreach((json_t *)rows, i, row)
    {
        ls_sweep_trial result;
        json_t *error = json_object_get(row, "error");
        if (!read_row(out, row, &result)) return fail_row(ctx, path, i);
        if (json_is_string(error) &&
            (!ls__json_restore(ctx, error) || !(result.error = strdup(json_string_value(error)))))
            return ls__fail_memory(ctx, path, 0);
        LS_TRY(ls__sweep_add(ctx, out, &result));
    }
    return LS_OK;
}

/* Whether the sweep can have written the result. */
static bool is_own(const ls_sweep *s, const ls_sweep_trial *r)
{
    const bool has_failed = isnan(r->metric);
    return (can_extend(s) || r->trial < ls_search_trial_count(s->search)) && r->epochs >= 1 &&
           r->epochs <= s->epochs &&
           (has_failed || (r->best_epoch >= 1 && r->best_epoch <= r->epochs));
}

static ls_status read_results(ls_sweep *s, const char *path, const json_t *rows)
{
    const ls__sweep_results *results = &s->results;
    LS_TRY(ls__sweep_results_read(s->ctx, path, rows, &s->results));
    for (int64_t i = 0; i < results->n; i++)
        if (!is_own(s, &results->items[i])) return fail_row(s->ctx, path, (size_t)i);
    const long long n = results->n > 0 ? results->items[results->n - 1].trial + 1 : 0;
    const long long n_trials = ls_search_trial_count(s->search);
    if (n <= n_trials) return LS_OK;
    return ls__fail(s->ctx, LS_ERR_SETTING,
                    "%s has results of trials 0 to %lld: expected trials = %lld or more, got %lld",
                    path, n - 1, n, n_trials);
}

static ls_status check_stored(ls_sweep *s, const char *path, const json_t *json)
{
    const json_t *definition = json_object_get(json, "sweep");
    const json_t *images = json_object_get(json, "images");
    const json_t *results = json_object_get(json, "results");
    json_t *forced = json_object_get(json, "forced");
    if (!json_is_object(definition) || !json_is_object(images) || !json_is_array(results))
        return ls__fail(s->ctx, LS_ERR_FORMAT, "%s: expected 'sweep', 'images' and 'results'",
                        path);
    s->forced = json_is_array(forced) ? json_incref(forced) : json_array();
    LS_TRY(check_definition(s, path, definition));
    LS_TRY(check_images(s, images));
    return read_results(s, path, results);
}

ls_status ls__sweep_open_results(ls_sweep *s)
{
    char path[LS__RUN_PATH_SIZE], reason[LS__JSON_REASON_SIZE];
    json_t *json;
    snprintf(path, sizeof(path), "%s/sweep.json", s->values.out);
    s->definition = make_definition(s);
    if (!s->definition) return ls__fail_memory(s->ctx, path, 0);
    ls_status status = ls__json_read(path, &json, reason);
    if (status == LS_ERR_NOT_FOUND) return ls__sweep_results_write(s);
    if (status != LS_OK) return ls__fail(s->ctx, status, "%s: %s", path, reason);
    status = check_stored(s, path, json);
    json_decref(json);
    return status;
}

/* The best epoch is chosen as the trainer chooses that of best.safetensors. */
ls_status ls__sweep_read_metric(const ls_sweep *s, const char *dir, ls_sweep_trial *result)
{
    json_t *rows, *row;
    size_t i;
    LS_TRY(ls__metrics_read(s->ctx, dir, &rows));
    double best_loss = 0;
    json_array_foreach(rows, i, row)
    {
        const json_t *value = json_object_get(row, ls__sweep_metric_key(s->values.metric));
        const int64_t epoch = ls__json_get_integer(row, "epoch");
        const double x = json_number_value(value);
        const double loss = json_number_value(json_object_get(row, "val_loss"));
        if (!json_is_number(value) || epoch > result->epochs) continue;
        const bool is_first = result->best_epoch == 0;
        if (!is_first && x == result->metric
                ? loss >= best_loss
                : !is_first && !ls__sweep_is_better(s->values.metric, x, result->metric))
            continue;
        result->metric = x;
        result->best_epoch = epoch;
        best_loss = loss;
    }
    json_decref(rows);
    if (result->best_epoch > 0) return LS_OK;
    return ls__fail(s->ctx, LS_ERR_DATA,
                    "%s/metrics.jsonl has no %s; expected a run with validation%s", dir,
                    ls__sweep_metric_key(s->values.metric),
                    s->values.metric == LS__METRIC_LOSS ? "" : ", or metric = val-loss");
}
