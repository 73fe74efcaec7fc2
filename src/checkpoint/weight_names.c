/* weight_names.c: see weight_names.h. */
#include "checkpoint/weight_names.h"

#include "base/error.h"
#include "base/text.h"
#include "io/torch_search.h"
#include "io/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- Prefixes ---- */

/* A prefix of names, with the number of the net's tensors that have it in the file. */
typedef struct candidate {
    const char *name; /* that begins with it */
    size_t length;
    int64_t n_found;
} candidate;

typedef struct prefixes {
    ls__bump *bump;
    const char **net; /* sorted */
    size_t n_net;
    candidate *items;
    size_t n, capacity;
} prefixes;

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool has_length(const candidate *c, const char *name, size_t length)
{
    return c->length == length && strncmp(c->name, name, length) == 0;
}

static bool count(prefixes *p, const char *name, size_t length)
{
    size_t i = p->n;
    while (i > 0 && !has_length(&p->items[i - 1], name, length)) i--;
    if (i > 0) return ++p->items[i - 1].n_found;
    p->items = ls__bump_room(p->bump, p->items, p->n, 1, &p->capacity, sizeof(*p->items));
    if (p->items) p->items[p->n++] = (candidate){ name, length, 1 };
    return p->items != NULL;
}

/* Counts the prefixes before each of the net's names that `name` ends with. */
static bool count_prefixes(prefixes *p, const char *name)
{
    bool ok = true;
    for (const char *rest = name; rest && ok;) {
        if (bsearch(&rest, p->net, p->n_net, sizeof(*p->net), compare_names))
            ok = count(p, name, (size_t)(rest - name));
        const char *dot = strchr(rest, '.');
        rest = dot ? dot + 1 : NULL;
    }
    return ok;
}

/* A prefix must lead to half of the net's tensors: single names are the same in many nets. */
static ls_status select_prefix(const ls_tensor_file *file, const prefixes *p, const char **prefix)
{
    const candidate *best = NULL, *other = NULL;
    for (size_t i = 0; i < p->n; i++) {
        const candidate *c = &p->items[i];
        const bool same = best && c->n_found == best->n_found;
        if (!best || c->n_found > best->n_found || (same && c->length == 0))
            best = c, other = NULL;
        else if (same && best->length > 0)
            other = c;
    }
    *prefix = "";
    if (!best || 2 * (size_t)best->n_found < p->n_net) return LS_OK;
    if (other)
        return ls__fail(file->owned.ctx, LS_ERR_MISMATCH,
                        "'%s' has tensors of the net with the prefixes '%.*s' and '%.*s', one of "
                        "which is required as the key",
                        file->path, (int)best->length, best->name, (int)other->length, other->name);
    *prefix = ls__bump_format(p->bump, "%.*s", (int)best->length, best->name);
    return *prefix ? LS_OK : ls__fail_memory(file->owned.ctx, file->path, 0);
}

static bool begins_with(const char *text, const char *begin)
{
    return strncmp(text, begin, strlen(begin)) == 0;
}

/* Sets *prefix to the key with a dot at its end, and *found to whether names begin with it. */
static ls_status use_prefix(ls__bump *bump, const ls_tensor_file *file, const char *key,
                            const char **prefix, bool *found)
{
    const size_t n = strlen(key);
    *prefix = ls__bump_format(bump, "%s%s", key, n > 0 && key[n - 1] == '.' ? "" : ".");
    if (!*prefix) return ls__fail_memory(file->owned.ctx, file->path, n);
    *found = false;
    for (int64_t i = 0; i < file->n_tensors && !*found; i++)
        *found = begins_with(file->tensors[i].name, *prefix);
    return LS_OK;
}

/* `key`: a prefix of names, or else a dict's key followed by one. */
static ls_status use_key(ls__bump *bump, const ls_tensor_file *file, const char *key,
                         const char **prefix)
{
    bool found;
    LS_TRY(use_prefix(bump, file, key, prefix, &found));
    if (!found && file->key && *file->key && ls__is_below_key(key, file->key))
        LS_TRY(use_prefix(bump, file, key + strlen(file->key) + 1, prefix, &found));
    if (found) return LS_OK;
    return ls__fail(file->owned.ctx, LS_ERR_MISMATCH, "'%s' has no tensors at the key '%.*s'",
                    file->path, LS__CUT(key, 100));
}

ls_status ls__weight_prefix(ls__bump *bump, const ls_tensor_file *file,
                            const ls__saved_tensors *net, const char *key, const char **prefix)
{
    if (key && !(file->key && ls__is_below_key(file->key, key)))
        return use_key(bump, file, key, prefix);
    prefixes p = { .bump = bump,
                   .net = ls__bump_alloc(bump, ((size_t)net->n + 1) * sizeof(*p.net)) };
    if (!p.net) return ls__fail_memory(file->owned.ctx, file->path, 0);
    for (int64_t i = 0; i < net->n; i++)
        if (net->items[i].memory) p.net[p.n_net++] = net->items[i].name;
    qsort(p.net, p.n_net, sizeof(*p.net), compare_names);
    for (int64_t i = 0; i < file->n_tensors; i++)
        if (!ls__is_optimizer_name(file->tensors[i].name) &&
            !count_prefixes(&p, file->tensors[i].name))
            return ls__fail_memory(file->owned.ctx, file->path, 0);
    return select_prefix(file, &p, prefix);
}

const char *ls__wrapper_prefix(ls__bump *bump, const ls_tensor_file *file)
{
    static const char *const wrappers[] = { "module.", "_orig_mod." };
    enum { N_WRAPPERS = sizeof(wrappers) / sizeof(wrappers[0]) };
    /* Names are sorted: what the first and the last one begin with, all do. */
    const char *first = file->n_tensors > 0 ? file->tensors[0].name : "", *at = first;
    const char *last = file->n_tensors > 0 ? file->tensors[file->n_tensors - 1].name : "";
    for (int i = 0; i < N_WRAPPERS;) {
        const size_t n = strlen(wrappers[i]);
        const bool found =
            strncmp(at, wrappers[i], n) == 0 && strncmp(last, first, (size_t)(at - first) + n) == 0;
        at += found ? n : 0;
        i = found ? 0 : i + 1;
    }
    return ls__bump_format(bump, "%.*s", (int)(at - first), first);
}

/* ---- Classes ---- */

static const char *name_at(const json_t *names, int64_t i)
{
    return json_string_value(json_array_get(names, (size_t)i));
}

/* -1: the file does not have the class. */
static int64_t find_class(const json_t *names, const char *name)
{
    for (int64_t i = 0; i < (int64_t)json_array_size(names); i++)
        if (strcmp(name_at(names, i), name) == 0) return i;
    return -1;
}

static ls_status restore(ls_context *ctx, const char *path, json_t *names)
{
    for (size_t i = 0; i < json_array_size(names); i++) {
        json_t *name = json_array_get(names, i);
        if (!json_is_string(name))
            return ls__fail(ctx, LS_ERR_FORMAT, "'%s': unusable 'classes' in its metadata", path);
        if (!ls__json_restore(ctx, name)) return ls__fail_memory(ctx, path, 0);
    }
    return LS_OK;
}

/* " ('cat', 'dog', ...)" with the first names. */
static void put_classes(ls__text *text, const json_t *names)
{
    enum { MAX_NAMES = 3 };
    const int64_t n = (int64_t)json_array_size(names);
    for (int64_t i = 0; i < n && i < MAX_NAMES; i++)
        ls__text_put(text, "%s'%.*s'", i > 0 ? ", " : "", LS__CUT(name_at(names, i), 60));
    if (n > MAX_NAMES) ls__text_put(text, ", ...");
}

static ls_status set_order(ls__bump *bump, const ls_tensor_file *file, const json_t *names,
                           int64_t n, const char *const *classes, const int64_t **out)
{
    ls_context *ctx = file->owned.ctx;
    int64_t *order = ls__bump_alloc(bump, (size_t)n * sizeof(*order)), n_moved = 0;
    if (!order) return ls__fail_memory(ctx, file->path, 0);
    for (int64_t i = 0; i < n; i++) {
        const bool same = strcmp(name_at(names, i), classes[i]) == 0;
        order[i] = same ? i : find_class(names, classes[i]);
        n_moved += order[i] != i;
        if (order[i] >= 0) continue;
        char buffer[256];
        ls__text text = { buffer, sizeof(buffer), 0 };
        put_classes(&text, names);
        return ls__fail(ctx, LS_ERR_MISMATCH,
                        "'%s' has no outputs for the class '%.*s': its classes are %s; new_head "
                        "begins with a new last layer",
                        file->path, LS__CUT(classes[i], 60), buffer);
    }
    if (n_moved > 0) *out = order;
    return LS_OK;
}

ls_status ls__weight_class_order(ls__bump *bump, const ls_tensor_file *file, int64_t n_classes,
                                 const char *const *classes, const int64_t **order)
{
    ls_context *ctx = file->owned.ctx;
    *order = NULL;
    const char *text = classes ? ls_tensor_file_metadata(file, "classes") : NULL;
    if (!text) return LS_OK;
    json_error_t error;
    json_t *names = json_loads(text, 0, &error);
    ls_status status = LS_OK;
    if (!json_is_array(names))
        status = json_error_code(&error) == json_error_out_of_memory && !names
                     ? ls__fail_memory(ctx, file->path, 0)
                     : ls__fail(ctx, LS_ERR_FORMAT, "'%s': unusable 'classes' in its metadata",
                                file->path);
    /* A different number of classes is a different shape. */
    else if ((int64_t)json_array_size(names) == n_classes)
        status = restore(ctx, file->path, names);
    if (status == LS_OK && (int64_t)json_array_size(names) == n_classes)
        status = set_order(bump, file, names, n_classes, classes, order);
    json_decref(names);
    return status;
}
