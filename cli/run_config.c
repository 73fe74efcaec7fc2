/* run_config.c: see run_config.h. */
#include "run_config.h"
#include "run/json.h"
#include <stdio.h>
#include <stdlib.h>

static json_t *describe_data(const trainer *t)
{
    return json_pack("{s:I, s:I, s:o}", "train_images", (json_int_t)ls_dataset_count(t->train_data),
                     "val_images", (json_int_t)(t->val ? ls_dataset_count(t->val_data) : 0),
                     "classes", ls__json_classes(t->ctx, t->train_data));
}

/* With the data's folder as a resume from another folder finds it; as it was typed only where its
 * full name is not UTF-8. */
static json_t *describe_options(const trainer *t)
{
    json_t *options = options_to_json(t->verb, t->recipe);
    char *full = realpath(t->recipe->data_dir, NULL);
    json_t *name = full ? json_string(full) : NULL;
    free(full);
    if (!name || json_object_set_new(options, "data-dir", name) == 0) return options;
    json_decref(options);
    return NULL;
}

ls_status run_config_write(const trainer *t)
{
    char path[RUN_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/config.json", t->dir);
    json_t *config = json_pack("{s:s, s:o, s:o, s:s, s:I}", "lockstep", ls_version(), "options",
                               describe_options(t), "data", describe_data(t), "device",
                               ls_context_device(t->ctx), "parameters",
                               (json_int_t)ls_net_parameter_count(t->net));
    const ls_status status = ls__json_save(t->ctx, path, config);
    json_decref(config);
    return status;
}

json_t *run_json_read(const cli_verb *verb, const char *dir, const char *name,
                      bool (*usable)(const json_t *json), const char *lacks,
                      char path[RUN_PATH_SIZE])
{
    snprintf(path, RUN_PATH_SIZE, "%s/%s", dir, name);
    json_error_t error;
    json_t *json = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (json && usable(json)) return json;
    if (json)
        fprintf(stderr, "lockstep %s: %s: %s in it\n", verb->name, path, lacks);
    else if (error.line > 0)
        fprintf(stderr, "lockstep %s: %s: line %d: %s\n", verb->name, path, error.line, error.text);
    else if (!is_folder(dir))
        fprintf(stderr, "lockstep %s: %s: %s\n", verb->name, dir,
                file_exists(dir) ? "not a folder; wanted that of a run" : "no such folder");
    else if (!file_exists(path))
        fprintf(stderr, "lockstep %s: %s: no such file: no run was begun there\n", verb->name,
                path);
    else
        fprintf(stderr, "lockstep %s: %s\n", verb->name, error.text);
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
