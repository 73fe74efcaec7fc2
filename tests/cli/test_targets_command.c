/* test_targets_command.c: the command on CSV files with several labels or numbers for each image:
 * train, resume, eval and predict. */
#include "command.h"
#include "run_files.h"

#include <lockstep/lockstep.h>

#include "../suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPTIONS                                                                                    \
    "--model mlp --image-size 8 --epochs 3 -b 8 -j 1 --threads 1 --lr 0.05 --crop-padding 0 "

/* Lists of the demo images: the label "star" and "big" for some of them, and numbers. */
static void write_lists(void)
{
    expect(0, "demo-data data --train 4 --val 1");
    ck_assert_int_eq(
        system("(echo path,labels; ls data/train/*/* | awk '{ n = NR % 3; print $0 \",\" "
               "(n == 0 ? \"star; big\" : n == 1 ? \"big\" : \"\") }') > labels.csv && "
               "(echo target_y,path,target_x; ls data/train/*/* | awk '{ print NR / 40 \",\" $0 "
               "\",\" (-NR / 20) }') > numbers.csv && mkdir both && "
               "sed s,data,../data, labels.csv > both/train.csv && "
               "sed s,data,../data, labels.csv | head -9 > both/val.csv && mkdir mixed && "
               "sed s,data,../data, numbers.csv > mixed/train.csv && "
               "(echo path,labels; ls data/train/*/* | "
               "sed 's,.*,../&\\,target_x;target_y,') > mixed/val.csv && "
               "cp $(ls data/train/*/* | head -1) one.jpg"),
        0);
}

static void check_row(const char *run, bool has_val)
{
    char path[64];
    snprintf(path, sizeof(path), "%s/metrics.jsonl", run);
    json_t *first = read_row(path, 0), *last = read_row(path, 2);
    ck_assert(!json_object_get(first, "train_top1") && !json_object_get(first, "val_top1"));
    ck_assert(number(last, "train_loss") < number(first, "train_loss"));
    ck_assert_int_eq(json_is_number(json_object_get(first, "val_loss")), has_val);
    json_decref(first);
    json_decref(last);
}

START_TEST(several_labels)
{
    begin_folder();
    write_lists();
    expect(0, "train --data-dir labels.csv --loss bce --val-split 0.25 " OPTIONS "--out a");
    expect_out("2 labels\n");
    expect_out("\nloss    binary cross-entropy\n");
    expect_out("best val loss ");
    ck_assert(!strstr(said_out, "top-1"));
    check_row("a", true);
    expect(0, "train --data-dir labels.csv --loss bce --val-split 0.25 " OPTIONS
              "--threads 3 --stop-at 5 --out b");
    expect(0, "train --resume b --workers 2");
    expect_same_tensors("a/last.safetensors", "b/last.safetensors");
    expect(0, "compare a b");
    expect(0, "eval --checkpoint a/best.safetensors --data-dir labels.csv --per-class");
    expect_out("the validation split of --val-split");
    expect_out("mlp, 10 images: binary cross-entropy ");
    expect_out("\n  label     images  accuracy\n  big   ");
    expect(0, "predict --checkpoint a/best.safetensors -k 1 one.jpg");
    ck_assert(strstr(said_out, "  big\n") || strstr(said_out, "  star\n"));
    expect(0, "train --data-dir both --loss bce " OPTIONS "--patience 1 --out c");
    end_folder();
}
END_TEST

START_TEST(numbers)
{
    begin_folder();
    write_lists();
    expect(0, "train --data-dir numbers.csv --loss mse --no-val --recipe small --model mlp "
              "--image-size 8 --epochs 3 -b 8 --lr 0.02 -j 1 --threads 1 --lr-warmup-epochs 0 "
              "--lr-scheduler plateau --out a");
    expect_out("2 targets\n");
    expect_out("\nloss    mean squared error\n");
    expect_out("best train loss ");
    ck_assert(!strstr(said_out, "label-smoothing"));
    check_row("a", false);
    expect(0, "eval --checkpoint a/best.safetensors --data-dir numbers.csv --per-class");
    expect_out("mlp, 40 images: mean squared error ");
    expect_out("\n  target    mean absolute error\n  target_y  ");
    expect(0, "predict --checkpoint a/best.safetensors one.jpg");
    expect_out("  target_y\n");
    expect_out("  target_x\n");
    expect(0, "plot a");
    end_folder();
}
END_TEST

START_TEST(misuse)
{
    static const struct {
        int status;
        const char *line, *said;
    } cases[] = {
        { 2, "train --data-dir labels.csv --no-val", "--loss bce is for labels" },
        {
            2,
            "train --data-dir numbers.csv --no-val --loss bce",
            "--loss bce: 'target_x' of data/train/",
        },
        { 2, "train --data-dir data --loss bce", "expected a CSV file with a column 'labels'" },
        { 2, "train --data-dir labels.csv --loss bce --no-val --label-smoothing 0.1",
          "--label-smoothing has no effect here: it requires --loss cross-entropy" },
        { 2, "train --data-dir labels.csv --loss bce --no-val --class-weights balanced",
          "--class-weights has no effect here" },
        { 2, "train --data-dir labels.csv --loss bce --no-val --sampler balanced",
          "--sampler has no effect here" },
        { 2, "train --data-dir numbers.csv --loss mse --no-val --mixup-alpha 1",
          "--mixup-alpha has no effect here" },
        { 2,
          "train --data-dir numbers.csv --loss mse --no-val --lr-scheduler plateau "
          "--plateau-metric top1",
          "--plateau-metric has no effect here" },
        { 2, "train --data-dir labels.csv --loss mse --no-val",
          "--loss mse: expected a CSV file with a column 'target' or columns 'target_...'; "
          "labels.csv has several labels for each image, for --loss bce" },
        { 2, "train --data-dir data --loss mse",
          "--loss mse: expected a CSV file with a column 'target' or columns 'target_...'; data "
          "has one class for each image\n" },
        { 3, "train --data-dir mixed --loss mse",
          "mixed/train.csv has numbers for each image, mixed/val.csv has several labels: expected "
          "the same columns" },
        { 3, "pack both p.pack",
          "both: a CSV list of images; expected a folder of class folders; 'lockstep train "
          "--data-dir both' reads the list itself" },
        { 3, "pack labels.csv p.pack",
          "labels.csv: a CSV list of images; expected a folder of class folders" },
    };
    begin_folder();
    write_lists();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        expect(cases[i].status, "%s", cases[i].line);
        expect_err(cases[i].said);
    }
    end_folder();
}
END_TEST

/* Options that the model's loss gives no meaning; 'eval' and 'predict' refuse the same. */
START_TEST(flips_and_top)
{
    begin_folder();
    write_lists();
    expect(0, "train --data-dir labels.csv --loss bce --no-val " OPTIONS "--out bce");
    expect(0, "train --data-dir numbers.csv --loss mse --no-val " OPTIONS "--stop-at 2 --out mse");
    const char *loss = strstr(said_out, "up to step 2: train loss 1.");
    ck_assert_ptr_nonnull(loss);
    ck_assert_uint_eq(strcspn(strstr(loss, "1."), "\n"), strlen("1.092")); /* 4 digits */
    for (int i = 0; i < 2; i++) {
        const char *run = i ? "mse" : "bce", *data = i ? "numbers.csv" : "labels.csv";
        expect(2, "eval --checkpoint %s/last.safetensors --data-dir %s --test-time-flip", run,
               data);
        expect_err("--test-time-flip is for models of classes\n");
        expect(2, "predict --checkpoint %s/last.safetensors --test-time-flip one.jpg", run);
        expect_err("--test-time-flip is for models of classes\n");
        expect(i ? 2 : 0, "predict --checkpoint %s/last.safetensors -k 1 one.jpg", run);
    }
    expect_err("--top is for models of classes or labels\n");
    end_folder();
}
END_TEST

TEST_PROGRAM(targets_command)
{
    return RUN_SUITE("targets command", several_labels, numbers, misuse, flips_and_top);
}
