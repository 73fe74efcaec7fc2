/* pool.cu: pooling. Backward gathers: a thread adds all gradients of one element, in a fixed order.
 * The windows of the bundled nets are compile-time constants. */
#include "cuda/kernels/access.h"
#include "cuda/kernels/divide.h"

/* x [n,h,w,c], y [n,p,q,c], c in packs. A kernel iterates over the packs of its result, which is y
 * or, backward, x: [rows, columns, c] of each image. */
template <typename I> struct pool_shape {
    I count, h, w, c, p, q;
    I kernel[2], stride[2], padding[2];
    ls__divisor<I> by_c, by_columns, by_rows, by_stride[2];
};

/* Inputs come before results, so the result is the operand with the larger index. For a global
 * average, y is [n,c]: one window covers the image. */
template <typename I>
static pool_shape<I> shape_of(const ls__cuda_call *call, int x, int y, int64_t pack)
{
    const ls_shape *in = &call->op->operands[x].shape, *out = &call->op->operands[y].shape;
    const auto &pool = call->op->u.pool;
    const bool global = out->n_dims == 2;
    pool_shape<I> s;
    s.h = (I)in->dims[1];
    s.w = (I)in->dims[2];
    s.c = (I)(in->dims[3] / pack);
    s.p = (I)(global ? 1 : out->dims[1]);
    s.q = (I)(global ? 1 : out->dims[2]);
    const I rows = x > y ? s.h : s.p, columns = x > y ? s.w : s.q;
    s.count = (I)in->dims[0] * rows * columns * s.c;
    s.by_c = ls__divisor<I>::of(s.c);
    s.by_rows = ls__divisor<I>::of(rows);
    s.by_columns = ls__divisor<I>::of(columns);
    for (int i = 0; i < 2; i++) {
        s.kernel[i] = (I)(global ? in->dims[1 + i] : pool.kernel[i]);
        s.stride[i] = (I)(global ? 1 : pool.stride[i]);
        s.padding[i] = (I)(global ? 0 : pool.padding[i]);
        s.by_stride[i] = ls__divisor<I>::of(s.stride[i]);
    }
    return s;
}

/* The coordinates of pack i. */
template <typename I> struct coords {
    I n, row, column, c;
};

template <typename I> static __device__ coords<I> coords_of(const pool_shape<I> &s, I i)
{
    coords<I> at;
    I rest = s.by_c.quotient(i);
    at.c = i - rest * s.by_c.by;
    i = rest;
    rest = s.by_columns.quotient(i);
    at.column = i - rest * s.by_columns.by;
    at.n = s.by_rows.quotient(rest);
    at.row = rest - at.n * s.by_rows.by;
    return at;
}

template <typename I> LS__SHARED I max_of(I a, I b)
{
    return a > b ? a : b;
}

template <typename I> LS__SHARED I min_of(I a, I b)
{
    return a < b ? a : b;
}

/* ---- Windows of compile-time constants, or of any size where KERNEL is 0. At most `meet` fixed
 * windows per dimension overlap at an input position ---- */

template <int KERNEL, int STRIDE, int PADDING> struct window {
    enum { is_fixed = KERNEL > 0, meet = is_fixed ? (KERNEL + STRIDE - 1) / STRIDE : 1 };

    template <typename I> static __device__ I kernel(const pool_shape<I> &s, int dim)
    {
        return is_fixed ? KERNEL : s.kernel[dim];
    }

    template <typename I> static __device__ I stride(const pool_shape<I> &s, int dim)
    {
        return is_fixed ? STRIDE : s.stride[dim];
    }

    template <typename I> static __device__ I padding(const pool_shape<I> &s, int dim)
    {
        return is_fixed ? PADDING : s.padding[dim];
    }

    template <typename I> static __device__ I strides(const pool_shape<I> &s, int dim, I n)
    {
        return is_fixed ? (I)((uint32_t)n / STRIDE) : s.by_stride[dim].quotient(n);
    }

    static bool is(const ls__op *op)
    {
        bool same = true;
        for (int i = 0; i < 2; i++)
            same &= op->u.pool.kernel[i] == KERNEL && op->u.pool.stride[i] == STRIDE &&
                    op->u.pool.padding[i] == PADDING;
        return same;
    }
};

typedef window<0, 1, 0> any_window;
typedef window<3, 2, 1> resnet_window;
typedef window<2, 2, 0> halving_window;

template <typename I> struct range {
    I first, end;
};

/* The input positions of window i, without the padding. */
template <typename W, typename I>
static __device__ range<I> inputs_of(const pool_shape<I> &s, int dim, I i)
{
    const I start = i * W::stride(s, dim) - W::padding(s, dim);
    return { max_of<I>(start, 0), min_of<I>(start + W::kernel(s, dim), dim == 0 ? s.h : s.w) };
}

/* The windows that contain input position i. */
template <typename W, typename I>
static __device__ range<I> windows_of(const pool_shape<I> &s, int dim, I i)
{
    const I reach = i + W::padding(s, dim) - W::kernel(s, dim);
    return { reach < 0 ? 0 : W::strides(s, dim, reach) + 1,
             min_of<I>(W::strides(s, dim, i + W::padding(s, dim)) + 1, dim == 0 ? s.p : s.q) };
}

/* f(access, shape, window) for pooling between x and y. may_fix: the window may be a fixed one. */
template <typename F>
static int with_pool(const ls__cuda_call *call, int x, int y, bool may_fix, F f)
{
    const ls__operand *in = &call->op->operands[x], *out = &call->op->operands[y];
    int64_t count = max_of(ls_shape_element_count(&in->shape), ls_shape_element_count(&out->shape));
    for (int i = 0; i < 2; i++) /* the padding is at most half a window */
        if (max_of(call->op->u.pool.kernel[i], call->op->u.pool.stride[i]) > LS__MAX_INT32_COUNT)
            count = INT64_MAX;
    return ls__with_index(in, in->shape.dims[3], count, [=](auto access, auto number) {
        typedef decltype(access) A;
        const auto s = shape_of<decltype(number)>(call, x, y, A::n);
        if constexpr (A::n > 1) {
            if (may_fix && resnet_window::is(call->op)) return f(access, s, resnet_window());
            if (may_fix && halving_window::is(call->op)) return f(access, s, halving_window());
        }
        return f(access, s, any_window());
    });
}

/* ---- Maximum ---- */

/* Indices within windows, u8 or i32, of the elements of pack i. A pack of u8 is one store. */
template <int WORDS> struct __attribute__((aligned(4 * WORDS), may_alias)) index_bytes {
    uint32_t words[WORDS];
};

template <typename A, typename I>
static __device__ void store_indices(void *index, bool i32, I i, const int32_t *indices)
{
    if (i32) {
        LS__UNROLL
        for (int j = 0; j < A::n; j++) ((int32_t *)index)[(int64_t)i * A::n + j] = indices[j];
    } else if constexpr (A::n == 1) {
        ((uint8_t *)index)[i] = (uint8_t)indices[0];
    } else {
        index_bytes<A::n / 4> bytes;
        LS__UNROLL
        for (int j = 0; j < A::n; j += 4)
            bytes.words[j / 4] = (uint32_t)indices[j] | (uint32_t)indices[j + 1] << 8 |
                                 (uint32_t)indices[j + 2] << 16 | (uint32_t)indices[j + 3] << 24;
        ((index_bytes<A::n / 4> *)index)[i] = bytes;
    }
}

template <typename A, typename I>
static __device__ void load_indices(const void *index, bool i32, I i, int32_t *indices)
{
    if (i32) {
        LS__UNROLL
        for (int j = 0; j < A::n; j++) indices[j] = ((const int32_t *)index)[(int64_t)i * A::n + j];
    } else if constexpr (A::n == 1) {
        indices[0] = ((const uint8_t *)index)[i];
    } else {
        const index_bytes<A::n / 4> bytes = ((const index_bytes<A::n / 4> *)index)[i];
        LS__UNROLL
        for (int j = 0; j < A::n; j++)
            indices[j] = (int32_t)(bytes.words[j / 4] >> (8 * (j % 4)) & 0xff);
    }
}

template <typename A, typename W, typename I>
static __global__ void max_pool_kernel(pool_shape<I> s, const typename A::stored *x,
                                       typename A::stored *y, void *index, bool i32)
{
    LS__FOR_EACH_OF(I, i, s.count)
    {
        const coords<I> at = coords_of(s, i);
        const I top = at.row * W::stride(s, 0) - W::padding(s, 0);
        const I left = at.column * W::stride(s, 1) - W::padding(s, 1);
        float best[A::n] = {};
        int32_t where[A::n];
        for (int j = 0; j < A::n; j++) where[j] = -1;
        const range<I> rows = inputs_of<W>(s, 0, at.row), columns = inputs_of<W>(s, 1, at.column);
        for (I h = rows.first; h < rows.end; h++)
            for (I w = columns.first; w < columns.end; w++) {
                const int32_t here = (int32_t)((h - top) * W::kernel(s, 1) + (w - left));
                float v[A::n];
                ls__load<A>(x + (int64_t)(((at.n * s.h + h) * s.w + w) * s.c + at.c) * A::n, v);
                LS__UNROLL
                for (int j = 0; j < A::n; j++) /* NaN is the maximum */
                    if (where[j] < 0 || v[j] > best[j] || (v[j] != v[j] && best[j] == best[j])) {
                        best[j] = v[j];
                        where[j] = here;
                    }
            }
        A::store(y + (int64_t)i * A::n, best);
        if (index) store_indices<A>(index, i32 && !W::is_fixed, i, where);
    }
}

static bool is_i32(const ls__operand *index)
{
    return index->dtype != LS_U8;
}

int ls__cuda_max_pool(const ls__cuda_call *call)
{
    void *const *b = call->buffers;
    const bool i32 = is_i32(&call->op->operands[2]);
    return with_pool(call, 0, 1, !i32, [=](auto access, auto s, auto windows) {
        typedef decltype(access) A;
        typedef typename A::stored T;
        return LS__LAUNCH((max_pool_kernel<A, decltype(windows)>), ls__blocks_for(s.count),
                          LS__BLOCK, call->stream, s, (const T *)b[0], (T *)b[1], b[2], i32);
    });
}

/* Windows are processed W::meet by W::meet, so that all loads of a fixed window are issued at once.
 */
template <typename A, typename W, typename I>
static __global__ void max_pool_backward_kernel(pool_shape<I> s, const typename A::stored *dy,
                                                const void *index, bool i32, typename A::stored *dx)
{
    LS__FOR_EACH_OF(I, i, s.count)
    {
        const coords<I> at = coords_of(s, i);
        const range<I> rows = windows_of<W>(s, 0, at.row), columns = windows_of<W>(s, 1, at.column);
        float sum[A::n] = {};
        LS__ROLLED
        for (I p = rows.first; p < rows.end; p += W::meet) LS__ROLLED
        for (I q = columns.first; q < columns.end; q += W::meet) {
            typename A::raw raw[W::meet * W::meet];
            int32_t indices[W::meet * W::meet][A::n];
            LS__UNROLL
            for (int m = 0; m < W::meet * W::meet; m++) {
                const I p_here = p + m / W::meet, q_here = q + m % W::meet;
                if (p_here >= rows.end || q_here >= columns.end) continue;
                const I from = ((at.n * s.p + p_here) * s.q + q_here) * s.c + at.c;
                raw[m] = A::fetch(dy + (int64_t)from * A::n);
                load_indices<A>(index, i32 && !W::is_fixed, from, indices[m]);
            }
            LS__UNROLL
            for (int m = 0; m < W::meet * W::meet; m++) {
                const I p_here = p + m / W::meet, q_here = q + m % W::meet;
                if (p_here >= rows.end || q_here >= columns.end) continue;
                const I r = at.row + W::padding(s, 0) - p_here * W::stride(s, 0);
                const I t = at.column + W::padding(s, 1) - q_here * W::stride(s, 1);
                const int32_t here = (int32_t)(r * W::kernel(s, 1) + t);
                float v[A::n];
                A::to_f32(raw[m], v);
                LS__UNROLL
                for (int j = 0; j < A::n; j++)
                    if (indices[m][j] == here) sum[j] += v[j];
            }
        }
        A::store(dx + (int64_t)i * A::n, sum);
    }
}

int ls__cuda_max_pool_backward(const ls__cuda_call *call)
{
    void *const *b = call->buffers;
    const bool i32 = is_i32(&call->op->operands[1]);
    return with_pool(call, 2, 0, !i32, [=](auto access, auto s, auto windows) {
        typedef decltype(access) A;
        typedef typename A::stored T;
        return LS__LAUNCH((max_pool_backward_kernel<A, decltype(windows)>), ls__blocks_for(s.count),
                          LS__BLOCK, call->stream, s, (const T *)b[0], (const void *)b[1], i32,
                          (T *)b[2]);
    });
}

/* ---- Average; padding counts as zeros ---- */

template <typename A, bool BACKWARD, typename I>
static __global__ void avg_pool_kernel(pool_shape<I> s, const typename A::stored *from,
                                       typename A::stored *to)
{
    typedef any_window W;
    const float area = (float)(W::kernel(s, 0) * W::kernel(s, 1));
    const I height = BACKWARD ? s.p : s.h, width = BACKWARD ? s.q : s.w;
    LS__FOR_EACH_OF(I, i, s.count)
    {
        const coords<I> at = coords_of(s, i);
        const range<I> rows = BACKWARD ? windows_of<W>(s, 0, at.row) : inputs_of<W>(s, 0, at.row);
        const range<I> columns =
            BACKWARD ? windows_of<W>(s, 1, at.column) : inputs_of<W>(s, 1, at.column);
        float sum[A::n] = {};
        for (I h = rows.first; h < rows.end; h++)
            for (I w = columns.first; w < columns.end; w++) {
                float v[A::n];
                ls__load<A>(from + (int64_t)(((at.n * height + h) * width + w) * s.c + at.c) * A::n,
                            v);
                LS__UNROLL
                for (int j = 0; j < A::n; j++) sum[j] += v[j];
            }
        LS__UNROLL
        for (int j = 0; j < A::n; j++) sum[j] /= area;
        A::store(to + (int64_t)i * A::n, sum);
    }
}

template <bool BACKWARD> static int avg_pool(const ls__cuda_call *call)
{
    return with_pool(call, BACKWARD, !BACKWARD, false, [=](auto access, auto s, auto) {
        typedef decltype(access) A;
        typedef typename A::stored T;
        return LS__LAUNCH((avg_pool_kernel<A, BACKWARD>), ls__blocks_for(s.count), LS__BLOCK,
                          call->stream, s, (const T *)call->buffers[0], (T *)call->buffers[1]);
    });
}

int ls__cuda_avg_pool(const ls__cuda_call *call)
{
    return avg_pool<false>(call);
}

/* Also computes the gradient of a global average. */
int ls__cuda_avg_pool_backward(const ls__cuda_call *call)
{
    return avg_pool<true>(call);
}

/* ---- Global average: a block computes 32 channels of one image ---- */

enum { CHANNELS = 32, ROWS = LS__BLOCK / CHANNELS };

template <typename T>
static __global__ void global_avg_pool_kernel(int64_t pixels, int64_t channels, const T *x, T *y)
{
    __shared__ float shared[LS__BLOCK];
    const unsigned blocks = (unsigned)((channels + CHANNELS - 1) / CHANNELS);
    const int64_t n = blockIdx.x / blocks;
    const int64_t c = (int64_t)(blockIdx.x % blocks) * CHANNELS + threadIdx.x % CHANNELS;
    const unsigned row = threadIdx.x / CHANNELS;
    float sum = 0;
    for (int64_t i = row; i < pixels && c < channels; i += ROWS)
        sum += ls__to_f32(x[(n * pixels + i) * channels + c]);
    shared[threadIdx.x] = sum;
    for (unsigned half = ROWS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (row < half) shared[threadIdx.x] += shared[threadIdx.x + half * CHANNELS];
    }
    if (row == 0 && c < channels)
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
