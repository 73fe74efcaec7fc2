/* csv_rows.c: the fields of a CSV list (RFC 4180), and the labels that are known: see csv.h. */
#include "data/dataset/lists/csv.h"

#include "base/error.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

ls_status ls__csv_fail(const ls__csv *c, ls_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    ls__fail_v(c->ctx, status, format, args);
    va_end(args);
    ls__error_in(c->ctx, "csv file '%s', line %lld", c->path, (long long)c->line);
    return status;
}

ls_status ls__csv_fail_file(const ls__csv *c, ls_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    ls__fail_v(c->ctx, status, format, args);
    va_end(args);
    ls__error_in(c->ctx, "csv file '%s'", c->path);
    return status;
}

/* A list that is separated by blanks has two fields: the last blank of a line that has a text
 * behind it is the separator. NULL: there is none. */
static const char *find_last_blank(const ls__csv *c)
{
    const char *end = memchr(c->at, '\n', (size_t)(c->end - c->at));
    if (!end) end = c->end;
    while (end > c->at && (end[-1] == ' ' || end[-1] == '\r')) end--;
    while (end > c->at && end[-1] != ' ') end--;
    return end > c->at ? end - 1 : NULL;
}

static bool is_end_of_field(const ls__csv *c)
{
    return *c->at == '\r' || *c->at == '\n' ||
           (*c->at == c->separator && (c->separator != ' ' || c->at == c->last_blank));
}

/* Moves `at` behind the field, and terminates it. *last: it ends its row. Blanks around a field
 * that is not quoted are left out. */
static ls_status read_field(ls__csv *c, char **out, bool *last)
{
    while (c->at < c->end && *c->at == ' ' && c->separator != ' ') c->at++;
    char *to = c->at;
    *out = to;
    if (c->at < c->end && *c->at == '"') {
        for (c->at++;; c->at++) {
            if (c->at >= c->end)
                return ls__csv_fail(c, LS_ERR_DATA, "a quoted field without its closing quote");
            if (*c->at == '"' && (c->at + 1 >= c->end || c->at[1] != '"')) break;
            if (*c->at == '"') c->at++;
            if (*c->at == '\n') c->next_line++;
            *to++ = *c->at;
        }
        do c->at++;
        while (c->at < c->end && *c->at == ' ' && c->separator != ' ');
    } else {
        for (; c->at < c->end && !is_end_of_field(c); c->at++) {
            if (*c->at == '"')
                return ls__csv_fail(c, LS_ERR_DATA, "a quote inside a field that is not quoted");
            *to++ = *c->at;
        }
        while (to > *out && to[-1] == ' ') to--;
    }
    if (c->end - c->at >= 2 && c->at[0] == '\r' && c->at[1] == '\n') c->at++;
    *last = c->at >= c->end || *c->at == '\n';
    if (!*last && *c->at != c->separator)
        return ls__csv_fail(c, LS_ERR_DATA,
                            *c->at == '\r' ? "a carriage return inside a field that is not quoted"
                                           : "text after the closing quote of a field");
    c->next_line += *last;
    if (c->at < c->end) c->at++;
    *to = '\0'; /* in place of a quote, a comma or the end of the line, or after the file */
    return LS_OK;
}

/* The first of tab, comma and semicolon that is in the first line, outside of quotes; else, in a
 * text file, a blank. */
char ls__csv_find_separator(const ls__csv *c)
{
    static const char separators[] = "\t,;";
    const char *dot = strrchr(c->path, '.');
    for (const char *s = separators; *s; s++) {
        bool quoted = false;
        for (const char *at = c->at; at < c->end && (quoted || *at != '\n'); at++) {
            quoted ^= *at == '"';
            if (!quoted && *at == *s) return *s;
        }
    }
    return dot && strcasecmp(dot, ".txt") == 0 ? ' ' : ',';
}

ls_status ls__csv_read_row(ls__csv *c, bool *found)
{
    *found = false;
    while (!*found && c->at < c->end) {
        bool last = false;
        c->line = c->next_line;
        c->last_blank = c->separator == ' ' ? find_last_blank(c) : NULL;
        for (c->n_fields = 0; !last; c->n_fields++) {
            if (c->n_fields == LS__CSV_MAX_FIELDS)
                return ls__csv_fail(c, LS_ERR_DATA, "more than 64 fields");
            LS_TRY(read_field(c, &c->fields[c->n_fields], &last));
        }
        *found = c->n_fields > 1 || *c->fields[0];
    }
    return LS_OK;
}

/* ---- Known labels ---- */

ls_status ls__csv_set_labels(ls__csv *c, int n, const char *const *names)
{
    const size_t bytes = (size_t)n * sizeof(*c->known);
    c->known = ls__bump_alloc(&c->bump, bytes);
    if (!c->known) return ls__fail_memory(c->ctx, c->path, bytes);
    c->n_labels = n;
    ls__index_labels(n, names, c->known);
    return LS_OK;
}

const ls__label *ls__csv_find_label(const ls__csv *c, const char *name)
{
    return ls__find_label(c->n_labels, c->known, name);
}
