/* csv_read.c: reads a CSV list, row by row: see csv.h. */
#include "data/dataset/lists/csv.h"

#include "base/c_locale.h"
#include "base/error.h"
#include "base/file.h"
#include "base/path.h"
#include "base/text.h"
#include "base/utf8.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- What a row has ---- */

/* Paths may be any bytes, because file names may. */
static ls_status check_utf8(const ls__csv *c, const char *field)
{
    if (ls__utf8_is_valid(field)) return LS_OK;
    return ls__csv_fail(c, LS_ERR_DATA,
                        "not UTF-8; 'iconv -f WINDOWS-1252 -t UTF-8 %s' converts it, or save it as "
                        "'CSV UTF-8'",
                        c->path);
}

/* A known label may be any bytes, because the name of a class folder may. */
static ls_status check_label(const ls__csv *c, const char *label)
{
    if (c->known && ls__csv_find_label(c, label)) return LS_OK;
    LS_TRY(check_utf8(c, label));
    if (!c->known) return LS_OK;
    return ls__csv_fail(c, LS_ERR_MISMATCH,
                        "the label '%s' is not among the %d known classes, such as '%s'", label,
                        c->n_labels, c->known[0].name);
}

static ls_status add_label(ls__csv *c, const char *label)
{
    if (!*label) return ls__csv_fail(c, LS_ERR_DATA, "an empty label");
    LS_TRY(check_label(c, label));
    return ls__text_list_add(&c->labels, c->path, label);
}

/* Labels with ";" between, each without the spaces around it; none in an empty field. */
static ls_status add_labels(ls__csv *c, char *field)
{
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
    return LS_OK;
}

static ls_status add_line(ls__csv *c)
{
    ls__csv_row *rows =
        ls__bump_room(&c->bump, c->rows, (size_t)c->images.n, 1, &c->row_capacity, sizeof(*rows));
    if (!rows) return ls__fail_memory(c->ctx, c->path, ((size_t)c->images.n + 1) * sizeof(*rows));
    c->rows = rows;
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
    float *to = ls__bump_room(&c->bump, c->numbers, before, n, &c->number_capacity, sizeof(*to));
    if (!to) return ls__fail_memory(c->ctx, c->path, (before + n) * sizeof(*to));
    c->numbers = to;
    for (size_t i = 0; i < n; i++) {
        const char *text = c->fields[c->target_columns[i]];
        if (read_number(text, &to[before + i])) continue;
        return ls__csv_fail(c, LS_ERR_DATA,
                            "the target '%.*s' is no finite number of type f32, such as -1.5",
                            LS__CUT(text, 40));
    }
    return LS_OK;
}

/* Lists that were appended to each other have several headers. */
static bool repeats_header(const ls__csv *c)
{
    return c->has_header && strcmp(c->fields[c->path_column], c->header_path) == 0 &&
           (c->label_column < 0 || strcmp(c->fields[c->label_column], c->header_label) == 0);
}

static ls_status add_row(ls__csv *c)
{
    bool selected = true;
    if (c->n_fields != c->n_columns)
        return ls__csv_fail(
            c, LS_ERR_DATA, "%d field%s, expected %d%s", c->n_fields, c->n_fields == 1 ? "" : "s",
            c->n_columns,
            c->has_header ? ", as in the header"
            : ls__csv_has_columns(c)
                ? ", as in the first row"
                : ": a path and a label; a header that names them 'path' and 'label' "
                  "allows further columns, or choose them (path_column, "
                  "label_column)");
    if (repeats_header(c)) return LS_OK;
    LS_TRY(ls__csv_selects_row(c, &selected));
    if (!selected) return LS_OK;
    if (!*c->fields[c->path_column]) return ls__csv_fail(c, LS_ERR_DATA, "an empty path");
    if (c->kind == LS__CSV_CLASS) LS_TRY(add_label(c, c->fields[c->label_column]));
    if (c->kind == LS__CSV_LABELS) LS_TRY(add_labels(c, c->fields[c->label_column]));
    if (c->kind == LS__CSV_NUMBERS) LS_TRY(add_numbers(c));
    LS_TRY(add_line(c));
    if (c->group_column >= 0)
        LS_TRY(ls__text_list_add(&c->groups, c->path, c->fields[c->group_column]));
    return ls__csv_add_image(c, c->fields[c->path_column]);
}

static ls_status read_rows(ls__csv *c)
{
    bool found;
    LS_TRY(ls__csv_read_row(c, &found));
    c->split_column = c->group_column = -1;
    if (found)
        LS_TRY(ls__csv_has_columns(c) ? ls__csv_read_given_header(c) : ls__csv_read_header(c));
    ls__csv_find_split_column(c);
    if (c->has_header) {
        for (int i = 0; i < c->n_fields; i++) LS_TRY(check_utf8(c, c->fields[i]));
        c->header_path = c->fields[c->path_column];
        c->header_label = c->label_column < 0 ? NULL : c->fields[c->label_column];
        c->header_split = c->split_column < 0 ? NULL : c->fields[c->split_column];
        c->header_group = c->group_column < 0 ? NULL : c->fields[c->group_column];
        c->unused_group = c->group_column < 0 ? ls__csv_find_group_name(c) : NULL;
    }
    if (c->kind == LS__CSV_NUMBERS)
        LS_TRY(ls__csv_choose_targets(c));
    else if (c->given)
        LS_TRY(ls__csv_set_labels(c, c->n_given, c->given));
    if (found && !c->has_header) LS_TRY(add_row(c));
    while (found) {
        LS_TRY(ls__csv_read_row(c, &found));
        if (found) LS_TRY(add_row(c));
    }
    if (c->images.n > 0 || c->counts) return LS_OK;
    return ls__csv_fail_file(c, LS_ERR_DATA, "no rows%s", c->splits_seen ? " of this split" : "");
}

/* The folder of relative paths: the config's, else the list's. */
static ls_status set_root(ls__csv *c)
{
    const char *slash = strrchr(c->path, '/'), *root = c->config->image_root;
    c->name = slash ? slash + 1 : c->path;
    c->root = c->path;
    c->root_length = (size_t)(c->name - c->path);
    if (!root) return LS_OK;
    if (!ls__is_folder(root))
        return ls__csv_fail_file(c, LS_ERR_INVALID, "image_root '%s' is no folder", root);
    const size_t n = strlen(root);
    c->root = ls__bump_format(&c->bump, "%s%s", root, n > 0 && root[n - 1] == '/' ? "" : "/");
    if (!c->root) return ls__fail_memory(c->ctx, c->path, n);
    c->root_length = strlen(c->root);
    return LS_OK;
}

/* Spreadsheets save "Unicode text" like this. */
static bool is_utf16(const ls__csv *c, size_t size)
{
    return size >= 2 &&
           (memcmp(c->bytes, "\xff\xfe", 2) == 0 || memcmp(c->bytes, "\xfe\xff", 2) == 0);
}

ls_status ls__csv_read(ls__csv *c)
{
    char message[LS__MESSAGE_SIZE];
    size_t size;
    const ls_status status = ls__read_file(c->ctx, c->path, LS__MAX_FILE_BYTES, &c->bytes, &size,
                                           message, sizeof(message));
    if (status != LS_OK) return ls__csv_fail_file(c, status, "%s", message);
    LS_TRY(set_root(c));
    c->at = (char *)c->bytes;
    c->end = c->at + size; /* a 0 byte is there */
    if (is_utf16(c, size))
        return ls__csv_fail_file(
            c, LS_ERR_DATA,
            "text in UTF-16; expected UTF-8: 'iconv -f UTF-16 -t UTF-8 %s' converts it", c->path);
    if (size >= 3 && memcmp(c->at, "\xef\xbb\xbf", 3) == 0) c->at += 3;
    const char *zero = memchr(c->at, '\0', (size_t)(c->end - c->at));
    c->line = c->next_line = 1;
    for (const char *at = c->at; zero && at < zero; at++) c->line += *at == '\n';
    if (zero) return ls__csv_fail(c, LS_ERR_DATA, "a 0 byte; expected text in UTF-8");
    c->separator = ls__csv_find_separator(c);
    return read_rows(c);
}
