/* rows.cu: softmax and group norm; tests/reference_kernels/rows.c has the formulas. A block
 * computes one row of a softmax, or one instance and group of a norm, with sums in double. */
#include "arith/element.h"
#include "cuda/kernels/access.h"

static int64_t last_dim(const ls__operand *operand)
{
    return operand->shape.dims[operand->shape.n_dims - 1];
}

/* ---- Softmax ---- */

template <typename T> static __global__ void softmax_kernel(int64_t width, const T *x, T *y)
{
    __shared__ float shared[LS__BLOCK];
    __shared__ double shared_sums[LS__BLOCK];
    const int64_t first = (int64_t)blockIdx.x * width;
    float largest = ls__to_f32(x[first]);
    for (int64_t c = threadIdx.x; c < width; c += LS__BLOCK)
        if (ls__to_f32(x[first + c]) > largest) largest = ls__to_f32(x[first + c]);
    largest = ls__block_reduce(largest, shared, [](float a, float b) { return b > a ? b : a; });
    double sum = 0;
    for (int64_t c = threadIdx.x; c < width; c += LS__BLOCK)
        sum += (double)ls__exp(ls__to_f32(x[first + c]) - largest);
    const float factor = (float)(1 / ls__block_sum(sum, shared_sums));
    for (int64_t c = threadIdx.x; c < width; c += LS__BLOCK)
        ls__put(&y[first + c], ls__exp(ls__to_f32(x[first + c]) - largest) * factor);
}

template <typename T>
static __global__ void softmax_backward_kernel(int64_t width, const T *y, const T *dy, T *dx)
{
    __shared__ double shared[LS__BLOCK];
    const int64_t first = (int64_t)blockIdx.x * width;
    double sum = 0;
    for (int64_t c = threadIdx.x; c < width; c += LS__BLOCK)
        sum += (double)ls__to_f32(y[first + c]) * (double)ls__to_f32(dy[first + c]);
    const float total = (float)ls__block_sum(sum, shared);
    for (int64_t c = threadIdx.x; c < width; c += LS__BLOCK)
        ls__put(&dx[first + c], ls__to_f32(y[first + c]) * (ls__to_f32(dy[first + c]) - total));
}

int ls__cuda_softmax(const ls__cuda_call *call)
{
    const ls__operand *x = &call->op->operands[0];
    const int64_t width = last_dim(x);
    const unsigned rows = (unsigned)(ls_shape_element_count(&x->shape) / width);
    void *const *b = call->buffers;
    return ls__with_type(x, [=](auto type) {
        typedef decltype(type) T;
        if (call->op->kind == LS__OP_SOFTMAX)
            return LS__LAUNCH(softmax_kernel<T>, rows, LS__BLOCK, call->stream, width,
                              (const T *)b[0], (T *)b[1]);
        return LS__LAUNCH(softmax_backward_kernel<T>, rows, LS__BLOCK, call->stream, width,
                          (const T *)b[0], (const T *)b[1], (T *)b[2]);
    });
}

/* ---- Group norm ---- */

/* Dimensions of mean [instances,groups]. width: channels of a group; count: values of an instance's
 * group. */
typedef struct group_shape {
    int64_t rows, channels, groups, places, width, count;
    unsigned n_blocks;
} group_shape;

static group_shape group_shape_of(const ls__op *op, int mean)
{
    const int64_t *d = op->operands[mean].shape.dims;
    group_shape s = { 0, last_dim(&op->operands[0]), d[1], 0, 0, 0, (unsigned)(d[0] * d[1]) };
    s.rows = ls_shape_element_count(&op->operands[0].shape) / s.channels;
    s.places = s.rows / d[0];
    s.width = s.channels / s.groups;
    s.count = s.places * s.width;
    return s;
}

/* The channel of value i of this block, and its offset in memory. */
static __device__ int64_t channel_of(const group_shape &s, int64_t i)
{
    return (int64_t)blockIdx.x % s.groups * s.width + i % s.width;
}

static __device__ int64_t offset_of(const group_shape &s, int64_t i)
{
    const int64_t place = (int64_t)blockIdx.x / s.groups * s.places + i / s.width;
    return place * s.channels + channel_of(s, i);
}

template <typename T>
static __global__ void group_norm_kernel(group_shape s, const T *x, const float *scale,
                                         const float *shift, double epsilon, T *y, float *means,
                                         float *invstds)
{
    __shared__ double shared[LS__BLOCK];
    double sum = 0, squares = 0;
    for (int64_t i = threadIdx.x; i < s.count; i += LS__BLOCK)
        sum += (double)ls__to_f32(x[offset_of(s, i)]);
    const double average = ls__block_sum(sum, shared) / (double)s.count;
    for (int64_t i = threadIdx.x; i < s.count; i += LS__BLOCK) {
        const double d = (double)ls__to_f32(x[offset_of(s, i)]) - average;
        squares += d * d;
    }
    const double variance = ls__block_sum(squares, shared) / (double)s.count;
    const float mean = (float)average, invstd = (float)(1 / sqrt(variance + epsilon));
    if (threadIdx.x == 0) {
        means[blockIdx.x] = mean;
        invstds[blockIdx.x] = invstd;
    }
    for (int64_t i = threadIdx.x; i < s.count; i += LS__BLOCK) {
        const int64_t at = offset_of(s, i), c = channel_of(s, i);
        ls__put(&y[at], (ls__to_f32(x[at]) - mean) * invstd * scale[c] + shift[c]);
    }
}

int ls__cuda_group_norm(const ls__cuda_call *call)
{
    const group_shape s = group_shape_of(call->op, 4);
    void *const *b = call->buffers;
    return ls__with_type(&call->op->operands[0], [=](auto type) {
        typedef decltype(type) T;
        return LS__LAUNCH(group_norm_kernel<T>, s.n_blocks, LS__BLOCK, call->stream, s,
                          (const T *)b[0], (const float *)b[1], (const float *)b[2],
                          (double)call->op->u.group_norm.epsilon, (T *)b[3], (float *)b[4],
                          (float *)b[5]);
    });
}

template <typename T>
static __global__ void group_norm_data_kernel(group_shape s, const T *x, const T *dy,
                                              const float *scale, const float *means,
                                              const float *invstds, T *dx)
{
    __shared__ double shared[LS__BLOCK];
    const float mean = means[blockIdx.x], invstd = invstds[blockIdx.x];
    double s1 = 0, s2 = 0;
    for (int64_t i = threadIdx.x; i < s.count; i += LS__BLOCK) {
        const int64_t at = offset_of(s, i);
        const double g = (double)ls__to_f32(dy[at]) * (double)scale[channel_of(s, i)];
        s1 += g;
        s2 += g * (double)((ls__to_f32(x[at]) - mean) * invstd);
    }
    const float mean1 = (float)(ls__block_sum(s1, shared) / (double)s.count);
    const float mean2 = (float)(ls__block_sum(s2, shared) / (double)s.count);
    for (int64_t i = threadIdx.x; i < s.count; i += LS__BLOCK) {
        const int64_t at = offset_of(s, i);
        const float xhat = (ls__to_f32(x[at]) - mean) * invstd;
        const float g = ls__to_f32(dy[at]) * scale[channel_of(s, i)];
        ls__put(&dx[at], invstd * ((g - mean1) - xhat * mean2));
    }
}

/* dscale and dshift: a block adds the rows of one chunk for ACROSS channels, a second kernel adds
 * the chunks in order. */
enum { ACROSS = 32, MAX_CHUNKS = 256 };

static int64_t chunks_of(int64_t rows)
{
    const int64_t max_chunks = MAX_CHUNKS, chunks = (rows + ACROSS - 1) / ACROSS;
    return chunks < max_chunks ? chunks : max_chunks;
}

template <typename T>
static __global__ void parameters_kernel(group_shape s, int64_t chunks, const T *x, const T *dy,
                                         const float *means, const float *invstds, double *sums)
{
    __shared__ double shared[2][LS__BLOCK];
    const int64_t chunk = (int64_t)blockIdx.x % chunks;
    const int64_t c = (int64_t)blockIdx.x / chunks * ACROSS + threadIdx.x % ACROSS;
    double dscale = 0, dshift = 0;
    for (int64_t row = chunk * s.rows / chunks + threadIdx.x / ACROSS;
         row < (chunk + 1) * s.rows / chunks && c < s.channels; row += LS__BLOCK / ACROSS) {
        const int64_t set = row / s.places * s.groups + c / s.width, at = row * s.channels + c;
        const double d = (double)ls__to_f32(dy[at]);
        dshift += d;
        dscale += d * (double)((ls__to_f32(x[at]) - means[set]) * invstds[set]);
    }
    shared[0][threadIdx.x] = dscale;
    shared[1][threadIdx.x] = dshift;
    __syncthreads();
    if (threadIdx.x >= ACROSS || c >= s.channels) return;
    for (int i = ACROSS; i < LS__BLOCK; i += ACROSS) {
        dscale += shared[0][threadIdx.x + i];
        dshift += shared[1][threadIdx.x + i];
    }
    sums[chunk * s.channels + c] = dscale;
    sums[(chunks + chunk) * s.channels + c] = dshift;
}

static __global__ void finish_parameters_kernel(int64_t channels, int64_t chunks,
                                                const double *sums, float *dscale, float *dshift)
{
    LS__FOR_EACH(i, 2 * channels)
    {
        const int64_t c = i % channels, which = i / channels;
        double sum = 0;
        for (int64_t chunk = 0; chunk < chunks; chunk++)
            sum += sums[(which * chunks + chunk) * channels + c];
        (which ? dshift : dscale)[c] = (float)sum;
    }
}

size_t ls__cuda_group_norm_backward_workspace(const ls__op *op)
{
    const group_shape s = group_shape_of(op, 3);
    return (size_t)(chunks_of(s.rows) * s.channels) * 2 * sizeof(double);
}

int ls__cuda_group_norm_backward(const ls__cuda_call *call)
{
    const group_shape s = group_shape_of(call->op, 3);
    const int64_t chunks = chunks_of(s.rows);
    const unsigned blocks = (unsigned)(chunks * ((s.channels + ACROSS - 1) / ACROSS));
    void *const *b = call->buffers;
    double *sums = (double *)call->workspace;
    const int status = ls__with_type(&call->op->operands[0], [=](auto type) {
        typedef decltype(type) T;
        const int first = LS__LAUNCH(parameters_kernel<T>, blocks, LS__BLOCK, call->stream, s,
                                     chunks, (const T *)b[0], (const T *)b[1], (const float *)b[3],
                                     (const float *)b[4], sums);
        if (first != 0) return first;
        return LS__LAUNCH(group_norm_data_kernel<T>, s.n_blocks, LS__BLOCK, call->stream, s,
                          (const T *)b[0], (const T *)b[1], (const float *)b[2],
                          (const float *)b[3], (const float *)b[4], (T *)b[5]);
    });
    if (status != 0) return status;
    return LS__LAUNCH(finish_parameters_kernel, ls__blocks_for(2 * s.channels), LS__BLOCK,
                      call->stream, s.channels, chunks, (const double *)sums, (float *)b[6],
                      (float *)b[7]);
}
