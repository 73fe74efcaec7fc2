/* norm.cu: batch normalization, with sums over the batch in a fixed order (columns.h).
 *
 * Forward reads x twice: for the statistics, then to write y. Backward reads its operands twice. If
 * dadd is present, the second kernel reads only dadd and x. Where y can be computed from x, the
 * ReLU's mask is computed too, and y is not read.
 *
 * Variances are sums of squares of x - pivot. The pivot is the channel's first value. It is within
 * a few std of the mean, so no precision is lost by cancellation. NORM_FINALIZE has no pivot,
 * because its sums come from convolutions. */
#include "base/element.h"
#include "cuda/kernels/columns.h"

/* Rows that a thread loads at once in kernels that read little besides x. In place of a row outside
 * the thread's range, the current row is loaded again. */
enum { ROWS = 4 };
/* The same for backward: two where it reads x and one gradient. */
#define BACKWARD_ROWS(masked) ((masked) ? 2 : 1)

static ls__columns shape_of(const ls__op *op)
{
    const ls_shape *x = &op->operands[0].shape;
    int64_t rows = 1;
    for (int i = 0; i + 1 < x->n_dims; i++) rows *= x->dims[i];
    return ls__columns_of(&op->operands[0], rows, x->dims[x->n_dims - 1]);
}

/* Two sums per channel and chunk, then two results per channel. */
size_t ls__cuda_batch_norm_workspace(const ls__op *op)
{
    const ls__columns s = shape_of(op);
    return ls__columns_bytes(&s, 2) + 2 * (size_t)s.channels * sizeof(float);
}

/* ---- Forward ---- */

template <typename A>
static __global__ void statistics_kernel(ls__columns s, const typename A::stored *x, float *sums)
{
    enum { tile_rows = ls__tile<A>::tile_rows };
    const ls__columns_span p = ls__columns_span_of<A>(s, blockIdx.x);
    float own[2][A::n] = {}, pivot[A::n] = {};
    if (p.first <= p.last) ls__load<A>(x + p.c, pivot);
    for (int64_t row = p.first; row <= p.last; row += ROWS * tile_rows) {
        typename A::raw raw[ROWS];
        LS__UNROLL
        for (int r = 0; r < ROWS; r++)
            raw[r] = A::fetch(
                x + (row + r * tile_rows <= p.last ? row + r * tile_rows : row) * s.channels + p.c);
        LS__UNROLL
        for (int r = 0; r < ROWS; r++) {
            float v[A::n];
            A::to_f32(raw[r], v);
            if (row + r * tile_rows > p.last) break;
            LS__UNROLL
            for (int j = 0; j < A::n; j++) {
                const float d = v[j] - pivot[j];
                own[0][j] += d;
                own[1][j] = fmaf(d, d, own[1][j]);
            }
        }
    }
    ls__columns_store<A, 2>(s, p, own, sums);
}

typedef struct statistics {
    float *running_mean, *running_var, *mean, *invstd;
    float epsilon, momentum;
} statistics;

/* Writes a channel's statistics over m values. Returns invstd. Rounding may make the variance
 * negative. */
static __device__ double keep_statistics(statistics out, int64_t c, double m, double average,
                                         double variance)
{
    if (variance < 0) variance = 0;
    const double unbiased = m > 1 ? variance * m / (m - 1) : variance;
    const double share = (double)out.momentum, invstd = 1 / sqrt(variance + (double)out.epsilon);
    out.running_mean[c] = (float)((1 - share) * (double)out.running_mean[c] + share * average);
    out.running_var[c] = (float)((1 - share) * (double)out.running_var[c] + share * unbiased);
    out.mean[c] = (float)average;
    out.invstd[c] = (float)invstd;
    return invstd;
}

template <typename T>
static __global__ void finish_statistics_kernel(ls__columns s, const T *x, const float *sums,
                                                statistics out)
{
    __shared__ double shared[LS__COLUMN_THREADS];
    const int64_t c = blockIdx.x;
    const double sum = ls__columns_total(s, 0, c, sums, shared);
    const double squares = ls__columns_total(s, 1, c, sums, shared);
    if (threadIdx.x != 0) return;
    const double m = (double)s.rows, offset = sum / m;
    keep_statistics(out, c, m, (double)ls__to_f32(x[c]) + offset, squares / m - offset * offset);
}

/* The result before the addition and the ReLU; factor = invstd * scale. */
static __device__ float normalized(float x, float mean, float factor, float shift)
{
    return fmaf(x - mean, factor, shift);
}

/* Loads two operands' elements of the thread's rows from `row` on, in descending order. `second`
 * may be NULL. */
template <typename A>
static __device__ inline void fetch_upwards(const ls__columns &s, const ls__columns_span &p,
                                            int64_t row, const typename A::stored *first,
                                            const typename A::stored *second,
                                            typename A::raw (&of_first)[ROWS / 2],
                                            typename A::raw (&of_second)[ROWS / 2])
{
    enum { tile_rows = ls__tile<A>::tile_rows };
    LS__UNROLL
    for (int r = 0; r < ROWS / 2; r++) {
        const int64_t i =
            (row - r * tile_rows >= p.first ? row - r * tile_rows : row) * s.channels + p.c;
        of_first[r] = A::fetch(first + i);
        of_second[r] = second ? A::fetch(second + i) : of_first[r];
    }
}

template <typename A>
static __global__ void apply_kernel(ls__columns s, const typename A::stored *x, const float *scale,
                                    const float *shift, const float *mean, const float *invstd,
                                    const typename A::stored *add, bool relu, typename A::stored *y)
{
    enum { tile_rows = ls__tile<A>::tile_rows };
    const ls__columns_span p = ls__columns_span_from_end<A>(s);
    if (p.last < p.first) return;
    float center[A::n], factor[A::n], offset[A::n];
    float by[A::n];
    ls__load_channels<A::n>(mean + p.c, center);
    ls__load_channels<A::n>(invstd + p.c, factor);
    ls__load_channels<A::n>(scale + p.c, by);
    ls__load_channels<A::n>(shift + p.c, offset);
    LS__UNROLL
    for (int j = 0; j < A::n; j++) factor[j] *= by[j];
    for (int64_t row = p.last; row >= p.first; row -= ROWS / 2 * tile_rows) {
        typename A::raw raw[ROWS / 2], raw_add[ROWS / 2];
        fetch_upwards<A>(s, p, row, x, add, raw, raw_add);
        LS__UNROLL
        for (int r = 0; r < ROWS / 2; r++) {
            float v[A::n], a[A::n];
            A::to_f32(raw[r], v);
            A::to_f32(raw_add[r], a);
            if (row - r * tile_rows < p.first) break;
            LS__UNROLL
            for (int j = 0; j < A::n; j++) {
                v[j] = normalized(v[j], center[j], factor[j], offset[j]);
                if (add) v[j] += a[j];
                if (relu) v[j] = ls__relu(v[j]);
            }
            A::store(y + (row - r * tile_rows) * s.channels + p.c, v);
        }
    }
}

/* `scale` is an operand's index; shift is the next operand. */
static int apply(const ls__cuda_call *call, ls__columns s, int scale, const float *mean,
                 const float *invstd)
{
    void *const *b = call->buffers;
    return ls__with_access(&call->op->operands[0], s.channels, [=](auto access) {
        typedef decltype(access) A;
        typedef typename A::stored T;
        return LS__LAUNCH(apply_kernel<A>, ls__columns_blocks(&s), LS__BLOCK, call->stream, s,
                          (const T *)b[0], (const float *)b[scale], (const float *)b[scale + 1],
                          mean, invstd, (const T *)b[5], call->op->u.norm.relu, (T *)b[6]);
    });
}

static statistics statistics_of(const ls__cuda_call *call, int running_mean, int mean)
{
    void *const *b = call->buffers;
    statistics out;
    out.running_mean = (float *)b[running_mean];
    out.running_var = (float *)b[running_mean + 1];
    out.mean = (float *)b[mean];
    out.invstd = (float *)b[mean + 1];
    out.epsilon = call->op->u.norm.epsilon;
    out.momentum = call->op->u.norm.momentum;
    return out;
}

int ls__cuda_batch_norm(const ls__cuda_call *call)
{
    const ls__columns s = shape_of(call->op);
    void *const *b = call->buffers;
    float *sums = (float *)call->workspace;
    const statistics out = statistics_of(call, 3, 7);
    const int status = ls__with_access(&call->op->operands[0], s.channels, [=](auto access) {
        typedef decltype(access) A;
        typedef typename A::stored T;
        const int started = LS__LAUNCH(statistics_kernel<A>, ls__columns_blocks(&s), LS__BLOCK,
                                       call->stream, s, (const T *)b[0], sums);
        if (started != 0) return started;
        return LS__LAUNCH(finish_statistics_kernel<T>, (unsigned)s.channels, LS__COLUMN_THREADS,
                          call->stream, s, (const T *)b[0], (const float *)sums, out);
    });
    if (status != 0) return status;
    return apply(call, s, 1, (const float *)b[7], (const float *)b[8]);
}

static __global__ void invstd_kernel(const float *variance, float epsilon, float *invstd,
                                     int64_t count)
{
    LS__FOR_EACH(i, count) invstd[i] = (float)(1 / sqrt((double)variance[i] + (double)epsilon));
}

int ls__cuda_batch_norm_eval(const ls__cuda_call *call)
{
    const ls__columns s = shape_of(call->op);
    float *invstd = (float *)call->workspace;
    const int status =
        LS__LAUNCH(invstd_kernel, ls__blocks_for(s.channels), LS__BLOCK, call->stream,
                   (const float *)call->buffers[4], call->op->u.norm.epsilon, invstd, s.channels);
    if (status != 0) return status;
    return apply(call, s, 1, (const float *)call->buffers[3], invstd);
}

/* sum squares scale shift running_mean running_var -> mean invstd a b */
template <typename T>
static __global__ void finalize_kernel(int64_t channels, double m, const float *sum,
                                       const float *squares, const float *scale, const float *shift,
                                       statistics out, T *a, T *b)
{
    LS__FOR_EACH(c, channels)
    {
        const double average = (double)sum[c] / m;
        const double invstd =
            keep_statistics(out, c, m, average, (double)squares[c] / m - average * average);
        const double factor = invstd * (double)scale[c];
        ls__put(a + c, (float)factor);
        ls__put(b + c, (float)((double)shift[c] - average * factor));
    }
}

int ls__cuda_norm_finalize(const ls__cuda_call *call)
{
    void *const *b = call->buffers;
    const int64_t channels = call->op->operands[0].shape.dims[0];
    const statistics out = statistics_of(call, 4, 6);
    return ls__with_type(&call->op->operands[8], [=](auto type) {
        typedef decltype(type) T;
        return LS__LAUNCH(finalize_kernel<T>, ls__blocks_for(channels), LS__BLOCK, call->stream,
                          channels, (double)call->op->u.norm.count, (const float *)b[0],
                          (const float *)b[1], (const float *)b[2], (const float *)b[3], out,
                          (T *)b[8], (T *)b[9]);
    });
}

int ls__cuda_norm_apply(const ls__cuda_call *call)
{
    void *const *b = call->buffers;
    return apply(call, shape_of(call->op), 3, (const float *)b[1], (const float *)b[2]);
}

/* ---- Backward ---- */

template <typename T> struct backward_operands {
    const T *x, *y, *dy1, *dy2;
    const float *scale, *mean, *invstd, *shift;
    T *dx, *dadd;
    bool relu;
};

/* The parameters of a thread's channels. MASKED: the ReLU's mask is computed from x, as y was. */
template <int N, bool MASKED> struct backward_channels {
    float center[N], invstd[N], factor[N], shift[N];

    template <typename T> __device__ backward_channels(const backward_operands<T> &o, int64_t c)
    {
        ls__load_channels<N>(o.mean + c, center);
        ls__load_channels<N>(o.invstd + c, invstd);
        ls__load_channels<N>(o.scale + c, factor);
        if (MASKED) ls__load_channels<N>(o.shift + c, shift);
        LS__UNROLL
        for (int j = 0; j < N; j++) factor[j] *= invstd[j];
    }
};

/* A thread's elements from i on. */
template <typename A, bool MASKED> struct backward_raw {
    typename A::raw x, first, second, y;

    __device__ void fetch(const backward_operands<typename A::stored> &o, int64_t i)
    {
        x = A::fetch(o.x + i);
        first = A::fetch(o.dy1 + i);
        second = o.dy2 ? A::fetch(o.dy2 + i) : first;
        y = !MASKED && o.relu ? A::fetch(o.y + i) : first;
    }

    /* The mask is y > 0 of the stored y: a positive value may have been rounded to 0. */
    __device__ void gradient(const backward_operands<typename A::stored> &o,
                             const backward_channels<A::n, MASKED> &of, float *x_f32,
                             float *dy) const
    {
        float more[A::n], y_f32[A::n];
        A::to_f32(x, x_f32);
        A::to_f32(first, dy);
        A::to_f32(second, more);
        A::to_f32(y, y_f32);
        LS__UNROLL
        for (int j = 0; j < A::n; j++) {
            if (MASKED)
                y_f32[j] = ls__rounded<typename A::stored>(
                    normalized(x_f32[j], of.center[j], of.factor[j], of.shift[j]));
            if (o.dy2) dy[j] += more[j];
            if ((MASKED || o.relu) && !(y_f32[j] > 0)) dy[j] = 0;
        }
    }
};

template <typename A, bool MASKED>
static __global__ void backward_sums_kernel(ls__columns s, backward_operands<typename A::stored> o,
                                            float *sums)
{
    enum { tile_rows = ls__tile<A>::tile_rows, rows = BACKWARD_ROWS(MASKED) };
    const ls__columns_span p = ls__columns_span_of<A>(s, blockIdx.x);
    const backward_channels<A::n, MASKED> of(o, p.c < s.channels ? p.c : 0);
    float own[2][A::n] = {};
    for (int64_t row = p.first; row <= p.last; row += rows * tile_rows) {
        backward_raw<A, MASKED> raw[rows];
        LS__UNROLL
        for (int r = 0; r < rows; r++)
            raw[r].fetch(
                o, (row + r * tile_rows <= p.last ? row + r * tile_rows : row) * s.channels + p.c);
        LS__UNROLL
        for (int r = 0; r < rows; r++) {
            const int64_t i = (row + r * tile_rows) * s.channels + p.c;
            float x[A::n], dy[A::n];
            raw[r].gradient(o, of, x, dy);
            if (row + r * tile_rows > p.last) break;
            LS__UNROLL
            for (int j = 0; j < A::n; j++) {
                own[0][j] += dy[j];
                own[1][j] = fmaf(dy[j], (x[j] - of.center[j]) * of.invstd[j], own[1][j]);
            }
            if (o.dadd) A::store(o.dadd + i, dy); /* which may be dy1's or dy2's memory */
        }
    }
    ls__columns_store<A, 2>(s, p, own, sums);
}

static __global__ void backward_finish_kernel(ls__columns s, const float *sums, float *dscale,
                                              float *dshift, float *means)
{
    __shared__ double shared[LS__COLUMN_THREADS];
    const int64_t c = blockIdx.x;
    const double shift_sum = ls__columns_total(s, 0, c, sums, shared);
    const double scale_sum = ls__columns_total(s, 1, c, sums, shared);
    if (threadIdx.x != 0) return;
    dscale[c] = (float)scale_sum;
    dshift[c] = (float)shift_sum;
    means[c] = (float)(shift_sum / (double)s.rows);
    means[s.channels + c] = (float)(scale_sum / (double)s.rows);
}

template <typename A, bool MASKED>
static __global__ void backward_apply_kernel(ls__columns s, backward_operands<typename A::stored> o,
                                             const float *means)
{
    enum { tile_rows = ls__tile<A>::tile_rows, rows = BACKWARD_ROWS(MASKED) };
    const ls__columns_span p = ls__columns_span_from_end<A>(s);
    if (p.last < p.first) return;
    const backward_channels<A::n, MASKED> of(o, p.c);
    float shift_mean[A::n], scale_mean[A::n];
    ls__load_channels<A::n>(means + p.c, shift_mean);
    ls__load_channels<A::n>(means + s.channels + p.c, scale_mean);
    for (int64_t row = p.last; row >= p.first; row -= rows * tile_rows) {
        backward_raw<A, MASKED> raw[rows];
        LS__UNROLL
        for (int r = 0; r < rows; r++)
            raw[r].fetch(
                o, (row - r * tile_rows >= p.first ? row - r * tile_rows : row) * s.channels + p.c);
        LS__UNROLL
        for (int r = 0; r < rows; r++) {
            float x[A::n], dy[A::n];
            raw[r].gradient(o, of, x, dy);
            if (row - r * tile_rows < p.first) break;
            LS__UNROLL
            for (int j = 0; j < A::n; j++) {
                const float normal = (x[j] - of.center[j]) * of.invstd[j];
                dy[j] = of.factor[j] * fmaf(-normal, scale_mean[j], dy[j] - shift_mean[j]);
            }
            /* which may be dy1's or dy2's memory */
            A::store(o.dx + (row - r * tile_rows) * s.channels + p.c, dy);
        }
    }
}

/* The sums and dadd; then the results of the sums. */
template <typename A, bool MASKED>
static int backward_sums(const ls__cuda_call *call, ls__columns s,
                         const backward_operands<typename A::stored> &o, float *sums, float *means)
{
    void *const *b = call->buffers;
    const int status = LS__LAUNCH((backward_sums_kernel<A, MASKED>), ls__columns_blocks(&s),
                                  LS__BLOCK, call->stream, s, o, sums);
    if (status != 0) return status;
    return LS__LAUNCH(backward_finish_kernel, (unsigned)s.channels, LS__COLUMN_THREADS,
                      call->stream, s, (const float *)sums, (float *)b[9], (float *)b[10], means);
}

template <typename A, bool MASKED>
static int backward_apply(const ls__cuda_call *call, ls__columns s,
                          const backward_operands<typename A::stored> &o, const float *means)
{
    return LS__LAUNCH((backward_apply_kernel<A, MASKED>), ls__columns_blocks(&s), LS__BLOCK,
                      call->stream, s, o, means);
}

template <typename A> static int backward(const ls__cuda_call *call, ls__columns s)
{
    typedef typename A::stored T;
    void *const *b = call->buffers;
    backward_operands<T> o;
    o.x = (const T *)b[0];
    o.y = (const T *)b[1];
    o.dy1 = (const T *)b[2];
    o.dy2 = (const T *)b[3];
    o.scale = (const float *)b[4];
    o.mean = (const float *)b[5];
    o.invstd = (const float *)b[6];
    o.shift = (const float *)b[7];
    o.dx = (T *)b[8];
    o.dadd = (T *)b[11];
    o.relu = call->op->u.norm.relu;
    float *sums = (float *)call->workspace, *means = sums + 2 * s.chunks * s.channels;
    const bool masked = o.relu && o.shift;
    const int status = masked ? backward_sums<A, true>(call, s, o, sums, means)
                              : backward_sums<A, false>(call, s, o, sums, means);
    if (status != 0) return status;
    if (masked && !o.dadd) return backward_apply<A, true>(call, s, o, means);
    if (o.dadd) { /* it holds dy1 + dy2 after the ReLU */
        o.dy1 = o.dadd;
        o.dy2 = NULL;
        o.relu = false;
    }
    return backward_apply<A, false>(call, s, o, means);
}

int ls__cuda_batch_norm_backward(const ls__cuda_call *call)
{
    const ls__columns s = shape_of(call->op);
    return ls__with_access(&call->op->operands[0], s.channels,
                           [=](auto access) { return backward<decltype(access)>(call, s); });
}

template <typename A>
static __global__ void factors_apply_kernel(ls__columns s, const typename A::stored *dz,
                                            const typename A::stored *x, const float *p,
                                            const float *q, const float *r, typename A::stored *dx)
{
    enum { tile_rows = ls__tile<A>::tile_rows };
    const ls__columns_span at = ls__columns_span_from_end<A>(s);
    if (at.last < at.first) return;
    float by_dz[A::n], by_x[A::n], offset[A::n];
    ls__load_channels<A::n>(p + at.c, by_dz);
    ls__load_channels<A::n>(q + at.c, by_x);
    ls__load_channels<A::n>(r + at.c, offset);
    for (int64_t row = at.last; row >= at.first; row -= ROWS / 2 * tile_rows) {
        typename A::raw raw_x[ROWS / 2], raw_dz[ROWS / 2];
        fetch_upwards<A>(s, at, row, x, dz, raw_x, raw_dz);
        LS__UNROLL
        for (int k = 0; k < ROWS / 2; k++) {
            float own[A::n], gradient[A::n];
            A::to_f32(raw_x[k], own);
            A::to_f32(raw_dz[k], gradient);
            if (row - k * tile_rows < at.first) break;
            LS__UNROLL
            for (int j = 0; j < A::n; j++)
                gradient[j] = fmaf(by_dz[j], gradient[j], fmaf(by_x[j], own[j], offset[j]));
            /* which may be dz's memory */
            A::store(dx + (row - k * tile_rows) * s.channels + at.c, gradient);
        }
    }
}

int ls__cuda_norm_backward_apply(const ls__cuda_call *call)
{
    const ls__columns s = shape_of(call->op);
    void *const *b = call->buffers;
    return ls__with_access(&call->op->operands[0], s.channels, [=](auto access) {
        typedef decltype(access) A;
        typedef typename A::stored T;
        return LS__LAUNCH(factors_apply_kernel<A>, ls__columns_blocks(&s), LS__BLOCK, call->stream,
                          s, (const T *)b[0], (const T *)b[1], (const float *)b[2],
                          (const float *)b[3], (const float *)b[4], (T *)b[5]);
    });
}
