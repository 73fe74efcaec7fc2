/* run_files.c: see run_files.h. */
#include "runs/run_files.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/identity.h"
#include "io/json.h"
#include "run/provenance.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- config.json ---- */

/* The number of training images of each class; NULL for targets. */
static json_t *describe_classes(const ls_dataset *data)
{
    const int n = ls_dataset_class_count(data);
    int64_t *counts = n > 0 ? calloc((size_t)n, sizeof(*counts)) : NULL;
    const bool counted = counts && ls_dataset_class_sizes(data, counts) == LS_OK;
    json_t *out = counted ? json_array() : NULL;
    for (int i = 0; i < n && out; i++) json_array_append_new(out, json_integer(counts[i]));
    free(counts);
    return out;
}

static json_t *describe_data(const cli_run *t)
{
    return json_pack(
        "{s:I, s:I, s:o, s:o*}", "train_images", (json_int_t)ls_dataset_sample_count(t->train_data),
        "val_images", (json_int_t)(t->val ? ls_dataset_sample_count(t->val_data) : 0), "classes",
        ls__json_classes(t->ctx, t->train_data), "class_images", describe_classes(t->train_data));
}

/* A path as a command in another folder finds it; as it was typed only where its full name is not
 * UTF-8. */
static bool describe_path(json_t *options, const char *key, const char *path)
{
    char *full = realpath(path, NULL);
    const bool typed = full ? !is_utf8(full) : errno != ENOMEM;
    const bool good = typed || (full && json_object_set_new(options, key, json_string(full)) == 0);
    free(full);
    return good;
}

static json_t *describe_options(const cli_run *t)
{
    json_t *options = options_to_json(recipe_options, t->recipe);
    const char *weights = t->recipe->weights, *root = t->recipe->data.image_root;
    if (describe_path(options, "data-dir", t->recipe->data_dir) &&
        (!root || describe_path(options, "image-root", root)) &&
        (!weights || describe_path(options, "weights", weights)))
        return options;
    json_decref(options);
    return NULL;
}

static ls_status write_config(const cli_run *t, const json_t *config)
{
    char path[RUN_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/config.json", t->dir);
    return ls__json_save(t->ctx, path, config);
}

ls_status run_config_write(const cli_run *t)
{
    if (ls_context_rank(t->ctx) > 0) return LS_OK;
    json_t *config = json_pack("{s:s, s:o, s:O, s:o, s:s, s:I}", "lockstep", ls_version(),
                               "options", describe_options(t), "computed", t->computed, "data",
                               describe_data(t), "device", ls_context_device(t->ctx), "parameters",
                               (json_int_t)ls_net_parameter_element_count(t->net));
    const ls_status status = write_config(t, config);
    json_decref(config);
    return status;
}

ls_status run_config_change(const cli_run *t, json_t *stored)
{
    json_t *options = json_object_get(stored, "options"), *change;
    size_t i;
    json_array_foreach(t->changed, i, change)
    {
        const char *name = ls__json_get_string(change, "option");
        if (json_object_set(options, name, json_object_get(change, "here")) != 0)
            return write_config(t, NULL); /* reports that there is no memory */
    }
    const bool writes = ls_context_rank(t->ctx) == 0 && json_array_size(t->changed) > 0;
    return writes ? write_config(t, stored) : LS_OK;
}

bool is_device_auto(const char *device)
{
    return strcspn(device, ":") == strlen("auto") && strncmp(device, "auto", strlen("auto")) == 0;
}

static const char first_gpu[] = "cuda:0";

bool is_same_device(const char *a, const char *b)
{
    if (strcmp(a, "cuda") == 0) a = first_gpu;
    if (strcmp(b, "cuda") == 0) b = first_gpu;
    return strcmp(a, b) == 0;
}

const char *run_config_settle_device(json_t *stored)
{
    json_t *options = json_object_get(stored, "options");
    const char *asked = ls__json_get_string(options, "device");
    const char *used = ls__json_get_string(stored, "device");
    if (!asked || !is_device_auto(asked) || !used) return NULL;
    /* "cuda:0, NVIDIA H200, ...", which is "cuda" in each of several ranks */
    const size_t length = strcspn(used, ",");
    const bool is_first = length == strlen(first_gpu) && strncmp(used, first_gpu, length) == 0;
    json_t *name = is_first ? json_string("cuda") : json_stringn(used, length);
    return json_object_set_new(options, "device", name) == 0 ? json_string_value(name) : NULL;
}

int64_t run_steps_done(const ls_tensor_file *file, int64_t steps_per_epoch)
{
    int64_t epoch, step;
    if (!ls__metadata_count(file, "epoch", &epoch) || !ls__metadata_count(file, "step", &step))
        return -1;
    return epoch <= (INT64_MAX - step) / steps_per_epoch ? epoch * steps_per_epoch + step : -1;
}

bool run_has_no_step(const char *dir)
{
    char path[RUN_PATH_SIZE];
    int64_t n_steps = -1;
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    snprintf(path, sizeof(path), "%s/run_log.txt", dir);
    ls_run_log_step_count(ctx, path, &n_steps);
    snprintf(path, sizeof(path), "%s/last.safetensors", dir);
    ls_tensor_file *last = n_steps == 0 ? ls_tensor_file_open(ctx, path) : NULL;
    const bool fresh = run_steps_done(last, 1) == 0;
    ls_context_close(&ctx);
    return fresh;
}

/* Reads the object in the run's file `name`, and writes its path to `path`. On failure, or if
 * usable() returns false (members are `missing`), prints the reason and returns NULL. */
static json_t *read_json(const char *dir, const char *name, bool (*usable)(const json_t *json),
                         const char *missing, char path[RUN_PATH_SIZE])
{
    snprintf(path, RUN_PATH_SIZE, "%s/%s", dir, name);
    char reason[LS__JSON_REASON_SIZE];
    json_t *json;
    const ls_status status = ls__json_read(path, &json, reason);
    if (json && usable(json)) return json;
    if (json)
        print_message("%s: missing %s", path, missing);
    else if (status != LS_ERR_FORMAT && !file_exists(dir))
        print_message("%s: no such folder", dir);
    else if (status != LS_ERR_FORMAT && !is_folder(dir))
        print_message("%s: not a folder; expected the folder of a run", dir);
    else
        print_message("%s: %s", path,
                      status == LS_ERR_NOT_FOUND ? "no such file; the folder contains no run"
                                                 : reason);
    json_decref(json);
    return NULL;
}

static bool is_config(const json_t *json)
{
    return json_is_string(json_object_get(json_object_get(json, "options"), "data-dir"));
}

json_t *run_config_read(const char *dir, char path[RUN_PATH_SIZE])
{
    return read_json(dir, "config.json", is_config, "'options' with 'data-dir'", path);
}

/* ---- manifest.json ---- */

enum { TEXT_SIZE = 512 };

json_t *run_manifest_identity(const cli_run *t)
{
    const ls_training_state state = cli_run_state(t);
    return ls__identity_make(t->ctx, &state);
}

static bool is_manifest(const json_t *json)
{
    const json_t *sessions = json_object_get(json, "sessions");
    for (size_t i = 0; i < json_array_size(sessions); i++)
        if (!json_is_object(json_object_get(json_array_get(sessions, i), "execution")))
            return false;
    return json_is_object(json_object_get(json, "identity")) && json_array_size(sessions) > 0;
}

json_t *run_manifest_read(const char *dir, char path[RUN_PATH_SIZE])
{
    return read_json(dir, "manifest.json", is_manifest,
                     "'identity', 'sessions' or a session's 'execution'", path);
}

static void print_differences(const cli_run *t, const char *how, const json_t *differences)
{
    size_t i;
    json_t *difference;
    char text[TEXT_SIZE];
    json_array_foreach((json_t *)differences, i, difference)
        print_message("%s: %s%s", t->dir, how,
                      ls__identity_text(difference, "in the run", "now", text, sizeof(text)));
}

/* Builds and machines must not change results, but are a possible cause if results differ. */
static void print_provenance(const cli_run *t, const json_t *manifest, const json_t *now)
{
    const json_t *sessions = json_object_get(manifest, "sessions");
    const json_t *last = json_array_get(sessions, json_array_size(sessions) - 1);
    const json_t *there = json_object_get(last, "provenance");
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)now, key, value)
    {
        const char *a = ls__json_get_string(there, key);
        const char *b = json_string_value(value);
        if (a && b && strcmp(key, "begun") != 0 && strcmp(a, b) != 0)
            print_warning("%s: %s differs from the last session: was %s, now %s", t->dir, key, a,
                          b);
    }
}

int run_manifest_check(cli_run *t)
{
    char path[RUN_PATH_SIZE];
    t->manifest = run_manifest_read(t->dir, path);
    if (!t->manifest) return t->recipe->force ? EXIT_DONE : EXIT_RUNTIME; /* --force: a new one */
    json_t *identity = run_manifest_identity(t), *provenance = ls__provenance_make(t->ctx);
    if (identity) {
        const json_t *stored = json_object_get(t->manifest, "identity");
        ls__identity_adopt_weights(identity, stored);
        t->forced = ls__identity_differences(stored, identity, true);
    }
    int answer = EXIT_DONE;
    if (!t->forced) {
        answer = print_error(identity ? NULL : t->ctx, EXIT_RUNTIME);
    } else if (json_array_size(t->forced) > 0 && !t->recipe->force) {
        print_differences(t, "", t->forced);
        check_missing(t);
        print_message("%s: the identity differs from that of the run (%s); --force resumes anyway",
                      t->dir, path);
        answer = EXIT_RUNTIME;
    } else {
        print_differences(t, "warning: resumed although the identity differs: ", t->forced);
        print_provenance(t, t->manifest, provenance);
    }
    json_decref(provenance);
    json_decref(identity);
    return answer;
}

ls_status run_manifest_begin(cli_run *t)
{
    if (!t->manifest) t->manifest = json_pack("{s:n, s:[]}", "identity", "sessions");
    if (!t->forced) t->forced = json_array();
    json_t *changed = json_array_size(t->changed) > 0 ? t->changed : NULL;
    json_t *session = json_pack(
        "{s:I, s:{s:I, s:I, s:I, s:s?}, s:o, s:O, s:O*}", "from_step",
        (json_int_t)ls_trainer_get_state(t->trainer).n_steps, "execution", "workers",
        (json_int_t)t->recipe->workers, "threads", (json_int_t)ls_context_thread_count(t->ctx),
        "ranks", (json_int_t)ls_context_rank_count(t->ctx), "fault", t->recipe->fault, "provenance",
        ls__provenance_make(t->ctx), "forced", t->forced, "changed", changed);
    if (json_array_append_new(json_object_get(t->manifest, "sessions"), session) != 0) {
        json_decref(t->manifest);
        t->manifest = NULL; /* ls__json_save reports that there was no memory */
    }
    return run_manifest_save(t);
}

ls_status run_manifest_save(cli_run *t)
{
    char path[RUN_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/manifest.json", t->dir);
    json_t *identity = run_manifest_identity(t);
    LS_TRY(ls_context_status(t->ctx));
    if (t->manifest) json_object_set_new(t->manifest, "identity", identity);
    if (ls_context_rank(t->ctx) > 0) return LS_OK;
    return ls__json_save(t->ctx, path, t->manifest);
}
