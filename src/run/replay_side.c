/* replay_side.c: see replay_side.h. */
#include "run/replay_side.h"

#include "base/c_locale.h"
#include "base/error.h"
#include "checkpoint/identity.h"
#include "checkpoint/progress.h"
#include "io/json.h"
#include "log/metrics.h"
#include "log/run_folder.h"
#include <dirent.h>
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* {"identity": {...}} from the checkpoint of a trainer's run; NULL with the error. */
static json_t *read_identity(ls_context *ctx, const char *dir)
{
    LS__IN_C_LOCALE;
    char path[LS__RUN_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/last.safetensors", dir);
    ls_tensor_file *file = ls_tensor_file_open(ctx, path);
    const char *text = file ? ls_tensor_file_metadata(file, "identity") : NULL;
    json_t *identity = text ? json_loads(text, 0, NULL) : NULL;
    json_t *out = json_is_object(identity) ? json_pack("{s:O}", "identity", identity) : NULL;
    if (file && !out && identity)
        ls__fail_memory(ctx, path, 0);
    else if (file && !out)
        ls__fail(ctx, LS_ERR_FORMAT, "%s: no checkpoint of a run: its metadata has no 'identity'",
                 path);
    json_decref(identity);
    ls_tensor_file_close(&file);
    return out;
}

ls_status ls__replay_side_read(ls_context *ctx, ls__replay_side *side, const char *dir)
{
    char path[LS__RUN_PATH_SIZE];
    side->dir = dir;
    if (strlen(dir) >= LS__RUN_DIR_SIZE)
        return ls__fail(ctx, LS_ERR_INVALID, "the name of the run's folder is too long");
    snprintf(side->run_log, sizeof(side->run_log), "%s/run_log.txt", dir);
    side->is_of_trainer = ls__run_folder_is_of_program(dir);
    if (!side->is_of_trainer) side->config = ls__run_config_read(ctx, dir, path);
    LS_TRY(ls_context_status(ctx));
    side->manifest =
        side->is_of_trainer ? read_identity(ctx, dir) : ls__run_manifest_read(ctx, dir, path);
    return ls_context_status(ctx);
}

/* The execution settings of the last session that began at or before the step. Where sessions
 * repeated a step, the run log holds the digests of the last one. */
static const json_t *execution_at(const ls__replay_side *side, int64_t step)
{
    const json_t *sessions = json_object_get(side->manifest, "sessions"), *out = NULL;
    for (size_t i = 0; i < json_array_size(sessions); i++) {
        const json_t *session = json_array_get(sessions, i);
        if (!out || ls__json_get_integer(session, "from_step") <= step)
            out = json_object_get(session, "execution");
    }
    return out;
}

static ls_status read_settings(ls_context *ctx, ls__replay_side *side, int64_t step,
                               const char *data_dir)
{
    const ls_given none = { .table = ls__run_settings_table };
    const json_t *options = json_object_get(side->config, "options");
    ls__run_settings *r = &side->settings;
    (void)ls__run_config_settle_device(side->config);
    LS_TRY(ls__settings_resume(ctx, &none, options, side->dir, r));
    if (!side->model && !ls_model_require(ctx, r->model)) return LS_ERR_SETTING;
    const json_t *execution = execution_at(side, step);
    r->workers = ls__json_get_integer(execution, "workers");
    r->threads = ls__json_get_integer(execution, "threads");
    r->fault = ls__json_get_string(execution, "fault");
    r->algorithm_cache = NULL; /* the checkpoint names the kernels */
    r->force = false;
    if (data_dir) r->data_dir = data_dir;
    return LS_OK;
}

/* Finds the latest checkpoint at or before `step`. Returns its number of steps; 0 = there is
 * none. */
static int64_t find_checkpoint(ls__replay_side *side, int64_t step)
{
    int64_t best = 0;
    DIR *folder = opendir(side->dir);
    for (const struct dirent *e; folder && (e = readdir(folder));) {
        const char *name = e->d_name;
        if (fnmatch("checkpoint-*.safetensors", name, 0) != 0 &&
            fnmatch("last.*safetensors", name, 0) != 0)
            continue;
        char path[LS__RUN_PATH_SIZE];
        if ((size_t)snprintf(path, sizeof(path), "%s/%s", side->dir, name) >= sizeof(path))
            continue;
        ls_tensor_file *file = ls_tensor_file_open(side->run.ctx, path);
        const int64_t done = ls__run_steps_done(file, ls_loader_step_count(side->run.train));
        ls_tensor_file_close(&file);
        ls_context_clear_error(side->run.ctx); /* damaged files are skipped */
        if (done <= best || done > step) continue;
        best = done;
        memcpy(side->restored_from, path, sizeof(path));
    }
    if (folder) closedir(folder);
    return best;
}

/* Reports the stored metric to the plateau schedule, as the run did; NaN is null in its row. */
static ls_status end_epoch(void *user, int64_t epoch)
{
    const ls__replay_side *side = user;
    const ls_run *t = &side->run;
    if (t->settings->schedule != LS_SCHEDULE_REDUCE_ON_PLATEAU) return LS_OK;
    json_t *row;
    LS_TRY(ls__metrics_read_row(t->ctx, side->dir, epoch + 1, &row));
    const ls__run_settings *r = t->settings;
    const bool by_metric = ls__run_metric_is_minimized(ls__run_metric(r)) == (bool)r->plateau_loss;
    const int read = by_metric         ? (int)ls__run_metric(r)
                     : r->plateau_loss ? LS__METRIC_LOSS
                                       : LS__METRIC_TOP1;
    char key[64];
    snprintf(key, sizeof(key), "%s_%s", t->val ? "val" : "train", ls__run_metric_name(read));
    const json_t *value = json_object_get(row, key);
    const double metric = json_is_number(value) ? json_number_value(value) : NAN;
    json_decref(row);
    return ls_schedule_report(t->schedule, metric);
}

/* LS_ERR_MISMATCH unless the opened run has the identity of the manifest. */
static ls_status check_identity(ls__replay_side *side)
{
    ls_run *t = &side->run;
    char text[512];
    json_t *now = ls__run_manifest_identity(t);
    const json_t *stored = json_object_get(side->manifest, "identity");
    LS_TRY(ls_context_status(t->ctx));
    ls__identity_adopt_weights(now, stored);
    json_t *differences = ls__identity_differences(stored, now, true);
    ls_status status = differences ? LS_OK : ls__fail_memory(t->ctx, "identity", 0);
    if (json_array_size(differences) > 0)
        status = ls__fail(t->ctx, LS_ERR_MISMATCH, "%s can't be replayed: %s", side->dir,
                          ls__identity_text(json_array_get(differences, 0), "in the run", "now",
                                            text, sizeof(text)));
    json_decref(differences);
    json_decref(now);
    return status;
}

/* Restores the latest usable checkpoint. Damaged ones and those of another identity are skipped
 * with a warning. Without one, the run's first weights are needed: those of --weights are read
 * again. */
static ls_status restore(ls__replay_side *side, int64_t step, ls__compare_side *out)
{
    ls_run *t = &side->run;
    for (int64_t done; (done = find_checkpoint(side, step)) > 0; step = done - 1) {
        ls_training_state state = ls__run_state(t);
        ls__progress progress;
        if (ls__progress_load(side->restored_from, &state, &progress) == LS_OK) {
            out->epoch = state.epoch;
            out->step = state.step;
            return LS_OK;
        }
        ls__warn(t->ctx, LS_LOG_RUN, "%s", ls_context_message(t->ctx));
        ls_context_clear_error(t->ctx);
    }
    side->restored_from[0] = '\0';
    if (!t->settings->weights) return LS_OK;
    LS_TRY(ls__run_load_weights(t));
    return check_identity(side);
}

static ls_status open_run(ls_context *ctx, ls__replay_side *side, int64_t step,
                          ls__compare_side *out)
{
    ls_run *t = &side->run;
    ls_context_config config = ls__run_context_config(&side->settings);
    config.log = ctx->config.log;
    config.log_user = ctx->config.log_user;
    *t = (ls_run){ .settings = &side->settings,
                   .model = side->model,
                   .ctx = ls_context_open(&config) };
    strcpy(t->dir, side->dir);
    if (!t->ctx) return ls__fail_memory(ctx, side->dir, 0);
    LS_TRY(ls__run_open_objects(t, true));
    LS_TRY(check_identity(side));
    *out = (ls__compare_side){ .net = t->net,
                               .optimizer = t->optimizer,
                               .loader = t->train,
                               .schedule = t->schedule,
                               .end_epoch = end_epoch,
                               .user = side,
                               .run_log = side->run_log };
    return restore(side, step, out);
}

ls_status ls__replay_side_open(ls_context *ctx, ls__replay_side *side, int64_t step,
                               const char *data_dir, ls__compare_side *out)
{
    LS_TRY(read_settings(ctx, side, step, data_dir));
    const ls_status status = open_run(ctx, side, step, out);
    if (status != LS_OK) ls__copy_error(ctx, side->run.ctx);
    return status;
}

void ls__replay_side_leave(ls__replay_side *side)
{
    ls__run_release(&side->run);
    side->run = (ls_run){ .ctx = NULL };
    side->restored_from[0] = '\0';
}

void ls__replay_side_close(ls__replay_side *side)
{
    ls__replay_side_leave(side);
    json_decref(side->config);
    json_decref(side->manifest);
}
