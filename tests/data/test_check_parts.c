/* test_check_parts.c: ls_dataset_check_parts: lists, and files with classes in their names. */
#include "../suite.h"
#include "support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void write_image(const char *path, unsigned seed)
{
    uint8_t *pixels = draw_image(20, 20, 3, seed);
    write_png(path, 20, 20, 3, pixels);
    free(pixels);
}

/* "kind:path:reason;" of each finding. */
static const char *findings_of(const ls_dataset_report *report, const char *folder, char text[2048])
{
    text[0] = '\0';
    for (int64_t i = 0; i < ls_dataset_report_finding_count(report); i++) {
        const ls_finding f = ls_dataset_report_finding_at(report, i);
        const bool below = strncmp(f.path, folder, strlen(folder)) == 0;
        sprintf(text + strlen(text), "%s:%s:%s;", ls_finding_name(f.kind),
                below ? f.path + strlen(folder) + 1 : f.path, f.reason);
    }
    return text;
}

START_TEST(parts_of_lists)
{
    char *folder = new_folder(), text[2048];
    for (unsigned i = 0; i < 6; i++) write_image(path_in(folder, "%u.png", i), i);
    write_text(path_in(folder, "train.csv"),
               "0.png,a\n1.png,b\n2.png,c\n0.png,a\n./1.png,a\nnone.png,a\n");
    write_text(path_in(folder, "val.csv"), "3.png,a\n2.png,c\n4.png,d\n");
    ls_context *ctx = ls_context_open(NULL);
    const ls_check_part parts[] = {
        { "train", ls_csv_open(ctx, path_in(folder, "train.csv"), 0, NULL) },
        { "val", ls_csv_open(ctx, path_in(folder, "val.csv"), 0, NULL) },
    };
    for (int workers = 0; workers <= 2; workers += 2) {
        const ls_dataset_check_config config = { .workers = workers };
        ls_dataset_report *report = ls_dataset_check_parts(ctx, 2, parts, &config);
        expect_ok(ctx);
        ck_assert_str_eq(findings_of(report, folder, text),
                         "no-validation:val:no image of class 'b'; 'train' has 1;"
                         "no-training:train:no image of class 'd'; 'val' has 1;"
                         "unreadable:none.png:No such file or directory;"
                         "leak:2.png:also in class 'c' of 'train';"
                         "ambiguous:1.png:also in class 'a' of 'train';");
        const ls_dataset_summary summary = ls_dataset_report_summary(report);
        ck_assert_int_eq(summary.n_images, 8); /* a row that is repeated counts once */
        ck_assert_int_eq(summary.n_readable, 7);
        ck_assert_int_eq(ls_dataset_report_class_count(report), 6);
        ck_assert_int_eq(ls_dataset_report_folder_count(report), 0);
        ls_dataset_report_close(&report);
    }
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

/* A group of the first part is found in each later one; an empty field is no group. */
START_TEST(groups_in_two_parts)
{
    char *folder = new_folder(), text[2048];
    for (unsigned i = 0; i < 6; i++) write_image(path_in(folder, "%u.png", i), i);
    write_text(path_in(folder, "train.csv"), "path,label,who\n0.png,a,p1\n1.png,a,p1\n2.png,a,\n");
    write_text(path_in(folder, "val.csv"), "path,label,who\n3.png,a,p1\n4.png,a,p2\n5.png,a,\n");
    ls_context *ctx = ls_context_open(NULL);
    const ls_csv_config grouped = { .group_column = "who" };
    const ls_check_part parts[] = {
        { "train", ls_csv_open_config(ctx, path_in(folder, "train.csv"), &grouped) },
        { "val", ls_csv_open_config(ctx, path_in(folder, "val.csv"), &grouped) },
    };
    ls_dataset_report *report = ls_dataset_check_parts(ctx, 2, parts, NULL);
    expect_ok(ctx);
    ck_assert_str_eq(findings_of(report, folder, text),
                     "group-leak:3.png:group 'p1': 1 in 'val', 2 in 'train';");
    ls_shared_groups shared;
    ck_assert_int_eq(ls_dataset_shared_groups(parts[0].dataset, parts[1].dataset, &shared), LS_OK);
    ck_assert_int_eq(shared.n_groups, 1);
    ck_assert_int_eq(shared.n_samples, 1);
    ck_assert_str_eq(shared.example, "p1");
    ck_assert_int_eq(ls_dataset_shared_groups(parts[1].dataset, parts[0].dataset, &shared), LS_OK);
    ck_assert_int_eq(shared.n_samples, 2);
    ck_assert_int_eq(ls_dataset_shared_groups(parts[0].dataset, parts[1].dataset, NULL),
                     LS_ERR_INVALID);
    expect_error(ctx, LS_ERR_INVALID, "out is NULL", "");
    ls_context *other = ls_context_open(NULL);
    ls_dataset *there = ls_csv_open(other, path_in(folder, "val.csv"), 0, NULL);
    ck_assert_int_eq(ls_dataset_shared_groups(parts[0].dataset, there, &shared), LS_ERR_MISMATCH);
    expect_error(ctx, LS_ERR_MISMATCH, "one context", "");
    ls_context_close(&other);
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

/* Class folders, by a pattern in the paths below each split. */
START_TEST(groups_in_folders)
{
    char *folder = new_folder(), text[2048];
    static const char *const images[] = { "train/a/p1_0.png", "train/a/p2_1.png",
                                          "train/b/p3_2.png", "val/a/p2_3.png",
                                          "val/a/p2_4.png",   "val/b/p4_5.png" };
    for (int i = 0; i < 4; i++)
        make_folder(path_in(folder, "%s",
                            (const char *const[]){ "train", "val", "train/a", "train/b" }[i]));
    for (int i = 0; i < 2; i++) make_folder(path_in(folder, "val/%c", 'a' + i));
    for (unsigned i = 0; i < 6; i++) write_image(path_in(folder, "%s", images[i]), i);
    ls_context *ctx = ls_context_open(NULL);
    ls_dataset_check_config config = { .group_pattern = "/(p[0-9])_" };
    ls_dataset_report *report = ls_dataset_check(ctx, folder, &config);
    expect_ok(ctx);
    ck_assert_str_eq(findings_of(report, folder, text),
                     "group-leak:val/a/p2_3.png:group 'p2': 2 in 'val', 1 in 'train';");
    ck_assert_str_eq(ls_dataset_report_finding_at(report, 0).other, "train/a/p2_1.png");
    config.group_pattern = "(q)";
    ck_assert_ptr_null(ls_dataset_check(ctx, folder, &config));
    expect_error(ctx, LS_ERR_DATA, "group_pattern", "6 of 6 images");
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

START_TEST(files_and_mistakes)
{
    char *folder = new_folder(), text[2048];
    for (unsigned i = 0; i < 4; i++) write_image(path_in(folder, "%c%u.png", 'a' + i % 2, i), i);
    ls_context *ctx = ls_context_open(NULL);
    ls_check_part part = { "", ls_image_pattern_open(ctx, folder, "([a-z])[0-9]", 0, NULL) };
    ls_dataset_report *report = ls_dataset_check_parts(ctx, 1, &part, NULL);
    ck_assert_str_eq(findings_of(report, folder, text), "");
    ck_assert_int_eq(ls_dataset_report_class_count(report), 2);
    ck_assert_ptr_null(ls_dataset_check_parts(ctx, 0, &part, NULL));
    expect_error(ctx, LS_ERR_INVALID, "n is 0, expected 1 to 16", "");
    ck_assert_ptr_null(ls_dataset_check_parts(ctx, 1, NULL, NULL));
    expect_error(ctx, LS_ERR_INVALID, "with parts", "");
    ck_assert_ptr_null(
        ls_dataset_check_parts(ctx, 1, &(ls_check_part){ NULL, part.dataset }, NULL));
    expect_error(ctx, LS_ERR_INVALID, "part 0: split is NULL", "");
    ck_assert_ptr_null(ls_dataset_check_parts(ctx, 1, &(ls_check_part){ "", NULL }, NULL));
    expect_error(ctx, LS_ERR_INVALID, "part 0: dataset is NULL", "");
    const uint8_t pixel = 0;
    const int32_t label = 0;
    part.dataset = ls_dataset_from_memory(ctx, &pixel, LS_SHAPE(1, 1, 1, 1), &label, 1);
    ck_assert_ptr_null(ls_dataset_check_parts(ctx, 1, &part, NULL));
    expect_error(ctx, LS_ERR_INVALID, "samples without paths", "");
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

static bool check_list(ls_context *ctx, void *path)
{
    ls_check_part part = { "", ls_csv_open(ctx, path, 0, NULL) };
    if (!part.dataset) return false;
    return ls_dataset_check_parts(ctx, 1, &part, NULL) != NULL;
}

START_TEST(every_allocation_may_fail)
{
    char *folder = new_folder();
    write_image(path_in(folder, "0.png"), 0);
    write_text(path_in(folder, "list.csv"), "0.png,a\n0.png,b\n1.png,a\n");
    fail_each_allocation(check_list, (void *)path_in(folder, "list.csv"));
    remove_folder(folder);
}
END_TEST

TEST_PROGRAM(check_parts)
{
    return RUN_SUITE("check_parts", parts_of_lists, groups_in_two_parts, groups_in_folders,
                     files_and_mistakes, every_allocation_may_fail);
}
