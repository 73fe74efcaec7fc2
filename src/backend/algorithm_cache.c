/* algorithm_cache.c: the table of kernel choices; see choices.h. */
#include "backend/algorithm_cache.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"

#include <string.h>

ls_status ls__choices_open(ls_context *ctx, ls__choices **out)
{
    *out = ls__zalloc(ctx, sizeof **out);
    if (!*out) return ls__fail_memory(ctx, "kernel choices", sizeof **out);
    (*out)->ctx = ctx;
    return LS_OK;
}

void ls__choices_close(ls__choices **choices)
{
    ls__choices *c = *choices;
    *choices = NULL;
    if (!c) return;
    for (int i = 0; i < c->n; i++) ls__free(c->ctx, c->items[i]);
    ls__free(c->ctx, c->items);
    ls__free(c->ctx, c);
}

/* Where the op is, or belongs. */
static int place_of(const ls__choices *choices, const char *op, bool *found)
{
    int low = 0, high = choices->n;
    *found = false;
    while (low < high && !*found) {
        const int middle = low + (high - low) / 2;
        const int order = strcmp(choices->items[middle]->op, op);
        *found = order == 0;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return *found ? high : low;
}

const ls__choice *ls__choices_find(ls__choices *choices, const char *op)
{
    bool found;
    const int i = place_of(choices, op, &found);
    if (!found) return NULL;
    choices->items[i]->used = ++choices->clock;
    return choices->items[i];
}

static ls_status reserve(ls_context *ctx, ls__choices *choices)
{
    if (choices->n < choices->room) return LS_OK;
    const int room = choices->room ? 2 * choices->room : 64;
    const size_t bytes = (size_t)room * sizeof *choices->items;
    ls__choice **larger =
        ls__realloc(ctx, choices->items, (size_t)choices->n * sizeof *choices->items, bytes);
    if (!larger) return ls__fail_memory(ctx, "kernel choices", bytes);
    choices->items = larger;
    choices->room = room;
    return LS_OK;
}

static void drop(ls__choices *choices, int i)
{
    ls__free(choices->ctx, choices->items[i]);
    choices->n--;
    memmove(&choices->items[i], &choices->items[i + 1],
            (size_t)(choices->n - i) * sizeof *choices->items);
}

ls_status ls__choices_put(ls_context *ctx, ls__choices *choices, const ls__choice *choice)
{
    const size_t length = strlen(choice->op);
    ls__choice *item = ls__alloc(ctx, sizeof *item + length + 1);
    if (!item) return ls__fail_memory(ctx, "kernel choices", sizeof *item + length + 1);
    *item = *choice;
    item->op = memcpy(item + 1, choice->op, length + 1);
    item->hash = ls__hash(item->op, length, 0);
    item->used = ++choices->clock;
    bool found;
    const int i = place_of(choices, choice->op, &found);
    if (found) {
        ls__free(ctx, choices->items[i]);
        choices->items[i] = item;
        return LS_OK;
    }
    if (reserve(ctx, choices) != LS_OK) {
        ls__free(ctx, item);
        return LS_ERR_MEMORY;
    }
    memmove(&choices->items[i + 1], &choices->items[i],
            (size_t)(choices->n - i) * sizeof *choices->items);
    choices->items[i] = item;
    choices->n++;
    return LS_OK;
}

void ls__choices_remove(ls__choices *choices, const char *op)
{
    bool found;
    const int i = place_of(choices, op, &found);
    if (found) drop(choices, i);
}

void ls__choices_keep_recent(ls__choices *choices, int most)
{
    while (choices->n > most) {
        int oldest = 0;
        for (int i = 1; i < choices->n; i++)
            if (choices->items[i]->used < choices->items[oldest]->used) oldest = i;
        drop(choices, oldest);
    }
}

void ls__choices_keep_sample(ls__choices *choices, int most)
{
    for (bool too_many = choices->n > most; too_many;) {
        int n_derived = 0, greatest = -1;
        uint64_t greatest_hash = 0;
        for (int i = 0; i < choices->n; i++) {
            const ls__choice *choice = choices->items[i];
            if (!choice->derived) continue;
            if (n_derived++ > 0 && choice->hash <= greatest_hash) continue;
            greatest = i;
            greatest_hash = choice->hash;
        }
        too_many = n_derived > most;
        if (too_many) drop(choices, greatest);
    }
}
