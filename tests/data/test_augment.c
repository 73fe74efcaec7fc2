/* Random augmentation: the distributions of its choices, and that existing draws stay. */
#include "data/transform/draws.h"
#include "data/transform/transform.h"

#include "../suite.h"
#include "support.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 20, N_SAMPLES = 20000 };

static void make_plan(const ls__transform *transform, int64_t sample, ls__sample_plan *plan)
{
    char reason[LS__REASON_SIZE];
    const ls_draw draw = { .stream = LS_RANDOM_TRANSFORM, .epoch = 3, .sample = (uint64_t)sample };
    ck_assert_int_eq(ls__transform_plan(transform, &draw, SIDE, SIDE, plan, reason), LS_OK);
}

/* Whether `count` of n is within 5 standard deviations of n p. */
static bool is_near(double count, double n, double p)
{
    return fabs(count - n * p) < 5 * sqrt(n * p * (1 - p)) + 1;
}

START_TEST(flips_are_independent)
{
    const ls__transform transform = {
        .height = SIDE, .width = SIDE, .flip = 0.5f, .vertical_flip = 0.25f
    };
    int counts[2][2] = { { 0 } };
    for (int64_t i = 0; i < N_SAMPLES; i++) {
        ls__sample_plan plan;
        make_plan(&transform, i, &plan);
        counts[plan.flip][plan.vertical_flip]++;
    }
    for (int h = 0; h < 2; h++) {
        ck_assert(is_near(counts[h][0], N_SAMPLES, 0.5 * 0.75));
        ck_assert(is_near(counts[h][1], N_SAMPLES, 0.5 * 0.25));
    }
}
END_TEST

START_TEST(vertical_flip_reverses_the_rows)
{
    ls_context *ctx = ls_context_open(NULL);
    for (int channels = 1; channels <= 3; channels += 2)
        for (int height = SIDE - 1; height <= SIDE; height++)
            for (int crop = 0; crop < 2; crop++) { /* copied, or resized */
                const int64_t row = SIDE * channels;
                uint8_t *pixels = draw_image(height, SIDE, channels, 1);
                uint8_t *plain = malloc(SIDE * SIDE * 3), *flipped = malloc(SIDE * SIDE * 3);
                const ls__image_view view = { pixels, row, height, SIDE, channels };
                const ls__source source = ls__source_of_all(&view);
                ls__transformer self = { .resizer.ctx = ctx };
                ls__sample_plan plan = { .mode = crop ? LS__CROP_RESIZE : LS__CROP_COPY,
                                         .crop = { 0, 0, height, SIDE },
                                         .height = height,
                                         .width = SIDE };
                ck_assert(ls__transform_apply(&plan, &self, &source, plain));
                plan.vertical_flip = true;
                ck_assert(ls__transform_apply(&plan, &self, &source, flipped));
                for (int64_t y = 0; y < height; y++)
                    ck_assert_mem_eq(flipped + y * row, plain + (height - 1 - y) * row,
                                     (size_t)row);
                ls__transformer_free(&self);
                free(pixels), free(plain), free(flipped);
            }
    ls_context_close(&ctx);
}
END_TEST

/* All 24 orders are equally frequent, and factors fill their intervals. */
START_TEST(jitter_has_torchvisions_distribution)
{
    const ls__transform transform = { .height = SIDE,
                                      .width = SIDE,
                                      .augment = &(ls_loader_config){ .brightness = 0.4f,
                                                                      .contrast = 1.5f,
                                                                      .saturation = 0.1f,
                                                                      .hue = 0.25f } };
    static const double low[] = { 0.6, 0, 0.9 }, high[] = { 1.4, 2.5, 1.1 };
    int orders[256] = { 0 }, n_orders = 0, hues[128] = { 0 };
    double sums[3] = { 0 };
    for (int64_t i = 0; i < N_SAMPLES; i++) {
        ls__sample_plan plan;
        make_plan(&transform, i, &plan);
        ck_assert_int_eq(plan.augment.n_ops, 4);
        int order = 0;
        for (int k = 0; k < 4; k++) {
            static const int place[] = { [LS__PIXEL_BRIGHTNESS] = 0,
                                         [LS__PIXEL_CONTRAST] = 1,
                                         [LS__PIXEL_SATURATION] = 2,
                                         [LS__PIXEL_HUE] = 3 };
            const ls__pixel_op *op = &plan.augment.ops[k];
            const int which = place[op->kind];
            order = order * 4 + which;
            if (which == 3) {
                ck_assert(op->amount >= -63 && op->amount <= 63);
                hues[64 + op->amount]++;
                continue;
            }
            const double factor = (double)op->factor;
            ck_assert(factor >= low[which] - 1e-6 && factor <= high[which] + 1e-6);
            sums[which] += (factor - low[which]) / (high[which] - low[which]);
        }
        orders[order]++;
    }
    for (int i = 0; i < 256; i++) {
        n_orders += orders[i] > 0;
        ck_assert(orders[i] == 0 || is_near(orders[i], N_SAMPLES, 1.0 / 24));
    }
    ck_assert_int_eq(n_orders, 24);
    for (int i = 0; i < 3; i++) /* the standard deviation of a uniform number is 0.29 */
        ck_assert_double_le(fabs(sums[i] / N_SAMPLES - 0.5), 5 * 0.29 / sqrt(N_SAMPLES));
    ck_assert(hues[64 - 63] > 0 && hues[64 + 63] > 0 &&
              is_near(hues[64 + 10], N_SAMPLES, 1 / (2 * 0.25 * 255)));
}
END_TEST

START_TEST(automatic_augmentation_draws_each_op_equally_often)
{
    for (int policy = LS_AUTO_AUGMENT_TRIVIAL; policy <= LS_AUTO_AUGMENT_RAND; policy++) {
        const ls__transform transform = { .height = SIDE,
                                          .width = SIDE,
                                          .augment = &(ls_loader_config){
                                              .auto_augment = (ls_auto_augment)policy } };
        const int n = policy == LS_AUTO_AUGMENT_RAND ? 2 : 1;
        int n_ops = 0, equalize = 0, posterize = 0, bits[9] = { 0 }, negative = 0, sharpness = 0;
        for (int64_t i = 0; i < N_SAMPLES; i++) {
            ls__sample_plan plan;
            make_plan(&transform, i, &plan);
            ck_assert_int_le(plan.augment.n_ops, n);
            n_ops += plan.augment.n_ops;
            for (int k = 0; k < plan.augment.n_ops; k++) {
                const ls__pixel_op *op = &plan.augment.ops[k];
                equalize += op->kind == LS__PIXEL_EQUALIZE;
                posterize += op->kind == LS__PIXEL_POSTERIZE;
                if (op->kind == LS__PIXEL_POSTERIZE) bits[op->amount]++;
                sharpness += op->kind == LS__PIXEL_SHARPNESS;
                negative += op->kind == LS__PIXEL_SHARPNESS && op->factor < 1;
            }
        }
        ck_assert(is_near(n_ops, n * N_SAMPLES, 13.0 / 14)); /* without the identity */
        ck_assert(is_near(equalize, n * N_SAMPLES, 1.0 / 14));
        ck_assert(is_near(posterize, n * N_SAMPLES, 1.0 / 14));
        ck_assert(is_near(negative, sharpness, 0.5 * (n == 2 ? 1 : 30.0 / 31)));
        if (n == 2)
            ck_assert_int_eq(bits[7], posterize);
        else /* bins 28, 29 and 30 */
            ck_assert(is_near(bits[2], posterize, 3.0 / 31) && bits[8] > 0 && bits[1] == 0);
    }
}
END_TEST

/* A box of RandomErasing's sizes, filled with the given bytes; all else stays. */
START_TEST(random_erasing_fills_a_box)
{
    enum { H = 30, W = 40 };
    ls_context *ctx = ls_context_open(NULL);
    const ls_loader_config config = { .random_erase = 0.5f };
    static const uint8_t fill[3] = { 124, 116, 104 };
    int n_erased = 0, tops[H] = { 0 };
    for (int64_t sample = 0; sample < N_SAMPLES; sample++) {
        const ls_draw draw = { .stream = LS_RANDOM_TRANSFORM, .sample = (uint64_t)sample };
        ls__augment_plan plan;
        ls__augment_choose(&config, 5, &draw, H, W, &plan);
        const ls__window box = plan.erased;
        if (box.height == 0) continue;
        const double area = (double)(box.height * box.width);
        n_erased++;
        tops[box.top]++;
        ck_assert(box.top >= 0 && box.left >= 0 && box.top + box.height <= H &&
                  box.left + box.width <= W && box.height < H);
        /* sides are rounded to pixels */
        ck_assert(area > 0.02 * H * W * 0.75 && area < 0.33 * H * W * 1.1);
        const double ratio = (double)box.height / (double)box.width;
        ck_assert(ratio > 0.3 * 0.75 && ratio < 3.3 * 1.34);
        if (sample > 200) continue;
        uint8_t pixels[H * W * 3];
        memset(pixels, 7, sizeof(pixels));
        ls__buffer copy = { 0 };
        ck_assert(ls__augment_apply(&plan, ctx, &copy, H, W, 3, fill, pixels));
        for (int64_t i = 0; i < H * W * 3; i++) {
            const int64_t y = i / 3 / W - box.top, x = i / 3 % W - box.left;
            const bool inside = y >= 0 && y < box.height && x >= 0 && x < box.width;
            ck_assert_int_eq(pixels[i], inside ? fill[i % 3] : 7);
        }
    }
    /* Ten tries almost always find a box. */
    ck_assert(is_near(n_erased, N_SAMPLES, 0.5));
    ck_assert(tops[0] > 0 && tops[H - 10] > 0);
    ls_context_close(&ctx);
}
END_TEST

/* Erased bytes are the mean, which is normalized to about 0. */
START_TEST(erased_pixels_have_the_mean_colour)
{
    enum { N = 8 };
    static const uint8_t images[N * SIDE * SIDE * 3];
    static const int32_t labels[N];
    ls_context *ctx = ls_context_open(NULL);
    ls_dataset *data = ls_dataset_from_memory(ctx, images, LS_SHAPE(N, SIDE, SIDE, 3), labels, 1);
    ls_loader *loader =
        ls_loader_open(data, &(ls_loader_config){ .batch_size = N, .random_erase = 1 });
    ls_batch batch;
    ck_assert(ls_loader_start(loader, 0) == LS_OK && ls_loader_next(loader, &batch));
    const uint8_t *pixels = ls_tensor_data_const(batch.images);
    int64_t n_erased = 0;
    for (int64_t i = 0; i < N * SIDE * SIDE * 3; i += 3) {
        const bool erased = pixels[i] != 0;
        n_erased += erased;
        ck_assert_int_eq(pixels[i], erased ? 124 : 0); /* 255 * 0.485 = 123.7 */
        ck_assert_int_eq(pixels[i + 1], erased ? 116 : 0);
        ck_assert_int_eq(pixels[i + 2], erased ? 104 : 0);
    }
    ck_assert(n_erased > N * SIDE * SIDE / 50 && n_erased < N * SIDE * SIDE / 2);
    ls_context_close(&ctx);
}
END_TEST

/* Blocks of draws are at fixed places: moving one would change the results of existing runs. */
START_TEST(blocks_have_fixed_numbers)
{
    ck_assert_int_eq(LS__BLOCK_FLIP, 0);
    ck_assert_int_eq(LS__BLOCK_CROP, 1);
    ck_assert_int_eq(LS__BLOCK_BOX, 2);
    ck_assert_int_eq(LS__BLOCK_VERTICAL_FLIP, 22);
    ck_assert_int_eq(LS__BLOCK_AUTO_AUGMENT, 23);
    ck_assert_int_eq(LS__BLOCK_JITTER, 31);
    ck_assert_int_eq(LS__BLOCK_JITTER_ORDER, 32);
    ck_assert_int_eq(LS__BLOCK_ERASE, 33);
    ck_assert_int_eq(LS__BLOCK_ERASE_BOX, 34);
}
END_TEST

TEST_PROGRAM(augment)
{
    return RUN_SUITE("augmentation", flips_are_independent, vertical_flip_reverses_the_rows,
                     jitter_has_torchvisions_distribution,
                     automatic_augmentation_draws_each_op_equally_often, random_erasing_fills_a_box,
                     erased_pixels_have_the_mean_colour, blocks_have_fixed_numbers);
}
