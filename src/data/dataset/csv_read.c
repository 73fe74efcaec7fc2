/* csv_read.c: the rows of a CSV list (RFC 4180): see csv.h. */
#include "data/dataset/csv.h"

#include "base/c_locale.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

ls_status ls__csv_fail(const ls__csv *c, const char *reason)
{
    return ls__fail(c->ctx, LS_ERR_DATA, "csv file '%s', line %lld: %s", c->path,
                    (long long)c->line, reason);
}

/* Moves `at` behind the field, and terminates it. *last: it ends its row. */
static ls_status read_field(ls__csv *c, char **out, bool *last)
{
    char *to = c->at;
    *out = to;
    if (c->at < c->end && *c->at == '"') {
        for (c->at++;; c->at++) {
            if (c->at >= c->end) return ls__csv_fail(c, "a quoted field without its closing quote");
            if (*c->at == '"' && (c->at + 1 >= c->end || c->at[1] != '"')) break;
            if (*c->at == '"') c->at++;
            if (*c->at == '\n') c->next_line++;
            *to++ = *c->at;
        }
        c->at++;
    } else {
        for (; c->at < c->end && !strchr(",\r\n", *c->at); c->at++) {
            if (*c->at == '"') return ls__csv_fail(c, "a quote inside a field that is not quoted");
            *to++ = *c->at;
        }
    }
    if (c->end - c->at >= 2 && c->at[0] == '\r' && c->at[1] == '\n') c->at++;
    *last = c->at >= c->end || *c->at == '\n';
    if (!*last && *c->at != ',')
        return ls__csv_fail(c, *c->at == '\r'
                                   ? "a carriage return inside a field that is not quoted"
                                   : "text after the closing quote of a field");
    c->next_line += *last;
    if (c->at < c->end) c->at++;
    *to = '\0'; /* in place of a quote, a comma or the end of the line, or after the file */
    return LS_OK;
}

/* The next row that is not empty; false in *found at the end of the file. */
static ls_status read_row(ls__csv *c, bool *found)
{
    *found = false;
    while (!*found && c->at < c->end) {
        bool last = false;
        c->line = c->next_line;
        for (c->n_fields = 0; !last; c->n_fields++) {
            if (c->n_fields == LS__CSV_MAX_FIELDS) return ls__csv_fail(c, "more than 64 fields");
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
    for (int i = 0; i < n; i++) c->known[i] = (ls__csv_label){ names[i], i };
    qsort(c->known, (size_t)n, sizeof(*c->known), ls__compare_texts); /* the name comes first */
    return LS_OK;
}

const ls__csv_label *ls__csv_find_label(const ls__csv *c, const char *name)
{
    const ls__csv_label key = { name, 0 };
    return bsearch(&key, c->known, (size_t)c->n_labels, sizeof(key), ls__compare_texts);
}

/* ---- Columns ---- */

/* The first column of the row with one of the n names, in any case; -1: none. */
static int find_column(const ls__csv *c, int n, const char *const *names)
{
    for (int i = 0; i < c->n_fields; i++)
        for (int k = 0; k < n; k++)
            if (strcasecmp(c->fields[i], names[k]) == 0) return i;
    return -1;
}

static bool is_target(const char *name)
{
    static const char prefix[] = "target_";
    return strcasecmp(name, "target") == 0 || strncasecmp(name, prefix, strlen(prefix)) == 0;
}

/* Names are compared in any case, except for targets. */
static ls_status check_unique(const ls__csv *c, int column)
{
    int (*const compare)(const char *, const char *) =
        c->kind == LS__CSV_NUMBERS && column != c->path_column ? strcmp : strcasecmp;
    for (int i = 0; i < c->n_fields; i++)
        if (i != column && compare(c->fields[i], c->fields[column]) == 0)
            return ls__fail(c->ctx, LS_ERR_DATA, "csv file '%s', line %lld: two columns '%s'",
                            c->path, (long long)c->line, c->fields[column]);
    return LS_OK;
}

static ls_status check_columns(const ls__csv *c)
{
    LS_TRY(check_unique(c, c->path_column));
    if (c->kind != LS__CSV_NUMBERS) return check_unique(c, c->label_column);
    for (int i = 0; i < c->n_targets; i++) LS_TRY(check_unique(c, c->target_columns[i]));
    return LS_OK;
}

/* Sets the columns and what they hold: by the first row, if it is a header. */
static ls_status read_header(ls__csv *c)
{
    static const char *const paths[] = { "path", "file", "filename", "image" };
    static const char *const classes[] = { "label", "class" }, *const labels[] = { "labels" };
    const int path = find_column(c, 4, paths), class = find_column(c, 2, classes);
    const int several = find_column(c, 1, labels);
    c->path_column = 0;
    c->label_column = 1;
    c->n_columns = 2;
    for (int i = 0; i < c->n_fields && class < 0 && several < 0; i++)
        if (is_target(c->fields[i])) c->target_columns[c->n_targets++] = i;
    if (path < 0 || (class < 0 && several < 0 && c->n_targets == 0)) {
        c->n_targets = 0;
        return path != 0 ? LS_OK
                         : ls__csv_fail(c, "a header with a column of paths, but without a column "
                                           "'label', 'labels' or 'target'");
    }
    c->has_header = true;
    c->kind = class >= 0 ? LS__CSV_CLASS : several >= 0 ? LS__CSV_LABELS : LS__CSV_NUMBERS;
    c->path_column = path;
    c->label_column = class >= 0 ? class : several;
    c->n_columns = c->n_fields;
    return check_columns(c);
}

/* The columns' names become the labels; with given names, their columns in that order. */
static ls_status choose_targets(ls__csv *c)
{
    const char *names[LS__CSV_MAX_FIELDS];
    for (int i = 0; i < c->n_targets; i++) names[i] = c->fields[c->target_columns[i]];
    if (!c->given) return ls__csv_set_labels(c, c->n_targets, names);
    int columns[LS__CSV_MAX_FIELDS];
    for (int i = 0; i < c->n_given; i++) {
        int k = 0;
        while (k < c->n_targets && strcmp(names[k], c->given[i]) != 0) k++;
        if (k == c->n_targets || i == LS__CSV_MAX_FIELDS)
            return ls__fail(c->ctx, LS_ERR_MISMATCH,
                            "csv file '%s', line %lld: no column of numbers '%s'", c->path,
                            (long long)c->line, c->given[i]);
        columns[i] = c->target_columns[k];
    }
    memcpy(c->target_columns, columns, (size_t)c->n_given * sizeof(*columns));
    c->n_targets = c->n_given;
    return LS_OK;
}

/* ---- What a row has ---- */

static ls_status check_known(const ls__csv *c, const char *label)
{
    if (!c->known || ls__csv_find_label(c, label)) return LS_OK;
    return ls__fail(c->ctx, LS_ERR_MISMATCH,
                    "csv file '%s', line %lld: the label '%s' is not among the %d known classes, "
                    "such as '%s'",
                    c->path, (long long)c->line, label, c->n_labels, c->known[0].name);
}

static ls_status add_label(ls__csv *c, const char *label)
{
    if (!*label) return ls__csv_fail(c, "an empty label");
    LS_TRY(check_known(c, label));
    return ls__text_list_add(&c->labels, label)
               ? LS_OK
               : ls__fail_memory(c->ctx, c->path, c->labels.n_bytes);
}

/* Labels with ";" between, each without the spaces around it; none in an empty field. */
static ls_status add_labels(ls__csv *c, char *field)
{
    ls__csv_row *rows =
        ls__bump_room(&c->bump, c->rows, (size_t)c->images.n, 1, &c->row_room, sizeof(*rows));
    if (!rows) return ls__fail_memory(c->ctx, c->path, ((size_t)c->images.n + 1) * sizeof(*rows));
    c->rows = rows;
    const bool is_empty = field[strspn(field, " ")] == '\0';
    for (char *at = field, *next; !is_empty && at; at = next) {
        next = strchr(at, ';');
        if (next) *next++ = '\0';
        at += strspn(at, " ");
        size_t n = strlen(at);
        while (n > 0 && at[n - 1] == ' ') n--;
        at[n] = '\0';
        LS_TRY(add_label(c, at));
    }
    rows[c->images.n] = (ls__csv_row){ c->line, c->labels.n };
    return LS_OK;
}

/* A finite decimal number of type f32. */
static bool read_number(const char *text, float *out)
{
    char *end;
    LS__IN_C_LOCALE;
    const double value = strtod(text, &end);
    *out = (float)value;
    return *text && text[strspn(text, "+-.0123456789eE")] == '\0' && *end == '\0' && isfinite(*out);
}

static ls_status add_numbers(ls__csv *c)
{
    const size_t n = (size_t)c->n_targets, before = (size_t)c->images.n * n;
    float *to = ls__bump_room(&c->bump, c->numbers, before, n, &c->number_room, sizeof(*to));
    if (!to) return ls__fail_memory(c->ctx, c->path, (before + n) * sizeof(*to));
    c->numbers = to;
    for (size_t i = 0; i < n; i++) {
        const char *text = c->fields[c->target_columns[i]];
        if (read_number(text, &to[before + i])) continue;
        return ls__fail(c->ctx, LS_ERR_DATA,
                        "csv file '%s', line %lld: the target '%.*s' is no finite number of type "
                        "f32, such as -1.5",
                        c->path, (long long)c->line, LS__CUT(text, 40));
    }
    return LS_OK;
}

static ls_status add_row(ls__csv *c)
{
    if (c->n_fields != c->n_columns)
        return ls__fail(c->ctx, LS_ERR_DATA, "csv file '%s', line %lld: %d field%s, expected %d%s",
                        c->path, (long long)c->line, c->n_fields, c->n_fields == 1 ? "" : "s",
                        c->n_columns,
                        c->has_header ? ", as in the header" : ": a path and a label");
    const char *image = c->fields[c->path_column];
    if (!*image) return ls__csv_fail(c, "an empty path");
    if (c->kind == LS__CSV_CLASS) LS_TRY(add_label(c, c->fields[c->label_column]));
    if (c->kind == LS__CSV_LABELS) LS_TRY(add_labels(c, c->fields[c->label_column]));
    if (c->kind == LS__CSV_NUMBERS) LS_TRY(add_numbers(c));
    const int root = *image == '/' ? 0 : (int)c->root_length;
    c->is_absolute = c->is_absolute || *image == '/';
    char *whole = ls__format(c->ctx, "%.*s%s", root, c->path, image);
    const bool good = whole && ls__text_list_add(&c->images, whole);
    ls__free(c->ctx, whole);
    return good ? LS_OK : ls__fail_memory(c->ctx, c->path, c->images.n_bytes);
}

static ls_status read_rows(ls__csv *c)
{
    bool found;
    LS_TRY(read_row(c, &found));
    if (found) LS_TRY(read_header(c));
    if (c->kind == LS__CSV_NUMBERS)
        LS_TRY(choose_targets(c));
    else if (c->given)
        LS_TRY(ls__csv_set_labels(c, c->n_given, c->given));
    if (found && !c->has_header) LS_TRY(add_row(c));
    while (found) {
        LS_TRY(read_row(c, &found));
        if (found) LS_TRY(add_row(c));
    }
    if (c->images.n > 0) return LS_OK;
    return ls__fail(c->ctx, LS_ERR_DATA, "csv file '%s': no rows", c->path);
}

ls_status ls__csv_read(ls__csv *c)
{
    char message[LS__MESSAGE_SIZE];
    size_t size;
    const ls_status status = ls__read_file(c->ctx, c->path, LS__MAX_FILE_BYTES, &c->bytes, &size,
                                           message, sizeof(message));
    if (status != LS_OK) return ls__fail(c->ctx, status, "csv file '%s': %s", c->path, message);
    const char *slash = strrchr(c->path, '/');
    c->root_length = slash ? (size_t)(slash + 1 - c->path) : 0;
    c->at = (char *)c->bytes;
    c->end = c->at + size; /* a 0 byte is there */
    if (size >= 3 && memcmp(c->at, "\xef\xbb\xbf", 3) == 0) c->at += 3;
    const char *zero = memchr(c->at, '\0', (size_t)(c->end - c->at));
    c->line = c->next_line = 1;
    for (const char *at = c->at; zero && at < zero; at++) c->line += *at == '\n';
    return zero ? ls__csv_fail(c, "a 0 byte; expected text in UTF-8") : read_rows(c);
}
