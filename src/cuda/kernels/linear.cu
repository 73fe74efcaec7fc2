/* linear.cu: y[n,o] = b[o] + sum over i of x[n,i] w[o,i], one thread for each result, sums in
 * double in a fixed order. */
#include "cuda/kernels/portable.h"

typedef struct linear_shape {
    int64_t rows, in, out;
} linear_shape;

static linear_shape shape_of(const ls__cuda_call *call, int x, int y)
{
    const ls__operand *o = call->op->operands;
    linear_shape s = { o[x].shape.dims[0], o[x].shape.dims[1], o[y].shape.dims[1] };
    return s;
}

static __global__ void forward_kernel(linear_shape s, const float *x, const float *w,
                                      const float *b, float *y)
{
    LS__FOR_EACH(i, s.rows * s.out)
    {
        const int64_t n = i / s.out, o = i % s.out;
        double sum = b ? (double)b[o] : 0;
        for (int64_t j = 0; j < s.in; j++) sum += (double)x[n * s.in + j] * (double)w[o * s.in + j];
        y[i] = (float)sum;
    }
}

int ls__cuda_linear(const ls__cuda_call *call)
{
    const linear_shape s = shape_of(call, 0, 3);
    void *const *b = call->buffers;
    return LS__LAUNCH(forward_kernel, ls__blocks_for(s.rows * s.out), LS__BLOCK, call->stream, s,
                      (const float *)b[0], (const float *)b[1], (const float *)b[2], (float *)b[3]);
}

static __global__ void data_kernel(linear_shape s, const float *dy, const float *w, float *dx)
{
    LS__FOR_EACH(i, s.rows * s.in)
    {
        const int64_t n = i / s.in, j = i % s.in;
        double sum = 0;
        for (int64_t o = 0; o < s.out; o++)
            sum += (double)dy[n * s.out + o] * (double)w[o * s.in + j];
        dx[i] = (float)sum;
    }
}

int ls__cuda_linear_backward_data(const ls__cuda_call *call)
{
    const linear_shape s = shape_of(call, 2, 0);
    void *const *b = call->buffers;
    return LS__LAUNCH(data_kernel, ls__blocks_for(s.rows * s.in), LS__BLOCK, call->stream, s,
                      (const float *)b[0], (const float *)b[1], (float *)b[2]);
}

static __global__ void weights_kernel(linear_shape s, const float *x, const float *dy, float *dw)
{
    LS__FOR_EACH(i, s.out * s.in)
    {
        const int64_t o = i / s.in, j = i % s.in;
        double sum = 0;
        for (int64_t n = 0; n < s.rows; n++)
            sum += (double)x[n * s.in + j] * (double)dy[n * s.out + o];
        dw[i] = (float)sum;
    }
}

/* A block takes 32 columns; its lanes go through the rows by turns. */
enum { COLUMNS = 32, LANES = LS__BLOCK / COLUMNS };

static __global__ void column_sums_kernel(const float *x, int64_t rows, int64_t columns,
                                          float *sums)
{
    __shared__ double shared[LS__BLOCK];
    const int64_t column = (int64_t)blockIdx.x * COLUMNS + threadIdx.x % COLUMNS;
    const unsigned lane = threadIdx.x / COLUMNS;
    double sum = 0;
    for (int64_t row = lane; row < rows && column < columns; row += LANES)
        sum += (double)x[row * columns + column];
    shared[threadIdx.x] = sum;
    for (unsigned half = LANES / 2; half > 0; half /= 2) {
        __syncthreads();
        if (lane < half) shared[threadIdx.x] += shared[threadIdx.x + half * COLUMNS];
    }
    if (lane == 0 && column < columns) sums[column] = (float)shared[threadIdx.x];
}

int ls__cuda_column_sums(const void *x, int64_t rows, int64_t columns, void *sums, void *stream)
{
    return LS__LAUNCH(column_sums_kernel, (unsigned)((columns + COLUMNS - 1) / COLUMNS), LS__BLOCK,
                      stream, (const float *)x, rows, columns, (float *)sums);
}

int ls__cuda_linear_backward_weights(const ls__cuda_call *call)
{
    const linear_shape s = shape_of(call, 0, 1);
    void *const *b = call->buffers;
    const int status =
        LS__LAUNCH(weights_kernel, ls__blocks_for(s.out * s.in), LS__BLOCK, call->stream, s,
                   (const float *)b[0], (const float *)b[1], (float *)b[2]);
    if (status != 0 || !b[3]) return status;
    return ls__cuda_column_sums(b[1], s.rows, s.out, b[3], call->stream);
}
