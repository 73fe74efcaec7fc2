/* depthwise.cu: depthwise convolutions (groups = channels, one filter per channel). A thread
 * computes a pack of channels, so every access to an activation is of 16 bytes where the channels
 * are whole packs. Sums are f32: over taps in order; for a weight's gradient over pixels, by
 * columns.h. */
#include "cuda/kernels/columns.h"
#include "cuda/kernels/divide.h"

enum { COLUMNS = 4 /* of results for each weight that a thread loads */ };

/* source [n,h,w,channels], result [n,p,q,channels]: x and y, backward by data dy and dx, for the
 * weights' gradients x and dy. */
template <typename I> struct depthwise_shape {
    I count /* of threads */, channels, packs, h, w, p, q;
    I kernel[2], stride[2], padding[2], dilation[2];
    ls__divisor<I> by_packs, by_groups /* of columns */, by_p, by_q, by_stride[2];
};

template <typename I>
static depthwise_shape<I> shape_of(const ls__op *op, int source, int result, int64_t pack)
{
    const int64_t *in = op->operands[source].shape.dims, *out = op->operands[result].shape.dims;
    const int64_t groups = (out[2] + COLUMNS - 1) / COLUMNS;
    depthwise_shape<I> g;
    g.channels = (I)in[3];
    g.packs = (I)(in[3] / pack);
    g.h = (I)in[1];
    g.w = (I)in[2];
    g.p = (I)out[1];
    g.q = (I)out[2];
    g.count = (I)(out[0] * out[1] * groups * (in[3] / pack));
    for (int i = 0; i < 2; i++) {
        g.kernel[i] = (I)op->u.conv.kernel[i];
        g.stride[i] = (I)op->u.conv.stride[i];
        g.padding[i] = (I)op->u.conv.padding[i];
        g.dilation[i] = (I)op->u.conv.dilation[i];
        g.by_stride[i] = ls__divisor<I>::of(g.stride[i]);
    }
    g.by_packs = ls__divisor<I>::of(g.packs);
    g.by_groups = ls__divisor<I>::of(groups);
    g.by_p = ls__divisor<I>::of(g.p);
    g.by_q = ls__divisor<I>::of(g.q);
    return g;
}

/* The source index that a tap reads for result index i, or -1. */
template <bool DATA, typename I>
static __device__ I source_index(const depthwise_shape<I> &g, int dim, I i, I tap)
{
    const I size = dim == 0 ? g.h : g.w;
    I at = i * g.stride[dim] + tap * g.dilation[dim] - g.padding[dim];
    if (DATA) {
        const I place = i + g.padding[dim] - tap * g.dilation[dim];
        if (place < 0) return -1;
        at = g.by_stride[dim].quotient(place);
        if (at * g.stride[dim] != place) return -1;
    }
    return at >= 0 && at < size ? at : -1;
}

/* w [channel][tap] as f32 [tap][channel] */
template <typename T>
static __global__ void pack_kernel(int32_t channels, int32_t taps, const T *w, float *packed)
{
    LS__FOR_EACH_OF(int32_t, i, channels * taps)
    packed[i] = ls__to_f32(w[i % channels * taps + i / channels]);
}

template <typename A, bool DATA, typename I>
static __global__ void correlate_kernel(depthwise_shape<I> g, const typename A::stored *source,
                                        const float *w, const typename A::stored *bias,
                                        typename A::stored *result)
{
    LS__FOR_EACH_OF(I, i, g.count)
    {
        const I group = g.by_packs.quotient(i), row = g.by_groups.quotient(group);
        const I n = g.by_p.quotient(row), c = (i - group * g.packs) * (I)A::n;
        const I q0 = (group - row * g.by_groups.by) * (I)COLUMNS;
        float sum[COLUMNS][A::n] = {};
        LS__UNROLL
        for (int j = 0; bias && j < A::n; j++) LS__UNROLL
        for (int k = 0; k < COLUMNS; k++) sum[k][j] = ls__to_f32(bias[c + j]);
        for (I r = 0; r < g.kernel[0]; r++) {
            const I h = source_index<DATA>(g, 0, row - n * g.p, r);
            if (h < 0) continue;
            const int64_t line = ((int64_t)n * g.h + h) * g.w;
            for (I s = 0; s < g.kernel[1]; s++) {
                float weight[A::n], x[A::n];
                ls__load_channels<A::n>(w + (int64_t)(r * g.kernel[1] + s) * g.channels + c,
                                        weight);
                LS__UNROLL
                for (int k = 0; k < COLUMNS; k++) {
                    const I column = source_index<DATA>(g, 1, q0 + (I)k, s);
                    if (column < 0) continue;
                    ls__load<A>(source + (line + column) * g.channels + c, x);
                    LS__UNROLL
                    for (int j = 0; j < A::n; j++) sum[k][j] = fmaf(x[j], weight[j], sum[k][j]);
                }
            }
        }
        LS__UNROLL
        for (int k = 0; k < COLUMNS; k++)
            if (q0 + (I)k < g.q)
                A::store(result + ((int64_t)row * g.q + q0 + k) * g.channels + c, sum[k]);
    }
}

static int64_t largest_count(const ls__op *op, int source, int result)
{
    const int64_t a = ls_shape_element_count(&op->operands[source].shape);
    const int64_t b = ls_shape_element_count(&op->operands[result].shape);
    return a > b ? a : b;
}

template <bool DATA> static int correlate(const ls__cuda_call *call, int result)
{
    const ls__op *op = call->op;
    void *const *b = call->buffers;
    const ls__operand *x = &op->operands[0];
    const int64_t channels = x->shape.dims[3];
    const int32_t taps = (int32_t)(op->u.conv.kernel[0] * op->u.conv.kernel[1]);
    float *packed = (float *)call->workspace;
    const int status = ls__with_type(x, [=](auto type) {
        typedef decltype(type) T;
        return LS__LAUNCH(pack_kernel<T>, ls__blocks_for(channels * taps), LS__BLOCK, call->stream,
                          (int32_t)channels, taps, (const T *)b[1], packed);
    });
    if (status != 0) return status;
    return ls__with_index(x, channels, largest_count(op, 0, result), [=](auto access, auto number) {
        typedef decltype(access) A;
        typedef decltype(number) I;
        typedef typename A::stored T;
        const auto g = shape_of<I>(op, 0, result, A::n);
        return LS__LAUNCH((correlate_kernel<A, DATA, I>), ls__blocks_for((int64_t)g.count),
                          LS__BLOCK, call->stream, g, (const T *)b[0], (const float *)packed,
                          (const T *)(DATA ? NULL : b[2]), (T *)b[result]);
    });
}

int ls__cuda_depthwise(const ls__cuda_call *call)
{
    return correlate<false>(call, 3);
}

int ls__cuda_depthwise_backward_data(const ls__cuda_call *call)
{
    return correlate<true>(call, 2);
}

/* ---- Weights' gradients. A launch sums SIDE x SIDE taps, so that a kernel of 3x3 reads x and dy
 * once. The sums of taps are [rounded up rows][rounded up columns] ---- */

enum { SIDE = 3 };

static int64_t rounded_up(int64_t side)
{
    return (side + SIDE - 1) / SIDE * SIDE;
}

template <typename A>
static __global__ void gradients_kernel(ls__columns s, depthwise_shape<int32_t> g, int32_t r0,
                                        int32_t s0, const typename A::stored *x,
                                        const typename A::stored *dy, float *sums, int64_t sums_row,
                                        int64_t sums_tap)
{
    const ls__columns_span span = ls__columns_span_of<A>(s, blockIdx.x);
    float own[SIDE][SIDE][A::n] = {};
    for (int64_t pixel = span.first; pixel <= span.last; pixel += ls__tile<A>::tile_rows) {
        const int32_t row = g.by_q.quotient((int32_t)pixel), q = (int32_t)pixel - row * g.q;
        const int32_t n = g.by_p.quotient(row), p = row - n * g.p;
        float gradient[A::n], v[A::n];
        ls__load<A>(dy + pixel * s.channels + span.c, gradient);
        LS__UNROLL
        for (int i = 0; i < SIDE; i++) {
            const int32_t h = source_index<false>(g, 0, p, r0 + (int32_t)i);
            if (h < 0 || r0 + (int32_t)i >= g.kernel[0]) continue;
            LS__UNROLL
            for (int j = 0; j < SIDE; j++) {
                const int32_t w = source_index<false>(g, 1, q, s0 + (int32_t)j);
                if (w < 0 || s0 + (int32_t)j >= g.kernel[1]) continue;
                ls__load<A>(x + (((int64_t)n * g.h + h) * g.w + w) * s.channels + span.c, v);
                LS__UNROLL
                for (int k = 0; k < A::n; k++) own[i][j][k] = fmaf(v[k], gradient[k], own[i][j][k]);
            }
        }
    }
    sums += r0 * sums_row + s0 * sums_tap;
    LS__UNROLL
    for (int i = 0; i < SIDE; i++) {
        __syncthreads();
        ls__columns_store<A, SIDE>(s, span, own[i], sums + i * sums_row);
    }
}

static __global__ void total_kernel(ls__columns s, unsigned taps, unsigned kernel_w,
                                    unsigned sums_columns, const float *sums, float *dw)
{
    __shared__ double shared[LS__COLUMN_THREADS];
    const unsigned c = blockIdx.x / taps, tap = blockIdx.x % taps;
    const unsigned which = tap / kernel_w * sums_columns + tap % kernel_w;
    const double total = ls__columns_total(s, (int)which, c, sums, shared);
    if (threadIdx.x == 0) dw[blockIdx.x] = (float)total;
}

static ls__columns columns_of(const ls__op *op)
{
    const ls__operand *dy = &op->operands[1];
    const int64_t channels = dy->shape.dims[3];
    return ls__columns_of(dy, ls_shape_element_count(&dy->shape) / channels, channels);
}

static int sum_gradients(const ls__cuda_call *call, const ls__columns &s)
{
    const ls__op *op = call->op;
    const void *x = call->buffers[0], *dy = call->buffers[1];
    const int64_t *kernel = op->u.conv.kernel;
    const int64_t sums_tap = s.channels * s.chunks, sums_row = rounded_up(kernel[1]) * sums_tap;
    for (int64_t r = 0; r < kernel[0]; r += SIDE)
        for (int64_t t = 0; t < kernel[1]; t += SIDE) {
            const int status = ls__with_access(&op->operands[1], s.channels, [=](auto access) {
                typedef decltype(access) A;
                typedef typename A::stored T;
                return LS__LAUNCH(gradients_kernel<A>, ls__columns_blocks(&s), LS__BLOCK,
                                  call->stream, s, shape_of<int32_t>(op, 0, 1, A::n), (int32_t)r,
                                  (int32_t)t, (const T *)x, (const T *)dy, (float *)call->workspace,
                                  sums_row, sums_tap);
            });
            if (status != 0) return status;
        }
    return 0;
}

int ls__cuda_depthwise_backward_weights(const ls__cuda_call *call)
{
    const ls__columns s = columns_of(call->op);
    const int64_t *kernel = call->op->u.conv.kernel;
    const unsigned taps = (unsigned)(kernel[0] * kernel[1]);
    int status = sum_gradients(call, s);
    if (status == 0)
        status =
            LS__LAUNCH(total_kernel, (unsigned)s.channels * taps, LS__COLUMN_THREADS, call->stream,
                       s, taps, (unsigned)kernel[1], (unsigned)rounded_up(kernel[1]),
                       (const float *)call->workspace, (float *)call->buffers[2]);
    if (status != 0 || !call->buffers[3]) return status;
    return ls__cuda_column_sums(&call->op->operands[1], call->buffers[1], s.rows, s.channels,
                                call->buffers[3], call->workspace, call->stream);
}

size_t ls__cuda_depthwise_workspace(const ls__op *op)
{
    const int64_t *kernel = op->u.conv.kernel;
    if (op->kind != LS__OP_CONV2D_BACKWARD_WEIGHTS)
        return (size_t)ls_shape_element_count(&op->operands[1].shape) * sizeof(float);
    const ls__columns s = columns_of(op);
    return ls__columns_bytes(&s, (int)(rounded_up(kernel[0]) * rounded_up(kernel[1])));
}

/* Pixels, weights, and taps in the padding have 32-bit indices. */
bool ls__cuda_is_depthwise(const ls__op *op)
{
    enum { MAX_INDEX = 1 << 30, MAX_TAPS = 1024 };
    const bool weights = op->kind == LS__OP_CONV2D_BACKWARD_WEIGHTS;
    const bool forward = op->kind == LS__OP_CONV2D;
    if (!forward && !weights && op->kind != LS__OP_CONV2D_BACKWARD_DATA) return false;
    const int64_t *in = op->operands[0].shape.dims;
    const int64_t *out = op->operands[forward ? 3 : weights ? 1 : 2].shape.dims;
    for (int i = 0; i < 2; i++)
        if (op->u.conv.kernel[i] > MAX_TAPS || op->u.conv.stride[i] > MAX_TAPS ||
            op->u.conv.padding[i] > MAX_TAPS || op->u.conv.dilation[i] > MAX_TAPS)
            return false;
    return in[3] > 1 && in[3] == out[3] && op->u.conv.groups == in[3] &&
           in[0] * in[1] * in[2] <= MAX_INDEX && out[0] * out[1] * out[2] <= MAX_INDEX &&
           in[3] * op->u.conv.kernel[0] * op->u.conv.kernel[1] <= MAX_INDEX;
}
