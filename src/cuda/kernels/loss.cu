/* loss.cu: softmax cross-entropy and the top-k count; cpu/reference/loss.c has the formulas. A
 * block computes one row of logits. The results of rows are written to the workspace, and one more
 * block adds them. */
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
    if (!weights) return (double)classes;
    double sum = 0;
    for (int64_t k = threadIdx.x; k < classes; k += LS__BLOCK) sum += (double)weights[k];
    return ls__block_sum<double>(sum, shared);
}

static __device__ double not_a_number(void)
{
    return (double)nanf("");
}

/* Adds the values of all rows in one block. */
static __device__ double add_rows(const double *values, int64_t rows, double *shared)
{
    double sum = 0;
    for (int64_t n = threadIdx.x; n < rows; n += LS__BLOCK) sum += values[n];
    return ls__block_sum<double>(sum, shared);
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
    largest = ls__block_max(largest, shared);
    double exponentials = 0, smooth = 0;
    for (int64_t k = threadIdx.x; k < s.classes; k += LS__BLOCK) {
        const float logit = ls__to_f32(row[k]);
        exponentials += (double)expf(logit - largest);
        smooth += (double)weight_of(weights, k) * ((double)logit - (double)largest);
    }
    exponentials = ls__block_sum<double>(exponentials, shared_sums);
    smooth = ls__block_sum<double>(smooth, shared_sums);
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
    const double sum = add_rows(row_loss, rows, shared);
    const double weights = add_rows(row_weight, rows, shared);
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
    before = ls__block_sum<double>(before, shared);
    if (threadIdx.x == 0) row_hit[n] = known && before < (double)k;
}

static __global__ void top_k_finish_kernel(int64_t rows, const double *row_hit, float *count)
{
    __shared__ double shared[LS__BLOCK];
    const double sum = add_rows(row_hit, rows, shared);
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
