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

/* elementwise.cu */
int ls__cuda_relu(const ls__cuda_call *call);
int ls__cuda_relu_backward(const ls__cuda_call *call);
int ls__cuda_sigmoid(const ls__cuda_call *call);
int ls__cuda_sigmoid_backward(const ls__cuda_call *call);
int ls__cuda_add(const ls__cuda_call *call);
int ls__cuda_mul(const ls__cuda_call *call);
int ls__cuda_concat(const ls__cuda_call *call);
int ls__cuda_concat_backward(const ls__cuda_call *call);
int ls__cuda_normalize(const ls__cuda_call *call);
int ls__cuda_pad_channels(const ls__cuda_call *call); /* and its backward */
int ls__cuda_dropout(const ls__cuda_call *call);      /* and its backward */
int ls__cuda_reorder(const ls__cuda_call *call);
int ls__cuda_cast_op(const ls__cuda_call *call);

/* memory.cu */
int ls__cuda_store_step(ls__step *on_device, const ls__step *step, void *stream);
int ls__cuda_cast(ls_dtype to, void *dst, ls_dtype from, const void *src, int64_t count,
                  void *stream);
/* *sum += the digest's sum of bytes at `offset` of the whole. */
int ls__cuda_digest(const void *memory, size_t bytes, uint64_t offset, ls__digest_sum *sum,
                    void *stream);
/* out[i] = *scalars[i] */
int ls__cuda_gather(float *out, const float *const *scalars, int n, void *stream);

/* norm.cu */
int ls__cuda_batch_norm(const ls__cuda_call *call);
int ls__cuda_batch_norm_eval(const ls__cuda_call *call);
int ls__cuda_batch_norm_backward(const ls__cuda_call *call);
size_t ls__cuda_batch_norm_workspace(const ls__op *op);
int ls__cuda_norm_finalize(const ls__cuda_call *call);
int ls__cuda_norm_apply(const ls__cuda_call *call);
int ls__cuda_norm_backward_apply(const ls__cuda_call *call);

/* pool.cu */
int ls__cuda_max_pool(const ls__cuda_call *call);
int ls__cuda_max_pool_backward(const ls__cuda_call *call);
int ls__cuda_avg_pool(const ls__cuda_call *call);
int ls__cuda_avg_pool_backward(const ls__cuda_call *call);
int ls__cuda_global_avg_pool(const ls__cuda_call *call);
int ls__cuda_global_avg_pool_backward(const ls__cuda_call *call);

/* loss.cu */
int ls__cuda_cross_entropy(const ls__cuda_call *call);
int ls__cuda_cross_entropy_backward(const ls__cuda_call *call);
int ls__cuda_top_k(const ls__cuda_call *call);
size_t ls__cuda_loss_workspace(const ls__op *op);

/* optimizer.cu */
int ls__cuda_l2_norm(const ls__cuda_call *call);
int ls__cuda_sgd(const ls__cuda_call *call);
int ls__cuda_adam(const ls__cuda_call *call);
int ls__cuda_loss_scale(const ls__cuda_call *call);
int ls__cuda_loss_scale_update(const ls__cuda_call *call);
size_t ls__cuda_l2_norm_workspace(const ls__op *op);

/* memory.cu: does the module have code for this compute capability, not only PTX? */
bool ls__cuda_has_code(int major, int minor);

/* conv.cu: any kernel, stride, padding, dilation and groups, one thread per result. For ops that
 * the libraries do not support, and as their reference in tests. */
int ls__cuda_conv(const ls__cuda_call *call);
int ls__cuda_conv_backward_data(const ls__cuda_call *call);
int ls__cuda_conv_backward_weights(const ls__cuda_call *call);
size_t ls__cuda_conv_backward_weights_workspace(const ls__op *op);

/* linear.cu: likewise. */
int ls__cuda_linear(const ls__cuda_call *call);
int ls__cuda_linear_backward_data(const ls__cuda_call *call);
int ls__cuda_linear_backward_weights(const ls__cuda_call *call);
size_t ls__cuda_linear_backward_weights_workspace(const ls__op *op);
/* sums[columns], f32, of x [rows,columns], of the operand's type: a bias's gradient. */
int ls__cuda_column_sums(const ls__operand *operand, const void *x, int64_t rows, int64_t columns,
                         void *sums, void *workspace, void *stream);
size_t ls__cuda_column_sums_workspace(const ls__operand *operand, int64_t rows, int64_t columns);

#ifdef __cplusplus
}
#endif

#endif
