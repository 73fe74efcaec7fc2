/* run.c: runs of programs; see lockstep/run.h. */
#include <lockstep/run.h>

#include "base/c_locale.h"
#include "base/context.h"
#include "base/error.h"
#include "base/floats.h"
#include "base/utf8.h"
#include "data/dataset/splits.h"
#include "run/advice.h"
#include "run/folders.h"
#include "run/help_texts.h"
#include "run/paths.h"
#include "run/ranks.h"
#include "run/read_settings.h"
#include "run/run_state.h"
#include "run/run_files.h"
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool ls_run_setting_at(int i, ls_setting *out)
{
    return ls__setting_at(ls__run_settings_table, i, out);
}

static ls_status set_dir(ls_run *t, const char *dir)
{
    if (!dir) return LS_OK; /* a new name, when the folder is made */
    if (strlen(dir) >= sizeof(t->dir))
        return ls__fail(t->ctx, LS_ERR_SETTING, "the name of the run's folder is too long");
    strcpy(t->dir, dir);
    return LS_OK;
}

/* ---- Opening ---- */

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
    return ls__run_check_ranks(ctx, &t->values);
}

/* Whether this process is rank 0, which alone takes the folder, or the only one. */
static bool is_first_rank(void)
{
    const ls__launch launch = ls__launch_find();
    return !launch.variable || launch.n_ranks == 1 || launch.rank <= 0;
}

/* LS_ERR_INVALID for an unusable model of the program; LS_ERR_SETTING where the setting is given,
 * too. */
static ls_status check_model(const ls_run *t, const ls__given *given)
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
    if (!ls__given_has(given, "model")) return LS_OK;
    return ls__fail(t->ctx, LS_ERR_SETTING, "--model is given beside a model of the program");
}

static ls_status open_new(ls_run *t, const char *dir, const ls_run_config *config)
{
    ls__given given;
    LS_TRY(set_dir(t, dir));
    LS_TRY(ls__settings_read(t->ctx, ls__run_settings_table, config->settings, &t->texts,
                             &t->values, &given));
    if (!t->values.data_dir) return ls__fail(t->ctx, LS_ERR_SETTING, "--data-dir is required");
    LS_TRY(check_model(t, &given));
    if (dir && (config->one_process || is_first_rank()))
        LS_TRY(ls__run_folder_may_take(t->ctx, dir));
    LS_TRY(ls__run_settings_resolve(t->ctx, &given, t->model, &t->values));
    if (t->model) t->values.model = t->model->name; /* a preset may have set another one */
    t->computed = ls__settings_computed(&given);
    if (!t->computed) return ls__fail_memory(t->ctx, "settings", 0);
    LS_TRY(open_context(t, config));
    return ls__run_open_objects(t, false);
}

static ls_status open_stored(ls_run *t, const char *dir, const ls_run_config *config)
{
    ls__given given;
    if (!dir) return ls__fail(t->ctx, LS_ERR_INVALID, "ls_run_resume: dir is NULL");
    LS_TRY(set_dir(t, dir));
    LS_TRY(ls__settings_read(t->ctx, ls__run_settings_table, config->settings, &t->texts,
                             &t->values, &given));
    LS_TRY(check_model(t, &given));
    t->values.resume = t->dir;
    LS_TRY(ls__run_read_stored(t, t->ctx, &given, &t->values));
    LS_TRY(open_context(t, config));
    return ls__run_open_objects(t, true);
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
    t->user = config->user;
    t->can_start = ls_context_status(t->ctx) == LS_OK && open(t, dir, config) == LS_OK;
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
                        "ls_run_train: the run was not opened or started; close it, and open "
                        "another one");
    t->can_start = false;
    LS_TRY(ls__run_start(t));
    if (!t->stored) ls__run_advise(t);
    return ls_context_status(t->ctx);
}

/* Saves the manifest beside the error of the training, which is kept. */
static ls_status save_after_error(ls_run *t)
{
    const ls_status status = ls_context_status(t->ctx);
    char message[LS__MESSAGE_SIZE];
    snprintf(message, sizeof(message), "%s", ls_context_message(t->ctx));
    ls_context_clear_error(t->ctx);
    (void)ls__run_manifest_save(t);
    ls_context_clear_error(t->ctx);
    return ls__fail(t->ctx, status, "%s", message);
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
    ls__settings_free_texts(t->texts);
    free(t);
    *run = NULL;
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

ls_loader *ls_run_train_loader(const ls_run *run)
{
    return run ? run->train : NULL;
}

ls_loader *ls_run_validation_loader(const ls_run *run)
{
    return run ? run->val : NULL;
}

ls_trainer *ls_run_trainer(const ls_run *run)
{
    return run ? run->trainer : NULL;
}

/* ---- Images ---- */

/* Whether the path itself is that of validation or test images, by its name: "data/val". */
static bool is_validation(const char *path)
{
    char name[LS__PATH_SIZE];
    ls_split split;
    if (snprintf(name, sizeof(name), "%s", path) >= LS__PATH_SIZE) return false;
    const char *base = basename(name);
    return (ls__is_folder(path) ? ls_split_of_name(base, &split)
                                : ls__split_of_list(base, &split)) &&
           split != LS_SPLIT_TRAIN;
}

ls_dataset *ls_dataset_open(ls_context *ctx, const char *path, const ls_dataset_config *config)
{
    static const ls_dataset_config defaults = { 0 };
    if (!config) config = &defaults;
    LS__ENTER_NULL(ctx);
    int64_t counts[LS_N_SPLITS];
    const ls__data_settings o = { .csv_columns = config->csv_columns,
                                  .image_root = config->image_root,
                                  .label_pattern = config->label_pattern,
                                  .group_column = config->group_column,
                                  .group_pattern = config->group_pattern };
    if (!path || (config->split != LS_SPLIT_TRAIN && config->split != LS_SPLIT_VALIDATION)) {
        ls__fail(ctx, LS_ERR_INVALID, "ls_dataset_open: %s",
                 path ? "expected the split for training or validation" : "path is NULL");
        return NULL;
    }
    const bool has_classes = config->classes || config->n_classes > 0;
    if (has_classes &&
        (!config->classes || config->n_classes <= 0 || config->split == LS_SPLIT_TRAIN)) {
        ls__fail(
            ctx, LS_ERR_INVALID,
            "ls_dataset_open: expected n_classes names of classes for validation, or 0 and NULL");
        return NULL;
    }
    LS__IN_C_LOCALE;
    if (!ls__data_settings_check(ctx, &o)) return NULL;
    if (config->split == LS_SPLIT_VALIDATION)
        return ls__folders_open_val(ctx, path, &o, is_validation(path), config->n_classes,
                                    config->classes);
    return ls__folders_open_train(ctx, path, &o, !ls__data_count_splits(path, &o, counts));
}
