/* The loader: bits, order, bad images, restarts, misuse. */
#include "../failing_allocator.h"
#include "../suite.h"
#include "../backend/fake_backend.h"
#include "loader_support.h"
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ls_context *open_context(uint64_t seed)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .seed = seed, .threads = 1 });
    expect_ok(ctx);
    return ctx;
}

static const ls_loader_config train = { .batch_size = 8,
                                        .shuffle = true,
                                        .random_resized_crop = true,
                                        .crop = 24,
                                        .flip_probability = 0.5f,
                                        .honour_exif = true };
static const ls_loader_config padded = { .batch_size = 8,
                                         .shuffle = true,
                                         .resize = 20,
                                         .crop = 24,
                                         .crop_padding = 4,
                                         .flip_probability = 0.5f };
static const ls_loader_config val = { .batch_size = 8, .resize = 20, .crop = 16 };

/* ---- Bits; see also test_loader_bits.c. ---- */

START_TEST(the_first_bad_image_of_a_batch_is_reported_by_any_number_of_workers)
{
    char *folder = make_images(true);
    ls_context *ctx = open_context(3);
    ls_dataset *data = ls_image_folder_open(ctx, folder);
    trace *first = malloc(sizeof(trace)), *other = malloc(sizeof(trace));
    ls_loader_config config = val;
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        for (int workers = 0; workers <= 8; workers++) {
            config.shuffle = shuffle;
            config.workers = workers;
            run_epochs(ctx, data, config, 0, 3, workers ? other : first);
            if (workers > 0) expect_same_trace(first, other, "fail");
        }
        ck_assert_int_ne(first->status, LS_OK);
        ck_assert_int_eq(first->n_bad, 1);
        if (shuffle) continue;
        ck_assert_int_eq(first->status, LS_ERR_DATA);
        ck_assert_int_eq(first->n, 0);
        ck_assert_int_eq(first->bads[0], 3);
        ck_assert_ptr_nonnull(strstr(first->message, "class0/03.jpg': empty file"));
        ck_assert_ptr_nonnull(strstr(first->message, "epoch 0, step 0"));
    }
    free(first), free(other);
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

START_TEST(bits_are_those_of_earlier_versions)
{
    /* Order, crops, flips and pixels of a run belong to its identity. PNG files only: other JPEG
     * libraries may decode differently. */
    char *folder = new_folder();
    make_folder(path_in(folder, "a"));
    for (int i = 0; i < 10; i++) {
        uint8_t *pixels = draw_image(20 + i, 40 - i, 3, (unsigned)i);
        write_png(path_in(folder, "a/%d.png", i), 20 + i, 40 - i, 3, pixels);
        free(pixels);
    }
    ls_context *ctx = open_context(42);
    ls_dataset *data = ls_image_folder_open(ctx, folder);
    static const ls_loader_config *const recipes[] = { &train, &padded, &val };
    static const char *const digests[] = { "c3f5792959ff399cd684c0ecbc2b9ff0",
                                           "5d610e3cdbc54ce7703fd341e364bc3c",
                                           "ed45a2d1ddb64cc8902d1deb73201ee1" };
    trace *t = malloc(sizeof(trace));
    for (int r = 0; r < 3; r++) {
        ls_loader_config config = *recipes[r];
        config.batch_size = 10;
        run_epochs(ctx, data, config, 7, 7, t);
        char text[LS_DIGEST_TEXT_SIZE];
        ck_assert_str_eq(ls_digest_text(t->batches[0].images, text), digests[r]);
    }
    free(t);
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

/* ---- Order. ---- */

/* The samples of an epoch in order, after checking labels. */
static int64_t epoch_samples(ls_loader *loader, const ls_dataset *data, int64_t epoch, int64_t step,
                             int64_t *samples)
{
    int64_t n = 0;
    ck_assert_int_eq(ls_loader_start_at(loader, epoch, step), LS_OK);
    for (ls_batch b; ls_loader_next(loader, &b); step++) {
        ck_assert_int_eq(b.epoch, epoch);
        ck_assert_int_eq(b.step, step);
        ck_assert_int_eq(b.is_last, step + 1 == ls_loader_step_count(loader));
        const int32_t *labels = ls_tensor_data_const(b.labels);
        for (int64_t i = 0; i < b.n; i++) {
            ck_assert_int_eq(labels[i], ls_dataset_label(data, b.samples[i]));
            samples[n++] = b.samples[i];
        }
    }
    ck_assert_int_eq(ls_loader_status(loader), LS_OK);
    return n;
}

START_TEST(each_sample_comes_once_in_an_epoch_in_a_new_order)
{
    char *folder = make_images(false);
    ls_context *ctx = open_context(5);
    ls_dataset *data = ls_image_folder_open(ctx, folder);
    int64_t samples[4][N_IMAGES];
    for (int workers = 0; workers < 3; workers++) {
        ls_loader_config config = padded;
        config.workers = workers;
        ls_loader *loader = ls_loader_open(data, &config);
        ck_assert_int_eq(ls_loader_step_count(loader), 6);
        for (int epoch = 0; epoch < 4; epoch++) {
            int seen[N_IMAGES] = { 0 };
            ck_assert_int_eq(epoch_samples(loader, data, epoch, 0, samples[epoch]), N_IMAGES);
            for (int i = 0; i < N_IMAGES; i++) seen[samples[epoch][i]]++;
            for (int i = 0; i < N_IMAGES; i++) ck_assert_int_eq(seen[i], 1);
        }
        for (int i = 0; i < 4; i++)
            for (int k = 0; k < i; k++)
                ck_assert_mem_ne(samples[i], samples[k], sizeof(samples[i]));
        ck_assert_int_eq(ls_loader_statistics(loader).n_images, 4 * N_IMAGES);
        ls_loader_close(&loader);
    }
    /* Without shuffle: by number, in each epoch. */
    ls_loader *loader = ls_loader_open(data, &val);
    ck_assert_int_eq(epoch_samples(loader, data, 9, 0, samples[0]), N_IMAGES);
    for (int i = 0; i < N_IMAGES; i++) ck_assert_int_eq(samples[0][i], i);
    ls_loader_close(&loader);
    /* drop_last leaves out what does not fill a batch. */
    ls_loader_config config = padded;
    config.drop_last = true;
    loader = ls_loader_open(data, &config);
    ck_assert_int_eq(ls_loader_step_count(loader), 5);
    ck_assert_int_eq(epoch_samples(loader, data, 0, 0, samples[0]), 40);
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

START_TEST(an_epoch_may_begin_at_any_step)
{
    char *folder = make_images(false);
    ls_context *ctx = open_context(5);
    ls_dataset *data = ls_image_folder_open(ctx, folder);
    for (int workers = 0; workers < 4; workers += 3) {
        ls_loader_config config = train;
        config.workers = workers;
        ls_loader *loader = ls_loader_open(data, &config);
        int64_t whole[N_IMAGES], tail[N_IMAGES];
        epoch_samples(loader, data, 2, 0, whole);
        for (int step = 0; step <= 6; step++) {
            const int64_t n = epoch_samples(loader, data, 2, step, tail);
            ck_assert_int_eq(n, step < 6 ? N_IMAGES - 8 * step : 0);
            if (n > 0) ck_assert_mem_eq(tail, whole + 8 * step, (size_t)n * sizeof(int64_t));
        }
        ls_loader_close(&loader);
    }
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

START_TEST(work_may_be_dropped_at_any_moment)
{
    char *folder = make_images(true);
    failing_allocator a;
    failing_allocator_init(&a, 0);
    ls_context *ctx =
        ls_context_open(&(ls_context_config){ .seed = 5, .allocator = &a.allocator, .threads = 1 });
    ls_dataset *data = ls_image_folder_open(ctx, folder);
    trace *expected = malloc(sizeof(trace));
    ls_loader_config config = train;
    config.on_bad_image = LS_BAD_IMAGE_SKIP;
    run_epochs(ctx, data, config, 1, 1, expected);
    for (int workers = 0; workers <= 4; workers++) {
        config.workers = workers;
        config.prefetch = 1 + workers % 3;
        for (int taken = 0; taken <= 7; taken++) {
            ls_loader *loader = ls_loader_open(data, &config);
            ls_batch b;
            if (taken < 7) ck_assert_int_eq(ls_loader_start(loader, 0), LS_OK);
            for (int i = 0; i < taken && taken < 7; i++) ck_assert(ls_loader_next(loader, &b));
            if (taken % 2 == 0) {
                /* A new epoch is not disturbed by what was under way. */
                ck_assert_int_eq(ls_loader_start(loader, 1), LS_OK);
                for (int i = 0; ls_loader_next(loader, &b); i++) {
                    ls_digest digest;
                    ls_tensor_digest(b.images, &digest);
                    ck_assert(ls_digest_equal(digest, expected->batches[i].images));
                }
                ck_assert_int_eq(ls_loader_status(loader), LS_OK);
            }
            ls_loader_close(&loader);
        }
    }
    free(expected);
    ls_context_close(&ctx);
    ck_assert_int_eq(failing_allocator_live(&a), 0);
    remove_folder(folder);
}
END_TEST

/* ---- Bad images. ---- */

START_TEST(bad_images_are_replaced_counted_and_listed)
{
    char *folder = make_images(true);
    ls_context *ctx = open_context(6);
    ls_dataset *data = ls_image_folder_open(ctx, folder);
    ls_loader_config config = val;
    config.on_bad_image = LS_BAD_IMAGE_SKIP;
    config.workers = 2;
    ls_loader *loader = ls_loader_open(data, &config);
    int64_t samples[2][N_IMAGES];
    int64_t n_listed = 0;
    ls_loader_start(loader, 0);
    for (ls_batch b; ls_loader_next(loader, &b);) {
        for (int64_t i = 0; i < b.n; i++) {
            const int64_t position = b.step * 8 + i;
            bool bad = false;
            for (int k = 0; k < 4; k++) {
                ck_assert_int_ne(b.samples[i], bad_images[k]);
                bad = bad || bad_images[k] == position;
            }
            if (!bad) ck_assert_int_eq(b.samples[i], position);
        }
        /* A bad image counts when its batch is handed out, not before; a replacement that was bad
         * counts as well. */
        int64_t n_due = 0;
        for (int k = 0; k < 4; k++) n_due += bad_images[k] < (b.step + 1) * 8;
        n_listed = ls_loader_statistics(loader).n_bad;
        ck_assert_int_ge(n_listed, n_due);
        if (b.step == 0) ck_assert_int_eq(n_listed, 2);
    }
    ck_assert_int_eq(n_listed, 4);
    static const char *const reasons[] = { "empty file", "Premature end", "HTML", "No such file" };
    for (int i = 0; i < 4; i++) {
        const char *reason;
        ck_assert_int_eq(ls_loader_bad_sample(loader, i, &reason), bad_images[i]);
        ck_assert_ptr_nonnull(strstr(reason, reasons[i]));
    }
    ck_assert_int_eq(ls_loader_bad_sample(loader, -1, NULL), -1);
    epoch_samples(loader, data, 0, 0, samples[0]);
    epoch_samples(loader, data, 1, 0, samples[1]);
    ck_assert_int_eq(ls_loader_statistics(loader).n_bad, 4);
    /* Another epoch, other replacements. */
    ck_assert_mem_ne(samples[0], samples[1], sizeof(samples[0]));
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

START_TEST(when_all_images_are_bad_skipping_ends)
{
    char *folder = new_folder();
    make_folder(path_in(folder, "a"));
    for (int i = 0; i < 5; i++) write_file(path_in(folder, "a/%d.png", i), "x", 1);
    ls_context *ctx = open_context(6);
    ls_dataset *data = ls_image_folder_open(ctx, folder);
    ls_loader_config config = { .batch_size = 2, .crop = 8, .on_bad_image = LS_BAD_IMAGE_SKIP };
    for (int workers = 0; workers < 3; workers++) {
        config.workers = workers;
        ls_loader *loader = ls_loader_open(data, &config);
        ls_batch b;
        ls_loader_start(loader, 0);
        ck_assert(!ls_loader_next(loader, &b));
        ck_assert_int_eq(ls_loader_status(loader), LS_ERR_DATA);
        expect_error(ctx, LS_ERR_DATA, "100 replacements for image '", "a/0.png' failed too");
        ck_assert_int_eq(ls_loader_statistics(loader).n_bad, 5);
        ck_assert_int_eq(ls_loader_statistics(loader).n_images, 0);
        ls_loader_close(&loader);
    }
    config.crop = 0;
    ck_assert_ptr_null(ls_loader_open(data, &config));
    expect_error(ctx, LS_ERR_DATA, "none of the 5 images can be read");
    config.on_bad_image = LS_BAD_IMAGE_FAIL;
    ck_assert_ptr_null(ls_loader_open(data, &config));
    expect_error(ctx, LS_ERR_DATA, "a/0.png': not a JPEG, PNG, WebP, BMP or PNM file",
                 "ls_loader_open");
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

START_TEST(a_failed_epoch_may_be_followed_by_another)
{
    char *folder = make_images(true);
    ls_context *ctx = open_context(6);
    ls_dataset *data = ls_image_folder_open(ctx, folder);
    ls_loader_config config = val;
    config.workers = 3;
    ls_loader *loader = ls_loader_open(data, &config);
    ls_batch b;
    for (int round = 0; round < 3; round++) {
        ck_assert_int_eq(ls_loader_start_at(loader, 0, 1), LS_OK);
        ck_assert(ls_loader_next(loader, &b));
        ck_assert(!ls_loader_next(loader, &b)); /* sample 17 */
        ck_assert_int_eq(b.n, 0);
        ck_assert(!ls_loader_next(loader, &b));
        ck_assert_int_eq(ls_loader_status(loader), LS_ERR_DATA);
        ck_assert_int_eq(ls_loader_start(loader, 0), LS_ERR_EARLIER);
        expect_error(ctx, LS_ERR_DATA, "17.jpg", "HTML");
        ck_assert_int_eq(ls_loader_status(loader), LS_ERR_DATA);
    }
    ck_assert_int_eq(ls_loader_statistics(loader).n_bad, 1);
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

START_TEST(images_of_other_sizes_are_bad_where_nothing_crops)
{
    char *folder = new_folder();
    make_folder(path_in(folder, "a"));
    for (int i = 0; i < 4; i++) {
        uint8_t *pixels = draw_image(10, i == 2 ? 13 : 12, 3, 1);
        write_png(path_in(folder, "a/%d.png", i), 10, i == 2 ? 13 : 12, 3, pixels);
        free(pixels);
    }
    ls_context *ctx = open_context(6);
    ls_dataset *data = ls_image_folder_open(ctx, folder);
    ls_loader *loader = ls_loader_open(data, &(ls_loader_config){ .batch_size = 2 });
    const ls_input_spec spec = ls_loader_input_spec(loader);
    ck_assert(ls_shape_equal(&spec.image.shape, &LS_SHAPE(2, 10, 12, 3)));
    ck_assert_int_eq(spec.image.dtype, LS_U8);
    ck_assert_int_eq(spec.n_classes, 1);
    ck_assert_float_eq(spec.mean[1], 0.456f);
    ck_assert_float_eq(spec.std[2], 0.225f);
    ls_batch b;
    ls_loader_start(loader, 0);
    ck_assert(ls_loader_next(loader, &b));
    ck_assert(!ls_loader_next(loader, &b));
    expect_error(ctx, LS_ERR_DATA, "a/2.png': 13 x 10 pixels", "12 x 10");
    ls_loader_close(&loader);
    /* The shorter side resized, the longer one follows. */
    loader = ls_loader_open(data, &(ls_loader_config){ .batch_size = 4, .resize = 20 });
    const ls_shape resized = ls_loader_input_spec(loader).image.shape;
    ck_assert(ls_shape_equal(&resized, &LS_SHAPE(4, 20, 24, 3)));
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

/* ---- Samples in memory, and devices with memory of their own. ---- */

START_TEST(samples_in_memory_come_as_they_are)
{
    for (int channels = 1; channels <= 3; channels += 2) {
        enum { N = 23, H = 5, W = 6 };
        uint8_t *images = draw_image(N * H, W, channels, 3);
        int32_t labels[N];
        for (int i = 0; i < N; i++) labels[i] = i % 4;
        for (int fake = 0; fake < 2; fake++) {
            const ls_context_config config = { .seed = 2, .threads = 1 };
            ls_context *ctx = fake ? fake_context_open(&config) : ls_context_open(&config);
            ls_dataset *data =
                ls_dataset_from_memory(ctx, images, LS_SHAPE(N, H, W, channels), labels, 4);
            for (int workers = 0; workers <= 2; workers += 2) {
                ls_loader *loader = ls_loader_open(
                    data,
                    &(ls_loader_config){ .batch_size = 7, .workers = workers, .shuffle = true });
                expect_ok(ctx);
                const ls_input_spec spec = ls_loader_input_spec(loader);
                ck_assert(ls_shape_equal(&spec.image.shape, &LS_SHAPE(7, H, W, channels)));
                ck_assert_float_eq(spec.mean[0], channels == 1 ? 0.449f : 0.485f);
                ck_assert_float_eq(spec.std[0], channels == 1 ? 0.226f : 0.229f);
                ck_assert_float_eq(spec.std[channels], 0);
                ls_loader_start(loader, 1);
                int64_t n = 0;
                for (ls_batch b; ls_loader_next(loader, &b); n += b.n) {
                    uint8_t got[7 * H * W * 3];
                    int32_t got_labels[7];
                    const size_t bytes = (size_t)(H * W * channels);
                    ls_tensor_read(b.images, got, (size_t)b.n * bytes);
                    ls_tensor_read(b.labels, got_labels, (size_t)b.n * sizeof(int32_t));
                    for (int64_t i = 0; i < b.n; i++) {
                        ck_assert_mem_eq(got + (size_t)i * bytes,
                                         images + (size_t)b.samples[i] * bytes, bytes);
                        ck_assert_int_eq(got_labels[i], b.samples[i] % 4);
                    }
                }
                expect_ok(ctx);
                ck_assert_int_eq(n, N);
                ls_loader_close(&loader);
            }
            ls_context_close(&ctx);
        }
        free(images);
    }
}
END_TEST

/* ---- Misuse. ---- */

START_TEST(wrong_configurations_are_refused)
{
    const uint8_t images[4 * 8 * 8 * 3] = { 0 };
    const int32_t labels[4] = { 0 };
    ls_context *ctx = open_context(1);
    ls_dataset *data = ls_dataset_from_memory(ctx, images, LS_SHAPE(4, 8, 8, 3), labels, 1);
    const struct {
        ls_loader_config config;
        const char *word;
    } cases[] = {
        { { .batch_size = 0 }, "batch_size is 0" },
        { { .batch_size = -1 }, "batch_size is -1" },
        { { .batch_size = INT64_MAX }, "batch_size is" },
        { { .batch_size = 2, .workers = -1 }, "workers is -1" },
        { { .batch_size = 2, .workers = 100000 }, "workers is 100000" },
        { { .batch_size = 2, .prefetch = -1 }, "prefetch is -1" },
        { { .batch_size = 2, .on_bad_image = (ls_bad_image)7 }, "on_bad_image is 7" },
        { { .batch_size = 2, .resize = -1 }, "resize is -1" },
        { { .batch_size = 2, .crop = -4 }, "crop is -4" },
        { { .batch_size = 2, .crop = 4, .crop_padding = -1 }, "crop_padding is -1" },
        { { .batch_size = 2, .crop_padding = 1 }, "crop_padding without crop" },
        { { .batch_size = 2, .flip_probability = 1.5f }, "flip_probability is 1.5" },
        { { .batch_size = 2, .flip_probability = NAN }, "flip_probability is nan" },
        { { .batch_size = 2, .vertical_flip_probability = -1 },
          "vertical_flip_probability is -1, expected 0 to 1" },
        { { .batch_size = 2, .brightness = -0.5f }, "brightness is -0.5, expected 0 to 255" },
        { { .batch_size = 2, .contrast = NAN }, "contrast is nan" },
        { { .batch_size = 2, .saturation = 256 }, "saturation is 256, expected 0 to 255" },
        { { .batch_size = 2, .hue = 0.6f }, "hue is 0.6, expected 0 to 0.5" },
        { { .batch_size = 2, .random_erase = 2 }, "random_erase is 2, expected 0 to 1" },
        { { .batch_size = 2, .auto_augment = (ls_auto_augment)3 }, "auto_augment is 3" },
        { { .batch_size = 2, .random_resized_crop = true }, "random_resized_crop without crop" },
        { { .batch_size = 2, .crop = 4, .crop_padding = 1, .random_resized_crop = true },
          "exclude" },
        { { .batch_size = 2, .crop = 4, .scale_max = 1 }, "scale without random_resized_crop" },
        { { .batch_size = 2, .crop = 4, .ratio_max = 1 }, "ratio without random_resized_crop" },
        { { .batch_size = 2, .crop = 4, .random_resized_crop = true, .scale_min = 0.5f },
          "scale is" },
        { { .batch_size = 2,
            .crop = 4,
            .random_resized_crop = true,
            .scale_min = 1,
            .scale_max = 2 },
          "scale is" },
        { { .batch_size = 2,
            .crop = 4,
            .random_resized_crop = true,
            .ratio_min = 2,
            .ratio_max = 1 },
          "ratio is" },
        { { .batch_size = 2,
            .crop = 4,
            .random_resized_crop = true,
            .ratio_min = NAN,
            .ratio_max = 1 },
          "ratio is" },
        { { .batch_size = 2, .mean = { 0.5f, 0.5f, 0.5f } }, "std 0" },
        { { .batch_size = 2, .std = { 1, 1, -1 } }, "channel 2" },
        { { .batch_size = 2, .mean = { NAN }, .std = { 1, 1, 1 } }, "channel 0 has mean nan" },
        { { .batch_size = 2, .decode = LS_DECODE_FAST },
          "decode is fast, but the data in memory are" },
        { { .batch_size = 5, .drop_last = true }, "drop_last leaves no batch of 4 samples" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_ptr_null(ls_loader_open(data, &cases[i].config));
        expect_error(ctx, LS_ERR_INVALID, cases[i].word, "ls_loader_open: ");
    }
    ck_assert_ptr_null(ls_loader_open(data, NULL));
    expect_error(ctx, LS_ERR_INVALID, "no configuration");
    ck_assert_ptr_null(ls_loader_open(NULL, &cases[0].config));
    expect_ok(ctx);
    ls_dataset *grey = ls_dataset_from_memory(ctx, images, LS_SHAPE(4, 8, 8, 1), labels, 1);
    ck_assert_ptr_null(
        ls_loader_open(grey, &(ls_loader_config){ .batch_size = 2, .saturation = 1 }));
    expect_error(ctx, LS_ERR_INVALID, "saturation is set, but the images have one channel");
    ck_assert_ptr_null(ls_loader_open(grey, &(ls_loader_config){ .batch_size = 2, .hue = 0.1f }));
    expect_error(ctx, LS_ERR_INVALID, "hue is set, but the images have one channel");
    ls_loader *plain =
        ls_loader_open(data, &(ls_loader_config){ .batch_size = 2, .std = { 1, 1, 1 } });
    ck_assert_float_eq(ls_loader_input_spec(plain).mean[0], 0);
    ck_assert_float_eq(ls_loader_input_spec(plain).std[0], 1);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(the_default_of_workers)
{
    const int n = ls_default_worker_count();
    ck_assert(n >= 1 && n <= 8);
}
END_TEST

START_TEST(wrong_calls_are_refused)
{
    const uint8_t images[4 * 8 * 8 * 3] = { 0 };
    const int32_t labels[4] = { 0 };
    ls_context *ctx = open_context(1);
    ls_dataset *data = ls_dataset_from_memory(ctx, images, LS_SHAPE(4, 8, 8, 3), labels, 1);
    ls_loader *loader = ls_loader_open(data, &(ls_loader_config){ .batch_size = 2, .workers = 1 });
    ls_batch b;
    ck_assert(!ls_loader_next(loader, &b));
    ck_assert_int_eq(ls_loader_status(loader), LS_ERR_INVALID);
    expect_error(ctx, LS_ERR_INVALID, "no epoch was started");
    static const int64_t wrong[][2] = { { -1, 0 }, { 1 << 20, 0 }, { 0, -1 }, { 0, 3 } };
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(ls_loader_start_at(loader, wrong[i][0], wrong[i][1]), LS_ERR_INVALID);
        expect_error(ctx, LS_ERR_INVALID,
                     wrong[i][1] ? "ls_loader_start_at: step is" : "ls_loader_start_at: epoch is",
                     "expected 0 to");
        if (wrong[i][1]) continue;
        ck_assert_int_eq(ls_loader_start(loader, wrong[i][0]), LS_ERR_INVALID);
        expect_error(ctx, LS_ERR_INVALID, "ls_loader_start: epoch is", "expected 0 to");
    }
    ck_assert_int_eq(ls_loader_start_at(loader, (1 << 20) - 1, 2), LS_OK);
    ck_assert(!ls_loader_next(loader, &b));
    ck_assert_int_eq(ls_loader_status(loader), LS_OK);
    ck_assert(!ls_loader_next(loader, NULL));
    expect_error(ctx, LS_ERR_INVALID, "batch is NULL");

    /* An error of somebody else's stops the epoch until it is cleared. */
    ck_assert_int_eq(ls_loader_start(loader, 0), LS_OK);
    ck_assert(ls_loader_next(loader, &b));
    ck_assert_ptr_null(ls_image_load(ctx, "/nowhere", false));
    ck_assert(!ls_loader_next(loader, &b));
    ck_assert_int_eq(ls_loader_status(loader), LS_ERR_EARLIER);
    ck_assert_int_eq(ls_loader_start(loader, 0), LS_ERR_EARLIER);
    ck_assert_ptr_null(ls_loader_open(data, &(ls_loader_config){ .batch_size = 2 }));
    ls_context_clear_error(ctx);
    ck_assert(ls_loader_next(loader, &b));
    ck_assert_int_eq(b.step, 1);

    ck_assert_int_eq(ls_loader_start(NULL, 0), LS_ERR_EARLIER);
    ck_assert_int_eq(ls_loader_status(NULL), LS_ERR_EARLIER);
    ck_assert(!ls_loader_next(NULL, &b));
    ck_assert_int_eq(ls_loader_step_count(NULL), 0);
    ck_assert_int_eq(ls_loader_input_spec(NULL).image.shape.n_dims, 0);
    ck_assert_int_eq(ls_loader_statistics(NULL).n_images, 0);
    ck_assert_int_eq(ls_loader_bad_sample(NULL, 0, NULL), -1);
    ls_loader_close(NULL);
    ls_loader *none = NULL;
    ls_loader_close(&none);

    /* The data set closed before its loader. */
    ls_dataset_close(&data);
    ck_assert_int_eq(ls_loader_start(loader, 1), LS_OK);
    ck_assert(ls_loader_next(loader, &b));
    ls_loader_close(&loader);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(device_memory_is_taken_at_open_and_has_limits)
{
    uint8_t *images = calloc(64, 32 * 32 * 3);
    int32_t labels[64] = { 0 };
    ls_context *ctx =
        ls_context_open(&(ls_context_config){ .memory_limit_bytes = 1 << 20, .threads = 1 });
    ls_dataset *data = ls_dataset_from_memory(ctx, images, LS_SHAPE(64, 32, 32, 3), labels, 1);
    ls_loader_config config = { .batch_size = 64, .workers = 2, .prefetch = 8 };
    ck_assert_ptr_null(ls_loader_open(data, &config));
    expect_error(ctx, LS_ERR_MEMORY, "9 batches take 196864 bytes each", "free");
    ck_assert_uint_eq(ls_context_memory(ctx).current_bytes, 0);
    config.prefetch = 2;
    ls_loader *loader = ls_loader_open(data, &config);
    expect_ok(ctx);
    const ls_memory_stats before = ls_context_memory(ctx);
    ck_assert_uint_ge(before.current_bytes, 3 * 196608);
    ls_batch b;
    for (int epoch = 0; epoch < 3; epoch++) {
        ls_loader_start(loader, epoch);
        while (ls_loader_next(loader, &b)) continue;
    }
    ck_assert_int_eq(ls_context_memory(ctx).n_allocated, before.n_allocated);
    ck_assert_uint_eq(ls_context_memory(ctx).current_bytes, before.current_bytes);
    ls_loader_close(&loader);
    ck_assert_uint_eq(ls_context_memory(ctx).current_bytes, 0);
    free(images);
    ls_context_close(&ctx);
}
END_TEST

static pthread_t main_thread;
static volatile sig_atomic_t n_signals, n_astray;

static void on_signal(int number)
{
    (void)number;
    n_signals++;
    if (!pthread_equal(pthread_self(), main_thread)) n_astray++;
}

START_TEST(signals_are_left_to_the_program)
{
    char *folder = make_images(false);
    main_thread = pthread_self();
    struct sigaction action = { .sa_handler = on_signal };
    sigaction(SIGUSR1, &action, NULL);
    ls_context *ctx = open_context(1);
    ls_dataset *data = ls_image_folder_open(ctx, folder);
    ls_loader_config config = train;
    config.workers = 4;
    ls_loader *loader = ls_loader_open(data, &config);
    for (int epoch = 0; epoch < 10; epoch++) {
        ls_loader_start(loader, epoch);
        for (ls_batch b; ls_loader_next(loader, &b);) kill(getpid(), SIGUSR1);
    }
    ck_assert_int_eq(ls_loader_status(loader), LS_OK);
    ck_assert_int_ge(n_signals, 30);
    /* The mask of the opening thread is as before. */
    sigset_t mask, usr1, pending;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    ck_assert(!sigismember(&mask, SIGUSR1));

    /* While this thread does not take it, nobody else does. */
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &usr1, NULL);
    kill(getpid(), SIGUSR1);
    ls_loader_start(loader, 0);
    for (ls_batch b; ls_loader_next(loader, &b);) continue;
    sigpending(&pending);
    ck_assert(sigismember(&pending, SIGUSR1));
    pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
    ck_assert_int_eq(n_astray, 0);
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    char *folder = make_images(true);
    for (int workers = 0; workers <= 2; workers += 2) {
        for (int64_t n = 1;; n++) {
            failing_allocator a;
            failing_allocator_init(&a, n);
            const ls_context_config config = { .allocator = &a.allocator, .threads = 1 };
            ls_context *ctx = workers ? fake_context_open(&config) : ls_context_open(&config);
            if (ctx && ls_context_status(ctx) == LS_OK) {
                ls_dataset *data = ls_image_folder_open(ctx, folder);
                ls_loader *loader =
                    ls_loader_open(data, &(ls_loader_config){ .batch_size = 16,
                                                              .workers = workers,
                                                              .prefetch = 1,
                                                              .resize = 20,
                                                              .crop = 16,
                                                              .crop_padding = 2,
                                                              .honour_exif = true,
                                                              .on_bad_image = LS_BAD_IMAGE_SKIP });
                ls_loader_start(loader, 0);
                ls_batch b;
                while (ls_loader_next(loader, &b)) continue;
                const ls_status status = ls_loader_status(loader);
                const ls_status kept = ls_context_status(ctx);
                /* What workers fetched ahead when the last batch was out may have failed unseen. */
                ck_assert(kept == LS_OK || kept == LS_ERR_MEMORY);
                ck_assert(kept == LS_OK ? status == LS_OK : status != LS_OK);
                if (!failing_allocator_failed(&a)) ck_assert_int_eq(kept, LS_OK);
            }
            ls_context_close(&ctx);
            ck_assert_int_eq(failing_allocator_live(&a), 0);
            if (!failing_allocator_failed(&a)) break;
        }
    }
    remove_folder(folder);
}
END_TEST

TEST_PROGRAM(loader)
{
    return RUN_SUITE(
        "loader", the_first_bad_image_of_a_batch_is_reported_by_any_number_of_workers,
        bits_are_those_of_earlier_versions, each_sample_comes_once_in_an_epoch_in_a_new_order,
        an_epoch_may_begin_at_any_step, work_may_be_dropped_at_any_moment,
        bad_images_are_replaced_counted_and_listed, when_all_images_are_bad_skipping_ends,
        a_failed_epoch_may_be_followed_by_another,
        images_of_other_sizes_are_bad_where_nothing_crops, samples_in_memory_come_as_they_are,
        wrong_configurations_are_refused, the_default_of_workers, wrong_calls_are_refused,
        device_memory_is_taken_at_open_and_has_limits, signals_are_left_to_the_program,
        every_allocation_may_fail);
}
