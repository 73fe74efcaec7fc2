/* choose_layout.c: the layout block of each activation. Values that an op requires in one layout
 * form a group. Convolutions connect groups and may run in other blocks, at the cost of reorders.
 * The cheapest assignment is searched by descent over the groups, one at a time, from two starts:
 * all dense and all blocked. All costs, including those of reorders, are those of the backend's
 * candidates, so kernels and layouts are selected together. */
#include "base/error.h"
#include "nn/compile/compile.h"
#include "nn/select/selector.h"
#include <string.h>

enum { MAX_BLOCKS = 3, MAX_PASSES = 8 };

typedef struct layout_group {
    int n_blocks, chosen;
    int64_t blocks[MAX_BLOCKS];
} layout_group;

/* The cheapest way to run an instruction between values of given blocks: its own blocks, and the
 * cost with reorders. */
typedef struct layout_cost {
    double ms;
    int inner[2]; /* indices of its own blocks in those of its groups */
} layout_cost;

/* An instruction's (at most two) groups, and its cost by their blocks. */
typedef struct op_costs {
    int groups[2];
    layout_cost by_blocks[MAX_BLOCKS][MAX_BLOCKS];
} op_costs;

typedef struct cached_cost {
    ls__op op;
    double ms;
} cached_cost;

typedef struct search {
    ls__program *p;
    int *group_of;        /* per value */
    layout_group *groups; /* 0: the values without a group, of one block */
    int n_groups;
    op_costs *costs; /* per instruction */
    cached_cost *cache;
    int n_cached;
    size_t cache_capacity;
} search;

/* The cost of the cheapest allowed candidate, cached by op. */
static double op_cost(search *s, const ls__op *op)
{
    for (int i = 0; i < s->n_cached; i++)
        if (ls__op_equal(&s->cache[i].op, op)) return s->cache[i].ms;
    const double ms = ls__cheapest_ms(s->p->ctx, op);
    cached_cost *cache = ls__bump_room(&s->p->bump, s->cache, (size_t)s->n_cached, 1,
                                       &s->cache_capacity, sizeof *cache);
    if (!cache) return ms; /* the cache is only an optimisation */
    s->cache = cache;
    s->cache[s->n_cached++] = (cached_cost){ *op, ms };
    return ms;
}

static double reorder_cost(search *s, const ls__value *value, int64_t from, int64_t to)
{
    if (from == to) return 0;
    ls__op op;
    memset(&op, 0, sizeof op);
    op.kind = LS__OP_REORDER;
    op.n_operands = 2;
    for (int i = 0; i < 2; i++) {
        op.operands[i].dtype = value->dtype;
        op.operands[i].shape.n_dims = 4;
        memcpy(op.operands[i].shape.dims, value->shape.dims, sizeof value->shape.dims);
        op.operands[i].block = i == 0 ? from : to;
    }
    return op_cost(s, &op);
}

static int group_index(const search *s, int value)
{
    return value < 0 || s->p->values[value].group < 0 ? 0
                                                      : s->group_of[ls__layout_root(s->p, value)];
}

/* ---- The costs of an instruction ---- */

/* The index of a value's group in costs->groups, or -1. */
static int side_of(const search *s, const op_costs *costs, int value)
{
    const int g = group_index(s, value);
    return g == 0 ? -1 : g != costs->groups[0];
}

static int64_t block_at(const search *s, const op_costs *costs, int side, int index)
{
    return s->groups[costs->groups[side]].blocks[index];
}

/* Cost of running the instruction in these blocks of its groups. */
static double inner_cost(search *s, const ls__instruction *in, const op_costs *costs,
                         const int inner[2])
{
    ls__op op;
    memcpy(&op, &in->op, sizeof op);
    for (int i = 0; i < op.n_operands; i++) {
        const int side = side_of(s, costs, in->operands[i]);
        if (side >= 0) op.operands[i].block = block_at(s, costs, side, inner[side]);
    }
    if (op.kind == LS__OP_REORDER &&
        (op.operands[0].shape.n_dims != 4 || op.operands[1].shape.n_dims != 4 ||
         op.operands[0].block == op.operands[1].block))
        return 0;
    return op_cost(s, &op);
}

/* Cost of the reorders between the groups' blocks and the inner ones. */
static double outer_cost(search *s, const ls__instruction *in, const op_costs *costs,
                         const int outer[2], const int inner[2])
{
    double cost = 0;
    for (int i = 0; i < in->op.n_operands; i++) {
        const int side = side_of(s, costs, in->operands[i]);
        if (side >= 0 && outer[side] != inner[side])
            cost += reorder_cost(s, &s->p->values[in->operands[i]],
                                 block_at(s, costs, side, outer[side]),
                                 block_at(s, costs, side, inner[side]));
    }
    return cost;
}

static bool has_selected_layouts(const ls__instruction *in)
{
    return ls__op_traits_of(in->op.kind)->layouts == LS__LAYOUTS_SELECTED;
}

static void find_costs(search *s, ls__instruction *in, op_costs *costs)
{
    int *groups = costs->groups;
    for (int i = 0; i < in->op.n_operands; i++) {
        const int g = group_index(s, in->operands[i]);
        if (g > 0 && g != groups[0] && g != groups[1]) groups[groups[0] > 0] = g;
    }
    const int n1 = s->groups[groups[1]].n_blocks, n = s->groups[groups[0]].n_blocks * n1;
    if (n == 1 || in->custom) return; /* nothing to choose */
    ls__instruction_fill(s->p, in);
    double inner_costs[MAX_BLOCKS * MAX_BLOCKS];
    for (int i = 0; i < n; i++)
        inner_costs[i] = inner_cost(s, in, costs, (const int[]){ i / n1, i % n1 });
    for (int o = 0; o < n; o++) {
        const int outer[2] = { o / n1, o % n1 };
        layout_cost *best = &costs->by_blocks[outer[0]][outer[1]];
        *best = (layout_cost){ inner_costs[o], { outer[0], outer[1] } };
        for (int i = 0; i < n && has_selected_layouts(in); i++) {
            const int inner[2] = { i / n1, i % n1 };
            const double ms = inner_costs[i] + outer_cost(s, in, costs, outer, inner);
            if (ms < best->ms) *best = (layout_cost){ ms, { inner[0], inner[1] } };
        }
    }
}

/* ---- The search ---- */

/* The cost in the groups' current blocks. */
static const layout_cost *current(const search *s, const op_costs *costs)
{
    const int *groups = costs->groups;
    return &costs->by_blocks[s->groups[groups[0]].chosen][s->groups[groups[1]].chosen];
}

static double total_cost(const search *s, int only_group)
{
    double sum = 0;
    for (int i = 0; i < s->p->n_instructions; i++) {
        const op_costs *costs = &s->costs[i];
        if (only_group < 0 || costs->groups[0] == only_group || costs->groups[1] == only_group)
            sum += current(s, costs)->ms;
    }
    return sum;
}

static void layout_descend(search *s)
{
    bool changed = true;
    for (int pass = 0; pass < MAX_PASSES && changed; pass++) {
        changed = false;
        for (int g = 0; g < s->n_groups; g++) {
            layout_group *group = &s->groups[g];
            if (group->n_blocks < 2) continue;
            const int before = group->chosen;
            double best_cost = total_cost(s, g);
            int best = before;
            for (int i = 0; i < group->n_blocks; i++) {
                group->chosen = i;
                const double cost = total_cost(s, g);
                if (cost < best_cost) {
                    best_cost = cost;
                    best = i;
                }
            }
            group->chosen = best;
            changed |= best != before;
        }
    }
}

static void collect_groups(search *s)
{
    ls__program *p = s->p;
    const ls__device *device = p->ctx->device;
    s->groups[s->n_groups++].n_blocks = 1;
    for (int v = 0; v < p->n_values; v++) {
        if (p->values[v].group != v) continue;
        layout_group *group = &s->groups[s->n_groups];
        group->blocks[0] = p->values[v].shape.dims[3];
        group->n_blocks = 1;
        if (!p->values[v].dense)
            group->n_blocks =
                device->backend->blocks(device, &p->values[v].shape, group->blocks, MAX_BLOCKS);
        s->group_of[v] = s->n_groups++;
    }
}

/* The better result of both starts. */
static ls_status choose_blocks(search *s)
{
    int *first = ls__bump_alloc(&s->p->bump, (size_t)s->n_groups * sizeof *first);
    if (!first) return ls__fail_memory(s->p->ctx, "layout", (size_t)s->n_groups * sizeof *first);
    layout_descend(s);
    const double dense_cost = total_cost(s, -1);
    for (int g = 0; g < s->n_groups; g++) {
        first[g] = s->groups[g].chosen;
        s->groups[g].chosen = s->groups[g].n_blocks - 1;
    }
    layout_descend(s);
    if (dense_cost <= total_cost(s, -1))
        for (int g = 0; g < s->n_groups; g++) s->groups[g].chosen = first[g];
    return LS_OK;
}

/* ---- The new program ---- */

static ls__instruction reorder_instruction(const ls__instruction *around, int from, int to)
{
    ls__instruction in = { .op = { .kind = LS__OP_REORDER, .n_operands = 2 },
                           .node = around->node,
                           .backward = around->backward,
                           .n_inputs = 1,
                           .workspace = -1 };
    in.operands[0] = from;
    in.operands[1] = to;
    return in;
}

/* Puts an instruction into the new list, with the reorders that its inner blocks require. */
static ls_status layout_place(search *s, const ls__instruction *old, const op_costs *costs,
                              ls__instruction *list, int *n)
{
    ls__program *p = s->p;
    ls__instruction in = *old, after[LS__MAX_OPERANDS];
    int n_after = 0;
    const bool chosen =
        !old->custom && has_selected_layouts(old) &&
        (s->groups[costs->groups[0]].n_blocks > 1 || s->groups[costs->groups[1]].n_blocks > 1);
    for (int i = 0; chosen && i < in.op.n_operands; i++) {
        const int v = old->operands[i], side = side_of(s, costs, v);
        if (side < 0) continue;
        const int64_t block = block_at(s, costs, side, current(s, costs)->inner[side]);
        if (block == p->values[v].block) continue;
        const int copy = ls__value_copy(p, v);
        if (copy < 0) return ls__fail_memory(p->ctx, "layout", sizeof *p->values);
        p->values[copy].block = block;
        in.operands[i] = copy;
        if (i < in.n_inputs)
            list[(*n)++] = reorder_instruction(old, v, copy);
        else
            after[n_after++] = reorder_instruction(old, copy, v);
    }
    list[(*n)++] = in;
    for (int i = 0; i < n_after; i++) list[(*n)++] = after[i];
    return LS_OK;
}

static ls_status layout_rebuild(search *s)
{
    ls__program *p = s->p;
    const int n_old_values = p->n_values;
    for (int v = 0; v < n_old_values; v++) {
        const int g = group_index(s, v);
        if (g > 0) p->values[v].block = s->groups[g].blocks[s->groups[g].chosen];
    }
    int capacity = 0;
    for (int i = 0; i < p->n_instructions; i++) capacity += 1 + p->instructions[i].op.n_operands;
    ls__instruction *list = ls__bump_alloc(&p->bump, (size_t)capacity * sizeof *list);
    if (!list) return ls__fail_memory(p->ctx, "layout", (size_t)capacity * sizeof *list);
    int n = 0, n_forward = 0;
    for (int i = 0; i < p->n_instructions; i++) {
        if (i == p->n_forward) n_forward = n;
        LS_TRY(layout_place(s, &p->instructions[i], &s->costs[i], list, &n));
    }
    p->n_forward = p->n_forward == p->n_instructions ? n : n_forward;
    p->instructions = list;
    p->instruction_capacity = (size_t)capacity;
    p->n_instructions = n;
    return LS_OK;
}

ls_status ls__choose_layout(ls__program *p)
{
    search s = { .p = p };
    const size_t n_values = (size_t)p->n_values, n_instructions = (size_t)p->n_instructions;
    s.group_of = ls__bump_alloc(&p->bump, n_values * sizeof *s.group_of);
    s.groups = ls__bump_alloc(&p->bump, (n_values + 1) * sizeof *s.groups);
    s.costs = ls__bump_alloc(&p->bump, n_instructions * sizeof *s.costs);
    if (!s.group_of || !s.groups || !s.costs)
        return ls__fail_memory(p->ctx, "layout", n_instructions * sizeof *s.costs);
    collect_groups(&s);
    for (int i = 0; i < p->n_instructions; i++) find_costs(&s, &p->instructions[i], &s.costs[i]);
    if (ls__has_error(p->ctx)) return LS_ERR_EARLIER;
    LS_TRY(choose_blocks(&s));
    return layout_rebuild(&s);
}
