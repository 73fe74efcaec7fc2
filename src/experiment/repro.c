/* repro.c: experiments of programs; see lockstep/repro.h. */
#include "experiment/repro_state.h"

#include "base/c_locale.h"
#include "base/context.h"
#include "base/error.h"
#include "base/floats.h"
#include "log/run_folder.h"
#include "run/run_state.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- Opening ---- */

static ls_status read_settings(ls_repro *r, const char *const *settings)
{
    const ls__repro_values *v = &r->values;
    LS_TRY(
        ls__settings_read(r->ctx, ls_repro_settings(), settings, &r->texts, &r->values, &r->given));
    if (!v->settings.data_dir)
        return ls__fail(r->ctx, LS_ERR_SETTING, "--data-dir DIR is required");
    if (v->restarts >= v->settings.steps)
        return ls__fail(r->ctx, LS_ERR_SETTING, "--restart %lld: expected less than --steps %lld",
                        (long long)v->restarts, (long long)v->settings.steps);
    LS_TRY(ls__run_settings_resolve(r->ctx, &r->given, NULL, &r->values.settings));
    r->is_resolved = true;
    r->steps = v->settings.steps;
    r->batch = v->settings.batch;
    return LS_OK;
}

static ls_status set_dir(ls_repro *r, const char *dir)
{
    struct stat there;
    if (!dir || !*dir) return LS_OK; /* a new name, when the folder is made */
    if (strlen(dir) >= sizeof(r->dir))
        return ls__fail(r->ctx, LS_ERR_SETTING, "the folder's name is too long");
    strcpy(r->dir, dir);
    if (lstat(dir, &there) != 0) return LS_OK;
    return ls__fail(r->ctx, LS_ERR_SETTING, "%s exists already; expected a new folder for --out",
                    dir);
}

/* Errors of the images become LS_ERR_DATA, so that callers can tell them from others. */
static ls_status fail_data(ls_context *ctx)
{
    char message[LS__MESSAGE_SIZE], hint[LS__MESSAGE_SIZE];
    const ls_status status = ls_context_status(ctx);
    if (status == LS_ERR_SETTING || status == LS_ERR_MEMORY || status == LS_ERR_DEVICE ||
        status == LS_ERR_TIMEOUT)
        return status;
    snprintf(message, sizeof(message), "%s", ls_context_message(ctx));
    snprintf(hint, sizeof(hint), "%s", ls_context_hint(ctx));
    ls_context_clear_error(ctx);
    ls__fail(ctx, LS_ERR_DATA, "%s", message);
    if (*hint) ls__error_hint(ctx, "%s", hint);
    return LS_ERR_DATA;
}

static ls_status check_data(ls_repro *r)
{
    const ls__run_settings *train = &r->values.settings;
    ls_dataset *data = NULL, *val = NULL;
    const ls_status status = ls__run_open_train_data(r->ctx, train, &data, &val);
    const int64_t per_epoch = status == LS_OK ? ls_dataset_sample_count(data) / train->batch : 0;
    ls_dataset_close(&data);
    ls_dataset_close(&val);
    if (status != LS_OK) return fail_data(r->ctx);
    r->steps_per_epoch = per_epoch;
    if (per_epoch == 0 || per_epoch * train->epochs >= r->steps) return LS_OK;
    return ls__fail(r->ctx, LS_ERR_SETTING,
                    "--steps %lld: %lld epochs of these images have %lld steps: use --epochs %lld "
                    "or fewer steps",
                    (long long)r->steps, (long long)train->epochs,
                    (long long)(per_epoch * train->epochs),
                    (long long)((r->steps + per_epoch - 1) / per_epoch));
}

static ls_status open_experiment(ls_repro *r, const char *dir, const ls_repro_config *config)
{
    LS_TRY(ls_context_status(r->ctx));
    if (!r->program || !r->program_name) return ls__fail_memory(r->ctx, "program", 0);
    LS_TRY(read_settings(r, config->settings));
    LS_TRY(ls__repro_plan(r));
    LS_TRY(set_dir(r, dir));
    if (r->has_ranks) LS_TRY(ls__ranks_find_launcher(r->ctx));
    return check_data(r);
}

ls_repro *ls_repro_open(const char *dir, const ls_repro_config *config)
{
    LS__IN_C_LOCALE;
    LS__DEFAULT_FLOATS;
    static const ls_repro_config defaults = { 0 };
    if (!config) config = &defaults;
    const char *program = config->program ? config->program : "lockstep";
    ls_repro *r = calloc(1, sizeof(*r));
    if (!r) return NULL;
    r->ctx = ls_context_open(
        &(ls_context_config){ .threads = 1, .log = config->log, .log_user = config->log_user });
    r->program = strdup(program);
    r->program_name = strdup(config->program_name ? config->program_name : program);
    r->children.stop = config->stop;
    r->on_run = config->on_run;
    r->user = config->user;
    if (r->ctx)
        r->can_run = open_experiment(r, dir, config) == LS_OK;
    else
        ls_repro_close(&r);
    return r;
}

void ls_repro_close(ls_repro **repro)
{
    ls_repro *r = repro ? *repro : NULL;
    if (!r) return;
    for (int i = 0; i < r->n_runs; i++) {
        free(r->parts[i].losses);
        free(r->parts[i].spans);
    }
    free(r->runs);
    free(r->parts);
    free(r->program);
    free(r->program_name);
    ls__settings_free_texts(r->texts);
    ls_context_close(&r->ctx);
    free(r);
    *repro = NULL;
}

/* ---- Running ---- */

/* Makes the folder; without a given name repro, or repro-2, repro-3 and so on. */
static ls_status make_folder(ls_repro *r)
{
    static const char name[] = "repro";
    int number = 1;
    if (*r->dir) return ls__run_folder_create_new(r->ctx, r->dir, NULL);
    LS_TRY(ls__run_folder_create_new(r->ctx, name, &number));
    ls__run_folder_name(name, number, r->dir, sizeof(r->dir));
    return LS_OK;
}

static ls_status run_all(ls_repro *r, bool *stopped)
{
    for (int i = 0; i < r->n_runs; i++) {
        if (r->on_run) r->on_run(r->user, r, i, false);
        LS_TRY(ls__repro_train(r, i, stopped));
        if (*stopped) return LS_OK;
        LS_TRY(ls__repro_read(r, i));
        if (r->on_run) r->on_run(r->user, r, i, true);
    }
    LS_TRY(ls__repro_write_csv(r));
    return ls__repro_write_report(r);
}

ls_status ls_repro_train(ls_repro *repro, ls_repro_verdict *verdict)
{
    LS__IN_C_LOCALE;
    LS__DEFAULT_FLOATS;
    if (verdict) *verdict = LS_REPRO_ERROR;
    if (!repro) return LS_ERR_MEMORY;
    LS_TRY(ls_context_status(repro->ctx));
    LS__ENTER(repro->ctx);
    if (!repro->can_run)
        return ls__fail(repro->ctx, LS_ERR_INVALID,
                        "ls_repro_train: the experiment has run; close it, and open another one");
    repro->can_run = false;
    bool stopped = false;
    LS_TRY(make_folder(repro));
    LS_TRY(run_all(repro, &stopped));
    if (verdict)
        *verdict = stopped                ? LS_REPRO_STOPPED
                   : repro->n_results > 1 ? LS_REPRO_DIFFERENT
                                          : LS_REPRO_IDENTICAL;
    return LS_OK;
}

/* ---- What an experiment has ---- */

ls_context *ls_repro_context(const ls_repro *repro)
{
    return repro ? repro->ctx : NULL;
}

const char *ls_repro_dir(const ls_repro *repro)
{
    return repro ? repro->dir : "";
}

int64_t ls_repro_step_count(const ls_repro *repro)
{
    return repro ? repro->steps : 0;
}

int ls_repro_run_count(const ls_repro *repro)
{
    return repro ? repro->n_runs : 0;
}

const ls_repro_run *ls_repro_run_at(const ls_repro *repro, int i)
{
    return repro && i >= 0 && i < repro->n_runs ? &repro->runs[i] : NULL;
}

int ls_repro_result_count(const ls_repro *repro)
{
    return repro ? repro->n_results : 0;
}

bool ls_repro_preset_at(const ls_repro *repro, int i, const char **name, const char **value)
{
    return repro && repro->is_resolved &&
           ls__run_settings_preset_at(&repro->given, &repro->values.settings, i, name, value);
}

int ls_repro_exit_status(const ls_repro *repro)
{
    return repro ? repro->exit_status : 0;
}

const char *ls_repro_output_end(const ls_repro *repro)
{
    return repro ? repro->failure.tail : "";
}
