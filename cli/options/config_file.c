/* config_file.c: the file of --config: lines `key = value`, or the config.json of a run; see
 * options.h. */
#include "options/run_settings.h"
#include "run/config_lines.h"
#include "terminal/print.h"
#include "io/json.h"
#include <string.h>

/* A list of what texts of options are borrowed from, until the process ends. */
static json_t *kept;

/* Takes over the reference. */
static bool keep(json_t *json)
{
    if (!kept) kept = json_array();
    return json_array_append_new(kept, json) == 0 || fail_with(false, "out of memory");
}

/* ---- The config.json of a run ---- */

static bool read_run(const cli_command *command, const char *path, void *values, cli_parsed *parsed)
{
    char reason[LS__JSON_REASON_SIZE];
    json_t *json;
    if (!command->run_options)
        return fail_with(false, "%s: JSON; --config of 'lockstep %s' reads lines 'key = value'",
                         path, command->name);
    if (ls__json_read(path, &json, reason) != LS_OK)
        return fail_with(false, "%s: %s", path, reason);
    const json_t *options = json_object_get(json, "options");
    if (!keep(json)) return false;
    if (!json_is_object(options))
        return fail_with(false, "%s: expected the config.json of a run, with 'options'", path);
    ls_context *ctx = open_error_context();
    ls__settings_from_run(ctx, command->run_options, options, json_object_get(json, "computed"),
                          path, values, &parsed->set);
    return close_error_context(ctx) == EXIT_DONE;
}

/* ---- Lines ---- */

/* Whether another command that reads the same files has the option. */
static bool is_ignored(const cli_command *command, const cli_parsed *parsed, const char *key)
{
    const size_t n = strlen(key);
    return command->run_options && ls__setting_find(parsed->set.table, key, n) < 0 &&
           ls__setting_find(command->run_options, key, n) >= 0;
}

static bool read_line(const cli_command *command, ls__config_lines *lines, void *values,
                      cli_parsed *parsed)
{
    if (!lines->key) return ls__config_fail(lines, "expected 'key = value'");
    const char *text = ls__config_one_value(lines, lines->value);
    if (text && is_ignored(command, parsed, lines->key)) return true;
    json_t *copy = text ? json_string(text) : NULL;
    return text && keep(copy) &&
           ls__config_set_option(lines, json_string_value(copy), values, &parsed->set);
}

bool config_file_read(const cli_command *command, const char *path, void *values,
                      cli_parsed *parsed)
{
    ls__config_lines lines;
    ls_context *ctx = open_error_context();
    bool good = ls__config_lines_open(ctx, path, &lines) == LS_OK;
    const size_t n_space = lines.rest ? strspn(lines.rest, " \t\r\n\v\f") : 0;
    if (lines.rest && lines.rest[n_space] == '{')
        good = read_run(command, path, values, parsed);
    else
        while (good && ls__config_lines_next(&lines))
            good = read_line(command, &lines, values, parsed);
    ls__config_lines_close(&lines);
    return close_error_context(ctx) == EXIT_DONE && good;
}
