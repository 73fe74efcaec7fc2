/* sweep_results.c: the results of a sweep and OUT/sweep.json; see sweep.h. */
#include "checkpoint/identity.h"
#include "io/json.h"
#include "log/metrics.h"
#include "experiments/sweep_report.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

bool sweep_is_better(const sweep *s, double a, double b)
{
    return ls__run_metric_is_minimized(s->values->metric) ? a < b : a > b;
}

/* ---- What the results depend on: options and images ---- */

static json_t *parameter_to_json(const sweep_parameter *p)
{
    if (!p->values) return json_string(p->text);
    ls__json_builder list = { json_array(), false };
    for (int64_t i = 0; i < p->search.count; i++) ls__json_append(&list, json_string(p->values[i]));
    return ls__json_finish(&list);
}

/* Whether a trial does not depend on the number of trials. */
static bool can_extend(const sweep *s)
{
    return s->values->method == LS_SEARCH_RANDOM || s->values->method == LS_SEARCH_TPE;
}

void sweep_settle_repeats(sweep *s)
{
    const sweep_file *f = s->file;
    char path[LS__RUN_PATH_SIZE], reason[LS__JSON_REASON_SIZE];
    json_t *json;
    s->is_distinct =
        s->values->method == LS_SEARCH_RANDOM || s->values->method == LS_SEARCH_HALVING;
    for (int i = 0; i < f->n_searched; i++) {
        const ls_search_parameter *p = &f->searched[i].search;
        if (p->kind != LS_SEARCH_LIST && p->kind != LS_SEARCH_INTEGER && p->low < p->high)
            s->is_distinct = false;
    }
    snprintf(path, sizeof(path), "%s/sweep.json", s->out);
    ls__json_read(path, &json, reason);
    const json_t *stored = json_object_get(json, "sweep");
    if (stored && !json_object_get(stored, "distinct")) s->is_distinct = false;
    json_decref(json);
}

static json_t *make_definition(const sweep *s)
{
    const sweep_file *f = s->file;
    ls__json_builder all = { json_object(), false }, train = { json_object(), false },
                     search = { json_array(), false };
    json_t *options = ls__settings_to_json(sweep_options, s->values);
    for (int i = 0; i < f->n_fixed; i++)
        if (!f->fixed[i].option->execution || strcmp(f->fixed[i].option->name, "data-dir") == 0)
            ls__json_put(&train, f->fixed[i].option->name, parameter_to_json(&f->fixed[i]));
    for (int i = 0; i < f->n_searched; i++)
        ls__json_append(&search, json_pack("{s:s,s:o}", "option", f->searched[i].option->name,
                                           "values", parameter_to_json(&f->searched[i])));
    for (const ls_setting *o = sweep_options; o->kind != LS_SETTING_END; o++)
        if (o->name && !o->execution && !(can_extend(s) && strcmp(o->name, "trials") == 0))
            ls__json_put(&all, o->name, json_incref(json_object_get(options, o->name)));
    json_decref(options);
    if (s->is_distinct) ls__json_put(&all, "distinct", json_true());
    ls__json_put(&all, "train", ls__json_finish(&train));
    ls__json_put(&all, "search", ls__json_finish(&search));
    return ls__json_finish(&all);
}

/* Prints the differences, each after `where`. Returns them; NULL without memory. */
static json_t *print_differences(const char *where, const json_t *stored, const json_t *here)
{
    char text[512];
    size_t i;
    json_t *difference, *all = ls__identity_differences(stored, here, true);
    json_array_foreach(all, i, difference) print_message(
        "%s: %s", where, ls__identity_text(difference, "in the sweep", "now", text, sizeof(text)));
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

/* Returns the exit status. */
static int check_definition(const sweep *s, const char *path, const json_t *stored)
{
    json_t *there = search_by_option(stored), *here = search_by_option(s->definition),
           *all = there && here ? print_differences(path, there, here) : NULL;
    json_decref(there);
    json_decref(here);
    int answer = all ? EXIT_DONE : print_error(NULL, EXIT_RUNTIME);
    if (json_array_size(all) > 0)
        answer = fail_with(EXIT_USAGE,
                           "%s: the folder contains another sweep; choose another --out", path);
    json_decref(all);
    return answer;
}

/* With --force, adds the differences to s->forced. Returns the exit status. */
static int check_images(sweep *s, const json_t *stored)
{
    char where[LS__RUN_PATH_SIZE];
    const char *dir = sweep_fixed_text(s->file, "data-dir");
    snprintf(where, sizeof(where), "%s%s", s->values->force ? "warning: " : "", dir);
    json_t *all = print_differences(where, stored, s->images);
    int answer = EXIT_DONE;
    if (json_array_size(all) > 0 && !s->values->force)
        answer = fail_with(EXIT_DATA,
                           "%s: the images are not those that the sweep in %s has trained on; "
                           "restore them, or choose another --out. If only unreadable images were "
                           "repaired, --force continues",
                           dir, s->out);
    if (!all || json_array_extend(s->forced, all) != 0) answer = print_error(NULL, EXIT_RUNTIME);
    json_decref(all);
    return answer;
}

/* ---- Results ---- */

static int compare_trials(const void *a, const void *b)
{
    const sweep_result *x = a, *y = b;
    return (x->trial > y->trial) - (x->trial < y->trial);
}

static int compare_results(const void *a, const void *b)
{
    const sweep_result *x = a, *y = b;
    const int by_trial = compare_trials(a, b);
    return by_trial ? by_trial : (x->epochs > y->epochs) - (x->epochs < y->epochs);
}

const sweep_result *sweep_find(const sweep *s, int64_t trial, int64_t epochs)
{
    const sweep_result wanted = { .trial = trial, .epochs = epochs };
    return s->n_results == 0 ? NULL
                             : bsearch(&wanted, s->results, (size_t)s->n_results,
                                       sizeof(*s->results), compare_results);
}

const sweep_result *sweep_last(const sweep *s, int64_t trial)
{
    const sweep_result wanted = { .trial = trial };
    const sweep_result *r = s->n_results == 0 ? NULL
                                              : bsearch(&wanted, s->results, (size_t)s->n_results,
                                                        sizeof(*r), compare_trials);
    while (r && r + 1 < s->results + s->n_results && r[1].trial == trial) r++;
    return r;
}

bool sweep_add(sweep *s, const sweep_result *result)
{
    if (s->n_results == s->capacity) {
        const int64_t capacity = 2 * s->capacity + 16;
        sweep_result *larger = realloc(s->results, (size_t)capacity * sizeof(*larger));
        if (!larger) return false;
        s->results = larger;
        s->capacity = capacity;
    }
    int64_t i = s->n_results++;
    for (; i > 0 && compare_results(&s->results[i - 1], result) > 0; i--)
        s->results[i] = s->results[i - 1];
    s->results[i] = *result;
    return true;
}

/* Of a trial that has begun. */
static json_t *values_to_json(const sweep *s, int64_t trial)
{
    ls__json_builder values = { json_object(), false };
    for (int i = 0; i < s->file->n_searched; i++) {
        const sweep_parameter *p = &s->file->searched[i];
        char text[SWEEP_VALUE_SIZE];
        ls__json_put_text(&values, p->option->name,
                          sweep_value_text(p, ls_search_value(s->search, trial, i), text));
    }
    return ls__json_finish(&values);
}

static json_t *result_to_json(const sweep *s, const sweep_result *r)
{
    ls__json_builder row = { json_object(), false };
    ls__json_put(&row, "trial", json_integer(r->trial));
    ls__json_put(&row, "epochs", json_integer(r->epochs));
    ls__json_put(&row, "options", values_to_json(s, r->trial));
    ls__json_put(&row, "value", r->has_failed ? json_null() : json_real(r->value));
    ls__json_put(&row, "best_epoch", r->has_failed ? json_null() : json_integer(r->best_epoch));
    if (r->error) ls__json_put(&row, "error", ls__json_text(s->ctx, r->error));
    return ls__json_finish(&row);
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The time of the next report depends on how long this one took. */
static void write_report(sweep *s)
{
    enum { MIN_SECONDS = 5, SHARE = 20 };
    const double begin = seconds_now();
    sweep_report_write(s->ctx, s->out, NULL); /* prints its failures */
    s->is_report_old = false;
    const double end = seconds_now();
    s->report_due = end + fmax(MIN_SECONDS, SHARE * (end - begin));
}

void sweep_update_report(sweep *s)
{
    if (s->is_report_old) write_report(s);
}

int sweep_save(sweep *s)
{
    char path[LS__RUN_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/sweep.json", s->out);
    ls__json_builder all = { json_object(), false }, results = { json_array(), false };
    for (int64_t i = 0; i < s->n_results; i++)
        ls__json_append(&results, result_to_json(s, &s->results[i]));
    ls__json_put(&all, "sweep", json_incref(s->definition));
    ls__json_put(&all, "images", json_incref(s->images));
    if (json_array_size(s->forced) > 0) ls__json_put(&all, "forced", json_incref(s->forced));
    ls__json_put(&all, "results", ls__json_finish(&results));
    json_t *json = ls__json_finish(&all);
    const ls_status status = ls__json_save(s->ctx, path, json);
    json_decref(json);
    if (status != LS_OK) return print_error(s->ctx, EXIT_RUNTIME);
    s->is_report_old = true;
    if (seconds_now() >= s->report_due) write_report(s);
    return EXIT_DONE;
}

void sweep_free_results(sweep *s)
{
    for (int64_t i = 0; i < s->n_results; i++) free(s->results[i].error);
    free(s->results);
}

static bool read_row(const sweep *s, json_t *row, sweep_result *out)
{
    json_t *error = json_object_get(row, "error");
    const json_t *trial = json_object_get(row, "trial"), *value = json_object_get(row, "value");
    *out = (sweep_result){ .trial = json_integer_value(trial),
                           .epochs = ls__json_get_integer(row, "epochs"),
                           .has_failed = json_is_null(value),
                           .value = json_number_value(value),
                           .best_epoch = ls__json_get_integer(row, "best_epoch") };
    const bool has_value =
        json_is_number(value) && out->best_epoch >= 1 && out->best_epoch <= out->epochs;
    const int64_t n_trials =
        can_extend(s) ? LS_SEARCH_MAX_TRIALS : ls_search_trial_count(s->search);
    const bool good = json_is_integer(trial) && out->trial >= 0 && out->trial < n_trials &&
                      out->epochs >= 1 && out->epochs <= s->epochs &&
                      (has_value || out->has_failed) && !sweep_find(s, out->trial, out->epochs);
    if (!good || !json_is_string(error)) return good;
    out->error = ls__json_restore(s->ctx, error) ? strdup(json_string_value(error)) : NULL;
    return out->error != NULL;
}

static int read_rows(sweep *s, const char *path, const json_t *rows)
{
    size_t i;
    json_t *row;
    json_array_foreach((json_t *)rows, i, row)
    {
        sweep_result result;
        if (!read_row(s, row, &result))
            return fail_with(EXIT_RUNTIME, "%s: result %zu is malformed", path, i + 1);
        if (!sweep_add(s, &result)) return print_error(NULL, EXIT_RUNTIME);
    }
    const int64_t n = s->n_results > 0 ? s->results[s->n_results - 1].trial + 1 : 0;
    if (n > ls_search_trial_count(s->search))
        return fail_with(EXIT_USAGE,
                         "%s has results of trials 0 to %lld: expected trials = %lld or "
                         "more, got %lld",
                         path, (long long)n - 1, (long long)n,
                         (long long)ls_search_trial_count(s->search));
    return EXIT_DONE;
}

int sweep_read_results(sweep *s)
{
    char path[LS__RUN_PATH_SIZE], reason[LS__JSON_REASON_SIZE];
    json_t *json;
    snprintf(path, sizeof(path), "%s/sweep.json", s->out);
    s->definition = make_definition(s);
    if (!s->definition) return print_error(NULL, EXIT_RUNTIME);
    const ls_status status = ls__json_read(path, &json, reason);
    if (status == LS_ERR_NOT_FOUND) return sweep_save(s);
    if (status != LS_OK) return fail_with(EXIT_RUNTIME, "%s: %s", path, reason);
    const json_t *definition = json_object_get(json, "sweep");
    const json_t *images = json_object_get(json, "images");
    const json_t *results = json_object_get(json, "results");
    int answer = EXIT_DONE;
    if (!json_is_object(definition) || !json_is_object(images) || !json_is_array(results))
        answer = fail_with(EXIT_RUNTIME, "%s: expected 'sweep', 'images' and 'results'", path);
    json_t *forced = json_object_get(json, "forced");
    s->forced = json_is_array(forced) ? json_incref(forced) : json_array();
    if (answer == EXIT_DONE) answer = check_definition(s, path, definition);
    if (answer == EXIT_DONE) answer = check_images(s, images);
    if (answer == EXIT_DONE) answer = read_rows(s, path, results);
    json_decref(json);
    return answer;
}

/* The best epoch is chosen as the trainer chooses that of best.safetensors. */
int sweep_read_metric(const sweep *s, const char *dir, sweep_result *result)
{
    json_t *rows, *row;
    size_t i;
    if (ls__metrics_read(s->ctx, dir, &rows) != LS_OK) return print_error(s->ctx, EXIT_RUNTIME);
    double best_loss = 0;
    json_array_foreach(rows, i, row)
    {
        const json_t *value = json_object_get(row, sweep_metric_key(s->values->metric));
        const int64_t epoch = ls__json_get_integer(row, "epoch");
        const double x = json_number_value(value);
        const double loss = json_number_value(json_object_get(row, "val_loss"));
        if (!json_is_number(value) || epoch > result->epochs) continue;
        const bool is_first = result->best_epoch == 0;
        if (!is_first && x == result->value ? loss >= best_loss
                                            : !is_first && !sweep_is_better(s, x, result->value))
            continue;
        result->value = x;
        result->best_epoch = epoch;
        best_loss = loss;
    }
    json_decref(rows);
    if (result->best_epoch > 0) return EXIT_DONE;
    return fail_with(EXIT_DATA, "%s/metrics.jsonl has no %s; expected a run with validation%s", dir,
                     sweep_metric_key(s->values->metric),
                     s->values->metric == LS__METRIC_LOSS ? "" : ", or metric = val-loss");
}
