/* pool.cu: pooling. Backward gathers: a thread adds what came to one element, in a fixed order. */
#include "cuda/kernels/access.h"

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

/* Pack i of an [n, rows, columns, c] array of packs: kernels take so many channels at a time. */
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

/* Places in windows, u8 or i32, of the elements from i on. n of u8 are one store. */
template <typename A>
static __device__ void store_places(void *index, bool wide, int64_t i, const int32_t *places)
{
    if (wide) {
        for (int j = 0; j < A::n; j++) ((int32_t *)index)[i + j] = places[j];
    } else if (A::n == 1) {
        ((uint8_t *)index)[i] = (uint8_t)places[0];
    } else {
        for (int j = 0; j < A::n; j += 4)
            ((uint32_t *)index)[(i + j) / 4] = (uint32_t)places[j] | (uint32_t)places[j + 1] << 8 |
                                               (uint32_t)places[j + 2] << 16 |
                                               (uint32_t)places[j + 3] << 24;
    }
}

template <typename A>
static __device__ void load_places(const void *index, bool wide, int64_t i, int32_t *places)
{
    if (wide) {
        for (int j = 0; j < A::n; j++) places[j] = ((const int32_t *)index)[i + j];
    } else if (A::n == 1) {
        places[0] = ((const uint8_t *)index)[i];
    } else {
        for (int word = 0; word < A::n / 4; word++) {
            const uint32_t four = ((const uint32_t *)index)[i / 4 + word];
            LS__UNROLL
            for (int j = 0; j < 4; j++) places[4 * word + j] = (int32_t)(four >> (8 * j) & 0xff);
        }
    }
}

template <typename A>
static __global__ void max_pool_kernel(pool_shape s, const typename A::stored *x,
                                       typename A::stored *y, void *index, bool wide)
{
    LS__FOR_EACH(i, s.n * s.p * s.q * s.c / A::n)
    {
        const place at = place_of(i, s.p, s.q, s.c / A::n);
        const int64_t top = at.row * s.stride[0] - s.padding[0];
        const int64_t left = at.column * s.stride[1] - s.padding[1];
        float best[A::n] = {};
        int32_t where[A::n];
        for (int j = 0; j < A::n; j++) where[j] = -1;
        for (int64_t h = most(top, 0); h < least(top + s.kernel[0], s.h); h++)
            for (int64_t w = most(left, 0); w < least(left + s.kernel[1], s.w); w++) {
                const int32_t here = (int32_t)((h - top) * s.kernel[1] + (w - left));
                float v[A::n];
                ls__load<A>(x + ((at.n * s.h + h) * s.w + w) * s.c + at.c * A::n, v);
                LS__UNROLL
                for (int j = 0; j < A::n; j++) /* NaN counts as the largest */
                    if (where[j] < 0 || v[j] > best[j] || (v[j] != v[j] && best[j] == best[j])) {
                        best[j] = v[j];
                        where[j] = here;
                    }
            }
        A::store(y + i * A::n, best);
        if (index) store_places<A>(index, wide, i * A::n, where);
    }
}

static bool is_wide(const ls__operand *index)
{
    return index->dtype != LS_U8;
}

int ls__cuda_max_pool(const ls__cuda_call *call)
{
    const pool_shape s = shape_of(call, 0, 1);
    void *const *b = call->buffers;
    const ls__operand *o = call->op->operands;
    return ls__with_access(&o[0], s.c, [=](auto access) {
        typedef decltype(access) A;
        typedef typename A::stored T;
        return LS__LAUNCH(max_pool_kernel<A>, ls__blocks_for(s.n * s.p * s.q * s.c / A::n),
                          LS__BLOCK, call->stream, s, (const T *)b[0], (T *)b[1], b[2],
                          is_wide(&o[2]));
    });
}

template <typename A>
static __global__ void max_pool_backward_kernel(pool_shape s, const typename A::stored *dy,
                                                const void *index, bool wide,
                                                typename A::stored *dx)
{
    LS__FOR_EACH(i, s.n * s.h * s.w * s.c / A::n)
    {
        const place at = place_of(i, s.h, s.w, s.c / A::n);
        float sum[A::n] = {};
        for (int64_t p = first_window(&s, 0, at.row); p < last_window(&s, 0, at.row); p++)
            for (int64_t q = first_window(&s, 1, at.column); q < last_window(&s, 1, at.column);
                 q++) {
                const int64_t r = at.row + s.padding[0] - p * s.stride[0];
                const int64_t t = at.column + s.padding[1] - q * s.stride[1];
                const int64_t o = ((at.n * s.p + p) * s.q + q) * s.c + at.c * A::n;
                float v[A::n];
                int32_t places[A::n];
                ls__load<A>(dy + o, v);
                load_places<A>(index, wide, o, places);
                LS__UNROLL
                for (int j = 0; j < A::n; j++)
                    if (places[j] == (int32_t)(r * s.kernel[1] + t)) sum[j] += v[j];
            }
        A::store(dx + i * A::n, sum);
    }
}

int ls__cuda_max_pool_backward(const ls__cuda_call *call)
{
    const pool_shape s = shape_of(call, 2, 0);
    void *const *b = call->buffers;
    const ls__operand *o = call->op->operands;
    return ls__with_access(&o[0], s.c, [=](auto access) {
        typedef decltype(access) A;
        typedef typename A::stored T;
        return LS__LAUNCH(max_pool_backward_kernel<A>, ls__blocks_for(s.n * s.h * s.w * s.c / A::n),
                          LS__BLOCK, call->stream, s, (const T *)b[0], (const void *)b[1],
                          is_wide(&o[1]), (T *)b[2]);
    });
}

/* ---- Average: the padding's zeros count ---- */

template <typename A> static __device__ void add_pack(const typename A::stored *from, float *sum)
{
    float v[A::n];
    ls__load<A>(from, v);
    LS__UNROLL
    for (int j = 0; j < A::n; j++) sum[j] += v[j];
}

template <typename A>
static __device__ void store_average(typename A::stored *to, float *sum, float places)
{
    LS__UNROLL
    for (int j = 0; j < A::n; j++) sum[j] /= places;
    A::store(to, sum);
}

template <typename A>
static __global__ void avg_pool_kernel(pool_shape s, const typename A::stored *x,
                                       typename A::stored *y)
{
    const float places = (float)(s.kernel[0] * s.kernel[1]);
    LS__FOR_EACH(i, s.n * s.p * s.q * s.c / A::n)
    {
        const place at = place_of(i, s.p, s.q, s.c / A::n);
        const int64_t top = at.row * s.stride[0] - s.padding[0];
        const int64_t left = at.column * s.stride[1] - s.padding[1];
        float sum[A::n] = {};
        for (int64_t h = most(top, 0); h < least(top + s.kernel[0], s.h); h++)
            for (int64_t w = most(left, 0); w < least(left + s.kernel[1], s.w); w++)
                add_pack<A>(x + ((at.n * s.h + h) * s.w + w) * s.c + at.c * A::n, sum);
        store_average<A>(y + i * A::n, sum, places);
    }
}

int ls__cuda_avg_pool(const ls__cuda_call *call)
{
    const pool_shape s = shape_of(call, 0, 1);
    return ls__with_access(&call->op->operands[0], s.c, [=](auto access) {
        typedef decltype(access) A;
        typedef typename A::stored T;
        return LS__LAUNCH(avg_pool_kernel<A>, ls__blocks_for(s.n * s.p * s.q * s.c / A::n),
                          LS__BLOCK, call->stream, s, (const T *)call->buffers[0],
                          (T *)call->buffers[1]);
    });
}

template <typename A>
static __global__ void avg_pool_backward_kernel(pool_shape s, const typename A::stored *dy,
                                                typename A::stored *dx)
{
    const float places = (float)(s.kernel[0] * s.kernel[1]);
    LS__FOR_EACH(i, s.n * s.h * s.w * s.c / A::n)
    {
        const place at = place_of(i, s.h, s.w, s.c / A::n);
        float sum[A::n] = {};
        for (int64_t p = first_window(&s, 0, at.row); p < last_window(&s, 0, at.row); p++)
            for (int64_t q = first_window(&s, 1, at.column); q < last_window(&s, 1, at.column); q++)
                add_pack<A>(dy + ((at.n * s.p + p) * s.q + q) * s.c + at.c * A::n, sum);
        store_average<A>(dx + i * A::n, sum, places);
    }
}

int ls__cuda_avg_pool_backward(const ls__cuda_call *call)
{
    const pool_shape s = shape_of(call, 1, 0);
    return ls__with_access(&call->op->operands[0], s.c, [=](auto access) {
        typedef decltype(access) A;
        typedef typename A::stored T;
        return LS__LAUNCH(avg_pool_backward_kernel<A>, ls__blocks_for(s.n * s.h * s.w * s.c / A::n),
                          LS__BLOCK, call->stream, s, (const T *)call->buffers[0],
                          (T *)call->buffers[1]);
    });
}

/* ---- Average over the picture: a block takes 32 channels of one picture ---- */

enum { CHANNELS = 32, LANES = LS__BLOCK / CHANNELS };

template <typename T>
static __global__ void global_avg_pool_kernel(int64_t pixels, int64_t channels, const T *x, T *y)
{
    __shared__ float shared[LS__BLOCK];
    const int64_t blocks = (channels + CHANNELS - 1) / CHANNELS;
    const int64_t n = blockIdx.x / blocks;
    const int64_t c = (int64_t)(blockIdx.x % blocks) * CHANNELS + threadIdx.x % CHANNELS;
    const unsigned lane = threadIdx.x / CHANNELS;
    float sum = 0;
    for (int64_t i = lane; i < pixels && c < channels; i += LANES)
        sum += ls__widen(x[(n * pixels + i) * channels + c]);
    shared[threadIdx.x] = sum;
    for (unsigned half = LANES / 2; half > 0; half /= 2) {
        __syncthreads();
        if (lane < half) shared[threadIdx.x] += shared[threadIdx.x + half * CHANNELS];
    }
    if (lane == 0 && c < channels)
        ls__put(&y[n * channels + c], shared[threadIdx.x] / (float)pixels);
}

int ls__cuda_global_avg_pool(const ls__cuda_call *call)
{
    const int64_t *d = call->op->operands[0].shape.dims;
    const unsigned blocks = (unsigned)(d[0] * ((d[3] + CHANNELS - 1) / CHANNELS));
    return ls__with_type(&call->op->operands[0], [=](auto type) {
        typedef decltype(type) T;
        return LS__LAUNCH(global_avg_pool_kernel<T>, blocks, LS__BLOCK, call->stream, d[1] * d[2],
                          d[3], (const T *)call->buffers[0], (T *)call->buffers[1]);
    });
}

template <typename A>
static __global__ void global_avg_pool_backward_kernel(int64_t count, int64_t pixels,
                                                       int64_t channels,
                                                       const typename A::stored *dy,
                                                       typename A::stored *dx)
{
    const int64_t packs = channels / A::n;
    LS__FOR_EACH(i, count / A::n)
    {
        float sum[A::n] = {};
        add_pack<A>(dy + (i / packs / pixels * packs + i % packs) * A::n, sum);
        store_average<A>(dx + i * A::n, sum, (float)pixels);
    }
}

int ls__cuda_global_avg_pool_backward(const ls__cuda_call *call)
{
    const int64_t *d = call->op->operands[1].shape.dims, count = d[0] * d[1] * d[2] * d[3];
    return ls__with_access(&call->op->operands[0], d[3], [=](auto access) {
        typedef decltype(access) A;
        typedef typename A::stored T;
        return LS__LAUNCH(global_avg_pool_backward_kernel<A>, ls__blocks_for(count / A::n),
                          LS__BLOCK, call->stream, count, d[1] * d[2], d[3],
                          (const T *)call->buffers[0], (T *)call->buffers[1]);
    });
}
