/* run_config.c: see run_config.h. */
#include "run_config.h"
#include "run/json.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *describe_data(const cli_run *t)
{
    return json_pack("{s:I, s:I, s:o}", "train_images", (json_int_t)ls_dataset_count(t->train_data),
                     "val_images", (json_int_t)(t->val ? ls_dataset_count(t->val_data) : 0),
                     "classes", ls__json_classes(t->ctx, t->train_data));
}

/* With the data's folder as a resume from another folder finds it; as it was typed only where its
 * full name is not UTF-8. */
static json_t *describe_options(const cli_run *t)
{
    json_t *options = options_to_json(t->verb, t->recipe);
    char *full = realpath(t->recipe->data_dir, NULL);
    const bool typed = full ? !is_utf8(full) : errno != ENOMEM;
    const bool good =
        typed || (full && json_object_set_new(options, "data-dir", json_string(full)) == 0);
    free(full);
    if (good) return options;
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
    json_t *config = json_pack("{s:s, s:o, s:o, s:s, s:I}", "lockstep", ls_version(), "options",
                               describe_options(t), "data", describe_data(t), "device",
                               ls_context_device(t->ctx), "parameters",
                               (json_int_t)ls_net_parameter_elements(t->net));
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
        const char *name = json_string_value(json_object_get(change, "option"));
        if (json_object_set(options, name, json_object_get(change, "here")) != 0)
            return write_config(t, NULL); /* reports that there is no memory */
    }
    return json_array_size(t->changed) > 0 ? write_config(t, stored) : LS_OK;
}

bool is_device_auto(const char *device)
{
    return strcspn(device, ":") == strlen("auto") && strncmp(device, "auto", strlen("auto")) == 0;
}

bool is_same_device(const char *a, const char *b)
{
    const char *const first = "cuda:0";
    if (strcmp(a, "cuda") == 0) a = first;
    if (strcmp(b, "cuda") == 0) b = first;
    return strcmp(a, b) == 0;
}

const char *run_config_settle_device(json_t *stored)
{
    json_t *options = json_object_get(stored, "options");
    const char *asked = json_string_value(json_object_get(options, "device"));
    const char *used = json_string_value(json_object_get(stored, "device"));
    if (!asked || !is_device_auto(asked) || !used) return NULL;
    /* "cuda:0, NVIDIA H200, ..." */
    json_t *name = json_stringn(used, strcspn(used, ","));
    return json_object_set_new(options, "device", name) == 0 ? json_string_value(name) : NULL;
}

static bool is_zero(const char *text)
{
    return text && strcmp(text, "0") == 0;
}

bool run_has_no_step(const char *dir)
{
    char path[RUN_PATH_SIZE];
    int64_t n_steps = -1;
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    snprintf(path, sizeof(path), "%s/run_log.txt", dir);
    ls_run_log_count(ctx, path, &n_steps);
    snprintf(path, sizeof(path), "%s/last.safetensors", dir);
    ls_tensor_file *last = n_steps == 0 ? ls_tensor_file_open(ctx, path) : NULL;
    const bool fresh = last && is_zero(ls_tensor_file_metadata(last, "epoch")) &&
                       is_zero(ls_tensor_file_metadata(last, "step"));
    ls_context_close(&ctx);
    return fresh;
}

json_t *run_json_read(const cli_verb *verb, const char *dir, const char *name,
                      bool (*usable)(const json_t *json), const char *lacks,
                      char path[RUN_PATH_SIZE])
{
    snprintf(path, RUN_PATH_SIZE, "%s/%s", dir, name);
    char reason[LS__JSON_REASON_SIZE];
    json_t *json;
    const ls_status status = ls__json_read(path, &json, reason);
    if (json && usable(json)) return json;
    if (json)
        print_message(verb, "%s: %s in it", path, lacks);
    else if (status == LS_ERR_FORMAT)
        print_message(verb, "%s: %s", path, reason);
    else if (!is_folder(dir))
        print_message(verb, "%s: %s", dir,
                      file_exists(dir) ? "not a folder; wanted that of a run" : "no such folder");
    else
        print_message(verb, "%s: %s", path,
                      status == LS_ERR_NOT_FOUND ? "no such file: no run was begun there" : reason);
    json_decref(json);
    return NULL;
}

static bool is_config(const json_t *json)
{
    return json_is_string(json_object_get(json_object_get(json, "options"), "data-dir"));
}

json_t *run_config_read(const cli_verb *verb, const char *dir, char path[RUN_PATH_SIZE])
{
    return run_json_read(verb, dir, "config.json", is_config, "no options with a data-dir", path);
}
