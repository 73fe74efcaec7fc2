/* loss.c: reference softmax cross-entropy and top-k count.
 *
 * With p = softmax(logits), s the label smoothing, W the class weights (1 if absent), y the label:
 *   loss = sum over rows of [(1 - s) W[y] (-log p[y]) + s / K sum over k of W[k] (-log p[k])]
 *          / sum over rows of W[y]
 * log p[k] is (logits[k] - m) - log(sum over k of exp(logits[k] - m)), m the row's largest logit.
 * The two terms are saved apart: their sum, rounded to f32, would cost each p an error of eps *
 * |m|. Rows with label -1 are left out of both sums; if none is left, loss and gradient are 0. A
 * label outside of -1..K-1 makes the loss, and the row's gradient, NaN. */
#include "cpu/reference/reference.h"
#include <math.h>

static int64_t rows(const ls__op *op)
{
    return ls__operand_view(&op->operands[0]).n;
}

static double weight(const float *weights, int64_t k)
{
    return weights ? weights[k] : 1.0;
}

/* logits labels weights? -> loss lse total */
static void cross_entropy(const ls__reference_call *call, int64_t task)
{
    (void)task;
    const ls__view logits = ls__reference_view(call, 0);
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
static void cross_entropy_backward(const ls__reference_call *call, int64_t n)
{
    const ls__view logits = ls__reference_view(call, 0), dlogits = ls__reference_view(call, 6);
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

/* logits labels -> count; a logit equal to the label's stands before it, as does NaN */
static void top_k(const ls__reference_call *call, int64_t task)
{
    (void)task;
    const ls__view logits = ls__reference_view(call, 0);
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

const ls__reference ls__reference_loss[LS__N_OPS] = {
    [LS__OP_CROSS_ENTROPY] = { NULL, cross_entropy },
    [LS__OP_CROSS_ENTROPY_BACKWARD] = { rows, cross_entropy_backward },
    [LS__OP_TOP_K] = { NULL, top_k },
};
