/* Data sets over lists of files: what is copied, what is refused, and every allocation failing in
 * turn. */
#include "../suite.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

START_TEST(a_list_keeps_its_own_copy)
{
    ls_context *ctx = ls_context_open(NULL);
    char first[] = "a.png", second[] = "b/c.jpg";
    const char *paths[] = { first, second };
    int32_t labels[] = { 2, 0 };
    ls_dataset *list = ls_image_list_open(ctx, 2, paths, labels, 3);
    expect_ok(ctx);
    first[0] = second[0] = 'z';
    labels[0] = labels[1] = 1;
    ck_assert_int_eq(ls_dataset_sample_count(list), 2);
    ck_assert_int_eq(ls_dataset_class_count(list), 3);
    ck_assert_str_eq(ls_dataset_sample_path(list, 0), "a.png");
    ck_assert_str_eq(ls_dataset_sample_path(list, 1), "b/c.jpg");
    ck_assert_int_eq(ls_dataset_label(list, 0), 2);
    ck_assert_int_eq(ls_dataset_label(list, 1), 0);
    ck_assert_str_eq(ls_dataset_class_name(list, 2), "2");
    ck_assert_ptr_null(ls_dataset_class_name(list, 3));
    ck_assert_ptr_null(ls_dataset_sample_path(list, 2));
    ck_assert_int_eq(ls_dataset_label(list, -1), -1);

    ls_dataset *unlabelled = ls_image_list_open(ctx, 2, paths, NULL, 0);
    ck_assert_int_eq(ls_dataset_class_count(unlabelled), 0);
    ck_assert_int_eq(ls_dataset_label(unlabelled, 1), -1);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(a_list_feeds_a_loader)
{
    char *folder = new_folder();
    ls_context *ctx = ls_context_open(NULL);
    uint8_t *grey = draw_image(4, 5, 1, 1), *colour = draw_image(4, 5, 3, 2);
    write_png(path_in(folder, "grey.png"), 4, 5, 1, grey);
    write_png(path_in(folder, "colour.png"), 4, 5, 3, colour);
    const char *paths[] = { path_in(folder, "colour.png"), path_in(folder, "grey.png") };
    ls_dataset *list = ls_image_list_open(ctx, 2, paths, (int32_t[]){ 1, 0 }, 2);
    ls_loader *loader = ls_loader_open(list, &(ls_loader_config){ .batch_size = 2 });
    expect_ok(ctx);
    ls_batch batch;
    ck_assert_int_eq(ls_loader_start(loader, 0), LS_OK);
    ck_assert(ls_loader_next(loader, &batch));
    uint8_t pixels[2 * 4 * 5 * 3];
    int32_t labels[2];
    ck_assert_int_eq(ls_tensor_read(batch.images, pixels, sizeof(pixels)), LS_OK);
    ck_assert_int_eq(ls_tensor_read(batch.labels, labels, sizeof(labels)), LS_OK);
    ck_assert(memcmp(pixels, colour, 60) == 0);
    for (int i = 0; i < 60; i++) ck_assert_int_eq(pixels[60 + i], grey[i / 3]);
    ck_assert(labels[0] == 1 && labels[1] == 0);
    ls_context_close(&ctx);
    free(grey);
    free(colour);
    remove_folder(folder);
}
END_TEST

START_TEST(sizes_and_orientations)
{
    char *folder = new_folder();
    ls_context *ctx = ls_context_open(NULL);
    uint8_t *pixels = draw_image(4, 6, 3, 1);
    write_jpeg(path_in(folder, "0.jpg"), 4, 6, pixels, (jpeg_options){ .orientation = 6 });
    write_png(path_in(folder, "1.png"), 4, 6, 3, pixels);
    const char *paths[] = { path_in(folder, "0.jpg"), path_in(folder, "1.png"),
                            path_in(folder, "2.png") };
    ls_dataset *list = ls_image_list_open(ctx, 3, paths, NULL, 0);
    ls_image_info info;
    ck_assert_int_eq(ls_dataset_image_info(list, 0, &info), LS_OK);
    ck_assert(info.height == 6 && info.width == 4 && info.orientation == 6);
    ck_assert_int_eq(ls_dataset_image_info(list, 1, &info), LS_OK);
    ck_assert(info.height == 4 && info.width == 6 && info.orientation == 1);
    expect_failure(ls_dataset_image_info(list, 2, &info), ctx, LS_ERR_NOT_FOUND, paths[2]);
    expect_failure(ls_dataset_image_info(list, 3, &info), ctx, LS_ERR_INVALID, "sample 3 of 3");
    expect_failure(ls_dataset_image_info(list, 0, NULL), ctx, LS_ERR_INVALID, "out is NULL");
    ck_assert_int_eq(ls_dataset_image_info(NULL, 0, &info), LS_ERR_EARLIER);
    ls_dataset *memory =
        ls_dataset_from_memory(ctx, pixels, LS_SHAPE(1, 4, 6, 3), (int32_t[]){ 0 }, 1);
    ck_assert_int_eq(ls_dataset_image_info(memory, 0, &info), LS_OK);
    ck_assert(info.height == 4 && info.width == 6 && info.orientation == 1);
    ls_context_close(&ctx);
    free(pixels);
    remove_folder(folder);
}
END_TEST

START_TEST(wrong_lists_are_refused)
{
    ls_context *ctx = ls_context_open(NULL);
    const char *paths[] = { "a.png", "b.png" }, *holes[] = { "a.png", NULL };
    const int32_t labels[] = { 0, 2 };
    ck_assert_ptr_null(ls_image_list_open(ctx, 0, paths, NULL, 0));
    expect_error(ctx, LS_ERR_INVALID, "0 paths", "expected 1 or more");
    ck_assert_ptr_null(ls_image_list_open(ctx, 2, NULL, NULL, 0));
    expect_error(ctx, LS_ERR_INVALID, "0 paths");
    ck_assert_ptr_null(ls_image_list_open(ctx, 2, holes, NULL, 0));
    expect_error(ctx, LS_ERR_INVALID, "path 1 is NULL");
    ck_assert_ptr_null(ls_image_list_open(ctx, 2, paths, NULL, 2));
    expect_error(ctx, LS_ERR_INVALID, "2 classes", "without labels");
    ck_assert_ptr_null(ls_image_list_open(ctx, 2, paths, labels, 0));
    expect_error(ctx, LS_ERR_INVALID, "0 classes", "with labels");
    ck_assert_ptr_null(ls_image_list_open(ctx, 2, paths, labels, 2));
    expect_error(ctx, LS_ERR_DATA, "'b.png' has label 2", "expected 0 to 1");
    ck_assert_ptr_null(ls_image_list_open(NULL, 2, paths, NULL, 0));
    ls_context_close(&ctx);
}
END_TEST

static bool open_list(ls_context *ctx, void *user)
{
    (void)user;
    const char *paths[] = { "a.png", "b.png" };
    const int32_t labels[] = { 0, 1 };
    return ls_image_list_open(ctx, 2, paths, labels, 2) != NULL;
}

/* A folder, a file in it and a missing file. */
static void make_paths(const char *folder, const char *out[3])
{
    uint8_t *image = draw_image(4, 5, 3, 1);
    make_folder(path_in(folder, "b"));
    make_folder(path_in(folder, "b/c"));
    write_png(path_in(folder, "b/z.png"), 4, 5, 3, image);
    write_png(path_in(folder, "b/c/y.PNG"), 4, 5, 3, image);
    write_png(path_in(folder, "b/a.png"), 4, 5, 3, image);
    write_text(path_in(folder, "b/notes.txt"), "none");
    free(image);
    out[0] = path_in(folder, "none.png");
    out[1] = path_in(folder, "b//");
    out[2] = path_in(folder, "b/z.png");
}

START_TEST(folders_stand_for_their_images)
{
    static const char *const expected[] = { "none.png", "b/a.png", "b/c/y.PNG", "b/z.png",
                                            "b/z.png" };
    char *folder = new_folder();
    ls_context *ctx = ls_context_open(NULL);
    const char *paths[3];
    make_paths(folder, paths);
    ls_dataset *files = ls_image_files_open(ctx, 3, paths);
    expect_ok(ctx);
    ck_assert_int_eq(ls_dataset_sample_count(files), 5);
    for (int i = 0; i < 5; i++)
        ck_assert_str_eq(ls_dataset_sample_path(files, i), path_in(folder, "%s", expected[i]));

    /* the missing file is blank, the others keep their places; an incomplete last batch, too */
    for (int workers = 0; workers < 3; workers++) {
        ls_loader *loader =
            ls_loader_open(files, &(ls_loader_config){ .batch_size = 3,
                                                       .workers = workers,
                                                       .resize = 4,
                                                       .crop = 4,
                                                       .on_bad_image = LS_BAD_IMAGE_BLANK });
        ls_batch batch;
        uint8_t pixels[3 * 4 * 4 * 3];
        const char *reason;
        ck_assert_int_eq(ls_loader_start(loader, 0), LS_OK);
        ck_assert(ls_loader_next(loader, &batch));
        ck_assert(batch.samples[0] == -1 && batch.samples[1] == 1 && batch.samples[2] == 2);
        ck_assert_int_eq(ls_tensor_read(batch.images, pixels, sizeof(pixels)), LS_OK);
        for (int i = 0; i < 4 * 4 * 3; i++) ck_assert_int_eq(pixels[i], 0);
        ck_assert_int_eq(ls_loader_bad_sample(loader, 0, &reason), 0);
        ck_assert_str_eq(reason, "No such file or directory");
        ck_assert(ls_loader_next(loader, &batch) && batch.n == 2 && batch.samples[1] == 4);
        ck_assert(!ls_loader_next(loader, &batch));
        expect_ok(ctx);
        ls_loader_close(&loader);
    }

    make_folder(path_in(folder, "empty"));
    const char *empty = path_in(folder, "empty");
    ck_assert_ptr_null(ls_image_files_open(ctx, 1, &empty));
    expect_error(ctx, LS_ERR_DATA, "empty': no images at any depth");
    ls_dataset *labelled = ls_image_list_open(ctx, 1, paths, (int32_t[]){ 0 }, 1);
    ck_assert_ptr_null(ls_loader_open(
        labelled,
        &(ls_loader_config){ .batch_size = 1, .crop = 4, .on_bad_image = LS_BAD_IMAGE_BLANK }));
    expect_error(ctx, LS_ERR_INVALID, "LS_BAD_IMAGE_BLANK is for datasets without labels");
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

static bool open_files(ls_context *ctx, void *paths)
{
    return ls_image_files_open(ctx, 3, paths) != NULL;
}

START_TEST(every_allocation_may_fail)
{
    fail_each_allocation(open_list, NULL);
    char *folder = new_folder();
    const char *paths[3];
    make_paths(folder, paths);
    fail_each_allocation(open_files, paths);
    remove_folder(folder);
}
END_TEST

TEST_PROGRAM(image_list)
{
    return RUN_SUITE("image_list", a_list_keeps_its_own_copy, a_list_feeds_a_loader,
                     sizes_and_orientations, folders_stand_for_their_images,
                     wrong_lists_are_refused, every_allocation_may_fail);
}
