/* names.c: the nearest existing names, for errors about unknown names. */
#include "nn/graph/graph.h"

#include "base/error.h"

#include <stdio.h>
#include <string.h>

enum { MAX_NAMES = 3 };

/* The names found so far that are nearest to `unknown`, best first; of equal ones the earlier. */
typedef struct search {
    const char *unknown;
    const char *names[MAX_NAMES];
    size_t distances[MAX_NAMES];
    int n, n_seen;
} search;

/* Levenshtein distance: the number of inserted, removed or replaced characters. */
static size_t distance_of(const char *a, const char *b)
{
    size_t row[LS__MAX_NAME + 1];
    const size_t n = strlen(b) < LS__MAX_NAME ? strlen(b) : LS__MAX_NAME;
    for (size_t j = 0; j <= n; j++) row[j] = j;
    for (size_t i = 0; a[i]; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 1; j <= n; j++) {
            const size_t replaced = diagonal + (a[i] != b[j - 1]);
            diagonal = row[j];
            row[j] = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            if (replaced < row[j]) row[j] = replaced;
        }
    }
    return row[n];
}

static void consider(search *s, const char *name)
{
    const size_t distance = distance_of(s->unknown, name);
    s->n_seen++;
    if (s->n < MAX_NAMES)
        s->n++;
    else if (distance >= s->distances[MAX_NAMES - 1])
        return;
    int at = s->n - 1;
    for (; at > 0 && s->distances[at - 1] > distance; at--) {
        s->distances[at] = s->distances[at - 1];
        s->names[at] = s->names[at - 1];
    }
    s->distances[at] = distance;
    s->names[at] = name;
}

static const char *put_name(const search *s, const char *what, char buffer[LS__NAMES_TEXT_SIZE])
{
    ls__text text = { buffer, LS__NAMES_TEXT_SIZE, 0 };
    if (s->n_seen == 0) {
        ls__text_put(&text, "it has no %s", what);
        return buffer;
    }
    ls__text_put(&text, "it has %d %s%s", s->n_seen, what,
                 s->n_seen > MAX_NAMES ? ", the nearest:" : ":");
    for (int i = 0; i < s->n; i++)
        ls__text_put(&text, "%s '%.*s'", i > 0 ? "," : "", LS__CUT(s->names[i], 120));
    return buffer;
}

int ls__expect_named(ls_context *ctx, const ls__named_list *list, const char *call,
                     const char *what, const char *name)
{
    const int found = name ? ls__find_named(list, name) : -1;
    if (found >= 0) return found;
    search s = { .unknown = name ? name : "(null)" };
    for (int i = 0; i < list->n; i++) consider(&s, list->items[i].name);
    char plural[32], names[LS__NAMES_TEXT_SIZE];
    snprintf(plural, sizeof plural, "%ss", what);
    ls__fail(ctx, LS_ERR_NOT_FOUND, "%s: the net has no %s '%s'; %s", call, what, s.unknown,
             put_name(&s, plural, names));
    return -1;
}

const char *ls__nearest_parameters(int64_t n, const ls__parameter *parameters, bool buffers,
                                   const char *unknown, char buffer[LS__NAMES_TEXT_SIZE])
{
    search s = { .unknown = unknown };
    for (int64_t i = 0; i < n; i++)
        if (buffers || parameters[i].kind != LS_PARAMETER_BUFFER) consider(&s, parameters[i].name);
    return put_name(&s, buffers ? "parameters and buffers" : "parameters", buffer);
}
