/* fuse_batch_norm.c: splits batch norms and fuses them into the adjacent convolutions, if the
 * backend has kernels for that (the optional ops of LS__OP_LIST). Each of two fusions is used if
 * the policy allows a kernel for each of its ops and these cost no more than the replaced ones
 * (select_fusion.c):
 *
 *   statistics    conv -> norm becomes conv with sums -> finalize -> apply: no pass over the conv's
 *                 output for its statistics
 *   application   if the next op is a convolution with sums too, it applies the norm and the ReLU
 *                 to its input, in its forward and weight gradient, and its data gradient also
 *                 computes the norm's gradients: the normalised activation is not written, and two
 *                 passes over its gradient are saved
 *
 * The pass works on instructions, after lowering. Another reader of the normalised activation (a
 * named output, a residual add, a second convolution) prevents the second fusion, not the first. */
#include "base/error.h"
#include "nn/compile/compile.h"
#include "nn/select/selector.h"
#include <string.h>

/* Inputs, then outputs, as in LS__OP_LIST. */
enum { CONV_X, CONV_W, CONV_BIAS, CONV_Y };
enum { STATISTICS_X, STATISTICS_W, STATISTICS_Y, STATISTICS_SUM, STATISTICS_SQUARES };
enum { WEIGHTS_X, WEIGHTS_DY, WEIGHTS_DW, WEIGHTS_DB };
enum { DATA_DY, DATA_W, DATA_DX };
enum { NORM_X, NORM_SCALE, NORM_SHIFT, NORM_RUNNING_MEAN, NORM_RUNNING_VAR, NORM_ADD };
enum { NORM_Y = NORM_ADD + 1, NORM_MEAN, NORM_INVSTD };
enum { BACK_X, BACK_Y, BACK_DY1, BACK_DY2, BACK_SCALE, BACK_MEAN, BACK_INVSTD, BACK_SHIFT };
enum { BACK_DX = BACK_SHIFT + 1, BACK_DSCALE, BACK_DSHIFT };
enum { FINALIZE_MEAN = 6, FINALIZE_INVSTD, FINALIZE_A, FINALIZE_B };
enum { APPLY_X, APPLY_MEAN, APPLY_INVSTD, APPLY_SCALE, APPLY_SHIFT, APPLY_ADD, APPLY_Y };

/* A copy of an instruction with another op of the same settings. */
static ls__instruction changed(const ls__instruction *from, ls__op_kind kind, int n_inputs,
                               int n_outputs, const int *operands)
{
    ls__instruction in = *from;
    in.op.kind = kind;
    in.op.n_operands = n_inputs + n_outputs;
    in.n_inputs = n_inputs;
    memcpy(in.operands, operands, (size_t)in.op.n_operands * sizeof *operands);
    return in;
}

ls__instruction ls__norm_apply(const ls__instruction *norm)
{
    const int *of = norm->operands;
    return changed(norm, LS__OP_NORM_APPLY, 6, 1,
                   (const int[]){ of[NORM_X], of[NORM_MEAN], of[NORM_INVSTD], of[NORM_SCALE],
                                  of[NORM_SHIFT], of[NORM_ADD], of[NORM_Y] });
}

/* ---- Readers and writers of a value ---- */

static int writer_of(const ls__program *p, int value)
{
    for (int i = 0; i < p->n_instructions; i++) {
        const ls__instruction *in = &p->instructions[i];
        for (int j = in->n_inputs; j < in->op.n_operands; j++)
            if (in->operands[j] == value) return i;
    }
    return -1;
}

/* The number of operands that read it; a read after the program counts too. */
static int count_readers(const ls__program *p, int value)
{
    int n = p->values[value].pinned;
    for (int i = 0; i < p->n_instructions; i++)
        for (int j = 0; j < p->instructions[i].n_inputs; j++)
            n += p->instructions[i].operands[j] == value;
    return n;
}

/* The instruction of that kind that reads it as that operand, -1 if there is none. */
static int find_reader(const ls__program *p, int value, ls__op_kind kind, int operand)
{
    for (int i = 0; i < p->n_instructions; i++) {
        const ls__instruction *in = &p->instructions[i];
        if (!in->custom && in->op.kind == kind && in->operands[operand] == value) return i;
    }
    return -1;
}

/* ---- Statistics ---- */

static void insert(ls__program *p, int at, const ls__instruction *in)
{
    memmove(&p->instructions[at + 1], &p->instructions[at],
            (size_t)(p->n_instructions - at) * sizeof *in);
    p->instructions[at] = *in;
    p->n_instructions++;
    p->n_forward++;
}

static void drop(ls__program *p, int at)
{
    p->n_instructions--;
    p->n_forward--;
    memmove(&p->instructions[at], &p->instructions[at + 1],
            (size_t)(p->n_instructions - at) * sizeof *p->instructions);
}

/* Replaces the norm at i by finalize and apply. */
static void fuse_statistics(ls__builder *b, int i)
{
    ls__program *p = b->program;
    const ls__instruction norm = p->instructions[i];
    const int *of = norm.operands, x = of[NORM_X], j = writer_of(p, x), n_values = p->n_values;
    if (j < 0) return;
    const ls__instruction conv = p->instructions[j];
    const bool has_sums = conv.op.kind == LS__OP_CONV2D_STATISTICS; /* for another norm */
    if (!has_sums && (conv.op.kind != LS__OP_CONV2D || conv.operands[CONV_BIAS] >= 0)) return;

    const ls_shape *shape = &p->values[x].shape, channels = LS_SHAPE(shape->dims[3]);
    const int64_t count = ls_shape_element_count(shape) / shape->dims[3];
    const ls_dtype dtype = p->values[x].dtype;
    const int sum = has_sums ? conv.operands[STATISTICS_SUM] : ls__value_new(b, LS_F32, channels);
    const int squares =
        has_sums ? conv.operands[STATISTICS_SQUARES] : ls__value_new(b, LS_F32, channels);
    const int mul = ls__value_new(b, dtype, channels), add = ls__value_new(b, dtype, channels);
    if (b->status != LS_OK) return;
    ls__fusion_sides f = { .apart = { 2, { conv, norm } }, .fused.n = 3 };
    f.fused.list[0] = has_sums
                          ? conv
                          : changed(&conv, LS__OP_CONV2D_STATISTICS, 2, 3,
                                    (const int[]){ conv.operands[CONV_X], conv.operands[CONV_W],
                                                   conv.operands[CONV_Y], sum, squares });
    f.fused.list[1] =
        changed(&norm, LS__OP_NORM_FINALIZE, 6, 4,
                (const int[]){ sum, squares, of[NORM_SCALE], of[NORM_SHIFT], of[NORM_RUNNING_MEAN],
                               of[NORM_RUNNING_VAR], of[NORM_MEAN], of[NORM_INVSTD], mul, add });
    f.fused.list[1].op.u.norm.activation = LS__ACTIVATION_NONE;
    f.fused.list[1].op.u.norm.count = count;
    f.fused.list[2] = ls__norm_apply(&norm);
    if (!ls__select_fusion(p, &f)) {
        p->n_values = n_values;
        return;
    }
    p->instructions[j] = f.fused.list[0];
    p->instructions[i] = f.fused.list[1];
    insert(p, i + 1, &f.fused.list[2]);
}

/* ---- Application ---- */

/* The instructions around a normalised activation; -1 = none, because frozen parameters have no
 * backward pass. */
typedef struct neighbours {
    int conv, weights, data, norm;
} neighbours;

/* Returns false if another instruction reads it or its gradient. */
static bool find_neighbours(const ls__program *p, int z, neighbours *out)
{
    out->conv = find_reader(p, z, LS__OP_CONV2D_STATISTICS, STATISTICS_X);
    out->weights = find_reader(p, z, LS__OP_CONV2D_BACKWARD_WEIGHTS, WEIGHTS_X);
    out->norm = find_reader(p, z, LS__OP_BATCH_NORM_BACKWARD, BACK_Y);
    out->data = -1;
    if (out->conv < 0 || count_readers(p, z) != 1 + (out->weights >= 0) + (out->norm >= 0))
        return false;
    if (out->norm < 0) return true;
    const int *of = p->instructions[out->norm].operands, gradient = of[BACK_DY1];
    out->data = writer_of(p, gradient);
    return of[BACK_DY2] < 0 && out->data >= 0 &&
           p->instructions[out->data].op.kind == LS__OP_CONV2D_BACKWARD_DATA &&
           count_readers(p, gradient) == 1;
}

/* Puts the backward pass of both sides into f; apply is the norm's, mul and add its
 * finalize's. */
static void propose_backward(ls__builder *b, const neighbours *at, const ls__instruction *apply,
                             int mul, int add, ls__fusion_sides *f)
{
    const ls__program *p = b->program;
    const int *norm = apply->operands, x = norm[APPLY_X];
    const ls_shape channels = LS_SHAPE(p->values[x].shape.dims[3]);
    if (at->weights >= 0) {
        const ls__instruction *in = &p->instructions[at->weights];
        f->apart.list[f->apart.n++] = *in;
        f->fused.list[f->fused.n++] = changed(
            in, LS__OP_NORM_CONV2D_BACKWARD_WEIGHTS, 4, 1,
            (const int[]){ x, mul, add, in->operands[WEIGHTS_DY], in->operands[WEIGHTS_DW] });
    }
    if (at->norm < 0) return;
    const ls__instruction *data = &p->instructions[at->data], *back = &p->instructions[at->norm];
    const int *of = back->operands, dz = data->operands[DATA_DX];
    int coefficients[3];
    for (int i = 0; i < 3; i++) coefficients[i] = ls__value_new(b, LS_F32, channels);
    f->apart.list[f->apart.n++] = *data;
    f->apart.list[f->apart.n++] = *back;
    f->fused.list[f->fused.n++] =
        changed(data, LS__OP_NORM_CONV2D_BACKWARD_DATA, 7, 6,
                (const int[]){ data->operands[DATA_DY], data->operands[DATA_W], x, norm[APPLY_MEAN],
                               norm[APPLY_INVSTD], norm[APPLY_SCALE], norm[APPLY_SHIFT], dz,
                               of[BACK_DSCALE], of[BACK_DSHIFT], coefficients[0], coefficients[1],
                               coefficients[2] });
    f->fused.list[f->fused.n++] = changed(
        back, LS__OP_NORM_BACKWARD_APPLY, 5, 1,
        (const int[]){ dz, x, coefficients[0], coefficients[1], coefficients[2], of[BACK_DX] });
}

/* Moves the apply at i into the next convolution; false if that is not possible. */
static bool fuse_application(ls__builder *b, int i)
{
    ls__program *p = b->program;
    const ls__instruction apply = p->instructions[i];
    const int z = apply.operands[APPLY_Y], n_values = p->n_values;
    neighbours at;
    if (apply.op.u.norm.activation != LS__ACTIVATION_RELU || apply.operands[APPLY_ADD] >= 0 ||
        !find_neighbours(p, z, &at))
        return false;
    const ls__instruction *finalize = &p->instructions[writer_of(p, apply.operands[APPLY_MEAN])];
    const int mul = finalize->operands[FINALIZE_A], add = finalize->operands[FINALIZE_B];
    const ls__instruction conv = p->instructions[at.conv];
    const int *of = conv.operands;
    ls__fusion_sides f = { .apart = { 2, { conv, apply } }, .fused.n = 1 };
    f.fused.list[0] =
        changed(&conv, LS__OP_NORM_CONV2D_STATISTICS, 4, 3,
                (const int[]){ apply.operands[APPLY_X], mul, add, of[STATISTICS_W],
                               of[STATISTICS_Y], of[STATISTICS_SUM], of[STATISTICS_SQUARES] });
    propose_backward(b, &at, &apply, mul, add, &f);
    if (b->status != LS_OK || !ls__select_fusion(p, &f)) {
        p->n_values = n_values;
        return false;
    }
    p->values[z].bytes = 0; /* no instruction writes it any more */
    int next = 0;
    p->instructions[at.conv] = f.fused.list[next++];
    if (at.weights >= 0) p->instructions[at.weights] = f.fused.list[next++];
    if (at.norm >= 0) {
        p->instructions[at.data] = f.fused.list[next++];
        p->instructions[at.norm] = f.fused.list[next++];
    }
    drop(p, i);
    return true;
}

ls_status ls__fuse_batch_norms(ls__builder *b)
{
    ls__program *p = b->program;
    int n_norms = 0;
    for (int i = 0; i < p->n_instructions; i++)
        n_norms += p->instructions[i].op.kind == LS__OP_BATCH_NORM;
    if (n_norms == 0) return LS_OK;
    /* Capacity for two instructions and two selections per norm. */
    const size_t bytes = 2 * (size_t)n_norms * sizeof *p->fusions;
    ls__instruction *list = ls__bump_room(&p->bump, p->instructions, (size_t)p->n_instructions,
                                          (size_t)n_norms, &p->instruction_capacity, sizeof *list);
    if (list) p->instructions = list;
    p->fusions = ls__bump_alloc(&p->bump, bytes);
    if (!list || !p->fusions) return ls__fail_memory(p->ctx, "program", bytes);
    for (int i = 0; i < p->n_forward && b->status == LS_OK; i++)
        if (p->instructions[i].op.kind == LS__OP_BATCH_NORM) fuse_statistics(b, i);
    for (int i = 0; i < p->n_forward && b->status == LS_OK; i++)
        if (p->instructions[i].op.kind == LS__OP_NORM_APPLY && fuse_application(b, i)) i--;
    return ls__has_error(p->ctx) ? LS_ERR_EARLIER : b->status;
}
