/* test_sampler.c: balanced sampling, and balanced class weights. */
#include "../suite.h"
#include "data/loader/loader.h"
#include "loader_support.h"
#include <stdlib.h>
#include <string.h>

enum { SIDE = 6, BYTES = SIDE * SIDE, MAX_SAMPLES = 200, EPOCHS = 4 };

/* n_classes classes of so many samples, mixed; a sample's pixels count up from its number. */
static ls_dataset *make_samples(ls_context *ctx, int n_classes, const int *counts)
{
    static uint8_t pixels[MAX_SAMPLES * BYTES];
    int32_t labels[MAX_SAMPLES];
    int n = 0, left[8];
    memcpy(left, counts, (size_t)n_classes * sizeof(int));
    for (int found = 1; found;) {
        found = 0;
        for (int c = 0; c < n_classes; c++)
            if (left[c] > 0) labels[n++] = c, left[c]--, found = 1;
    }
    for (int i = 0; i < n * BYTES; i++) pixels[i] = (uint8_t)(i / BYTES + i % BYTES);
    return ls_dataset_from_memory(ctx, pixels, LS_SHAPE(n, SIDE, SIDE, 1), labels, n_classes);
}

static const ls_loader_config balanced = { .batch_size = 7,
                                           .shuffle = true,
                                           .sampler = LS_SAMPLER_BALANCED };

/* Adds the draws of each sample in one epoch. Returns how many there were. */
static int64_t count_draws(ls_loader *loader, int64_t epoch, int64_t draws[MAX_SAMPLES])
{
    ls_batch batch;
    int64_t n = 0;
    ck_assert_int_eq(ls_loader_start(loader, epoch), LS_OK);
    for (; ls_loader_next(loader, &batch); n += batch.n)
        for (int64_t i = 0; i < batch.n; i++) draws[batch.samples[i]]++;
    ck_assert_int_eq(ls_loader_status(loader), LS_OK);
    return n;
}

static void expect_even(int64_t least, int64_t most, const char *what)
{
    ck_assert_msg(most - least <= 1, "%s: drawn %d to %d times", what, (int)least, (int)most);
}

START_TEST(classes_and_samples_are_drawn_equally_often)
{
    static const int cases[][5] = {
        { 100, 10, 1, 3, 0 }, { 5, 5, 5, 5, 5 }, { 1, 1, 1, 1, 120 }, { 90, 0, 0, 0, 7 }
    };
    ls_context *ctx = ls_context_open(&(ls_context_config){ .seed = 5 });
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        ls_dataset *data = make_samples(ctx, 5, cases[k]);
        ls_loader *loader = ls_loader_open(data, &balanced);
        const int64_t n = ls_dataset_sample_count(data);
        int64_t of_class[5] = { 0 }, first[MAX_SAMPLES] = { 0 };
        ck_assert_int_eq(ls_loader_step_count(loader), (n + 6) / 7);
        for (int epoch = 0; epoch < EPOCHS; epoch++) {
            int64_t draws[MAX_SAMPLES] = { 0 }, least = n, most = 0;
            ck_assert_int_eq(count_draws(loader, epoch, draws), n);
            for (int c = 0; c < 5; c++) {
                int64_t sum = 0, rarest = n, commonest = 0;
                for (int64_t i = 0; i < n; i++) {
                    if (ls_dataset_label(data, i) != c) continue;
                    sum += draws[i];
                    if (draws[i] < rarest) rarest = draws[i];
                    if (draws[i] > commonest) commonest = draws[i];
                }
                if (cases[k][c] == 0) continue;
                expect_even(rarest, commonest, "samples of a class");
                if (sum < least) least = sum;
                if (sum > most) most = sum;
                of_class[c] += sum;
            }
            expect_even(least, most, "classes");
            if (epoch == 0) memcpy(first, draws, sizeof(first));
            if (epoch == 1 && k == 0) ck_assert(memcmp(first, draws, sizeof(first)) != 0);
        }
        int64_t least = n * EPOCHS, most = 0;
        for (int c = 0; c < 5; c++) {
            if (cases[k][c] > 0 && of_class[c] < least) least = of_class[c];
            if (of_class[c] > most) most = of_class[c];
        }
        expect_even(least, most, "classes in four epochs");
    }
    expect_ok(ctx);
    ls_context_close(&ctx);
}
END_TEST

/* The samples of a class are drawn in another order each time. */
START_TEST(each_round_has_its_own_order)
{
    enum { SEED = 5, IN_CLASS = 8, N_DRAWS = 20 };
    static const int counts[] = { IN_CLASS, 2 * N_DRAWS - IN_CLASS };
    ls_context *ctx = ls_context_open(&(ls_context_config){ .seed = SEED });
    ls_loader *loader = ls_loader_open(make_samples(ctx, 2, counts), &balanced);
    int64_t draws[N_DRAWS]; /* of class 0 */
    ls_batch batch;
    ck_assert_int_eq(ls_loader_start(loader, 0), LS_OK);
    while (ls_loader_next(loader, &batch))
        for (int64_t i = 0; i < batch.n; i++) {
            const uint64_t position = (uint64_t)(batch.step * balanced.batch_size + i);
            const uint64_t q = ls_random_permute(SEED, 0, 2 * N_DRAWS, position);
            ck_assert_int_eq(ls_dataset_label(loader->dataset, batch.samples[i]), q % 2);
            if (q % 2 == 0) draws[q / 2] = batch.samples[i];
        }
    expect_ok(ctx);
    ck_assert_int_ne(memcmp(draws, draws + IN_CLASS, IN_CLASS * sizeof(*draws)), 0);
    ls_context_close(&ctx);
}
END_TEST

/* The draws of one sample differ in their crops. */
START_TEST(each_draw_has_its_own_transforms)
{
    static const int counts[] = { 60, 1 };
    ls_context *ctx = ls_context_open(NULL);
    ls_loader_config config = balanced;
    config.crop = SIDE;
    config.crop_padding = 3;
    ls_loader *loader = ls_loader_open(make_samples(ctx, 2, counts), &config);
    uint8_t pixels[7 * BYTES], seen[MAX_SAMPLES][BYTES];
    int n = 0, n_distinct = 0;
    ls_batch batch;
    ck_assert_int_eq(ls_loader_start(loader, 0), LS_OK);
    while (ls_loader_next(loader, &batch)) {
        ck_assert_int_eq(ls_tensor_read(batch.images, pixels, (size_t)batch.n * BYTES), LS_OK);
        for (int64_t i = 0; i < batch.n; i++) {
            if (batch.samples[i] != 1) continue;
            bool found = false;
            for (int k = 0; k < n_distinct; k++)
                found = found || memcmp(seen[k], pixels + i * BYTES, BYTES) == 0;
            if (!found) memcpy(seen[n_distinct++], pixels + i * BYTES, BYTES);
            n++;
        }
    }
    ck_assert_int_ge(n, 30);
    ck_assert_int_ge(n_distinct, 20); /* of 7 x 7 places */
    ls_context_close(&ctx);
}
END_TEST

START_TEST(workers_and_restarts_change_nothing)
{
    static const int counts[] = { 40, 2, 9 };
    static trace alone, other;
    ls_context *ctx = ls_context_open(&(ls_context_config){ .seed = 9 });
    ls_dataset *data = make_samples(ctx, 3, counts);
    ls_loader_config config = balanced;
    config.crop = SIDE;
    config.crop_padding = 2;
    config.flip_probability = 0.5f;
    for (int64_t step = 0; step < 8; step += 3) {
        config.workers = 0;
        run_epochs_from(ctx, data, config, 0, step, 2, &alone);
        for (int workers = 1; workers <= 8; workers *= 2) {
            config.workers = workers;
            run_epochs_from(ctx, data, config, 0, step, 2, &other);
            expect_same_trace(&alone, &other, "workers");
        }
    }
    expect_ok(ctx);
    ls_context_close(&ctx);
}
END_TEST

/* n / (K m): scikit-learn's compute_class_weight("balanced") gives these for [0] * 6 + [1] * 3 +
 * [2]: 10 / 18, 10 / 9, 10 / 3. */
START_TEST(balanced_weights)
{
    static const int counts[] = { 6, 3, 1 }, empty[] = { 4, 0, 1 };
    static const double expected[] = { 10.0 / 18, 10.0 / 9, 10.0 / 3 };
    ls_context *ctx = ls_context_open(NULL);
    ls_dataset *data = make_samples(ctx, 3, counts);
    int64_t sizes[3];
    float weights[3];
    ck_assert_int_eq(ls_dataset_class_sizes(data, sizes), LS_OK);
    ck_assert_int_eq(ls_dataset_balanced_weights(data, weights), LS_OK);
    for (int c = 0; c < 3; c++) {
        ck_assert_int_eq(sizes[c], counts[c]);
        ck_assert_float_eq(weights[c], (float)expected[c]);
    }
    data = make_samples(ctx, 3, empty);
    expect_failure(ls_dataset_balanced_weights(data, weights), ctx, LS_ERR_DATA,
                   "class '1' has no samples");
    expect_failure(ls_dataset_class_sizes(data, NULL), ctx, LS_ERR_INVALID, "counts is NULL");
    expect_failure(ls_dataset_balanced_weights(data, NULL), ctx, LS_ERR_INVALID, "weights is NULL");
    const char *path = "a.png";
    data = ls_image_list_open(ctx, 1, &path, NULL, 0);
    expect_failure(ls_dataset_class_sizes(data, sizes), ctx, LS_ERR_INVALID, "no labels");
    expect_failure(ls_dataset_balanced_weights(data, weights), ctx, LS_ERR_INVALID, "no labels");
    ck_assert_ptr_null(ls_loader_open(data, &balanced));
    expect_error(ctx, LS_ERR_INVALID, "sampler is balanced, but the samples have no labels");
    ls_loader_config config = balanced;
    config.shuffle = false;
    ck_assert_ptr_null(ls_loader_open(make_samples(ctx, 3, counts), &config));
    expect_error(ctx, LS_ERR_INVALID, "sampler is balanced, which requires shuffle");
    config.sampler = (ls_sampler)2;
    ck_assert_ptr_null(ls_loader_open(make_samples(ctx, 3, counts), &config));
    expect_error(ctx, LS_ERR_INVALID, "sampler is 2, expected 0 to 1");
    ls_context_close(&ctx);
}
END_TEST

enum { N_FEW = 40 };

static int first_is_rare(void *user, int64_t sample)
{
    (void)user;
    return sample > 0;
}

static ls_status load_all_but_first(void *user, int64_t sample, ls_image_writer *out)
{
    (void)user;
    if (sample == 0) return LS_ERR_DATA;
    uint8_t *pixels = ls_image_writer_reserve(out, SIDE, SIDE);
    if (pixels) memset(pixels, (int)sample, BYTES);
    return LS_OK;
}

/* The only sample of a class is unreadable: each of its 20 draws has a replacement of its own. The
 * first one is that of a loader that draws each sample once. */
START_TEST(each_draw_has_its_own_replacement)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .seed = 5 });
    ls_dataset *data =
        ls_dataset_from_callbacks(ctx, &(ls_dataset_callbacks){ .sample_count = N_FEW,
                                                                .n_classes = 2,
                                                                .channels = 1,
                                                                .label = first_is_rare,
                                                                .load = load_all_but_first });
    int64_t draws[2][MAX_SAMPLES] = { { 0 } };
    for (int k = 0; k < 2; k++) {
        ls_loader_config config = balanced;
        config.sampler = k ? LS_SAMPLER_BALANCED : LS_SAMPLER_ALL;
        config.on_bad_image = LS_BAD_IMAGE_SKIP;
        ls_loader *loader = ls_loader_open(data, &config);
        ck_assert_int_eq(count_draws(loader, 0, draws[k]), N_FEW);
        ck_assert_int_eq(draws[k][0], 0);
    }
    int64_t most = 0, once = 0;
    for (int i = 1; i < N_FEW; i++) {
        if (draws[0][i] > 1) once = i;
        if (draws[1][i] > most) most = draws[1][i];
    }
    ck_assert_int_eq(draws[0][once], 2);
    ck_assert_int_ge(draws[1][once], 1);
    ck_assert_int_le(most, 6); /* 20 if all had the same */
    ls_context_close(&ctx);
}
END_TEST

static bool open_balanced(ls_context *ctx, void *user)
{
    (void)user;
    static const int counts[] = { 4, 1 };
    float weights[2];
    ls_dataset *data = make_samples(ctx, 2, counts);
    const ls_status status = ls_dataset_balanced_weights(data, weights);
    return ls_loader_open(data, &balanced) && status == LS_OK;
}

START_TEST(every_allocation_may_fail)
{
    fail_each_allocation(open_balanced, NULL);
}
END_TEST

TEST_PROGRAM(sampler)
{
    return RUN_SUITE("sampler", classes_and_samples_are_drawn_equally_often,
                     each_round_has_its_own_order, each_draw_has_its_own_transforms,
                     workers_and_restarts_change_nothing, balanced_weights,
                     each_draw_has_its_own_replacement, every_allocation_may_fail);
}
