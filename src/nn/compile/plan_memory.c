/* plan_memory.c: plans one arena for all values of a program. Values share memory in two ways. An
 * output reuses the memory of an input that is not read afterwards (in-place ReLU and others).
 * Values whose lifetimes do not overlap may have the same offset. Operands of an instruction in the
 * side stream live until the main stream has waited for it. Values are placed one after the other,
 * each at the lowest gap among values of overlapping lifetime. Several orders are tried; the best
 * one nearly always needs only the largest sum of simultaneously live bytes. */
#include "base/alloc.h"
#include "base/error.h"
#include "base/minmax.h"
#include "nn/compile/compile.h"
#include <stdlib.h>
#include <string.h>

/* Only values of at least 1 / LARGE_SHARE of the largest one's bytes are ordered; smaller ones fill
 * gaps. MANY_TRIES orders are tried from each start, which takes some milliseconds for a resnet. */
enum { LARGE_SHARE = 64, MANY_TRIES = 256 };

/* The last instruction that may run concurrently with this one. */
static int end_of(const ls__program *p, int i)
{
    return p->instructions[i].side ? p->instructions[i].joined - 1 : i;
}

/* First and last use of each value. Values from outside live from before the first instruction,
 * pinned ones until after the last. */
static void find_lives(ls__program *p)
{
    for (int v = 0; v < p->n_values; v++) {
        p->values[v].first = -1;
        p->values[v].last = p->values[v].pinned ? p->n_instructions : -1;
    }
    for (int i = 0; i < p->n_instructions; i++) {
        const ls__instruction *in = &p->instructions[i];
        const int end = end_of(p, i);
        for (int j = 0; j < in->op.n_operands; j++) {
            if (in->operands[j] < 0) continue;
            ls__value *value = &p->values[in->operands[j]];
            if (j >= in->n_inputs && value->first < 0) value->first = i;
            if (value->last < end) value->last = end;
        }
        if (in->workspace < 0) continue;
        p->values[in->workspace].first = i;
        p->values[in->workspace].last = end;
    }
}

static void storage_join(ls__program *p, int storage, int v)
{
    p->values[v].storage = storage;
    if (p->values[storage].last < p->values[v].last) p->values[storage].last = p->values[v].last;
}

/* True if a kernel in the side stream may use this memory while instruction i runs. */
static bool is_used_beside(const ls__program *p, int storage, int i)
{
    for (int s = p->n_forward; s < i; s++) {
        const ls__instruction *in = &p->instructions[s];
        for (int j = 0; in->side && in->joined > i && j < in->op.n_operands; j++)
            if (in->operands[j] >= 0 && ls__storage_of(p, in->operands[j]) == storage) return true;
    }
    return false;
}

static void share_in_place(ls__program *p, int i)
{
    ls__instruction *in = &p->instructions[i];
    bool taken[LS__MAX_OPERANDS] = { false };
    int output, input;
    for (int t = 0; ls__op_in_place(in->op.kind, t, &output, &input); t++) {
        const int x = in->operands[input], y = in->operands[output];
        if (x < 0 || y < 0 || taken[input]) continue;
        const int storage = ls__storage_of(p, x);
        if (p->values[storage].place != LS__PLACE_ARENA || p->values[storage].last > i ||
            p->values[y].place != LS__PLACE_ARENA || p->values[y].storage != y ||
            p->values[storage].bytes != p->values[y].bytes || is_used_beside(p, storage, i))
            continue;
        /* No other operand may have the same memory. */
        bool twice = false;
        for (int j = 0; j < in->n_inputs; j++)
            twice |=
                j != input && in->operands[j] >= 0 && ls__storage_of(p, in->operands[j]) == storage;
        if (twice && ls__op_traits_of(in->op.kind)->in_place_unshared) continue;
        storage_join(p, storage, y);
        taken[input] = true;
    }
}

static void share_storage(ls__program *p)
{
    for (int i = 0; i < p->n_instructions; i++) {
        ls__instruction *in = &p->instructions[i];
        if (in->custom) continue;
        if (!ls__is_copy(in)) {
            share_in_place(p, i);
            continue;
        }
        in->skipped = p->values[in->operands[1]].place == LS__PLACE_ARENA;
        if (in->skipped) storage_join(p, ls__storage_of(p, in->operands[0]), in->operands[1]);
    }
}

/* ---- Offsets ---- */

static int by_size(const void *a, const void *b)
{
    const ls__value *x = *(ls__value *const *)a, *y = *(ls__value *const *)b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x < y ? -1 : x > y;
}

static int by_life(const void *a, const void *b)
{
    const ls__value *x = *(ls__value *const *)a, *y = *(ls__value *const *)b;
    const int long_x = x->last - x->first, long_y = y->last - y->first;
    if (long_x != long_y) return long_x < long_y ? 1 : -1;
    return by_size(a, b);
}

static size_t alignment_of(const ls__program *p)
{
    return p->ctx->device->backend->alignment;
}

/* The lowest offset at which `value` overlaps no placed value (sorted by offset) of overlapping
 * lifetime. */
static size_t lowest_gap(ls__value *const *placed, int n, const ls__value *value, size_t alignment)
{
    size_t offset = 0;
    for (int i = 0; i < n; i++) {
        const ls__value *other = placed[i];
        if (other->first > value->last || value->first > other->last) continue;
        if (offset + value->bytes <= other->offset) break;
        const size_t end = ls__round_up(other->offset + other->bytes, alignment);
        if (end > offset) offset = end;
    }
    return offset;
}

/* Gives the first n of `order` their offsets, one after the other; returns the index of the first
 * that ends at or above `limit`, or n. */
static int place_values(const ls__program *p, ls__value **order, ls__value **placed, int n,
                        size_t limit, size_t *bytes)
{
    const size_t alignment = alignment_of(p);
    *bytes = 0;
    for (int i = 0; i < n; i++) {
        ls__value *value = order[i];
        value->offset = lowest_gap(placed, i, value, alignment);
        const size_t end = value->offset + value->bytes;
        if (end >= limit) return i;
        if (end > *bytes) *bytes = end;
        int at = i;
        for (; at > 0 && placed[at - 1]->offset > value->offset; at--) placed[at] = placed[at - 1];
        placed[at] = value;
    }
    return n;
}

/* The largest sum of simultaneously live bytes, a lower bound for every order. */
static size_t max_live_bytes(const ls__program *p, ls__value *const *values, int n)
{
    size_t max_bytes = 0;
    for (int i = 0; i < p->n_instructions; i++) {
        size_t sum = 0;
        for (int j = 0; j < n; j++)
            if (values[j]->first <= i && values[j]->last >= i)
                sum += ls__round_up(values[j]->bytes, alignment_of(p));
        max_bytes = ls__max_size(max_bytes, sum);
    }
    return max_bytes;
}

/* Searches an order of the n values that needs little memory. From each start, the first value that
 * ends above the best result is placed first in the next try. */
static void find_order(const ls__program *p, ls__value **order, ls__value **placed,
                       ls__value **best, int n)
{
    static int (*const starts[])(const void *, const void *) = { by_size, by_life };
    const size_t min_bytes = max_live_bytes(p, order, n);
    size_t best_bytes = SIZE_MAX;
    for (size_t s = 0; s < sizeof starts / sizeof *starts; s++) {
        qsort(order, (size_t)n, sizeof *order, starts[s]);
        for (int t = 0; t < MANY_TRIES && best_bytes > min_bytes; t++) {
            size_t bytes;
            const int above = place_values(p, order, placed, n, best_bytes, &bytes);
            if (above == n) {
                best_bytes = bytes;
                memcpy(best, order, (size_t)n * sizeof *order);
                continue;
            }
            ls__value *first = order[above];
            memmove(order + 1, order, (size_t)above * sizeof *order);
            order[0] = first;
        }
    }
    memcpy(order, best, (size_t)n * sizeof *order);
}

static ls_status add_workspaces(ls__program *p)
{
    for (int i = 0; i < p->n_instructions; i++) {
        ls__instruction *in = &p->instructions[i];
        in->workspace = -1;
        if (!in->kernel || in->kernel->workspace_bytes == 0) continue;
        in->workspace = ls__value_add(p, &(ls__value){ .dtype = LS_U8,
                                                       .place = LS__PLACE_ARENA,
                                                       .bytes = in->kernel->workspace_bytes });
        if (in->workspace < 0) return ls__fail_memory(p->ctx, "memory plan", sizeof(ls__value));
    }
    return LS_OK;
}

ls_status ls__plan_memory(ls__program *p)
{
    for (int v = 0; v < p->n_values; v++) p->values[v].storage = v;
    LS_TRY(add_workspaces(p));
    ls__mark_overlap(p);
    find_lives(p);
    share_storage(p);
    const size_t bytes = (size_t)p->n_values * sizeof(ls__value *);
    ls__value **order = ls__bump_alloc(&p->bump, bytes), **placed = ls__bump_alloc(&p->bump, bytes),
              **best = ls__bump_alloc(&p->bump, bytes);
    if (!order || !placed || !best) return ls__fail_memory(p->ctx, "memory plan", 3 * bytes);
    int n = 0, n_large = 0;
    for (int v = 0; v < p->n_values; v++)
        if (p->values[v].place == LS__PLACE_ARENA && p->values[v].storage == v)
            order[n++] = &p->values[v];
    qsort(order, (size_t)n, sizeof *order, by_size);
    while (n_large < n && order[n_large]->bytes > order[0]->bytes / LARGE_SHARE) n_large++;
    find_order(p, order, placed, best, n_large);
    place_values(p, order, placed, n, SIZE_MAX, &p->arena_bytes);
    p->unshared_bytes = 0;
    for (int v = 0; v < p->n_values; v++)
        if (p->values[v].place == LS__PLACE_ARENA)
            p->unshared_bytes += ls__round_up(p->values[v].bytes, alignment_of(p));
    return LS_OK;
}
