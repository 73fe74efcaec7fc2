/* optimizer.cu: gradient norm, SGD and Adam, each one pass over the parameter block; loss scaling.
 */
#include "base/element.h"
#include "cuda/kernels/portable.h"

/* The segment that element i is in, NULL outside of all. They ascend. */
static __device__ const ls__segment *segment_of(const ls__segment *segments, int64_t n, int64_t i)
{
    int64_t low = 0, high = n; /* the first segment that ends behind i */
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (segments[middle].offset + segments[middle].count > i)
            high = middle;
        else
            low = middle + 1;
    }
    return low < n && segments[low].offset <= i ? &segments[low] : NULL;
}

static int64_t count_of(const ls__op *op)
{
    int64_t count = 1;
    for (int i = 0; i < op->operands[0].shape.n_dims; i++) count *= op->operands[0].shape.dims[i];
    return count;
}

/* ---- L2 norm: blocks' sums of squares, then one block adds them ---- */

enum { NORM_ELEMENTS = 16 * LS__BLOCK /* of a block */ };

static int64_t norm_blocks(const ls__op *op)
{
    return (count_of(op) + NORM_ELEMENTS - 1) / NORM_ELEMENTS;
}

size_t ls__cuda_l2_norm_workspace(const ls__op *op)
{
    return (size_t)norm_blocks(op) * sizeof(double);
}

static __global__ void squares_kernel(const float *x, int64_t count, const ls__segment *segments,
                                      int64_t n_segments, double *sums)
{
    __shared__ double shared[LS__BLOCK];
    const int64_t begin = (int64_t)blockIdx.x * NORM_ELEMENTS;
    const int64_t end = begin + NORM_ELEMENTS < count ? begin + NORM_ELEMENTS : count;
    double sum = 0;
    for (int64_t i = begin + threadIdx.x; i < end; i += LS__BLOCK)
        if (segment_of(segments, n_segments, i)) sum += (double)x[i] * (double)x[i];
    sum = ls__block_sum<double>(sum, shared);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

static __global__ void norm_kernel(const double *sums, int64_t n, const float *scaler, float *norm)
{
    __shared__ double shared[LS__BLOCK];
    double sum = 0;
    for (int64_t i = threadIdx.x; i < n; i += LS__BLOCK) sum += sums[i];
    sum = ls__block_sum<double>(sum, shared);
    if (threadIdx.x == 0)
        *norm = (float)(sqrt(sum) / (scaler ? (double)scaler[LS__SCALER_SCALE] : 1));
}

int ls__cuda_l2_norm(const ls__cuda_call *call)
{
    const int64_t blocks = norm_blocks(call->op);
    double *sums = (double *)call->workspace;
    const int status = LS__LAUNCH(squares_kernel, (unsigned)blocks, LS__BLOCK, call->stream,
                                  (const float *)call->buffers[0], count_of(call->op),
                                  call->segments, call->n_segments, sums);
    if (status != 0) return status;
    return LS__LAUNCH(norm_kernel, 1, LS__BLOCK, call->stream, (const double *)sums, blocks,
                      (const float *)call->buffers[1], (float *)call->buffers[2]);
}

/* ---- SGD ---- */

static __global__ void sgd_kernel(float *parameter, const float *gradient, float *momentum,
                                  const float *norm, const float *scaler, float clip,
                                  ls__sgd_numbers s, int64_t count, const ls__segment *segments,
                                  int64_t n_segments, const ls__cuda_numbers *numbers)
{
    if (ls__skips_update(norm, scaler)) return;
    s.factor = ls__gradient_factor(norm, clip, scaler);
    s.rate = (float)numbers->rate;
    s.first = ls__updates_done(numbers->optimizer_step, scaler) == 0;
    LS__FOR_EACH(i, count)
    {
        const ls__segment *segment = segment_of(segments, n_segments, i);
        if (segment)
            parameter[i] = ls__sgd_element(&s, segment->weight_decay, gradient[i], parameter[i],
                                           momentum ? &momentum[i] : NULL);
    }
}

int ls__cuda_sgd(const ls__cuda_call *call)
{
    const ls__op *op = call->op;
    void *const *b = call->buffers;
    ls__sgd_numbers s;
    memset(&s, 0, sizeof(s)); /* the rest is filled in by the kernel */
    s.momentum = op->u.sgd.momentum;
    s.share = (float)(1 - (double)op->u.sgd.dampening);
    s.nesterov = op->u.sgd.nesterov;
    return LS__LAUNCH(sgd_kernel, ls__blocks_for(count_of(op)), LS__BLOCK, call->stream,
                      (float *)b[0], (const float *)b[1], (float *)b[2], (const float *)b[3],
                      (const float *)b[4], op->u.sgd.clip_norm, s, count_of(op), call->segments,
                      call->n_segments, call->numbers);
}

/* ---- Adam ---- */

typedef struct adam_settings {
    float beta1, beta2, epsilon, clip;
    bool decoupled;
} adam_settings;

static __global__ void adam_kernel(float *parameter, const float *gradient, float *exp_avg,
                                   float *exp_avg_sq, const float *norm, const float *scaler,
                                   adam_settings settings, int64_t count,
                                   const ls__segment *segments, int64_t n_segments,
                                   const ls__cuda_numbers *numbers)
{
    __shared__ ls__adam_numbers shared;
    if (ls__skips_update(norm, scaler)) return; /* all threads alike */
    if (threadIdx.x == 0)
        shared =
            ls__adam_numbers_of(settings.beta1, settings.beta2, settings.epsilon, numbers->rate,
                                ls__updates_done(numbers->optimizer_step, scaler) + 1,
                                ls__gradient_factor(norm, settings.clip, scaler));
    __syncthreads();
    const ls__adam_numbers s = shared;
    LS__FOR_EACH(i, count)
    {
        const ls__segment *segment = segment_of(segments, n_segments, i);
        if (!segment) continue;
        ls__decay_kind kind = LS__NO_DECAY;
        float decay = segment->weight_decay;
        if (decay != 0) kind = settings.decoupled ? LS__DECOUPLED_DECAY : LS__L2_DECAY;
        if (kind == LS__DECOUPLED_DECAY) decay = (float)(s.rate * (double)decay);
        parameter[i] = ls__adam_element(&s, kind, decay, gradient[i], parameter[i], &exp_avg[i],
                                        &exp_avg_sq[i]);
    }
}

int ls__cuda_adam(const ls__cuda_call *call)
{
    const ls__op *op = call->op;
    void *const *b = call->buffers;
    const adam_settings settings = { op->u.adam.beta1, op->u.adam.beta2, op->u.adam.epsilon,
                                     op->u.adam.clip_norm, op->u.adam.decoupled };
    return LS__LAUNCH(adam_kernel, ls__blocks_for(count_of(op)), LS__BLOCK, call->stream,
                      (float *)b[0], (const float *)b[1], (float *)b[2], (float *)b[3],
                      (const float *)b[4], (const float *)b[5], settings, count_of(op),
                      call->segments, call->n_segments, call->numbers);
}

/* ---- Loss scaling ---- */

static __global__ void loss_scale_kernel(const float *weight, const float *scaler, float *dloss)
{
    *dloss = *weight * scaler[LS__SCALER_SCALE];
}

int ls__cuda_loss_scale(const ls__cuda_call *call)
{
    void *const *b = call->buffers;
    return LS__LAUNCH(loss_scale_kernel, 1, 1, call->stream, (const float *)b[0],
                      (const float *)b[1], (float *)b[2]);
}

static __global__ void loss_scale_update_kernel(const float *norm, float *scaler, int64_t interval)
{
    ls__scaler_update(scaler, *norm, interval);
}

int ls__cuda_loss_scale_update(const ls__cuda_call *call)
{
    void *const *b = call->buffers;
    return LS__LAUNCH(loss_scale_update_kernel, 1, 1, call->stream, (const float *)b[0],
                      (float *)b[1], call->op->u.loss_scale.growth_interval);
}
