/* test_predict.c: class probabilities, and evaluation on the mean over an image and its mirror
 * image. */
#include "../checkpoint/checkpoint_support.h"
#include "../suite.h"
#include <math.h>
#include <string.h>

enum { CLASSES = 4, IMAGE_BYTES = SIDE * SIDE * 3 };

static const ls_predict_config flipped = { .test_time_flip = true };

static void mirror(int64_t n, const uint8_t *from, uint8_t *to)
{
    for (int64_t i = 0; i < n * SIDE; i++)
        for (int x = 0; x < SIDE; x++)
            memcpy(to + (i * SIDE + x) * 3, from + (i * SIDE + SIDE - 1 - x) * 3, 3);
}

/* The same images, or mirrored ones, without labels. */
static ls_batch copy_of(const run *r, const ls_batch *batch, bool mirrored)
{
    static uint8_t pixels[2][BATCH * IMAGE_BYTES];
    ck_assert_int_eq(ls_tensor_read(batch->images, pixels[0], (size_t)batch->n * IMAGE_BYTES),
                     LS_OK);
    mirror(batch->n, pixels[0], pixels[1]);
    return (ls_batch){ .images = ls_tensor_from_data(
                           r->ctx, LS_U8, LS_SHAPE(batch->n, SIDE, SIDE, 3), pixels[mirrored]) };
}

/* Softmax by the C library. */
static void expected_probabilities(const run *r, const ls_batch *batch, double out[BATCH * CLASSES])
{
    float logits[BATCH * CLASSES];
    ck_assert_int_eq(ls_net_evaluate(r->state.net, batch), LS_OK);
    const ls_tensor *output = ls_net_output(r->state.net, "output");
    const int64_t n = ls_tensor_shape(output)->dims[0];
    ck_assert_int_eq(ls_tensor_read(output, logits, ls_tensor_bytes(output)), LS_OK);
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int k = 0; k < CLASSES; k++) sum += exp((double)logits[i * CLASSES + k]);
        for (int k = 0; k < CLASSES; k++)
            out[i * CLASSES + k] = exp((double)logits[i * CLASSES + k]) / sum;
    }
}

static run trained(int threads)
{
    options o = usual;
    o.threads = threads;
    run r = open_good_run(&o);
    train(&r, 3);
    return r;
}

START_TEST(probabilities_are_the_softmax_and_its_mean_over_both_images)
{
    run r = trained(1), other = trained(3);
    ls_batch b, same;
    ls_loader_start(r.state.loader, 0);
    ls_loader_start(other.state.loader, 0);
    while (ls_loader_next(r.state.loader, &b) && ls_loader_next(other.state.loader, &same)) {
        double expected[2][BATCH * CLASSES];
        float plain[BATCH * CLASSES], mean[BATCH * CLASSES], again[BATCH * CLASSES];
        const size_t bytes = (size_t)b.n * CLASSES * sizeof(float);
        const ls_batch copy = copy_of(&r, &b, false), mirrored = copy_of(&r, &b, true);
        expected_probabilities(&r, &copy, expected[0]);
        expected_probabilities(&r, &mirrored, expected[1]);
        ck_assert_int_eq(ls_predict(r.state.net, &b, NULL, plain, bytes), LS_OK);
        ck_assert_int_eq(ls_predict(r.state.net, &b, &flipped, mean, bytes), LS_OK);
        for (int64_t i = 0; i < b.n * CLASSES; i++) { /* a float's rounding */
            ck_assert_double_le(fabs((double)plain[i] - expected[0][i]), 1e-6);
            ck_assert_double_le(fabs((double)mean[i] - (expected[0][i] + expected[1][i]) / 2),
                                1e-6);
        }
        ck_assert_int_ne(memcmp(plain, mean, bytes), 0);
        ck_assert_int_eq(ls_predict(r.state.net, &mirrored, &flipped, again, bytes), LS_OK);
        ck_assert_mem_eq(again, mean, bytes);
        ck_assert_int_eq(ls_predict(other.state.net, &same, &flipped, again, bytes), LS_OK);
        ck_assert_mem_eq(again, mean, bytes);
    }
    expect_ok(r.ctx);
    ls_context_close(&r.ctx);
    ls_context_close(&other.ctx);
}
END_TEST

typedef struct heard {
    double loss, top1;
    int64_t n;
} heard;

static ls_status hear(void *user, const ls_event *e)
{
    heard *h = user;
    if (e->kind != LS_EVENT_STEP) return LS_OK;
    int32_t labels[BATCH];
    ck_assert_int_eq(ls_tensor_read(e->batch->labels, labels, (size_t)e->batch->n * 4), LS_OK);
    for (int64_t i = 0; i < e->batch->n; i++) {
        const float *row = e->probabilities + i * CLASSES;
        int best = 0;
        for (int k = 1; k < CLASSES; k++)
            if (row[k] > row[best]) best = k;
        h->loss -= log((double)row[labels[i]]);
        h->top1 += best == labels[i];
        h->n++;
    }
    return LS_OK;
}

START_TEST(evaluation_with_flips_averages_the_probabilities)
{
    run r = trained(1);
    heard h = { 0 };
    ls_averages plain, mean;
    ls_results left;
    const ls_evaluate_config config = { .on_event = hear, .user = &h, .test_time_flip = true };
    ck_assert_int_eq(ls_evaluate(r.state.net, r.state.loader, NULL, &plain), LS_OK);
    ck_assert_int_eq(ls_evaluate(r.state.net, r.state.loader, &config, &mean), LS_OK);
    ck_assert_int_eq(mean.n_images, N_SAMPLES);
    ck_assert_int_eq(h.n, N_SAMPLES);
    ck_assert_double_le(fabs(mean.loss - h.loss / N_SAMPLES), 1e-6);
    ck_assert(mean.top1 == h.top1 / N_SAMPLES && mean.top5 == 0);
    ck_assert(mean.loss != plain.loss);
    ck_assert_int_eq(ls_net_results(r.state.net, &left), LS_OK);
    ck_assert_int_eq(left.n, 0);

    /* A loss that is not finite is an error here, too. */
    const float weight[8] = { NAN };
    ls_tensor_write(ls_net_parameter(r.state.net, "bn1.weight"), weight, sizeof(weight));
    expect_ok(r.ctx);
    const ls_evaluate_config quiet = { .test_time_flip = true };
    ck_assert_int_eq(ls_evaluate(r.state.net, r.state.loader, &quiet, &mean), LS_ERR_NONFINITE);
    expect_error(r.ctx, LS_ERR_NONFINITE, "the loss is nan in validation");
    ls_context_close(&r.ctx);
}
END_TEST

static ls_node *no_classifier(ls_graph *g, ls_node *x, const void *unused)
{
    (void)unused;
    return ls_conv2d(g, "conv", x, 4, &(ls_conv2d_config){ .kernel = 1 });
}

START_TEST(misuse)
{
    run r = trained(1);
    ls_batch b;
    float out[BATCH * CLASSES];
    const size_t bytes = sizeof(out);
    ck_assert(ls_loader_start(r.state.loader, 0) == LS_OK && ls_loader_next(r.state.loader, &b));
    ck_assert_int_eq(ls_predict(NULL, &b, NULL, out, bytes), LS_ERR_EARLIER);
    ck_assert_int_eq(ls_predict(r.state.net, NULL, NULL, out, bytes), LS_ERR_INVALID);
    expect_error(r.ctx, LS_ERR_INVALID, "ls_predict: batch is NULL");
    ck_assert_int_eq(ls_predict(r.state.net, &b, NULL, NULL, bytes), LS_ERR_INVALID);
    expect_error(r.ctx, LS_ERR_INVALID, "ls_predict: probabilities is NULL");
    ck_assert_int_eq(ls_predict(r.state.net, &b, NULL, out, bytes - 4), LS_ERR_INVALID);
    expect_error(r.ctx, LS_ERR_INVALID, "probabilities, expected");
    ls_net *other = ls_net_build(
        r.ctx, no_classifier, NULL,
        &(ls_net_config){ .input = ls_loader_input_spec(r.state.loader), .inference = true });
    expect_ok(r.ctx);
    ck_assert_int_eq(ls_predict(other, &b, NULL, out, bytes), LS_ERR_INVALID);
    expect_error(r.ctx, LS_ERR_INVALID, "expected F32 [n,classes]");
    ls_context_close(&r.ctx);
}
END_TEST

TEST_PROGRAM(predict)
{
    return RUN_SUITE("predict", probabilities_are_the_softmax_and_its_mean_over_both_images,
                     evaluation_with_flips_averages_the_probabilities, misuse);
}
