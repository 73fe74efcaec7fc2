/* test_folders.c: the folders of a data folder, opened where memory runs out, in this process. */
#include "command.h"
#include "run/folders.h"

#include "../failing_allocator.h"
#include "../suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool open_both(ls_context *ctx)
{
    static const char *const classes[] = { "cat", "dog" };
    return ls__folders_open_train(ctx, "data", NULL, false) &&
           ls__folders_open_val(ctx, "data", NULL, false, 2, classes);
}

START_TEST(out_of_memory_is_not_a_data_error)
{
    begin_folder();
    ck_assert_int_eq(system("mkdir -p data/train/cat data/train/dog data/val/dog"), 0);
    write_text("data/train/cat/1.ppm", "");
    write_text("data/train/dog/1.ppm", "");
    write_text("data/val/dog/1.ppm", "");
    bool failed = true;
    for (int64_t n = 1; failed; n++) {
        failing_allocator a;
        failing_allocator_init(&a, n);
        ls_context *ctx =
            ls_context_open(&(ls_context_config){ .threads = 1, .allocator = &a.allocator });
        const bool opened = ls_context_status(ctx) == LS_OK && open_both(ctx);
        failed = failing_allocator_failed(&a);
        ck_assert_int_eq(opened, !failed);
        ck_assert_int_eq(ls_context_status(ctx), failed ? LS_ERR_MEMORY : LS_OK);
        ls_context_close(&ctx);
        ck_assert_int_eq(failing_allocator_live(&a), 0);
    }
    end_folder();
}
END_TEST

#define TRAIN "train --image-size 8 -b 8 --epochs 1 --steps 1 -j 0 --threads 1 --no-report "

/* Folders of one dataset, each arranged as by other people. */
START_TEST(layouts)
{
    static const struct {
        const char *make; /* from data/train and data/val, in place of them */
        const char *data; /* of the data line */
    } cases[] = {
        { "mv train Train; mv val Validation",
          "80 training images in 'Train'  20 validation images" },
        { "mv train training; mv val testing",
          "80 training images in 'training'  20 validation images in 'testing'" },
        { "mv train train_images; mv val valid_images",
          "80 training images in 'train_images'  20 validation images" },
        { "mkdir seg_train seg_test; mv train seg_train/seg_train; mv val seg_test/seg_test",
          "20 validation images in 'seg_test/seg_test'" },
        { "mv train 'Training Set'; mv val 'Test Set'; mkdir -p __MACOSX/train/star 'Training "
          "Set/__MACOSX'",
          "20 validation images in 'Test Set'" },
    };
    begin_folder();
    expect(0, "demo-data data --train 8 --val 2");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char line[512];
        snprintf(line, sizeof(line), "rm -rf run d; cp -r data d; cd d; %s", cases[i].make);
        ck_assert_int_eq(system(line), 0);
        expect(0, TRAIN "--data-dir d --out run");
        expect_out(cases[i].data);
        ck_assert_msg(!strstr(said_err, "hold"), "%s: %s", cases[i].make, said_err);
        expect(0, "eval --checkpoint run/last.safetensors --data-dir d");
        expect_out("20 images");
        expect(0, "check d");
        expect(0, "pack --overwrite d d.pack");
        expect(0, "eval --checkpoint run/last.safetensors --data-dir d.pack");
        expect_out("20 images");
    }
    end_folder();
}
END_TEST

/* Lists of the same images in the same order, as other people write them, give the same run. */
START_TEST(lists)
{
    /* The file, its first line, and printf's pattern of a path, a name without extension, a label.
     */
    static const struct {
        const char *file, *header, *row;
    } cases[] = {
        { "list.csv", "path,label", "images/$n.png,$l" },
        { "list.csv", NULL, "images/$n.png,$l" },
        { "list.csv", "id,breed", "$n,$l" },
        { "list.csv", "ImageId,ClassId", "$n.png,$l" },
        { "list.csv", "filepath,category", "images/$n.png,$l" },
        { "list.csv", "label,path", "$l,images/$n.png" },
        { "list.csv", "file_name;label", "images/$n.png;$l" },
        { "list.csv", "path, label", "images/$n.png, $l" },
        { "list.csv", "path,label", "images\\\\\\\\$n.png,$l" },
        { "list.csv", "path,label", "./images/$n,$l" },
        { "list.csv", "photo,weight,class", "$n.png,3,$l" },
        { "list.tsv", "path\\tlabel", "images/$n.png\\t$l" },
        { "list.txt", NULL, "images/$n.png $l" },
        { "list.txt", NULL, "images/$n.png  $l " },
    };
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    ck_assert_int_eq(
        system("mkdir images; i=0; for f in data/train/*/*; do i=$((i + 1)); l=${f%/*}; "
               "cp $f images/a$i.png; echo a$i ${l##*/}; done >labels"),
        0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char line[512];
        snprintf(line, sizeof(line),
                 "rm -f list.*; { %s%s%s while read n l; do printf \"%s\\n\"; done <labels; } >%s",
                 cases[i].header ? "printf '" : "", cases[i].header ? cases[i].header : "",
                 cases[i].header ? "\\n';" : "", cases[i].row, cases[i].file);
        ck_assert_int_eq(system(line), 0);
        expect(0, TRAIN "--val-split 0.25 --data-dir %s --out run%d", cases[i].file, (int)i);
        expect_out("30 training images  10 validation images  10 classes");
        char log[64];
        snprintf(log, sizeof(log), "run%d/run_log.txt", (int)i);
        ck_assert_msg(same_files("run0/run_log.txt", log), "%s", line);
    }
    end_folder();
}
END_TEST

/* The same names in several folders: that of the list's split, or an error. */
START_TEST(several_folders)
{
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    ck_assert_int_eq(
        system("mkdir d d/train d/test; i=0; for f in data/train/*/*; do i=$((i + 1)); l=${f%/*}; "
               "cp $f d/train/$i.png; echo junk >d/test/$i.png; echo $i,${l##*/}; done >rows; "
               "(echo label,id; sed 's/\\(.*\\),\\(.*\\)/\\2,\\1/' rows) >d/labels.csv; "
               "cp d/labels.csv d/train_labels.csv"),
        0);
    expect(3, TRAIN "--data-dir d/labels.csv --val-split 0.25 --out run");
    expect_err("both 'test/' and 'train/' have the image '1'; write the folder in the paths");
    expect(0, TRAIN "--data-dir d/train_labels.csv --val-split 0.25 --out run");
    expect_out("30 training images  10 validation images  10 classes");
    end_folder();
}
END_TEST

START_TEST(missing_images)
{
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    ck_assert_int_eq(system("(echo path,label; cd data; for f in train/*/*; do l=${f%/*}; echo "
                            "$f,${l##*/}; done) >data/list.csv; rm data/train/star/*"),
                     0);
    expect(3, TRAIN "--no-val --data-dir data/list.csv --out run");
    expect_err("data/list.csv: 4 of 40 training images are missing, such as 'data/train/star/");
    expect_err("--on-bad-image skip replaces the missing images by others\n");
    ck_assert(!exists("run"));
    expect(0, TRAIN "--no-val --data-dir data/list.csv --out run --on-bad-image skip");
    expect_err("4 of 40 training images are missing");
    ck_assert_int_eq(system("rm -r data/train"), 0);
    expect(3, TRAIN "--no-val --data-dir data/list.csv --out none --on-bad-image skip");
    expect_err("40 of 40 training images are missing");
    ck_assert_ptr_null(strstr(said_err, "--on-bad-image"));
    end_folder();
}
END_TEST

/* Class folders that hold only folders are not trained silently. */
START_TEST(folders_of_folders)
{
    begin_folder();
    expect(0, "demo-data data --train 8 --val 2");
    ck_assert_int_eq(system("mkdir -p d/a d/b; mv data/train/[a-o]* d/a; mv data/train/* d/b"), 0);
    expect(0, TRAIN "--data-dir d --val-split 0.25 --out run");
    expect_err("2 of 2 class folders, such as 'a', hold folders instead of images");
    expect_err("--data-dir d/a --val-split 0.2 trains the folders in it as classes\n");
    expect(0, TRAIN "--data-dir d/a --val-split 0.25 --out right");
    ck_assert_ptr_null(strstr(said_err, "folders"));
    ck_assert_int_eq(system("mv d/a/* d; rmdir d/a"), 0);
    expect(0, TRAIN "--data-dir d --val-split 0.25 --out mixed");
    expect_err(" class folders, such as 'b', holds folders instead of images");
    end_folder();
}
END_TEST

TEST_PROGRAM(folders)
{
    return RUN_SUITE("folders", layouts, folders_of_folders, lists, several_folders, missing_images,
                     out_of_memory_is_not_a_data_error);
}
