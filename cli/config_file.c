/* config_file.c: the file of --config: lines `key = value`, or the config.json of a run; see
 * options.h. */
#include "options.h"
#include "print.h"
#include "run/json.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
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
    return options_from_run(command, options, path, values, parsed);
}

/* ---- Lines ---- */

typedef struct config_file {
    const char *path;
    int line;               /* from 1 */
    int lines[MAX_OPTIONS]; /* in which the options are; 0 = none */
    void *values;
    cli_parsed *parsed;
} config_file;

static char *skip_space(char *at)
{
    while (isspace((unsigned char)*at)) at++;
    return at;
}

/* Ends an unquoted value before its comment, a # after white space, and before white space. */
static void trim(char *value)
{
    char *end = value;
    for (char *at = value; *at && (*at != '#' || (at > value && !isspace((unsigned char)at[-1])));
         at++)
        if (!isspace((unsigned char)*at)) end = at + 1;
    *end = '\0';
}

/* Cuts `key = value` out of a line; *key is "" for a line without. Returns what is wrong, or NULL.
 */
static const char *split(char *line, char **key, char **value)
{
    *key = *value = skip_space(line);
    if (**key == '#') **key = '\0';
    if (!**key) return NULL;
    char *end = *key + strcspn(*key, "=# \t\r\n"), *at = skip_space(end);
    if (*at != '=' || end == *key) return "expected 'key = value'";
    *end = '\0';
    *value = skip_space(at + 1);
    if (**value != '"' && **value != '\'') return trim(*value), NULL;
    char *close = strchr(*value + 1, **value);
    if (!close) return "the closing quote is missing";
    *close = '\0';
    ++*value;
    at = skip_space(close + 1);
    return *at && *at != '#' ? "expected nothing after the closing quote" : NULL;
}

/* The value is checked even if the command line has another one. */
static bool set_option(config_file *f, const char *key, const char *text)
{
    char hint[HINT_SIZE], expected[EXPECTED_SIZE];
    const int i = option_find(f->parsed->options, key, strlen(key));
    if (i < 0)
        return fail_with(false, "%s:%d: unknown option '%s'%s", f->path, f->line, key,
                         option_hint(f->parsed->options, key, "", "", hint));
    if (f->lines[i])
        return fail_with(false, "%s:%d: '%s' is already in line %d", f->path, f->line, key,
                         f->lines[i]);
    f->lines[i] = f->line;
    json_t *copy = json_string(text);
    const char *value = json_string_value(copy);
    if (!keep(copy)) return false;
    const cli_option *option = &f->parsed->options[i];
    const bool is_empty_switch = option->kind == OPTION_SWITCH && !*value;
    if (!option_set(option, value, f->values, expected) || is_empty_switch)
        return fail_with(false, "%s:%d: %s: expected %s, got '%s'", f->path, f->line, key, expected,
                         value);
    const char **given = &f->parsed->given[i];
    if (*given)
        option_set(option, *given, f->values, expected);
    else
        *given = value;
    return true;
}

static bool read_line(config_file *f, char *line, size_t length)
{
    char *key, *value;
    if (strlen(line) != length || !is_utf8(line))
        return fail_with(false, "%s:%d: expected a line of text in UTF-8", f->path, f->line);
    const char *wrong = split(line, &key, &value);
    if (wrong) return fail_with(false, "%s:%d: %s", f->path, f->line, wrong);
    return !*key || set_option(f, key, value);
}

static bool read_lines(config_file *f, FILE *file)
{
    char *line = NULL;
    size_t size = 0;
    bool good = true;
    for (ssize_t n; good && (n = getline(&line, &size, file)) >= 0; f->line++)
        good = read_line(f, line, (size_t)n);
    free(line);
    if (good && !feof(file)) good = fail_with(false, "%s: %s", f->path, strerror(errno));
    return good;
}

bool config_file_read(const cli_command *command, const char *path, void *values,
                      cli_parsed *parsed)
{
    config_file f = { .path = path, .line = 1, .values = values, .parsed = parsed };
    FILE *file = fopen(path, "re");
    if (!file) return fail_with(false, "--config %s: %s", path, strerror(errno));
    errno = 0;
    int c = fgetc(file);
    for (; isspace(c); c = fgetc(file)) f.line += c == '\n';
    ungetc(c, file);
    const bool good = c == '{' ? read_run(command, path, values, parsed) : read_lines(&f, file);
    fclose(file);
    return good;
}
