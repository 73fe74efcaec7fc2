/* pool.cu: pooling. Backward gathers: a thread adds what came to one element, in a fixed order. */
#include "cuda/kernels/portable.h"

typedef struct pool_shape {
    int64_t n, h, w, c, p, q; /* x [n,h,w,c], y [n,p,q,c] */
    int64_t kernel[2], stride[2], padding[2];
} pool_shape;

static pool_shape shape_of(const ls__cuda_call *call, int x, int y)
{
    const ls__operand *o = call->op->operands;
    pool_shape s;
    s.n = o[x].shape.dims[0];
    s.h = o[x].shape.dims[1];
    s.w = o[x].shape.dims[2];
    s.c = o[x].shape.dims[3];
    s.p = o[y].shape.dims[1];
    s.q = o[y].shape.dims[2];
    for (int i = 0; i < 2; i++) {
        s.kernel[i] = call->op->u.pool.kernel[i];
        s.stride[i] = call->op->u.pool.stride[i];
        s.padding[i] = call->op->u.pool.padding[i];
    }
    return s;
}

/* Element i of an [n, rows, columns, c] array. */
typedef struct place {
    int64_t n, row, column, c;
} place;

static __device__ place place_of(int64_t i, int64_t rows, int64_t columns, int64_t channels)
{
    place at;
    at.c = i % channels;
    i /= channels;
    at.column = i % columns;
    i /= columns;
    at.row = i % rows;
    at.n = i / rows;
    return at;
}

static __device__ int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static __device__ int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The windows that see input place i: first to last - 1. */
static __device__ int64_t first_window(const pool_shape *s, int dim, int64_t i)
{
    const int64_t reach = i + s->padding[dim] - s->kernel[dim];
    return reach < 0 ? 0 : reach / s->stride[dim] + 1;
}

static __device__ int64_t last_window(const pool_shape *s, int dim, int64_t i)
{
    return least((i + s->padding[dim]) / s->stride[dim] + 1, dim == 0 ? s->p : s->q);
}

/* ---- Maximum ---- */

template <typename I>
static __global__ void max_pool_kernel(pool_shape s, const float *x, float *y, I *index)
{
    LS__FOR_EACH(i, s.n * s.p * s.q * s.c)
    {
        const place at = place_of(i, s.p, s.q, s.c);
        const int64_t top = at.row * s.stride[0] - s.padding[0];
        const int64_t left = at.column * s.stride[1] - s.padding[1];
        float best = 0;
        int64_t where = -1;
        for (int64_t h = most(top, 0); h < least(top + s.kernel[0], s.h); h++)
            for (int64_t w = most(left, 0); w < least(left + s.kernel[1], s.w); w++) {
                const float value = x[((at.n * s.h + h) * s.w + w) * s.c + at.c];
                /* NaN counts as the largest */
                if (where < 0 || value > best || (value != value && best == best)) {
                    best = value;
                    where = (h - top) * s.kernel[1] + (w - left);
                }
            }
        y[i] = best;
        if (index) index[i] = (I)where;
    }
}

int ls__cuda_max_pool(const ls__cuda_call *call)
{
    const pool_shape s = shape_of(call, 0, 1);
    const unsigned blocks = ls__blocks_for(s.n * s.p * s.q * s.c);
    const float *x = (const float *)call->buffers[0];
    float *y = (float *)call->buffers[1];
    if (call->buffers[2] && call->op->operands[2].dtype != LS_U8)
        return LS__LAUNCH(max_pool_kernel<int32_t>, blocks, LS__BLOCK, call->stream, s, x, y,
                          (int32_t *)call->buffers[2]);
    return LS__LAUNCH(max_pool_kernel<uint8_t>, blocks, LS__BLOCK, call->stream, s, x, y,
                      (uint8_t *)call->buffers[2]);
}

template <typename I>
static __global__ void max_pool_backward_kernel(pool_shape s, const float *dy, const I *index,
                                                float *dx)
{
    LS__FOR_EACH(i, s.n * s.h * s.w * s.c)
    {
        const place at = place_of(i, s.h, s.w, s.c);
        float sum = 0;
        for (int64_t p = first_window(&s, 0, at.row); p < last_window(&s, 0, at.row); p++)
            for (int64_t q = first_window(&s, 1, at.column); q < last_window(&s, 1, at.column);
                 q++) {
                const int64_t r = at.row + s.padding[0] - p * s.stride[0];
                const int64_t t = at.column + s.padding[1] - q * s.stride[1];
                const int64_t o = ((at.n * s.p + p) * s.q + q) * s.c + at.c;
                if ((int64_t)index[o] == r * s.kernel[1] + t) sum += dy[o];
            }
        dx[i] = sum;
    }
}

int ls__cuda_max_pool_backward(const ls__cuda_call *call)
{
    const pool_shape s = shape_of(call, 2, 0);
    const unsigned blocks = ls__blocks_for(s.n * s.h * s.w * s.c);
    const float *dy = (const float *)call->buffers[0];
    float *dx = (float *)call->buffers[2];
    if (call->op->operands[1].dtype != LS_U8)
        return LS__LAUNCH(max_pool_backward_kernel<int32_t>, blocks, LS__BLOCK, call->stream, s, dy,
                          (const int32_t *)call->buffers[1], dx);
    return LS__LAUNCH(max_pool_backward_kernel<uint8_t>, blocks, LS__BLOCK, call->stream, s, dy,
                      (const uint8_t *)call->buffers[1], dx);
}

/* ---- Average: the padding's zeros count ---- */

static __global__ void avg_pool_kernel(pool_shape s, const float *x, float *y)
{
    const float places = (float)(s.kernel[0] * s.kernel[1]);
    LS__FOR_EACH(i, s.n * s.p * s.q * s.c)
    {
        const place at = place_of(i, s.p, s.q, s.c);
        const int64_t top = at.row * s.stride[0] - s.padding[0];
        const int64_t left = at.column * s.stride[1] - s.padding[1];
        float sum = 0;
        for (int64_t h = most(top, 0); h < least(top + s.kernel[0], s.h); h++)
            for (int64_t w = most(left, 0); w < least(left + s.kernel[1], s.w); w++)
                sum += x[((at.n * s.h + h) * s.w + w) * s.c + at.c];
        y[i] = sum / places;
    }
}

int ls__cuda_avg_pool(const ls__cuda_call *call)
{
    const pool_shape s = shape_of(call, 0, 1);
    return LS__LAUNCH(avg_pool_kernel, ls__blocks_for(s.n * s.p * s.q * s.c), LS__BLOCK,
                      call->stream, s, (const float *)call->buffers[0], (float *)call->buffers[1]);
}

static __global__ void avg_pool_backward_kernel(pool_shape s, const float *dy, float *dx)
{
    const float places = (float)(s.kernel[0] * s.kernel[1]);
    LS__FOR_EACH(i, s.n * s.h * s.w * s.c)
    {
        const place at = place_of(i, s.h, s.w, s.c);
        float sum = 0;
        for (int64_t p = first_window(&s, 0, at.row); p < last_window(&s, 0, at.row); p++)
            for (int64_t q = first_window(&s, 1, at.column); q < last_window(&s, 1, at.column); q++)
                sum += dy[((at.n * s.p + p) * s.q + q) * s.c + at.c];
        dx[i] = sum / places;
    }
}

int ls__cuda_avg_pool_backward(const ls__cuda_call *call)
{
    const pool_shape s = shape_of(call, 1, 0);
    return LS__LAUNCH(avg_pool_backward_kernel, ls__blocks_for(s.n * s.h * s.w * s.c), LS__BLOCK,
                      call->stream, s, (const float *)call->buffers[0], (float *)call->buffers[1]);
}

/* ---- Average over the picture: a block takes 32 channels of one picture ---- */

enum { CHANNELS = 32, LANES = LS__BLOCK / CHANNELS };

static __global__ void global_avg_pool_kernel(int64_t pixels, int64_t channels, const float *x,
                                              float *y)
{
    __shared__ float shared[LS__BLOCK];
    const int64_t blocks = (channels + CHANNELS - 1) / CHANNELS;
    const int64_t n = blockIdx.x / blocks;
    const int64_t c = (int64_t)(blockIdx.x % blocks) * CHANNELS + threadIdx.x % CHANNELS;
    const unsigned lane = threadIdx.x / CHANNELS;
    float sum = 0;
    for (int64_t i = lane; i < pixels && c < channels; i += LANES)
        sum += x[(n * pixels + i) * channels + c];
    shared[threadIdx.x] = sum;
    for (unsigned half = LANES / 2; half > 0; half /= 2) {
        __syncthreads();
        if (lane < half) shared[threadIdx.x] += shared[threadIdx.x + half * CHANNELS];
    }
    if (lane == 0 && c < channels) y[n * channels + c] = shared[threadIdx.x] / (float)pixels;
}

int ls__cuda_global_avg_pool(const ls__cuda_call *call)
{
    const int64_t *d = call->op->operands[0].shape.dims;
    return LS__LAUNCH(global_avg_pool_kernel, (unsigned)(d[0] * ((d[3] + CHANNELS - 1) / CHANNELS)),
                      LS__BLOCK, call->stream, d[1] * d[2], d[3], (const float *)call->buffers[0],
                      (float *)call->buffers[1]);
}

static __global__ void global_avg_pool_backward_kernel(int64_t count, int64_t pixels,
                                                       int64_t channels, const float *dy, float *dx)
{
    LS__FOR_EACH(i, count)
    dx[i] = dy[i / channels / pixels * channels + i % channels] / (float)pixels;
}

int ls__cuda_global_avg_pool_backward(const ls__cuda_call *call)
{
    const int64_t *d = call->op->operands[1].shape.dims, count = d[0] * d[1] * d[2] * d[3];
    return LS__LAUNCH(global_avg_pool_backward_kernel, ls__blocks_for(count), LS__BLOCK,
                      call->stream, count, d[1] * d[2], d[3], (const float *)call->buffers[0],
                      (float *)call->buffers[1]);
}
