/* evaluation.c: collects predictions and computes measures of them; see lockstep/evaluation.h. */
#include "train/evaluation.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/floats.h"
#include "arith/functions.h"
#include "data/dataset/dataset.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void free_values(ls_evaluation *e)
{
    const ls_context *ctx = e->owned.ctx;
    ls__free(ctx, e->results);
    ls__free(ctx, e->confusion);
    ls__free(ctx, e->confused);
    ls__free(ctx, e->mistakes);
    e->results = NULL;
    e->confusion = e->confused = NULL;
    e->mistakes = NULL;
    e->n_confusion = e->n_confused = e->n_mistakes = 0;
    e->result = (ls_evaluation_result){ 0 };
    memset(e->bins, 0, sizeof e->bins);
}

static void close_evaluation(ls__owned *owned)
{
    ls_evaluation *e = (ls_evaluation *)owned;
    const ls_context *ctx = owned->ctx;
    free_values(e);
    ls__bump_close(&e->names);
    ls__free(ctx, e->outcomes);
    ls__free(ctx, e->labels);
    ls__free(ctx, e->rows);
    ls__free(ctx, e->json);
    ls__free(ctx, e);
}

ls_evaluation *ls_evaluation_open(ls_context *ctx, const ls_evaluation_config *config)
{
    static const ls_evaluation_config none = { 0 };
    const ls_evaluation_config *c = config ? config : &none;
    LS__ENTER_NULL(ctx);
    if (c->n_classes < 1)
        return ls__fail(ctx, LS_ERR_INVALID,
                        "ls_evaluation_open: n_classes is %d, expected 1 or more", c->n_classes),
               NULL;
    if (c->zero_division != 0 && c->zero_division != 1 && !isnan(c->zero_division))
        return ls__fail(ctx, LS_ERR_INVALID,
                        "ls_evaluation_open: zero_division is %g, expected 0, 1 or NaN",
                        c->zero_division),
               NULL;
    ls_evaluation *e = ls__zalloc(ctx, sizeof *e);
    if (!e) return ls__fail_memory(ctx, "ls_evaluation_open", sizeof *e), NULL;
    e->owned.ctx = ctx;
    e->n_classes = c->n_classes;
    e->zero_division = c->zero_division;
    e->has_auc = c->auc;
    ls__bump_open(&e->names, ctx);
    e->classes = ls__dataset_copy_names(&e->names, c->n_classes, c->classes);
    if (!e->classes) {
        ls__fail_memory(ctx, "ls_evaluation_open", 0);
        close_evaluation(&e->owned);
        return NULL;
    }
    ls__own(ctx, &e->owned, close_evaluation);
    return e;
}

void ls_evaluation_close(ls_evaluation **evaluation)
{
    if (!evaluation || !*evaluation) return;
    ls__disown_and_close(&(*evaluation)->owned);
    *evaluation = NULL;
}

/* ---- Predictions ---- */

void ls__evaluation_clear(ls_evaluation *e)
{
    e->n = 0;
    free_values(e);
}

/* Returns an array of e->n items with more capacity; NULL, and no change, without memory. */
static void *enlarge(const ls_evaluation *e, void *items, size_t item_bytes, int64_t capacity)
{
    return ls__realloc(e->owned.ctx, items, (size_t)e->n * item_bytes,
                       (size_t)capacity * item_bytes);
}

/* Increases the capacity by n predictions or more. */
static ls_status evaluation_reserve(ls_evaluation *e, int64_t n)
{
    if (e->n + n <= e->capacity) return LS_OK;
    const int64_t capacity = 2 * e->capacity + n;
    const size_t row_bytes = (size_t)e->n_classes * sizeof *e->rows;
    ls__outcome *outcomes = enlarge(e, e->outcomes, sizeof *outcomes, capacity);
    int32_t *labels = e->has_auc ? enlarge(e, e->labels, sizeof *labels, capacity) : NULL;
    float *rows = e->has_auc ? enlarge(e, e->rows, row_bytes, capacity) : NULL;
    if (outcomes) e->outcomes = outcomes;
    if (labels) e->labels = labels;
    if (rows) e->rows = rows;
    if (!outcomes || (e->has_auc && (!labels || !rows)))
        return ls__fail_memory(e->owned.ctx, "predictions",
                               (size_t)capacity * (sizeof *e->outcomes + row_bytes));
    e->capacity = capacity;
    return LS_OK;
}

/* False if a probability is NaN. */
static bool judge(const float *row, int n_classes, int32_t label, ls__outcome *out)
{
    int32_t best = 0, before = 0;
    for (int32_t k = 0; k < n_classes; k++) {
        if (isnan(row[k])) return false;
        if (row[k] > row[best]) best = k;
        before += k < label ? row[k] >= row[label] : row[k] > row[label];
    }
    *out = (ls__outcome){ .label = label,
                          .predicted = best,
                          .confidence = row[best],
                          .label_probability = row[label],
                          .before_label = before };
    return true;
}

ls_status ls_evaluation_add(ls_evaluation *e, int64_t n, const int32_t *labels,
                            const float *probabilities, const int64_t *samples)
{
    if (!e) return LS_ERR_EARLIER;
    ls_context *ctx = e->owned.ctx;
    LS__ENTER(ctx);
    if (n < 0 || (n > 0 && (!labels || !probabilities)))
        return ls__fail(ctx, LS_ERR_INVALID, "ls_evaluation_add: %s",
                        n < 0     ? "n is negative"
                        : !labels ? "labels is NULL"
                                  : "probabilities is NULL");
    for (int64_t i = 0; i < n; i++)
        if (labels[i] < -1 || labels[i] >= e->n_classes)
            return ls__fail(ctx, LS_ERR_INVALID, "ls_evaluation_add: label %d, expected -1 to %d",
                            (int)labels[i], e->n_classes - 1);
    LS_TRY(evaluation_reserve(e, n));
    for (int64_t i = 0; i < n; i++) {
        ls__outcome *out = &e->outcomes[e->n];
        if (labels[i] < 0 || !judge(probabilities + i * e->n_classes, e->n_classes, labels[i], out))
            continue;
        out->sample = samples ? samples[i] : e->n;
        if (e->has_auc) {
            e->labels[e->n] = labels[i];
            memcpy(e->rows + e->n * e->n_classes, probabilities + i * e->n_classes,
                   (size_t)e->n_classes * sizeof *e->rows);
        }
        e->n++;
    }
    return LS_OK;
}

/* ---- Orders ---- */

#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))

/* Total up to outcomes that are equal, so that the sorted list does not depend on ranks. */
static int by_sample(const void *x, const void *y)
{
    const ls__outcome *a = x, *b = y;
    if (a->sample != b->sample) return ORDER(a->sample, b->sample);
    if (a->label != b->label) return ORDER(a->label, b->label);
    if (a->predicted != b->predicted) return ORDER(a->predicted, b->predicted);
    if (a->confidence != b->confidence) return ORDER(a->confidence, b->confidence);
    return ORDER(a->label_probability, b->label_probability);
}

static int by_label(const void *x, const void *y)
{
    const ls_confusion *a = x, *b = y;
    return a->label != b->label ? ORDER(a->label, b->label) : ORDER(a->predicted, b->predicted);
}

static int by_images(const void *x, const void *y)
{
    const ls_confusion *a = x, *b = y;
    return a->n_images != b->n_images ? ORDER(b->n_images, a->n_images) : by_label(x, y);
}

static int by_confidence(const void *x, const void *y)
{
    const ls_mistake *a = x, *b = y;
    if (a->confidence != b->confidence) return ORDER(b->confidence, a->confidence);
    if (a->sample != b->sample) return ORDER(a->sample, b->sample);
    return ORDER(a->label, b->label);
}

/* ---- Values ---- */

static void count_pairs(ls_evaluation *e)
{
    ls_confusion *pairs = e->confusion;
    for (int64_t i = 0; i < e->n; i++)
        pairs[i] = (ls_confusion){ e->outcomes[i].label, e->outcomes[i].predicted, 1 };
    qsort(pairs, (size_t)e->n, sizeof *pairs, by_label);
    for (int64_t i = 0; i < e->n; i++) {
        if (e->n_confusion > 0 && by_label(&pairs[e->n_confusion - 1], &pairs[i]) == 0)
            pairs[e->n_confusion - 1].n_images++;
        else
            pairs[e->n_confusion++] = pairs[i];
    }
    for (int64_t i = 0; i < e->n_confusion; i++)
        if (pairs[i].label != pairs[i].predicted) e->confused[e->n_confused++] = pairs[i];
    qsort(e->confused, (size_t)e->n_confused, sizeof *e->confused, by_images);
}

static void list_mistakes(ls_evaluation *e)
{
    for (int64_t i = 0; i < e->n; i++) {
        const ls__outcome *o = &e->outcomes[i];
        if (o->label != o->predicted)
            e->mistakes[e->n_mistakes++] =
                (ls_mistake){ o->sample, o->label, o->predicted, o->confidence };
    }
    qsort(e->mistakes, (size_t)e->n_mistakes, sizeof *e->mistakes, by_confidence);
}

static double ratio(const ls_evaluation *e, double part, double whole)
{
    return whole > 0 ? part / whole : e->zero_division;
}

static void score_classes(ls_evaluation *e)
{
    for (int i = 0; i < e->n_classes; i++) e->results[i].name = e->classes[i];
    for (int64_t i = 0; i < e->n_confusion; i++) {
        const ls_confusion *pair = &e->confusion[i];
        e->results[pair->label].n_images += pair->n_images;
        e->results[pair->predicted].n_predicted += pair->n_images;
        if (pair->label == pair->predicted) e->results[pair->label].n_correct = pair->n_images;
    }
    for (int i = 0; i < e->n_classes; i++) {
        ls_class_result *c = &e->results[i];
        const double correct = (double)c->n_correct, n = (double)c->n_images,
                     n_predicted = (double)c->n_predicted;
        c->scores = (ls_scores){ ratio(e, correct, n_predicted), ratio(e, correct, n),
                                 ratio(e, 2 * correct, n + n_predicted) };
    }
}

/* Without those that are NaN. */
static ls_scores mean_scores(const ls_evaluation *e, bool weighted)
{
    double sums[3] = { 0 }, weights[3] = { 0 };
    for (int i = 0; i < e->n_classes; i++) {
        const ls_class_result *c = &e->results[i];
        const double scores[3] = { c->scores.precision, c->scores.recall, c->scores.f1 };
        const double weight = weighted ? (double)c->n_images : 1;
        for (int k = 0; k < 3; k++) {
            if (isnan(scores[k])) continue;
            sums[k] += weight * scores[k];
            weights[k] += weight;
        }
    }
    return (ls_scores){ ratio(e, sums[0], weights[0]), ratio(e, sums[1], weights[1]),
                        ratio(e, sums[2], weights[2]) };
}

static void calibrate(ls_evaluation *e)
{
    double error = 0;
    for (int64_t i = 0; i < e->n; i++) {
        const ls__outcome *o = &e->outcomes[i];
        int b = 0;
        while (b + 1 < LS_CALIBRATION_BINS &&
               o->confidence >= (float)((b + 1) / (double)LS_CALIBRATION_BINS))
            b++;
        e->bins[b].n_images++;
        e->bins[b].confidence += (double)o->confidence;
        e->bins[b].accuracy += o->label == o->predicted;
    }
    for (int b = 0; b < LS_CALIBRATION_BINS; b++) {
        ls_calibration_bin *bin = &e->bins[b];
        if (bin->n_images == 0) continue;
        bin->confidence /= (double)bin->n_images;
        bin->accuracy /= (double)bin->n_images;
        error += fabs(bin->accuracy - bin->confidence) * (double)bin->n_images;
    }
    e->result.calibration_error = e->n > 0 ? error / (double)e->n : 0;
}

/* In the order of outcomes. */
static void count_labels(ls_evaluation *e)
{
    int64_t top1 = 0, top5 = 0;
    double loss = 0;
    for (int64_t i = 0; i < e->n; i++) {
        const ls__outcome *o = &e->outcomes[i];
        const float p = o->label_probability > FLT_MIN ? o->label_probability : FLT_MIN;
        top1 += o->before_label < 1;
        top5 += o->before_label < 5 && e->n_classes > 5;
        loss -= ls__log2((double)p) * M_LN2;
    }
    const double images = e->n > 0 ? (double)e->n : 1;
    e->result.n_images = e->n;
    e->result.top1 = (double)top1 / images;
    e->result.top5 = (double)top5 / images;
    e->result.cross_entropy = loss / images;
}

/* ---- The area under the ROC curve. With P images of the class and N others it is the Mann-Whitney
 * statistic divided by P N: over the pairs of an image of the class and another one, 1 where the
 * first has the higher probability, 1/2 where they are equal. Counts are integers, so that their
 * order does not matter. ---- */

typedef struct scored {
    float probability;
    int32_t is_positive;
} scored;

static int by_probability(const void *x, const void *y)
{
    return ORDER(((const scored *)x)->probability, ((const scored *)y)->probability);
}

/* Twice the Mann-Whitney statistic of sorted images. */
static int64_t twice_mann_whitney(int64_t n, const scored *images)
{
    int64_t twice = 0, n_negative = 0;
    for (int64_t i = 0; i < n;) {
        int64_t equal[2] = { 0 }, k = i;
        for (; k < n && images[k].probability == images[i].probability; k++)
            equal[images[k].is_positive]++;
        twice += equal[1] * (2 * n_negative + equal[0]);
        n_negative += equal[0];
        i = k;
    }
    return twice;
}

/* The mean over the classes, which does not depend on the order of the rows. */
static ls_status compute_auc(ls_evaluation *e)
{
    const int64_t n = e->n;
    const size_t bytes = (size_t)n * sizeof(scored);
    scored *images = ls__alloc(e->owned.ctx, bytes);
    double sum = 0;
    int n_defined = 0;
    if (!images) return ls__fail_memory(e->owned.ctx, "area under the ROC curve", bytes);
    for (int k = 0; k < e->n_classes; k++) {
        int64_t n_positive = 0;
        for (int64_t i = 0; i < n; i++) {
            images[i] = (scored){ e->rows[i * e->n_classes + k], e->labels[i] == k };
            n_positive += e->labels[i] == k;
        }
        if (n_positive == 0 || n_positive == n) continue;
        qsort(images, (size_t)n, sizeof *images, by_probability);
        const double pairs = (double)n_positive * (double)(n - n_positive);
        sum += (double)twice_mann_whitney(n, images) / (2 * pairs);
        n_defined++;
    }
    ls__free(e->owned.ctx, images);
    e->result.auc = n_defined > 0 ? sum / n_defined : NAN;
    return LS_OK;
}

ls_status ls_evaluation_finish(ls_evaluation *e)
{
    LS__DEFAULT_FLOATS;
    if (!e) return LS_ERR_EARLIER;
    ls_context *ctx = e->owned.ctx;
    LS__ENTER(ctx);
    free_values(e);
    const size_t n = (size_t)e->n, bytes = (size_t)e->n_classes * sizeof *e->results;
    e->results = ls__zalloc(ctx, bytes);
    e->confusion = ls__alloc(ctx, n * sizeof *e->confusion);
    e->confused = ls__alloc(ctx, n * sizeof *e->confused);
    e->mistakes = ls__alloc(ctx, n * sizeof *e->mistakes);
    if (!e->results || !e->confusion || !e->confused || !e->mistakes) {
        free_values(e);
        return ls__fail_memory(ctx, "ls_evaluation_finish", bytes + 3 * n * sizeof *e->confusion);
    }
    if (n > 0) qsort(e->outcomes, n, sizeof *e->outcomes, by_sample);
    count_pairs(e);
    list_mistakes(e);
    score_classes(e);
    calibrate(e);
    count_labels(e);
    e->result.macro = mean_scores(e, false);
    e->result.weighted = mean_scores(e, true);
    return e->has_auc ? compute_auc(e) : LS_OK;
}

/* ---- Access ---- */

int ls_evaluation_class_count(const ls_evaluation *e)
{
    return e ? e->n_classes : 0;
}

ls_class_result ls_evaluation_class_at(const ls_evaluation *e, int label)
{
    const bool is_there = e && e->results && label >= 0 && label < e->n_classes;
    return is_there ? e->results[label] : (ls_class_result){ 0 };
}

ls_evaluation_result ls_evaluation_scores(const ls_evaluation *e)
{
    return e ? e->result : (ls_evaluation_result){ 0 };
}

ls_calibration_bin ls_evaluation_bin_at(const ls_evaluation *e, int i)
{
    return e && i >= 0 && i < LS_CALIBRATION_BINS ? e->bins[i] : (ls_calibration_bin){ 0 };
}

int64_t ls_evaluation_confusion_count(const ls_evaluation *e)
{
    return e ? e->n_confusion : 0;
}

ls_confusion ls_evaluation_confusion_at(const ls_evaluation *e, int64_t i)
{
    return e && i >= 0 && i < e->n_confusion ? e->confusion[i] : (ls_confusion){ 0 };
}

ls_confusion ls_evaluation_most_confused_at(const ls_evaluation *e, int64_t i)
{
    return e && i >= 0 && i < e->n_confused ? e->confused[i] : (ls_confusion){ 0 };
}

int64_t ls_evaluation_mistake_count(const ls_evaluation *e)
{
    return e ? e->n_mistakes : 0;
}

ls_mistake ls_evaluation_mistake_at(const ls_evaluation *e, int64_t i)
{
    return e && i >= 0 && i < e->n_mistakes ? e->mistakes[i] : (ls_mistake){ 0 };
}
