/* kernels.h: C functions that launch our kernels. Each returns a cudaError_t, 0 for success. */
#ifndef LS_CUDA_KERNELS_H
#define LS_CUDA_KERNELS_H

#include "base/hash.h"
#include "backend/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The arguments of one run of an op. Buffers as in ls__kernel.run. */
typedef struct ls__cuda_call {
    const ls__op *op;
    void *const *buffers;
    void *workspace;
    void *stream;
    const ls__step *step;        /* device memory, as are the segments */
    const ls__segment *segments; /* of the optimizer's ops */
    int64_t n_segments;
} ls__cuda_call;

typedef int ls__cuda_run_fn(const ls__cuda_call *call);
typedef size_t ls__cuda_workspace_fn(const ls__op *op); /* the bytes that the op's run requires */

/* elementwise.cu: copy_channels serves all ops that copy channels; dropout, its backward too. */
ls__cuda_run_fn ls__cuda_elementwise, ls__cuda_copy_channels, ls__cuda_concat, ls__cuda_normalize,
    ls__cuda_dropout, ls__cuda_cast_op;

/* norm.cu */
ls__cuda_run_fn ls__cuda_batch_norm, ls__cuda_batch_norm_eval, ls__cuda_batch_norm_backward,
    ls__cuda_norm_finalize, ls__cuda_norm_apply, ls__cuda_norm_backward_apply,
    ls__cuda_norm_moments, ls__cuda_norm_statistics, ls__cuda_norm_backward_coefficients;
ls__cuda_workspace_fn ls__cuda_batch_norm_workspace;

/* rows.cu */
ls__cuda_run_fn ls__cuda_softmax, ls__cuda_group_norm, ls__cuda_group_norm_backward;
ls__cuda_workspace_fn ls__cuda_group_norm_backward_workspace;

/* pool.cu */
ls__cuda_run_fn ls__cuda_max_pool, ls__cuda_max_pool_backward, ls__cuda_avg_pool,
    ls__cuda_avg_pool_backward, ls__cuda_global_avg_pool;

/* loss.cu */
ls__cuda_run_fn ls__cuda_cross_entropy, ls__cuda_cross_entropy_backward, ls__cuda_top_k;
ls__cuda_run_fn ls__cuda_soft_cross_entropy, ls__cuda_soft_cross_entropy_backward,
    ls__cuda_binary_cross_entropy, ls__cuda_binary_cross_entropy_backward, ls__cuda_mse,
    ls__cuda_mse_backward;
ls__cuda_workspace_fn ls__cuda_loss_workspace;

/* optimizer.cu */
ls__cuda_run_fn ls__cuda_gradient_sum, ls__cuda_gradient_mean, ls__cuda_shard_sum,
    ls__cuda_tree_sum, ls__cuda_running_statistics, ls__cuda_l2_norm, ls__cuda_sgd, ls__cuda_adam,
    ls__cuda_rmsprop, ls__cuda_ema, ls__cuda_loss_scale, ls__cuda_loss_scale_update;
ls__cuda_workspace_fn ls__cuda_l2_norm_workspace;

/* direct.cu: convolutions and linear layers of any shape, one thread per result. For ops that the
 * libraries do not support, and as their reference in tests. */
ls__cuda_run_fn ls__cuda_direct, ls__cuda_direct_backward_data, ls__cuda_direct_backward_weights;
ls__cuda_workspace_fn ls__cuda_direct_backward_weights_workspace;

/* depthwise.cu: is_depthwise: whether it has a kernel for the op's shape. */
bool ls__cuda_is_depthwise(const ls__op *op);
ls__cuda_run_fn ls__cuda_depthwise, ls__cuda_depthwise_backward_data,
    ls__cuda_depthwise_backward_weights;
ls__cuda_workspace_fn ls__cuda_depthwise_workspace;

/* column_sums.cu: sums[columns], f32, of x [rows,columns], of the operand's type: a bias's
 * gradient. */
int ls__cuda_column_sums(const ls__operand *operand, const void *x, int64_t rows, int64_t columns,
                         void *sums, void *workspace, void *stream);
size_t ls__cuda_column_sums_workspace(const ls__operand *operand, int64_t rows, int64_t columns);

/* memory.cu */
int ls__cuda_store_step(ls__step *on_device, const ls__step *step, void *stream);
int ls__cuda_cast(ls_dtype to, void *dst, ls_dtype from, const void *src, int64_t count,
                  void *stream);
/* *sum += the digest's sum of elements at byte `offset` of the whole. */
int ls__cuda_digest(ls_dtype dtype, const void *memory, size_t bytes, uint64_t offset,
                    ls__digest_sum *sum, void *stream);
/* out[i] = *scalars[i] */
int ls__cuda_gather(float *out, const float *const *scalars, int n, void *stream);
/* Does the module have code for this compute capability, not only PTX? */
bool ls__cuda_has_code(int major, int minor);

#ifdef __cplusplus
}
#endif

#endif
