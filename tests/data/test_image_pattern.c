/* test_image_pattern.c: folders of images whose classes are in their names. */
#include "../suite.h"
#include "support.h"
#include <stdio.h>
#include <string.h>

static char *make_files(const char *const *names)
{
    char *folder = new_folder();
    make_folder(path_in(folder, "sub"));
    for (; *names; names++) write_file(path_in(folder, "%s", *names), "", 0);
    return folder;
}

static void expect_listing(const ls_dataset *data, const char *folder, const char *wanted)
{
    char text[1024] = "";
    for (int64_t i = 0; i < ls_dataset_sample_count(data); i++)
        sprintf(text + strlen(text), "%s=%s ", ls_dataset_sample_path(data, i) + strlen(folder) + 1,
                ls_dataset_class_name(data, ls_dataset_label(data, i)));
    ck_assert_str_eq(text, wanted);
}

START_TEST(classes_in_names)
{
    static const struct {
        const char *names[8], *pattern, *listing, *first;
    } cases[] = {
        { { "dog.1.jpg", "cat.10.jpg", "cat.2.jpg", "note.txt" },
          "^([a-z]+)[.]",
          "cat.10.jpg=cat cat.2.jpg=cat dog.1.jpg=dog ",
          "cat" },
        { { "American_bulldog_1.jpg", "beagle_32.png", "sub/beagle_4.jpg" },
          "([^/]+)_[0-9]+[.]",
          "American_bulldog_1.jpg=American_bulldog beagle_32.png=beagle sub/beagle_4.jpg=beagle ",
          "American_bulldog" },
        { { "7_10.png", "8_9.png" }, "_([0-9]+)", "7_10.png=10 8_9.png=9 ", "9" }, /* by value */
        { { "img_1.jpg", "sub/img_1.jpg" },
          "(sub/i|i)mg",
          "img_1.jpg=i sub/img_1.jpg=sub/i ",
          "i" },
        { { "gr\xc3\xbcn-1.jpg", "rot-1.jpg" },
          "^(.*)-",
          "gr\xc3\xbcn-1.jpg=gr\xc3\xbcn rot-1.jpg=rot ",
          "gr\xc3\xbcn" },
    };
    ls_context *ctx = ls_context_open(NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *folder = make_files(cases[i].names);
        ls_dataset *data =
            ls_image_pattern_open(ctx, path_in(folder, "/"), cases[i].pattern, 0, NULL);
        expect_ok(ctx);
        expect_listing(data, folder, cases[i].listing);
        ck_assert_str_eq(ls_dataset_class_name(data, 0), cases[i].first);
        remove_folder(folder);
    }
    ls_context_close(&ctx);
}
END_TEST

START_TEST(given_classes_and_mistakes)
{
    char *folder = make_files((const char *[]){ "cat.1.jpg", "dog.1.jpg", "x.jpg", NULL });
    const char *const classes[] = { "fox", "dog", "cat" };
    const char *const pattern = "([a-z]+)[.][0-9]";
    ls_context *ctx = ls_context_open(NULL);
    expect_failure(ls_image_pattern_open(ctx, folder, pattern, 0, NULL) ? LS_OK : LS_ERR_DATA, ctx,
                   LS_ERR_DATA, "does not match the paths of 1 of 3 images, such as 'x.jpg'");
    remove(path_in(folder, "x.jpg"));
    ls_dataset *data = ls_image_pattern_open(ctx, folder, pattern, 3, classes);
    expect_listing(data, folder, "cat.1.jpg=cat dog.1.jpg=dog ");
    ck_assert_int_eq(ls_dataset_label(data, 0), 2);
    ck_assert_ptr_null(ls_image_pattern_open(ctx, folder, pattern, 2, classes));
    expect_error(ctx, LS_ERR_MISMATCH, "'cat' is not among the 2 known classes", "cat.1.jpg");
    ck_assert_ptr_null(ls_image_pattern_open(ctx, folder, "(", 0, NULL));
    expect_error(ctx, LS_ERR_INVALID, "no regular expression", "");
    /* Compiling these would take the whole stack or all memory. */
    char nested[2048] = "";
    memset(nested, '(', 1000);
    const char *const large[] = { nested, "(a{255}{255}{255})", "(a{1,99999999999999999999})" };
    for (int i = 0; i < 3; i++) {
        ck_assert_ptr_null(ls_image_pattern_open(ctx, folder, large[i], 0, NULL));
        expect_error(ctx, LS_ERR_INVALID, "or has more than 100 groups", "");
    }
    ck_assert_ptr_null(ls_image_pattern_open(ctx, folder, NULL, 0, NULL));
    expect_error(ctx, LS_ERR_INVALID, "no pattern given", "");
    ck_assert_ptr_null(ls_image_pattern_open(ctx, path_in(folder, "sub"), pattern, 0, NULL));
    expect_error(ctx, LS_ERR_DATA, "no images at any depth", "");
    ck_assert_ptr_null(ls_image_pattern_open(ctx, path_in(folder, "none"), pattern, 0, NULL));
    expect_error(ctx, LS_ERR_NOT_FOUND, "none", "");
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

static bool open_files(ls_context *ctx, void *folder)
{
    return ls_image_pattern_open(ctx, folder, "([a-z]+)", 0, NULL) != NULL;
}

START_TEST(every_allocation_may_fail)
{
    char *folder = make_files((const char *[]){ "cat.1.jpg", "dog.1.jpg", "a.txt", NULL });
    fail_each_allocation(open_files, folder);
    remove_folder(folder);
}
END_TEST

TEST_PROGRAM(image_pattern)
{
    return RUN_SUITE("image_pattern", classes_in_names, given_classes_and_mistakes,
                     every_allocation_may_fail);
}
