/* optimizer.cu: gradient norm, SGD and Adam, each in one pass over the parameter block; loss
 * scaling. */
#include "base/element.h"
#include "cuda/kernels/access.h"

/* The segment of the current element. Segments and a thread's elements both ascend, so the first
 * segment is found by binary search and the next ones by stepping. */
struct segment_cursor {
    const ls__segment *segments;
    int64_t n, at;
    ls__segment now; /* segments[at]; at the end, one behind all elements */

    __device__ segment_cursor(const ls__segment *list, int64_t count, int64_t i)
        : segments(list), n(count), at(0)
    {
        int64_t high = n;
        while (at < high) {
            const int64_t middle = (at + high) / 2;
            if (segments[middle].offset + segments[middle].count > i)
                high = middle;
            else
                at = middle + 1;
        }
        read();
    }

    __device__ void read()
    {
        now.offset = INT64_MAX;
        now.count = 0;
        now.weight_decay = 0;
        if (at < n) now = segments[at];
    }

    /* Whether element i is in a segment, which is then `now`. */
    __device__ bool is_in(int64_t i)
    {
        while (at < n && now.offset + now.count <= i) {
            at++;
            read();
        }
        return now.offset <= i;
    }

    /* Whether elements i to i + 3 are in one segment. */
    __device__ bool is_pack_in(int64_t i)
    {
        return is_in(i) && now.offset + now.count >= i + 4;
    }
};

static int64_t count_of(const ls__op *op)
{
    int64_t count = 1;
    for (int i = 0; i < op->operands[0].shape.n_dims; i++) count *= op->operands[0].shape.dims[i];
    return count;
}

enum { BLOCK_ELEMENTS = 16 * LS__BLOCK };

static int64_t blocks_of(const ls__op *op)
{
    const int64_t blocks = (count_of(op) + BLOCK_ELEMENTS - 1) / BLOCK_ELEMENTS;
    return blocks > 0 ? blocks : 1;
}

/* f(access, i, weight decay) for the elements in segments, by packs where a pack is in one
 * segment. */
template <typename F>
static __device__ void for_each_in_segments(const ls__segment *segments, int64_t n_segments,
                                            int64_t count, F f)
{
    const int64_t begin = (int64_t)blockIdx.x * BLOCK_ELEMENTS;
    const int64_t end = begin + BLOCK_ELEMENTS < count ? begin + BLOCK_ELEMENTS : count;
    int64_t i = begin + 4 * threadIdx.x;
    segment_cursor segment(segments, n_segments, i);
    LS__ROLLED
    for (; i < end; i += 4 * LS__BLOCK) {
        if (segment.is_pack_in(i)) {
            f(ls__pack<float>(), i, segment.now.weight_decay);
            continue;
        }
        LS__ROLLED
        for (int64_t single = i; single < i + 4 && single < end; single++)
            if (segment.is_in(single)) f(ls__single<float>(), single, segment.now.weight_decay);
    }
}

/* ---- L2 norm: sums of squares per block, which one block then adds ---- */

size_t ls__cuda_l2_norm_workspace(const ls__op *op)
{
    return (size_t)blocks_of(op) * sizeof(double);
}

static __global__ void squares_kernel(const float *x, int64_t count, const ls__segment *segments,
                                      int64_t n_segments, double *sums)
{
    __shared__ double shared[LS__BLOCK];
    const int64_t begin = (int64_t)blockIdx.x * BLOCK_ELEMENTS;
    const int64_t end = begin + BLOCK_ELEMENTS < count ? begin + BLOCK_ELEMENTS : count;
    double sum = 0;
    segment_cursor segment(segments, n_segments, begin + threadIdx.x);
    for (int64_t i = begin + threadIdx.x; i < end; i += LS__BLOCK)
        if (segment.is_in(i)) sum += (double)x[i] * (double)x[i];
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
        *norm = (float)(sqrt(sum) / (scaler ? (double)scaler[LS__LOSS_SCALE_SCALE] : 1));
}

int ls__cuda_l2_norm(const ls__cuda_call *call)
{
    const int64_t blocks = blocks_of(call->op);
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
                                  int64_t n_segments, const ls__step *step)
{
    if (ls__skips_update(norm, scaler)) return;
    s.factor = ls__gradient_factor(norm, clip, scaler);
    s.lr = (float)step->lr;
    s.first = ls__updates_done(step->optimizer_step, scaler) == 0;
    for_each_in_segments(segments, n_segments, count, [=](auto access, int64_t i, float decay) {
        typedef decltype(access) A;
        float p[A::n], g[A::n], m[A::n] = {};
        ls__load<A>(parameter + i, p);
        ls__load<A>(gradient + i, g);
        if (momentum) ls__load<A>(momentum + i, m);
        LS__UNROLL
        for (int j = 0; j < A::n; j++)
            p[j] = momentum ? ls__sgd_element(&s, decay, g[j], p[j], &m[j])
                            : ls__sgd_element(&s, decay, g[j], p[j], NULL);
        A::store(parameter + i, p);
        if (momentum) A::store(momentum + i, m);
    });
}

int ls__cuda_sgd(const ls__cuda_call *call)
{
    const ls__op *op = call->op;
    void *const *b = call->buffers;
    ls__sgd_numbers s;
    memset(&s, 0, sizeof(s)); /* the kernel sets the other fields */
    s.momentum = op->u.sgd.momentum;
    s.share = (float)(1 - (double)op->u.sgd.dampening);
    s.nesterov = op->u.sgd.nesterov;
    return LS__LAUNCH(sgd_kernel, (unsigned)blocks_of(op), LS__BLOCK, call->stream, (float *)b[0],
                      (const float *)b[1], (float *)b[2], (const float *)b[3], (const float *)b[4],
                      op->u.sgd.clip_norm, s, count_of(op), call->segments, call->n_segments,
                      call->step);
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
                                   const ls__step *step)
{
    __shared__ ls__adam_numbers shared;
    if (ls__skips_update(norm, scaler)) return; /* the same for all threads */
    if (threadIdx.x == 0)
        shared = ls__adam_numbers_of(settings.beta1, settings.beta2, settings.epsilon, step->lr,
                                     ls__updates_done(step->optimizer_step, scaler) + 1,
                                     ls__gradient_factor(norm, settings.clip, scaler));
    __syncthreads();
    const ls__adam_numbers s = shared;
    for_each_in_segments(segments, n_segments, count, [=](auto access, int64_t i, float decay) {
        typedef decltype(access) A;
        ls__decay_kind kind = LS__NO_DECAY;
        if (decay != 0) kind = settings.decoupled ? LS__DECOUPLED_DECAY : LS__L2_DECAY;
        if (kind == LS__DECOUPLED_DECAY) decay = (float)(s.lr * (double)decay);
        float p[A::n], g[A::n], m[A::n], v[A::n];
        ls__load<A>(parameter + i, p);
        ls__load<A>(gradient + i, g);
        ls__load<A>(exp_avg + i, m);
        ls__load<A>(exp_avg_sq + i, v);
        LS__UNROLL
        for (int j = 0; j < A::n; j++)
            p[j] = ls__adam_element(&s, kind, decay, g[j], p[j], &m[j], &v[j]);
        A::store(parameter + i, p);
        A::store(exp_avg + i, m);
        A::store(exp_avg_sq + i, v);
    });
}

int ls__cuda_adam(const ls__cuda_call *call)
{
    const ls__op *op = call->op;
    void *const *b = call->buffers;
    const adam_settings settings = { op->u.adam.beta1, op->u.adam.beta2, op->u.adam.epsilon,
                                     op->u.adam.clip_norm, op->u.adam.decoupled };
    return LS__LAUNCH(adam_kernel, (unsigned)blocks_of(op), LS__BLOCK, call->stream, (float *)b[0],
                      (const float *)b[1], (float *)b[2], (float *)b[3], (const float *)b[4],
                      (const float *)b[5], settings, count_of(op), call->segments, call->n_segments,
                      call->step);
}

/* ---- Loss scaling ---- */

static __global__ void loss_scale_kernel(const float *weight, const float *scaler, float *dloss)
{
    *dloss = *weight * scaler[LS__LOSS_SCALE_SCALE];
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
