/* fusion.c: the optional ops of LS__OP_LIST as cuDNN graphs: convolutions fused with operations of
 * the batch norms around them, with f32 statistics. cuDNN's kernels require exactly these graphs,
 * and these types of virtual tensors. cuDNN has kernels for all of them in f16 on sm_90, without
 * compiling. In bf16 it has those with statistics and the weights' gradient, which it compiles when
 * they are made, with a driver. Other devices have some or none. An op without kernels has no
 * candidates.
 *
 * Sums are f32, in one fixed order. An engine adds y either before or after rounding to 16 bits, in
 * every run alike. Rounding to bf16 moves a channel's mean by about 2^-9 of its root mean square
 * over the root of its count, and its variance by about 2^-18 of its mean square, which is much
 * less than it changes single activations. */
#include "cuda/cudnn/handle.h"

/* An operand, as a buffer. */
static ls__cudnn_tensor buffer(ls__cudnn_graph *graph, const ls__op *op, int operand)
{
    const ls__operand *o = &op->operands[operand];
    return ls__cudnn_buffer(graph, operand, o->dtype, &o->shape);
}

/* relu(x a + b) of operands 0 to 2. */
static ls__cudnn_tensor add_norm(ls__cudnn_graph *graph, const ls__op *op, ls_dtype between)
{
    const ls_shape *shape = &op->operands[0].shape;
    ls__cudnn_tensor x = buffer(graph, op, 0), a = buffer(graph, op, 1), b = buffer(graph, op, 2);
    ls__cudnn_tensor scaled = ls__cudnn_virtual(graph, between, shape),
                     shifted = ls__cudnn_virtual(graph, between, shape),
                     positive = ls__cudnn_virtual(graph, between, shape);
    ls__cudnn_pointwise(graph, CUDNN_POINTWISE_MUL, x, a, scaled);
    ls__cudnn_pointwise(graph, CUDNN_POINTWISE_ADD, scaled, b, shifted);
    ls__cudnn_pointwise(graph, CUDNN_POINTWISE_RELU_FWD, shifted, NULL, positive);
    return positive;
}

/* y = conv(x) and its sums; w, y, sum, squares are the operands from `first` on. */
static void add_conv_statistics(ls__cudnn_graph *graph, const ls__op *op, ls__cudnn_tensor x,
                                int first)
{
    ls__cudnn_calls *calls = &graph->calls;
    const cudnnGenStatsMode_t mode = CUDNN_GENSTATS_SUM_SQSUM;
    ls__cudnn_tensor w = buffer(graph, op, first), y = buffer(graph, op, first + 1),
                     sum = buffer(graph, op, first + 2), squares = buffer(graph, op, first + 3);
    ls__cudnn_convolve(graph, LS__OP_CONV2D, op, x, w, y);

    cudnnBackendDescriptor_t stats =
        ls__cudnn_graph_make(graph, CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR);
    ls__cudnn_set(calls, stats, CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_TYPE_GENSTATS_MODE, 1,
                  &mode);
    ls__cudnn_set_type(calls, stats, CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_DATA_FLOAT);
    ls__cudnn_set_descriptor(calls, stats, CUDNN_ATTR_OPERATION_GENSTATS_XDESC, y);
    ls__cudnn_set_descriptor(calls, stats, CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, sum);
    ls__cudnn_set_descriptor(calls, stats, CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, squares);
    ls__cudnn_add_operation(graph, stats);
}

static void build_statistics(ls__cudnn_graph *graph, const ls__op *op)
{
    add_conv_statistics(graph, op, buffer(graph, op, 0), 1);
}

static void build_norm_statistics(ls__cudnn_graph *graph, const ls__op *op)
{
    add_conv_statistics(graph, op, add_norm(graph, op, LS_F32), 3);
}

static void build_norm_backward_weights(ls__cudnn_graph *graph, const ls__op *op)
{
    ls__cudnn_tensor x = add_norm(graph, op, op->operands[0].dtype);
    ls__cudnn_tensor dy = buffer(graph, op, 3), dw = buffer(graph, op, 4);
    ls__cudnn_convolve(graph, LS__OP_CONV2D_BACKWARD_WEIGHTS, op, x, dw, dy);
}

static void build_norm_backward_data(ls__cudnn_graph *graph, const ls__op *op)
{
    enum { DY, W, X, MEAN, INVSTD, SCALE, SHIFT, DZ, DSCALE, DSHIFT, P, Q, R };
    ls__cudnn_calls *calls = &graph->calls;
    const ls_shape *shape = &op->operands[X].shape;
    ls__cudnn_tensor dy = buffer(graph, op, DY), w = buffer(graph, op, W), x = buffer(graph, op, X),
                     dz = buffer(graph, op, DZ);
    ls__cudnn_tensor mean = buffer(graph, op, MEAN), invstd = buffer(graph, op, INVSTD),
                     scale = buffer(graph, op, SCALE), shift = buffer(graph, op, SHIFT);
    ls__cudnn_tensor gradient = ls__cudnn_virtual(graph, LS_F32, shape),
                     centred = ls__cudnn_virtual(graph, LS_F32, shape),
                     normal = ls__cudnn_virtual(graph, LS_F32, shape),
                     scaled = ls__cudnn_virtual(graph, LS_F32, shape),
                     z = ls__cudnn_virtual(graph, LS_F32, shape);
    ls__cudnn_convolve(graph, LS__OP_CONV2D_BACKWARD_DATA, op, gradient, w, dy);
    ls__cudnn_pointwise(graph, CUDNN_POINTWISE_SUB, x, mean, centred);
    ls__cudnn_pointwise(graph, CUDNN_POINTWISE_MUL, centred, invstd, normal);
    ls__cudnn_pointwise(graph, CUDNN_POINTWISE_MUL, normal, scale, scaled);
    ls__cudnn_pointwise(graph, CUDNN_POINTWISE_ADD, scaled, shift, z);
    ls__cudnn_pointwise(graph, CUDNN_POINTWISE_RELU_BWD, gradient, z, dz);

    const struct {
        cudnnBackendAttributeName_t name;
        ls__cudnn_tensor tensor;
    } attributes[] = {
        { CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MEAN_DESC, mean },
        { CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC, invstd },
        { CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC, scale },
        { CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_X_DESC, x },
        { CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DY_DESC, dz },
        { CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC, buffer(graph, op, DSCALE) },
        { CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC, buffer(graph, op, DSHIFT) },
        { CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC, buffer(graph, op, P) },
        { CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC, buffer(graph, op, Q) },
        { CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_BIAS, buffer(graph, op, R) },
    };
    cudnnBackendDescriptor_t norm =
        ls__cudnn_graph_make(graph, CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR);
    ls__cudnn_set_type(calls, norm, CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MATH_PREC,
                       CUDNN_DATA_FLOAT);
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        ls__cudnn_set_descriptor(calls, norm, attributes[i].name, attributes[i].tensor);
    ls__cudnn_add_operation(graph, norm);
}

/* The graph's buffers of the new running statistics, in the memory of the old ones. */
enum { RUNNING_MEAN = 4, RUNNING_VAR, NEW_RUNNING_MEAN = 10, NEW_RUNNING_VAR };

static void build_finalize(ls__cudnn_graph *graph, const ls__op *op)
{
    /* The names have the order of the operands. */
    static const cudnnBackendAttributeName_t names[] = {
        CUDNN_ATTR_OPERATION_BN_FINALIZE_Y_SUM_DESC,
        CUDNN_ATTR_OPERATION_BN_FINALIZE_Y_SQ_SUM_DESC,
        CUDNN_ATTR_OPERATION_BN_FINALIZE_SCALE_DESC,
        CUDNN_ATTR_OPERATION_BN_FINALIZE_BIAS_DESC,
        CUDNN_ATTR_OPERATION_BN_FINALIZE_PREV_RUNNING_MEAN_DESC,
        CUDNN_ATTR_OPERATION_BN_FINALIZE_PREV_RUNNING_VAR_DESC,
        CUDNN_ATTR_OPERATION_BN_FINALIZE_SAVED_MEAN_DESC,
        CUDNN_ATTR_OPERATION_BN_FINALIZE_SAVED_INV_STD_DESC,
        CUDNN_ATTR_OPERATION_BN_FINALIZE_EQ_SCALE_DESC,
        CUDNN_ATTR_OPERATION_BN_FINALIZE_EQ_BIAS_DESC,
        CUDNN_ATTR_OPERATION_BN_FINALIZE_UPDATED_RUNNING_MEAN_DESC,
        CUDNN_ATTR_OPERATION_BN_FINALIZE_UPDATED_RUNNING_VAR_DESC,
    };
    ls__cudnn_calls *calls = &graph->calls;
    const cudnnBnFinalizeStatsMode_t mode = CUDNN_BN_FINALIZE_STATISTICS_TRAINING;
    cudnnBackendDescriptor_t made =
        ls__cudnn_graph_make(graph, CUDNN_BACKEND_OPERATION_BN_FINALIZE_STATISTICS_DESCRIPTOR);
    ls__cudnn_set(calls, made, CUDNN_ATTR_OPERATION_BN_FINALIZE_STATS_MODE,
                  CUDNN_TYPE_BN_FINALIZE_STATS_MODE, 1, &mode);
    ls__cudnn_set_type(calls, made, CUDNN_ATTR_OPERATION_BN_FINALIZE_MATH_PREC, CUDNN_DATA_FLOAT);
    for (int i = 0; i < NEW_RUNNING_MEAN; i++)
        ls__cudnn_set_descriptor(calls, made, names[i], buffer(graph, op, i));
    for (int i = NEW_RUNNING_MEAN; i <= NEW_RUNNING_VAR; i++)
        ls__cudnn_set_descriptor(
            calls, made, names[i],
            ls__cudnn_buffer(graph, i, LS_F32, &op->operands[RUNNING_MEAN].shape));
    ls__cudnn_set_descriptor(calls, made, CUDNN_ATTR_OPERATION_BN_FINALIZE_ACCUM_COUNT_DESC,
                             ls__cudnn_scalar(graph, 0, CUDNN_DATA_INT64));
    ls__cudnn_set_descriptor(calls, made, CUDNN_ATTR_OPERATION_BN_FINALIZE_EPSILON_DESC,
                             ls__cudnn_scalar(graph, 1, CUDNN_DATA_FLOAT));
    ls__cudnn_set_descriptor(calls, made, CUDNN_ATTR_OPERATION_BN_FINALIZE_EXP_AVERATE_FACTOR_DESC,
                             ls__cudnn_scalar(graph, 2, CUDNN_DATA_FLOAT));
    ls__cudnn_add_operation(graph, made);
}

static void (*const builders[LS__N_OPS])(ls__cudnn_graph *graph, const ls__op *op) = {
    [LS__OP_CONV2D_STATISTICS] = build_statistics,
    [LS__OP_NORM_CONV2D_STATISTICS] = build_norm_statistics,
    [LS__OP_NORM_CONV2D_BACKWARD_WEIGHTS] = build_norm_backward_weights,
    [LS__OP_NORM_CONV2D_BACKWARD_DATA] = build_norm_backward_data,
    [LS__OP_NORM_FINALIZE] = build_finalize,
};

/* Has it operands of f16 or of bf16, not both? */
static bool is_half(const ls__op *op)
{
    ls_dtype half = LS_F32;
    for (int i = 0; i < op->n_operands; i++) {
        const ls__operand *o = &op->operands[i];
        if (half == LS_F32 && ls__is_half(o)) half = o->dtype;
        if (o->dtype != half && o->dtype != LS_F32) return false;
    }
    return half != LS_F32;
}

/* cuDNN compiles its bf16 kernels when they are made, up to a second each, so few are listed. Their
 * speed is unmeasured. So their estimate is COMPILED_COST times that of f16 kernels, and only
 * timing selects them. */
enum { MAX_COMPILED = 4 };
static const double COMPILED_COST = 2;

const char *ls__cudnn_fusion_problem(const ls__op *op, ls__cudnn_problem *out)
{
    const bool is_bf16 = op->operands[0].dtype == LS_BF16;
    if (!builders[op->kind] || !is_half(op))
        return "cuDNN's fusions are of f16 or bf16 convolutions without bias";
    *out = (ls__cudnn_problem){ .op = op,
                                .build = builders[op->kind],
                                .max_candidates = is_bf16 ? MAX_COMPILED : 0 };
    ls__op_text(op, out->text, sizeof out->text);
    for (int i = 0; i < op->n_operands; i++) out->uses[i] = true;
    if (op->kind != LS__OP_NORM_FINALIZE) {
        out->cost_ms = ls__cudnn_conv_cost_ms(op) * (is_bf16 ? COMPILED_COST : 1);
        return NULL;
    }
    /* The time of a launch, because it reads and writes a few vectors. It is higher than the cost
     * of our kernel, which computes in double. */
    out->cost_ms = 0.003;
    out->uses[NEW_RUNNING_MEAN] = out->uses[NEW_RUNNING_VAR] = true;
    out->in_place[NEW_RUNNING_MEAN] = RUNNING_MEAN;
    out->in_place[NEW_RUNNING_VAR] = RUNNING_VAR;
    out->n_scalars = 3;
    out->scalars[0].i = op->u.norm.count;
    out->scalars[1].f = op->u.norm.epsilon;
    out->scalars[2].f = op->u.norm.momentum;
    return NULL;
}
