/* test_max_pixels.c: the limit on an image's pixels, as an option of loaders and packs. */
#include "../suite.h"
#include "checkpoint/identity.h"
#include "loader_support.h"
#include <jansson.h>
#include <stdlib.h>

enum { LIMIT = 100 };

/* Three PNG files in one class: 10 x 10, 10 x 11, 5 x 20 pixels. The second is beyond LIMIT. */
static char *make_folder_of_sizes(void)
{
    static const int sizes[][2] = { { 10, 10 }, { 11, 10 }, { 20, 5 } };
    char *folder = new_folder();
    make_folder(path_in(folder, "a"));
    for (int i = 0; i < 3; i++) {
        uint8_t *pixels = draw_image(sizes[i][0], sizes[i][1], 3, (unsigned)i);
        write_png(path_in(folder, "a/%d.png", i), sizes[i][0], sizes[i][1], 3, pixels);
        free(pixels);
    }
    return folder;
}

static const ls_loader_config limited = { .batch_size = 3, .crop = 5, .max_pixels = LIMIT };

START_TEST(larger_images_are_bad)
{
    char *folder = make_folder_of_sizes();
    ls_context *ctx = ls_context_open(NULL);
    ls_dataset *data = ls_image_folder_open(ctx, folder);
    ls_loader *loader = ls_loader_open(data, &limited);
    ls_batch batch;
    ck_assert_int_eq(ls_loader_start(loader, 0), LS_OK);
    ck_assert(!ls_loader_next(loader, &batch));
    expect_error(ctx, LS_ERR_DATA, "a/1.png",
                 "claims 10 x 11 pixels, more than the limit of 100 (max_pixels)");
    ls_loader_close(&loader);

    /* Without a crop the first image is decoded when the loader is opened. */
    ls_loader_config whole = { .batch_size = 1, .max_pixels = LIMIT - 1 };
    ck_assert_ptr_null(ls_loader_open(data, &whole));
    expect_error(ctx, LS_ERR_DATA, "a/0.png", "limit of 99");

    for (int workers = 0; workers < 3; workers++) {
        ls_loader_config config = limited;
        config.on_bad_image = LS_BAD_IMAGE_SKIP;
        config.workers = workers;
        loader = ls_loader_open(data, &config);
        ck_assert_int_eq(ls_loader_start(loader, 0), LS_OK);
        ck_assert(ls_loader_next(loader, &batch));
        ck_assert_int_eq(batch.n, 3);
        for (int i = 0; i < 3; i++) ck_assert_int_ne(batch.samples[i], 1);
        ck_assert_int_eq(ls_loader_statistics(loader).n_bad, 1);
        ls_loader_close(&loader);
    }
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

START_TEST(limits_out_of_range_or_without_effect_are_refused)
{
    char *folder = make_folder_of_sizes();
    ls_context *ctx = ls_context_open(NULL);
    ls_dataset *data = ls_image_folder_open(ctx, folder);
    ls_loader_config config = limited;
    config.max_pixels = -1;
    ck_assert_ptr_null(ls_loader_open(data, &config));
    expect_error(ctx, LS_ERR_INVALID, "max_pixels is -1", "expected 0 to 268435455");
    config.max_pixels = (int64_t)LS_LARGEST_MAX_PIXELS + 1;
    ck_assert_ptr_null(ls_loader_open(data, &config));
    expect_error(ctx, LS_ERR_INVALID, "max_pixels is 268435456", "expected 0 to 268435455");
    const ls_pack_split split = { "", data };
    const ls_pack_config packing = { .max_pixels = -1 };
    ck_assert_int_eq(ls_pack_write(ctx, path_in(folder, "p"), 1, &split, &packing, NULL),
                     LS_ERR_INVALID);
    expect_error(ctx, LS_ERR_INVALID, "max_pixels is -1", "expected 0 to 268435455");

    const uint8_t pixels[5 * 5 * 3] = { 0 };
    const int32_t label = 0;
    ls_dataset *memory = ls_dataset_from_memory(ctx, pixels, LS_SHAPE(1, 5, 5, 3), &label, 1);
    config = (ls_loader_config){ .batch_size = 1, .max_pixels = LIMIT };
    ck_assert_ptr_null(ls_loader_open(memory, &config));
    expect_error(ctx, LS_ERR_INVALID, "max_pixels is set", "data in memory");
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

START_TEST(packs_keep_to_the_limit_as_folders_do)
{
    char *folder = make_folder_of_sizes(), *place = new_folder();
    ls_context *ctx = ls_context_open(NULL);
    ls_dataset *data = ls_image_folder_open(ctx, folder);
    const ls_pack_split split = { "", data };
    ls_loader_config config = limited;
    config.on_bad_image = LS_BAD_IMAGE_SKIP;
    trace *expected = malloc(sizeof(trace)), *got = malloc(sizeof(trace));
    run_epochs(ctx, data, config, 0, 1, expected);
    ck_assert_int_eq(expected->n_bad, 1);
    for (int i = 0; i < 4; i++) {
        const bool pixels = i % 2, limited_too = i / 2;
        const char *path = path_in(place, "%d.pack", i);
        const ls_pack_config packing = { .pixels = pixels,
                                         .on_bad_image = LS_BAD_IMAGE_SKIP,
                                         .max_pixels = limited_too ? LIMIT : 0 };
        ls_pack_summary summary;
        ck_assert_int_eq(ls_pack_write(ctx, path, 1, &split, &packing, &summary), LS_OK);
        ck_assert_int_eq(summary.n_bad, limited_too);
        ls_dataset *packed = ls_image_folder_open(ctx, path);
        run_epochs(ctx, packed, config, 0, 1, got);
        expect_same_trace(expected, got, path);
        ls_dataset_close(&packed);
    }
    free(expected), free(got);
    ls_context_close(&ctx);
    remove_folder(place);
    remove_folder(folder);
}
END_TEST

/* The identity's loader.max_pixels, 0 where it is not there. */
static int64_t identified_limit(ls_context *ctx, ls_dataset *data, int64_t max_pixels)
{
    ls_loader_config config = { .batch_size = 1, .crop = 5, .max_pixels = max_pixels };
    ls_loader *loader = ls_loader_open(data, &config);
    json_t *identity = ls__identity_make(ctx, &(ls_training_state){ .loader = loader });
    expect_ok(ctx);
    const json_t *field = json_object_get(json_object_get(identity, "loader"), "max_pixels");
    const int64_t limit = field ? json_integer_value(field) : 0;
    json_decref(identity);
    ls_loader_close(&loader);
    return limit;
}

START_TEST(only_another_limit_than_the_default_is_in_the_identity)
{
    char *folder = make_folder_of_sizes();
    ls_context *ctx = ls_context_open(NULL);
    ls_dataset *data = ls_image_folder_open(ctx, folder);
    ck_assert_int_eq(identified_limit(ctx, data, 0), 0);
    ck_assert_int_eq(identified_limit(ctx, data, LS_DEFAULT_MAX_PIXELS), 0);
    ck_assert_int_eq(identified_limit(ctx, data, 1000), 1000);
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

TEST_PROGRAM(max_pixels)
{
    return RUN_SUITE("max_pixels", larger_images_are_bad,
                     limits_out_of_range_or_without_effect_are_refused,
                     packs_keep_to_the_limit_as_folders_do,
                     only_another_limit_than_the_default_is_in_the_identity);
}
