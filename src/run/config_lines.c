/* config_lines.c: see config_lines.h. */
#include "run/config_lines.h"

#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ls_status ls__config_lines_open(ls_context *ctx, const char *path, ls__config_lines *out)
{
    static const char mark[] = "\xef\xbb\xbf"; /* of UTF-8, which Windows' editors write */
    char reason[LS__ERRNO_TEXT_SIZE];
    size_t size = 0;
    *out = (ls__config_lines){ .ctx = ctx, .path = path };
    errno = 0;
    FILE *file = fopen(path, "re");
    const ssize_t n = file ? getdelim(&out->text, &size, '\0', file) : -1;
    const bool is_read = n >= 0 || (file && feof(file)); /* feof: the file is empty */
    const int error = errno;
    if (file) fclose(file);
    if (!is_read)
        return ls__fail(ctx, LS_ERR_SETTING, "%s: %s", path,
                        ls__errno_text(error, reason, sizeof(reason)));
    if (n <= 0) return LS_OK;
    out->rest = out->text + (strncmp(out->text, mark, 3) == 0 ? 3 : 0);
    out->n_rest = (size_t)n - (size_t)(out->rest - out->text);
    return LS_OK;
}

void ls__config_lines_close(ls__config_lines *c)
{
    free(c->text);
    *c = (ls__config_lines){ 0 };
}

bool ls__config_fail(const ls__config_lines *c, const char *format, ...)
{
    char message[1024], at[16] = "";
    va_list args;
    va_start(args, format);
    ls__vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    if (c->line > 0) snprintf(at, sizeof(at), ":%d", c->line);
    return ls__refuse(c->ctx, "%s%s: %s", c->path, at, message);
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

static bool read_section(ls__config_lines *c, char *line)
{
    cut_comment(line);
    char *end = strchr(line, ']');
    if (!end || end[1]) return ls__config_fail(c, "expected [section], got '%s'", line);
    *end = '\0';
    c->section = line + 1;
    return true;
}

/* *line: not empty. */
static bool split(ls__config_lines *c, char *line)
{
    if (*line == '[') return read_section(c, line);
    char *end = line + strcspn(line, "=# \t\r"), *at = skip_space(end);
    if (*at != '=' || end == line) return ls__config_fail(c, "expected 'key = value'");
    cut_comment(at + 1);
    *end = '\0';
    c->key = line;
    c->value = skip_space(at + 1);
    return true;
}

bool ls__config_lines_next(ls__config_lines *c)
{
    c->section = c->key = c->value = NULL;
    while (c->n_rest > 0) {
        char *line = c->rest, *end = memchr(line, '\n', c->n_rest);
        const size_t n = end ? (size_t)(end - line) : c->n_rest;
        if (end) *end = '\0';
        c->rest += end ? n + 1 : n;
        c->n_rest -= end ? n + 1 : n;
        c->line++;
        if (strlen(line) != n || !ls__utf8_is_valid(line))
            return ls__config_fail(c, "expected a line of text in UTF-8");
        line = skip_space(line);
        if (*line && *line != '#') return split(c, line);
    }
    return false;
}

/* ---- Values ---- */

/* Removes the quotes of *value, and returns what follows them; NULL after an error. */
static char *unquote(const ls__config_lines *c, char **value)
{
    char *close = strchr(*value + 1, **value);
    if (!close) return ls__config_fail(c, "the closing quote is missing"), NULL;
    *close = '\0';
    ++*value;
    return skip_space(close + 1);
}

char *ls__config_one_value(const ls__config_lines *c, char *text)
{
    if (!is_quote(*text)) return text;
    const char *rest = unquote(c, &text);
    if (!rest) return NULL;
    return *rest ? (ls__config_fail(c, "expected nothing after the closing quote"), NULL) : text;
}

char *ls__config_next_value(const ls__config_lines *c, char **rest)
{
    char *value = skip_space(*rest), *end;
    if (is_quote(*value)) {
        end = unquote(c, &value);
        if (!end) return NULL;
        if (*end && *end != ',')
            return ls__config_fail(c, "expected a comma after the closing quote"), NULL;
        *rest = *end ? end + 1 : NULL;
        return value;
    }
    end = value + strcspn(value, ",");
    *rest = *end ? end + 1 : NULL;
    *end = '\0';
    trim_end(value);
    return value;
}

/* ---- Settings ---- */

bool ls__config_set_value(const ls__config_lines *c, const ls_setting *setting, const char *text,
                          void *values)
{
    char expected[LS_EXPECTED_SIZE];
    const bool is_empty_switch = setting->kind == LS_SETTING_SWITCH && !*text;
    return (ls_setting_read(setting, text, values, expected) && !is_empty_switch) ||
           ls__config_fail(c, "%s: expected %s, got '%s'", setting->name, expected, text);
}

bool ls__config_set_option(ls__config_lines *c, const char *text, void *values, ls_given *given)
{
    char hint[LS_HINT_SIZE];
    const int i = ls_setting_find(given->table, c->key, strlen(c->key));
    if (i < 0)
        return ls__config_fail(c, "unknown option '%s'%s", c->key,
                               ls_setting_hint(given->table, c->key, "", "", hint));
    if (c->lines[i]) return ls__config_fail(c, "'%s' is already in line %d", c->key, c->lines[i]);
    c->lines[i] = c->line;
    ls_setting setting = given->table[i];
    const char *other = setting.excludes ? setting.excludes : "";
    const int k = ls_setting_find(given->table, other, strlen(other));
    const bool is_typed = given->text[i] || (k >= 0 && given->text[k] && !given->in_file[k]);
    if (is_typed) setting.offset = LS_SETTING_UNSTORED;
    if (!ls__config_set_value(c, &setting, text, values)) return false;
    if (is_typed) return true;
    given->in_file[i] = true;
    given->text[i] = text;
    return true;
}
