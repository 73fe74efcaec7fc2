/* test_val_split.c: 'lockstep train --val-split': the same validation images in training, after a
 * resume and in eval; and folders for which it is wrong. */
#include "command.h"
#include "run_files.h"

#include "../suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRAIN                                                                                      \
    "train --data-dir data --image-size 8 --epochs 2 -b 8 -j 1 --threads 1 --label-smoothing 0 "
#define SPLIT TRAIN "--val-split 0.25 "

static void draw_data(void)
{
    begin_folder();
    expect(0, "demo-data drawn --train 8 --val 1");
    ck_assert_int_eq(system("mkdir data && mv drawn/train data"), 0);
}

static const json_t *validation(const json_t *identity)
{
    return json_object_get(json_object_get(identity, "validation"), "data");
}

START_TEST(eval_and_resume_use_the_same_images)
{
    char loss[64];
    draw_data();
    expect(0, SPLIT "--val-split-seed 3 --seed 1 --out run");
    expect_out("60 training images  20 validation images");
    json_t *row = read_row("run/metrics.jsonl", 1), *identity = read_identity("run/manifest.json");
    const json_t *split = json_object_get(validation(identity), "split");
    ck_assert_str_eq(json_string_value(json_object_get(split, "seed")), "3");
    ck_assert(json_real_value(json_object_get(split, "fraction")) == 0.25);
    snprintf(loss, sizeof(loss), "20 images: loss %.4f", number(row, "val_loss"));
    expect(0, "eval --checkpoint run/last.safetensors --data-dir data");
    expect_out("data: 20 of 80 images, the validation split of --val-split");
    expect_out(loss);
    json_decref(identity);
    json_decref(row);

    /* the class folders themselves, and a pack: the same images */
    expect(0, "eval --checkpoint run/last.safetensors --data-dir data/train");
    expect_out(loss);
    expect(0, "pack data data.pack");
    expect(0, "eval --checkpoint run/last.safetensors --data-dir data.pack");
    expect_out(loss);
    expect(0, "eval --checkpoint run/last.safetensors --data-dir drawn"); /* has val/ */
    expect_out("10 images: loss");
    expect(0, "eval --checkpoint run/last.safetensors --data-dir drawn/val");
    expect_err("drawn/val: not the dataset that training split with --val-split");
    expect_out("10 images: loss");

    expect(0, SPLIT "--val-split-seed 3 --seed 1 --stop-at 9 --out half --data-dir data/train");
    expect(0, "train --resume half --data-dir data.pack");
    expect_same_tensors("run/last.safetensors", "half/last.safetensors");
    expect_same_metrics("run/metrics.jsonl", "half/metrics.jsonl", 2);
    expect(0, TRAIN "--no-val --data-dir data/train --steps 1 --out all");
    expect_out("80 training images  0 validation images");
    expect(2, "train --resume half --val-split 0.5");
    expect_err("--val-split can't be changed on resume: the run has 0.25");
    end_folder();
}
END_TEST

/* A CSV file of all images, and a folder with train.csv and val.csv. */
START_TEST(csv_files)
{
    draw_data();
    ck_assert_int_eq(
        system("cd data/train && ls */* | sed 's|\\(.*\\)/\\(.*\\)|\\1/\\2,\\1|' > ../../all && "
               "mv ../../all all.csv && mkdir ../../lists && sed 's|^|../data/train/|' "
               "all.csv > ../../lists/train.csv && tail -20 ../../lists/train.csv > "
               "../../lists/val.csv"),
        0);
    expect(3, TRAIN "--out none --data-dir data/train/all.csv");
    expect_err("data/train/all.csv: a CSV file with training images only; --val-split 0.2 splits");
    expect(0, SPLIT "--out folder");
    expect(0, SPLIT "--out csv --data-dir data/train/all.csv");
    expect_out("60 training images  20 validation images  10 classes");
    expect_same_metrics("folder/metrics.jsonl", "csv/metrics.jsonl", 2);
    expect(0, "eval --checkpoint csv/last.safetensors --data-dir data/train/all.csv");
    expect_out("20 of 80 images, the validation split of --val-split");
    expect(0, TRAIN "--out no-val --data-dir data/train/all.csv --no-val --steps 1");

    expect(0, TRAIN "--out lists-run --data-dir lists --steps 1");
    expect_out("80 training images  20 validation images  10 classes");
    expect(0, "eval --checkpoint csv/last.safetensors --data-dir lists/val.csv");
    expect_err("not the dataset that training split");
    expect_out("20 images: loss");
    expect(3, SPLIT "--out none --data-dir lists");
    expect_err("lists: already has validation images, in 'val.csv'");
    write_text("lists/val.csv", "../data/train/star/0.png,star\nx.png,cat\n");
    expect(3, TRAIN "--out none --data-dir lists");
    expect_err(
        "csv file 'lists/val.csv', line 2: the label 'cat' is not among the 10 known classes");
    write_text("lists/val.csv", "path,label\n../data/train/star/0.png\n");
    expect(3, TRAIN "--out none --data-dir lists");
    expect_err("csv file 'lists/val.csv', line 2: 1 field, expected 2, as in the header");
    end_folder();
}
END_TEST

START_TEST(wrong_folders)
{
    draw_data();
    expect(3, TRAIN "--out none");
    expect_err("data: has no folder 'val', 'validation', 'valid' or 'test'; --val-split 0.2 splits "
               "validation images off the training images, --no-val trains without validation\n");
    expect(3, SPLIT "--out none -b 61");
    expect_err("data: 60 training images do not fill one batch of 61: use -b 8, which gives 7 "
               "steps per epoch");
    expect(3, SPLIT "--out none --data-dir data/train/star"); /* one level too deep */
    expect_err("no class folders; found 8 files, 8 of them images; expected "
               "data/train/star/<class>/<image>");
    expect(3, SPLIT "--out none --data-dir ."); /* one level too high */
    expect_err("did you mean --data-dir ./data?");
    expect(2, SPLIT "--out none --no-val");
    expect_err("--val-split has no effect here: it requires validation, without --no-val");
    expect(2, TRAIN "--out none --val-split-seed 1");
    expect_err("--val-split-seed has no effect here: it requires --val-split");
    expect(2, TRAIN "--out none --val-split 1");
    expect_err("--val-split: expected a number from 0.001 to 0.999, got '1'");

    /* a class without validation images: a warning */
    ck_assert_int_eq(system("mkdir data/val && cp -r drawn/val/star data/val"), 0);
    ck_assert_int_eq(system("mv data/val data/test"), 0);
    expect(0, SPLIT "--out beside --steps 1");
    expect_err("data: --val-split takes the validation images from the training images; 'test' is "
               "not used\n");
    expect(0, "train --resume beside --steps 2");
    ck_assert(!strstr(said_err, "is not used"));
    ck_assert_int_eq(system("mv data/test data/val"), 0);
    expect(0, TRAIN "--out some --steps 1");
    expect_err("warning: data: no validation images of 9 of 10 classes, such as 'arrow'");
    expect(3, SPLIT "--out none");
    expect_err("data: already has validation images, in 'val', which --val-split would not use; "
               "omit --val-split");

    /* one image in each class */
    ck_assert_int_eq(system("rm -r data && mkdir data && mv drawn/val data/train"), 0);
    expect(3, SPLIT "--out none");
    expect_err("no class has two images: of 10 samples in 10 classes none is left for validation");
    ck_assert(!exists("none"));
    end_folder();
}
END_TEST

TEST_PROGRAM(val_split)
{
    return RUN_SUITE("val_split", eval_and_resume_use_the_same_images, csv_files, wrong_folders);
}
