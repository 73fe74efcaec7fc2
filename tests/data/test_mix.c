/* test_mix.c: mixup and cutmix: the distribution of lambda, and batches of images of one colour
 * each, whose pixels tell what was mixed. */
#include "../suite.h"
#include "data/transform/draws.h"
#include <lockstep/lockstep.h>
#include <math.h>
#include <string.h>

enum { SIDE = 12, SAMPLES = 23, BATCH = 5, CLASSES = 3, PIXELS = SIDE * SIDE, N_EPOCHS = 60 };

/* ---- Beta(alpha, alpha) ---- */

/* The mean is 1/2, the variance 1 / (4 (2 alpha + 1)). Means of N draws are within 4 standard
 * errors; the fourth moment, for the variance's error, is at most that of a coin, 1/16. */
START_TEST(beta)
{
    enum { N = 20000, BINS = 16 };
    static const double alphas[] = { 0.001, 0.05, 0.2, 0.4, 1, 2, 8, 1000 };
    for (size_t a = 0; a < sizeof alphas / sizeof *alphas; a++) {
        const double variance = 0.25 / (2 * alphas[a] + 1);
        double mean = 0, square = 0;
        int bins[BINS] = { 0 };
        for (int i = 0; i < N; i++) {
            const ls_draw draw = { .stream = LS_RANDOM_MIX, .step = (uint64_t)i };
            const double x = ls__draw_beta(3, &draw, 2, alphas[a]);
            ck_assert(x >= 0 && x <= 1);
            mean += x / N;
            square += (x - 0.5) * (x - 0.5) / N;
            bins[x < 1 ? (int)(x * BINS) : BINS - 1]++;
        }
        ck_assert_msg(fabs(mean - 0.5) < 4 * sqrt(variance / N), "alpha %g: mean %g", alphas[a],
                      mean);
        const double fourth = fmin(0.0625, 3 * variance * variance);
        ck_assert_msg(fabs(square - variance) < 4 * sqrt(fourth / N), "alpha %g: variance %g of %g",
                      alphas[a], square, variance);
        for (int i = 0; alphas[a] == 1 && i < BINS; i++) /* uniform */
            ck_assert_int_le(abs(bins[i] - N / BINS), (int)(4 * sqrt(N / (double)BINS)));
    }
}
END_TEST

/* The bits of a draw never change, because checkpoints of mixed runs are resumed. */
START_TEST(beta_bits)
{
    static const struct {
        double alpha, value;
    } known[] = { { 0.2, 0x1.71702765b38f7p-8 },
                  { 1, 0x1.3bfb56eed0e96p-2 },
                  { 8, 0x1.b700373562p-2 } };
    const ls_draw draw = { .stream = LS_RANDOM_MIX, .epoch = 2, .step = 7 };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const double x = ls__draw_beta(11, &draw, 2, known[i].alpha);
        ck_assert_msg(x == known[i].value, "alpha %g: %a", known[i].alpha, x);
    }
}
END_TEST

/* ---- Batches ---- */

/* Sample i has the value 10 i everywhere. */
static ls_dataset *open_data(ls_context *ctx)
{
    static uint8_t pixels[SAMPLES * PIXELS];
    int32_t labels[SAMPLES];
    for (int i = 0; i < SAMPLES * PIXELS; i++) pixels[i] = (uint8_t)(10 * (i / PIXELS));
    for (int i = 0; i < SAMPLES; i++) labels[i] = i % CLASSES;
    return ls_dataset_from_memory(ctx, pixels, LS_SHAPE(SAMPLES, SIDE, SIDE, 1), labels, CLASSES);
}

/* Lambda of a batch as its targets have it, or -1 if all images are mixed with their own class. */
static double lambda_of(const ls_batch *b)
{
    const float *targets = ls_tensor_data_const(b->targets);
    double lambda = -1;
    for (int64_t i = 0; i < b->n; i++) {
        const int64_t own = b->samples[i] % CLASSES;
        const int64_t other = b->samples[i > 0 ? i - 1 : b->n - 1] % CLASSES;
        for (int64_t k = 0; k < CLASSES; k++) {
            const double t = (double)targets[i * CLASSES + k];
            if (own == other || (k != own && k != other)) {
                ck_assert(t == (k == own));
            } else if (k == own) {
                ck_assert(lambda < 0 || t == lambda);
                lambda = t;
                ck_assert(fabs((double)targets[i * CLASSES + other] - (1 - t)) < 1e-7);
            }
        }
    }
    return lambda;
}

static void check_labels(const ls_batch *b, double lambda)
{
    const int32_t *labels = ls_tensor_data_const(b->labels);
    for (int64_t i = 0; i < b->n; i++) {
        const int64_t other = b->samples[i > 0 ? i - 1 : b->n - 1];
        ck_assert_int_eq(labels[i], (lambda < 0.5 ? other : b->samples[i]) % CLASSES);
    }
}

/* Whether the batch has the pixels of mixup with that lambda. */
static bool is_mixup(const ls_batch *b, double lambda)
{
    const uint8_t *pixels = ls_tensor_data_const(b->images);
    for (int64_t i = 0; i < b->n; i++) {
        const double own = 10.0 * (double)b->samples[i];
        const double other = 10.0 * (double)b->samples[i > 0 ? i - 1 : b->n - 1];
        for (int64_t p = 0; p < PIXELS; p++)
            if (fabs((double)pixels[i * PIXELS + p] - (lambda * own + (1 - lambda) * other)) >
                0.5 + 1e-6)
                return false;
    }
    return true;
}

/* Whether one box, equal for all images, is that of the image before, and the rest its own; its
 * area is 1 - lambda. */
static bool is_cutmix(const ls_batch *b, double lambda)
{
    const uint8_t *pixels = ls_tensor_data_const(b->images);
    int64_t top = SIDE, left = SIDE, bottom = -1, right = -1;
    for (int64_t p = 0; p < PIXELS && b->n > 1; p++) {
        if (pixels[p] == 10 * b->samples[0]) continue;
        top = p / SIDE < top ? p / SIDE : top;
        left = p % SIDE < left ? p % SIDE : left;
        bottom = p / SIDE;
        right = p % SIDE > right ? p % SIDE : right;
    }
    for (int64_t i = 0; i < b->n; i++) {
        for (int64_t p = 0; p < PIXELS; p++) {
            const bool in_box =
                p / SIDE >= top && p / SIDE <= bottom && p % SIDE >= left && p % SIDE <= right;
            const int64_t sample = b->samples[in_box ? (i > 0 ? i - 1 : b->n - 1) : i];
            if (pixels[i * PIXELS + p] != 10 * sample) return false;
        }
    }
    const double area = bottom < 0 ? 0 : (double)((bottom - top + 1) * (right - left + 1));
    return b->n == 1 || fabs(1 - area / PIXELS - lambda) < 1e-6;
}

typedef struct counts {
    int mixup, cutmix;
    double sum; /* of lambda */
} counts;

static counts run(float mixup_alpha, float cutmix_alpha, ls_seeding seeding)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .seed = 4, .threads = 1 });
    ls_dataset *data = open_data(ctx);
    ls_loader *loader = ls_loader_open(data, &(ls_loader_config){ .batch_size = BATCH,
                                                                  .shuffle = true,
                                                                  .workers = 2,
                                                                  .seeding = seeding,
                                                                  .mixup_alpha = mixup_alpha,
                                                                  .cutmix_alpha = cutmix_alpha });
    expect_ok(ctx);
    counts c = { 0 };
    for (int epoch = 0; epoch < N_EPOCHS; epoch++) {
        ls_batch first; /* of an epoch that is dropped while its images are loaded */
        ck_assert_int_eq(ls_loader_start(loader, epoch), LS_OK);
        for (int i = 0; i < epoch % 3; i++) ck_assert(ls_loader_next(loader, &first));
        ck_assert_int_eq(ls_loader_start(loader, epoch), LS_OK);
        for (ls_batch b; ls_loader_next(loader, &b);) {
            const double lambda = lambda_of(&b);
            if (lambda < 0) continue;
            check_labels(&b, lambda);
            const bool blended = is_mixup(&b, lambda), cut = is_cutmix(&b, lambda);
            ck_assert(blended || cut);
            c.mixup += blended && !cut;
            c.cutmix += cut && !blended; /* both if lambda is 1 */
            c.sum += lambda;
        }
        ck_assert_int_eq(ls_loader_status(loader), LS_OK);
    }
    ls_context_close(&ctx);
    return c;
}

START_TEST(batches_are_mixed)
{
    const counts mixup = run(0.4f, 0, LS_SEED_BY_SAMPLE), cutmix = run(0, 1, LS_SEED_BY_SAMPLE);
    const counts both = run(0.4f, 1, LS_SEED_BY_SAMPLE);
    ck_assert(mixup.cutmix == 0 && mixup.mixup > 200);
    ck_assert(cutmix.mixup == 0 && cutmix.cutmix > 200);
    const int n = both.mixup + both.cutmix; /* 4 standard deviations of a coin */
    ck_assert(n > 200 && abs(both.mixup - both.cutmix) < 4 * sqrt(n));
    /* no worker's sequence of numbers */
    const counts by_worker = run(0.4f, 1, LS_SEED_BY_WORKER);
    ck_assert(by_worker.sum == both.sum && by_worker.mixup == both.mixup);
}
END_TEST

START_TEST(misuse)
{
    ls_context *ctx = ls_context_open(NULL);
    ls_dataset *data = open_data(ctx);
    const struct {
        float mixup, cutmix;
        const char *message;
    } wrong[] = { { -1, 0, "mixup_alpha is -1, expected 0 to 1000" },
                  { 0, 1001, "cutmix_alpha is 1001, expected 0 to 1000" },
                  { 0, 1e-4f, "cutmix_alpha is 0.0001, expected 0 or 0.001 to 1000" } };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ck_assert_ptr_null(
            ls_loader_open(data, &(ls_loader_config){ .batch_size = 2,
                                                      .mixup_alpha = wrong[i].mixup,
                                                      .cutmix_alpha = wrong[i].cutmix }));
        expect_error(ctx, LS_ERR_INVALID, wrong[i].message);
    }
    ck_assert_ptr_null(
        ls_loader_open(data, &(ls_loader_config){ .batch_size = 1, .cutmix_alpha = 1 }));
    expect_error(ctx, LS_ERR_INVALID, "a batch of one image has no other to mix it with");
    const char *path = "no.jpg";
    ls_dataset *unlabelled = ls_image_list_open(ctx, 1, &path, NULL, 0);
    ck_assert_ptr_null(ls_loader_open(
        unlabelled, &(ls_loader_config){ .batch_size = 2, .crop = 8, .mixup_alpha = 1 }));
    expect_error(ctx, LS_ERR_INVALID, "no labels");
    ls_context_close(&ctx);
}
END_TEST

TEST_PROGRAM(mix)
{
    return RUN_SUITE("mixup and cutmix", beta, beta_bits, batches_are_mixed, misuse);
}
