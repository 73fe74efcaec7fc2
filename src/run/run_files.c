/* run_files.c: see run_files.h. */
#include "run/run_files.h"

#include "base/context.h"
#include "base/error.h"
#include "base/path.h"
#include "base/text.h"
#include "base/utf8.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/identity.h"
#include "data/decode/decoder.h"
#include "io/json.h"
#include <errno.h>
#include <lockstep/run_log.h>
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

static json_t *describe_data(const ls_run *t)
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
    const bool typed = full ? !ls__utf8_is_valid(full) : errno != ENOMEM;
    const bool ok = typed || (full && json_object_set_new(options, key, json_string(full)) == 0);
    free(full);
    return ok;
}

static json_t *describe_options(const ls_run *t)
{
    json_t *options = ls__settings_to_json(ls__run_settings_table, t->settings);
    const char *weights = t->settings->weights, *root = t->settings->data.image_root;
    if (describe_path(options, "data-dir", t->settings->data_dir) &&
        (!root || describe_path(options, "image-root", root)) &&
        (!weights || describe_path(options, "weights", weights)))
        return options;
    json_decref(options);
    return NULL;
}

static ls_status write_config(const ls_run *t, const json_t *config)
{
    char path[LS__RUN_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/config.json", t->dir);
    return ls__json_save(t->ctx, path, config);
}

ls_status ls__run_config_write(const ls_run *t)
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

ls_status ls__run_config_change(const ls_run *t)
{
    json_t *options = json_object_get(t->stored, "options"), *change;
    size_t i;
    json_array_foreach(t->changed, i, change)
    {
        const char *name = ls__json_get_string(change, "option");
        if (json_object_set(options, name, json_object_get(change, "here")) != 0)
            return write_config(t, NULL); /* reports that there is no memory */
    }
    const bool writes = ls_context_rank(t->ctx) == 0 && json_array_size(t->changed) > 0;
    return writes ? write_config(t, t->stored) : LS_OK;
}

bool ls__is_device_auto(const char *device)
{
    return strcspn(device, ":") == strlen("auto") && strncmp(device, "auto", strlen("auto")) == 0;
}

static const char first_gpu[] = "cuda:0";

bool ls__is_same_device(const char *a, const char *b)
{
    if (strcmp(a, "cuda") == 0) a = first_gpu;
    if (strcmp(b, "cuda") == 0) b = first_gpu;
    return strcmp(a, b) == 0;
}

const char *ls__run_config_settle_device(json_t *stored)
{
    json_t *options = json_object_get(stored, "options");
    const char *asked = ls__json_get_string(options, "device");
    const char *used = ls__json_get_string(stored, "device");
    if (!asked || !ls__is_device_auto(asked) || !used) return NULL;
    /* "cuda:0, NVIDIA H200, ...", which is "cuda" in each of several ranks */
    const size_t length = strcspn(used, ",");
    const bool is_first = length == strlen(first_gpu) && strncmp(used, first_gpu, length) == 0;
    json_t *name = is_first ? json_string("cuda") : json_stringn(used, length);
    return json_object_set_new(options, "device", name) == 0 ? json_string_value(name) : NULL;
}

int64_t ls__run_steps_done(const ls_tensor_file *file, int64_t steps_per_epoch)
{
    int64_t epoch, step;
    if (!ls__metadata_count(file, "epoch", &epoch) || !ls__metadata_count(file, "step", &step))
        return -1;
    return epoch <= (INT64_MAX - step) / steps_per_epoch ? epoch * steps_per_epoch + step : -1;
}

bool ls__run_has_no_step(const char *dir)
{
    char path[LS__RUN_PATH_SIZE];
    int64_t n_steps = -1;
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    snprintf(path, sizeof(path), "%s/run_log.txt", dir);
    ls_run_log_step_count(ctx, path, &n_steps);
    snprintf(path, sizeof(path), "%s/last.safetensors", dir);
    ls_tensor_file *last = n_steps == 0 ? ls_tensor_file_open(ctx, path) : NULL;
    const bool fresh = ls__run_steps_done(last, 1) == 0;
    ls_context_close(&ctx);
    return fresh;
}

/* Reads the object in the run's file `name`, and writes its path to `path`. NULL with the error,
 * also if usable() returns false (members are `missing`). */
static json_t *read_json(ls_context *ctx, const char *dir, const char *name,
                         bool (*usable)(const json_t *json), const char *missing,
                         char path[LS__RUN_PATH_SIZE])
{
    char reason[LS__JSON_REASON_SIZE];
    json_t *json;
    snprintf(path, LS__RUN_PATH_SIZE, "%s/%s", dir, name);
    const ls_status status = ls__json_read(path, &json, reason);
    if (json && usable(json)) return json;
    if (json)
        ls__fail(ctx, LS_ERR_FORMAT, "%s: missing %s", path, missing);
    else if (status != LS_ERR_FORMAT && !ls__path_exists(dir))
        ls__fail(ctx, status, "%s: no such folder", dir);
    else if (status != LS_ERR_FORMAT && !ls__is_folder(dir))
        ls__fail(ctx, status, "%s: not a folder; expected the folder of a run", dir);
    else
        ls__fail(ctx, status, "%s: %s", path,
                 status == LS_ERR_NOT_FOUND ? "no such file; the folder contains no run" : reason);
    json_decref(json);
    return NULL;
}

static bool is_config(const json_t *json)
{
    return json_is_string(json_object_get(json_object_get(json, "options"), "data-dir"));
}

json_t *ls__run_config_read(ls_context *ctx, const char *dir, char path[LS__RUN_PATH_SIZE])
{
    return read_json(ctx, dir, "config.json", is_config, "'options' with 'data-dir'", path);
}

/* ---- manifest.json ---- */

enum { TEXT_SIZE = 512 };

json_t *ls__run_manifest_identity(const ls_run *t)
{
    const ls_training_state state = ls__run_state(t);
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

json_t *ls__run_manifest_read(ls_context *ctx, const char *dir, char path[LS__RUN_PATH_SIZE])
{
    return read_json(ctx, dir, "manifest.json", is_manifest,
                     "'identity', 'sessions' or a session's 'execution'", path);
}

/* Writes the first differences one after the other. */
static void list_differences(const json_t *differences, char out[LS__MESSAGE_SIZE])
{
    enum { MAX_LISTED = 3, MAX_BYTES = LS__MESSAGE_SIZE / 2 };
    ls__text all = { .buffer = out, .size = MAX_BYTES };
    char text[TEXT_SIZE];
    const size_t n = json_array_size(differences);
    *out = '\0';
    for (size_t i = 0; i < n && i < MAX_LISTED; i++)
        ls__text_put(&all, "%s%s", i ? "; " : "",
                     ls__identity_text(json_array_get(differences, i), "in the run", "now", text,
                                       sizeof(text)));
    if (n > MAX_LISTED)
        ls__snprintf(out + strlen(out), LS__MESSAGE_SIZE - MAX_BYTES, "; and %zu more differ",
                     n - MAX_LISTED);
}

/* Builds and machines must not change results, but are a possible cause if results differ. */
static void warn_provenance(const ls_run *t, const json_t *now)
{
    const json_t *sessions = json_object_get(t->manifest, "sessions");
    const json_t *last = json_array_get(sessions, json_array_size(sessions) - 1);
    const json_t *there = json_object_get(last, "provenance");
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)now, key, value)
    {
        const char *a = ls__json_get_string(there, key);
        const char *b = json_string_value(value);
        if (a && b && strcmp(key, "begun") != 0 && strcmp(a, b) != 0)
            ls__warn(t->ctx, LS_LOG_RUN, "%s: %s differs from the last session: was %s, now %s",
                     t->dir, key, a, b);
    }
}

/* Appends the versions of the decoders whose pixels and versions differ. */
static void put_versions(const ls_run *t, char text[LS__MESSAGE_SIZE])
{
    size_t i = 0;
    const size_t n = json_array_size(t->forced), length = strlen(text);
    while (i < n && !ls__identity_is_of_decoders(json_array_get(t->forced, i))) i++;
    if (i == n) return;
    ls__text more = { .buffer = text + length, .size = LS__MESSAGE_SIZE - length };
    const json_t *sessions = json_object_get(t->manifest, "sessions");
    const json_t *last = json_array_get(sessions, json_array_size(sessions) - 1);
    char webp[LS__WEBP_VERSION_SIZE];
    ls__webp_version(webp);
    const char *const now[][2] = { { "jpeg", ls__jpeg_version() }, { "webp", webp } };
    for (int k = 0; k < 2; k++) {
        const char *there = ls__json_get_string(json_object_get(last, "provenance"), now[k][0]);
        if (there && strcmp(there, now[k][1]) != 0)
            ls__text_put(&more, "; %s in the run, %s now", there, now[k][1]);
    }
}

/* After t->forced has the differences. */
static ls_status check_differences(ls_run *t, const char *path)
{
    char text[LS__MESSAGE_SIZE];
    if (json_array_size(t->forced) == 0) return LS_OK;
    list_differences(t->forced, text);
    put_versions(t, text);
    if (t->settings->force) {
        ls__warn(t->ctx, LS_LOG_RUN, "%s: resumed although the identity differs: %s", t->dir, text);
        return LS_OK;
    }
    if (ls__run_check_missing(t) != LS_OK) { /* which is why */
        ls__warn(t->ctx, LS_LOG_RUN, "%s", ls_context_message(t->ctx));
        ls_context_clear_error(t->ctx);
    }
    ls__fail(t->ctx, LS_ERR_MISMATCH, "%s: the identity differs from that of the run (%s): %s",
             t->dir, path, text);
    ls__run_settings_hint_mismatch(t->ctx, t->settings, t->changed, "--force resumes anyway");
    return LS_ERR_MISMATCH;
}

ls_status ls__run_manifest_check(ls_run *t)
{
    char path[LS__RUN_PATH_SIZE];
    json_decref(t->manifest);
    t->manifest = ls__run_manifest_read(t->ctx, t->dir, path);
    if (!t->manifest && t->settings->force) { /* --force: a new one */
        ls__warn(t->ctx, LS_LOG_RUN, "%s", ls_context_message(t->ctx));
        ls_context_clear_error(t->ctx);
        return LS_OK;
    }
    json_t *identity = t->manifest ? ls__run_manifest_identity(t) : NULL;
    if (!identity) return ls_context_status(t->ctx);
    const json_t *stored = json_object_get(t->manifest, "identity");
    ls__identity_adopt_weights(identity, stored);
    t->forced = ls__identity_differences(stored, identity, true);
    json_decref(identity);
    if (!t->forced) return ls__fail_memory(t->ctx, "manifest.json", 0);
    LS_TRY(check_differences(t, path));
    json_t *provenance = ls__provenance_make(t->ctx);
    warn_provenance(t, provenance);
    json_decref(provenance);
    return LS_OK;
}

ls_status ls__run_manifest_begin(ls_run *t)
{
    if (!t->manifest) t->manifest = json_pack("{s:n, s:[]}", "identity", "sessions");
    if (!t->forced) t->forced = json_array();
    json_t *changed = json_array_size(t->changed) > 0 ? t->changed : NULL;
    json_t *session = json_pack(
        "{s:I, s:{s:I, s:I, s:I, s:s?}, s:o, s:O, s:O*}", "from_step",
        (json_int_t)ls_trainer_get_state(t->trainer).n_steps, "execution", "workers",
        (json_int_t)t->settings->workers, "threads", (json_int_t)ls_context_thread_count(t->ctx),
        "ranks", (json_int_t)ls_context_rank_count(t->ctx), "fault", t->settings->fault,
        "provenance", ls__provenance_make(t->ctx), "forced", t->forced, "changed", changed);
    if (json_array_append_new(json_object_get(t->manifest, "sessions"), session) != 0) {
        json_decref(t->manifest);
        t->manifest = NULL; /* ls__json_save reports that there was no memory */
    }
    return ls__run_manifest_save(t);
}

ls_status ls__run_manifest_save(ls_run *t)
{
    char path[LS__RUN_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/manifest.json", t->dir);
    json_t *identity = ls__run_manifest_identity(t);
    LS_TRY(ls_context_status(t->ctx));
    if (t->manifest) json_object_set_new(t->manifest, "identity", identity);
    if (ls_context_rank(t->ctx) > 0) return LS_OK;
    return ls__json_save(t->ctx, path, t->manifest);
}
