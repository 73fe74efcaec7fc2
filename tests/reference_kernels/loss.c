/* loss.c: reference losses and top-k count.
 *
 * With p = softmax(logits), s the label smoothing, W the class weights (1 if absent), y the label:
 *   loss = sum over rows of [(1 - s) W[y] (-log p[y]) + s / K sum over k of W[k] (-log p[k])]
 *          / sum over rows of W[y]
 * log p[k] is (logits[k] - m) - log(sum over k of exp(logits[k] - m)), m the row's largest logit.
 * m and the logarithm are saved separately, because the error of their sum, rounded to f32, would
 * be eps * |m|. Rows with label -1 are excluded from both sums; if no row remains, loss and
 * gradient are 0. A label outside of -1..K-1 makes the loss, and the row's gradient, NaN.
 *
 * The losses of targets t, with N rows of K logits x (after PyTorch's cross_entropy with class
 * probabilities, binary_cross_entropy_with_logits and mse_loss):
 *   soft:   sum of W[k] ((1 - s) t + s / K) (-log p[k]) / N
 *   binary: sum of [(1 - t) x + (1 + (W[k] - 1) t) (log(1 + exp(-|x|)) + max(-x, 0))] / (N K)
 *   mse:    sum of (x - t)^2 / (N K) */
#include "reference.h"
#include <math.h>

static double weight(const float *weights, int64_t k)
{
    return weights ? weights[k] : 1.0;
}

/* logits labels weights? -> loss lse total */
static void cross_entropy(const reference_call *call, int64_t task)
{
    (void)task;
    const tensor_view logits = view_of(call, 0);
    const int32_t *labels = call->buffers[1];
    const float *weights = call->buffers[2];
    float *lse = call->buffers[4];
    const int64_t classes = logits.c;
    const double smoothing = call->op->u.loss.label_smoothing;
    double sum = 0.0, total = 0.0;
    for (int64_t n = 0; n < logits.n; n++) {
        const float *row = logits.data + n * classes;
        double largest = row[0], exponentials = 0.0, smooth = 0.0;
        for (int64_t k = 1; k < classes; k++) largest = row[k] > largest ? row[k] : largest;
        for (int64_t k = 0; k < classes; k++) exponentials += exp(row[k] - largest);
        const double log_sum = log(exponentials);
        lse[2 * n] = (float)largest;
        lse[2 * n + 1] = (float)log_sum;
        if (labels[n] == -1) continue;
        if (labels[n] < -1 || labels[n] >= classes) {
            sum = NAN;
            continue;
        }
        for (int64_t k = 0; k < classes; k++)
            smooth += weight(weights, k) * (log_sum - (row[k] - largest));
        const double w = weight(weights, labels[n]);
        sum += (1 - smoothing) * w * (log_sum - (row[labels[n]] - largest)) +
               smoothing / (double)classes * smooth;
        total += w;
    }
    *(float *)call->buffers[3] = (float)(total == 0 && !isnan(sum) ? 0 : sum / total);
    *(float *)call->buffers[5] = (float)total;
}

/* logits labels weights? lse total dloss -> dlogits */
static void cross_entropy_backward(const reference_call *call, int64_t n)
{
    const tensor_view logits = view_of(call, 0), dlogits = view_of(call, 6);
    const int32_t label = ((const int32_t *)call->buffers[1])[n];
    const float *weights = call->buffers[2];
    const double largest = ((const float *)call->buffers[3])[2 * n];
    const double log_sum = ((const float *)call->buffers[3])[2 * n + 1];
    const double total = *(const float *)call->buffers[4], dloss = *(const float *)call->buffers[5];
    const int64_t classes = logits.c;
    const double smoothing = call->op->u.loss.label_smoothing;
    const bool known = label >= 0 && label < classes;
    double all_weights = 0.0;
    for (int64_t k = 0; k < classes; k++) all_weights += weight(weights, k);
    for (int64_t k = 0; k < classes; k++) {
        double gradient = label == -1 ? 0.0 : NAN;
        if (known) {
            const double p = exp((logits.data[n * classes + k] - largest) - log_sum);
            const double hard = weight(weights, label) * (p - (k == label));
            const double smooth = all_weights * p - weight(weights, k);
            gradient =
                ((1 - smoothing) * hard + smoothing / (double)classes * smooth) * dloss / total;
            if (total == 0) gradient = 0;
        }
        dlogits.data[n * classes + k] = (float)gradient;
    }
}

/* ---- Losses of targets ---- */

static double smooth_target(const reference_call *call, float target, int64_t classes)
{
    const double smoothing = call->op->u.loss.label_smoothing;
    return (1 - smoothing) * target + smoothing / (double)classes;
}

/* logits targets weights? -> loss lse */
static void soft_cross_entropy(const reference_call *call, int64_t task)
{
    (void)task;
    const tensor_view logits = view_of(call, 0);
    const float *targets = call->buffers[1], *weights = call->buffers[2];
    float *lse = call->buffers[4];
    const int64_t classes = logits.c;
    double sum = 0.0;
    for (int64_t n = 0; n < logits.n; n++) {
        const float *row = logits.data + n * classes;
        double largest = row[0], exponentials = 0.0;
        for (int64_t k = 1; k < classes; k++) largest = row[k] > largest ? row[k] : largest;
        for (int64_t k = 0; k < classes; k++) exponentials += exp(row[k] - largest);
        const double log_sum = log(exponentials);
        lse[2 * n] = (float)largest;
        lse[2 * n + 1] = (float)log_sum;
        for (int64_t k = 0; k < classes; k++)
            sum += weight(weights, k) * smooth_target(call, targets[n * classes + k], classes) *
                   (log_sum - (row[k] - largest));
    }
    *(float *)call->buffers[3] = (float)(sum / (double)logits.n);
}

/* logits targets weights? lse dloss -> dlogits */
static void soft_cross_entropy_backward(const reference_call *call, int64_t n)
{
    const tensor_view logits = view_of(call, 0), dlogits = view_of(call, 5);
    const int64_t classes = logits.c;
    const float *targets = (const float *)call->buffers[1] + n * classes;
    const float *weights = call->buffers[2];
    const double largest = ((const float *)call->buffers[3])[2 * n];
    const double log_sum = ((const float *)call->buffers[3])[2 * n + 1];
    const double factor = *(const float *)call->buffers[4] / (double)logits.n;
    double slope = 0.0;
    for (int64_t k = 0; k < classes; k++)
        slope += weight(weights, k) * smooth_target(call, targets[k], classes);
    for (int64_t k = 0; k < classes; k++) {
        const double p = exp((logits.data[n * classes + k] - largest) - log_sum);
        const double target = weight(weights, k) * smooth_target(call, targets[k], classes);
        dlogits.data[n * classes + k] = (float)((slope * p - target) * factor);
    }
}

/* logits targets weights? -> loss */
static void binary_cross_entropy(const reference_call *call, int64_t task)
{
    (void)task;
    const tensor_view logits = view_of(call, 0);
    const float *targets = call->buffers[1];
    const int64_t count = logits.n * logits.c;
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++) {
        const double x = logits.data[i], t = targets[i];
        const double w = weight(call->buffers[2], i % logits.c);
        sum += (1 - t) * x + (1 + (w - 1) * t) * (log1p(exp(-fabs(x))) + fmax(-x, 0));
    }
    *(float *)call->buffers[3] = (float)(sum / (double)count);
}

/* logits targets weights? dloss -> dlogits */
static void binary_cross_entropy_backward(const reference_call *call, int64_t n)
{
    const tensor_view logits = view_of(call, 0), dlogits = view_of(call, 4);
    const float *targets = call->buffers[1];
    const double factor = *(const float *)call->buffers[3] / (double)(logits.n * logits.c);
    for (int64_t k = 0; k < logits.c; k++) {
        const int64_t i = n * logits.c + k;
        const double t = targets[i], w = weight(call->buffers[2], k);
        const double not_p = 1 / (1 + exp(logits.data[i])); /* 1 - sigmoid(x) */
        dlogits.data[i] = (float)((1 - t - (1 + (w - 1) * t) * not_p) * factor);
    }
}

/* x targets -> loss */
static void mse(const reference_call *call, int64_t task)
{
    (void)task;
    const tensor_view x = view_of(call, 0);
    const float *targets = call->buffers[1];
    double sum = 0.0;
    for (int64_t i = 0; i < x.n * x.c; i++) {
        const double difference = (double)x.data[i] - targets[i];
        sum += difference * difference;
    }
    *(float *)call->buffers[2] = (float)(sum / (double)(x.n * x.c));
}

/* x targets dloss -> dx */
static void mse_backward(const reference_call *call, int64_t n)
{
    const tensor_view x = view_of(call, 0), dx = view_of(call, 3);
    const float *targets = call->buffers[1];
    const double factor = 2.0 * *(const float *)call->buffers[2] / (double)(x.n * x.c);
    for (int64_t i = n * x.c; i < (n + 1) * x.c; i++)
        dx.data[i] = (float)(((double)x.data[i] - targets[i]) * factor);
}

/* logits labels -> count; a logit that equals the label's, or is NaN, counts as larger */
static void top_k(const reference_call *call, int64_t task)
{
    (void)task;
    const tensor_view logits = view_of(call, 0);
    const int32_t *labels = call->buffers[1];
    int64_t count = 0;
    for (int64_t n = 0; n < logits.n; n++) {
        const float *row = logits.data + n * logits.c;
        if (labels[n] < 0 || labels[n] >= logits.c) continue;
        int64_t before = 0;
        for (int64_t k = 0; k < logits.c; k++)
            before += k != labels[n] && !(row[k] < row[labels[n]]);
        count += before < call->op->u.top_k.k;
    }
    *(float *)call->buffers[2] = (float)count;
}

const reference_row reference_loss[LS__N_OPS] = {
    [LS__OP_CROSS_ENTROPY] = { cross_entropy },
    [LS__OP_CROSS_ENTROPY_BACKWARD] = { cross_entropy_backward, TASK_PER_IMAGE },
    [LS__OP_SOFT_CROSS_ENTROPY] = { soft_cross_entropy },
    [LS__OP_SOFT_CROSS_ENTROPY_BACKWARD] = { soft_cross_entropy_backward, TASK_PER_IMAGE },
    [LS__OP_BINARY_CROSS_ENTROPY] = { binary_cross_entropy },
    [LS__OP_BINARY_CROSS_ENTROPY_BACKWARD] = { binary_cross_entropy_backward, TASK_PER_IMAGE },
    [LS__OP_MSE] = { mse },
    [LS__OP_MSE_BACKWARD] = { mse_backward, TASK_PER_IMAGE },
    [LS__OP_TOP_K] = { top_k },
};
