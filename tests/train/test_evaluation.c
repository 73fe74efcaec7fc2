/* test_evaluation.c: the values of an evaluation, by hand and from ls_evaluate; independent of the
 * order of predictions. Those of larger data: tests/parity/test_parity_evaluation.c. */
#include "../checkpoint/checkpoint_support.h"
#include "../suite.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum { N = 6, CLASSES = 3 };

/* Two of three images of class 0 are right, of class 1 none of two, of class 2 the only one. */
static const int32_t labels[N] = { 0, 0, 1, 2, 1, 0 };
static const float probabilities[N][CLASSES] = { { 0.75f, 0.125f, 0.125f }, { 0, 1, 0 },
                                                 { 0.5f, 0.25f, 0.25f },    { 0, 0.25f, 0.75f },
                                                 { 0.5f, 0.5f, 0 },         { 0.6f, 0.375f, 0 } };

/* First the predictions from `first` on, then those before. */
static ls_evaluation *evaluate(ls_context *ctx, int64_t first)
{
    static const char *const names[CLASSES] = { "cat", "<b>&\"", "\xff" };
    static const int64_t samples[N] = { 0, 1, 2, 3, 4, 5 };
    ls_evaluation *e = ls_evaluation_open(
        ctx, &(ls_evaluation_config){ .n_classes = CLASSES, .classes = names, .auc = true });
    ls_evaluation_add(e, N - first, labels + first, probabilities[first], samples + first);
    ls_evaluation_add(e, first, labels, probabilities[0], samples);
    ls_evaluation_finish(e);
    return e;
}

START_TEST(values_by_hand)
{
    ls_context *ctx = ls_context_open(NULL);
    ls_evaluation *e = evaluate(ctx, 2);
    expect_ok(ctx);
    const ls_evaluation_result r = ls_evaluation_scores(e);
    ck_assert_int_eq(r.n_images, N);
    ck_assert_double_eq(r.top1, 3 / 6.0);
    ck_assert_double_eq(r.top5, 0);
    const ls_class_result cat = ls_evaluation_class_at(e, 0);
    ck_assert_str_eq(cat.name, "cat");
    ck_assert_int_eq(cat.n_images, 3);
    ck_assert_int_eq(cat.n_predicted, 4);
    ck_assert_int_eq(cat.n_correct, 2);
    ck_assert_double_eq(cat.scores.precision, 0.5);
    ck_assert_double_eq(cat.scores.recall, 2 / 3.0);
    ck_assert_double_eq(cat.scores.f1, 4 / 7.0);
    ck_assert_double_eq(r.macro.recall, (2 / 3.0 + 0 + 1) / 3);
    ck_assert_double_eq(r.weighted.recall, 0.5);
    /* pairs: class 0 has 3 + 0.5 + 3 of 9, class 1 has 1.5 + 3 of 8, class 2 has all 5 */
    ck_assert_double_eq_tol(r.auc, (6.5 / 9 + 4.5 / 8 + 1) / 3, 1e-15);
    ck_assert_double_eq_tol(
        r.cross_entropy,
        -(log(0.75) + log(FLT_MIN) + log(0.25) + log(0.75) + log(0.5) + log((double)0.6f)) / 6,
        1e-12);
    ck_assert_int_eq(ls_evaluation_confusion_count(e), 4);
    ck_assert_int_eq(ls_evaluation_confusion_at(e, 2).n_images, 2); /* (1, 0), of a tie, too */
    const ls_confusion most = ls_evaluation_most_confused_at(e, 0);
    ck_assert(most.label == 1 && most.predicted == 0 && most.n_images == 2);
    ck_assert_int_eq(ls_evaluation_most_confused_at(e, 2).n_images, 0);
    /* the largest confidence first, then by sample */
    static const int64_t mistakes[] = { 1, 2, 4 };
    ck_assert_int_eq(ls_evaluation_mistake_count(e), 3);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(ls_evaluation_mistake_at(e, i).sample, mistakes[i]);
    /* bins: 0.5, 0.5 wrong; 0.6 right, on the boundary 9/15; 0.75, 0.75 right; 1 wrong */
    ck_assert_int_eq(ls_evaluation_bin_at(e, 7).n_images, 2);
    ck_assert_int_eq(ls_evaluation_bin_at(e, 9).n_images, 1);
    ck_assert_double_eq(ls_evaluation_bin_at(e, 11).confidence, 0.75);
    ck_assert_double_eq(ls_evaluation_bin_at(e, 14).confidence, 1);
    ck_assert_double_eq_tol(r.calibration_error, (2 * 0.5 + (1 - (double)0.6f) + 2 * 0.25 + 1) / 6,
                            1e-15);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(the_order_of_predictions_has_no_influence)
{
    ls_context *ctx = ls_context_open(NULL);
    const char *first = ls_evaluation_json(evaluate(ctx, 0), NULL);
    ck_assert_ptr_nonnull(strstr(first, "\"class\": \"<b>&\\\"\""));
    ck_assert_ptr_nonnull(strstr(first, "\"class\": \"\\\\xFF\""));
    ck_assert_ptr_nonnull(strstr(first, "\"confusion\": [[0, 0, 2], [0, 1, 1], [1, 0, 2], "));
    const uint8_t pixels[N * 3] = { 0 }; /* images in memory have no paths */
    const int32_t zeros[N] = { 0 };
    const ls_dataset *data =
        ls_dataset_from_memory(ctx, pixels, LS_SHAPE(N, 1, 1, 3), zeros, CLASSES);
    ck_assert_str_eq(ls_evaluation_json(evaluate(ctx, 0), data), first);
    for (int i = 1; i < N; i++) ck_assert_str_eq(ls_evaluation_json(evaluate(ctx, i), NULL), first);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(a_pass_fills_it)
{
    options o = usual;
    o.threads = 2;
    run r = open_good_run(&o);
    train(&r, 3);
    ls_evaluation *e = ls_evaluation_open(r.ctx, &(ls_evaluation_config){ .n_classes = 4 });
    for (int i = 0; i < 2; i++) {
        ls_averages averages, plain;
        const ls_evaluate_config config = { .evaluation = e, .test_time_flip = i == 1 };
        const ls_evaluate_config flips = { .test_time_flip = i == 1 };
        ck_assert_int_eq(ls_evaluate(r.state.net, r.state.loader, &config, &averages), LS_OK);
        ck_assert_int_eq(ls_evaluate(r.state.net, r.state.loader, &flips, &plain), LS_OK);
        ck_assert(memcmp(&averages, &plain, sizeof plain) == 0);
        ck_assert_int_eq(ls_evaluation_scores(e).n_images, N_SAMPLES);
        ck_assert_double_eq_tol(ls_evaluation_scores(e).top1, averages.top1, 1e-12);
    }
    ls_evaluation *other = ls_evaluation_open(r.ctx, &(ls_evaluation_config){ .n_classes = 5 });
    ls_averages averages;
    expect_failure(ls_evaluate(r.state.net, r.state.loader,
                               &(ls_evaluate_config){ .evaluation = other }, &averages),
                   r.ctx, LS_ERR_INVALID, "evaluation: it has 5 classes, the net 4");
    ls_context_close(&r.ctx);
}
END_TEST

START_TEST(misuse)
{
    ls_context *ctx = ls_context_open(NULL);
    ck_assert_ptr_null(ls_evaluation_open(ctx, NULL));
    expect_error(ctx, LS_ERR_INVALID, "n_classes is 0");
    ck_assert_ptr_null(
        ls_evaluation_open(ctx, &(ls_evaluation_config){ .n_classes = 2, .zero_division = 0.5 }));
    expect_error(ctx, LS_ERR_INVALID, "zero_division is 0.5, expected 0, 1 or NaN");
    ls_evaluation *e = ls_evaluation_open(ctx, &(ls_evaluation_config){ .n_classes = CLASSES });
    ck_assert_ptr_null(ls_evaluation_class_at(e, 0).name);
    ck_assert_str_eq(ls_evaluation_json(e, NULL), "{}");
    const int32_t wrong[] = { 0, 3 };
    expect_failure(ls_evaluation_add(e, 2, wrong, probabilities[0], NULL), ctx, LS_ERR_INVALID,
                   "label 3, expected -1 to 2");
    const int32_t none[] = { -1, 0 };
    const float nan[2 * CLASSES] = { 0, 0, 0, NAN };
    ck_assert_int_eq(ls_evaluation_add(e, 2, none, nan, NULL), LS_OK);
    ck_assert_int_eq(ls_evaluation_finish(e), LS_OK);
    ck_assert_int_eq(ls_evaluation_scores(e).n_images, 0);
    ck_assert_double_eq(ls_evaluation_scores(e).auc, 0);
    ls_evaluation *one =
        ls_evaluation_open(ctx, &(ls_evaluation_config){ .n_classes = CLASSES, .auc = true });
    ls_evaluation_add(one, 2, labels, probabilities[0], NULL); /* of one class */
    ck_assert_int_eq(ls_evaluation_finish(one), LS_OK);
    ck_assert(isnan(ls_evaluation_scores(one).auc));
    ck_assert_int_eq(ls_evaluation_finish(NULL), LS_ERR_EARLIER);
    ck_assert_ptr_null(ls_evaluation_json(NULL, NULL));
    ls_evaluation_close(&e);
    ls_evaluation_close(&e);
    ls_context_close(&ctx);
}
END_TEST

static bool work(ls_context *ctx, void *unused)
{
    (void)unused;
    return ls_evaluation_json(evaluate(ctx, 0), NULL) != NULL;
}

START_TEST(every_allocation_failing)
{
    fail_each_allocation(work, NULL);
}
END_TEST

TEST_PROGRAM(evaluation)
{
    begin_runs();
    return end_runs(RUN_SUITE("evaluation", values_by_hand,
                              the_order_of_predictions_has_no_influence, a_pass_fills_it, misuse,
                              every_allocation_failing));
}
