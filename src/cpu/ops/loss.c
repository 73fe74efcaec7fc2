/* loss.c: losses and top-k count; tests/reference_kernels/loss.c has the formulas. A sum over a row
 * is LS__CHAINS chains of additions, which a fixed tree adds up. */
#include "arith/activation.h"
#include "cpu/ops/ops.h"
#include "cpu/simd/math.h"
#include "cpu/tree.h"
#include <math.h>

/* Logits per task: about 20 microseconds of exponentials. */
enum { TASK_LOGITS = 8 * 1024 };

static int64_t n_rows(const ls__ops_kernel *k)
{
    return k->op.operands[0].shape.dims[0];
}

static int64_t n_classes(const ls__ops_kernel *k)
{
    return k->op.operands[0].shape.dims[1];
}

/* The next values of a row, one per chain; `rest` after the end of the row. */
static void load_values(const float *row, int64_t n, float rest, float values[LS__CHAINS])
{
    if (n >= LS__CHAINS) {
        memcpy(values, row, LS__CHAINS * sizeof *values);
        return;
    }
    for (int64_t i = 0; i < LS__CHAINS; i++) values[i] = i < n ? row[i] : rest;
}

/* The row's largest logit. NaN is skipped: the exponentials make the loss NaN. */
static float largest(const float *row, int64_t n)
{
    float best[LS__CHAINS], values[LS__CHAINS];
    load_values(row, n, row[0], best);
    for (int64_t k = LS__CHAINS; k < n; k += LS__CHAINS) {
        load_values(row + k, n - k, row[0], values);
        for (int i = 0; i < LS__CHAINS; i++) best[i] = values[i] > best[i] ? values[i] : best[i];
    }
    float result = best[0];
    for (int i = 1; i < LS__CHAINS; i++) result = best[i] > result ? best[i] : result;
    return result;
}

static double sum_exponentials(const float *row, int64_t n, float offset)
{
    double sum[LS__CHAINS] = { 0 };
    float values[LS__CHAINS];
    for (int64_t k = 0; k < n; k += LS__CHAINS) {
        load_values(row + k, n - k, -INFINITY, values);
        for (int i = 0; i < LS__CHAINS; i++) sum[i] += (double)ls__exp(values[i] - offset);
    }
    return ls__fold(sum);
}

/* sum of (a[k] - offset) b[k]; b NULL: all 1 */
static double inner_product(const float *a, float offset, const float *b, int64_t n)
{
    double sum[LS__CHAINS] = { 0 };
    float x[LS__CHAINS], y[LS__CHAINS];
    for (int i = 0; i < LS__CHAINS; i++) y[i] = 1;
    for (int64_t k = 0; k < n; k += LS__CHAINS) {
        load_values(a + k, n - k, offset, x);
        if (b) load_values(b + k, n - k, 0, y);
        for (int i = 0; i < LS__CHAINS; i++)
            sum[i] += ((double)x[i] - (double)offset) * (double)y[i];
    }
    return ls__fold(sum);
}

static double sum_of_weights(const ls__ops_kernel *k)
{
    const float *weights = k->buffers[2];
    return weights ? inner_product(weights, 0, NULL, n_classes(k)) : (double)n_classes(k);
}

/* ---- Forward: logits labels weights? -> loss lse total ---- */

/* Each row's terms of the two sums. */
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
    const ls__range rows = ls__share(n_rows(k), k->n_chunks, task, 1);
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

static void finish_forward(const ls__ops_kernel *k, int64_t task)
{
    (void)task;
    const double loss = ls__tree_total(row_losses(k), n_rows(k));
    const double total = ls__tree_total(row_weights(k), n_rows(k));
    *(float *)k->buffers[3] = (float)(total == 0 && !isnan(loss) ? 0 : loss / total);
    *(float *)k->buffers[5] = (float)total;
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
    const ls__range rows = ls__share(n_rows(k), k->n_chunks, task, 1);
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

/* ---- Losses of targets: the mean of terms of the logits and targets ---- */

/* Values that all terms of a row share. */
typedef struct row_terms {
    const float *x, *targets, *weights; /* weights NULL: all 1 */
    double hard, soft;                  /* a class's target is hard * its target + soft */
    double offset, log_sum;             /* of the softmax */
} row_terms;

static row_terms terms_of(const ls__ops_kernel *k, int64_t n)
{
    const bool soft =
        k->op.kind == LS__OP_SOFT_CROSS_ENTROPY || k->op.kind == LS__OP_SOFT_CROSS_ENTROPY_BACKWARD;
    const bool has_weights = k->op.kind != LS__OP_MSE && k->op.kind != LS__OP_MSE_BACKWARD;
    const double smoothing = soft ? (double)k->op.u.loss.label_smoothing : 0;
    const int64_t classes = n_classes(k);
    return (row_terms){ .x = (const float *)k->buffers[0] + n * classes,
                        .targets = (const float *)k->buffers[1] + n * classes,
                        .weights = has_weights ? k->buffers[2] : NULL,
                        .hard = 1 - smoothing,
                        .soft = smoothing / (double)classes };
}

static double weight_at(const row_terms *r, int64_t c)
{
    return r->weights ? (double)r->weights[c] : 1;
}

/* W t, with t after label smoothing */
static double weighted_target(const row_terms *r, int64_t c)
{
    return weight_at(r, c) * (r->hard * (double)r->targets[c] + r->soft);
}

typedef double term_fn(const row_terms *r, int64_t c);

/* Inlined, so that each loss has its own loop. */
LS__ALWAYS_INLINE double sum_terms(const row_terms *r, int64_t n, term_fn *term)
{
    double sum[LS__CHAINS] = { 0 };
    for (int64_t c = 0; c < n; c += LS__CHAINS) {
        const int64_t rest = ls__min_i64(n - c, LS__CHAINS);
        for (int64_t i = 0; i < rest; i++) sum[i] += term(r, c + i);
    }
    return ls__fold(sum);
}

static inline double soft_term(const row_terms *r, int64_t c)
{
    return weighted_target(r, c) * (r->log_sum - ((double)r->x[c] - r->offset));
}

static inline double binary_term(const row_terms *r, int64_t c)
{
    const double x = (double)r->x[c], t = (double)r->targets[c];
    const double power = (double)ls__exp_negative(-fabsf(r->x[c]));
    return (1 - t) * x + (1 + (weight_at(r, c) - 1) * t) * (ls__log(1 + power) + (x < 0 ? -x : 0));
}

static inline double square_term(const row_terms *r, int64_t c)
{
    const double difference = (double)r->x[c] - (double)r->targets[c];
    return difference * difference;
}

static void rows_soft(const ls__ops_kernel *k, int64_t task)
{
    float *lse = k->buffers[4];
    const ls__range rows = ls__share(n_rows(k), k->n_chunks, task, 1);
    for (int64_t n = rows.begin; n < rows.end; n++) {
        row_terms r = terms_of(k, n);
        const float offset = largest(r.x, n_classes(k));
        r.offset = (double)offset;
        r.log_sum = ls__log(sum_exponentials(r.x, n_classes(k), offset));
        lse[2 * n] = offset;
        lse[2 * n + 1] = (float)r.log_sum;
        row_losses(k)[n] = sum_terms(&r, n_classes(k), soft_term);
    }
}

static void rows_binary(const ls__ops_kernel *k, int64_t task)
{
    const ls__range rows = ls__share(n_rows(k), k->n_chunks, task, 1);
    for (int64_t n = rows.begin; n < rows.end; n++) {
        const row_terms r = terms_of(k, n);
        row_losses(k)[n] = sum_terms(&r, n_classes(k), binary_term);
    }
}

static void rows_square(const ls__ops_kernel *k, int64_t task)
{
    const ls__range rows = ls__share(n_rows(k), k->n_chunks, task, 1);
    for (int64_t n = rows.begin; n < rows.end; n++) {
        const row_terms r = terms_of(k, n);
        row_losses(k)[n] = sum_terms(&r, n_classes(k), square_term);
    }
}

/* The number of terms that the mean is over: rows, or elements. */
static double mean_count(const ls__ops_kernel *k)
{
    const bool soft =
        k->op.kind == LS__OP_SOFT_CROSS_ENTROPY || k->op.kind == LS__OP_SOFT_CROSS_ENTROPY_BACKWARD;
    return (double)(n_rows(k) * (soft ? 1 : n_classes(k)));
}

static void finish_mean(const ls__ops_kernel *k, int64_t task)
{
    (void)task;
    const int loss = ls__op_inputs(k->op.kind);
    *(float *)k->buffers[loss] = (float)(ls__tree_total(row_losses(k), n_rows(k)) / mean_count(k));
}

/* ---- Their gradients: the last two operands are dloss -> dlogits ---- */

static float mean_factor(const ls__ops_kernel *k)
{
    return (float)((double)*(const float *)k->buffers[k->op.n_operands - 2] / mean_count(k));
}

static float *gradient_row(const ls__ops_kernel *k, int64_t n)
{
    return (float *)k->buffers[k->op.n_operands - 1] + n * n_classes(k);
}

static void rows_soft_backward(const ls__ops_kernel *k, int64_t task)
{
    const float *lse = k->buffers[3], factor = mean_factor(k);
    const ls__range rows = ls__share(n_rows(k), k->n_chunks, task, 1);
    for (int64_t n = rows.begin; n < rows.end; n++) {
        const row_terms r = terms_of(k, n);
        float *restrict gradient = gradient_row(k, n);
        const float slope = (float)sum_terms(&r, n_classes(k), weighted_target);
        for (int64_t c = 0; c < n_classes(k); c++)
            gradient[c] = (slope * ls__exp((r.x[c] - lse[2 * n]) - lse[2 * n + 1]) -
                           (float)weighted_target(&r, c)) *
                          factor;
    }
}

static void rows_binary_backward(const ls__ops_kernel *k, int64_t task)
{
    const float factor = mean_factor(k);
    const ls__range rows = ls__share(n_rows(k), k->n_chunks, task, 1);
    for (int64_t n = rows.begin; n < rows.end; n++) {
        const row_terms r = terms_of(k, n);
        float *restrict gradient = gradient_row(k, n);
        for (int64_t c = 0; c < n_classes(k); c++) {
            const float t = r.targets[c], weighted = (float)weight_at(&r, c) * t;
            const float power = ls__exp_negative(-fabsf(r.x[c]));
            const float p = (1 - t + weighted) * (power / (1 + power));
            gradient[c] = (r.x[c] < 0 ? p - weighted : 1 - t - p) * factor;
        }
    }
}

static void rows_square_backward(const ls__ops_kernel *k, int64_t task)
{
    const float factor = 2 * mean_factor(k);
    const ls__range rows = ls__share(n_rows(k), k->n_chunks, task, 1);
    for (int64_t n = rows.begin; n < rows.end; n++) {
        const row_terms r = terms_of(k, n);
        float *restrict gradient = gradient_row(k, n);
        for (int64_t c = 0; c < n_classes(k); c++) gradient[c] = (r.x[c] - r.targets[c]) * factor;
    }
}

/* ---- Top-k: logits labels -> count ---- */

static void rows_top_k(const ls__ops_kernel *k, int64_t task)
{
    const int32_t *labels = k->buffers[1];
    const int64_t classes = n_classes(k);
    int64_t count = 0;
    const ls__range rows = ls__share(n_rows(k), k->n_chunks, task, 1);
    for (int64_t n = rows.begin; n < rows.end; n++) {
        const float *row = (const float *)k->buffers[0] + n * classes;
        if (labels[n] < 0 || labels[n] >= classes) continue;
        const float mine = row[labels[n]];
        int32_t before = -1; /* the label itself; an equal logit or NaN counts as larger */
        for (int64_t c = 0; c < classes; c++) before += !(row[c] < mine);
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

/* ---- Preparation: a pass over the rows, then over its sums. ---- */

static bool prepare_loss(ls__ops_kernel *k)
{
    static const struct {
        ls__ops_task run, finish;
        size_t n_sums; /* of 8 bytes, of each row; TOP_K has one for each chunk of rows */
    } phases[LS__N_OPS] = {
        [LS__OP_CROSS_ENTROPY] = { rows_forward, finish_forward, 2 },
        [LS__OP_CROSS_ENTROPY_BACKWARD] = { rows_backward, NULL, 0 },
        [LS__OP_SOFT_CROSS_ENTROPY] = { rows_soft, finish_mean, 1 },
        [LS__OP_SOFT_CROSS_ENTROPY_BACKWARD] = { rows_soft_backward, NULL, 0 },
        [LS__OP_BINARY_CROSS_ENTROPY] = { rows_binary, finish_mean, 1 },
        [LS__OP_BINARY_CROSS_ENTROPY_BACKWARD] = { rows_binary_backward, NULL, 0 },
        [LS__OP_MSE] = { rows_square, finish_mean, 1 },
        [LS__OP_MSE_BACKWARD] = { rows_square_backward, NULL, 0 },
        [LS__OP_TOP_K] = { rows_top_k, finish_top_k, 1 },
    };
    const ls__operand *logits = &k->op.operands[0];
    const int64_t task_logits = k->op.kind == LS__OP_TOP_K ? LS__TASK_ELEMENTS : TASK_LOGITS;
    if (logits->dtype != LS_F32) return false;
    k->n_chunks = ls__min_i64(n_rows(k), ls__divide_up(ls__count(logits), task_logits));
    k->kernel.workspace_bytes = (size_t)n_rows(k) * phases[k->op.kind].n_sums * sizeof(double);
    ls__add_phase(k, phases[k->op.kind].run, k->n_chunks);
    if (phases[k->op.kind].finish) ls__add_phase(k, phases[k->op.kind].finish, 1);
    return true;
}

const ls__ops_prepare LS__ISA_NAME(ls__ops_loss)[LS__N_OPS] = {
    [LS__OP_CROSS_ENTROPY] = prepare_loss,
    [LS__OP_CROSS_ENTROPY_BACKWARD] = prepare_loss,
    [LS__OP_SOFT_CROSS_ENTROPY] = prepare_loss,
    [LS__OP_SOFT_CROSS_ENTROPY_BACKWARD] = prepare_loss,
    [LS__OP_BINARY_CROSS_ENTROPY] = prepare_loss,
    [LS__OP_BINARY_CROSS_ENTROPY_BACKWARD] = prepare_loss,
    [LS__OP_MSE] = prepare_loss,
    [LS__OP_MSE_BACKWARD] = prepare_loss,
    [LS__OP_TOP_K] = prepare_loss,
};
