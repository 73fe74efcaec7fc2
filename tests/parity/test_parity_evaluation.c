/* test_parity_evaluation.c: confusion matrix, precision, recall, F1, top-k accuracy and calibration
 * error against scikit-learn and torchmetrics (tests/reference/evaluation.py). */
#include "../suite.h"
#include "parity.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { IMAGES = 400, CLASSES = 8, MAX_NUMBERS = 64 };
/* Sums of up to 400 doubles in another order. torchmetrics adds f32. */
static const double tolerance = 1e-13, f32_tolerance = 1e-7;

static const char *const cases[] = { "all", "lacking" };
static const char *const zeros[] = { "0", "1", "nan" };
static const double zero_divisions[] = { 0, 1, NAN };

static void expect_numbers(const char *test, const char *name, int n, const double *got,
                           double most)
{
    char wanted[128], found[64];
    snprintf(wanted, sizeof(wanted), "%s_%s", test, name);
    FILE *file = fopen(parity_path("evaluation.txt"), "r");
    ck_assert_ptr_nonnull(file);
    while (fscanf(file, "%63s", found) == 1 && strcmp(found, wanted) != 0)
        ck_assert_int_eq(fscanf(file, "%*[^\n]"), 0);
    ck_assert_str_eq(found, wanted);
    for (int i = 0; i < n; i++) {
        double number;
        ck_assert_int_eq(fscanf(file, "%lf", &number), 1);
        ck_assert_msg(isnan(number) ? isnan(got[i]) : fabs(got[i] - number) <= most,
                      "%s: number %d is %.17g, wanted %.17g", wanted, i, got[i], number);
    }
    fclose(file);
}

static void expect_scores(const char *test, const char *name, const char *zero,
                          const ls_scores *scores)
{
    char whole[64];
    snprintf(whole, sizeof(whole), "%s_%s", name, zero);
    expect_numbers(test, whole, 3, (double[]){ scores->precision, scores->recall, scores->f1 },
                   tolerance);
}

/* Sample numbers that descend. */
static ls_evaluation *evaluate(ls_context *ctx, bool lacking, double zero_division)
{
    static float p[IMAGES * CLASSES], rows[IMAGES], random_labels[IMAGES], right[IMAGES];
    ls_evaluation *e = ls_evaluation_open(
        ctx, &(ls_evaluation_config){ .n_classes = CLASSES, .zero_division = zero_division });
    parity_hashed("columns", IMAGES * CLASSES, 0.5f, 0.5f, p);
    parity_hashed("rows", IMAGES, 0.45f, 0.55f, rows);
    parity_hashed("labels", IMAGES, 1, 0, random_labels);
    parity_hashed("right", IMAGES, 1, 0, right);
    for (int i = 0; i < IMAGES; i++) {
        float *row = p + i * CLASSES;
        int best = 0;
        for (int k = 0; k < CLASSES; k++) {
            row[k] = lacking && (k == 5 || k == 6) ? 0 : row[k] * rows[i];
            if (row[k] > row[best]) best = k;
        }
        int32_t label = right[i] < 0.2f ? best : (int32_t)((random_labels[i] + 1) * (CLASSES / 2));
        if (lacking && (label == 2 || label == 6)) label = 0;
        const int64_t sample = IMAGES - i;
        ck_assert_int_eq(ls_evaluation_add(e, 1, &label, row, &sample), LS_OK);
    }
    ck_assert_int_eq(ls_evaluation_finish(e), LS_OK);
    return e;
}

START_TEST(measures_are_those_of_scikit_learn_and_torchmetrics)
{
    const char *test = cases[_i / 3], *zero = zeros[_i % 3];
    ls_context *ctx = ls_context_open(NULL);
    ls_evaluation *e = evaluate(ctx, _i / 3 == 1, zero_divisions[_i % 3]);
    const ls_evaluation_result r = ls_evaluation_scores(e);
    double confusion[CLASSES * CLASSES] = { 0 }, scores[3 * CLASSES];
    for (int64_t i = 0; i < ls_evaluation_confusion_count(e); i++) {
        const ls_confusion c = ls_evaluation_confusion_at(e, i);
        confusion[c.label * CLASSES + c.predicted] = (double)c.n_images;
    }
    expect_numbers(test, "confusion", CLASSES * CLASSES, confusion, tolerance);
    expect_numbers(test, "top", 2, (double[]){ r.top1, r.top5 }, tolerance);
    expect_numbers(test, "ece", 1, &r.calibration_error, f32_tolerance);
    for (int k = 0; k < CLASSES; k++) {
        const ls_scores s = ls_evaluation_class_at(e, k).scores;
        scores[k] = s.precision;
        scores[CLASSES + k] = s.recall;
        scores[2 * CLASSES + k] = s.f1;
    }
    char name[64];
    snprintf(name, sizeof(name), "scores_%s", zero);
    expect_numbers(test, name, 3 * CLASSES, scores, tolerance);
    expect_scores(test, "macro", zero, &r.macro);
    expect_scores(test, "weighted", zero, &r.weighted);
    ls_context_close(&ctx);
}
END_TEST

TEST_PROGRAM(parity_evaluation)
{
    return run_loop("parity_evaluation", measures_are_those_of_scikit_learn_and_torchmetrics, 6);
}
