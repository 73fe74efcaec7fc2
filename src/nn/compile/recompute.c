/* recompute.c: recomputes cheap values in the backward part instead of keeping them. The pass works
 * on instructions, after kernel selection and before memory planning. A value of the forward part
 * that the backward part reads is computed again just before its first reader there, so that its
 * memory is free in between. No bit changes, because the same kernel reads the same operands; a
 * batch norm's result is recomputed by the norm_apply kernel of the same name, whose contract
 * requires equal bits.
 *
 * A value is recomputed if its op is memory-bound, or a convolution with few products, and if no
 * operand, or only small ones, must be kept for that alone. So relu(norm(z) + skip) is recomputed,
 * because the norm's gradient needs z anyway; also the addend that a norm without ReLU computes for
 * the next norm, and a stem's z, which is computed from the images. relu(z) of a z without other
 * readers is kept. Pinned values, random values and values of users' ops are kept.
 *
 * Chains: a block's output depends on the previous block's, back to the first block of the stage.
 * The last one needs all others, but not all are held until they are read: in a chain of depth L
 * every S-th value is held, S = sqrt(L), and those after the last held one. The others are
 * recomputed once more. So a chain takes at most twice its forward time and holds S + L/S values
 * instead of L.
 *
 * AUTO recomputes nothing if all values fit into the available memory. Otherwise it recomputes
 * memory-bound ops, and convolutions only if that is not enough: a resnet50's 1x1 convolutions cost
 * up to 11 % of its step (224 px, batch 16). The selection depends on ops and shapes, with AUTO
 * also on the memory; no bit of a result depends on it. */
#include "base/error.h"
#include "nn/compile/compile.h"
#include "backend/pool.h"
#include "nn/select/selector.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Operands, as in LS__OP_LIST. */
enum { NORM_X, NORM_SCALE, NORM_SHIFT, NORM_ADD = 5, NORM_MEAN = 7, NORM_INVSTD };

/* Convolutions with at most this many products per result are cheap: a 3x3 stem with 27, a 1x1
 * convolution of 64 channels, whose four results are a quarter of a resnet50's kept values. */
enum { MOST_PRODUCTS = 64 };
/* The largest depth of their inputs: a norm and a pooling. With more, a shortcut into the next
 * stage would recompute all blocks of its own stage too early. */
enum { MOST_BEFORE_CONVOLUTION = 2 };
/* All operands that are kept for the recomputation alone must be this many times smaller than its
 * result. u8 images are 4 times smaller than normalised ones. */
enum { LEAST_GAIN = 4 };
/* AUTO keeps all values if the arena then takes at most this percentage of the available memory.
 * The rest is for later allocations: optimizer states, batches, cached files. */
enum { AUTO_SHARE = 75 };

typedef struct pass {
    ls__program *p;
    ls__recomputed level;
    ls__instruction *list; /* the new one */
    int n;
    size_t room;
    /* Per value: */
    bool *saved;  /* backward or a recomputation reads it, so it is kept */
    bool *cheap;  /* it is recomputed */
    int *depth;   /* number of recomputed values in its chain, without reorders, because those
                     depend on kernels and the rest on the model alone */
    int *now;     /* the value that holds its contents in backward: itself or a copy; -1: not
                     computed yet */
    bool *wanted; /* the current instruction depends on it */
    int segment;  /* S */
} pass;

static int64_t products_of(const ls__op *op)
{
    const ls_shape *w = &op->operands[1].shape;
    return w->dims[1] * w->dims[2] * (w->dims[3] - op->u.conv.padding_channels);
}

/* True if the first output is cheap to recompute. */
static bool is_cheap(const ls__instruction *in, ls__recomputed level)
{
    if (in->custom || !ls__op_traits_of(in->op.kind)->cheap_to_recompute) return false;
    if (ls__op_is_convolution(in->op.kind))
        return level == LS__RECOMPUTED_CONVS && products_of(&in->op) <= MOST_PRODUCTS;
    return true;
}

/* The instruction that recomputes in's first output into `value`. */
static ls__instruction replay_of(const ls__instruction *in, int value)
{
    ls__instruction out = *in;
    out.backward = out.again = true;
    out.kernel = NULL;
    out.why = (ls__why){ .reason = "recomputed" };
    if (in->op.kind == LS__OP_BATCH_NORM) {
        const int *of = in->operands;
        out.op.kind = LS__OP_NORM_APPLY;
        out.n_inputs = 6;
        memcpy(out.operands,
               (const int[]){ of[NORM_X], of[NORM_MEAN], of[NORM_INVSTD], of[NORM_SCALE],
                              of[NORM_SHIFT], of[NORM_ADD] },
               6 * sizeof *out.operands);
        out.op.n_operands = 7;
    }
    out.operands[out.n_inputs] = value;
    for (int j = out.n_inputs + 1; j < out.op.n_operands; j++) out.operands[j] = -1;
    return out;
}

/* ---- Selecting values ---- */

/* Marks the operands for recomputing instruction i's first output; false: the output is kept. */
static bool decide(pass *s, int i)
{
    ls__program *p = s->p;
    const ls__instruction *in = &s->p->instructions[i];
    const int v = in->operands[in->n_inputs];
    if (!is_cheap(in, s->level) || p->values[v].pinned || p->values[v].place != LS__PLACE_ARENA)
        return false;
    const ls__instruction replay = replay_of(in, v);
    size_t kept = 0;
    int depth = 0;
    for (int j = 0; j < replay.n_inputs; j++) {
        const int u = replay.operands[j];
        if (u < 0 || p->values[u].place != LS__PLACE_ARENA || p->values[u].pinned) continue;
        if (s->depth[u] > depth) depth = s->depth[u];
        if (!s->cheap[u] && !s->saved[u]) kept += p->values[u].bytes;
    }
    if (kept > p->values[v].bytes / LEAST_GAIN) return false;
    if (ls__op_is_convolution(in->op.kind) && depth > MOST_BEFORE_CONVOLUTION) return false;
    s->cheap[v] = true;
    s->depth[v] = depth + (in->op.kind != LS__OP_REORDER);
    return true;
}

/* Backward also needs the operands of recomputed values. */
static void save_operands(pass *s, int i)
{
    const ls__instruction *in = &s->p->instructions[i];
    const ls__instruction replay = replay_of(in, in->operands[in->n_inputs]);
    for (int j = 0; j < replay.n_inputs; j++)
        if (replay.operands[j] >= 0) s->saved[replay.operands[j]] = true;
}

static void decide_all(pass *s)
{
    const ls__program *p = s->p;
    int deepest = 0;
    for (int i = p->n_forward; i < p->n_instructions; i++)
        for (int j = 0; j < p->instructions[i].n_inputs; j++)
            if (p->instructions[i].operands[j] >= 0)
                s->saved[p->instructions[i].operands[j]] = true;
    for (int i = 0; i < p->n_forward; i++) {
        const ls__instruction *in = &s->p->instructions[i];
        if (in->op.n_operands == in->n_inputs || !decide(s, i)) continue;
        const int v = in->operands[in->n_inputs];
        if (s->saved[v]) save_operands(s, i);
        if (s->saved[v] && s->depth[v] > deepest) deepest = s->depth[v];
    }
    s->segment = deepest > 0 ? (int)ceil(sqrt((double)deepest)) : 1;
    for (int v = 0; v < p->n_values; v++) s->now[v] = s->cheap[v] ? -1 : v;
}

/* ---- Recomputation ---- */

static ls_status append(pass *s, const ls__instruction *in)
{
    ls__instruction *list =
        ls__bump_room(&s->p->bump, s->list, (size_t)s->n, 1, &s->room, sizeof *list);
    if (!list) return ls__fail_memory(s->p->ctx, "recompute", sizeof *list);
    s->list = list;
    s->list[s->n++] = *in;
    return LS_OK;
}

/* Recomputes forward instruction i's first output, or keeps it if there is no kernel for that. */
static ls_status recompute_output(pass *s, int i)
{
    ls__program *p = s->p;
    const ls__instruction *in = &p->instructions[i];
    const int v = in->operands[in->n_inputs], copy = ls__value_copy(p, v);
    if (copy < 0) return ls__fail_memory(p->ctx, "recompute", sizeof *p->values);
    ls__instruction again = replay_of(in, copy);
    for (int j = 0; j < again.n_inputs; j++)
        if (again.operands[j] >= 0) again.operands[j] = s->now[again.operands[j]];
    ls__instruction_fill(p, &again);
    s->now[v] = copy;
    if (!in->kernel) return append(s, &again); /* a reorder of equal layouts */
    ls__device *device = p->ctx->device;
    ls_status status =
        device->backend->kernel_open(device, &again.op, in->kernel->name, &again.kernel);
    if (status == LS_OK) {
        status = append(s, &again);
        if (status != LS_OK) again.kernel->close(again.kernel);
        return status;
    }
    if (!ls__forgive_missing_kernel(p->ctx, status)) return status;
    p->n_values--;
    s->now[v] = v;
    return LS_OK;
}

/* Recomputes the missing inputs of instruction `in`; *deepest: their greatest depth, or -1. */
static ls_status compute_inputs(pass *s, const ls__instruction *in, int *deepest)
{
    const ls__program *p = s->p;
    *deepest = -1;
    for (int j = 0; j < in->n_inputs; j++) {
        const int u = in->operands[j];
        if (u < 0) continue;
        s->wanted[u] = true;
        if (s->now[u] < 0 && s->depth[u] > *deepest) *deepest = s->depth[u];
    }
    if (*deepest < 0) return LS_OK;
    for (int i = p->n_forward - 1; i >= 0; i--) {
        const ls__instruction *writer = &p->instructions[i];
        if (writer->op.n_operands == writer->n_inputs) continue;
        const int v = writer->operands[writer->n_inputs];
        if (!s->wanted[v] || s->now[v] >= 0) continue;
        const ls__instruction again = replay_of(writer, v);
        for (int j = 0; j < again.n_inputs; j++)
            if (again.operands[j] >= 0) s->wanted[again.operands[j]] = true;
    }
    for (int i = 0; i < p->n_forward; i++) {
        const ls__instruction *writer = &p->instructions[i];
        if (writer->op.n_operands == writer->n_inputs) continue;
        const int v = writer->operands[writer->n_inputs];
        if (s->wanted[v] && s->now[v] < 0) LS_TRY(recompute_output(s, i));
    }
    return LS_OK;
}

/* Drops intermediate values, except every S-th and the last S. */
static void drop_intermediate(pass *s, const ls__instruction *in, int n_values, int deepest)
{
    for (int j = 0; j < in->n_inputs; j++)
        if (in->operands[j] >= 0) s->wanted[in->operands[j]] = false;
    for (int v = 0; v < n_values && deepest >= 0; v++) {
        const int depth = s->depth[v];
        if (s->wanted[v] && depth % s->segment != 0 && s->now[v] != v &&
            (depth - 1) / s->segment != (deepest - 1) / s->segment)
            s->now[v] = -1;
        s->wanted[v] = false;
    }
}

static ls_status rebuild(pass *s)
{
    ls__program *p = s->p;
    const int n_values = p->n_values;
    for (int i = 0; i < p->n_instructions; i++) {
        ls__instruction in = p->instructions[i];
        int deepest;
        if (i >= p->n_forward) {
            LS_TRY(compute_inputs(s, &in, &deepest));
            for (int j = 0; j < in.n_inputs; j++)
                if (in.operands[j] >= 0) in.operands[j] = s->now[in.operands[j]];
            drop_intermediate(s, &p->instructions[i], n_values, deepest);
        }
        LS_TRY(append(s, &in));
    }
    return LS_OK;
}

static ls_status recompute(ls__program *p, ls__recomputed level)
{
    const size_t n = (size_t)p->n_values;
    pass s = { .p = p, .level = level, .room = 2 * (size_t)p->n_instructions };
    s.list = ls__bump_alloc(&p->bump, s.room * sizeof *s.list);
    s.saved = ls__bump_alloc(&p->bump, n * sizeof *s.saved);
    s.cheap = ls__bump_alloc(&p->bump, n * sizeof *s.cheap);
    s.depth = ls__bump_alloc(&p->bump, n * sizeof *s.depth);
    s.now = ls__bump_alloc(&p->bump, n * sizeof *s.now);
    s.wanted = ls__bump_alloc(&p->bump, n * sizeof *s.wanted);
    if (!s.list || !s.saved || !s.cheap || !s.depth || !s.now || !s.wanted)
        return ls__fail_memory(p->ctx, "recompute", s.room * sizeof *s.list);
    decide_all(&s);
    const ls_status status = rebuild(&s);
    if (status != LS_OK) { /* the program keeps its list and closes the list's kernels */
        for (int i = 0; i < s.n; i++)
            if (s.list[i].again && s.list[i].kernel) s.list[i].kernel->close(s.list[i].kernel);
        return status;
    }
    p->instructions = s.list;
    p->n_instructions = s.n;
    p->instruction_room = s.room;
    return LS_OK;
}

/* ---- The amount ---- */

/* The state of a program before memory planning. */
typedef struct snapshot {
    ls__instruction *instructions;
    ls__value *values;
    int n_instructions, n_values;
} snapshot;

static ls_status take_snapshot(ls__program *p, snapshot *out)
{
    const size_t instruction_bytes = (size_t)p->n_instructions * sizeof *p->instructions;
    const size_t value_bytes = (size_t)p->n_values * sizeof *p->values;
    *out = (snapshot){ .instructions = ls__bump_alloc(&p->bump, instruction_bytes),
                       .values = ls__bump_alloc(&p->bump, value_bytes),
                       .n_instructions = p->n_instructions,
                       .n_values = p->n_values };
    if (!out->instructions || !out->values)
        return ls__fail_memory(p->ctx, "recompute", instruction_bytes + value_bytes);
    memcpy(out->instructions, p->instructions, instruction_bytes);
    memcpy(out->values, p->values, value_bytes);
    return LS_OK;
}

/* Both lists have only grown after the snapshot. */
static void restore(ls__program *p, const snapshot *from)
{
    for (int i = 0; i < p->n_instructions; i++)
        if (p->instructions[i].again && p->instructions[i].kernel)
            p->instructions[i].kernel->close(p->instructions[i].kernel);
    memcpy(p->instructions, from->instructions,
           (size_t)from->n_instructions * sizeof *p->instructions);
    memcpy(p->values, from->values, (size_t)from->n_values * sizeof *p->values);
    p->n_instructions = from->n_instructions;
    p->n_values = from->n_values;
}

static ls_status plan(ls__program *p, ls__recomputed level)
{
    p->recomputed = level;
    if (level != LS__RECOMPUTED_NOTHING) LS_TRY(recompute(p, level));
    return ls__plan_memory(p);
}

/* Plans with more and more recomputation until the arena fits. */
static ls_status plan_automatically(ls__program *p)
{
    snapshot before;
    LS_TRY(take_snapshot(p, &before));
    LS_TRY(plan(p, LS__RECOMPUTED_NOTHING));
    p->kept_bytes = p->arena_bytes;
    /* The arena of other programs is reused. */
    p->available_bytes = ls__pool_free_bytes(p->ctx->pool) + p->env->arena_bytes;
    const size_t fits = p->available_bytes / 100 * AUTO_SHARE;
    for (int level = LS__RECOMPUTED_PASSES; level <= LS__RECOMPUTED_CONVS && p->arena_bytes > fits;
         level++) {
        restore(p, &before);
        LS_TRY(plan(p, (ls__recomputed)level));
    }
    return LS_OK;
}

ls_status ls__plan_memory_with_recomputation(ls__program *p)
{
    const ls_recompute wanted = p->env->recompute;
    const bool recomputes = p->gradients && wanted != LS_RECOMPUTE_NONE;
    if (recomputes && wanted == LS_RECOMPUTE_AUTO && p->ctx->device->backend->host_memory)
        return plan_automatically(p);
    return plan(p, recomputes && wanted == LS_RECOMPUTE_CHEAP ? LS__RECOMPUTED_CONVS
                                                              : LS__RECOMPUTED_NOTHING);
}

int ls__recompute_text(const ls__program *p, char *out, size_t size)
{
    static const char *const what[] = {
        [LS__RECOMPUTED_NOTHING] = "nothing",
        [LS__RECOMPUTED_PASSES] = "normalisation, ReLU, additions, pooling",
        [LS__RECOMPUTED_CONVS] = "normalisation, ReLU, additions, pooling, small convolutions",
    };
    const double mib = 1024.0 * 1024.0;
    if (p->kept_bytes == 0 || p->recomputed == LS__RECOMPUTED_NOTHING)
        return snprintf(out, size, "recomputed: %s", what[p->recomputed]);
    return snprintf(
        out, size,
        "recomputed: %s\n    arena with everything kept %.1f MiB, limit %.1f MiB (%d %% "
        "of the available memory)",
        what[p->recomputed], (double)p->kept_bytes / mib,
        (double)(p->available_bytes / 100 * AUTO_SHARE) / mib, AUTO_SHARE);
}
