/* fusion.c: convolutions with the batch norms around them, as cuDNN's graphs. The shape of each
 * graph, and which of its inner tensors are f16, is what cuDNN's kernels for it want. */
#include "cuda/cudnn/fusion.h"
#include "base/error.h"
#include "base/text.h"
#include "cuda/cudnn/handle.h"

#include <string.h>

/* The operands of LS__OP_CONV2D. */
enum { X, W, BIAS, Y };

static const ls_shape *shape_of(const ls__cudnn_fusion *f, int operand)
{
    return &f->conv.operands[operand].shape;
}

static ls__cudnn_tensor activation(ls__cudnn_graph *graph, const ls__cudnn_fusion *f, int buffer,
                                   int operand)
{
    return ls__cudnn_buffer(graph, buffer, LS_F16, shape_of(f, operand));
}

static ls__cudnn_tensor inner(ls__cudnn_graph *graph, const ls__cudnn_fusion *f, ls_dtype dtype,
                              int operand)
{
    return ls__cudnn_virtual(graph, dtype, shape_of(f, operand));
}

/* One number for each channel of an operand. */
static ls__cudnn_tensor vector(ls__cudnn_graph *graph, const ls__cudnn_fusion *f, int buffer,
                               ls_dtype dtype, int operand)
{
    const ls_shape channels = LS_SHAPE(shape_of(f, operand)->dims[3]);
    return ls__cudnn_buffer(graph, buffer, dtype, &channels);
}

/* relu(x * mul + add); buffers 0 to 2. */
static ls__cudnn_tensor add_norm(ls__cudnn_graph *graph, const ls__cudnn_fusion *f,
                                 ls_dtype between)
{
    ls__cudnn_tensor x = activation(graph, f, 0, X);
    ls__cudnn_tensor mul = vector(graph, f, 1, LS_F16, X), add = vector(graph, f, 2, LS_F16, X);
    ls__cudnn_tensor scaled = inner(graph, f, between, X), shifted = inner(graph, f, between, X),
                     positive = inner(graph, f, between, X);
    ls__cudnn_pointwise(graph, CUDNN_POINTWISE_MUL, x, mul, scaled);
    ls__cudnn_pointwise(graph, CUDNN_POINTWISE_ADD, scaled, add, shifted);
    ls__cudnn_pointwise(graph, CUDNN_POINTWISE_RELU_FWD, shifted, NULL, positive);
    return positive;
}

/* y = conv(x), and its sums; w and what follows are the buffers from `first` on. */
static void add_conv_stats(ls__cudnn_graph *graph, const ls__cudnn_fusion *f, ls__cudnn_tensor x,
                           int first)
{
    ls__cudnn_calls *calls = &graph->calls;
    const cudnnGenStatsMode_t mode = CUDNN_GENSTATS_SUM_SQSUM;
    ls__cudnn_tensor w = activation(graph, f, first, W), y = activation(graph, f, first + 1, Y);
    ls__cudnn_tensor sum = vector(graph, f, first + 2, LS_F32, Y),
                     squares = vector(graph, f, first + 3, LS_F32, Y);
    ls__cudnn_convolve(graph, LS__OP_CONV2D, &f->conv, x, w, y);

    cudnnBackendDescriptor_t stats =
        ls__cudnn_operation(graph, CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR);
    ls__cudnn_set(calls, stats, CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_TYPE_GENSTATS_MODE, 1,
                  &mode);
    ls__cudnn_set_type(calls, stats, CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_DATA_FLOAT);
    ls__cudnn_set_descriptor(calls, stats, CUDNN_ATTR_OPERATION_GENSTATS_XDESC, y);
    ls__cudnn_set_descriptor(calls, stats, CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, sum);
    ls__cudnn_set_descriptor(calls, stats, CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, squares);
    ls__cudnn_add_operation(graph, stats);
}

static void build_conv_stats(ls__cudnn_graph *graph, const ls__cudnn_fusion *f)
{
    add_conv_stats(graph, f, activation(graph, f, 0, X), 1);
}

static void build_norm_conv_stats(ls__cudnn_graph *graph, const ls__cudnn_fusion *f)
{
    add_conv_stats(graph, f, add_norm(graph, f, LS_F32), 3);
}

static void build_norm_backward_weights(ls__cudnn_graph *graph, const ls__cudnn_fusion *f)
{
    ls__cudnn_tensor x = add_norm(graph, f, LS_F16);
    ls__cudnn_tensor dy = activation(graph, f, 3, Y), dw = activation(graph, f, 4, W);
    ls__cudnn_convolve(graph, LS__OP_CONV2D_BACKWARD_WEIGHTS, &f->conv, x, dw, dy);
}

static void build_backward_data_norm(ls__cudnn_graph *graph, const ls__cudnn_fusion *f)
{
    enum { DY, WEIGHTS, INPUT, MEAN, INVSTD, SCALE, SHIFT, DZ, DSCALE, DSHIFT, A, B, C };
    ls__cudnn_calls *calls = &graph->calls;
    ls__cudnn_tensor dy = activation(graph, f, DY, Y), w = activation(graph, f, WEIGHTS, W),
                     x = activation(graph, f, INPUT, X), dz = activation(graph, f, DZ, X);
    ls__cudnn_tensor mean = vector(graph, f, MEAN, LS_F32, X),
                     invstd = vector(graph, f, INVSTD, LS_F32, X),
                     scale = vector(graph, f, SCALE, LS_F32, X),
                     shift = vector(graph, f, SHIFT, LS_F32, X);
    ls__cudnn_tensor gradient = inner(graph, f, LS_F32, X), centred = inner(graph, f, LS_F32, X),
                     normal = inner(graph, f, LS_F32, X), scaled = inner(graph, f, LS_F32, X),
                     z = inner(graph, f, LS_F32, X);
    ls__cudnn_convolve(graph, LS__OP_CONV2D_BACKWARD_DATA, &f->conv, gradient, w, dy);
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
        { CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC, vector(graph, f, DSCALE, LS_F32, X) },
        { CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC, vector(graph, f, DSHIFT, LS_F32, X) },
        { CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC, vector(graph, f, A, LS_F32, X) },
        { CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC, vector(graph, f, B, LS_F32, X) },
        { CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_BIAS, vector(graph, f, C, LS_F32, X) },
    };
    cudnnBackendDescriptor_t norm =
        ls__cudnn_operation(graph, CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR);
    ls__cudnn_set_type(calls, norm, CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MATH_PREC,
                       CUDNN_DATA_FLOAT);
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        ls__cudnn_set_descriptor(calls, norm, attributes[i].name, attributes[i].tensor);
    ls__cudnn_add_operation(graph, norm);
}

static void build_finalize(ls__cudnn_graph *graph, const ls__cudnn_fusion *f)
{
    /* In the order of the buffers. */
    static const struct {
        cudnnBackendAttributeName_t name;
        ls_dtype dtype;
    } vectors[] = {
        { CUDNN_ATTR_OPERATION_BN_FINALIZE_Y_SUM_DESC, LS_F32 },
        { CUDNN_ATTR_OPERATION_BN_FINALIZE_Y_SQ_SUM_DESC, LS_F32 },
        { CUDNN_ATTR_OPERATION_BN_FINALIZE_SCALE_DESC, LS_F32 },
        { CUDNN_ATTR_OPERATION_BN_FINALIZE_BIAS_DESC, LS_F32 },
        { CUDNN_ATTR_OPERATION_BN_FINALIZE_PREV_RUNNING_MEAN_DESC, LS_F32 },
        { CUDNN_ATTR_OPERATION_BN_FINALIZE_PREV_RUNNING_VAR_DESC, LS_F32 },
        { CUDNN_ATTR_OPERATION_BN_FINALIZE_SAVED_MEAN_DESC, LS_F32 },
        { CUDNN_ATTR_OPERATION_BN_FINALIZE_SAVED_INV_STD_DESC, LS_F32 },
        { CUDNN_ATTR_OPERATION_BN_FINALIZE_EQ_SCALE_DESC, LS_F16 },
        { CUDNN_ATTR_OPERATION_BN_FINALIZE_EQ_BIAS_DESC, LS_F16 },
        { CUDNN_ATTR_OPERATION_BN_FINALIZE_UPDATED_RUNNING_MEAN_DESC, LS_F32 },
        { CUDNN_ATTR_OPERATION_BN_FINALIZE_UPDATED_RUNNING_VAR_DESC, LS_F32 },
    };
    ls__cudnn_calls *calls = &graph->calls;
    const cudnnBnFinalizeStatsMode_t mode = CUDNN_BN_FINALIZE_STATISTICS_TRAINING;
    cudnnBackendDescriptor_t made =
        ls__cudnn_operation(graph, CUDNN_BACKEND_OPERATION_BN_FINALIZE_STATISTICS_DESCRIPTOR);
    ls__cudnn_set(calls, made, CUDNN_ATTR_OPERATION_BN_FINALIZE_STATS_MODE,
                  CUDNN_TYPE_BN_FINALIZE_STATS_MODE, 1, &mode);
    ls__cudnn_set_type(calls, made, CUDNN_ATTR_OPERATION_BN_FINALIZE_MATH_PREC, CUDNN_DATA_FLOAT);
    for (int i = 0; i < (int)(sizeof vectors / sizeof *vectors); i++)
        ls__cudnn_set_descriptor(calls, made, vectors[i].name,
                                 vector(graph, f, i, vectors[i].dtype, Y));
    ls__cudnn_set_descriptor(calls, made, CUDNN_ATTR_OPERATION_BN_FINALIZE_ACCUM_COUNT_DESC,
                             ls__cudnn_scalar(graph, 0, CUDNN_DATA_INT64));
    ls__cudnn_set_descriptor(calls, made, CUDNN_ATTR_OPERATION_BN_FINALIZE_EPSILON_DESC,
                             ls__cudnn_scalar(graph, 1, CUDNN_DATA_FLOAT));
    ls__cudnn_set_descriptor(calls, made, CUDNN_ATTR_OPERATION_BN_FINALIZE_EXP_AVERATE_FACTOR_DESC,
                             ls__cudnn_scalar(graph, 2, CUDNN_DATA_FLOAT));
    ls__cudnn_add_operation(graph, made);
}

typedef void build_fn(ls__cudnn_graph *graph, const ls__cudnn_fusion *fusion);
static build_fn *const builders[LS__CUDNN_N_FUSIONS] = {
    [LS__CUDNN_CONV_STATS] = build_conv_stats,
    [LS__CUDNN_NORM_CONV_STATS] = build_norm_conv_stats,
    [LS__CUDNN_NORM_BACKWARD_WEIGHTS] = build_norm_backward_weights,
    [LS__CUDNN_BACKWARD_DATA_NORM] = build_backward_data_norm,
    [LS__CUDNN_FINALIZE] = build_finalize,
};

static void build(const ls__cudnn_problem *problem, ls__cudnn_graph *graph)
{
    const ls__cudnn_fusion *f = problem->description;
    builders[f->kind](graph, f);
}

/* How many names the list of buffers has. */
static int count_buffers(const char *buffers)
{
    int n = 0;
    for (const char *at = buffers; *at != '\0'; at += strspn(at, " ->")) {
        at += strcspn(at, " ");
        n++;
    }
    return n;
}

/* False when f is no fusion that cuDNN could have. */
static bool make_problem(const ls__cudnn_fusion *f, ls__cudnn_problem *out)
{
    static const struct {
        const char *name, *buffers;
    } texts[LS__CUDNN_N_FUSIONS] = {
#define FUSION_TEXT(name, text, buffers) { text, buffers },
        LS__CUDNN_FUSION_LIST(FUSION_TEXT)
#undef FUSION_TEXT
    };
    const ls__operand *o = f->conv.operands;
    if ((unsigned)f->kind >= LS__CUDNN_N_FUSIONS || f->conv.kind != LS__OP_CONV2D ||
        o[BIAS].shape.n_dims >= 0 || o[X].dtype != LS_F16 || o[W].dtype != LS_F16 ||
        o[Y].dtype != LS_F16 || o[X].block != o[X].shape.dims[3] ||
        o[Y].block != o[Y].shape.dims[3])
        return false;
    *out = (ls__cudnn_problem){ .build = build,
                                .description = f,
                                .cost_ms = ls__cudnn_conv_cost_ms(&f->conv) };
    ls__text text = { out->text, sizeof out->text, 0 };
    ls__text_put(&text, "%s ", texts[f->kind].name);
    ls__op_text(&f->conv, out->text + text.length, sizeof out->text - text.length);
    const int n = count_buffers(texts[f->kind].buffers);
    for (int i = 0; i < n; i++) out->uses[i] = true;
    if (f->kind == LS__CUDNN_FINALIZE) {
        out->cost_ms = 0.002; /* a launch: it reads and writes a few vectors */
        const int64_t *y = o[Y].shape.dims;
        out->n_numbers = 3;
        out->numbers[0].i = y[0] * y[1] * y[2];
        out->numbers[1].f = f->epsilon;
        out->numbers[2].f = f->momentum;
    }
    return true;
}

static ls_status refuse(ls__cudnn *cudnn)
{
    return ls__fail(cudnn->ctx, LS_ERR_UNSUPPORTED,
                    "cuDNN's fusions are of f16 convolutions in N,H,W,C without bias");
}

int ls__cudnn_fusion_candidates(ls__cudnn *cudnn, const ls__cudnn_fusion *fusion,
                                ls__candidate *out, int max)
{
    ls__cudnn_problem problem;
    if (!make_problem(fusion, &problem)) return 0;
    return ls__cudnn_candidates(cudnn, &problem, out, max);
}

ls_status ls__cudnn_fusion_open(ls__cudnn *cudnn, const ls__cudnn_fusion *fusion, const char *name,
                                ls__kernel **out)
{
    ls__cudnn_problem problem;
    *out = NULL;
    if (!make_problem(fusion, &problem)) return refuse(cudnn);
    return ls__cudnn_kernel_open(cudnn, &problem, name, out);
}

ls_status ls__cudnn_fusion_restore(ls__cudnn *cudnn, const ls__cudnn_fusion *fusion,
                                   const char *text, ls__kernel **out)
{
    ls__cudnn_problem problem;
    *out = NULL;
    if (!make_problem(fusion, &problem)) return refuse(cudnn);
    return ls__cudnn_kernel_restore(cudnn, &problem, text, out);
}
