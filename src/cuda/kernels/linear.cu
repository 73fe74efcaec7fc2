/* linear.cu: y[n,o] = relu?(b[o] + sum over i of x[n,i] w[o,i]), one thread per result, sums in
 * double in a fixed order. */
#include "base/element.h"
#include "cuda/kernels/columns.h"

typedef struct linear_shape {
    int64_t rows, in, out;
} linear_shape;

static linear_shape shape_of(const ls__cuda_call *call, int x, int y)
{
    const ls__operand *o = call->op->operands;
    linear_shape s = { o[x].shape.dims[0], o[x].shape.dims[1], o[y].shape.dims[1] };
    return s;
}

template <typename T>
static __global__ void forward_kernel(linear_shape s, const T *x, const T *w, const T *b, bool relu,
                                      T *y)
{
    LS__FOR_EACH(i, s.rows * s.out)
    {
        const int64_t n = i / s.out, o = i % s.out;
        double sum = b ? (double)ls__to_f32(b[o]) : 0;
        for (int64_t j = 0; j < s.in; j++)
            sum += (double)ls__to_f32(x[n * s.in + j]) * (double)ls__to_f32(w[o * s.in + j]);
        ls__put(&y[i], relu ? ls__relu((float)sum) : (float)sum);
    }
}

int ls__cuda_linear(const ls__cuda_call *call)
{
    const linear_shape s = shape_of(call, 0, 3);
    void *const *b = call->buffers;
    const bool relu = call->op->u.linear.relu;
    return ls__with_type(&call->op->operands[0], [=](auto type) {
        typedef decltype(type) T;
        return LS__LAUNCH(forward_kernel<T>, ls__blocks_for(s.rows * s.out), LS__BLOCK,
                          call->stream, s, (const T *)b[0], (const T *)b[1], (const T *)b[2], relu,
                          (T *)b[3]);
    });
}

template <typename T>
static __global__ void data_kernel(linear_shape s, const T *dy, const T *w, T *dx)
{
    LS__FOR_EACH(i, s.rows * s.in)
    {
        const int64_t n = i / s.in, j = i % s.in;
        double sum = 0;
        for (int64_t o = 0; o < s.out; o++)
            sum += (double)ls__to_f32(dy[n * s.out + o]) * (double)ls__to_f32(w[o * s.in + j]);
        ls__put(&dx[i], (float)sum);
    }
}

int ls__cuda_linear_backward_data(const ls__cuda_call *call)
{
    const linear_shape s = shape_of(call, 2, 0);
    void *const *b = call->buffers;
    return ls__with_type(&call->op->operands[0], [=](auto type) {
        typedef decltype(type) T;
        return LS__LAUNCH(data_kernel<T>, ls__blocks_for(s.rows * s.in), LS__BLOCK, call->stream, s,
                          (const T *)b[0], (const T *)b[1], (T *)b[2]);
    });
}

template <typename T>
static __global__ void weights_kernel(linear_shape s, const T *x, const T *dy, float *dw)
{
    LS__FOR_EACH(i, s.out * s.in)
    {
        const int64_t o = i / s.in, j = i % s.in;
        double sum = 0;
        for (int64_t n = 0; n < s.rows; n++)
            sum += (double)ls__to_f32(x[n * s.in + j]) * (double)ls__to_f32(dy[n * s.out + o]);
        dw[i] = (float)sum;
    }
}

/* ---- Gradient of the bias: the sum of dy's rows ---- */

template <typename A>
static __global__ void chunk_sums_kernel(ls__columns s, const typename A::stored *x, float *sums)
{
    const ls__columns_span p = ls__columns_span_of<A>(s, blockIdx.x);
    float own[1][A::n] = {};
    for (int64_t row = p.first; row <= p.last; row += ls__tile<A>::tile_rows) {
        float v[A::n];
        ls__load<A>(x + row * s.channels + p.c, v);
        LS__UNROLL
        for (int j = 0; j < A::n; j++) own[0][j] += v[j];
    }
    ls__columns_store<A, 1>(s, p, own, sums);
}

static __global__ void column_sums_kernel(ls__columns s, const float *sums, float *out)
{
    __shared__ double shared[LS__COLUMN_THREADS];
    const double total = ls__columns_total(s, 0, blockIdx.x, sums, shared);
    if (threadIdx.x == 0) out[blockIdx.x] = (float)total;
}

size_t ls__cuda_column_sums_workspace(const ls__operand *x, int64_t rows, int64_t columns)
{
    const ls__columns s = ls__columns_of(x, rows, columns);
    return ls__columns_bytes(&s, 1);
}

int ls__cuda_column_sums(const ls__operand *operand, const void *x, int64_t rows, int64_t columns,
                         void *sums, void *workspace, void *stream)
{
    const ls__columns s = ls__columns_of(operand, rows, columns);
    const int status = ls__with_access(operand, columns, [=](auto access) {
        typedef decltype(access) A;
        return LS__LAUNCH(chunk_sums_kernel<A>, ls__columns_blocks(&s), LS__BLOCK, stream, s,
                          (const typename A::stored *)x, (float *)workspace);
    });
    if (status != 0) return status;
    return LS__LAUNCH(column_sums_kernel, (unsigned)columns, LS__COLUMN_THREADS, stream, s,
                      (const float *)workspace, (float *)sums);
}

size_t ls__cuda_linear_backward_weights_workspace(const ls__op *op)
{
    const int64_t *dy = op->operands[1].shape.dims;
    if (op->operands[3].shape.n_dims < 0) return 0;
    return ls__cuda_column_sums_workspace(&op->operands[1], dy[0], dy[1]);
}

int ls__cuda_linear_backward_weights(const ls__cuda_call *call)
{
    const linear_shape s = shape_of(call, 0, 1);
    void *const *b = call->buffers;
    const ls__operand *dy = &call->op->operands[1];
    const int status = ls__with_type(dy, [=](auto type) {
        typedef decltype(type) T;
        return LS__LAUNCH(weights_kernel<T>, ls__blocks_for(s.out * s.in), LS__BLOCK, call->stream,
                          s, (const T *)b[0], (const T *)b[1], (float *)b[2]);
    });
    if (status != 0 || !b[3]) return status;
    return ls__cuda_column_sums(dy, b[1], s.rows, s.out, b[3], call->workspace, call->stream);
}
