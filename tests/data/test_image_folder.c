/* Image folders: the order of classes and samples, and every way in which a folder can be wrong. */
#include "../failing_allocator.h"
#include "../suite.h"
#include "support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Any bytes do: opening a folder reads no image. */
static void touch(const char *folder, const char *name)
{
    write_file(path_in(folder, "%s", name), "x", 1);
}

static void expect_samples(const ls_dataset *data, const char *folder, int n,
                           const char *const *names, const int *labels)
{
    ck_assert_int_eq(ls_dataset_sample_count(data), n);
    for (int i = 0; i < n; i++) {
        ck_assert_str_eq(ls_dataset_sample_path(data, i), path_in(folder, "%s", names[i]));
        ck_assert_int_eq(ls_dataset_label(data, i), labels[i]);
    }
    ck_assert_ptr_null(ls_dataset_sample_path(data, n));
    ck_assert_ptr_null(ls_dataset_sample_path(data, -1));
    ck_assert_int_eq(ls_dataset_label(data, n), -1);
    ck_assert_int_eq(ls_dataset_label(data, -1), -1);
}

static char *make_folders(const char *const *names)
{
    char *folder = new_folder();
    for (; *names; names++) make_folder(path_in(folder, "%s", *names));
    return folder;
}

START_TEST(classes_and_samples_are_sorted_by_bytes)
{
    char *folder = make_folders((const char *[]){ "b", "a", "a-b", "B", "a/sub", "a/sub/deeper",
                                                  ".hidden", "a/.hidden", NULL });
    static const char *const files[] = {
        "a/2.png",       "a/10.PNG",        "a/sub/1.jpeg", "a/sub-1.jpg", "a/sub/deeper/x.BmP",
        "a-b/x.ppm",     "a-b/.hidden.png", "B/x.pgm",      "b/x.JPG",     "b/y.JPEG",
        ".hidden/x.png", "a/.hidden/x.png"
    };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) touch(folder, files[i]);
    touch(folder, "b/notes.txt");
    touch(folder, "b/anim.gif");
    touch(folder, "a/noextension");
    touch(folder, "readme.txt");
    touch(folder, "stray.png"); /* in no class */

    ls_context *ctx = ls_context_open(NULL);
    ls_dataset *data = ls_image_folder_open(ctx, folder);
    expect_ok(ctx);
    ck_assert_int_eq(ls_dataset_class_count(data), 4);
    static const char *const classes[] = { "B", "a", "a-b", "b" };
    for (int i = 0; i < 4; i++) ck_assert_str_eq(ls_dataset_class_name(data, i), classes[i]);
    ck_assert_ptr_null(ls_dataset_class_name(data, 4));
    ck_assert_ptr_null(ls_dataset_class_name(data, -1));
    expect_samples(data, folder, 9,
                   (const char *[]){ "B/x.pgm", "a/10.PNG", "a/2.png", "a/sub-1.jpg",
                                     "a/sub/1.jpeg", "a/sub/deeper/x.BmP", "a-b/x.ppm", "b/x.JPG",
                                     "b/y.JPEG" },
                   (int[]){ 0, 1, 1, 1, 1, 1, 2, 3, 3 });
    const char *example;
    ck_assert_int_eq(ls_dataset_ignored_count(data, &example), 3);
    ck_assert_str_eq(example, path_in(folder, "b/anim.gif"));
    ls_dataset_close(&data);
    ck_assert_ptr_null(data);

    /* Slashes at the end change nothing. */
    data = ls_image_folder_open(ctx, path_in(folder, "//"));
    ck_assert_str_eq(ls_dataset_sample_path(data, 0), path_in(folder, "B/x.pgm"));
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

START_TEST(names_may_hold_any_bytes)
{
    static const char *const names[] = { "\x01\x02",  " blank ",           "%s%n",     "a'b\"c",
                                         "new\nline", "\xc3\xa9t\xc3\xa9", "\xff\xfe", NULL };
    char *folder = make_folders(names);
    for (int i = 0; names[i]; i++)
        write_file(path_in(folder, "%s/%s.png", names[i], names[i]), "x", 1);
    ls_context *ctx = ls_context_open(NULL);
    ls_dataset *data = ls_image_folder_open(ctx, folder);
    expect_ok(ctx);
    for (int i = 0; names[i]; i++) {
        ck_assert_str_eq(ls_dataset_class_name(data, i), names[i]);
        ck_assert_str_eq(ls_dataset_sample_path(data, i),
                         path_in(folder, "%s/%s.png", names[i], names[i]));
    }
    const char *example;
    ck_assert_int_eq(ls_dataset_ignored_count(data, &example), 0);
    ck_assert_str_eq(example, "");
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

START_TEST(wrong_folders_say_what_was_found)
{
    char *folder = new_folder();
    ls_context *ctx = ls_context_open(NULL);
    ck_assert_ptr_null(ls_image_folder_open(ctx, path_in(folder, "none")));
    expect_error(ctx, LS_ERR_NOT_FOUND, path_in(folder, "none"), "No such file");
    ck_assert_ptr_null(ls_image_folder_open(ctx, ""));
    expect_error(ctx, LS_ERR_NOT_FOUND, "image folder ''", "No such file");
    ck_assert_ptr_null(ls_image_folder_open(ctx, NULL));
    expect_error(ctx, LS_ERR_INVALID, "ls_image_folder_open", "no folder");
    touch(folder, "file");
    ck_assert_ptr_null(ls_image_folder_open(ctx, path_in(folder, "file")));
    expect_error(ctx, LS_ERR_FORMAT, "file", "neither a folder nor a");

    ck_assert_ptr_null(ls_image_folder_open(ctx, folder));
    expect_error(ctx, LS_ERR_DATA, "no class folders; found 1 files, 0 of them images",
                 "/<class>/<image>");
    touch(folder, "1.png");
    ck_assert_ptr_null(ls_image_folder_open(ctx, folder));
    expect_error(ctx, LS_ERR_DATA, "found 2 files, 1 of them images", folder);

    make_folder(path_in(folder, "cat"));
    ck_assert_ptr_null(ls_image_folder_open(ctx, folder));
    expect_error(ctx, LS_ERR_DATA, "class folder 'cat' is empty", "cat/<image>");
    touch(folder, "cat/1.png");
    make_folder(path_in(folder, "dog"));
    touch(folder, "dog/2.gif");
    touch(folder, "dog/1.tiff");
    ck_assert_ptr_null(ls_image_folder_open(ctx, folder));
    expect_error(ctx, LS_ERR_DATA,
                 "class folder 'dog' has no images that can be read, but 2 files such as '",
                 "dog/1.tiff'; ImageMagick converts TIFF: mogrify -format png ");
    make_folder(path_in(folder, "cow"));
    touch(folder, "cow/1.HEIC");
    touch(folder, "cow/a.txt");
    ck_assert_ptr_null(ls_image_folder_open(ctx, folder));
    expect_error(ctx, LS_ERR_DATA,
                 "class folder 'cow' has no images that can be read, but 1 file such as '",
                 "ImageMagick converts HEIC: mogrify -format jpg ");
    make_folder(path_in(folder, "ant"));
    touch(folder, "ant/a.txt");
    ck_assert_ptr_null(ls_image_folder_open(ctx, folder));
    expect_error(ctx, LS_ERR_DATA, "class folder 'ant' has no images; found 1 other files",
                 "ant/a.txt'; expected names that end in jpg");
    ck_assert_ptr_null(ls_image_folder_open(NULL, folder));
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

static void keep_message(void *user, ls_log_level level, ls_log_category category,
                         const char *message)
{
    (void)category;
    ck_assert_int_eq(level, LS_LOG_WARNING);
    snprintf(user, 1024, "%s", message);
}

START_TEST(suspicious_folders_are_warned_about)
{
    char *folder = make_folders((const char *[]){ "train", "train/a", NULL });
    touch(folder, "train/a/1.png");
    char message[1024] = "";
    ls_context *ctx =
        ls_context_open(&(ls_context_config){ .log = keep_message, .log_user = message });
    ls_dataset *one = ls_image_folder_open(ctx, path_in(folder, "train"));
    ck_assert_int_eq(ls_dataset_class_count(one), 1);
    ck_assert_ptr_nonnull(strstr(message, "one class only, 'a'"));
    make_folder(path_in(folder, "val"));
    touch(folder, "val/1.png");
    ls_dataset *wrong = ls_image_folder_open(ctx, folder);
    ck_assert_int_eq(ls_dataset_class_count(wrong), 2);
    ck_assert_ptr_nonnull(strstr(message, "called 'train' and 'val'"));
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

static void expect_warning(const char *dir, const char *wanted)
{
    ls_context *ctx = ls_context_open(NULL);
    char text[4096];
    snprintf(text, sizeof(text), "class folders, such as '%s', hold", wanted);
    ck_assert_ptr_nonnull(ls_image_folder_open(ctx, dir));
    ck_assert_int_eq(ls_context_warning_count(ctx), 1);
    ck_assert_msg(strstr(ls_context_warning(ctx, 0), text) != NULL, "'%s', wanted '%s'",
                  ls_context_warning(ctx, 0), text);
    snprintf(text, sizeof(text), "open '%s/%s' instead", dir, wanted);
    ck_assert_msg(strstr(ls_context_warning(ctx, 0), text) != NULL, "'%s', wanted '%s'",
                  ls_context_warning(ctx, 0), text);
    ls_context_close(&ctx);
}

/* A folder of a whole data set, and a pack of it, in a program without a log callback. */
START_TEST(one_level_too_high)
{
    char *folder = make_folders(
        (const char *[]){ "data", "data/train", "data/train/a", "data/train/b", NULL });
    static const char *const others[] = { NULL, "val", "validation", "test" };
    touch(folder, "data/train/a/1.png");
    touch(folder, "data/train/b/1.png");
    char dir[4096];
    snprintf(dir, sizeof(dir), "%s/data", folder);
    for (int i = 0; i < 4; i++) {
        if (others[i]) {
            make_folder(path_in(dir, "%s", others[i]));
            make_folder(path_in(dir, "%s/a", others[i]));
            write_file(path_in(dir, "%s/a/1.png", others[i]), "x", 1);
        }
        expect_warning(dir, "train");
    }
    ls_context *ctx = ls_context_open(NULL);
    const ls_pack_split split = { "", ls_image_folder_open(ctx, dir) };
    const uint8_t pixel[3] = { 1, 2, 3 };
    write_png(path_in(dir, "train/a/1.png"), 1, 1, 3, pixel);
    ls_pack_write(ctx, path_in(folder, "pack"), 1, &split,
                  &(ls_pack_config){ .on_bad_image = LS_BAD_IMAGE_SKIP }, NULL);
    expect_ok(ctx);
    ls_context_close(&ctx);
    expect_warning(path_in(folder, "pack"), "train");
    remove_folder(folder);
}
END_TEST

START_TEST(known_classes_keep_their_numbers)
{
    char *folder = make_folders((const char *[]){ "dog", "ant", NULL });
    touch(folder, "dog/1.png");
    touch(folder, "ant/1.png");
    ls_context *ctx = ls_context_open(NULL);
    const char *const classes[] = { "zebra", "dog", "cat", "ant" };
    ls_dataset *data = ls_image_folder_open_classes(ctx, folder, 4, classes);
    expect_ok(ctx);
    ck_assert_int_eq(ls_dataset_class_count(data), 4);
    for (int i = 0; i < 4; i++) ck_assert_str_eq(ls_dataset_class_name(data, i), classes[i]);
    expect_samples(data, folder, 2, (const char *[]){ "dog/1.png", "ant/1.png" }, (int[]){ 1, 3 });

    make_folder(path_in(folder, "bee"));
    touch(folder, "bee/1.png");
    ck_assert_ptr_null(ls_image_folder_open_classes(ctx, folder, 4, classes));
    expect_error(ctx, LS_ERR_MISMATCH, "class folder 'bee'", "'zebra', 'dog', 'cat', 'ant'");
    const char *const twice[] = { "dog", "ant", "bee", "dog" };
    ck_assert_ptr_null(ls_image_folder_open_classes(ctx, folder, 4, twice));
    expect_error(ctx, LS_ERR_INVALID, "'dog' is given twice");
    ck_assert_ptr_null(ls_image_folder_open_classes(ctx, folder, 0, classes));
    expect_error(ctx, LS_ERR_INVALID, "no classes");
    ck_assert_ptr_null(ls_image_folder_open_classes(ctx, folder, 4, NULL));
    expect_error(ctx, LS_ERR_INVALID, "no classes");
    const char *const hole[] = { "dog", NULL };
    ck_assert_ptr_null(ls_image_folder_open_classes(ctx, folder, 2, hole));
    expect_error(ctx, LS_ERR_INVALID, "NULL");
    ck_assert_ptr_null(ls_image_folder_open_classes(ctx, NULL, 4, classes));
    expect_error(ctx, LS_ERR_INVALID, "ls_image_folder_open_classes: no folder given");
    ck_assert_ptr_null(ls_image_folder_open(ctx, NULL));
    expect_error(ctx, LS_ERR_INVALID, "ls_image_folder_open: no folder given");
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

START_TEST(links_are_followed_but_not_in_circles)
{
    char *folder =
        make_folders((const char *[]){ "data", "data/a", "elsewhere", "elsewhere/sub", NULL });
    char *data_path = strdup(path_in(folder, "data"));
    touch(folder, "elsewhere/sub/2.png");
    touch(folder, "data/a/1.png");
    ck_assert_int_eq(symlink("../../elsewhere/sub", path_in(folder, "data/a/link")), 0);
    ck_assert_int_eq(symlink("../elsewhere", path_in(folder, "data/b")), 0);
    ck_assert_int_eq(symlink("1.png", path_in(folder, "data/a/3.png")), 0);
    ck_assert_int_eq(symlink("nowhere", path_in(folder, "data/a/4.png")), 0); /* bad, in its turn */
    ck_assert_int_eq(symlink("5.png", path_in(folder, "data/a/5.png")), 0);
    ck_assert_int_eq(symlink("nowhere", path_in(folder, "data/a/nothing")), 0);
    ls_context *ctx = ls_context_open(NULL);
    ls_dataset *data = ls_image_folder_open(ctx, data_path);
    expect_ok(ctx);
    expect_samples(data, data_path, 6,
                   (const char *[]){ "a/1.png", "a/3.png", "a/4.png", "a/5.png", "a/link/2.png",
                                     "b/sub/2.png" },
                   (int[]){ 0, 0, 0, 0, 0, 1 });
    ck_assert_int_eq(ls_dataset_ignored_count(data, NULL), 1);

    ck_assert_int_eq(symlink("../../a", path_in(folder, "elsewhere/sub/again")), 0);
    ck_assert_int_eq(symlink("..", path_in(folder, "data/a/up")), 0);
    ck_assert_ptr_null(ls_image_folder_open(ctx, data_path));
    expect_error(ctx, LS_ERR_DATA, "leads back to a folder above it", "data/");
    ls_context_close(&ctx);
    free(data_path);
    remove_folder(folder);
}
END_TEST

START_TEST(folders_may_be_deep_but_not_without_end)
{
    char *folder = new_folder(), path[4096];
    int n = snprintf(path, sizeof(path), "%s", folder);
    for (int i = 0; i < 80; i++) {
        n += snprintf(path + n, sizeof(path) - (size_t)n, "/d");
        make_folder(path);
        if (i == 30) write_file(path_in(path, "x.png"), "x", 1);
        if (i == 30 || i == 79) {
            ls_context *ctx = ls_context_open(NULL);
            ls_dataset *data = ls_image_folder_open(ctx, folder);
            if (i == 30)
                ck_assert_int_eq(ls_dataset_sample_count(data), 1);
            else
                expect_error(ctx, LS_ERR_UNSUPPORTED, "folders deep", folder);
            ls_context_close(&ctx);
        }
    }
    remove_folder(folder);
}
END_TEST

START_TEST(many_files_are_found)
{
    char *folder = make_folders((const char *[]){ "a", "b", NULL });
    for (int i = 0; i < 1500; i++)
        write_file(path_in(folder, "%s/%05d.png", i % 3 ? "a" : "b", i), "", 0);
    ls_context *ctx = ls_context_open(NULL);
    ls_dataset *data = ls_image_folder_open(ctx, folder);
    ck_assert_int_eq(ls_dataset_sample_count(data), 1500);
    for (int64_t i = 1; i < 1500; i++)
        ck_assert_int_lt(
            strcmp(ls_dataset_sample_path(data, i - 1), ls_dataset_sample_path(data, i)), 0);
    ck_assert_int_eq(ls_dataset_label(data, 999), 0);
    ck_assert_int_eq(ls_dataset_label(data, 1000), 1);
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

START_TEST(samples_in_memory_are_copied_and_checked)
{
    uint8_t images[2 * 3 * 4] = { 1, 2, 3 };
    int32_t labels[2] = { 1, 0 };
    ls_context *ctx = ls_context_open(NULL);
    ls_dataset *data = ls_dataset_from_memory(ctx, images, LS_SHAPE(2, 3, 4, 1), labels, 2);
    expect_ok(ctx);
    labels[0] = 0;
    ck_assert_int_eq(ls_dataset_sample_count(data), 2);
    ck_assert_int_eq(ls_dataset_label(data, 0), 1);
    ck_assert_str_eq(ls_dataset_class_name(data, 1), "1");
    ck_assert_ptr_null(ls_dataset_sample_path(data, 0));
    ck_assert_ptr_null(ls_dataset_from_memory(ctx, images, LS_SHAPE(2, 3, 4), labels, 2));
    expect_error(ctx, LS_ERR_SHAPE, "[2,3,4]", "[N,H,W,C]");
    ck_assert_ptr_null(ls_dataset_from_memory(ctx, images, LS_SHAPE(2, 3, 2, 2), labels, 2));
    expect_error(ctx, LS_ERR_SHAPE, "[2,3,2,2]", "C 1 or 3");
    ck_assert_ptr_null(ls_dataset_from_memory(ctx, images, LS_SHAPE(0, 3, 4, 1), labels, 2));
    expect_error(ctx, LS_ERR_SHAPE, "[0,3,4,1]");
    ck_assert_ptr_null(ls_dataset_from_memory(ctx, images, LS_SHAPE(2, 3, 4, 1), NULL, 2));
    expect_error(ctx, LS_ERR_INVALID, "labels");
    labels[1] = 2;
    ck_assert_ptr_null(ls_dataset_from_memory(ctx, images, LS_SHAPE(2, 3, 4, 1), labels, 2));
    expect_error(ctx, LS_ERR_DATA, "sample 1 has label 2", "0 to 1");
    ck_assert_ptr_null(ls_dataset_from_memory(ctx, images, LS_SHAPE(2, 3, 4, 1), labels, 0));
    expect_error(ctx, LS_ERR_INVALID, "0 classes");
    ls_context_close(&ctx);
}
END_TEST

START_TEST(null_data_sets_answer)
{
    const char *example;
    ck_assert_int_eq(ls_dataset_sample_count(NULL), 0);
    ck_assert_int_eq(ls_dataset_class_count(NULL), 0);
    ck_assert_int_eq(ls_dataset_label(NULL, 0), -1);
    ck_assert_int_eq(ls_dataset_ignored_count(NULL, &example), 0);
    ck_assert_str_eq(example, "");
    ck_assert_ptr_null(ls_dataset_class_name(NULL, 0));
    ck_assert_ptr_null(ls_dataset_sample_path(NULL, 0));
    ls_dataset *none = NULL;
    ls_dataset_close(&none);
    ls_dataset_close(NULL);
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    char *folder = make_folders((const char *[]){ "a", "b", "a/c", NULL });
    static const char *const files[] = { "a/1.png", "a/c/2.png", "b/1.png", "b/x.txt", "b/a.txt" };
    for (int i = 0; i < 5; i++) touch(folder, files[i]);
    const char *const classes[] = { "b", "a" };
    const uint8_t images[12] = { 0 };
    const int32_t labels[4] = { 0, 1, 2, 0 };
    for (int kind = 0; kind < 3; kind++) {
        for (int64_t n = 1;; n++) {
            failing_allocator a;
            failing_allocator_init(&a, n);
            ls_context *ctx =
                ls_context_open(&(ls_context_config){ .allocator = &a.allocator, .threads = 1 });
            if (ctx && ls_context_status(ctx) == LS_OK) {
                ls_dataset *data =
                    kind == 0 ? ls_image_folder_open(ctx, folder)
                    : kind == 1
                        ? ls_image_folder_open_classes(ctx, folder, 2, classes)
                        : ls_dataset_from_memory(ctx, images, LS_SHAPE(4, 1, 3, 1), labels, 3);
                if (failing_allocator_failed(&a)) {
                    ck_assert_ptr_null(data);
                    expect_error(ctx, LS_ERR_MEMORY, "");
                } else {
                    ck_assert_ptr_nonnull(data);
                }
            }
            ls_context_close(&ctx);
            ck_assert_int_eq(failing_allocator_live(&a), 0);
            if (!failing_allocator_failed(&a)) break;
        }
    }
    remove_folder(folder);
}
END_TEST

TEST_PROGRAM(image_folder)
{
    return RUN_SUITE(
        "image_folder", classes_and_samples_are_sorted_by_bytes, names_may_hold_any_bytes,
        wrong_folders_say_what_was_found, suspicious_folders_are_warned_about, one_level_too_high,
        known_classes_keep_their_numbers, links_are_followed_but_not_in_circles,
        folders_may_be_deep_but_not_without_end, many_files_are_found,
        samples_in_memory_are_copied_and_checked, null_data_sets_answer, every_allocation_may_fail);
}
