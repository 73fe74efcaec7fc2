/* settings_file.c: files of settings; see lockstep/settings.h. */
#include "base/c_locale.h"
#include "base/error.h"
#include "io/json.h"
#include "run/config_lines.h"
#include <stdlib.h>
#include <string.h>

/* What ls_given.file points to. */
typedef struct settings_file {
    char *path;
    json_t *texts; /* a list of what the texts of settings are borrowed from */
    json_t *run;   /* the config.json of a run, or NULL */
} settings_file;

static settings_file *open_file(const char *path)
{
    settings_file *file = calloc(1, sizeof(*file));
    if (!file) return NULL;
    file->path = strdup(path);
    file->texts = json_array();
    return file;
}

void ls_given_free(ls_given *given)
{
    settings_file *file = given->file;
    if (!file) return;
    for (int i = 0; i < LS_MAX_SETTINGS; i++) {
        if (given->in_file[i]) given->text[i] = NULL;
        given->in_file[i] = false;
    }
    given->run_file = NULL;
    json_decref(file->texts);
    json_decref(file->run);
    free(file->path);
    free(file);
    given->file = NULL;
}

/* ---- The config.json of a run ---- */

static ls_status read_run(ls_context *ctx, const char *path, const ls_setting *ignored,
                          ls_given *given)
{
    char reason[LS__JSON_REASON_SIZE];
    settings_file *file = given->file;
    if (!ignored)
        return ls__fail(ctx, LS_ERR_SETTING, "%s: JSON; expected lines 'key = value'", path);
    if (ls__json_read(path, &file->run, reason) != LS_OK)
        return ls__fail(ctx, LS_ERR_SETTING, "%s: %s", path, reason);
    if (!json_is_object(json_object_get(file->run, "options")))
        return ls__fail(ctx, LS_ERR_SETTING,
                        "%s: expected the config.json of a run, with 'options'", path);
    given->run_file = file->path;
    return LS_OK;
}

ls_status ls__given_import_run(ls_context *ctx, const ls_setting *all, const ls_given *from,
                               void *values, ls_given *given)
{
    const settings_file *file = from->file;
    if (!file || !file->run) return LS_OK;
    return ls__settings_from_run(ctx, all, json_object_get(file->run, "options"),
                                 json_object_get(file->run, "computed"), file->path, values, given);
}

/* ---- Lines ---- */

/* Whether another program that reads the same files has the setting. */
static bool is_ignored(const ls_setting *ignored, const ls_given *given, const char *key)
{
    const size_t n = strlen(key);
    return ignored && ls_setting_find(given->table, key, n) < 0 &&
           ls_setting_find(ignored, key, n) >= 0;
}

static bool read_line(ls__config_lines *lines, const ls_setting *ignored, void *values,
                      ls_given *given)
{
    settings_file *file = given->file;
    if (!lines->key) return ls__config_fail(lines, "expected 'key = value'");
    const char *text = ls__config_one_value(lines, lines->value);
    if (!text) return false;
    if (is_ignored(ignored, given, lines->key)) return true;
    json_t *copy = json_string(text);
    if (json_array_append_new(file->texts, copy) != 0)
        return ls__fail_memory(lines->ctx, lines->path, strlen(text)) == LS_OK;
    return ls__config_set_option(lines, json_string_value(copy), values, given);
}

ls_status ls_given_read_file(ls_context *ctx, const char *path, const ls_setting *ignored,
                             void *values, ls_given *given)
{
    LS__ENTER(ctx);
    LS__IN_C_LOCALE;
    ls__config_lines lines;
    if (!path) return ls__fail(ctx, LS_ERR_INVALID, "ls_given_read_file: path is NULL");
    ls_given_free(given);
    settings_file *file = given->file = open_file(path);
    if (!file || !file->path || !file->texts) return ls__fail_memory(ctx, path, 0);
    const bool is_open = ls__config_lines_open(ctx, path, &lines) == LS_OK;
    const size_t n_space = lines.rest ? strspn(lines.rest, " \t\r\n\v\f") : 0;
    if (lines.rest && lines.rest[n_space] == '{')
        (void)read_run(ctx, path, ignored, given);
    else
        while (is_open && ls__config_lines_next(&lines) &&
               read_line(&lines, ignored, values, given)) {
        }
    ls__config_lines_close(&lines);
    return ls_context_status(ctx);
}
