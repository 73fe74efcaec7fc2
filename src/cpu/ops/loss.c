/* loss.c: softmax cross-entropy and top-k count; the formulas stand in reference/loss.c. */
#include "cpu/ops/ops.h"
#include "cpu/simd/math.h"
#include <math.h>

/* Sums over a row are this many chains of additions, which a fixed tree adds up. */
enum { CHAINS = 16 };

/* Logits per task: some 20 microseconds of exponentials. */
enum { TASK_LOGITS = 8 * 1024 };

static int64_t n_rows(const ls__ops_kernel *k)
{
    return k->op.operands[0].shape.dims[0];
}

static int64_t n_classes(const ls__ops_kernel *k)
{
    return k->op.operands[0].shape.dims[1];
}

static double add_chains(const double values[CHAINS])
{
    double sum[CHAINS];
    memcpy(sum, values, sizeof sum);
    for (int step = CHAINS / 2; step > 0; step /= 2)
        for (int i = 0; i < step; i++) sum[i] += sum[i + step];
    return sum[0];
}

/* The next values of a row, one per chain; `rest` where the row has ended. */
static void load_values(const float *row, int64_t n, float rest, float values[CHAINS])
{
    if (n >= CHAINS) {
        memcpy(values, row, CHAINS * sizeof *values);
        return;
    }
    for (int64_t i = 0; i < CHAINS; i++) values[i] = i < n ? row[i] : rest;
}

/* The row's largest logit; NaN is passed over, it comes back through the exponentials. */
static float largest(const float *row, int64_t n)
{
    float best[CHAINS], values[CHAINS];
    load_values(row, n, row[0], best);
    for (int64_t k = CHAINS; k < n; k += CHAINS) {
        load_values(row + k, n - k, row[0], values);
        for (int i = 0; i < CHAINS; i++) best[i] = values[i] > best[i] ? values[i] : best[i];
    }
    float result = best[0];
    for (int i = 1; i < CHAINS; i++) result = best[i] > result ? best[i] : result;
    return result;
}

static double sum_exponentials(const float *row, int64_t n, float offset)
{
    double sum[CHAINS] = { 0 };
    float values[CHAINS];
    for (int64_t k = 0; k < n; k += CHAINS) {
        load_values(row + k, n - k, -INFINITY, values);
        for (int i = 0; i < CHAINS; i++) sum[i] += (double)ls__exp(values[i] - offset);
    }
    return add_chains(sum);
}

/* sum of (a[k] - offset) b[k], b 1 where it is NULL */
static double inner_product(const float *a, float offset, const float *b, int64_t n)
{
    double sum[CHAINS] = { 0 };
    float x[CHAINS], y[CHAINS];
    for (int i = 0; i < CHAINS; i++) y[i] = 1;
    for (int64_t k = 0; k < n; k += CHAINS) {
        load_values(a + k, n - k, offset, x);
        if (b) load_values(b + k, n - k, 0, y);
        for (int i = 0; i < CHAINS; i++) sum[i] += ((double)x[i] - (double)offset) * (double)y[i];
    }
    return add_chains(sum);
}

static double sum_of_weights(const ls__ops_kernel *k)
{
    const float *weights = k->buffers[2];
    return weights ? inner_product(weights, 0, NULL, n_classes(k)) : (double)n_classes(k);
}

/* ---- Forward: logits labels weights? -> loss lse total ---- */

/* Each row's part of the two sums. */
static double *row_losses(const ls__ops_kernel *k)
{
    return (double *)k->workspace;
}

static double *row_weights(const ls__ops_kernel *k)
{
    return row_losses(k) + n_rows(k);
}

static void rows_forward(const ls__ops_kernel *k, int64_t task)
{
    const int32_t *labels = k->buffers[1];
    const float *weights = k->buffers[2];
    float *lse = k->buffers[4];
    const int64_t classes = n_classes(k);
    const double smoothing = (double)k->op.u.loss.label_smoothing;
    const double all_weights = sum_of_weights(k);
    const ls__range rows = ls__part(n_rows(k), k->n_chunks, task, 1);
    for (int64_t n = rows.begin; n < rows.end; n++) {
        const float *row = (const float *)k->buffers[0] + n * classes;
        const float offset = largest(row, classes);
        const double log_sum = ls__log(sum_exponentials(row, classes, offset));
        const int32_t label = labels[n];
        const bool known = label >= 0 && label < classes;
        lse[2 * n] = offset;
        lse[2 * n + 1] = (float)log_sum;
        row_losses(k)[n] = label == -1 ? 0 : (double)NAN;
        row_weights(k)[n] = 0;
        if (!known) continue;
        const double w = weights ? (double)weights[label] : 1;
        double loss = (1 - smoothing) * w * (log_sum - ((double)row[label] - (double)offset));
        if (smoothing > 0)
            loss += smoothing / (double)classes *
                    (all_weights * log_sum - inner_product(row, offset, weights, classes));
        row_losses(k)[n] = loss;
        row_weights(k)[n] = w;
    }
}

static void add_tree(double *values, int64_t n)
{
    for (int64_t step = 1; step < n; step *= 2)
        for (int64_t i = 0; i + step < n; i += 2 * step) values[i] += values[i + step];
}

static void finish_forward(const ls__ops_kernel *k, int64_t task)
{
    (void)task;
    add_tree(row_losses(k), n_rows(k));
    add_tree(row_weights(k), n_rows(k));
    const double loss = row_losses(k)[0], total = row_weights(k)[0];
    *(float *)k->buffers[3] = (float)(total == 0 && !isnan(loss) ? 0 : loss / total);
    *(float *)k->buffers[5] = (float)total;
}

static bool plan_forward(ls__ops_kernel *k)
{
    k->n_chunks = ls__min(n_rows(k), ls__divide_up(n_rows(k) * n_classes(k), TASK_LOGITS));
    k->kernel.workspace_bytes = (size_t)n_rows(k) * 2 * sizeof(double);
    k->bytes = (double)(n_rows(k) * n_classes(k)) * sizeof(float) * 2;
    ls__add_stage(k, rows_forward, k->n_chunks);
    ls__add_stage(k, finish_forward, 1);
    return true;
}

/* ---- Backward: logits labels weights? lse total dloss -> dlogits ---- */

static void rows_backward(const ls__ops_kernel *k, int64_t task)
{
    const int32_t *labels = k->buffers[1];
    const float *weights = k->buffers[2], *lse = k->buffers[3];
    const double total = (double)*(const float *)k->buffers[4];
    const double dloss = (double)*(const float *)k->buffers[5];
    const int64_t classes = n_classes(k);
    const double smoothing = (double)k->op.u.loss.label_smoothing;
    const double all_weights = sum_of_weights(k);
    const float factor = total == 0 ? 0 : (float)(dloss / total);
    const float soft = (float)(smoothing / (double)classes);
    const ls__range rows = ls__part(n_rows(k), k->n_chunks, task, 1);
    for (int64_t n = rows.begin; n < rows.end; n++) {
        const float *restrict row = (const float *)k->buffers[0] + n * classes;
        float *restrict gradient = (float *)k->buffers[6] + n * classes;
        const int32_t label = labels[n];
        if (label < 0 || label >= classes) {
            for (int64_t c = 0; c < classes; c++) gradient[c] = label == -1 ? 0 : NAN;
            continue;
        }
        const double hard = (1 - smoothing) * (weights ? (double)weights[label] : 1);
        const float slope = (float)(hard + smoothing / (double)classes * all_weights);
        const float offset = lse[2 * n], log_sum = lse[2 * n + 1];
        const float at_label = slope * ls__exp((row[label] - offset) - log_sum) -
                               soft * (weights ? weights[label] : 1) - (float)hard;
        if (weights)
            for (int64_t c = 0; c < classes; c++)
                gradient[c] =
                    (slope * ls__exp((row[c] - offset) - log_sum) - soft * weights[c]) * factor;
        else
            for (int64_t c = 0; c < classes; c++)
                gradient[c] = (slope * ls__exp((row[c] - offset) - log_sum) - soft) * factor;
        gradient[label] = at_label * factor;
    }
}

static bool plan_backward(ls__ops_kernel *k)
{
    k->n_chunks = ls__min(n_rows(k), ls__divide_up(n_rows(k) * n_classes(k), TASK_LOGITS));
    k->bytes = (double)(n_rows(k) * n_classes(k)) * sizeof(float) * 2;
    ls__add_stage(k, rows_backward, k->n_chunks);
    return true;
}

/* ---- Top-k: logits labels -> count ---- */

static void rows_top_k(const ls__ops_kernel *k, int64_t task)
{
    const int32_t *labels = k->buffers[1];
    const int64_t classes = n_classes(k);
    int64_t count = 0;
    const ls__range rows = ls__part(n_rows(k), k->n_chunks, task, 1);
    for (int64_t n = rows.begin; n < rows.end; n++) {
        const float *row = (const float *)k->buffers[0] + n * classes;
        if (labels[n] < 0 || labels[n] >= classes) continue;
        const float mine = row[labels[n]];
        int32_t before = 0; /* a logit that equals the label's stands before it, as does NaN */
        for (int64_t c = 0; c < classes; c++) before += !(row[c] < mine);
        before--; /* the label itself */
        count += before < k->op.u.top_k.k;
    }
    ((int64_t *)k->workspace)[task] = count;
}

static void finish_top_k(const ls__ops_kernel *k, int64_t task)
{
    (void)task;
    int64_t count = 0;
    for (int64_t i = 0; i < k->n_chunks; i++) count += ((const int64_t *)k->workspace)[i];
    *(float *)k->buffers[2] = (float)count;
}

static bool plan_top_k(ls__ops_kernel *k)
{
    k->n_chunks = ls__min(n_rows(k), ls__divide_up(n_rows(k) * n_classes(k), LS__TASK_ELEMENTS));
    k->kernel.workspace_bytes = (size_t)k->n_chunks * sizeof(int64_t);
    k->bytes = (double)(n_rows(k) * n_classes(k)) * sizeof(float);
    ls__add_stage(k, rows_top_k, k->n_chunks);
    ls__add_stage(k, finish_top_k, 1);
    return true;
}

const ls__ops_plan LS__ISA_NAME(ls__ops_loss)[LS__N_OPS] = {
    [LS__OP_CROSS_ENTROPY] = plan_forward,
    [LS__OP_CROSS_ENTROPY_BACKWARD] = plan_backward,
    [LS__OP_TOP_K] = plan_top_k,
};
