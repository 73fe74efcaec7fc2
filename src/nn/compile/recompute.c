/* recompute.c: activation checkpointing: recomputes cheap values in the backward pass instead of
 * keeping them. The pass works on instructions, after kernel selection and before memory planning.
 * A forward value that the backward pass reads is computed again just before its first reader
 * there, so that its memory is free in between. Results are bit-identical, because the same kernel
 * reads the same operands; a batch norm's result is recomputed by the norm_apply kernel of the same
 * name, whose contract requires equal bits.
 *
 * A value is recomputed if its op is memory-bound, or a convolution with few multiply-adds, and if
 * the recomputation alone requires no operand to be kept, or only small ones. So relu(norm(z) +
 * skip) is recomputed, because the batch norm's gradient reads z anyway; also the addend that a
 * batch norm without ReLU computes for the next one, and a stem's z, which is computed from the
 * images. relu(z) of a z without other readers is kept. Pinned values, random values and values of
 * custom ops are kept.
 *
 * Chains: a block's output depends on the previous block's, back to the first block of the same
 * resolution. The last one depends on all others, but not all are held until they are read: in a
 * chain of depth L every S-th value is held, S = sqrt(L), and those after the last held one. The
 * others are recomputed once more. So a chain takes at most twice its forward time and holds
 * S + L/S values instead of L.
 *
 * AUTO recomputes nothing if all values fit into the available memory. Otherwise it recomputes
 * memory-bound ops, and convolutions only if that is not enough: a resnet50's 1x1 convolutions cost
 * up to 11 % of its step (224 px, batch 16). The selection depends on ops and shapes, with AUTO
 * also on the memory; no result depends on it. */
#include "base/error.h"
#include "nn/compile/compile.h"
#include "backend/pool.h"
#include "nn/select/selector.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Convolutions with at most this many multiply-adds per output element are cheap: a 3x3 stem
 * with 27, a 1x1 convolution of 64 channels, whose four outputs are a quarter of a resnet50's kept
 * values. */
enum { MAX_MULTIPLY_ADDS = 64 };
/* The largest depth of their inputs: a batch norm and a pooling. With more, a shortcut to the next
 * resolution would recompute all blocks of its own resolution too early. */
enum { MAX_BEFORE_CONVOLUTION = 2 };
/* All operands that are kept for the recomputation alone must be this many times smaller than its
 * result. u8 images are 4 times smaller than normalised ones. */
enum { MIN_GAIN = 4 };
/* AUTO keeps all values if the arena then takes at most this percentage of the available memory.
 * The rest is for later allocations: optimizer states, batches, cached files. */
enum { AUTO_SHARE = 75 };

typedef struct value_state {
    bool saved;  /* the backward pass or a recomputation reads it, so it is kept */
    bool cheap;  /* it is recomputed */
    bool needed; /* the current instruction depends on it */
    int depth;   /* number of recomputed values in its chain, without copies */
    int now;     /* the value that holds its contents in the backward pass: itself or a copy; -1:
                    not computed yet */
} value_state;

typedef struct pass {
    ls__program *p;
    ls__recomputed level;
    ls__instruction *list; /* the new one */
    int n;
    size_t capacity;
    value_state *values;
    int segment; /* S */
} pass;

static int first_output(const ls__instruction *in)
{
    return in->op.n_operands > in->n_inputs ? in->operands[in->n_inputs] : -1;
}

static int64_t multiply_adds_of(const ls__op *op)
{
    const ls_shape *w = &op->operands[1].shape;
    return w->dims[1] * w->dims[2] * (w->dims[3] - op->u.conv.padding_channels);
}

/* True if the first output is cheap to recompute. */
static bool is_cheap(const ls__instruction *in, ls__recomputed level)
{
    if (in->custom || !ls__op_traits_of(in->op.kind)->cheap_to_recompute) return false;
    if (ls__op_is_convolution(in->op.kind))
        return level == LS__RECOMPUTED_CONVS && multiply_adds_of(&in->op) <= MAX_MULTIPLY_ADDS;
    return true;
}

/* The instruction that recomputes in's first output into `value`. */
static ls__instruction replay_of(const ls__instruction *in, int value)
{
    ls__instruction out = in->op.kind == LS__OP_BATCH_NORM ? ls__norm_apply(in) : *in;
    out.backward = out.again = true;
    out.kernel = NULL;
    out.why = (ls__why){ .reason = "recomputed" };
    out.operands[out.n_inputs] = value;
    for (int j = out.n_inputs + 1; j < out.op.n_operands; j++) out.operands[j] = -1;
    return out;
}

/* ---- Selecting values ---- */

/* Decides whether an instruction's first output v is recomputed. */
static bool decide(pass *s, const ls__instruction *in, int v)
{
    const ls__program *p = s->p;
    if (!is_cheap(in, s->level) || p->values[v].pinned || p->values[v].place != LS__PLACE_ARENA)
        return false;
    const ls__instruction replay = replay_of(in, v);
    size_t kept = 0;
    int depth = 0;
    for (int j = 0; j < replay.n_inputs; j++) {
        const int u = replay.operands[j];
        if (u < 0 || p->values[u].place != LS__PLACE_ARENA || p->values[u].pinned) continue;
        const value_state *input = &s->values[u];
        if (input->depth > depth) depth = input->depth;
        if (!input->cheap && !input->saved) kept += p->values[u].bytes;
    }
    if (kept > p->values[v].bytes / MIN_GAIN) return false;
    if (ls__op_is_convolution(in->op.kind) && depth > MAX_BEFORE_CONVOLUTION) return false;
    s->values[v].cheap = true;
    s->values[v].depth = depth + (in->op.kind != LS__OP_COPY);
    return true;
}

static void save_inputs(pass *s, const ls__instruction *in)
{
    for (int j = 0; j < in->n_inputs; j++)
        if (in->operands[j] >= 0) s->values[in->operands[j]].saved = true;
}

static void decide_all(pass *s)
{
    const ls__program *p = s->p;
    int deepest = 0;
    for (int i = p->n_forward; i < p->n_instructions; i++) save_inputs(s, &p->instructions[i]);
    for (int i = 0; i < p->n_forward; i++) {
        const ls__instruction *in = &p->instructions[i];
        const int v = first_output(in);
        if (v < 0 || !decide(s, in, v) || !s->values[v].saved) continue;
        const ls__instruction replay = replay_of(in, v);
        save_inputs(s, &replay); /* the recomputation reads them */
        if (s->values[v].depth > deepest) deepest = s->values[v].depth;
    }
    s->segment = deepest > 0 ? (int)ceil(sqrt((double)deepest)) : 1;
    for (int v = 0; v < p->n_values; v++) s->values[v].now = s->values[v].cheap ? -1 : v;
}

/* ---- Recomputation ---- */

static ls_status recompute_append(pass *s, const ls__instruction *in)
{
    ls__instruction *list =
        ls__bump_room(&s->p->bump, s->list, (size_t)s->n, 1, &s->capacity, sizeof *list);
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
    const int v = first_output(in), copy = ls__value_copy(p, v);
    if (copy < 0) return ls__fail_memory(p->ctx, "recompute", sizeof *p->values);
    ls__instruction again = replay_of(in, copy);
    for (int j = 0; j < again.n_inputs; j++)
        if (again.operands[j] >= 0) again.operands[j] = s->values[again.operands[j]].now;
    ls__instruction_fill(p, &again);
    s->values[v].now = copy;
    if (!in->kernel) return recompute_append(s, &again); /* a copy */
    ls__device *device = p->ctx->device;
    ls_status status =
        device->backend->kernel_open(device, &again.op, in->kernel->name, &again.kernel);
    if (status == LS_OK) {
        status = recompute_append(s, &again);
        if (status != LS_OK) again.kernel->close(again.kernel);
        return status;
    }
    if (!ls__forgive_missing_kernel(p->ctx, status)) return status;
    p->n_values--;
    s->values[v].now = v;
    return LS_OK;
}

static void need_inputs(pass *s, const ls__instruction *in)
{
    for (int j = 0; j < in->n_inputs; j++)
        if (in->operands[j] >= 0) s->values[in->operands[j]].needed = true;
}

static bool is_missing(const pass *s, int v)
{
    return v >= 0 && s->values[v].needed && s->values[v].now < 0;
}

/* Recomputes the missing inputs of instruction `in`; *deepest: their greatest depth, or -1. */
static ls_status compute_inputs(pass *s, const ls__instruction *in, int *deepest)
{
    const ls__program *p = s->p;
    *deepest = -1;
    need_inputs(s, in);
    for (int j = 0; j < in->n_inputs; j++)
        if (is_missing(s, in->operands[j]) && s->values[in->operands[j]].depth > *deepest)
            *deepest = s->values[in->operands[j]].depth;
    if (*deepest < 0) return LS_OK;
    for (int i = p->n_forward - 1; i >= 0; i--) {
        const int v = first_output(&p->instructions[i]);
        if (!is_missing(s, v)) continue;
        const ls__instruction again = replay_of(&p->instructions[i], v);
        need_inputs(s, &again);
    }
    for (int i = 0; i < p->n_forward; i++)
        if (is_missing(s, first_output(&p->instructions[i]))) LS_TRY(recompute_output(s, i));
    return LS_OK;
}

/* Drops intermediate values, except every S-th and the last S. */
static void drop_intermediate(pass *s, const ls__instruction *in, int n_values, int deepest)
{
    for (int j = 0; j < in->n_inputs; j++)
        if (in->operands[j] >= 0) s->values[in->operands[j]].needed = false;
    for (int v = 0; v < n_values && deepest >= 0; v++) {
        value_state *value = &s->values[v];
        if (value->needed && value->depth % s->segment != 0 && value->now != v &&
            (value->depth - 1) / s->segment != (deepest - 1) / s->segment)
            value->now = -1;
        value->needed = false;
    }
}

static ls_status recompute_rebuild(pass *s)
{
    ls__program *p = s->p;
    const int n_values = p->n_values;
    for (int i = 0; i < p->n_instructions; i++) {
        ls__instruction in = p->instructions[i];
        int deepest;
        if (i >= p->n_forward) {
            LS_TRY(compute_inputs(s, &in, &deepest));
            for (int j = 0; j < in.n_inputs; j++)
                if (in.operands[j] >= 0) in.operands[j] = s->values[in.operands[j]].now;
            drop_intermediate(s, &p->instructions[i], n_values, deepest);
        }
        LS_TRY(recompute_append(s, &in));
    }
    return LS_OK;
}

static void close_recomputed(const ls__instruction *list, int n)
{
    for (int i = 0; i < n; i++)
        if (list[i].again && list[i].kernel) list[i].kernel->close(list[i].kernel);
}

static ls_status recompute(ls__program *p, ls__recomputed level)
{
    pass s = { .p = p, .level = level, .capacity = 2 * (size_t)p->n_instructions };
    s.list = ls__bump_alloc(&p->bump, s.capacity * sizeof *s.list);
    s.values = ls__bump_alloc(&p->bump, (size_t)p->n_values * sizeof *s.values);
    if (!s.list || !s.values)
        return ls__fail_memory(p->ctx, "recompute", s.capacity * sizeof *s.list);
    decide_all(&s);
    const ls_status status = recompute_rebuild(&s);
    if (status != LS_OK) { /* the program keeps its list and closes the list's kernels */
        close_recomputed(s.list, s.n);
        return status;
    }
    p->instructions = s.list;
    p->n_instructions = s.n;
    p->instruction_capacity = s.capacity;
    return LS_OK;
}

/* ---- The amount ---- */

/* Undoes recomputation, and removes the workspaces that memory planning has added. */
static void restore_program(ls__program *p, const ls__program *before)
{
    close_recomputed(p->instructions, p->n_instructions);
    p->instructions = before->instructions;
    p->n_instructions = before->n_instructions;
    p->instruction_capacity = before->instruction_capacity;
    p->n_values = before->n_values;
}

static ls_status recompute_plan(ls__program *p, ls__recomputed level)
{
    p->recomputed = level;
    if (level != LS__RECOMPUTED_NOTHING) LS_TRY(recompute(p, level));
    return ls__plan_memory(p);
}

/* Plans with more and more recomputation until the arena fits. */
static ls_status plan_automatically(ls__program *p)
{
    const ls__program before = *p;
    LS_TRY(recompute_plan(p, LS__RECOMPUTED_NOTHING));
    p->kept_bytes = ls__program_arena_bytes(p);
    /* The arena of other programs is reused. */
    p->available_bytes = ls__pool_free_bytes(p->ctx->pool) + p->env->arena_bytes;
    const size_t fits = p->available_bytes / 100 * AUTO_SHARE;
    for (int level = LS__RECOMPUTED_PASSES;
         level <= LS__RECOMPUTED_CONVS && ls__program_arena_bytes(p) > fits; level++) {
        restore_program(p, &before);
        LS_TRY(recompute_plan(p, (ls__recomputed)level));
    }
    return LS_OK;
}

ls_status ls__plan_memory_with_recomputation(ls__program *p)
{
    const ls_recompute mode = p->gradients ? p->env->recompute : LS_RECOMPUTE_NONE;
    if (mode == LS_RECOMPUTE_AUTO && p->ctx->device->backend->host_memory)
        return plan_automatically(p);
    return recompute_plan(p, mode == LS_RECOMPUTE_CHEAP ? LS__RECOMPUTED_CONVS
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
