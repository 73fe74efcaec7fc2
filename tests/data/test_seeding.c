/* test_seeding.c: what random choices depend on. Keyed by sample, the number of workers changes no
 * byte, whatever else is asked of the loader; by worker it does, and a fixed number of workers
 * repeats. */
#include "../suite.h"
#include "loader_support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 10, MAX_SAMPLES = 64 };
static const int numbers_of_workers[] = { 0, 1, 2, 3, 8 };
enum { N_NUMBERS = sizeof numbers_of_workers / sizeof numbers_of_workers[0] };

static const ls_loader_config random_crops = {
    .shuffle = true, .crop = SIDE, .crop_padding = 3, .flip_probability = 0.5f
};

static ls_context *open_context(void)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .seed = 11, .threads = 1 });
    expect_ok(ctx);
    return ctx;
}

static ls_dataset *make_samples(ls_context *ctx, int n)
{
    uint8_t pixels[MAX_SAMPLES * SIDE * SIDE * 3];
    int32_t labels[MAX_SAMPLES];
    for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)(i * 2654435761u >> 21);
    for (int i = 0; i < n; i++) labels[i] = i % 3;
    return ls_dataset_from_memory(ctx, pixels, LS_SHAPE(n, SIDE, SIDE, 3), labels, 3);
}

/* Traces with all numbers of workers are those of none, from every step of the first epoch on. */
static void expect_same_for_all(ls_context *ctx, ls_dataset *data, ls_loader_config config,
                                const char *what)
{
    trace *alone = malloc(sizeof *alone), *other = malloc(sizeof *other);
    const int64_t n_steps =
        (ls_dataset_sample_count(data) + config.batch_size - 1) / config.batch_size;
    const int64_t stride = n_steps > 4 ? n_steps / 3 : 1;
    for (int64_t step = 0; step <= n_steps; step += stride) {
        for (int w = 0; w < N_NUMBERS; w++) {
            char text[128];
            snprintf(text, sizeof text, "%s, batch %d, from step %d, %d workers", what,
                     (int)config.batch_size, (int)step, numbers_of_workers[w]);
            config.workers = numbers_of_workers[w];
            config.prefetch = 1 + 2 * w;
            run_epochs_from(ctx, data, config, 0, step, 1, w ? other : alone);
            ck_assert_msg(alone->status == LS_OK, "%s: %s", text, alone->message);
            ck_assert_int_gt(alone->n, 0);
            if (w > 0) expect_same_trace(alone, other, text);
        }
    }
    free(alone), free(other);
}

START_TEST(by_sample_workers_change_nothing_for_odd_sizes_and_partial_batches)
{
    static const int sizes[] = { 1, 2, 7, 13, 31, 64 }, batches[] = { 1, 3, 8, 64 };
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        ls_context *ctx = open_context();
        ls_dataset *data = make_samples(ctx, sizes[s]);
        for (size_t b = 0; b < sizeof batches / sizeof batches[0]; b++) {
            ls_loader_config config = random_crops;
            char what[32];
            snprintf(what, sizeof what, "%d samples", sizes[s]);
            config.batch_size = batches[b];
            expect_same_for_all(ctx, data, config, what);
        }
        ls_context_close(&ctx);
    }
}
END_TEST

START_TEST(by_sample_workers_change_nothing_when_bad_images_are_skipped)
{
    char *folder = make_images(true);
    ls_context *ctx = open_context();
    ls_dataset *data = ls_image_folder_open(ctx, folder);
    ls_loader_config config = { .batch_size = 8,
                                .shuffle = true,
                                .random_resized_crop = true,
                                .crop = 16,
                                .flip_probability = 0.5f,
                                .on_bad_image = LS_BAD_IMAGE_SKIP };
    expect_same_for_all(ctx, data, config, "random boxes");
    config.seeding = LS_SEED_BY_SAMPLE; /* the default */
    config.random_resized_crop = false;
    config.resize = 20;
    config.shuffle = false;
    config.batch_size = 5;
    expect_same_for_all(ctx, data, config, "central crops");
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

/* How many batches of two traces differ in their images. */
static int count_different(const trace *a, const trace *b)
{
    int n = 0;
    ck_assert_int_eq(a->n, b->n);
    for (int i = 0; i < a->n; i++)
        n += !ls_digest_equal(a->batches[i].images, b->batches[i].images);
    return n;
}

START_TEST(by_worker_a_number_of_workers_repeats_and_others_differ)
{
    char *folder = make_images(true);
    ls_context *ctx = open_context();
    ls_dataset *data = ls_image_folder_open(ctx, folder);
    const ls_loader_config config = { .batch_size = 4,
                                      .shuffle = true,
                                      .random_resized_crop = true,
                                      .crop = 16,
                                      .flip_probability = 0.5f,
                                      .on_bad_image = LS_BAD_IMAGE_SKIP,
                                      .seeding = LS_SEED_BY_WORKER };
    trace *all = malloc(N_NUMBERS * sizeof *all), *again = malloc(sizeof *again);
    for (int w = 0; w < N_NUMBERS; w++) {
        ls_loader_config c = config;
        c.workers = numbers_of_workers[w];
        run_epochs(ctx, data, c, 0, 1, &all[w]);
        ck_assert_int_eq(all[w].status, LS_OK);
        for (int prefetch = 1; prefetch <= 7; prefetch += 3) {
            c.prefetch = prefetch;
            run_epochs(ctx, data, c, 0, 1, again);
            expect_same_trace(&all[w], again, "again");
        }
        for (int v = 0; v < w; v++)
            ck_assert_int_gt(count_different(&all[v], &all[w]), all[w].n / 2);
    }
    /* the epochs differ, and so does seeding by sample */
    ck_assert(!ls_digest_equal(all[2].batches[0].images, all[2].batches[all[2].n / 2].images));
    ls_loader_config by_sample = config;
    by_sample.seeding = LS_SEED_BY_SAMPLE;
    run_epochs(ctx, data, by_sample, 0, 1, again);
    ck_assert_int_gt(count_different(&all[0], again), again->n / 2);
    free(all), free(again);
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

START_TEST(by_worker_an_epoch_goes_on_from_its_middle)
{
    char *folder = make_images(true);
    ls_context *ctx = open_context();
    ls_dataset *data = ls_image_folder_open(ctx, folder);
    ls_loader_config config = random_crops;
    config.resize = 20;
    config.batch_size = 6;
    config.seeding = LS_SEED_BY_WORKER;
    config.on_bad_image = LS_BAD_IMAGE_SKIP;
    trace *whole = malloc(sizeof *whole), *tail = malloc(sizeof *tail);
    for (int w = 0; w < N_NUMBERS; w++) {
        config.workers = numbers_of_workers[w];
        run_epochs(ctx, data, config, 0, 1, whole);
        for (int step = 0; step < 7; step++) {
            run_epochs_from(ctx, data, config, 0, step, 1, tail);
            ck_assert_int_eq(tail->n, whole->n - step);
            for (int i = 0; i < tail->n; i++) {
                ck_assert(
                    ls_digest_equal(tail->batches[i].images, whole->batches[step + i].images));
                ck_assert(
                    ls_digest_equal(tail->batches[i].samples, whole->batches[step + i].samples));
            }
        }
    }
    free(whole), free(tail);
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

/* Batches are dealt in turn: with the order of samples being the same, the images of worker 0's
 * first batch do not depend on how many others there are. */
START_TEST(by_worker_batches_are_dealt_in_turn)
{
    ls_context *ctx = open_context();
    ls_dataset *data = make_samples(ctx, 60);
    ls_loader_config config = random_crops;
    config.batch_size = 6;
    config.seeding = LS_SEED_BY_WORKER;
    trace *two = malloc(sizeof *two), *three = malloc(sizeof *three);
    config.workers = 2;
    run_epochs(ctx, data, config, 0, 0, two);
    config.workers = 3;
    run_epochs(ctx, data, config, 0, 0, three);
    for (int i = 0; i < 10; i++) {
        ck_assert(ls_digest_equal(two->batches[i].samples, three->batches[i].samples));
        ck_assert_int_eq(ls_digest_equal(two->batches[i].images, three->batches[i].images), i < 2);
    }
    free(two), free(three);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(seeding_is_one_of_two)
{
    ls_context *ctx = open_context();
    ls_dataset *data = make_samples(ctx, 4);
    ls_loader_config config = random_crops;
    config.batch_size = 2;
    config.seeding = (ls_seeding)2;
    ck_assert_ptr_null(ls_loader_open(data, &config));
    expect_error(ctx, LS_ERR_INVALID, "seeding is 2", "expected 0 to 1");
    ls_context_close(&ctx);
}
END_TEST

TEST_PROGRAM(seeding)
{
    return RUN_SUITE("seeding", by_sample_workers_change_nothing_for_odd_sizes_and_partial_batches,
                     by_sample_workers_change_nothing_when_bad_images_are_skipped,
                     by_worker_a_number_of_workers_repeats_and_others_differ,
                     by_worker_an_epoch_goes_on_from_its_middle,
                     by_worker_batches_are_dealt_in_turn, seeding_is_one_of_two);
}
