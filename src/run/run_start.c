/* run_start.c: the folder of a run that trains: a new one, or that of a run that resumes; see
 * run.h.
 */
#include "base/error.h"
#include "base/path.h"
#include "io/json.h"
#include "log/run_folder.h"
#include "run/run_files.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- The folder of a new run ---- */

static const char default_name[] = "run";

/* Of messages that name a folder: the command's option, "" for a program. */
static const char *out_option(const ls_run *t)
{
    return ls__run_is_of_command(t) ? "--out " : "";
}

/* LS_ERR_SETTING unless the run in `dir` may be replaced, because it has no step. */
static ls_status check_replaceable(const ls_run *t, const char *dir)
{
    if (ls__run_has_no_step(dir)) return LS_OK;
    if (ls__run_is_of_command(t))
        return ls__fail(t->ctx, LS_ERR_SETTING,
                        "%s already contains a run: resume it with --resume %s, or choose another "
                        "--out",
                        dir, dir);
    return ls__fail(t->ctx, LS_ERR_SETTING,
                    "%s already contains a run: resume it with ls_run_resume, or choose another "
                    "folder",
                    dir);
}

ls_status ls__run_folder_may_take(const ls_run *t, const char *dir)
{
    char name[LS__FILE_NAME_SIZE];
    if (ls__run_folder_holds_run(dir)) return check_replaceable(t, dir);
    if (ls__run_folder_is_of_program(dir))
        return ls__fail(t->ctx, LS_ERR_SETTING,
                        "%s%s: contains a run of another program; choose another folder",
                        out_option(t), dir);
    if (ls__path_exists(dir) && !ls__is_folder(dir))
        return ls__fail(t->ctx, LS_ERR_SETTING, "%s%s: not a folder", out_option(t), dir);
    if (!ls__run_folder_find_foreign(dir, name)) return LS_OK;
    return ls__fail(t->ctx, LS_ERR_SETTING,
                    "%s%s: the folder is not empty and contains no run (found '%s'); expected "
                    "a new or empty folder",
                    out_option(t), dir, name);
}

/* From here on the folder contains no run. */
static ls_status remove_run(const ls_run *t)
{
    char path[LS__RUN_PATH_SIZE];
    LS_TRY(check_replaceable(t, t->dir));
    snprintf(path, sizeof(path), "%s/log.txt", t->dir);
    (void)remove(path);
    snprintf(path, sizeof(path), "%s/config.json", t->dir);
    return remove(path) == 0 ? LS_OK : ls__fail_errno(t->ctx, errno, "%s", path);
}

/* In rank 0. *number: of a new folder without a given name, else 0. */
static ls_status take_first(const ls_run *t, bool *made, int *number)
{
    char dir[LS__RUN_DIR_SIZE];
    snprintf(dir, sizeof(dir), "%s", t->dir);
    ls_status status = LS_OK;
    const bool is_new = !*dir, existed = !is_new && ls__path_exists(dir);
    const bool again = !is_new && !t->stored && ls__run_folder_holds_run(dir);
    if (is_new) {
        status = ls__run_folder_create_new(t->ctx, default_name, number);
        ls__run_folder_name(default_name, *number, dir, sizeof(dir));
    } else if (!t->stored && !again) {
        status = ls__run_folder_create(t->ctx, dir);
    }
    const bool is_there = status == LS_OK;
    if (status == LS_OK) status = ls__run_folder_lock(t->ctx, dir, NULL);
    /* Another process may have locked the new folder first, so only an empty one is removed. */
    if (is_there && status != LS_OK && !existed) (void)rmdir(dir);
    LS_TRY(status);
    *made = !existed;
    return again ? remove_run(t) : LS_OK;
}

/* Makes and locks the folder; *made: it did not exist, in rank 0. */
static ls_status take_folder(ls_run *t, bool *made)
{
    int number = 0, numbers[LS_MAX_RANKS];
    if (ls_context_rank(t->ctx) == 0) LS_TRY(take_first(t, made, &number));
    if (*t->dir) return LS_OK;
    LS_TRY(ls_context_gather(t->ctx, number, numbers));
    ls__run_folder_name(default_name, numbers[0], t->dir, sizeof(t->dir));
    return LS_OK;
}

/* ---- What a run has stored ---- */

/* With --seeding worker the number of workers is part of the identity, which --force does not
 * change. */
static ls_status check_workers(ls_context *ctx, const json_t *stored, const ls__run_settings *r)
{
    const int64_t workers = ls__json_get_integer(stored, "workers");
    if (r->seeding != LS_SEED_BY_WORKER || r->workers == workers) return LS_OK;
    return ls__fail(ctx, LS_ERR_SETTING,
                    "--workers %lld: the run has %lld workers, and with --seeding worker its "
                    "result depends on that number; omit --workers",
                    (long long)r->workers, (long long)workers);
}

/* A run with --device auto resumes on its first device, because another device gives bitwise
 * different results. Returns the device's name; NULL if the run does not have --device auto. */
static const char *keep_device(json_t *stored, ls__run_settings *r)
{
    const char *taken = ls__run_config_settle_device(stored);
    const char *own = ls__json_get_string(json_object_get(stored, "options"), "device");
    if ((taken && ls__is_device_auto(r->device)) || (own && ls__is_same_device(r->device, own)))
        r->device = own;
    return taken;
}

static ls_status fail_no_run(const ls_run *t, ls_context *ctx)
{
    const char *dir = t->dir;
    char path[LS__RUN_PATH_SIZE];
    if (ls__run_folder_is_of_program(dir))
        return ls__fail(ctx, LS_ERR_NOT_FOUND,
                        "%s: a run of another program, whose net can't be built here; that program "
                        "can resume it",
                        dir);
    snprintf(path, sizeof(path), "%s/config.json", dir);
    if (!ls__path_exists(path) && errno != ENOENT && errno != ENOTDIR)
        return ls__fail_errno(ctx, errno, "%s", path);
    const char *what = ls__is_folder(dir) ? "/config.json: no such file" : ": no such folder";
    if (!ls__ranks_is_first())
        return ls__fail(ctx, LS_ERR_NOT_FOUND, "%s%s; all ranks read the run's folder", dir, what);
    if (ls__run_is_of_command(t))
        return ls__fail(ctx, LS_ERR_NOT_FOUND, "%s%s; --out %s starts a run there", dir, what, dir);
    return ls__fail(ctx, LS_ERR_NOT_FOUND, "%s%s; ls_run_open starts a run there", dir, what);
}

ls_status ls__run_check_checkpoint(const ls_run *t)
{
    char path[LS__RUN_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/last.safetensors", t->dir);
    return ls__path_exists(path)
               ? LS_OK
               : ls__fail(t->ctx, LS_ERR_NOT_FOUND,
                          "%s: no such file; the run can't resume without it", path);
}

ls_status ls__run_read_stored(ls_run *t, ls_context *ctx, const ls_given *given,
                              ls__run_settings *r)
{
    enum { MODELS_SIZE = 512 };
    char path[LS__RUN_PATH_SIZE];
    if (!ls__run_folder_holds_run(t->dir)) return fail_no_run(t, ctx);
    t->stored = ls__run_config_read(ctx, t->dir, path);
    if (!t->stored) return ls_context_status(ctx);
    const json_t *options = json_object_get(t->stored, "options");
    const char *used = keep_device(t->stored, r);
    LS_TRY(ls__settings_resume(ctx, given, options, path, r));
    /* With --device auto, --benchmark was meant for a GPU. */
    if (used && strcmp(used, "cpu") == 0 && r->arithmetic == LS_ARITHMETIC_PORTABLE)
        r->benchmark = false;
    LS_TRY(check_workers(ctx, options, r));
    LS_TRY(ls__run_settings_may_resume(ctx, options, r, t->dir));
    const bool is_own = t->model && strcmp(t->model->name, r->model) == 0;
    const ls_model *model = is_own ? t->model : t->model ? NULL : ls_model_find(r->model);
    if (t->model && !is_own)
        return ls__fail(ctx, LS_ERR_SETTING, "%s: the run's model is '%s', the program's '%s'",
                        path, r->model, t->model->name);
    if (!model) {
        char models[MODELS_SIZE];
        ls_model_list(models, sizeof(models));
        ls__fail(ctx, LS_ERR_SETTING, "%s: option 'model': expected one of %s, got '%s'", path,
                 models, r->model);
        ls__error_hint(ctx, "a run with a program's own model is resumed by that program");
        return LS_ERR_SETTING;
    }
    if (used)
        ls__note(ctx, LS_LOG_RUN, "%s resumes on %s, the device that --device auto selected",
                 t->dir, used);
    t->changed = ls__settings_changed(given->table, options, r);
    return t->changed ? LS_OK : ls__fail_memory(ctx, path, 0);
}

/* ---- The start ---- */

static ls_trainer *open_trainer(const ls_run *t)
{
    const ls__run_settings *r = t->settings;
    const bool ends_earlier = r->stop_at > 0 && (r->steps == 0 || r->stop_at < r->steps);
    const ls_trainer_config config = { .max_steps = ends_earlier ? r->stop_at : r->steps,
                                       .metric = ls__run_chosen_metric(r),
                                       .validation = t->val,
                                       .dir = t->dir,
                                       .resume = t->stored != NULL,
                                       .force = t->stored && r->force,
                                       .model = &t->info,
                                       .tensorboard = (ls_tensorboard)r->tensorboard,
                                       .stop = t->stop,
                                       .on_event = t->on_event,
                                       .user = t->user,
                                       LS__TRAINER_SETTINGS(LS__SETTING_COPY) };
    return ls_trainer_open(t->net, t->optimizer, t->schedule, t->train, &config);
}

/* Opens the trainer in the folder, which then contains the run. */
static ls_status begin(ls_run *t)
{
    t->trainer = open_trainer(t);
    LS_TRY(ls_context_status(t->ctx));
    LS_TRY(ls__run_manifest_begin(t)); /* only after the trainer is open */
    /* The first checkpoint stores the kernel selections, so that a run that is killed before its
     * next checkpoint resumes with them. A forced resume changes the identity, so it is saved too.
     */
    if (!t->stored || json_array_size(t->forced) > 0) LS_TRY(ls_trainer_save(t->trainer));
    if (t->stored) return ls__run_config_change(t);
    return ls__run_config_write(t); /* from here on the folder contains a run */
}

ls_status ls__run_start(ls_run *t)
{
    int all[LS_MAX_RANKS];
    bool made = false;
    /* Only if no rank has failed yet: it ends rank 0. */
    LS_TRY(ls_context_gather(t->ctx, 0, all));
    ls_status status = take_folder(t, &made);
    if (status == LS_OK && t->stored) status = ls__run_manifest_check(t);
    if (status == LS_OK) status = begin(t);
    if (status != LS_OK) ls_trainer_close(&t->trainer);
    if (status != LS_OK && made) ls__run_folder_remove(t->dir);
    return status;
}
