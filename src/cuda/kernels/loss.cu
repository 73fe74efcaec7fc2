/* loss.cu: losses and the top-k count; tests/reference_kernels/loss.c has the formulas. A block
 * computes one row of logits. The results of rows are written to the workspace, and one more block
 * adds them. */
#include "cuda/kernels/access.h"

typedef struct loss_shape {
    int64_t rows, classes;
} loss_shape;

static loss_shape shape_of(const ls__op *op)
{
    loss_shape s = { op->operands[0].shape.dims[0], op->operands[0].shape.dims[1] };
    return s;
}

/* Two doubles for each row. */
size_t ls__cuda_loss_workspace(const ls__op *op)
{
    return (size_t)shape_of(op).rows * 2 * sizeof(double);
}

static __device__ float weight_of(const float *weights, int64_t k)
{
    return weights ? weights[k] : 1;
}

static __device__ double sum_of_weights(const float *weights, int64_t classes, double *shared)
{
    return weights ? ls__block_total(weights, classes, LS__BLOCK, shared) : (double)classes;
}

static __device__ double not_a_number(void)
{
    return (double)nanf("");
}

template <typename T>
static __global__ void rows_kernel(loss_shape s, const T *logits, const int32_t *labels,
                                   const float *weights, double smoothing, float *lse,
                                   double *row_loss, double *row_weight)
{
    __shared__ float shared[LS__BLOCK];
    __shared__ double shared_sums[LS__BLOCK];
    const int64_t n = blockIdx.x;
    const T *row = logits + n * s.classes;
    const int32_t label = labels[n];
    float largest = ls__to_f32(row[0]);
    for (int64_t k = threadIdx.x; k < s.classes; k += LS__BLOCK)
        if (ls__to_f32(row[k]) > largest) largest = ls__to_f32(row[k]);
    largest = ls__block_reduce(largest, shared, [](float a, float b) { return b > a ? b : a; });
    double exponentials = 0, smooth = 0;
    for (int64_t k = threadIdx.x; k < s.classes; k += LS__BLOCK) {
        const float logit = ls__to_f32(row[k]);
        exponentials += (double)expf(logit - largest);
        smooth += (double)weight_of(weights, k) * ((double)logit - (double)largest);
    }
    exponentials = ls__block_sum(exponentials, shared_sums);
    smooth = ls__block_sum(smooth, shared_sums);
    const double all_weights = sum_of_weights(weights, s.classes, shared_sums);
    if (threadIdx.x != 0) return;
    const double log_sum = log(exponentials);
    lse[2 * n] = largest;
    lse[2 * n + 1] = (float)log_sum;
    row_loss[n] = label == -1 ? 0 : not_a_number();
    row_weight[n] = 0;
    if (label < 0 || label >= s.classes) return;
    const double w = (double)weight_of(weights, label);
    const double at_label = (double)ls__to_f32(row[label]) - (double)largest;
    row_loss[n] = (1 - smoothing) * w * (log_sum - at_label) +
                  smoothing / (double)s.classes * (all_weights * log_sum - smooth);
    row_weight[n] = w;
}

static __global__ void finish_kernel(int64_t rows, const double *row_loss, const double *row_weight,
                                     float *loss, float *total)
{
    __shared__ double shared[LS__BLOCK];
    const double sum = ls__block_total(row_loss, rows, LS__BLOCK, shared);
    const double weights = ls__block_total(row_weight, rows, LS__BLOCK, shared);
    if (threadIdx.x != 0) return;
    *loss = (float)(weights == 0 && sum == sum ? 0 : sum / weights);
    *total = (float)weights;
}

int ls__cuda_cross_entropy(const ls__cuda_call *call)
{
    const loss_shape s = shape_of(call->op);
    void *const *b = call->buffers;
    double *row_loss = (double *)call->workspace, *row_weight = row_loss + s.rows;
    const int status = ls__with_type(&call->op->operands[0], [=](auto type) {
        typedef decltype(type) T;
        return LS__LAUNCH(rows_kernel<T>, (unsigned)s.rows, LS__BLOCK, call->stream, s,
                          (const T *)b[0], (const int32_t *)b[1], (const float *)b[2],
                          (double)call->op->u.loss.label_smoothing, (float *)b[4], row_loss,
                          row_weight);
    });
    if (status != 0) return status;
    return LS__LAUNCH(finish_kernel, 1, LS__BLOCK, call->stream, s.rows, (const double *)row_loss,
                      (const double *)row_weight, (float *)b[3], (float *)b[5]);
}

template <typename T>
static __global__ void backward_kernel(loss_shape s, const T *logits, const int32_t *labels,
                                       const float *weights, const float *lse, const float *total,
                                       const float *dloss, double smoothing, T *dlogits)
{
    __shared__ double shared[LS__BLOCK];
    const int64_t n = blockIdx.x;
    const int32_t label = labels[n];
    const bool known = label >= 0 && label < s.classes;
    const double all_weights = sum_of_weights(weights, s.classes, shared);
    const double hard = known ? (1 - smoothing) * (double)weight_of(weights, label) : 0;
    const float soft = (float)(smoothing / (double)s.classes);
    const float slope = (float)(hard + smoothing / (double)s.classes * all_weights);
    const float factor = *total == 0 ? 0 : (float)((double)*dloss / (double)*total);
    const float largest = lse[2 * n], log_sum = lse[2 * n + 1];
    for (int64_t k = threadIdx.x; k < s.classes; k += LS__BLOCK) {
        const int64_t i = n * s.classes + k;
        const float p = expf((ls__to_f32(logits[i]) - largest) - log_sum);
        float gradient = slope * p - soft * weight_of(weights, k);
        if (k == label) gradient -= (float)hard;
        if (!known)
            ls__put(&dlogits[i], label == -1 ? 0 : (float)not_a_number());
        else
            ls__put(&dlogits[i], gradient * factor);
    }
}

int ls__cuda_cross_entropy_backward(const ls__cuda_call *call)
{
    const loss_shape s = shape_of(call->op);
    void *const *b = call->buffers;
    return ls__with_type(&call->op->operands[0], [=](auto type) {
        typedef decltype(type) T;
        return LS__LAUNCH(backward_kernel<T>, (unsigned)s.rows, LS__BLOCK, call->stream, s,
                          (const T *)b[0], (const int32_t *)b[1], (const float *)b[2],
                          (const float *)b[3], (const float *)b[4], (const float *)b[5],
                          (double)call->op->u.loss.label_smoothing, (T *)b[6]);
    });
}

/* ---- Losses of targets: the mean of terms of the logits and targets ---- */

/* The targets of a row, and what its classes have in common. */
struct row_terms {
    const float *targets, *weights; /* weights NULL: all 1 */
    double hard, soft;              /* a class's target is hard * its target + soft */

    __device__ double target(int64_t k) const
    {
        return (double)weight_of(weights, k) * (hard * (double)targets[k] + soft);
    }
};

static __device__ row_terms terms_of(const float *targets, const float *weights, double smoothing,
                                     int64_t classes)
{
    const row_terms r = { targets + (int64_t)blockIdx.x * classes, weights, 1 - smoothing,
                          smoothing / (double)classes };
    return r;
}

template <typename T>
static __global__ void soft_kernel(loss_shape s, const T *logits, const float *targets,
                                   const float *weights, double smoothing, float *lse,
                                   double *row_loss)
{
    __shared__ float shared[LS__BLOCK];
    __shared__ double shared_sums[LS__BLOCK];
    const int64_t n = blockIdx.x;
    const T *row = logits + n * s.classes;
    const row_terms r = terms_of(targets, weights, smoothing, s.classes);
    float largest = ls__to_f32(row[0]);
    for (int64_t k = threadIdx.x; k < s.classes; k += LS__BLOCK)
        if (ls__to_f32(row[k]) > largest) largest = ls__to_f32(row[k]);
    largest = ls__block_reduce(largest, shared, [](float a, float b) { return b > a ? b : a; });
    double exponentials = 0, sum = 0;
    for (int64_t k = threadIdx.x; k < s.classes; k += LS__BLOCK)
        exponentials += (double)expf(ls__to_f32(row[k]) - largest);
    const double log_sum = log(ls__block_sum(exponentials, shared_sums));
    for (int64_t k = threadIdx.x; k < s.classes; k += LS__BLOCK)
        sum += r.target(k) * (log_sum - ((double)ls__to_f32(row[k]) - (double)largest));
    sum = ls__block_sum(sum, shared_sums);
    if (threadIdx.x != 0) return;
    lse[2 * n] = largest;
    lse[2 * n + 1] = (float)log_sum;
    row_loss[n] = sum;
}

template <typename T>
static __global__ void binary_kernel(loss_shape s, const T *logits, const float *targets,
                                     const float *weights, double *row_loss)
{
    __shared__ double shared[LS__BLOCK];
    const int64_t first = blockIdx.x * s.classes;
    double sum = 0;
    for (int64_t k = threadIdx.x; k < s.classes; k += LS__BLOCK) {
        const double x = (double)ls__to_f32(logits[first + k]), t = (double)targets[first + k];
        const double w = (double)weight_of(weights, k);
        sum += (1 - t) * x +
               (1 + (w - 1) * t) * (log1p((double)expf(-fabsf((float)x))) + (x < 0 ? -x : 0));
    }
    sum = ls__block_sum(sum, shared);
    if (threadIdx.x == 0) row_loss[blockIdx.x] = sum;
}

template <typename T>
static __global__ void square_kernel(loss_shape s, const T *x, const float *targets,
                                     double *row_loss)
{
    __shared__ double shared[LS__BLOCK];
    const int64_t first = blockIdx.x * s.classes;
    double sum = 0;
    for (int64_t k = threadIdx.x; k < s.classes; k += LS__BLOCK) {
        const double difference = (double)ls__to_f32(x[first + k]) - (double)targets[first + k];
        sum += difference * difference;
    }
    sum = ls__block_sum(sum, shared);
    if (threadIdx.x == 0) row_loss[blockIdx.x] = sum;
}

static __global__ void mean_kernel(int64_t rows, const double *row_loss, double count, float *loss)
{
    __shared__ double shared[LS__BLOCK];
    const double sum = ls__block_total(row_loss, rows, LS__BLOCK, shared);
    if (threadIdx.x == 0) *loss = (float)(sum / count);
}

/* Adds the rows' sums, if their kernel was launched. */
static int finish_mean(const ls__cuda_call *call, int status, int64_t count, void *loss)
{
    if (status != 0) return status;
    return LS__LAUNCH(mean_kernel, 1, LS__BLOCK, call->stream, shape_of(call->op).rows,
                      (const double *)call->workspace, (double)count, (float *)loss);
}

int ls__cuda_soft_cross_entropy(const ls__cuda_call *call)
{
    const loss_shape s = shape_of(call->op);
    void *const *b = call->buffers;
    const int status = ls__with_type(&call->op->operands[0], [=](auto type) {
        typedef decltype(type) T;
        return LS__LAUNCH(soft_kernel<T>, (unsigned)s.rows, LS__BLOCK, call->stream, s,
                          (const T *)b[0], (const float *)b[1], (const float *)b[2],
                          (double)call->op->u.loss.label_smoothing, (float *)b[4],
                          (double *)call->workspace);
    });
    return finish_mean(call, status, s.rows, b[3]);
}

int ls__cuda_binary_cross_entropy(const ls__cuda_call *call)
{
    const loss_shape s = shape_of(call->op);
    void *const *b = call->buffers;
    const int status = ls__with_type(&call->op->operands[0], [=](auto type) {
        typedef decltype(type) T;
        return LS__LAUNCH(binary_kernel<T>, (unsigned)s.rows, LS__BLOCK, call->stream, s,
                          (const T *)b[0], (const float *)b[1], (const float *)b[2],
                          (double *)call->workspace);
    });
    return finish_mean(call, status, s.rows * s.classes, b[3]);
}

int ls__cuda_mse(const ls__cuda_call *call)
{
    const loss_shape s = shape_of(call->op);
    void *const *b = call->buffers;
    const int status = ls__with_type(&call->op->operands[0], [=](auto type) {
        typedef decltype(type) T;
        return LS__LAUNCH(square_kernel<T>, (unsigned)s.rows, LS__BLOCK, call->stream, s,
                          (const T *)b[0], (const float *)b[1], (double *)call->workspace);
    });
    return finish_mean(call, status, s.rows * s.classes, b[2]);
}

template <typename T>
static __global__ void soft_backward_kernel(loss_shape s, const T *logits, const float *targets,
                                            const float *weights, const float *lse,
                                            const float *dloss, double smoothing, T *dlogits)
{
    __shared__ double shared[LS__BLOCK];
    const int64_t n = blockIdx.x;
    const row_terms r = terms_of(targets, weights, smoothing, s.classes);
    double sum = 0;
    for (int64_t k = threadIdx.x; k < s.classes; k += LS__BLOCK) sum += r.target(k);
    const float slope = (float)ls__block_sum(sum, shared);
    const float factor = (float)((double)*dloss / (double)s.rows);
    for (int64_t k = threadIdx.x; k < s.classes; k += LS__BLOCK) {
        const int64_t i = n * s.classes + k;
        const float p = expf((ls__to_f32(logits[i]) - lse[2 * n]) - lse[2 * n + 1]);
        ls__put(&dlogits[i], (slope * p - (float)r.target(k)) * factor);
    }
}

template <typename T>
static __global__ void binary_backward_kernel(loss_shape s, const T *logits, const float *targets,
                                              const float *weights, const float *dloss, T *dlogits)
{
    const float factor = (float)((double)*dloss / (double)(s.rows * s.classes));
    LS__FOR_EACH(i, s.rows * s.classes)
    {
        const float x = ls__to_f32(logits[i]), t = targets[i];
        const float weighted = weight_of(weights, i % s.classes) * t, power = expf(-fabsf(x));
        const float p = (1 - t + weighted) * (power / (1 + power));
        ls__put(&dlogits[i], (x < 0 ? p - weighted : 1 - t - p) * factor);
    }
}

template <typename T>
static __global__ void square_backward_kernel(int64_t count, const T *x, const float *targets,
                                              const float *dloss, T *dx)
{
    const float factor = 2 * (float)((double)*dloss / (double)count);
    LS__FOR_EACH(i, count) ls__put(&dx[i], (ls__to_f32(x[i]) - targets[i]) * factor);
}

int ls__cuda_soft_cross_entropy_backward(const ls__cuda_call *call)
{
    const loss_shape s = shape_of(call->op);
    void *const *b = call->buffers;
    return ls__with_type(&call->op->operands[0], [=](auto type) {
        typedef decltype(type) T;
        return LS__LAUNCH(soft_backward_kernel<T>, (unsigned)s.rows, LS__BLOCK, call->stream, s,
                          (const T *)b[0], (const float *)b[1], (const float *)b[2],
                          (const float *)b[3], (const float *)b[4],
                          (double)call->op->u.loss.label_smoothing, (T *)b[5]);
    });
}

int ls__cuda_binary_cross_entropy_backward(const ls__cuda_call *call)
{
    const loss_shape s = shape_of(call->op);
    void *const *b = call->buffers;
    return ls__with_type(&call->op->operands[0], [=](auto type) {
        typedef decltype(type) T;
        return LS__LAUNCH(binary_backward_kernel<T>, ls__blocks_for(s.rows * s.classes), LS__BLOCK,
                          call->stream, s, (const T *)b[0], (const float *)b[1],
                          (const float *)b[2], (const float *)b[3], (T *)b[4]);
    });
}

int ls__cuda_mse_backward(const ls__cuda_call *call)
{
    const loss_shape s = shape_of(call->op);
    void *const *b = call->buffers;
    return ls__with_type(&call->op->operands[0], [=](auto type) {
        typedef decltype(type) T;
        return LS__LAUNCH(square_backward_kernel<T>, ls__blocks_for(s.rows * s.classes), LS__BLOCK,
                          call->stream, s.rows * s.classes, (const T *)b[0], (const float *)b[1],
                          (const float *)b[2], (T *)b[3]);
    });
}

/* ---- Top-k ---- */

/* A logit that is equal to the label's, or NaN, ranks before it. */
template <typename T>
static __global__ void top_k_kernel(loss_shape s, const T *logits, const int32_t *labels, int64_t k,
                                    double *row_hit)
{
    __shared__ double shared[LS__BLOCK];
    const int64_t n = blockIdx.x;
    const T *row = logits + n * s.classes;
    const int32_t label = labels[n];
    const bool known = label >= 0 && label < s.classes;
    double before = 0;
    for (int64_t i = threadIdx.x; known && i < s.classes; i += LS__BLOCK)
        before += i != label && !(ls__to_f32(row[i]) < ls__to_f32(row[label]));
    before = ls__block_sum(before, shared);
    if (threadIdx.x == 0) row_hit[n] = known && before < (double)k;
}

static __global__ void top_k_finish_kernel(int64_t rows, const double *row_hit, float *count)
{
    __shared__ double shared[LS__BLOCK];
    const double sum = ls__block_total(row_hit, rows, LS__BLOCK, shared);
    if (threadIdx.x == 0) *count = (float)sum;
}

int ls__cuda_top_k(const ls__cuda_call *call)
{
    const loss_shape s = shape_of(call->op);
    double *row_hit = (double *)call->workspace;
    const int status = ls__with_type(&call->op->operands[0], [=](auto type) {
        typedef decltype(type) T;
        return LS__LAUNCH(top_k_kernel<T>, (unsigned)s.rows, LS__BLOCK, call->stream, s,
                          (const T *)call->buffers[0], (const int32_t *)call->buffers[1],
                          call->op->u.top_k.k, row_hit);
    });
    if (status != 0) return status;
    return LS__LAUNCH(top_k_finish_kernel, 1, LS__BLOCK, call->stream, s.rows,
                      (const double *)row_hit, (float *)call->buffers[2]);
}
