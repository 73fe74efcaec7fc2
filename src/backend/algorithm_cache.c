/* algorithm_cache.c: the table of kernel selections; see algorithm_cache.h. */
#include "backend/algorithm_cache.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include <string.h>

ls_status ls__selections_open(ls_context *ctx, ls__selections **out)
{
    *out = ls__zalloc(ctx, sizeof **out);
    if (!*out) return ls__fail_memory(ctx, "kernel selections", sizeof **out);
    (*out)->ctx = ctx;
    return LS_OK;
}

void ls__selections_close(ls__selections **selections)
{
    ls__selections *c = *selections;
    *selections = NULL;
    if (!c) return;
    for (int i = 0; i < c->n; i++) ls__free(c->ctx, c->items[i]);
    ls__free(c->ctx, c->items);
    ls__free(c->ctx, c);
}

/* The index of the op, or the index at which to insert it. */
static int selection_index(const ls__selections *selections, const char *op, bool *found)
{
    int low = 0, high = selections->n;
    *found = false;
    while (low < high && !*found) {
        const int middle = low + (high - low) / 2;
        const int order = strcmp(selections->items[middle]->op, op);
        *found = order == 0;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return *found ? high : low;
}

const ls__selection *ls__selections_find(ls__selections *selections, const char *op)
{
    bool found;
    const int i = selection_index(selections, op, &found);
    if (!found) return NULL;
    selections->items[i]->used = ++selections->clock;
    return selections->items[i];
}

static ls_status selections_reserve(ls_context *ctx, ls__selections *selections)
{
    if (selections->n < selections->capacity) return LS_OK;
    const int capacity = selections->capacity ? 2 * selections->capacity : 64;
    const size_t bytes = (size_t)capacity * sizeof *selections->items;
    ls__selection **larger = ls__realloc(ctx, selections->items,
                                         (size_t)selections->n * sizeof *selections->items, bytes);
    if (!larger) return ls__fail_memory(ctx, "kernel selections", bytes);
    selections->items = larger;
    selections->capacity = capacity;
    return LS_OK;
}

static void remove_at(ls__selections *selections, int i)
{
    ls__free(selections->ctx, selections->items[i]);
    selections->n--;
    memmove(&selections->items[i], &selections->items[i + 1],
            (size_t)(selections->n - i) * sizeof *selections->items);
}

ls_status ls__selections_put(ls_context *ctx, ls__selections *selections,
                             const ls__selection *selection)
{
    const size_t length = strlen(selection->op);
    ls__selection *item = ls__alloc(ctx, sizeof *item + length + 1);
    if (!item) return ls__fail_memory(ctx, "kernel selections", sizeof *item + length + 1);
    *item = *selection;
    item->op = memcpy(item + 1, selection->op, length + 1);
    item->hash = ls__hash(item->op, length, 0);
    item->used = ++selections->clock;
    bool found;
    const int i = selection_index(selections, selection->op, &found);
    if (found) {
        ls__free(ctx, selections->items[i]);
        selections->items[i] = item;
        return LS_OK;
    }
    if (selections_reserve(ctx, selections) != LS_OK) {
        ls__free(ctx, item);
        return LS_ERR_MEMORY;
    }
    memmove(&selections->items[i + 1], &selections->items[i],
            (size_t)(selections->n - i) * sizeof *selections->items);
    selections->items[i] = item;
    selections->n++;
    return LS_OK;
}

void ls__selections_keep_recent(ls__selections *selections, int max)
{
    while (selections->n > max) {
        int oldest = 0;
        for (int i = 1; i < selections->n; i++)
            if (selections->items[i]->used < selections->items[oldest]->used) oldest = i;
        remove_at(selections, oldest);
    }
}

void ls__selections_keep_sample(ls__selections *selections, int max)
{
    for (bool too_many = selections->n > max; too_many;) {
        int n_derived = 0, greatest = -1;
        uint64_t greatest_hash = 0;
        for (int i = 0; i < selections->n; i++) {
            const ls__selection *selection = selections->items[i];
            if (!selection->derived) continue;
            if (n_derived++ > 0 && selection->hash <= greatest_hash) continue;
            greatest = i;
            greatest_hash = selection->hash;
        }
        too_many = n_derived > max;
        if (too_many) remove_at(selections, greatest);
    }
}
