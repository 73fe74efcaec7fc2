/* direct.cu: convolutions and linear layers of any shape, one thread per result, sums in double in
 * a fixed order. A linear layer is a convolution of images of one pixel. */
#include "arith/element.h"
#include "cuda/kernels/access.h"

/* x [n,h,w,c], w [k,r,s,c/groups], y [n,p,q,k] */
typedef struct conv_shape {
    int64_t n, h, w, c, p, q, k, r, s, groups;
    int64_t stride[2], padding[2], dilation[2];
} conv_shape;

static conv_shape shape_of(const ls__cuda_call *call, int x, int y)
{
    const int64_t *in = call->op->operands[x].shape.dims, *out = call->op->operands[y].shape.dims;
    conv_shape g = { in[0], 1, 1, in[1], 1, 1, out[1], 1, 1, 1, { 1, 1 }, { 0, 0 }, { 1, 1 } };
    if (call->op->operands[x].shape.n_dims == 2) return g;
    const auto &conv = call->op->u.conv;
    g.h = in[1];
    g.w = in[2];
    g.c = in[3];
    g.p = out[1];
    g.q = out[2];
    g.k = out[3];
    g.r = conv.kernel[0];
    g.s = conv.kernel[1];
    g.groups = conv.groups;
    for (int i = 0; i < 2; i++) {
        g.stride[i] = conv.stride[i];
        g.padding[i] = conv.padding[i];
        g.dilation[i] = conv.dilation[i];
    }
    return g;
}

/* The input index of output index p and kernel index r, or -1 in the padding; and the reverse. */
static __device__ int64_t input_index(const conv_shape *g, int dim, int64_t size, int64_t p,
                                      int64_t r)
{
    const int64_t i = p * g->stride[dim] + r * g->dilation[dim] - g->padding[dim];
    return i >= 0 && i < size ? i : -1;
}

static __device__ int64_t output_index(const conv_shape *g, int dim, int64_t size, int64_t i,
                                       int64_t r)
{
    const int64_t p = i + g->padding[dim] - r * g->dilation[dim];
    return p >= 0 && p % g->stride[dim] == 0 && p / g->stride[dim] < size ? p / g->stride[dim] : -1;
}

template <typename T>
static __global__ void forward_kernel(conv_shape g, const T *x, const T *weights, const T *bias,
                                      bool relu, T *y)
{
    const int64_t in = g.c / g.groups, out = g.k / g.groups;
    LS__FOR_EACH(i, g.n * g.p * g.q * g.k)
    {
        const int64_t k = i % g.k, q = i / g.k % g.q, p = i / g.k / g.q % g.p;
        const int64_t n = i / g.k / g.q / g.p, first = k / out * in;
        double sum = bias ? (double)ls__to_f32(bias[k]) : 0;
        for (int64_t r = 0; r < g.r; r++)
            for (int64_t s = 0; s < g.s; s++) {
                const int64_t h = input_index(&g, 0, g.h, p, r), w = input_index(&g, 1, g.w, q, s);
                if (h < 0 || w < 0) continue;
                const T *from = x + ((n * g.h + h) * g.w + w) * g.c + first;
                const T *by = weights + ((k * g.r + r) * g.s + s) * in;
                for (int64_t c = 0; c < in; c++)
                    sum += (double)ls__to_f32(from[c]) * (double)ls__to_f32(by[c]);
            }
        ls__put(&y[i], relu ? ls__relu((float)sum) : (float)sum);
    }
}

int ls__cuda_direct(const ls__cuda_call *call)
{
    const conv_shape g = shape_of(call, 0, 3);
    void *const *b = call->buffers;
    const bool relu = call->op->kind == LS__OP_LINEAR && call->op->u.linear.relu;
    return ls__with_type(&call->op->operands[0], [=](auto type) {
        typedef decltype(type) T;
        return LS__LAUNCH(forward_kernel<T>, ls__blocks_for(g.n * g.p * g.q * g.k), LS__BLOCK,
                          call->stream, g, (const T *)b[0], (const T *)b[1], (const T *)b[2], relu,
                          (T *)b[3]);
    });
}

template <typename T>
static __global__ void data_kernel(conv_shape g, const T *dy, const T *weights, T *dx)
{
    const int64_t in = g.c / g.groups, out = g.k / g.groups;
    LS__FOR_EACH(i, g.n * g.h * g.w * g.c)
    {
        const int64_t c = i % g.c, w = i / g.c % g.w, h = i / g.c / g.w % g.h;
        const int64_t n = i / g.c / g.w / g.h, first = c / in * out;
        double sum = 0;
        for (int64_t r = 0; r < g.r; r++)
            for (int64_t s = 0; s < g.s; s++) {
                const int64_t p = output_index(&g, 0, g.p, h, r);
                const int64_t q = output_index(&g, 1, g.q, w, s);
                if (p < 0 || q < 0) continue;
                const T *from = dy + ((n * g.p + p) * g.q + q) * g.k + first;
                for (int64_t k = 0; k < out; k++) {
                    const T by = weights[(((first + k) * g.r + r) * g.s + s) * in + c % in];
                    sum += (double)ls__to_f32(from[k]) * (double)ls__to_f32(by);
                }
            }
        ls__put(&dx[i], (float)sum);
    }
}

int ls__cuda_direct_backward_data(const ls__cuda_call *call)
{
    const conv_shape g = shape_of(call, 2, 0);
    void *const *b = call->buffers;
    return ls__with_type(&call->op->operands[0], [=](auto type) {
        typedef decltype(type) T;
        return LS__LAUNCH(data_kernel<T>, ls__blocks_for(g.n * g.h * g.w * g.c), LS__BLOCK,
                          call->stream, g, (const T *)b[0], (const T *)b[1], (T *)b[2]);
    });
}

template <typename T>
static __global__ void weights_kernel(conv_shape g, const T *x, const T *dy, float *dw)
{
    const int64_t in = g.c / g.groups, out = g.k / g.groups;
    LS__FOR_EACH(i, g.k * g.r * g.s * in)
    {
        const int64_t c = i % in, s = i / in % g.s, r = i / in / g.s % g.r, k = i / in / g.s / g.r;
        double sum = 0;
        for (int64_t n = 0; n < g.n; n++)
            for (int64_t p = 0; p < g.p; p++)
                for (int64_t q = 0; q < g.q; q++) {
                    const int64_t h = input_index(&g, 0, g.h, p, r);
                    const int64_t w = input_index(&g, 1, g.w, q, s);
                    if (h < 0 || w < 0) continue;
                    const T from = x[((n * g.h + h) * g.w + w) * g.c + k / out * in + c];
                    const T by = dy[((n * g.p + p) * g.q + q) * g.k + k];
                    sum += (double)ls__to_f32(from) * (double)ls__to_f32(by);
                }
        dw[i] = (float)sum;
    }
}

/* The workspace is for the bias's gradient, the sum of dy over pixels. */
size_t ls__cuda_direct_backward_weights_workspace(const ls__op *op)
{
    const ls_shape *dy = &op->operands[1].shape;
    const int64_t channels = dy->dims[dy->n_dims - 1];
    if (ls__is_absent(&op->operands[3])) return 0;
    return ls__cuda_column_sums_workspace(&op->operands[1], ls_shape_element_count(dy) / channels,
                                          channels);
}

int ls__cuda_direct_backward_weights(const ls__cuda_call *call)
{
    const conv_shape g = shape_of(call, 0, 1);
    void *const *b = call->buffers;
    const ls__operand *dy = &call->op->operands[1];
    const int status = ls__with_type(dy, [=](auto type) {
        typedef decltype(type) T;
        return LS__LAUNCH(weights_kernel<T>, ls__blocks_for(g.k * g.r * g.s * g.c / g.groups),
                          LS__BLOCK, call->stream, g, (const T *)b[0], (const T *)b[1],
                          (float *)b[2]);
    });
    if (status != 0 || !b[3]) return status;
    return ls__cuda_column_sums(dy, b[1], g.n * g.p * g.q, g.k, b[3], call->workspace,
                                call->stream);
}
