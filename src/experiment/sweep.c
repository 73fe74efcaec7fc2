/* sweep.c: hyperparameter search over runs; see lockstep/sweep.h. */
#include "base/c_locale.h"
#include "base/error.h"
#include "base/floats.h"
#include "base/path.h"
#include "checkpoint/identity.h"
#include "experiment/sweep.h"
#include "io/json.h"
#include "log/run_folder.h"
#include "run/run_state.h"
#include <math.h>
#include <lockstep/text.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Opening ---- */

/* Settings that other methods have are errors. */
static ls_status check_method(ls_sweep *s)
{
    enum {
        RANDOM = 1 << LS_SEARCH_RANDOM,
        HALVING = 1 << LS_SEARCH_HALVING,
        HYPERBAND = 1 << LS_SEARCH_HYPERBAND,
        TPE = 1 << LS_SEARCH_TPE
    };
    static const struct {
        const char *name;
        int methods;
    } uses[] = { { "trials", RANDOM | HALVING | TPE },
                 { "seed", RANDOM | HALVING | HYPERBAND | TPE },
                 { "min-epochs", HALVING | HYPERBAND },
                 { "eta", HALVING | HYPERBAND },
                 { "startup", TPE },
                 { "batch", TPE } };
    static const char *const names[] = { "random", "grid", "halving", "hyperband", "tpe" };
    const int method = s->values.method;
    bool ok = true;
    for (size_t i = 0; ok && i < sizeof(uses) / sizeof(uses[0]); i++)
        if (ls_given_has(&s->given, uses[i].name) && !(uses[i].methods >> method & 1))
            ok = ls__sweep_refuse(s, uses[i].name, "'%s' has no effect with method %s",
                                  uses[i].name, names[method]);
    if (ok && !s->values.trials && uses[0].methods >> method & 1)
        ls__sweep_refuse(s, "method", "method %s requires 'trials = N'", names[method]);
    return ls_context_status(s->ctx);
}

/* The settings of the caller, then those of the file. */
static ls_status read_settings(ls_sweep *s)
{
    LS_TRY(ls__settings_read(s->ctx, ls_sweep_settings(), s->config.settings, &s->texts, &s->values,
                             &s->given));
    if (s->dir && *s->dir) {
        s->given.text[ls_setting_find(ls_sweep_settings(), "out", strlen("out"))] = s->dir;
        s->values.out = s->dir;
    }
    LS_TRY(ls__sweep_file_read(s));
    LS_TRY(check_method(s));
    LS_TRY(ls__sweep_settle_metric(s));
    if (strlen(s->values.out) < LS__RUN_DIR_SIZE) return LS_OK;
    return ls__fail(s->ctx, LS_ERR_SETTING, "the folder's name is too long");
}

/* Warns of what all trials have, before the first trial of a new sweep. */
static void advise_trials(const ls_sweep *s, const ls_run *run)
{
    static const char *const settings[] = { "image-size", "resize", "alpha", "depth", "exif" };
    bool is_searched = false;
    for (int i = 0; i < s->file.n_searched; i++)
        for (size_t k = 0; k < sizeof(settings) / sizeof(settings[0]); k++)
            is_searched |= strcmp(s->file.searched[i].search.name, settings[k]) == 0;
    if (!is_searched && !ls_sweep_exists(s->values.out)) ls__run_advise_images(run);
}

/* The images that all trials have. */
static ls_status read_images(ls_sweep *s, ls_run *run)
{
    LS_TRY(ls__run_open_datasets(run));
    ls__json_builder images = { json_object(), false };
    ls__json_put(&images, "train", ls__identity_data(run->ctx, run->train_data));
    ls__json_put(&images, "validation", ls__identity_data(run->ctx, run->val_data));
    s->images = ls__json_finish(&images);
    s->n_images = ls_dataset_sample_count(run->train_data);
    s->epochs = run->settings->epochs;
    if (!s->images) return ls__fail_memory(run->ctx, "sweep", 0);
    advise_trials(s, run);
    return LS_OK;
}

static ls_status open_images(ls_sweep *s)
{
    char **texts;
    ls__run_settings r;
    ls_status status = ls__sweep_read_settings(s, LS__SWEEP_COMBINATION, 0, &texts, &r);
    if (status == LS_OK && !r.data_dir)
        status = ls__fail(s->ctx, LS_ERR_SETTING, "%s: [train] requires 'data-dir = DIR'", s->path);
    if (status == LS_OK) {
        ls_run run = { .settings = &r,
                       .ctx = ls_context_open(&(ls_context_config){
                           .threads = 1, .log = s->config.log, .log_user = s->config.log_user }) };
        status = read_images(s, &run);
        if (status != LS_OK && run.ctx) ls__copy_error(s->ctx, run.ctx);
        if (status != LS_OK) status = ls__fail(s->ctx, status, "%s", ls_status_text(status));
        ls__run_release(&run);
    }
    ls__settings_free_texts(texts);
    return status;
}

/* Whether a trial can have each combination of values, so that no wrong one stops the sweep later.
 */
static ls_status check_combinations(ls_sweep *s)
{
    ls__run_settings first, r;
    bool same_scale = true;
    LS_TRY(ls__sweep_check_settings(s, LS__SWEEP_COMBINATION, 0, &first));
    for (int64_t i = 1; i < ls__sweep_combination_count(s); i++) {
        LS_TRY(ls__sweep_check_settings(s, LS__SWEEP_COMBINATION, i, &r));
        same_scale = same_scale && ls__sweep_have_same_scale(&first, &r);
    }
    return same_scale ? LS_OK : ls__sweep_settle_scale(s);
}

/* Gives the error of ls_search_open the line of the setting that it names. */
static ls_status place_search_error(ls_sweep *s)
{
    char message[512];
    snprintf(message, sizeof(message), "%s", ls_plain_message(ls_context_message(s->ctx)));
    const char *name = strncmp(message, "min_epochs ", 11) == 0 ? "min-epochs" : "method";
    for (int i = 0; i < s->file.n_searched; i++) {
        const char *searched = s->file.searched[i].search.name;
        const size_t n = strlen(searched);
        if (message[0] == '\'' && strncmp(message + 1, searched, n) == 0 && message[n + 1] == '\'')
            name = searched;
    }
    ls_context_clear_error(s->ctx);
    ls__sweep_refuse(s, name, "%s", message);
    return LS_ERR_SETTING;
}

static ls_status open_search(ls_sweep *s)
{
    const ls__sweep_values *v = &s->values;
    ls_search_parameter parameters[LS__SWEEP_MAX_PARAMETERS];
    for (int i = 0; i < s->file.n_searched; i++) parameters[i] = s->file.searched[i].search;
    s->search = ls_search_open(
        s->ctx, &(ls_search_config){ .method = (ls_search_method)v->method,
                                     .parameters = parameters,
                                     .parameter_count = s->file.n_searched,
                                     .trials = v->trials,
                                     .max_epochs = s->epochs,
                                     .min_epochs = v->min_epochs,
                                     .eta = v->eta,
                                     .startup = v->startup,
                                     .batch = v->batch,
                                     .maximize = !ls__run_metric_is_minimized(v->metric),
                                     .distinct = true,
                                     .seed = (uint64_t)v->seed });
    const ls_status status = ls_context_status(s->ctx);
    return status == LS_ERR_INVALID ? place_search_error(s) : status;
}

static ls_status open_sweep(ls_sweep *s)
{
    LS_TRY(ls_context_status(s->ctx));
    if (!s->path) return ls__fail(s->ctx, LS_ERR_INVALID, "ls_sweep_open: file is NULL");
    LS_TRY(read_settings(s));
    LS_TRY(open_images(s));
    LS_TRY(check_combinations(s));
    return open_search(s);
}

/* NULL stays NULL. */
static bool copy_text(char **to, const char *from)
{
    return !from || (*to = strdup(from)) != NULL;
}

ls_sweep *ls_sweep_open(const char *file, const char *dir, const ls_sweep_config *config)
{
    LS__IN_C_LOCALE;
    LS__DEFAULT_FLOATS;
    static const ls_sweep_config defaults = { 0 };
    if (!config) config = &defaults;
    const char *program = config->program ? config->program : "lockstep";
    ls_sweep *s = calloc(1, sizeof(*s));
    if (!s) return NULL;
    s->config = *config;
    s->children.stop = config->stop;
    s->ctx = ls_context_open(
        &(ls_context_config){ .threads = 1, .log = config->log, .log_user = config->log_user });
    const bool is_copied =
        copy_text(&s->path, file) && copy_text(&s->dir, dir) && copy_text(&s->program, program) &&
        copy_text(&s->program_name, config->program_name ? config->program_name : program);
    if (!is_copied) ls__fail_memory(s->ctx, "ls_sweep_open", 0);
    s->can_run = open_sweep(s) == LS_OK;
    if (!s->ctx) ls_sweep_close(&s);
    return s;
}

/* ---- Running ---- */

static ls_status open_folder(ls_sweep *s)
{
    const char *out = s->values.out;
    char name[LS__FILE_NAME_SIZE];
    if (ls__run_folder_holds_run(out) || ls__run_folder_is_of_program(out))
        return ls__fail(s->ctx, LS_ERR_SETTING, "--out %s: contains a run; choose another folder",
                        out);
    if (ls__is_folder(out) && !ls_sweep_exists(out) && ls__run_folder_find_foreign(out, name))
        return ls__fail(s->ctx, LS_ERR_SETTING,
                        "--out %s: the folder is not empty and contains no sweep (found '%s')", out,
                        name);
    LS_TRY(ls__run_folder_create(s->ctx, out));
    LS_TRY(ls__run_folder_lock(s->ctx, out, NULL));
    LS_TRY(ls__sweep_open_results(s));
    ls__sweep_update_report(s); /* of a new sweep */
    return LS_OK;
}

static ls_status search(ls_sweep *s, ls_sweep_end *end)
{
    const ls_search_job *jobs;
    for (int64_t n;;) {
        LS_TRY(ls_search_next(s->search, &jobs, &n));
        if (n == 0) return LS_OK;
        LS_TRY(ls__sweep_train(s, n, jobs, end));
        if (*end != LS_SWEEP_DONE) return LS_OK;
        for (int64_t i = 0; i < n; i++) {
            const ls_sweep_trial *r = ls__sweep_find(s, jobs[i].trial, jobs[i].epochs);
            LS_TRY(ls_search_report(s->search, r->trial, r->metric));
        }
    }
}

static ls_status run_sweep(ls_sweep *s, ls_sweep_end *end)
{
    LS_TRY(open_folder(s));
    ls_sweep_end how = LS_SWEEP_DONE;
    const ls_status status = search(s, &how);
    ls__sweep_update_report(s); /* whatever ended it */
    if (how == LS_SWEEP_TRIAL_FAILED) *end = how;
    LS_TRY(status);
    *end = how;
    if (how != LS_SWEEP_DONE) return LS_OK;
    const long long n = ls_search_trial_count(s->search), n_wanted = s->values.trials;
    if (n < n_wanted)
        ls__note(s->ctx, LS_LOG_RUN,
                 "all %lld combinations of [search] are done, so 'trials = %lld' has no others", n,
                 n_wanted);
    return ls__sweep_write_csv(s);
}

ls_status ls_sweep_train(ls_sweep *sweep, ls_sweep_end *end)
{
    ls_sweep_end how = LS_SWEEP_ERROR;
    if (end) *end = how;
    if (!sweep) return LS_ERR_MEMORY;
    LS_TRY(ls_context_status(sweep->ctx));
    LS__ENTER(sweep->ctx);
    LS__IN_C_LOCALE;
    LS__DEFAULT_FLOATS;
    if (!sweep->can_run)
        return ls__fail(sweep->ctx, LS_ERR_INVALID,
                        "ls_sweep_train: the sweep has run already; open it again to continue it");
    sweep->can_run = false;
    const ls_status status = run_sweep(sweep, &how);
    if (status != LS_OK && how != LS_SWEEP_TRIAL_FAILED) how = LS_SWEEP_ERROR;
    if (end) *end = how;
    return status;
}

void ls_sweep_close(ls_sweep **sweep)
{
    ls_sweep *s = sweep ? *sweep : NULL;
    if (!s) return;
    ls_context_close(&s->ctx);
    json_decref(s->definition);
    json_decref(s->images);
    json_decref(s->forced);
    ls__sweep_results_free(&s->results);
    ls__sweep_file_close(&s->file);
    ls__settings_free_texts(s->texts);
    char *const texts[] = { s->program, s->program_name, s->path, s->dir };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) free(texts[i]);
    free(s);
    *sweep = NULL;
}

/* ---- What it found ---- */

ls_context *ls_sweep_context(const ls_sweep *sweep)
{
    return sweep ? sweep->ctx : NULL;
}

const char *ls_sweep_dir(const ls_sweep *sweep)
{
    return sweep && sweep->values.out ? sweep->values.out : "";
}

const char *ls_sweep_metric(const ls_sweep *sweep)
{
    return sweep ? ls__sweep_metric_key(sweep->values.metric) : "";
}

int64_t ls_sweep_epochs(const ls_sweep *sweep)
{
    return sweep ? sweep->epochs : 0;
}

int ls_sweep_parameter_count(const ls_sweep *sweep)
{
    return sweep ? sweep->file.n_searched : 0;
}

const char *ls_sweep_parameter_name(const ls_sweep *sweep, int i)
{
    return i >= 0 && i < ls_sweep_parameter_count(sweep) ? sweep->file.searched[i].search.name : "";
}

int64_t ls_sweep_trial_count(const ls_sweep *sweep)
{
    return sweep ? ls_search_trial_count(sweep->search) : 0;
}

int64_t ls_sweep_best_trial(const ls_sweep *sweep)
{
    const ls_sweep_trial *best = NULL;
    for (int64_t i = 0; i < ls_sweep_trial_count(sweep); i++) {
        const ls_sweep_trial *r = ls_sweep_trial_at(sweep, i);
        if (r && !isnan(r->metric) &&
            (!best || ls__sweep_is_better(sweep->values.metric, r->metric, best->metric)))
            best = r;
    }
    return best ? best->trial : -1;
}

int ls_sweep_trial_dir(const ls_sweep *sweep, int64_t trial, char *out, size_t size)
{
    return ls__sweep_trial_dir(ls_sweep_dir(sweep), trial, out, size);
}
