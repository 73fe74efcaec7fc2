/* config_lines.c: see config_lines.h. */
#include "options/config_lines.h"
#include "terminal/print.h"
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool config_lines_open(const char *path, config_lines *out)
{
    size_t size = 0;
    *out = (config_lines){ .path = path };
    errno = 0;
    FILE *file = fopen(path, "re");
    const ssize_t n = file ? getdelim(&out->text, &size, '\0', file) : -1;
    const bool is_read = n >= 0 || (file && feof(file)); /* feof: the file is empty */
    if (!is_read) print_message("%s: %s", path, strerror(errno));
    if (file) fclose(file);
    if (n <= 0) return is_read;
    out->rest = skip_byte_order_mark(out->text);
    out->n_rest = (size_t)n - (size_t)(out->rest - out->text);
    return true;
}

void config_lines_close(config_lines *c)
{
    free(c->text);
    *c = (config_lines){ 0 };
}

bool config_fail(config_lines *c, const char *format, ...)
{
    char message[1024], at[16] = "";
    va_list args;
    va_start(args, format);
    cut_text(message, sizeof(message), vsnprintf(message, sizeof(message), format, args));
    va_end(args);
    c->failed = true;
    if (c->line > 0) snprintf(at, sizeof(at), ":%d", c->line);
    return fail_with(false, "%s%s: %s", c->path, at, message);
}

/* ---- Lines ---- */

static char *skip_space(char *at)
{
    while (isspace((unsigned char)*at)) at++;
    return at;
}

static void trim_end(char *text)
{
    size_t n = strlen(text);
    while (n > 0 && isspace((unsigned char)text[n - 1])) text[--n] = '\0';
}

static bool is_quote(char c)
{
    return c == '"' || c == '\'';
}

/* Ends the text after the = of a line, or the line of a section, before its comment. */
static void cut_comment(char *text)
{
    char quote = '\0', before = ','; /* before: the last character but white space */
    for (char *at = text; *at; at++) {
        if (quote ? *at == quote : before == ',' && is_quote(*at)) quote = quote ? '\0' : *at;
        if (!quote && *at == '#' && at > text && isspace((unsigned char)at[-1])) *at = '\0';
        if (!*at) break;
        if (!isspace((unsigned char)*at)) before = *at;
    }
    trim_end(text);
}

static bool read_section(config_lines *c, char *line)
{
    cut_comment(line);
    char *end = strchr(line, ']');
    if (!end || end[1]) return config_fail(c, "expected [section], got '%s'", line);
    *end = '\0';
    c->section = line + 1;
    return true;
}

/* *line: not empty. */
static bool split(config_lines *c, char *line)
{
    if (*line == '[') return read_section(c, line);
    char *end = line + strcspn(line, "=# \t\r"), *at = skip_space(end);
    if (*at != '=' || end == line) return config_fail(c, "expected 'key = value'");
    cut_comment(at + 1);
    *end = '\0';
    c->key = line;
    c->value = skip_space(at + 1);
    return true;
}

bool config_lines_next(config_lines *c)
{
    c->section = c->key = c->value = NULL;
    while (c->n_rest > 0) {
        char *line = c->rest, *end = memchr(line, '\n', c->n_rest);
        const size_t n = end ? (size_t)(end - line) : c->n_rest;
        if (end) *end = '\0';
        c->rest += end ? n + 1 : n;
        c->n_rest -= end ? n + 1 : n;
        c->line++;
        if (strlen(line) != n || !is_utf8(line))
            return config_fail(c, "expected a line of text in UTF-8");
        line = skip_space(line);
        if (*line && *line != '#') return split(c, line);
    }
    return false;
}

/* ---- Values ---- */

/* Removes the quotes of *value, and returns what follows them; NULL after an error. */
static char *unquote(config_lines *c, char **value)
{
    char *close = strchr(*value + 1, **value);
    if (!close) return config_fail(c, "the closing quote is missing"), NULL;
    *close = '\0';
    ++*value;
    return skip_space(close + 1);
}

char *config_one_value(config_lines *c, char *text)
{
    if (!is_quote(*text)) return text;
    const char *rest = unquote(c, &text);
    if (!rest) return NULL;
    return *rest ? (config_fail(c, "expected nothing after the closing quote"), NULL) : text;
}

char *config_next_value(config_lines *c, char **rest)
{
    char *value = skip_space(*rest), *end;
    if (is_quote(*value)) {
        end = unquote(c, &value);
        if (!end) return NULL;
        if (*end && *end != ',')
            return config_fail(c, "expected a comma after the closing quote"), NULL;
        *rest = *end ? end + 1 : NULL;
        return value;
    }
    end = value + strcspn(value, ",");
    *rest = *end ? end + 1 : NULL;
    *end = '\0';
    trim_end(value);
    return value;
}

/* ---- Options ---- */

bool config_set_value(config_lines *c, const ls__setting *option, const char *text, void *values)
{
    char expected[LS__EXPECTED_SIZE];
    const bool is_empty_switch = option->kind == LS__SETTING_SWITCH && !*text;
    return (ls__setting_read(option, text, values, expected) && !is_empty_switch) ||
           config_fail(c, "%s: expected %s, got '%s'", option->name, expected, text);
}

bool config_set_option(config_lines *c, const char *text, void *values, cli_parsed *parsed)
{
    char hint[LS__HINT_SIZE], expected[LS__EXPECTED_SIZE];
    const int i = ls__setting_find(parsed->set.table, c->key, strlen(c->key));
    if (i < 0)
        return config_fail(c, "unknown option '%s'%s", c->key,
                           option_hint(parsed->set.table, c->key, "", "", hint));
    if (c->lines[i]) return config_fail(c, "'%s' is already in line %d", c->key, c->lines[i]);
    c->lines[i] = c->line;
    const ls__setting *option = &parsed->set.table[i];
    if (!config_set_value(c, option, text, values)) return false;
    const char **given = &parsed->set.text[i];
    parsed->set.in_file[i] = !*given;
    if (*given)
        ls__setting_read(option, *given, values, expected);
    else
        *given = text;
    return true;
}
