/* predict.c: see evaluate.h. The probability of class k is the mean of softmax(z)_k over the logits
 * z of the image and, with test_time_flip, of its mirror image; or of sigmoid(z_k), or of z_k
 * itself. Sums are in double, in the order of the classes. */
#include "train/evaluate.h"

#include "base/context.h"
#include "base/error.h"
#include "base/floats.h"
#include "arith/functions.h"
#include <math.h>
#include <string.h>

static double exponential(double x)
{
    return x < -700 ? 0 : ls__exp2(x * M_LOG2E);
}

/* log(sum of exp(row)); NaN where a logit is not finite. */
static double log_sum(int64_t n, const float *row)
{
    float largest = row[0];
    double sum = 0;
    for (int64_t k = 0; k < n; k++) {
        if (!isfinite(row[k])) return NAN;
        if (row[k] > largest) largest = row[k];
    }
    for (int64_t k = 0; k < n; k++) sum += exponential((double)row[k] - (double)largest);
    return (double)largest + ls__log2(sum) * M_LN2;
}

/* ---- Running the net ---- */

void ls__prediction_free(ls__prediction *p)
{
    ls_context *ctx = ls_net_context(p->net);
    ls__buffer_free(ctx, &p->logit_memory);
    ls__buffer_free(ctx, &p->label_memory);
    ls__buffer_free(ctx, &p->pixels);
    ls_tensor_close(&p->mirrored);
    p->logits = p->probabilities = NULL;
    p->labels = NULL;
}

/* Reads the logits of the images that the net has run, or of their mirror images. */
static ls_status read_logits(ls__prediction *p, const char *call, bool mirrored)
{
    const ls_tensor *output = ls_net_output(p->net, "output");
    if (!output) return LS_ERR_EARLIER;
    const ls_shape *shape = ls_tensor_shape(output);
    if (ls_tensor_dtype(output) != LS_F32 || shape->n_dims != 2) {
        char text[LS_SHAPE_TEXT_SIZE];
        return ls__fail(ls_net_context(p->net), LS_ERR_INVALID,
                        "%s: the net's output is %s %s, expected F32 [n,classes]", call,
                        ls_dtype_name(ls_tensor_dtype(output)),
                        ls_shape_text(shape, text, sizeof(text)));
    }
    p->n = shape->dims[0];
    p->n_classes = shape->dims[1];
    const size_t rows = (size_t)(p->n * p->n_classes), n = (p->test_time_flip ? 3 : 2) * rows;
    p->logits = p->probabilities = NULL;
    if (!ls__buffer_reserve(ls_net_context(p->net), &p->logit_memory, n * sizeof(float)))
        return ls__fail_memory(ls_net_context(p->net), call, n * sizeof(float));
    p->logits = (void *)p->logit_memory.bytes;
    p->probabilities = p->logits + n - rows;
    return ls_tensor_read(output, p->logits + (mirrored ? rows : 0), rows * sizeof(float));
}

static ls_status run(ls__prediction *p, const char *call, const ls_batch *batch, bool mirrored)
{
    const ls_batch images = {
        .images = batch->images, .n = batch->n, .epoch = batch->epoch, .step = batch->step
    };
    LS_TRY(ls_net_evaluate(p->net, &images));
    return read_logits(p, call, mirrored);
}

/* A buffer and a tensor of the images' type and shape, which the next batch uses again. */
static ls_status reserve_mirrored(ls__prediction *p, const char *call, const ls_tensor *images)
{
    ls_context *ctx = ls_net_context(p->net);
    const ls_shape *shape = ls_tensor_shape(images);
    const size_t n_bytes = ls_tensor_bytes(images);
    if (!ls__buffer_reserve(ctx, &p->pixels, n_bytes)) return ls__fail_memory(ctx, call, n_bytes);
    const ls_dtype dtype = ls_tensor_dtype(images);
    if (p->mirrored && ls_tensor_dtype(p->mirrored) == dtype &&
        ls_shape_equal(ls_tensor_shape(p->mirrored), shape))
        return LS_OK;
    ls_tensor_close(&p->mirrored);
    p->mirrored = ls_tensor_open(ctx, dtype, *shape);
    return p->mirrored ? LS_OK : LS_ERR_EARLIER;
}

/* The images, mirrored left to right, to p->mirrored. */
static ls_status mirror(ls__prediction *p, const char *call, const ls_tensor *images)
{
    ls_context *ctx = ls_net_context(p->net);
    const ls_shape *shape = ls_tensor_shape(images);
    const size_t n_bytes = ls_tensor_bytes(images);
    if (shape->n_dims != 4)
        return ls__fail(ctx, LS_ERR_SHAPE,
                        "%s: test_time_flip: the images have %d dimensions, "
                        "expected [n,height,width,channels]",
                        call, shape->n_dims);
    LS_TRY(reserve_mirrored(p, call, images));
    LS_TRY(ls_tensor_read(images, p->pixels.bytes, n_bytes));
    const int64_t width = shape->dims[2];
    const size_t row_bytes = n_bytes / (size_t)(shape->dims[0] * shape->dims[1]);
    const size_t pixel = row_bytes / (size_t)width;
    for (uint8_t *row = p->pixels.bytes; row < p->pixels.bytes + n_bytes; row += row_bytes)
        for (int64_t x = 0; x < width / 2; x++) {
            uint8_t *left = row + (size_t)x * pixel;
            uint8_t *right = row + (size_t)(width - 1 - x) * pixel;
            for (size_t b = 0; b < pixel; b++) {
                const uint8_t byte = left[b];
                left[b] = right[b];
                right[b] = byte;
            }
        }
    return ls_tensor_write(p->mirrored, p->pixels.bytes, n_bytes);
}

/* Of one row of logits, whose log_sum is `sum`. */
static double probability(ls_loss_kind loss, double logit, double sum)
{
    if (loss == LS_LOSS_MSE) return logit;
    if (!isfinite(loss == LS_LOSS_BINARY_CROSS_ENTROPY ? logit : sum)) return NAN;
    if (loss != LS_LOSS_BINARY_CROSS_ENTROPY) return exponential(logit - sum);
    const double e = exponential(-fabs(logit)); /* without overflow */
    return logit >= 0 ? 1 / (1 + e) : e / (1 + e);
}

static void compute_probabilities(ls__prediction *p)
{
    const int64_t n = p->n_classes, n_runs = p->test_time_flip ? 2 : 1;
    for (int64_t i = 0; i < p->n; i++) {
        const float *rows[2] = { p->logits + i * n, p->logits + (p->n + i) * n };
        double sums[2] = { 0 };
        for (int64_t r = 0; r < n_runs; r++) sums[r] = log_sum(n, rows[r]);
        for (int64_t k = 0; k < n; k++) {
            double sum = 0;
            for (int64_t r = 0; r < n_runs; r++)
                sum += probability(p->loss, (double)rows[r][k], sums[r]);
            p->probabilities[i * n + k] = (float)(sum / (double)n_runs);
        }
    }
}

ls_status ls__predict(ls__prediction *p, const char *call, const ls_batch *batch)
{
    LS_TRY(run(p, call, batch, false));
    if (p->test_time_flip) {
        ls_batch mirrored = *batch;
        LS_TRY(mirror(p, call, batch->images));
        mirrored.images = p->mirrored;
        LS_TRY(run(p, call, &mirrored, true));
    }
    compute_probabilities(p);
    return LS_OK;
}

ls_status ls__prediction_read(ls__prediction *p, const char *call)
{
    LS_TRY(read_logits(p, call, false));
    compute_probabilities(p);
    return LS_OK;
}

/* ---- Results ---- */

/* -log of the label's mean probability, from logarithms, so that small ones do not become 0. */
static double loss_of(const ls__prediction *p, int64_t i, int64_t label)
{
    const int64_t n = p->n_classes;
    const float *first = p->logits + i * n, *second = first + p->n * n;
    const double a = (double)first[label] - log_sum(n, first);
    if (!p->test_time_flip) return -a;
    const double b = (double)second[label] - log_sum(n, second);
    if (!isfinite(a) || !isfinite(b)) return NAN;
    const double larger = a > b ? a : b;
    const double sum = exponential(a - larger) + exponential(b - larger);
    return -(larger + (ls__log2(sum) - 1) * M_LN2);
}

ls_status ls__prediction_read_labels(ls__prediction *p, const ls_batch *batch)
{
    ls_context *ctx = ls_net_context(p->net);
    const size_t n_bytes = (size_t)p->n * sizeof(int32_t);
    p->labels = NULL;
    if (!ls__buffer_reserve(ctx, &p->label_memory, n_bytes))
        return ls__fail_memory(ctx, "labels of a batch", n_bytes);
    p->labels = (void *)p->label_memory.bytes;
    return ls_tensor_read(batch->labels, p->labels, n_bytes);
}

ls_status ls__prediction_results(ls__prediction *p, const ls_batch *batch, ls_results *out)
{
    ls_context *ctx = ls_net_context(p->net);
    ls_status status = ls__prediction_read_labels(p, batch);
    const int32_t *labels = p->labels;
    double loss = 0;
    int64_t top1 = 0, top5 = 0;
    for (int64_t i = 0; i < p->n && status == LS_OK; i++) {
        if (labels[i] < 0 || labels[i] >= p->n_classes) {
            status = ls__fail(ctx, LS_ERR_INVALID, "evaluation: label %d, expected 0 to %lld",
                              (int)labels[i], (long long)p->n_classes - 1);
            break;
        }
        const float *row = p->probabilities + i * p->n_classes;
        int64_t before = 0; /* as ls_top_k_correct: equal ones count as larger */
        for (int64_t k = 0; k < p->n_classes; k++)
            before += k != labels[i] && !(row[k] < row[labels[i]]);
        loss += loss_of(p, i, labels[i]);
        top1 += before < 1;
        top5 += before < 5 && p->n_classes > 5;
    }
    const double n = (double)p->n;
    *out =
        (ls_results){ .epoch = batch->epoch,
                      .step = batch->step,
                      .n = p->n,
                      .has_loss = true,
                      .loss = loss / n,
                      .loss_weight = n,
                      .n_metrics = 2,
                      .metrics = { { "top1", (double)top1 / n }, { "top5", (double)top5 / n } } };
    return status;
}

ls_status ls_predict(ls_net *net, const ls_batch *batch, const ls_predict_config *config,
                     float *probabilities, size_t bytes)
{
    LS__DEFAULT_FLOATS;
    if (!net) return LS_ERR_EARLIER;
    ls_context *ctx = ls_net_context(net);
    LS__ENTER(ctx);
    if (!batch || !batch->images || !probabilities)
        return ls__fail(ctx, LS_ERR_INVALID, "ls_predict: %s is NULL",
                        probabilities ? "batch" : "probabilities");
    const int loss = config ? (int)config->loss : LS_LOSS_NONE;
    if (loss < LS_LOSS_NONE || loss > LS_LOSS_MSE)
        return ls__fail(ctx, LS_ERR_INVALID, "ls_predict: loss is %d, expected 0 to %d", loss,
                        (int)LS_LOSS_MSE);
    ls__prediction p = { .net = net,
                         .test_time_flip = config && config->test_time_flip,
                         .loss = (ls_loss_kind)loss };
    ls_status status = ls__predict(&p, "ls_predict", batch);
    const size_t n_bytes = (size_t)(p.n * p.n_classes) * sizeof(float);
    if (status == LS_OK && bytes != n_bytes)
        status = ls__fail(ctx, LS_ERR_INVALID,
                          "ls_predict: %zu bytes for %lld x %lld probabilities, expected %zu",
                          bytes, (long long)p.n, (long long)p.n_classes, n_bytes);
    if (status == LS_OK) memcpy(probabilities, p.probabilities, n_bytes);
    ls__prediction_free(&p);
    return status;
}
