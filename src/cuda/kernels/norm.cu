/* norm.cu: batch normalization, with sums over the batch in a fixed order (columns.h).
 *
 * Forward reads x twice: for the statistics, then to write y. Backward reads its operands twice. If
 * dadd is present, the second kernel reads only dadd and x. Where y can be computed from x, the
 * activation's mask is computed too, and y is not read.
 *
 * Variances are sums of squares of x - pivot. The pivot is the channel's first value. It is within
 * a few std of the mean, so no precision is lost by cancellation. NORM_FINALIZE has no pivot,
 * because its sums come from convolutions. */
#include "arith/activation.h"
#include "arith/norm_sums.h"
#include "cuda/kernels/columns.h"

static ls__columns shape_of(const ls__op *op)
{
    const ls_shape *x = &op->operands[0].shape;
    const int64_t channels = x->dims[x->n_dims - 1];
    return ls__columns_of(&op->operands[0], ls_shape_element_count(x) / channels, channels);
}

/* Two sums per channel and chunk, then two results per channel. */
size_t ls__cuda_batch_norm_workspace(const ls__op *op)
{
    const ls__columns s = shape_of(op);
    return ls__columns_bytes(&s, 2) + 2 * (size_t)s.channels * sizeof(float);
}

/* f(A()), with the activation as A::value. */
template <typename F> static int with_activation(const ls__op *op, F f)
{
    switch (op->u.norm.activation) {
    case LS__ACTIVATION_RELU:
        return f(std::integral_constant<ls__activation, LS__ACTIVATION_RELU>());
    case LS__ACTIVATION_RELU6:
        return f(std::integral_constant<ls__activation, LS__ACTIVATION_RELU6>());
    default: return f(std::integral_constant<ls__activation, LS__ACTIVATION_NONE>());
    }
}

/* The order of a thread's rows. */
enum { DOWN = 1, UP = -1 };

/* Loads a thread's rows, N at once: values = fetch(i), i being the index of the row's first element
 * for the thread. Then use(values, i, inside) for each row, until it returns false. In place of a
 * row outside the thread's range, the current row is loaded again, and `inside` is false. `use`
 * converts the values before it tests `inside`, so that no load moves behind the branch. */
template <typename A, int ORDER, int N, typename Fetch, typename Use>
static __device__ inline void for_each_row(const ls__columns &s, const ls__columns_span &p,
                                           Fetch fetch, Use use)
{
    enum { step = ORDER * (int)ls__tile<A>::tile_rows };
    const auto is_inside = [&](int64_t row) { return ORDER > 0 ? row <= p.last : row >= p.first; };
    for (int64_t row = ORDER > 0 ? p.first : p.last; is_inside(row); row += N * step) {
        decltype(fetch(row)) values[N];
        LS__UNROLL
        for (int r = 0; r < N; r++)
            values[r] =
                fetch((is_inside(row + r * step) ? row + r * step : row) * s.channels + p.c);
        LS__UNROLL
        for (int r = 0; r < N; r++)
            if (!use(values[r], (row + r * step) * s.channels + p.c, is_inside(row + r * step)))
                break;
    }
}

/* Elements of two operands. */
template <typename A> struct raw_pair {
    typename A::raw first, second;
};

/* ---- Forward ---- */

template <typename A>
static __global__ void statistics_kernel(ls__columns s, const typename A::stored *x, float *sums)
{
    enum { tile_rows = ls__tile<A>::tile_rows, N = 4 };
    const ls__columns_span p = ls__columns_span_of<A>(s, blockIdx.x);
    float own[2][A::n] = {}, pivot[A::n] = {};
    if (p.first <= p.last) ls__load<A>(x + p.c, pivot);
    /* This loop repeats for_each_row, which takes 10 registers more here, so that fewer blocks run
     * at once. */
    for (int64_t row = p.first; row <= p.last; row += N * tile_rows) {
        typename A::raw raw[N];
        LS__UNROLL
        for (int r = 0; r < N; r++)
            raw[r] = A::fetch(
                x + (row + r * tile_rows <= p.last ? row + r * tile_rows : row) * s.channels + p.c);
        LS__UNROLL
        for (int r = 0; r < N; r++) {
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

/* The shard's row of rows [shards,4,C]. */
static __device__ float *row_of_shard(float *rows, int64_t channels, const ls__step *step)
{
    return rows + step->shard * LS__NORM_SUMS * channels;
}

template <typename T>
static __global__ void finish_moments_kernel(ls__columns s, const T *x, const float *sums,
                                             float *moments, const ls__step *step)
{
    __shared__ double shared[LS__COLUMN_THREADS];
    const int64_t c = blockIdx.x;
    const double sum = ls__columns_total(s, 0, c, sums, shared);
    const double squares = ls__columns_total(s, 1, c, sums, shared);
    if (threadIdx.x != 0) return;
    const double m = (double)s.rows, pivot = (double)ls__to_f32(x[c]);
    ls__norm_sums_put(row_of_shard(moments, s.channels, step), s.channels, c, sum + m * pivot,
                      squares + pivot * (2 * sum + m * pivot));
}

/* moments running_mean running_var -> mean invstd */
static __global__ void norm_statistics_kernel(const float *moments, int64_t channels, int64_t count,
                                              const ls__step *step, statistics out)
{
    LS__FOR_EACH(c, channels)
    {
        const ls__norm_moments m =
            ls__norm_moments_of(moments, step->n_shards, channels, c, step->n_samples * count);
        keep_statistics(out, c, m.count, m.mean, m.variance);
    }
}

/* The result before the addition and the activation; factor = invstd * scale. */
static __device__ float normalized(float x, float mean, float factor, float shift)
{
    return fmaf(x - mean, factor, shift);
}

template <typename A, ls__activation ACTIVATION>
static __global__ void apply_kernel(ls__columns s, const typename A::stored *x, const float *scale,
                                    const float *shift, const float *mean, const float *invstd,
                                    const typename A::stored *add, typename A::stored *y)
{
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
    for_each_row<A, UP, 2>(
        s, p,
        [=](int64_t i) {
            raw_pair<A> raw = { A::fetch(x + i), {} };
            raw.second = add ? A::fetch(add + i) : raw.first;
            return raw;
        },
        [&](const raw_pair<A> &raw, int64_t i, bool inside) {
            float v[A::n], a[A::n];
            A::to_f32(raw.first, v);
            A::to_f32(raw.second, a);
            if (!inside) return false;
            LS__UNROLL
            for (int j = 0; j < A::n; j++) {
                v[j] = normalized(v[j], center[j], factor[j], offset[j]);
                if (add) v[j] += a[j];
                v[j] = ls__activate(ACTIVATION, v[j]);
            }
            A::store(y + i, v);
            return true;
        });
}

/* `scale` is an operand's index; shift is the next operand. */
static int apply(const ls__cuda_call *call, ls__columns s, int scale, const float *mean,
                 const float *invstd)
{
    void *const *b = call->buffers;
    return ls__with_access(&call->op->operands[0], s.channels, [=](auto access) {
        typedef decltype(access) A;
        typedef typename A::stored T;
        return with_activation(call->op, [=](auto activation) {
            return LS__LAUNCH((apply_kernel<A, decltype(activation)::value>),
                              ls__columns_blocks(&s), LS__BLOCK, call->stream, s, (const T *)b[0],
                              (const float *)b[scale], (const float *)b[scale + 1], mean, invstd,
                              (const T *)b[5], (T *)b[6]);
        });
    });
}

static statistics statistics_of(const ls__cuda_call *call, int running_mean, int mean)
{
    void *const *b = call->buffers;
    return { (float *)b[running_mean], (float *)b[running_mean + 1], (float *)b[mean],
             (float *)b[mean + 1],     call->op->u.norm.epsilon,     call->op->u.norm.momentum };
}

/* Sums x, then calls finish(x, sums). */
template <typename Finish>
static int with_statistics(const ls__cuda_call *call, ls__columns s, Finish finish)
{
    return ls__with_access(&call->op->operands[0], s.channels, [=](auto access) {
        typedef decltype(access) A;
        typedef typename A::stored T;
        const T *x = (const T *)call->buffers[0];
        float *sums = (float *)call->workspace;
        const int status = LS__LAUNCH(statistics_kernel<A>, ls__columns_blocks(&s), LS__BLOCK,
                                      call->stream, s, x, sums);
        return status != 0 ? status : finish(x, (const float *)sums);
    });
}

int ls__cuda_batch_norm(const ls__cuda_call *call)
{
    const ls__columns s = shape_of(call->op);
    const statistics out = statistics_of(call, 3, 7);
    const int status = with_statistics(call, s, [=](const auto *x, const float *sums) {
        typedef std::remove_const_t<std::remove_pointer_t<decltype(x)>> T;
        return LS__LAUNCH(finish_statistics_kernel<T>, (unsigned)s.channels, LS__COLUMN_THREADS,
                          call->stream, s, x, sums, out);
    });
    if (status != 0) return status;
    return apply(call, s, 1, out.mean, out.invstd);
}

int ls__cuda_norm_moments(const ls__cuda_call *call)
{
    const ls__columns s = shape_of(call->op);
    return with_statistics(call, s, [=](const auto *x, const float *sums) {
        typedef std::remove_const_t<std::remove_pointer_t<decltype(x)>> T;
        return LS__LAUNCH(finish_moments_kernel<T>, (unsigned)s.channels, LS__COLUMN_THREADS,
                          call->stream, s, x, sums, (float *)call->buffers[1], call->step);
    });
}

int ls__cuda_norm_statistics(const ls__cuda_call *call)
{
    const int64_t channels = call->op->operands[0].shape.dims[2];
    return LS__LAUNCH(norm_statistics_kernel, ls__blocks_for(channels), LS__BLOCK, call->stream,
                      (const float *)call->buffers[0], channels, call->op->u.norm.count, call->step,
                      statistics_of(call, 1, 3));
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
};

/* The parameters of a thread's channels. MASKED: the activation's mask is computed from x, as y
 * was. */
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
template <typename A, ls__activation ACTIVATION, bool MASKED> struct backward_raw {
    typename A::raw x, first, second, y;

    static __device__ backward_raw fetch(const backward_operands<typename A::stored> &o, int64_t i)
    {
        backward_raw raw;
        raw.x = A::fetch(o.x + i);
        raw.first = A::fetch(o.dy1 + i);
        raw.second = o.dy2 ? A::fetch(o.dy2 + i) : raw.first;
        raw.y = ACTIVATION != LS__ACTIVATION_NONE && !MASKED ? A::fetch(o.y + i) : raw.first;
        return raw;
    }

    /* The mask is that of the stored y: a positive value may have been rounded to 0, or to 6. */
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
            dy[j] = ls__activation_gradient(ACTIVATION, y_f32[j], dy[j]);
        }
    }
};

/* Rows that a thread loads at once: two where it reads x and one gradient. */
template <typename A, ls__activation ACTIVATION, bool MASKED, int ORDER, typename Use>
static __device__ inline void for_each_gradient(const ls__columns &s, const ls__columns_span &p,
                                                const backward_operands<typename A::stored> &o,
                                                const backward_channels<A::n, MASKED> &of, Use use)
{
    for_each_row<A, ORDER, MASKED ? 2 : 1>(
        s, p, [&](int64_t i) { return backward_raw<A, ACTIVATION, MASKED>::fetch(o, i); },
        [&](const backward_raw<A, ACTIVATION, MASKED> &raw, int64_t i, bool inside) {
            float x[A::n], dy[A::n];
            raw.gradient(o, of, x, dy);
            if (inside) use(x, dy, i);
            return inside;
        });
}

template <typename A, ls__activation ACTIVATION, bool MASKED>
static __global__ void backward_sums_kernel(ls__columns s, backward_operands<typename A::stored> o,
                                            float *sums)
{
    const ls__columns_span p = ls__columns_span_of<A>(s, blockIdx.x);
    const backward_channels<A::n, MASKED> of(o, p.c < s.channels ? p.c : 0);
    float own[2][A::n] = {};
    for_each_gradient<A, ACTIVATION, MASKED, DOWN>(
        s, p, o, of, [&](const float *x, float *dy, int64_t i) {
            LS__UNROLL
            for (int j = 0; j < A::n; j++) {
                own[0][j] += dy[j];
                own[1][j] = fmaf(dy[j], (x[j] - of.center[j]) * of.invstd[j], own[1][j]);
            }
            if (o.dadd) A::store(o.dadd + i, dy); /* which may be dy1's or dy2's memory */
        });
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

static __global__ void finish_products_kernel(ls__columns s, const float *sums, float *dscale,
                                              float *dshift, float *products, const ls__step *step)
{
    __shared__ double shared[LS__COLUMN_THREADS];
    const int64_t c = blockIdx.x;
    const double shift_sum = ls__columns_total(s, 0, c, sums, shared);
    const double scale_sum = ls__columns_total(s, 1, c, sums, shared);
    if (threadIdx.x != 0) return;
    dscale[c] = (float)scale_sum;
    dshift[c] = (float)shift_sum;
    ls__norm_sums_put(row_of_shard(products, s.channels, step), s.channels, c, shift_sum,
                      scale_sum);
}

/* products scale mean invstd -> p q r */
static __global__ void coefficients_kernel(const float *products, int64_t channels, int64_t count,
                                           const ls__step *step, const float *scale,
                                           const float *mean, const float *invstd, float *p,
                                           float *q, float *r)
{
    LS__FOR_EACH(c, channels)
    ls__norm_coefficients(products, step->n_shards, channels, c, step->n_samples * count, scale[c],
                          mean[c], invstd[c], p + c, q + c, r + c);
}

template <typename A, ls__activation ACTIVATION, bool MASKED>
static __global__ void backward_apply_kernel(ls__columns s, backward_operands<typename A::stored> o,
                                             const float *means)
{
    const ls__columns_span p = ls__columns_span_from_end<A>(s);
    if (p.last < p.first) return;
    const backward_channels<A::n, MASKED> of(o, p.c);
    float shift_mean[A::n], scale_mean[A::n];
    ls__load_channels<A::n>(means + p.c, shift_mean);
    ls__load_channels<A::n>(means + s.channels + p.c, scale_mean);
    for_each_gradient<A, ACTIVATION, MASKED, UP>(
        s, p, o, of, [&](const float *x, float *dy, int64_t i) {
            LS__UNROLL
            for (int j = 0; j < A::n; j++) {
                const float normal = (x[j] - of.center[j]) * of.invstd[j];
                dy[j] = of.factor[j] * fmaf(-normal, scale_mean[j], dy[j] - shift_mean[j]);
            }
            A::store(o.dx + i, dy); /* which may be dy1's or dy2's memory */
        });
}

/* The sums and dadd, then the results of the sums, then dx unless the op is a shard's share. */
template <typename A, ls__activation ACTIVATION, bool MASKED>
static int backward(const ls__cuda_call *call, ls__columns s,
                    backward_operands<typename A::stored> o)
{
    void *const *b = call->buffers;
    const unsigned blocks = ls__columns_blocks(&s), channels = (unsigned)s.channels;
    float *sums = (float *)call->workspace, *means = sums + 2 * s.chunks * s.channels;
    int status = LS__LAUNCH((backward_sums_kernel<A, ACTIVATION, MASKED>), blocks, LS__BLOCK,
                            call->stream, s, o, sums);
    if (status != 0) return status;
    if (!o.dx)
        return LS__LAUNCH(finish_products_kernel, channels, LS__COLUMN_THREADS, call->stream, s,
                          (const float *)sums, (float *)b[9], (float *)b[10], (float *)b[8],
                          call->step);
    status = LS__LAUNCH(backward_finish_kernel, channels, LS__COLUMN_THREADS, call->stream, s,
                        (const float *)sums, (float *)b[9], (float *)b[10], means);
    if (status != 0) return status;
    if (!o.dadd)
        return LS__LAUNCH((backward_apply_kernel<A, ACTIVATION, MASKED>), blocks, LS__BLOCK,
                          call->stream, s, o, (const float *)means);
    o.dy1 = o.dadd; /* dy1 + dy2 after the activation */
    o.dy2 = NULL;
    return LS__LAUNCH((backward_apply_kernel<A, LS__ACTIVATION_NONE, false>), blocks, LS__BLOCK,
                      call->stream, s, o, (const float *)means);
}

/* BATCH_NORM_BACKWARD, or NORM_BACKWARD_PRODUCTS, whose operand 8 is `products`. */
int ls__cuda_batch_norm_backward(const ls__cuda_call *call)
{
    const ls__columns s = shape_of(call->op);
    void *const *b = call->buffers;
    void *dx = call->op->kind == LS__OP_BATCH_NORM_BACKWARD ? b[8] : NULL;
    return ls__with_access(&call->op->operands[0], s.channels, [=](auto access) {
        typedef decltype(access) A;
        typedef typename A::stored T;
        const backward_operands<T> o = {
            (const T *)b[0],     (const T *)b[1],     (const T *)b[2],
            (const T *)b[3],     (const float *)b[4], (const float *)b[5],
            (const float *)b[6], (const float *)b[7], (T *)dx,
            (T *)b[11]
        };
        return with_activation(call->op, [=](auto activation) {
            constexpr ls__activation ACTIVATION = decltype(activation)::value;
            return o.shift ? backward<A, ACTIVATION, ACTIVATION != LS__ACTIVATION_NONE>(call, s, o)
                           : backward<A, ACTIVATION, false>(call, s, o);
        });
    });
}

int ls__cuda_norm_backward_coefficients(const ls__cuda_call *call)
{
    const int64_t channels = call->op->operands[0].shape.dims[2];
    void *const *b = call->buffers;
    return LS__LAUNCH(coefficients_kernel, ls__blocks_for(channels), LS__BLOCK, call->stream,
                      (const float *)b[0], channels, call->op->u.norm.count, call->step,
                      (const float *)b[1], (const float *)b[2], (const float *)b[3], (float *)b[4],
                      (float *)b[5], (float *)b[6]);
}

/* dx = p dz + q x + r */
template <typename A>
static __global__ void norm_backward_apply_kernel(ls__columns s, const typename A::stored *dz,
                                                  const typename A::stored *x, const float *p,
                                                  const float *q, const float *r,
                                                  typename A::stored *dx)
{
    const ls__columns_span at = ls__columns_span_from_end<A>(s);
    if (at.last < at.first) return;
    float by_dz[A::n], by_x[A::n], offset[A::n];
    ls__load_channels<A::n>(p + at.c, by_dz);
    ls__load_channels<A::n>(q + at.c, by_x);
    ls__load_channels<A::n>(r + at.c, offset);
    for_each_row<A, UP, 2>(
        s, at,
        [=](int64_t i) {
            return raw_pair<A>{ A::fetch(x + i), A::fetch(dz + i) };
        },
        [&](const raw_pair<A> &raw, int64_t i, bool inside) {
            float own[A::n], gradient[A::n];
            A::to_f32(raw.first, own);
            A::to_f32(raw.second, gradient);
            if (!inside) return false;
            LS__UNROLL
            for (int j = 0; j < A::n; j++)
                gradient[j] = fmaf(by_dz[j], gradient[j], fmaf(by_x[j], own[j], offset[j]));
            A::store(dx + i, gradient); /* which may be dz's memory */
            return true;
        });
}

int ls__cuda_norm_backward_apply(const ls__cuda_call *call)
{
    const ls__columns s = shape_of(call->op);
    void *const *b = call->buffers;
    return ls__with_access(&call->op->operands[0], s.channels, [=](auto access) {
        typedef decltype(access) A;
        typedef typename A::stored T;
        return LS__LAUNCH(norm_backward_apply_kernel<A>, ls__columns_blocks(&s), LS__BLOCK,
                          call->stream, s, (const T *)b[0], (const T *)b[1], (const float *)b[2],
                          (const float *)b[3], (const float *)b[4], (T *)b[5]);
    });
}
