/* choose_layout.c: the layout block of each activation. Values that an op requires in one layout
 * form a group. Convolutions connect groups and may run in other blocks, at the cost of reorders.
 * The cheapest assignment is searched by descent over the groups, one at a time, from two starts:
 * all dense and all blocked. All costs, with those of reorders, are those of the backend's
 * candidates, so kernels and layouts are selected together. */
#include "base/alloc.h"
#include "base/error.h"
#include "nn/compile/compile.h"
#include "nn/select/selector.h"

#include <string.h>

enum { MAX_BLOCKS = 3, MAX_PASSES = 8 };
#define IMPOSSIBLE 1e30

typedef struct layout_group {
    int n_blocks, chosen;
    int64_t blocks[MAX_BLOCKS];
} layout_group;

/* Costs of one instruction by the blocks of its (at most two) groups, and its inner blocks. */
typedef struct op_price {
    int groups[2]; /* -1 = none */
    double cost[MAX_BLOCKS][MAX_BLOCKS];
    signed char inner[MAX_BLOCKS][MAX_BLOCKS][2];
} op_price;

typedef struct known_cost {
    ls__op op;
    double cost;
} known_cost;

typedef struct search {
    ls__program *p;
    int *group_of; /* per value, -1 */
    layout_group *groups;
    int n_groups;
    op_price *prices; /* per instruction */
    known_cost *known;
    int n_known;
    size_t known_room;
} search;

static int root_of(const ls__program *p, int v)
{
    while (p->values[v].group != v) v = p->values[v].group;
    return v;
}

/* The cost of the cheapest allowed candidate, cached by op. */
static double op_cost(search *s, const ls__op *op)
{
    for (int i = 0; i < s->n_known; i++)
        if (memcmp(&s->known[i].op, op, sizeof *op) == 0) return s->known[i].cost;
    ls__candidate found[LS__MAX_CANDIDATES];
    int n_found;
    const int best = ls__choose_candidate(s->p->ctx, op, found, &n_found);
    const double cost = best < 0 ? IMPOSSIBLE : found[best].cost_ms;
    known_cost *known =
        ls__bump_room(&s->p->bump, s->known, (size_t)s->n_known, 1, &s->known_room, sizeof *known);
    if (!known) return cost; /* the cache is only an optimisation */
    s->known = known;
    s->known[s->n_known].cost = cost;
    memcpy(&s->known[s->n_known++].op, op, sizeof *op);
    return cost;
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
    return value < 0 || s->p->values[value].group < 0 ? -1 : s->group_of[root_of(s->p, value)];
}

/* Cost of running the instruction in inner blocks i0, i1 of its groups. */
static double inner_cost(search *s, const ls__instruction *in, const op_price *price,
                         const int inner[2])
{
    ls__op op;
    memcpy(&op, &in->op, sizeof op);
    for (int i = 0; i < op.n_operands; i++) {
        const int g = group_index(s, in->operands[i]);
        if (g < 0) continue;
        const int side = g == price->groups[0] ? 0 : 1;
        op.operands[i].block = s->groups[g].blocks[inner[side]];
    }
    if (op.kind == LS__OP_REORDER &&
        (op.operands[0].shape.n_dims != 4 || op.operands[1].shape.n_dims != 4 ||
         op.operands[0].block == op.operands[1].block))
        return 0;
    return op_cost(s, &op);
}

/* Reorders between the groups' blocks and the inner ones. */
static double outer_cost(search *s, const ls__instruction *in, const op_price *price,
                         const int outer[2], const int inner[2])
{
    double cost = 0;
    for (int i = 0; i < in->op.n_operands; i++) {
        const int g = group_index(s, in->operands[i]);
        if (g < 0) continue;
        const int side = g == price->groups[0] ? 0 : 1;
        if (outer[side] != inner[side])
            cost +=
                reorder_cost(s, &s->p->values[in->operands[i]], s->groups[g].blocks[outer[side]],
                             s->groups[g].blocks[inner[side]]);
    }
    return cost;
}

static void make_price(search *s, ls__instruction *in, op_price *price)
{
    price->groups[0] = price->groups[1] = -1;
    for (int i = 0; i < in->op.n_operands; i++) {
        const int g = group_index(s, in->operands[i]);
        if (g < 0 || g == price->groups[0] || g == price->groups[1]) continue;
        price->groups[price->groups[0] < 0 ? 0 : 1] = g;
    }
    if (price->groups[0] < 0 || in->custom) return;
    ls__instruction_fill(s->p, in);
    const int n0 = s->groups[price->groups[0]].n_blocks;
    const int n1 = price->groups[1] < 0 ? 1 : s->groups[price->groups[1]].n_blocks;
    if (n0 == 1 && n1 == 1) return; /* one candidate */
    double inner_costs[MAX_BLOCKS][MAX_BLOCKS];
    for (int i0 = 0; i0 < n0; i0++)
        for (int i1 = 0; i1 < n1; i1++)
            inner_costs[i0][i1] = inner_cost(s, in, price, (const int[]){ i0, i1 });
    for (int o0 = 0; o0 < n0; o0++) {
        for (int o1 = 0; o1 < n1; o1++) {
            price->cost[o0][o1] = inner_costs[o0][o1];
            price->inner[o0][o1][0] = (signed char)o0;
            price->inner[o0][o1][1] = (signed char)o1;
            if (ls__op_traits_of(in->op.kind)->layouts != LS__LAYOUTS_SELECTED) continue;
            for (int i0 = 0; i0 < n0; i0++) {
                for (int i1 = 0; i1 < n1; i1++) {
                    const double cost =
                        inner_costs[i0][i1] +
                        outer_cost(s, in, price, (const int[]){ o0, o1 }, (const int[]){ i0, i1 });
                    if (cost >= price->cost[o0][o1]) continue;
                    price->cost[o0][o1] = cost;
                    price->inner[o0][o1][0] = (signed char)i0;
                    price->inner[o0][o1][1] = (signed char)i1;
                }
            }
        }
    }
}

static double price_now(const search *s, const op_price *price)
{
    if (price->groups[0] < 0) return 0;
    return price->cost[s->groups[price->groups[0]].chosen]
                      [price->groups[1] < 0 ? 0 : s->groups[price->groups[1]].chosen];
}

static double total_cost(const search *s, int only_group)
{
    double sum = 0;
    for (int i = 0; i < s->p->n_instructions; i++) {
        const op_price *price = &s->prices[i];
        if (only_group < 0 || price->groups[0] == only_group || price->groups[1] == only_group)
            sum += price_now(s, price);
    }
    return sum;
}

static void descend(search *s)
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
    for (int v = 0; v < p->n_values; v++) {
        s->group_of[v] = -1;
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
    int *first = ls__bump_alloc(&s->p->bump, (size_t)(s->n_groups + 1) * sizeof *first);
    if (!first) return ls__fail_memory(s->p->ctx, "layout", (size_t)s->n_groups * sizeof *first);
    descend(s);
    const double dense_cost = total_cost(s, -1);
    for (int g = 0; g < s->n_groups; g++) {
        first[g] = s->groups[g].chosen;
        s->groups[g].chosen = s->groups[g].n_blocks - 1;
    }
    descend(s);
    if (dense_cost <= total_cost(s, -1))
        for (int g = 0; g < s->n_groups; g++) s->groups[g].chosen = first[g];
    return LS_OK;
}

/* A copy of value v in another block. */
static int add_copy(ls__program *p, int v, int64_t block)
{
    const int copy = ls__value_copy(p, v);
    if (copy >= 0) p->values[copy].block = block;
    return copy;
}

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
static ls_status place(search *s, const ls__instruction *old, const op_price *price,
                       ls__instruction *list, int *n)
{
    ls__program *p = s->p;
    ls__instruction in = *old, after[LS__MAX_OPERANDS];
    int n_after = 0;
    const bool chosen = price->groups[0] >= 0 && !old->custom &&
                        ls__op_traits_of(old->op.kind)->layouts == LS__LAYOUTS_SELECTED &&
                        (s->groups[price->groups[0]].n_blocks > 1 ||
                         (price->groups[1] >= 0 && s->groups[price->groups[1]].n_blocks > 1));
    for (int i = 0; chosen && i < in.op.n_operands; i++) {
        const int g = group_index(s, old->operands[i]);
        if (g < 0) continue;
        const int side = g == price->groups[0] ? 0 : 1;
        const int o0 = s->groups[price->groups[0]].chosen;
        const int o1 = price->groups[1] < 0 ? 0 : s->groups[price->groups[1]].chosen;
        const int64_t block = s->groups[g].blocks[price->inner[o0][o1][side]];
        if (block == p->values[old->operands[i]].block) continue;
        const int copy = add_copy(p, old->operands[i], block);
        if (copy < 0) return ls__fail_memory(p->ctx, "layout", sizeof *p->values);
        in.operands[i] = copy;
        if (i < in.n_inputs)
            list[(*n)++] = reorder_instruction(old, old->operands[i], copy);
        else
            after[n_after++] = reorder_instruction(old, copy, old->operands[i]);
    }
    list[(*n)++] = in;
    for (int i = 0; i < n_after; i++) list[(*n)++] = after[i];
    return LS_OK;
}

static ls_status rebuild(search *s)
{
    ls__program *p = s->p;
    const int n_old_values = p->n_values;
    for (int v = 0; v < n_old_values; v++) {
        const int g = group_index(s, v);
        if (g >= 0) p->values[v].block = s->groups[g].blocks[s->groups[g].chosen];
    }
    int room = 0;
    for (int i = 0; i < p->n_instructions; i++) room += 1 + p->instructions[i].op.n_operands;
    ls__instruction *list = ls__bump_alloc(&p->bump, (size_t)room * sizeof *list);
    if (!list) return ls__fail_memory(p->ctx, "layout", (size_t)room * sizeof *list);
    int n = 0, n_forward = 0;
    for (int i = 0; i < p->n_instructions; i++) {
        if (i == p->n_forward) n_forward = n;
        LS_TRY(place(s, &p->instructions[i], &s->prices[i], list, &n));
    }
    p->n_forward = p->n_forward == p->n_instructions ? n : n_forward;
    p->instructions = list;
    p->instruction_room = (size_t)room;
    p->n_instructions = n;
    return LS_OK;
}

ls_status ls__choose_layout(ls__program *p)
{
    search s = { .p = p };
    const size_t n_values = (size_t)p->n_values, n_instructions = (size_t)p->n_instructions;
    s.group_of = ls__bump_alloc(&p->bump, n_values * sizeof *s.group_of);
    s.groups = ls__bump_alloc(&p->bump, n_values * sizeof *s.groups);
    s.prices = ls__bump_alloc(&p->bump, n_instructions * sizeof *s.prices);
    if (!s.group_of || !s.groups || !s.prices)
        return ls__fail_memory(p->ctx, "layout", n_instructions * sizeof *s.prices);
    collect_groups(&s);
    for (int i = 0; i < p->n_instructions; i++) make_price(&s, &p->instructions[i], &s.prices[i]);
    if (ls__has_error(p->ctx)) return LS_ERR_EARLIER;
    LS_TRY(choose_blocks(&s));
    return rebuild(&s);
}
