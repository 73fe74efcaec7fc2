/* our_kernels.c: the provider of our own kernels: one per op, two per depthwise convolution. */
#include "arith/activation.h"
#include "base/alloc.h"
#include "base/error.h"
#include "cuda/device/slots.h"
#include "cuda/kernels/kernels.h"
#include "cuda/provider.h"
#include <stdio.h>
#include <string.h>

typedef struct own_op {
    ls__cuda_run_fn *run;
    ls__cuda_workspace_fn *workspace; /* NULL: none */
    bool uses_step;                   /* reads the step's values from device memory */
    bool depthwise;                   /* for depthwise convolutions alone */
    bool direct;                      /* one thread per result; slower than a library's kernel */
    bool two_passes;                  /* reads its operands twice, with a small kernel in between */
} own_op;

static const own_op own_ops[LS__N_OPS] = {
    [LS__OP_CAST] = { ls__cuda_cast_op },
    [LS__OP_NORMALIZE] = { ls__cuda_normalize },
    [LS__OP_CONV2D] = { ls__cuda_direct, .direct = true },
    [LS__OP_CONV2D_BACKWARD_DATA] = { ls__cuda_direct_backward_data, .direct = true },
    [LS__OP_CONV2D_BACKWARD_WEIGHTS] = { ls__cuda_direct_backward_weights,
                                         ls__cuda_direct_backward_weights_workspace,
                                         .direct = true },
    [LS__OP_LINEAR] = { ls__cuda_direct, .direct = true },
    [LS__OP_LINEAR_BACKWARD_DATA] = { ls__cuda_direct_backward_data, .direct = true },
    [LS__OP_LINEAR_BACKWARD_WEIGHTS] = { ls__cuda_direct_backward_weights,
                                         ls__cuda_direct_backward_weights_workspace,
                                         .direct = true },
    [LS__OP_BATCH_NORM] = { ls__cuda_batch_norm, ls__cuda_batch_norm_workspace,
                            .two_passes = true },
    [LS__OP_BATCH_NORM_EVAL] = { ls__cuda_batch_norm_eval, ls__cuda_batch_norm_workspace },
    [LS__OP_BATCH_NORM_BACKWARD] = { ls__cuda_batch_norm_backward, ls__cuda_batch_norm_workspace,
                                     .two_passes = true },
    [LS__OP_NORM_FINALIZE] = { ls__cuda_norm_finalize },
    [LS__OP_NORM_APPLY] = { ls__cuda_norm_apply },
    [LS__OP_NORM_MOMENTS] = { ls__cuda_norm_moments, ls__cuda_batch_norm_workspace,
                              .uses_step = true },
    [LS__OP_NORM_STATISTICS] = { ls__cuda_norm_statistics, .uses_step = true },
    [LS__OP_NORM_BACKWARD_PRODUCTS] = { ls__cuda_batch_norm_backward, ls__cuda_batch_norm_workspace,
                                        .uses_step = true },
    [LS__OP_NORM_BACKWARD_COEFFICIENTS] = { ls__cuda_norm_backward_coefficients,
                                            .uses_step = true },
    [LS__OP_NORM_BACKWARD_APPLY] = { ls__cuda_norm_backward_apply },
#define UNARY_ROWS(op, name)                                                                       \
    [LS__OP_##op] = { ls__cuda_elementwise }, [LS__OP_##op##_BACKWARD] = { ls__cuda_elementwise },
    LS__UNARY_LIST(UNARY_ROWS)[LS__OP_ADD] = { ls__cuda_elementwise },
    [LS__OP_MUL] = { ls__cuda_elementwise },
    [LS__OP_LEAKY_RELU] = { ls__cuda_elementwise },
    [LS__OP_LEAKY_RELU_BACKWARD] = { ls__cuda_elementwise },
    [LS__OP_SOFTMAX] = { ls__cuda_softmax },
    [LS__OP_SOFTMAX_BACKWARD] = { ls__cuda_softmax },
    [LS__OP_GROUP_NORM] = { ls__cuda_group_norm },
    [LS__OP_GROUP_NORM_BACKWARD] = { ls__cuda_group_norm_backward,
                                     ls__cuda_group_norm_backward_workspace },
    [LS__OP_CONCAT] = { ls__cuda_concat },
    [LS__OP_CONCAT_BACKWARD] = { ls__cuda_copy_channels },
    [LS__OP_PAD_CHANNELS] = { ls__cuda_copy_channels },
    [LS__OP_PAD_CHANNELS_BACKWARD] = { ls__cuda_copy_channels },
    [LS__OP_MAX_POOL] = { ls__cuda_max_pool },
    [LS__OP_MAX_POOL_BACKWARD] = { ls__cuda_max_pool_backward },
    [LS__OP_AVG_POOL] = { ls__cuda_avg_pool },
    [LS__OP_AVG_POOL_BACKWARD] = { ls__cuda_avg_pool_backward },
    [LS__OP_GLOBAL_AVG_POOL] = { ls__cuda_global_avg_pool },
    [LS__OP_GLOBAL_AVG_POOL_BACKWARD] = { ls__cuda_avg_pool_backward },
    [LS__OP_DROPOUT] = { ls__cuda_dropout, .uses_step = true },
    [LS__OP_DROPOUT_BACKWARD] = { ls__cuda_dropout, .uses_step = true },
    [LS__OP_CROSS_ENTROPY] = { ls__cuda_cross_entropy, ls__cuda_loss_workspace },
    [LS__OP_CROSS_ENTROPY_BACKWARD] = { ls__cuda_cross_entropy_backward },
    [LS__OP_SOFT_CROSS_ENTROPY] = { ls__cuda_soft_cross_entropy, ls__cuda_loss_workspace },
    [LS__OP_SOFT_CROSS_ENTROPY_BACKWARD] = { ls__cuda_soft_cross_entropy_backward },
    [LS__OP_BINARY_CROSS_ENTROPY] = { ls__cuda_binary_cross_entropy, ls__cuda_loss_workspace },
    [LS__OP_BINARY_CROSS_ENTROPY_BACKWARD] = { ls__cuda_binary_cross_entropy_backward },
    [LS__OP_MSE] = { ls__cuda_mse, ls__cuda_loss_workspace },
    [LS__OP_MSE_BACKWARD] = { ls__cuda_mse_backward },
    [LS__OP_TOP_K] = { ls__cuda_top_k, ls__cuda_loss_workspace },
    [LS__OP_LOSS_SCALE] = { ls__cuda_loss_scale },
    [LS__OP_GRADIENT_SUM] = { ls__cuda_gradient_sum, .uses_step = true },
    [LS__OP_GRADIENT_MEAN] = { ls__cuda_gradient_mean, .uses_step = true },
    [LS__OP_SHARD_SUM] = { ls__cuda_shard_sum, .uses_step = true },
    [LS__OP_TREE_SUM] = { ls__cuda_tree_sum },
    [LS__OP_RUNNING_STATISTICS] = { ls__cuda_running_statistics, .uses_step = true },
    [LS__OP_L2_NORM] = { ls__cuda_l2_norm, ls__cuda_l2_norm_workspace },
    [LS__OP_SGD] = { ls__cuda_sgd, .uses_step = true },
    [LS__OP_ADAM] = { ls__cuda_adam, .uses_step = true },
    [LS__OP_RMSPROP] = { ls__cuda_rmsprop, .uses_step = true },
    [LS__OP_EMA] = { ls__cuda_ema, .uses_step = true },
    [LS__OP_LOSS_SCALE_UPDATE] = { ls__cuda_loss_scale_update },
};

static const own_op depthwise_ops[LS__N_OPS] = {
    [LS__OP_CONV2D] = { ls__cuda_depthwise, ls__cuda_depthwise_workspace, .depthwise = true },
    [LS__OP_CONV2D_BACKWARD_DATA] = { ls__cuda_depthwise_backward_data,
                                      ls__cuda_depthwise_workspace, .depthwise = true },
    [LS__OP_CONV2D_BACKWARD_WEIGHTS] = { ls__cuda_depthwise_backward_weights,
                                         ls__cuda_depthwise_workspace, .depthwise = true },
};

/* An op's kernels, best first. */
static const own_op *const tables[] = { depthwise_ops, own_ops };
enum { N_TABLES = 2 };

/* The cost of a launch in a replayed graph and the memory bandwidth of an H200. Fusion compares the
 * estimates. The cost of a direct kernel ranks it behind any kernel of a library. That of a
 * depthwise kernel, which was never timed, is a little above cuDNN's estimate: cuDNN's first kernel
 * is selected unless it fails, or timing finds ours to be faster. */
static const double LAUNCH_MS = 0.002, BYTES_PER_MS = 4.3e9, DIRECT_COST_MS = 1e6;

typedef struct own_kernel {
    ls__kernel kernel; /* first */
    ls__cuda *cuda;
    ls__op op;
    const own_op *row;
    /* The optimizer's segments in device memory, and the same in host memory. */
    ls__segment *segments, *segments_copy;
    int64_t n_segments, segment_capacity;
} own_kernel;

/* The segments of an optimizer's op; false for other ops. */
static bool find_segments(const ls__op *op, const ls__segment **segments, int64_t *n)
{
    switch (op->kind) {
    case LS__OP_L2_NORM:
    case LS__OP_SGD:
    case LS__OP_ADAM:
    case LS__OP_RMSPROP:
        *segments = op->u.block.segments;
        *n = *op->u.block.n_segments;
        return true;
    default: return false;
    }
}

static void release_segments(own_kernel *k)
{
    if (k->segments) (void)k->cuda->driver->release(k->segments);
    ls__free(k->cuda->device.ctx, k->segments_copy);
    k->segments = k->segments_copy = NULL;
    k->segment_capacity = k->n_segments = 0;
}

static ls_status reserve_segments(own_kernel *k, int64_t n)
{
    if (n <= k->segment_capacity) return LS_OK;
    const ls__cuda_driver *driver = k->cuda->driver;
    const size_t bytes = (size_t)n * sizeof(ls__segment);
    /* Releasing waits for queued kernels, which may read the old segments. */
    release_segments(k);
    k->segments_copy = ls__alloc(k->cuda->device.ctx, bytes);
    if (!k->segments_copy)
        return ls__fail_memory(k->cuda->device.ctx, ls__op_name(k->op.kind), bytes);
    LS_TRY(ls__cuda_check(k->cuda, driver->allocate((void **)&k->segments, bytes),
                          ls__op_name(k->op.kind)));
    k->segment_capacity = n;
    return LS_OK;
}

/* Segments change only when parameters are frozen or unfrozen. */
static ls_status update_segments(own_kernel *k)
{
    const ls__segment *segments;
    int64_t n;
    if (!find_segments(&k->op, &segments, &n)) return LS_OK;
    const size_t bytes = (size_t)n * sizeof(*segments);
    if (n == k->n_segments && (n == 0 || memcmp(segments, k->segments_copy, bytes) == 0))
        return LS_OK;
    LS_TRY(ls__cuda_refuse_capture(k->cuda, "the optimizer's segments"));
    LS_TRY(reserve_segments(k, n));
    k->n_segments = -1; /* until the copy is queued */
    if (n > 0) {
        memcpy(k->segments_copy, segments, bytes);
        const int status =
            k->cuda->driver->copy(k->segments, k->segments_copy, bytes, k->cuda->stream);
        LS_TRY(ls__cuda_check(k->cuda, status, ls__op_name(k->op.kind)));
    }
    k->n_segments = n;
    return LS_OK;
}

static ls_status own_run(ls__kernel *kernel, void *const *buffers, void *workspace,
                         const ls__step *step)
{
    own_kernel *k = (own_kernel *)kernel;
    if (k->row->uses_step) LS_TRY(ls__cuda_set_step(k->cuda, step));
    LS_TRY(update_segments(k));
    const ls__cuda_call call = { .op = &k->op,
                                 .buffers = buffers,
                                 .workspace = workspace,
                                 .stream = k->cuda->stream,
                                 .step = k->cuda->device_step,
                                 .segments = k->segments,
                                 .n_segments = k->n_segments };
    return ls__cuda_check(k->cuda, k->row->run(&call), ls__op_name(k->op.kind));
}

static void own_close(ls__kernel *kernel)
{
    own_kernel *k = (own_kernel *)kernel;
    release_segments(k);
    ls__free(k->cuda->device.ctx, k);
}

static const char *own_op_name(const own_op *row)
{
    return row->depthwise ? "own depthwise" : row->direct ? "own direct" : "own";
}

/* All operands that may have 16 bits have the same type. A cast has one of 16 bits and one of f32.
 */
static bool supports_types(const ls__op *op)
{
    ls__operand_role role;
    ls_dtype half = LS_F32;
    bool has_full = false;
    if (op->kind == LS__OP_CAST) {
        const ls__operand *x = &op->operands[0], *y = &op->operands[1];
        return (x->dtype == LS_F32 && ls__is_half(y)) || (y->dtype == LS_F32 && ls__is_half(x));
    }
    for (int i = 0; i < op->n_operands && ls__op_operand(op->kind, i, &role); i++) {
        const ls__operand *o = &op->operands[i];
        if (ls__is_absent(o)) continue;
        if (ls__is_half(o) && (!role.may_be_half || (half != LS_F32 && half != o->dtype)))
            return false;
        if (ls__is_half(o)) half = o->dtype;
        has_full |= role.may_be_half && o->dtype == LS_F32;
    }
    return half == LS_F32 || !has_full;
}

/* The backward of batch norm does not read y if it can compute the activation's mask from x. */
static bool is_read(const ls__op *op, int operand)
{
    enum { BACK_Y = 1, BACK_SHIFT = 7 };
    const bool reads_y_or_x =
        op->kind == LS__OP_BATCH_NORM_BACKWARD || op->kind == LS__OP_NORM_BACKWARD_PRODUCTS;
    return !reads_y_or_x || operand != BACK_Y || ls__is_absent(&op->operands[BACK_SHIFT]);
}

static bool own_op_supports(const own_op *row, const ls__op *op)
{
    return row->run && supports_types(op) && (!row->depthwise || ls__cuda_is_depthwise(op));
}

static double own_op_cost_ms(const own_op *row, const ls__op *op)
{
    if (row->direct) return DIRECT_COST_MS;
    const int n_inputs = ls__op_inputs(op->kind);
    double bytes = 0;
    for (int i = 0; i < op->n_operands; i++) {
        const ls__operand *o = &op->operands[i];
        if (ls__is_absent(o) || !is_read(op, i)) continue;
        bytes += (double)ls_shape_element_count(&o->shape) * (double)ls_dtype_bytes(o->dtype) *
                 (i < n_inputs && row->two_passes ? 2 : 1);
    }
    return LAUNCH_MS * (row->two_passes ? 3 : row->depthwise ? 2 : 1) + bytes / BYTES_PER_MS;
}

static int own_candidates(ls__cuda *cuda, void *state, const ls__op *op, ls__candidate *out,
                          int max)
{
    (void)cuda;
    (void)state;
    int n = 0;
    for (int i = 0; i < N_TABLES && n < max; i++) {
        const own_op *row = &tables[i][op->kind];
        if (!own_op_supports(row, op)) continue;
        out[n] = (ls__candidate){ .deterministic = true, .cost_ms = own_op_cost_ms(row, op) };
        snprintf(out[n++].name, sizeof(out->name), "%s", own_op_name(row));
    }
    return n;
}

static ls_status own_kernel_open(ls__cuda *cuda, void *state, const ls__op *op, const char *name,
                                 ls__kernel **out)
{
    (void)state;
    ls_context *ctx = cuda->device.ctx;
    const own_op *row = NULL;
    for (int i = 0; i < N_TABLES && !row; i++)
        if (tables[i][op->kind].run && strcmp(name, own_op_name(&tables[i][op->kind])) == 0)
            row = &tables[i][op->kind];
    if (!row)
        return ls__fail(ctx, LS_ERR_NOT_FOUND, "%s: cuda has no kernel '%s'", ls__op_name(op->kind),
                        name);
    if (!own_op_supports(row, op))
        return ls__fail(ctx, LS_ERR_UNSUPPORTED,
                        "%s: kernel '%s' does not support operands of these types or shapes",
                        ls__op_name(op->kind), name);
    own_kernel *k = ls__zalloc(ctx, sizeof(*k));
    if (!k) return ls__fail_memory(ctx, ls__op_name(op->kind), sizeof(*k));
    snprintf(k->kernel.name, sizeof(k->kernel.name), "%s", name);
    k->kernel.workspace_bytes = row->workspace ? row->workspace(op) : 0;
    k->kernel.run = own_run;
    k->kernel.close = own_close;
    k->cuda = cuda;
    k->op = *op;
    k->row = row;
    *out = &k->kernel;
    return LS_OK;
}

const ls__cuda_provider ls__cuda_our_kernels = { .name = "own",
                                                 .candidates = own_candidates,
                                                 .kernel_open = own_kernel_open };
