/* evaluation.h: measures of a classifier's predictions: confusion matrix, precision, recall and F1
 * of each class, top-k accuracy, calibration, and the most confident mistakes.
 *
 *     ls_evaluation *e = ls_evaluation_open(ctx, &(ls_evaluation_config){ .n_classes = 10 });
 *     LS_TRY(ls_evaluate(net, loader, &(ls_evaluate_config){ .evaluation = e }, &averages));
 *     ls_evaluation_scores(e).macro.f1
 *
 * No value depends on the order in which the predictions were added. Counts are integers. Sums of
 * floating-point numbers have a fixed order: that of classes, or for the calibration that of sample
 * numbers. */
#ifndef LOCKSTEP_EVALUATION_H
#define LOCKSTEP_EVALUATION_H

#include <lockstep/data.h>

LS_BEGIN_DECLARATIONS

typedef struct ls_evaluation ls_evaluation;

typedef struct ls_evaluation_config {
    int n_classes;              /* 1 or more; required */
    const char *const *classes; /* n_classes names, copied; NULL = "0", "1", ... */
    double zero_division; /* a precision, recall or F1 that is 0/0: 0, 1 or NaN; averages leave out
                             NaN. As zero_division of scikit-learn */
    bool auc;             /* also compute ls_evaluation_result.auc */
    LS_RESERVED(8);
} ls_evaluation_config;

/* An empty evaluation. It takes 32 bytes for each prediction that is added, and with `auc`
 * another 4 (n_classes + 1). Errors: LS_ERR_INVALID
 * names the member; LS_ERR_MEMORY. */
LS_API ls_evaluation *ls_evaluation_open(ls_context *ctx, const ls_evaluation_config *config);
LS_API void ls_evaluation_close(ls_evaluation **evaluation);

/* Adds n predictions. labels[n]: 0 to n_classes - 1, or -1 for a row that is left out; a row with a
 * NaN is left out, too. probabilities[n][n_classes]: those of ls_predict. samples[n]: the samples'
 * numbers; NULL = the number of predictions added before. LS_ERR_INVALID for another label. */
LS_API ls_status ls_evaluation_add(ls_evaluation *evaluation, int64_t n, const int32_t *labels,
                                   const float *probabilities, const int64_t *samples);
/* Computes the values below from the predictions added so far; before it they are 0. ls_evaluate
 * calls it at the end of the pass. LS_ERR_MEMORY. */
LS_API ls_status ls_evaluation_finish(ls_evaluation *evaluation);

/* ---- Values: all are 0 or NULL for NULL, and out of range ---- */

/* precision = correct / predicted, recall = correct / images, F1 = 2 correct / (predicted +
 * images): the precision_recall_fscore_support of scikit-learn. */
typedef struct ls_scores {
    double precision, recall, f1;
} ls_scores;

typedef struct ls_class_result {
    const char *name;                         /* borrowed */
    int64_t n_images, n_predicted, n_correct; /* of this class; predicted as it; both */
    ls_scores scores;
    LS_RESERVED(8);
} ls_class_result;
LS_API ls_class_result ls_evaluation_class_at(const ls_evaluation *evaluation, int label);
LS_API int ls_evaluation_class_count(const ls_evaluation *evaluation);

typedef struct ls_evaluation_result {
    int64_t n_images;
    double top1, top5; /* fractions. Of equal probabilities the first class counts as the larger
                          one. top5 is 0 for 5 classes or fewer */
    ls_scores macro, weighted; /* means over the classes; weighted by their images */
    /* The expected calibration error over the bins below: sum over the bins of |accuracy -
     * confidence| images / n_images (Guo et al. 2017). MulticlassCalibrationError of torchmetrics
     * with norm l1 differs in that images with p = 1 have a bin of their own. */
    double calibration_error;
    /* The mean of -log of the label's probability, without label smoothing and class weights.
     * Probabilities below 1.2e-38 count as that. */
    double cross_entropy;
    /* Mean of the areas under the ROC curves, of each class against all others. The area is the
     * probability that an image of the class has a higher probability of it than an image of
     * another class, where equal ones count half (Hanley and McNeil 1982; roc_auc_score of
     * scikit-learn with multi_class="ovr", average="macro"). Only classes that some, but not all
     * images have; NaN without such a class; 0 without ls_evaluation_config.auc. */
    double auc;
    LS_RESERVED(16);
} ls_evaluation_result;
LS_API ls_evaluation_result ls_evaluation_scores(const ls_evaluation *evaluation);

/* Bin i has the images whose largest probability p, the confidence, is in [i / 15, (i + 1) / 15);
 * the last one also those with p = 1. Both means are 0 for a bin without images. */
enum { LS_CALIBRATION_BINS = 15 };
typedef struct ls_calibration_bin {
    int64_t n_images;
    double confidence, accuracy; /* means */
} ls_calibration_bin;
LS_API ls_calibration_bin ls_evaluation_bin_at(const ls_evaluation *evaluation, int i);

/* The confusion matrix: n_images of the class `label` were predicted as `predicted`. Elements that
 * are not 0, by label, then by predicted class. */
typedef struct ls_confusion {
    int32_t label, predicted;
    int64_t n_images;
} ls_confusion;
LS_API int64_t ls_evaluation_confusion_count(const ls_evaluation *evaluation);
LS_API ls_confusion ls_evaluation_confusion_at(const ls_evaluation *evaluation, int64_t i);

/* The images that were predicted wrongly, the largest confidence first, then by sample number. */
typedef struct ls_mistake {
    int64_t sample;
    int32_t label, predicted;
    float confidence; /* the probability of the predicted class */
    LS_RESERVED(4);
} ls_mistake;
LS_API int64_t ls_evaluation_mistake_count(const ls_evaluation *evaluation);
LS_API ls_mistake ls_evaluation_mistake_at(const ls_evaluation *evaluation, int64_t i);

/* The most confused classes: i = 0 is the pair of different classes with the most images, then by
 * label and predicted class. All 0 after the last pair. */
LS_API ls_confusion ls_evaluation_most_confused_at(const ls_evaluation *evaluation, int64_t i);

/* All of it, with the first 24 mistakes, as a JSON object; borrowed until the next call. With the
 * dataset of the samples, which may be NULL, each mistake has the "path" of its image below the
 * dataset's folder, if the dataset has one. NULL with LS_ERR_MEMORY. */
LS_API const char *ls_evaluation_json(ls_evaluation *evaluation, const ls_dataset *dataset);

LS_END_DECLARATIONS

#endif
