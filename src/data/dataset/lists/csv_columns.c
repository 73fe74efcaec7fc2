/* csv_columns.c: columns of a CSV list that a caller names, and the column of splits: see csv.h. */
#include "data/dataset/lists/csv.h"

#include "base/error.h"
#include "base/text.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- Columns of the config ---- */

const char *ls__csv_fields_text(const ls__csv *c, char buffer[LS__CSV_FIELDS_TEXT_SIZE])
{
    enum { MAX_NAMES = 8 };
    ls__text text = { buffer, LS__CSV_FIELDS_TEXT_SIZE, 0 };
    for (int i = 0; i < c->n_fields && i < MAX_NAMES; i++)
        ls__text_put(&text, "%s'%.*s'", i > 0 ? ", " : "", LS__CUT(c->fields[i], 40));
    if (c->n_fields > MAX_NAMES) ls__text_put(&text, ", ... (%d in all)", c->n_fields);
    return buffer;
}

static ls_status fail_column(const ls__csv *c, const char *member, const char *given)
{
    char text[LS__CSV_FIELDS_TEXT_SIZE];
    return ls__fail(c->ctx, LS_ERR_DATA, "csv file '%s', line %lld: no column '%s' (%s); found %s",
                    c->path, (long long)c->line, given, member, ls__csv_fields_text(c, text));
}

/* A number from 1 in `text`, without sign; -1: it is a name. */
static int number_of(const char *text)
{
    const size_t n = strlen(text);
    return n > 0 && n < 5 && strspn(text, "0123456789") == n ? atoi(text) : -1;
}

/* given: a number, or a name. A number is never a name, because the first row may be data. */
static ls_status find_given(const ls__csv *c, const char *member, const char *given, int *out,
                            bool *is_named)
{
    *out = -1;
    if (!given) return LS_OK;
    const int number = number_of(given);
    if (number == 0)
        return ls__fail(c->ctx, LS_ERR_INVALID, "csv file '%s': column 0 (%s); expected 1 or more",
                        c->path, member);
    if (number > 0 && number <= c->n_fields) *out = number - 1;
    for (int i = 0; number < 0 && i < c->n_fields; i++) {
        if (strcasecmp(c->fields[i], given) != 0) continue;
        if (*out >= 0)
            return ls__fail(c->ctx, LS_ERR_DATA,
                            "csv file '%s', line %lld: two columns '%s'; expected a number (%s)",
                            c->path, (long long)c->line, given, member);
        *out = i;
        *is_named = true;
    }
    return *out >= 0 ? LS_OK : fail_column(c, member, given);
}

ls_status ls__csv_find_columns(ls__csv *c, int *path, int *label, bool *is_named)
{
    const ls_csv_config *g = c->config;
    const struct {
        const char *member, *given;
        int *column;
    } all[] = { { "path_column", g->path_column, path },
                { "label_column", g->label_column, label },
                { "split_column", g->split_column, &c->split_column },
                { "group_column", g->group_column, &c->group_column } };
    enum { N = sizeof(all) / sizeof(all[0]) };
    for (int i = 0; i < N; i++)
        LS_TRY(find_given(c, all[i].member, all[i].given, all[i].column, is_named));
    /* Groups may be those of the labels. */
    for (int i = 1; i < N - 1; i++)
        for (int k = 0; k < i; k++)
            if (*all[i].column >= 0 && *all[i].column == *all[k].column)
                return ls__fail(c->ctx, LS_ERR_INVALID,
                                "csv file '%s': %s and %s are both column %d", c->path,
                                all[k].member, all[i].member, *all[i].column + 1);
    c->is_split_given = c->split_column >= 0;
    return LS_OK;
}

/* ---- The column of splits ---- */

void ls__csv_find_split_column(ls__csv *c)
{
    static const char *const names[] = { "split", "subset", "partition", "set" };
    enum { N = sizeof(names) / sizeof(names[0]) };
    for (int k = 0; k < N && c->has_header && c->split_column < 0; k++)
        for (int i = 0; i < c->n_fields && c->split_column < 0; i++)
            if (i != c->path_column && i != c->label_column &&
                strcasecmp(c->fields[i], names[k]) == 0)
                c->split_column = i;
}

ls_status ls__csv_selects_row(ls__csv *c, bool *selected)
{
    const ls_csv_rows rows = c->config->rows;
    *selected = rows == LS_CSV_ROWS_ALL && !c->counts;
    if (c->split_column < 0 && rows != LS_CSV_ROWS_ALL)
        return ls__fail(c->ctx, LS_ERR_DATA,
                        "csv file '%s': no column of splits, such as 'split' (split_column)",
                        c->path);
    if (c->split_column < 0) return LS_OK;
    ls_split split;
    const char *field = c->fields[c->split_column];
    if (!ls_split_of_name(field, &split)) {
        c->has_unknown_split = true;
        if (rows == LS_CSV_ROWS_ALL && !c->is_split_given) return LS_OK;
        return ls__fail(c->ctx, LS_ERR_DATA,
                        "csv file '%s', line %lld: '%s' is no split; expected one such as 'train', "
                        "'val' or 'test'",
                        c->path, (long long)c->line, field);
    }
    c->splits_seen |= 1U << split;
    if (c->counts) c->counts[split]++;
    if (rows != LS_CSV_ROWS_ALL) *selected = (int)split == (int)rows - LS_CSV_ROWS_TRAIN;
    return LS_OK;
}
