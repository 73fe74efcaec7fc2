/* run.c: runs of programs; see lockstep/run.h. */
#include <lockstep/run.h>

#include "base/c_locale.h"
#include "base/context.h"
#include "base/error.h"
#include "base/floats.h"
#include "base/path.h"
#include "base/utf8.h"
#include "log/run_folder.h"
#include "run/run_files.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Opening ---- */

static ls_status set_dir(ls_run *t, const char *dir)
{
    if (!dir) return LS_OK; /* a new name, when the folder is made */
    if (strlen(dir) >= sizeof(t->dir))
        return ls__fail(t->ctx, LS_ERR_SETTING, "the name of the run's folder is too long");
    strcpy(t->dir, dir);
    return LS_OK;
}

static void enter_stage(ls_run *t, ls_run_stage stage)
{
    if (t->on_stage) t->on_stage(t->user, t, stage);
}

/* LS_ERR_INVALID unless the run has the extent that the call requires. */
static ls_status check_extent(const ls_run *t, const char *call, ls_run_extent required)
{
    static const char *const names[] = { "LS_RUN_WHOLE", "LS_RUN_TRAINING", "LS_RUN_IMAGES" };
    if (t->extent == required) return LS_OK;
    return ls__fail(t->ctx, LS_ERR_INVALID, "%s: the run's extent is %s; expected %s", call,
                    names[t->extent], names[required]);
}

/* In place of the context that has only kept errors. */
static ls_status open_context(ls_run *t, const ls_run_config *config)
{
    ls_context_config own = ls__run_context_config(&t->values);
    own.communicator = config->one_process ? NULL : "auto";
    own.log = config->log;
    own.log_user = config->log_user;
    ls_context *ctx = ls_context_open(&own);
    if (!ctx) return ls__fail_memory(t->ctx, "ls_run_open", 0);
    ls_context_close(&t->ctx);
    t->ctx = ctx;
    LS_TRY(ls_context_status(ctx));
    LS_TRY(ls__run_check_ranks(ctx, &t->values));
    enter_stage(t, LS_RUN_CONNECTED);
    return ls_context_status(ctx);
}

/* LS_ERR_INVALID for an unusable model of the program; LS_ERR_SETTING where the setting is given,
 * too. */
static ls_status check_model(const ls_run *t)
{
    const ls_model *m = t->model;
    if (!m) return LS_OK;
    if (!m->name || !*m->name || !ls__utf8_is_valid(m->name) || !m->function)
        return ls__fail(t->ctx, LS_ERR_INVALID, "ls_run_open: a model without %s",
                        m->function ? "a name in UTF-8" : "a function");
    if (m->image_size < LS__MIN_IMAGE_SIZE || m->image_size > LS__MAX_IMAGE_SIZE ||
        !(m->dropout < 1))
        return ls__fail(t->ctx, LS_ERR_INVALID,
                        "ls_run_open: model '%s': image_size %lld, dropout %g; expected %d to %d, "
                        "and less than 1",
                        m->name, (long long)m->image_size, m->dropout, (int)LS__MIN_IMAGE_SIZE,
                        (int)LS__MAX_IMAGE_SIZE);
    if (ls_model_find(m->name))
        return ls__fail(t->ctx, LS_ERR_INVALID,
                        "ls_run_open: the model's name, '%s', is that of a bundled one", m->name);
    if (!ls_given_has(&t->given, "model")) return LS_OK;
    return ls__fail(t->ctx, LS_ERR_SETTING, "--model is given beside a model of the program");
}

static ls_status check_folder(const ls_run *t, const char *dir)
{
    if (!dir || !*dir || t->extent == LS_RUN_IMAGES) return LS_OK;
    if (t->extent == LS_RUN_WHOLE) return ls__run_folder_may_take(t, dir);
    if (!ls__run_folder_holds_run(dir) && !ls__run_folder_is_of_program(dir)) return LS_OK;
    return ls__fail(t->ctx, LS_ERR_SETTING, "%s%s: contains a run; choose another folder",
                    ls__run_is_of_command(t) ? "--out " : "", dir);
}

static ls_status open_new(ls_run *t, const char *dir, const ls_run_config *config)
{
    if ((unsigned)t->extent > LS_RUN_IMAGES)
        return ls__fail(t->ctx, LS_ERR_INVALID,
                        "ls_run_open: extent is %d; expected LS_RUN_WHOLE, LS_RUN_TRAINING or "
                        "LS_RUN_IMAGES",
                        (int)t->extent);
    LS_TRY(set_dir(t, dir));
    LS_TRY(ls__run_read_settings(t, config));
    if (!t->values.data_dir) return ls__fail(t->ctx, LS_ERR_SETTING, "--data-dir DIR is required");
    LS_TRY(check_model(t));
    if (config->one_process || ls__ranks_is_first()) LS_TRY(check_folder(t, dir));
    const ls_status resolved = ls__run_settings_resolve(t->ctx, &t->given, t->model, &t->values);
    /* An option of the command line and one of a run's config.json may exclude each other. */
    const bool is_conflict =
        resolved == LS_ERR_SETTING && strncmp(ls_context_message(t->ctx), "--", 2) == 0;
    if (is_conflict && t->given.run_file && t->extent == LS_RUN_WHOLE)
        ls__error_hint(t->ctx, "options that the command line does not have are those of %s",
                       t->given.run_file);
    LS_TRY(resolved);
    if (t->model) t->values.model = t->model->name; /* a preset may have set another one */
    t->computed = ls__settings_computed(&t->given);
    if (!t->computed) return ls__fail_memory(t->ctx, "settings", 0);
    if (!config->one_process) LS_TRY(ls__run_check_launch(t->ctx, &t->values, false));
    LS_TRY(ls__run_keep_words(t));
    enter_stage(t, LS_RUN_SETTLED);
    LS_TRY(open_context(t, config));
    return ls__run_open_objects(t, false);
}

/* "run" from "run/last.safetensors", "." from "last.safetensors". */
static void name_folder(ls_run *t)
{
    char *slash = strrchr(t->dir, '/');
    if (!ls__is_file(t->dir)) return;
    if (!slash) strcpy(t->dir, ".");
    if (slash) slash[slash == t->dir] = '\0';
}

static ls_status open_stored(ls_run *t, const char *dir, const ls_run_config *config)
{
    if (!dir || !*dir)
        return ls__fail(t->ctx, LS_ERR_INVALID, "ls_run_resume: dir is %s", dir ? "empty" : "NULL");
    if (t->extent != LS_RUN_WHOLE)
        return ls__fail(t->ctx, LS_ERR_INVALID,
                        "ls_run_resume: extent is %d; expected LS_RUN_WHOLE", (int)t->extent);
    LS_TRY(set_dir(t, dir));
    name_folder(t);
    LS_TRY(ls__run_read_settings(t, config));
    LS_TRY(check_model(t));
    t->values.resume = t->dir;
    LS_TRY(ls__run_read_stored(t, t->ctx, &t->given, &t->values));
    if (!config->one_process) LS_TRY(ls__run_check_launch(t->ctx, &t->values, true));
    LS_TRY(ls__run_check_checkpoint(t));
    LS_TRY(ls__run_keep_words(t));
    enter_stage(t, LS_RUN_SETTLED);
    LS_TRY(open_context(t, config));
    return ls__run_open_objects(t, true);
}

/* After an error about a file of a run that is resumed: what can be done with the others. */
static void hint_remains(ls_run *t)
{
    const ls_status status = ls_context_status(t->ctx);
    const char *message = ls_context_message(t->ctx);
    char path[LS__RUN_PATH_SIZE], kept[LS__FILE_NAME_SIZE];
    const bool is_file =
        status == LS_ERR_FORMAT || status == LS_ERR_DATA || status == LS_ERR_NOT_FOUND;
    snprintf(path, sizeof(path), "%s/", t->dir);
    if (!is_file || !strstr(message, path)) return;
    snprintf(path, sizeof(path), "%s/last.safetensors", t->dir);
    if (!strstr(message, path)) {
        if (ls__path_exists(path))
            ls__error_hint(t->ctx, "the weights remain: --weights %s begins a new run with them",
                           path);
        return;
    }
    if (ls__run_folder_find_kept(t->dir, kept))
        ls__error_hint(t->ctx,
                       "the run continues from an earlier checkpoint, with the same result, if "
                       "last.safetensors is replaced by a copy of %s",
                       kept);
    snprintf(path, sizeof(path), "%s/best.safetensors", t->dir);
    if (ls__path_exists(path))
        ls__error_hint(t->ctx, "--weights %s begins a new run with the best epoch's weights", path);
}

static ls_run *open_run(const char *dir, const ls_run_config *config,
                        ls_status (*open)(ls_run *t, const char *dir, const ls_run_config *config))
{
    LS__IN_C_LOCALE;
    LS__DEFAULT_FLOATS;
    static const ls_run_config defaults = { 0 };
    if (!config) config = &defaults;
    ls_run *t = calloc(1, sizeof(*t));
    if (!t) return NULL;
    t->ctx = ls_context_open(
        &(ls_context_config){ .threads = 1, .log = config->log, .log_user = config->log_user });
    t->settings = &t->values;
    t->model = config->model;
    t->stop = config->stop;
    t->on_event = config->on_event;
    t->on_stage = config->on_stage;
    t->user = config->user;
    t->extent = config->extent;
    t->can_start = ls_context_status(t->ctx) == LS_OK && open(t, dir, config) == LS_OK;
    if (!t->can_start && t->values.resume) hint_remains(t);
    if (!t->ctx) ls_run_close(&t);
    return t;
}

ls_run *ls_run_open(const char *dir, const ls_run_config *config)
{
    return open_run(dir, config, open_new);
}

ls_run *ls_run_resume(const char *dir, const ls_run_config *config)
{
    return open_run(dir, config, open_stored);
}

/* A new run also warns of what is hardly intended. A start that failed can't be tried again. */
static ls_status start(ls_run *t)
{
    LS__IN_C_LOCALE;
    LS__DEFAULT_FLOATS;
    if (!t->can_start)
        return ls__fail(t->ctx, LS_ERR_INVALID,
                        "ls_run_train: the run could not be opened or started; close the run, and "
                        "open another one");
    LS_TRY(check_extent(t, "ls_run_train", LS_RUN_WHOLE));
    t->can_start = false;
    const ls_status status = ls__run_start(t);
    if (status != LS_OK && t->stored) hint_remains(t);
    LS_TRY(status);
    enter_stage(t, LS_RUN_STARTED);
    if (!t->stored) ls__run_advise(t);
    return ls_context_status(t->ctx);
}

/* Saves the manifest beside the error of the training, which is kept. */
static ls_status save_after_error(ls_run *t)
{
    const ls_status status = ls_context_status(t->ctx);
    char message[LS__MESSAGE_SIZE], hint[LS__MESSAGE_SIZE];
    snprintf(message, sizeof(message), "%s", ls_context_message(t->ctx));
    snprintf(hint, sizeof(hint), "%s", ls_context_hint(t->ctx));
    ls_context_clear_error(t->ctx);
    (void)ls__run_manifest_save(t);
    ls_context_clear_error(t->ctx);
    ls__fail(t->ctx, status, "%s", message);
    if (*hint) ls__error_hint(t->ctx, "%s", hint);
    return status;
}

ls_status ls_run_train(ls_run *run, ls_trainer_end *end)
{
    ls_trainer_end how = LS_TRAINER_ERROR;
    if (end) *end = how;
    if (!run) return LS_ERR_MEMORY;
    LS_TRY(ls_context_status(run->ctx));
    LS__ENTER(run->ctx);
    if (!run->trainer) LS_TRY(start(run));
    const ls_status status = ls_trainer_run(run->trainer, &how);
    if (end) *end = how;
    if (status == LS_OK) return ls__run_manifest_save(run);
    return how == LS_TRAINER_DATA_ERROR || how == LS_TRAINER_NONFINITE ? save_after_error(run)
                                                                       : status;
}

void ls_run_close(ls_run **run)
{
    ls_run *t = run ? *run : NULL;
    if (!t) return;
    ls__run_release(t);
    ls__run_free_settings(t);
    free(t);
    *run = NULL;
}

bool ls_run_failed_in_data(const ls_run *run)
{
    return run && run->failed_in_data;
}

/* ---- The learning rate range test ---- */

/* The folder that was named, or a new one, so that tests that are started together have folders of
 * their own. */
static ls_status make_lr_folder(ls_run *t)
{
    static const char name[] = "lr-find";
    int number;
    if (*t->dir) return ls__run_folder_create(t->ctx, t->dir);
    LS_TRY(ls__run_folder_create_new(t->ctx, name, &number));
    ls__run_folder_name(name, number, t->dir, sizeof(t->dir));
    return LS_OK;
}

ls_lr_curve *ls_run_find_lr(ls_run *run, const ls_lr_find_config *config)
{
    if (!run || ls_context_status(run->ctx) != LS_OK) return NULL;
    if (check_extent(run, "ls_run_find_lr", LS_RUN_TRAINING) != LS_OK) return NULL;
    const bool is_named = *run->dir;
    if (make_lr_folder(run) != LS_OK) return NULL;
    ls__run_advise_images(run);
    ls_lr_curve *curve = ls_lr_find(run->net, run->optimizer, run->train, config);
    if (!curve && !is_named) (void)rmdir(run->dir);
    return curve;
}

/* ---- Parts ---- */

ls_context *ls_run_context(const ls_run *run)
{
    return run ? run->ctx : NULL;
}

const char *ls_run_dir(const ls_run *run)
{
    return run ? run->dir : "";
}

ls_net *ls_run_net(const ls_run *run)
{
    return run ? run->net : NULL;
}

ls_optimizer *ls_run_optimizer(const ls_run *run)
{
    return run ? run->optimizer : NULL;
}

ls_schedule *ls_run_schedule(const ls_run *run)
{
    return run ? run->schedule : NULL;
}

ls_dataset *ls_run_train_dataset(const ls_run *run)
{
    return run ? run->train_data : NULL;
}

ls_dataset *ls_run_validation_dataset(const ls_run *run)
{
    return run ? run->val_data : NULL;
}

const char *ls_run_split_name(const ls_run *run, ls_split split)
{
    return run ? run->split_names[split] : "";
}

ls_loader_config ls_run_train_loader_config(const ls_run *run)
{
    return run ? ls__run_train_loader_config(run->settings) : (ls_loader_config){ 0 };
}

ls_loader *ls_run_train_loader(const ls_run *run)
{
    return run ? run->train : NULL;
}

ls_loader *ls_run_validation_loader(const ls_run *run)
{
    return run ? run->val : NULL;
}

const ls_weight_report *ls_run_weight_report(const ls_run *run)
{
    return run ? run->weights : NULL;
}

ls_trainer *ls_run_trainer(const ls_run *run)
{
    return run ? run->trainer : NULL;
}

/* ---- Files ---- */

bool ls_run_names_file(const char *path)
{
    return path && ls__run_folder_names_file(path);
}
