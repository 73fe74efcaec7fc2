/* compare_side.c: see compare_side.h. */
#include "compare_side.h"
#include "run/identity.h"
#include "run/json.h"
#include "run/metrics.h"
#include "run/checkpoint.h"
#include <dirent.h>
#include <stdio.h>
#include <string.h>

bool compare_side_read(compare_side *side, const cli_verb *verb, const char *dir)
{
    char path[RUN_PATH_SIZE];
    *side = (compare_side){ .verb = verb, .dir = dir };
    if (strlen(dir) >= RUN_DIR_SIZE)
        return fail_with(verb, false, "the name of the run's folder is too long");
    snprintf(side->record, sizeof(side->record), "%s/run_log.txt", dir);
    side->config = run_config_read(verb, dir, path);
    side->manifest = side->config ? run_manifest_read(verb, dir, path) : NULL;
    return side->manifest != NULL;
}

/* The executors of the last session that began at or before the step. Where sessions repeated a
 * step, the run log holds the digests of the last one. */
static const json_t *executors_at(const compare_side *side, int64_t step)
{
    const json_t *sessions = json_object_get(side->manifest, "sessions"), *out = NULL;
    size_t i;
    json_t *session;
    json_array_foreach((json_t *)sessions, i,
                       session) if (!out || ls__json_get_integer(session, "from_step") <= step)
        out = json_object_get(session, "executors");
    return out;
}

static bool read_recipe(compare_side *side, int64_t step, const char *data_dir)
{
    const cli_parsed none = { 0 };
    const json_t *options = json_object_get(side->config, "options");
    recipe *r = &side->recipe;
    (void)run_config_settle_device(side->config);
    if (!options_resume(&verb_train, options, side->dir, r, &none)) return false;
    if (!find_model(side->verb, r->model)) return false;
    const json_t *executors = executors_at(side, step);
    r->workers = ls__json_get_integer(executors, "workers");
    r->threads = ls__json_get_integer(executors, "threads");
    r->fault = ls__json_get_string(executors, "fault");
    r->algorithm_cache = NULL; /* the checkpoint names the kernels */
    r->force = false;
    if (data_dir) r->data_dir = data_dir;
    return true;
}

int64_t compare_side_steps_done(const ls_tensor_file *file, int64_t steps)
{
    int64_t epoch, step;
    if (!ls__metadata_count(file, "epoch", &epoch) || !ls__metadata_count(file, "step", &step))
        return -1;
    return epoch <= (INT64_MAX - step) / steps ? epoch * steps + step : -1;
}

static int64_t steps_of(cli_run *t, const char *path)
{
    ls_tensor_file *file = ls_tensor_file_open(t->ctx, path);
    const int64_t done = compare_side_steps_done(file, ls_loader_step_count(t->train));
    ls_tensor_file_close(&file);
    ls_context_clear_error(t->ctx); /* a damaged file is no reason to give up */
    return done;
}

/* Finds the latest checkpoint at or before `step`. Returns its number of steps; 0 = there is
 * none. */
static int64_t find_checkpoint(compare_side *side, int64_t step)
{
    int64_t best = 0;
    DIR *folder = opendir(side->dir);
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        const char *name = entry->d_name;
        const char *dot = strrchr(name, '.');
        if ((strncmp(name, "checkpoint-", 11) != 0 && strncmp(name, "last.", 5) != 0) || !dot ||
            strcmp(dot, ".safetensors") != 0)
            continue;
        char path[RUN_PATH_SIZE];
        if ((size_t)snprintf(path, sizeof(path), "%s/%s", side->dir, name) >= sizeof(path))
            continue;
        const int64_t done = steps_of(&side->run, path);
        if (done <= best || done > step) continue;
        best = done;
        memcpy(side->begun_from, path, sizeof(path));
    }
    if (folder) closedir(folder);
    return best;
}

/* Restores the latest usable checkpoint. Damaged ones and those of another identity are skipped. */
static void restore(compare_side *side, int64_t step, ls__compare_side *out)
{
    cli_run *t = &side->run;
    for (int64_t done; (done = find_checkpoint(side, step)) > 0; step = done - 1) {
        ls_training_state state = cli_run_state(t);
        ls__progress progress;
        if (ls__progress_load(side->begun_from, &state, &progress) == LS_OK) {
            out->epoch = state.epoch;
            out->step = state.step;
            return;
        }
        print_error(side->verb, t->ctx, EXIT_RUNTIME);
    }
    side->begun_from[0] = '\0';
}

/* The metric after an epoch, counted from 0; 0 where its row cannot be read. */
static double read_metric(const compare_side *side, int64_t epoch)
{
    const cli_run *t = &side->run;
    json_t *row = ls__metrics_read_row(t->ctx, side->dir, epoch + 1);
    const double metric =
        json_number_value(json_object_get(row, t->val ? "val_top1" : "train_top1"));
    json_decref(row);
    return metric;
}

/* Reports the stored metric to the plateau schedule, as the run did. */
static ls_status end_epoch(void *user, int64_t epoch)
{
    const compare_side *side = user;
    const cli_run *t = &side->run;
    if (t->recipe->schedule != SCHEDULE_PLATEAU) return LS_OK;
    return ls_schedule_report(t->schedule, read_metric(side, epoch));
}

/* Whether the opened run has the identity of the manifest. */
static bool is_same_run(compare_side *side)
{
    cli_run *t = &side->run;
    char text[512];
    json_t *now = run_manifest_identity(t);
    json_t *differences =
        now ? ls__identity_differences(json_object_get(side->manifest, "identity"), now, true)
            : NULL;
    const bool same = differences && json_array_size(differences) == 0;
    if (!now) print_error(side->verb, t->ctx, EXIT_RUNTIME);
    if (differences && !same)
        print_message(
            side->verb, "%s can't be replayed: %s", side->dir,
            ls__identity_text(json_array_get(differences, 0), "there", "here", text, sizeof(text)));
    json_decref(differences);
    json_decref(now);
    return same;
}

bool compare_side_open(compare_side *side, int64_t step, const char *data_dir,
                       ls__compare_side *out)
{
    cli_run *t = &side->run;
    *t = (cli_run){ .verb = side->verb, .recipe = &side->recipe, .dir = side->dir };
    if (!read_recipe(side, step, data_dir)) return false;
    if (cli_run_open(t, true) != EXIT_DONE || !is_same_run(side)) return false;
    *out = (ls__compare_side){ .net = t->net,
                               .optimizer = t->optimizer,
                               .loader = t->train,
                               .schedule = t->schedule,
                               .end_epoch = end_epoch,
                               .user = side,
                               .run_log = side->record };
    restore(side, step, out);
    return true;
}

void compare_side_leave(compare_side *side)
{
    cli_run_close(&side->run);
    side->begun_from[0] = '\0';
}

void compare_side_close(compare_side *side)
{
    compare_side_leave(side);
    json_decref(side->config);
    json_decref(side->manifest);
}
