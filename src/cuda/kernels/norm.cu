/* norm.cu: batch normalisation, its sum over the batch in a fixed order. x is a matrix of m rows,
 * the pixels, by C channels. A block takes 32 channels of a stretch of rows, cut by the shape
 * alone; stretches' sums lie in the workspace, and a second kernel adds them.
 *
 * Variances are sums of squares of x - pivot, where the pivot is the channel's first value: that is
 * near the mean as far as the deviation goes, so nothing is lost to cancellation. */
#include "base/element.h"
#include "cuda/kernels/portable.h"

enum {
    CHANNELS = 32, /* of a block, one for each thread of a warp */
    LANES = LS__BLOCK / CHANNELS,
    LEAST_ROWS = 16 * LANES, /* of a stretch */
    MOST_STRETCHES = 1024    /* over all channels */
};

typedef struct norm_shape {
    int64_t rows, channels, channel_blocks, stretch_rows, stretches;
} norm_shape;

static norm_shape shape_of(const ls__op *op)
{
    const ls_shape *x = &op->operands[0].shape;
    norm_shape s;
    s.channels = x->dims[x->n_dims - 1];
    s.rows = 1;
    for (int i = 0; i + 1 < x->n_dims; i++) s.rows *= x->dims[i];
    s.channel_blocks = (s.channels + CHANNELS - 1) / CHANNELS;
    const int64_t most = (MOST_STRETCHES + s.channel_blocks - 1) / s.channel_blocks;
    s.stretch_rows = (s.rows + most - 1) / most;
    if (s.stretch_rows < LEAST_ROWS) s.stretch_rows = LEAST_ROWS;
    s.stretches = (s.rows + s.stretch_rows - 1) / s.stretch_rows;
    return s;
}

/* In the workspace: two sums per channel and stretch, then two results per channel. */
size_t ls__cuda_batch_norm_workspace(const ls__op *op)
{
    const norm_shape s = shape_of(op);
    return (size_t)(2 * (s.stretches + 1) * s.channels) * sizeof(float);
}

/* Where a thread stands: its channel, and its rows of the block's stretch: first, first + LANES,
 * ... */
typedef struct place {
    int64_t c, first, end;
} place;

static __device__ place place_of(norm_shape s)
{
    place p;
    p.c = (int64_t)(blockIdx.x % s.channel_blocks) * CHANNELS + threadIdx.x % CHANNELS;
    const int64_t begin = (int64_t)(blockIdx.x / s.channel_blocks) * s.stretch_rows;
    p.first = begin + threadIdx.x / CHANNELS;
    p.end = begin + s.stretch_rows < s.rows ? begin + s.stretch_rows : s.rows;
    if (p.c >= s.channels) p.end = 0;
    return p;
}

/* Adds the lanes' values of each channel; lane 0 has the result. */
template <typename T> static __device__ T add_lanes(T value, T *shared)
{
    const unsigned t = threadIdx.x;
    __syncthreads();
    shared[t] = value;
    for (unsigned half = LANES / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t / CHANNELS < half) shared[t] += shared[t + half * CHANNELS];
    }
    __syncthreads();
    return shared[t % CHANNELS];
}

/* sums[2][stretches][C] */
static __device__ void store_sums(norm_shape s, place p, float a, float b, float *sums)
{
    __shared__ float shared[LS__BLOCK];
    const int64_t stretch = blockIdx.x / s.channel_blocks;
    const float a_sum = add_lanes(a, shared), b_sum = add_lanes(b, shared);
    if (threadIdx.x >= CHANNELS || p.c >= s.channels) return;
    sums[stretch * s.channels + p.c] = a_sum;
    sums[(s.stretches + stretch) * s.channels + p.c] = b_sum;
}

/* The sums over all stretches of this thread's channel; a block takes 32 channels. */
static __device__ void load_sums(norm_shape s, int64_t c, const float *sums, double *a, double *b)
{
    __shared__ double shared[LS__BLOCK];
    double own[2] = { 0, 0 };
    for (int64_t i = threadIdx.x / CHANNELS; i < s.stretches && c < s.channels; i += LANES)
        for (int which = 0; which < 2; which++)
            own[which] += (double)sums[(which * s.stretches + i) * s.channels + c];
    *a = add_lanes(own[0], shared);
    *b = add_lanes(own[1], shared);
}

/* ---- Forward ---- */

static __global__ void statistics_kernel(norm_shape s, const float *x, float *sums)
{
    const place p = place_of(s);
    float sum = 0, squares = 0;
    for (int64_t row = p.first; row < p.end; row += LANES) {
        const float d = x[row * s.channels + p.c] - x[p.c];
        sum += d;
        squares = fmaf(d, d, squares);
    }
    store_sums(s, p, sum, squares, sums);
}

static __global__ void finish_statistics_kernel(norm_shape s, const float *x, const float *sums,
                                                float epsilon, float momentum, float *running_mean,
                                                float *running_var, float *mean, float *invstd)
{
    const int64_t c = (int64_t)blockIdx.x * CHANNELS + threadIdx.x % CHANNELS;
    double sum, squares;
    load_sums(s, c, sums, &sum, &squares);
    if (threadIdx.x >= CHANNELS || c >= s.channels) return;
    const double m = (double)s.rows, offset = sum / m;
    double variance = squares / m - offset * offset;
    if (variance < 0) variance = 0;
    const double average = (double)x[c] + offset;
    const double unbiased = s.rows > 1 ? variance * m / (m - 1) : variance;
    const double share = (double)momentum;
    running_mean[c] = (float)((1 - share) * (double)running_mean[c] + share * average);
    running_var[c] = (float)((1 - share) * (double)running_var[c] + share * unbiased);
    mean[c] = (float)average;
    invstd[c] = (float)(1 / sqrt(variance + (double)epsilon));
}

static __global__ void apply_kernel(norm_shape s, const float *x, const float *scale,
                                    const float *shift, const float *mean, const float *invstd,
                                    const float *add, bool relu, float *y)
{
    const place p = place_of(s);
    if (p.first >= p.end) return;
    const float center = mean[p.c], factor = invstd[p.c] * scale[p.c], offset = shift[p.c];
    for (int64_t row = p.first; row < p.end; row += LANES) {
        const int64_t i = row * s.channels + p.c;
        float value = fmaf(x[i] - center, factor, offset);
        if (add) value += add[i];
        y[i] = relu ? ls__relu(value) : value;
    }
}

static int apply(const ls__cuda_call *call, norm_shape s, const float *mean, const float *invstd,
                 int y)
{
    void *const *b = call->buffers;
    return LS__LAUNCH(apply_kernel, (unsigned)(s.channel_blocks * s.stretches), LS__BLOCK,
                      call->stream, s, (const float *)b[0], (const float *)b[1],
                      (const float *)b[2], mean, invstd, (const float *)b[5], call->op->u.norm.relu,
                      (float *)b[y]);
}

int ls__cuda_batch_norm(const ls__cuda_call *call)
{
    const norm_shape s = shape_of(call->op);
    void *const *b = call->buffers;
    const float *x = (const float *)b[0];
    float *sums = (float *)call->workspace;
    int status = LS__LAUNCH(statistics_kernel, (unsigned)(s.channel_blocks * s.stretches),
                            LS__BLOCK, call->stream, s, x, sums);
    if (status == 0)
        status = LS__LAUNCH(finish_statistics_kernel, (unsigned)s.channel_blocks, LS__BLOCK,
                            call->stream, s, x, (const float *)sums, call->op->u.norm.epsilon,
                            call->op->u.norm.momentum, (float *)b[3], (float *)b[4], (float *)b[7],
                            (float *)b[8]);
    if (status != 0) return status;
    return apply(call, s, (const float *)b[7], (const float *)b[8], 6);
}

static __global__ void invstd_kernel(const float *variance, float epsilon, float *invstd,
                                     int64_t count)
{
    LS__FOR_EACH(i, count) invstd[i] = (float)(1 / sqrt((double)variance[i] + (double)epsilon));
}

int ls__cuda_batch_norm_eval(const ls__cuda_call *call)
{
    const norm_shape s = shape_of(call->op);
    float *invstd = (float *)call->workspace;
    const int status =
        LS__LAUNCH(invstd_kernel, ls__blocks_for(s.channels), LS__BLOCK, call->stream,
                   (const float *)call->buffers[4], call->op->u.norm.epsilon, invstd, s.channels);
    if (status != 0) return status;
    return apply(call, s, (const float *)call->buffers[3], invstd, 6);
}

/* ---- Backward ---- */

typedef struct backward_operands {
    const float *x, *y, *dy1, *dy2, *scale, *mean, *invstd;
    float *dx, *dscale, *dshift, *dadd;
    bool relu;
} backward_operands;

static __device__ float gradient_at(const backward_operands *o, int64_t i)
{
    float dy = o->dy1[i];
    if (o->dy2) dy += o->dy2[i];
    return o->relu && !(o->y[i] > 0) ? 0 : dy;
}

static __global__ void backward_sums_kernel(norm_shape s, backward_operands o, float *sums)
{
    const place p = place_of(s);
    float shift_sum = 0, scale_sum = 0;
    if (p.first < p.end) {
        const float center = o.mean[p.c], invstd = o.invstd[p.c];
        for (int64_t row = p.first; row < p.end; row += LANES) {
            const int64_t i = row * s.channels + p.c;
            const float dy = gradient_at(&o, i);
            shift_sum += dy;
            scale_sum = fmaf(dy, (o.x[i] - center) * invstd, scale_sum);
        }
    }
    store_sums(s, p, shift_sum, scale_sum, sums);
}

static __global__ void backward_finish_kernel(norm_shape s, const float *sums, float *dscale,
                                              float *dshift, float *means)
{
    const int64_t c = (int64_t)blockIdx.x * CHANNELS + threadIdx.x % CHANNELS;
    double shift_sum, scale_sum;
    load_sums(s, c, sums, &shift_sum, &scale_sum);
    if (threadIdx.x >= CHANNELS || c >= s.channels) return;
    dscale[c] = (float)scale_sum;
    dshift[c] = (float)shift_sum;
    means[c] = (float)(shift_sum / (double)s.rows);
    means[s.channels + c] = (float)(scale_sum / (double)s.rows);
}

static __global__ void backward_apply_kernel(norm_shape s, backward_operands o, const float *means)
{
    const place p = place_of(s);
    if (p.first >= p.end) return;
    const float center = o.mean[p.c], invstd = o.invstd[p.c], factor = o.scale[p.c] * invstd;
    const float shift_mean = means[p.c], scale_mean = means[s.channels + p.c];
    for (int64_t row = p.first; row < p.end; row += LANES) {
        const int64_t i = row * s.channels + p.c;
        const float dy = gradient_at(&o, i), normal = (o.x[i] - center) * invstd;
        if (o.dadd) o.dadd[i] = dy; /* it, or dx, may be dy1's memory */
        o.dx[i] = factor * fmaf(-normal, scale_mean, dy - shift_mean);
    }
}

int ls__cuda_batch_norm_backward(const ls__cuda_call *call)
{
    const norm_shape s = shape_of(call->op);
    void *const *b = call->buffers;
    backward_operands o;
    o.x = (const float *)b[0];
    o.y = (const float *)b[1];
    o.dy1 = (const float *)b[2];
    o.dy2 = (const float *)b[3];
    o.scale = (const float *)b[4];
    o.mean = (const float *)b[5];
    o.invstd = (const float *)b[6];
    o.dx = (float *)b[7];
    o.dscale = (float *)b[8];
    o.dshift = (float *)b[9];
    o.dadd = (float *)b[10];
    o.relu = call->op->u.norm.relu;
    float *sums = (float *)call->workspace, *means = sums + 2 * s.stretches * s.channels;
    const unsigned blocks = (unsigned)(s.channel_blocks * s.stretches);
    int status = LS__LAUNCH(backward_sums_kernel, blocks, LS__BLOCK, call->stream, s, o, sums);
    if (status == 0)
        status = LS__LAUNCH(backward_finish_kernel, (unsigned)s.channel_blocks, LS__BLOCK,
                            call->stream, s, (const float *)sums, o.dscale, o.dshift, means);
    if (status != 0) return status;
    return LS__LAUNCH(backward_apply_kernel, blocks, LS__BLOCK, call->stream, s, o,
                      (const float *)means);
}
