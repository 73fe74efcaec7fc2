/* optimizer.cu: gradient accumulation and norm, sums over shards, SGD, Adam and RMSprop, each in
 * one pass over the parameter block; loss scaling. */
#include "arith/element.h"
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
        now.lr_scale = 1;
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
    return ls_shape_element_count(&op->operands[0].shape);
}

enum { BLOCK_ELEMENTS = 16 * LS__BLOCK };

static int64_t blocks_of(const ls__op *op)
{
    const int64_t blocks = (count_of(op) + BLOCK_ELEMENTS - 1) / BLOCK_ELEMENTS;
    return blocks > 0 ? blocks : 1;
}

/* f(access, i, segment) for the elements in segments, by packs where a pack is in one
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
            f(ls__pack<float>(), i, segment.now);
            continue;
        }
        LS__ROLLED
        for (int64_t single = i; single < i + 4 && single < end; single++)
            if (segment.is_in(single)) f(ls__single<float>(), single, segment.now);
    }
}

/* ---- Gradient accumulation ---- */

static __global__ void gradient_sum_kernel(const float *gradient, float *sum, int64_t count,
                                           const ls__step *step)
{
    const int64_t accumulated = step->accumulated;
    LS__FOR_EACH(i, count) sum[i] = ls__gradient_sum(accumulated, sum[i], gradient[i]);
}

int ls__cuda_gradient_sum(const ls__cuda_call *call)
{
    const int64_t count = count_of(call->op);
    return LS__LAUNCH(gradient_sum_kernel, ls__blocks_for(count), LS__BLOCK, call->stream,
                      (const float *)call->buffers[0], (float *)call->buffers[1], count,
                      call->step);
}

static __global__ void gradient_mean_kernel(float *gradient, const float *sum, int64_t count,
                                            const ls__step *step)
{
    const int64_t accumulated = step->accumulated;
    const float n = (float)(accumulated + 1);
    LS__FOR_EACH(i, count)
    gradient[i] = ls__gradient_sum(accumulated, sum[i], gradient[i]) / n;
}

int ls__cuda_gradient_mean(const ls__cuda_call *call)
{
    const int64_t count = count_of(call->op);
    return LS__LAUNCH(gradient_mean_kernel, ls__blocks_for(count), LS__BLOCK, call->stream,
                      (float *)call->buffers[0], (const float *)call->buffers[1], count,
                      call->step);
}

/* ---- Shards ---- */

static __global__ void shard_sum_kernel(const float *x, const float *weight, const float *total,
                                        float *sums, float *y, int64_t count, const ls__step *step)
{
    const int64_t n_sums = step->n_sums, n_merged = step->n_merged;
    const bool last = step->is_last_shard != 0;
    const float factor = weight ? *weight : 1;
    const float divisor = last && total && *total != 0 ? *total : 1;
    float *to = last ? y : sums + (n_sums - n_merged) * count;
    LS__FOR_EACH(i, count)
    {
        float sum = x[i] * factor;
        for (int64_t m = 1; m <= n_merged; m++) sum = sums[(n_sums - m) * count + i] + sum;
        to[i] = sum / divisor;
    }
}

int ls__cuda_shard_sum(const ls__cuda_call *call)
{
    const int64_t count = count_of(call->op);
    void *const *b = call->buffers;
    return LS__LAUNCH(shard_sum_kernel, ls__blocks_for(count), LS__BLOCK, call->stream,
                      (const float *)b[0], (const float *)b[1], (const float *)b[2], (float *)b[3],
                      (float *)b[4], count, call->step);
}

static __global__ void tree_sum_kernel(float *rows, const float *total, float *y, int64_t count,
                                       LS__GRID_CONSTANT const ls__merges merges)
{
    const float divisor = y && total && *total != 0 ? *total : 1;
    LS__FOR_EACH(i, count)
    {
        int n_sums = 0;
        for (int row = 0; row < merges.n_rows; row++) {
            float sum = rows[row * count + i];
            for (int m = 0; m < merges.n_merged[row]; m++) sum = rows[--n_sums * count + i] + sum;
            if (y && row + 1 == merges.n_rows)
                y[i] = sum / divisor;
            else
                rows[n_sums++ * count + i] = sum;
        }
    }
}

int ls__cuda_tree_sum(const ls__cuda_call *call)
{
    const int64_t count = call->op->operands[0].shape.dims[1];
    void *const *b = call->buffers;
    return LS__LAUNCH(tree_sum_kernel, ls__blocks_for(count), LS__BLOCK, call->stream,
                      (float *)b[0], (const float *)b[1], (float *)b[2], count, call->op->u.merges);
}

static __global__ void running_statistics_kernel(const float *sum, const float *momentum,
                                                 float *running, int64_t count,
                                                 const ls__step *step)
{
    const int64_t n_shards = step->n_shards;
    LS__FOR_EACH(i, count)
    running[i] = ls__running_statistic(running[i], momentum[i], sum[i], n_shards);
}

int ls__cuda_running_statistics(const ls__cuda_call *call)
{
    const int64_t count = count_of(call->op);
    return LS__LAUNCH(running_statistics_kernel, ls__blocks_for(count), LS__BLOCK, call->stream,
                      (const float *)call->buffers[0], (const float *)call->buffers[1],
                      (float *)call->buffers[2], count, call->step);
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
    sum = ls__block_sum(sum, shared);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

static __global__ void norm_kernel(const double *sums, int64_t n, const float *grad_scaler,
                                   float *norm)
{
    __shared__ double shared[LS__BLOCK];
    const double sum = ls__block_total(sums, n, LS__BLOCK, shared);
    if (threadIdx.x == 0)
        *norm = (float)(sqrt(sum) / (grad_scaler ? (double)grad_scaler[LS__LOSS_SCALE_SCALE] : 1));
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

/* The settings of clipping. */
struct clip_settings {
    float norm, value;
};

static clip_settings clip_settings_of(const ls__op *op)
{
    return { op->u.block.clip_norm, op->u.block.clip_value };
}

static __device__ ls__clipping clipping_of(clip_settings clip, const float *norm,
                                           const float *grad_scaler)
{
    return ls__clipping_of(norm, clip.norm, clip.value, grad_scaler);
}

/* ---- SGD ---- */

static __global__ void sgd_kernel(float *parameter, const float *gradient, float *momentum,
                                  const float *norm, const float *grad_scaler, clip_settings clip,
                                  ls__sgd_numbers s, int64_t count, const ls__segment *segments,
                                  int64_t n_segments, const ls__step *step)
{
    if (ls__skips_update(norm, grad_scaler)) return;
    s.clipping = clipping_of(clip, norm, grad_scaler);
    s.lr = (float)step->lr;
    s.first = ls__updates_done(step->optimizer_step, grad_scaler) == 0;
    for_each_in_segments(
        segments, n_segments, count, [=](auto access, int64_t i, const ls__segment &segment) {
            typedef decltype(access) A;
            ls__sgd_numbers scaled = s;
            scaled.lr *= segment.lr_scale;
            float p[A::n], g[A::n], m[A::n] = {};
            ls__load<A>(parameter + i, p);
            ls__load<A>(gradient + i, g);
            if (momentum) ls__load<A>(momentum + i, m);
            LS__UNROLL
            for (int j = 0; j < A::n; j++)
                p[j] = momentum ? ls__sgd_element(&scaled, segment.weight_decay, g[j], p[j], &m[j])
                                : ls__sgd_element(&scaled, segment.weight_decay, g[j], p[j], NULL);
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
                      clip_settings_of(op), s, count_of(op), call->segments, call->n_segments,
                      call->step);
}

/* ---- Adam ---- */

typedef struct adam_settings {
    float beta1, beta2, epsilon;
    bool decoupled;
    clip_settings clip;
} adam_settings;

static __global__ void adam_kernel(float *parameter, const float *gradient, float *exp_avg,
                                   float *exp_avg_sq, const float *norm, const float *grad_scaler,
                                   adam_settings settings, int64_t count,
                                   const ls__segment *segments, int64_t n_segments,
                                   const ls__step *step)
{
    __shared__ ls__adam_numbers shared;
    if (ls__skips_update(norm, grad_scaler)) return; /* the same for all threads */
    if (threadIdx.x == 0)
        shared = ls__adam_numbers_of(settings.beta1, settings.beta2, settings.epsilon, step->lr,
                                     ls__updates_done(step->optimizer_step, grad_scaler) + 1,
                                     clipping_of(settings.clip, norm, grad_scaler));
    __syncthreads();
    const ls__adam_numbers s = shared;
    for_each_in_segments(
        segments, n_segments, count, [=](auto access, int64_t i, const ls__segment &segment) {
            typedef decltype(access) A;
            const ls__adam_numbers scaled = ls__adam_scaled(&s, segment.lr_scale);
            float decay = segment.weight_decay;
            ls__decay_kind kind = LS__NO_DECAY;
            if (decay != 0) kind = settings.decoupled ? LS__DECOUPLED_DECAY : LS__L2_DECAY;
            if (kind == LS__DECOUPLED_DECAY) decay = (float)(scaled.lr * (double)decay);
            float p[A::n], g[A::n], m[A::n], v[A::n];
            ls__load<A>(parameter + i, p);
            ls__load<A>(gradient + i, g);
            ls__load<A>(exp_avg + i, m);
            ls__load<A>(exp_avg_sq + i, v);
            LS__UNROLL
            for (int j = 0; j < A::n; j++)
                p[j] = ls__adam_element(&scaled, kind, decay, g[j], p[j], &m[j], &v[j]);
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
                                     op->u.adam.decoupled, clip_settings_of(op) };
    return LS__LAUNCH(adam_kernel, (unsigned)blocks_of(op), LS__BLOCK, call->stream, (float *)b[0],
                      (const float *)b[1], (float *)b[2], (float *)b[3], (const float *)b[4],
                      (const float *)b[5], settings, count_of(op), call->segments, call->n_segments,
                      call->step);
}

/* ---- RMSprop ---- */

template <bool CENTERED, bool MOMENTUM>
static __global__ void rmsprop_kernel(float *parameter, const float *gradient, float *square_avg,
                                      float *grad_avg, float *momentum, const float *norm,
                                      const float *grad_scaler, clip_settings clip,
                                      ls__rmsprop_numbers s, int64_t count,
                                      const ls__segment *segments, int64_t n_segments,
                                      const ls__step *step)
{
    if (ls__skips_update(norm, grad_scaler)) return;
    s.clipping = clipping_of(clip, norm, grad_scaler);
    s.lr = (float)step->lr;
    for_each_in_segments(
        segments, n_segments, count, [=](auto access, int64_t i, const ls__segment &segment) {
            typedef decltype(access) A;
            ls__rmsprop_numbers scaled = s;
            scaled.lr *= segment.lr_scale;
            float p[A::n], g[A::n], v[A::n], mean[A::n] = {}, m[A::n] = {};
            ls__load<A>(parameter + i, p);
            ls__load<A>(gradient + i, g);
            ls__load<A>(square_avg + i, v);
            if (CENTERED) ls__load<A>(grad_avg + i, mean);
            if (MOMENTUM) ls__load<A>(momentum + i, m);
            LS__UNROLL
            for (int j = 0; j < A::n; j++)
                p[j] = ls__rmsprop_element(&scaled, segment.weight_decay, g[j], p[j], &v[j],
                                           CENTERED ? &mean[j] : NULL, MOMENTUM ? &m[j] : NULL);
            A::store(parameter + i, p);
            A::store(square_avg + i, v);
            if (CENTERED) A::store(grad_avg + i, mean);
            if (MOMENTUM) A::store(momentum + i, m);
        });
}

template <bool CENTERED, bool MOMENTUM> static int launch_rmsprop(const ls__cuda_call *call)
{
    const ls__op *op = call->op;
    void *const *b = call->buffers;
    ls__rmsprop_numbers s;
    memset(&s, 0, sizeof(s)); /* the kernel sets the other fields */
    s.alpha = op->u.rmsprop.alpha;
    s.share = (float)(1 - (double)op->u.rmsprop.alpha);
    s.epsilon = op->u.rmsprop.epsilon;
    s.momentum = op->u.rmsprop.momentum;
    return LS__LAUNCH((rmsprop_kernel<CENTERED, MOMENTUM>), (unsigned)blocks_of(op), LS__BLOCK,
                      call->stream, (float *)b[0], (const float *)b[1], (float *)b[2],
                      (float *)b[3], (float *)b[4], (const float *)b[5], (const float *)b[6],
                      clip_settings_of(op), s, count_of(op), call->segments, call->n_segments,
                      call->step);
}

int ls__cuda_rmsprop(const ls__cuda_call *call)
{
    const bool centered = call->buffers[3] != NULL, momentum = call->buffers[4] != NULL;
    if (centered && momentum) return launch_rmsprop<true, true>(call);
    if (centered) return launch_rmsprop<true, false>(call);
    return momentum ? launch_rmsprop<false, true>(call) : launch_rmsprop<false, false>(call);
}

/* ---- Moving average ---- */

static __global__ void ema_kernel(const float *parameter, float *average, const float *norm,
                                  const float *grad_scaler, float share, int64_t count,
                                  const ls__step *step)
{
    if (ls__skips_update(norm, grad_scaler)) return;
    const bool first = ls__updates_done(step->optimizer_step, grad_scaler) == 0;
    LS__FOR_EACH(i, count)
    average[i] = first ? parameter[i] : ls__ema_element(share, average[i], parameter[i]);
}

int ls__cuda_ema(const ls__cuda_call *call)
{
    void *const *b = call->buffers;
    const int64_t count = count_of(call->op);
    return LS__LAUNCH(ema_kernel, ls__blocks_for(count), LS__BLOCK, call->stream,
                      (const float *)b[0], (float *)b[1], (const float *)b[2], (const float *)b[3],
                      (float)(1 - (double)call->op->u.ema.decay), count, call->step);
}

/* ---- Loss scaling ---- */

static __global__ void loss_scale_kernel(const float *weight, const float *share,
                                         const float *total, const float *grad_scaler, float *dloss)
{
    *dloss = ls__gradient_of_loss(*weight, share, total, grad_scaler);
}

int ls__cuda_loss_scale(const ls__cuda_call *call)
{
    void *const *b = call->buffers;
    return LS__LAUNCH(loss_scale_kernel, 1, 1, call->stream, (const float *)b[0],
                      (const float *)b[1], (const float *)b[2], (const float *)b[3], (float *)b[4]);
}

static __global__ void loss_scale_update_kernel(const float *norm, float *grad_scaler,
                                                int64_t interval)
{
    ls__grad_scaler_update(grad_scaler, *norm, interval);
}

int ls__cuda_loss_scale_update(const ls__cuda_call *call)
{
    void *const *b = call->buffers;
    return LS__LAUNCH(loss_scale_update_kernel, 1, 1, call->stream, (const float *)b[0],
                      (float *)b[1], call->op->u.loss_scale.growth_interval);
}
