/* test_split_groups.c: samples that stay on one side when a dataset is divided. */
#include "../suite.h"
#include "support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Splits, and returns how many validation samples have a training sample whose file's name begins
 * with the same `length` bytes. */
static int count_shared(ls_dataset *data, double fraction, uint64_t seed, int64_t *n_val,
                        size_t length)
{
    ls_dataset *train, *val;
    int n = 0;
    ck_assert_int_eq(ls_dataset_split(data, fraction, seed, &train, &val), LS_OK);
    *n_val = ls_dataset_sample_count(val);
    for (int64_t i = 0; i < *n_val; i++)
        for (int64_t k = 0; k < ls_dataset_sample_count(train); k++) {
            const char *a = strrchr(ls_dataset_sample_path(val, i), '/') + 1;
            const char *b = strrchr(ls_dataset_sample_path(train, k), '/') + 1;
            if (strncmp(a, b, length) != 0) continue;
            n++;
            break;
        }
    ls_dataset_close(&train);
    ls_dataset_close(&val);
    return n;
}

/* One image in several rows, by several spellings, is counted once and stays on one side. */
START_TEST(rows_of_one_image)
{
    char *folder = new_folder(), list[8192] = "path,label\n", real[512];
    ck_assert_ptr_nonnull(realpath(folder, real));
    make_folder(path_in(folder, "links"));
    for (int i = 0; i < 16; i++) {
        write_file(path_in(folder, "a%02d.png", i), "", 0);
        char line[1024];
        snprintf(line, sizeof(line), "a%02d.png,a\n%s%s/a%02d.png,a\n", i,
                 i % 2 ? "./links/../" : "", i % 2 ? "." : real, i);
        strcat(list, line);
    }
    for (int i = 0; i < 3; i++) {
        char line[256], target[64];
        write_file(path_in(folder, "b%02d.png", i), "", 0);
        snprintf(target, sizeof(target), "../b%02d.png", i);
        ck_assert_int_eq(symlink(target, path_in(folder, "links/b%02d.png", i)), 0);
        snprintf(line, sizeof(line), "b%02d.png,b\nb%02d.png,b\nlinks/b%02d.png,b\n", i, i, i);
        strcat(list, line);
    }
    write_text(path_in(folder, "list.csv"), list);
    ls_context *ctx = ls_context_open(NULL);
    ls_dataset *data = ls_csv_open(ctx, path_in(folder, "list.csv"), 0, NULL);
    expect_ok(ctx);
    for (uint64_t seed = 0; seed < 20; seed++) {
        int64_t n_val;
        ck_assert_int_eq(count_shared(data, 0.2, seed, &n_val, 7), 0);
        ck_assert_int_eq(n_val, 2 * 3 + 3); /* 3.2 images of 16, 0.6 of 3 */
    }
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

/* Without repeats and groups, the choice is that of earlier versions. */
START_TEST(choice_of_single_images)
{
    char *folder = new_folder();
    for (int c = 0; c < 3; c++) {
        make_folder(path_in(folder, "%c", 'a' + c));
        for (int i = 0; i < 9 + 13 * c; i++)
            write_file(path_in(folder, "%c/%02d.png", 'a' + c, i), "", 0);
    }
    ls_context *ctx = ls_context_open(NULL);
    static const struct {
        double fraction;
        uint64_t seed;
        const char *digest;
    } cases[] = {
        { 0.2, 0, "d79c53100f635e96581461af39df2ea3" },
        { 0.2, 12345, "d54489157938c4339eb55427b009d54b" },
        { 0.01, 12345, "784296d4c0490fc5fa36fb900596716c" },
        { 0.5, 98760, "b2b290acd3afb1bf05d22f3881afb143" },
        { 0.99, 12345, "d041529a7e6063b1b7e2dcf0a18edcb3" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ls_dataset *data = ls_image_folder_open(ctx, folder), *train, *val;
        ls_digest digest;
        char text[LS_DIGEST_TEXT_SIZE];
        ck_assert_int_eq(ls_dataset_split(data, cases[i].fraction, cases[i].seed, &train, &val),
                         LS_OK);
        ck_assert_int_eq(ls_dataset_digest(val, false, &digest), LS_OK);
        ck_assert_str_eq(ls_digest_text(digest, text), cases[i].digest);
    }
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

/* 12 patients with 1 to 6 images, most of class a; every fourth one of both classes. */
static char *make_patients(void)
{
    char *folder = new_folder();
    make_folder(path_in(folder, "a"));
    make_folder(path_in(folder, "b"));
    for (int p = 0; p < 24; p++)
        for (int i = 0; i <= p % 6; i++) {
            const char class = p % 4 == 0 ? "ab"[i % 2] : p % 4 == 1 ? 'b' : 'a';
            write_file(path_in(folder, "%c/p%02d_%d.png", class, p, i), "", 0);
        }
    return folder;
}

START_TEST(groups_stay_together)
{
    char *folder = make_patients();
    ls_context *ctx = ls_context_open(NULL);
    ls_dataset *data = ls_image_folder_open(ctx, folder);
    ck_assert_int_eq(ls_dataset_group_by_pattern(data, "/(p[0-9]+)_"), LS_OK);
    int64_t sizes[2], chosen[2], n_val;
    ck_assert_int_eq(ls_dataset_class_sizes(data, sizes), LS_OK);
    for (uint64_t seed = 0; seed < 20; seed++) {
        ck_assert_int_eq(count_shared(data, 0.25, seed, &n_val, 3), 0);
        ls_dataset *train, *val;
        ck_assert_int_eq(ls_dataset_split(data, 0.25, seed, &train, &val), LS_OK);
        ck_assert_int_eq(ls_dataset_class_sizes(val, chosen), LS_OK);
        for (int c = 0; c < 2; c++) { /* as near to a fourth as groups of up to 6 images allow */
            ck_assert_int_gt(chosen[c], 0);
            ck_assert(llabs(4 * chosen[c] - sizes[c]) <= 16);
        }
        ls_dataset_close(&train);
        ls_dataset_close(&val);
    }
    /* the same groups by a column of a list in another order */
    char list[8192] = "who,path,label\n";
    for (int64_t i = ls_dataset_sample_count(data) - 1; i >= 0; i--) {
        const char *name = ls_dataset_sample_path(data, i) + strlen(folder) + 1;
        sprintf(list + strlen(list), "%.3s,%s,%c\n", name + 2, name, *name);
    }
    write_text(path_in(folder, "list.csv"), list);
    ls_dataset *other = ls_csv_open_config(ctx, path_in(folder, "list.csv"),
                                           &(ls_csv_config){ .group_column = "Who" });
    ls_dataset *train[2], *val[2];
    ck_assert_int_eq(ls_dataset_split(data, 0.25, 7, &train[0], &val[0]), LS_OK);
    ck_assert_int_eq(ls_dataset_split(other, 0.25, 7, &train[1], &val[1]), LS_OK);
    ck_assert_int_eq(ls_dataset_sample_count(val[0]), ls_dataset_sample_count(val[1]));
    for (int64_t i = 0; i < ls_dataset_sample_count(val[0]); i++) {
        bool found = false;
        for (int64_t k = 0; k < ls_dataset_sample_count(val[1]); k++)
            found |=
                strcmp(ls_dataset_sample_path(val[0], i), ls_dataset_sample_path(val[1], k)) == 0;
        ck_assert(found);
    }
    expect_ok(ctx);
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

/* Two groups of 9 and 11 images; a class in one group; an image in two groups joins them. */
START_TEST(large_groups)
{
    char *folder = new_folder(), list[4096] = "path,label,g\n";
    for (int i = 0; i < 20; i++)
        sprintf(list + strlen(list), "a%02d.png,a,%s\n", i, i < 9 ? "one" : "two");
    strcat(list, "b0.png,b,two\nb1.png,b,two\nc0.png,c,\n"); /* no group */
    write_text(path_in(folder, "list.csv"), list);
    const ls_csv_config config = { .group_column = "3" };
    ls_context *ctx = ls_context_open(NULL);
    ls_dataset *data = ls_csv_open_config(ctx, path_in(folder, "list.csv"), &config), *train, *val;
    ck_assert_int_eq(ls_dataset_split(data, 0.1, 0, &train, &val), LS_OK);
    ck_assert_int_eq(ls_dataset_sample_count(val), 9); /* "two" has all images of b */
    ck_assert(strstr(ls_context_warning(ctx, 0), "classes with one sample: 1, such as 'c'"));
    ck_assert(strstr(ls_context_warning(ctx, 1), "1, such as 'b'"));
    strcat(list, "a00.png,a,two\n");
    write_text(path_in(folder, "list.csv"), list);
    data = ls_csv_open_config(ctx, path_in(folder, "list.csv"), &config);
    expect_failure(ls_dataset_split(data, 0.1, 0, &train, &val), ctx, LS_ERR_DATA,
                   "no class has two groups", "24 samples in 2 groups");
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

/* Which of 8 images, each in two groups and in a row without one, are for validation. The rows of
 * an image begin with its `first`-th one. */
static unsigned choose_images(ls_context *ctx, const char *path, int first, uint64_t seed)
{
    char list[1024] = "path,label,g\n";
    for (int i = 0; i < 8; i++)
        for (int k = 0; k < 3; k++) {
            sprintf(list + strlen(list), "%d.png,x,", i);
            const int row = (first + k) % 3;
            if (row > 0) sprintf(list + strlen(list), "%c%d", "-ab"[row], i);
            strcat(list, "\n");
        }
    write_text(path, list);
    unsigned chosen = 0;
    ls_dataset *train, *val,
        *data = ls_csv_open_config(ctx, path, &(ls_csv_config){ .group_column = "g" });
    ck_assert_int_eq(ls_dataset_split(data, 0.5, seed, &train, &val), LS_OK);
    ck_assert_int_eq(ls_dataset_sample_count(val), 4 * 3);
    for (int64_t i = 0; i < ls_dataset_sample_count(val); i++)
        chosen |= 1u << (strrchr(ls_dataset_sample_path(val, i), '/')[1] - '0');
    ls_dataset_close(&train);
    ls_dataset_close(&val);
    ls_dataset_close(&data);
    return chosen;
}

START_TEST(order_of_joined_groups)
{
    char *folder = new_folder();
    ls_context *ctx = ls_context_open(NULL);
    const char *const path = path_in(folder, "list.csv");
    for (uint64_t seed = 0; seed < 20; seed++) {
        const unsigned chosen = choose_images(ctx, path, 0, seed);
        for (int first = 1; first < 3; first++)
            ck_assert_uint_eq(choose_images(ctx, path, first, seed), chosen);
    }
    expect_ok(ctx);
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

/* A path that can't be resolved may lead to the image of another one. */
START_TEST(unresolved_paths)
{
    char *folder = new_folder(), list[1024] = "a.png,x\nnone.png,x\nno/folder.png,x\nloop.png,x\n";
    write_file(path_in(folder, "a.png"), "", 0);
    ck_assert_int_eq(symlink("loop.png", path_in(folder, "loop.png")), 0);
    write_text(path_in(folder, "list.csv"), list);
    ls_context *ctx = ls_context_open(NULL);
    ls_dataset *train, *val;
    ls_dataset *data = ls_csv_open(ctx, path_in(folder, "list.csv"), 0, NULL);
    ck_assert_int_eq(ls_dataset_split(data, 0.5, 0, &train, &val), LS_OK);
    sprintf(list + strlen(list), "%0300d.png,x\n", 1);
    write_text(path_in(folder, "list.csv"), list);
    data = ls_csv_open(ctx, path_in(folder, "list.csv"), 0, NULL);
    expect_failure(ls_dataset_split(data, 0.5, 0, &train, &val), ctx, LS_ERR_IO, "ls_dataset_split",
                   "/0000", "File name too long");
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

START_TEST(unusable_patterns)
{
    char *folder = make_patients();
    ls_context *ctx = ls_context_open(NULL);
    ls_dataset *data = ls_image_folder_open(ctx, folder), *train, *val;
    static const struct {
        const char *pattern, *reason;
        ls_status status;
    } cases[] = { { "p[0-9", "no regular expression", LS_ERR_INVALID },
                  { "p[0-9]+", "0 groups, expected one", LS_ERR_INVALID },
                  { "(p)([0-9]+)", "2 groups, expected one", LS_ERR_INVALID },
                  { "(p1[0-9])_", "does not match the paths of", LS_ERR_DATA },
                  { "p(x*)", "such as 'a/p00_0.png'", LS_ERR_DATA } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_int_eq(ls_dataset_group_by_pattern(data, cases[i].pattern), cases[i].status);
        expect_error(ctx, cases[i].status, cases[i].reason, cases[i].pattern);
    }
    ck_assert_int_eq(ls_dataset_split(data, 0.5, 0, &train, &val), LS_OK);
    ck_assert_int_eq(ls_dataset_group_by_pattern(val, "(p)"), LS_ERR_INVALID);
    expect_error(ctx, LS_ERR_INVALID, "a split of another one", "");
    ck_assert_int_eq(ls_dataset_group_by_pattern(data, NULL), LS_ERR_INVALID);
    expect_error(ctx, LS_ERR_INVALID, "pattern is NULL", "");
    const uint8_t pixel = 0;
    const int32_t label = 0;
    data = ls_dataset_from_memory(ctx, &pixel, LS_SHAPE(1, 1, 1, 1), &label, 1);
    ck_assert_int_eq(ls_dataset_group_by_pattern(data, "(p)"), LS_ERR_INVALID);
    expect_error(ctx, LS_ERR_INVALID, "have no paths", "");
    ck_assert_int_eq(ls_dataset_group_by_pattern(NULL, "(p)"), LS_ERR_EARLIER);
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

static bool split_list(ls_context *ctx, void *path)
{
    ls_dataset *train, *val, *data = ls_csv_open(ctx, path, 0, NULL);
    ls_dataset_group_by_pattern(data, "/(.)[^/]*$");
    ls_dataset_split(data, 0.3, 0, &train, &val);
    return val != NULL;
}

START_TEST(every_allocation_may_fail)
{
    char *folder = new_folder();
    write_text(path_in(folder, "list.csv"),
               "x/1.png,a\nx/2.png,a\nx/1.png,a\nx/3.png,b\nx/4.png,b\n");
    fail_each_allocation(split_list, (void *)path_in(folder, "list.csv"));
    remove_folder(folder);
}
END_TEST

TEST_PROGRAM(split_groups)
{
    return RUN_SUITE("split_groups", rows_of_one_image, choice_of_single_images,
                     groups_stay_together, large_groups, order_of_joined_groups, unresolved_paths,
                     unusable_patterns, every_allocation_may_fail);
}
