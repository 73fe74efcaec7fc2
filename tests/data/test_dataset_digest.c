/* test_dataset_digest.c: what makes two data sets the same. */
#include "../failing_allocator.h"
#include "../suite.h"
#include "support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *make_data(void)
{
    char *folder = new_folder();
    make_folder(path_in(folder, "a"));
    make_folder(path_in(folder, "b"));
    write_file(path_in(folder, "a/1.png"), "one", 3);
    write_file(path_in(folder, "a/2.png"), "four", 4);
    write_file(path_in(folder, "b/1.png"), "five!", 5);
    return folder;
}

static ls_digest digest_folder(const char *folder, bool contents)
{
    ls_digest out, again;
    ls_context *ctx = ls_context_open(NULL);
    ls_dataset *data = ls_image_folder_open(ctx, folder);
    ck_assert_int_eq(ls_dataset_digest(data, contents, &out), LS_OK);
    ck_assert_int_eq(ls_dataset_digest(data, false, &again), LS_OK);
    ck_assert(ls_digest_equal(out, again)); /* that of contents stays */
    expect_ok(ctx);
    ls_context_close(&ctx);
    return out;
}

/* Whether a change of the folder changes the digest of paths and sizes, and that of contents. */
static void expect_change(const char *folder, const ls_digest before[2], bool names, bool contents)
{
    ck_assert(ls_digest_equal(digest_folder(folder, false), before[0]) != names);
    ck_assert(ls_digest_equal(digest_folder(folder, true), before[1]) != contents);
}

START_TEST(paths_sizes_and_contents_count)
{
    char *folder = make_data(), *copy = make_data();
    const ls_digest before[2] = { digest_folder(folder, false), digest_folder(folder, true) };
    ck_assert(!ls_digest_equal(before[0], before[1]));
    expect_change(copy, before, false, false); /* wherever the folder is */

    write_file(path_in(folder, "a/1.png"), "two", 3);
    expect_change(folder, before, false, true);
    write_file(path_in(folder, "a/1.png"), "three", 5);
    expect_change(folder, before, true, true);
    write_file(path_in(folder, "a/1.png"), "one", 3);
    expect_change(folder, before, false, false);

    ck_assert_int_eq(rename(path_in(folder, "a/1.png"), path_in(folder, "a/0.png")), 0);
    expect_change(folder, before, true, true);
    ck_assert_int_eq(rename(path_in(folder, "a/0.png"), path_in(folder, "b/0.png")), 0);
    expect_change(folder, before, true, true);
    write_file(path_in(folder, "a/1.png"), "one", 3);
    expect_change(folder, before, true, true); /* one sample more */
    remove_folder(folder);
    remove_folder(copy);
}
END_TEST

START_TEST(missing_files_count)
{
    char *folder = make_data();
    const char *const paths[] = { path_in(folder, "a/1.png"), path_in(folder, "gone.png") };
    ls_context *ctx = ls_context_open(NULL);
    ls_digest digests[3];
    for (int i = 0; i < 3; i++) {
        if (i == 2) write_file(paths[1], "here", 4);
        ls_dataset *data = ls_image_list_open(ctx, 2, paths, NULL, 0);
        ck_assert_int_eq(ls_dataset_digest(data, i > 0, &digests[i]), LS_OK);
    }
    for (int i = 0; i < 3; i++) ck_assert(!ls_digest_equal(digests[i], digests[(i + 1) % 3]));
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

START_TEST(memory_counts_by_pixels)
{
    ls_context *ctx = ls_context_open(NULL);
    uint8_t pixels[2 * 12] = { 1, 2, 3 };
    const int32_t labels[][2] = { { 0, 1 }, { 1, 0 } };
    ls_digest digests[4];
    for (int i = 0; i < 4; i++) {
        if (i == 3) pixels[23] = 1;
        const ls_shape shape = i < 2 ? LS_SHAPE(2, 2, 2, 3) : LS_SHAPE(2, 1, 4, 3);
        ls_dataset *data = ls_dataset_from_memory(ctx, pixels, shape, labels[i == 1], 2);
        ck_assert_int_eq(ls_dataset_digest(data, false, &digests[i]), LS_OK);
        for (int j = 0; j < i; j++) ck_assert(!ls_digest_equal(digests[i], digests[j]));
    }
    ls_context_close(&ctx);
}
END_TEST

START_TEST(mistakes)
{
    char *folder = make_data();
    ls_digest out;
    ck_assert_int_eq(ls_dataset_digest(NULL, false, &out), LS_ERR_EARLIER);
    failing_allocator a;
    failing_allocator_init(&a, 0);
    ls_context *ctx = ls_context_open(&(ls_context_config){ .allocator = &a.allocator });
    ls_dataset *data = ls_image_folder_open(ctx, folder);
    ck_assert_int_eq(ls_dataset_digest(data, false, NULL), LS_ERR_INVALID);
    expect_error(ctx, LS_ERR_INVALID, "ls_dataset_digest", "NULL");
    a.fail_at = atomic_load(&a.n_requests) + 1;
    ck_assert_int_eq(ls_dataset_digest(data, true, &out), LS_ERR_MEMORY);
    expect_error(ctx, LS_ERR_MEMORY, "a/1.png");
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

TEST_PROGRAM(dataset_digest)
{
    return RUN_SUITE("dataset_digest", paths_sizes_and_contents_count, missing_files_count,
                     memory_counts_by_pixels, mistakes);
}
