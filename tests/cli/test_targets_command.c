/* test_targets_command.c: the command on CSV files with several labels or numbers for each image:
 * train, resume, eval and predict; and findings of options that had no effect. */
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
               "sed s,data,../data, labels.csv | head -9 > both/val.csv && "
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
    expect(0, "train --data-dir labels.csv --loss mse --no-val " OPTIONS "--out d");
    check_row("d", false);
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
        { 2, "train --data-dir labels.csv --loss mse --no-val --mixup-alpha 1",
          "--mixup-alpha has no effect here" },
        { 2,
          "train --data-dir numbers.csv --loss mse --no-val --lr-scheduler plateau "
          "--plateau-metric top1",
          "--plateau-metric has no effect here" },
        { 3, "pack both p.pack", "both: a CSV list of images can't be packed" },
        { 3, "pack labels.csv p.pack", "labels.csv: a CSV list of images can't be packed" },
        /* Other options that would have no effect. */
        { 2, "train --data-dir data -b 1 --mixup-alpha 1",
          "--mixup-alpha has no effect with -b 1" },
        { 2, "train --data-dir data --model-ema 1e-300", "--model-ema 1e-300: expected 0, or at" },
        { 2, "train --data-dir data -b 8 --image-size 8 --freeze *",
          "--freeze '*': freezes all parameters" },
        { 2, "train --data-dir data -b 8 --image-size 8 --freeze none",
          "--freeze: the net has no parameter whose name matches 'none'" },
        { 2, "train --data-dir data -b 8 --image-size 8 --freeze fc.*,",
          "--freeze: expected PATTERN,..., got an empty pattern in 'fc.*,'" },
        { 2, "train --data-dir data -b 8 --image-size 8 --param-groups none:lr-scale=1",
          "--param-groups: group 'none': the net has no parameter whose name matches" },
        { 2,
          "train --data-dir data -b 8 --image-size 8 --freeze fc.* --param-groups "
          "fc.*:lr-scale=2",
          "--param-groups: group 'fc.*' has no effect: all its parameters are frozen" },
        { 2, "train --data-dir data --param-groups fc.*:lr-scale=2,",
          "(one of the two is enough) with numbers from 0 to 1e+09, got 'fc.*:lr-scale=2,'" },
        { 2, "train --data-dir data --param-groups fc.*:lr-scale=2e9", "from 0 to 1e+09" },
        { 2, "train --data-dir data --dropout 0.1", "--dropout has no effect here: it requires" },
        { 2, "train --data-dir data --model vgg16_bn --dropout 1", "--dropout '1': expected" },
        { 1, "train --data-dir data -b 8 --model lenet5 --image-size 8",
          "--image-size is 8; the usual size of --model lenet5 is 28" },
        { 1, "train --data-dir data -b 8 --model vgg16_bn --image-size 64",
          "vgg16_bn: images of 64 x 64 pixels" },
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

START_TEST(dropout_is_stored)
{
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    expect(0,
           "train --data-dir data --model mobilenet_v2 --image-size 32 --epochs 1 -b 8 --steps 1 "
           "--dropout 0.5 --threads 2 --out a");
    ls_context *ctx = ls_context_open(NULL);
    ls_tensor_file *file = ls_tensor_file_open(ctx, "a/last.safetensors");
    ck_assert_str_eq(ls_tensor_file_metadata(file, "dropout"), "0.5");
    ls_context_close(&ctx);
    expect(0, "eval --checkpoint a/last.safetensors --data-dir data");
    expect(2, "train --resume a --dropout 0.1");
    end_folder();
}
END_TEST

/* A group of more batches than an epoch has is never complete. */
START_TEST(a_group_that_is_never_complete)
{
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    expect(0, "train --data-dir data --model mlp --image-size 8 --epochs 1 -b 8 --accumulate 6 "
              "--out a");
    expect_err("--accumulate 6 is above the 5 steps of an epoch");
    expect(0, "train --data-dir data --model mlp --image-size 8 --epochs 1 -b 8 --accumulate 5 "
              "--out b");
    ck_assert(!strstr(said_err, "--accumulate"));
    end_folder();
}
END_TEST

/* A list with absolute paths, moved with its folder. */
START_TEST(a_moved_list)
{
    begin_folder();
    ck_assert_int_eq(system("mkdir here"), 0);
    expect(0, "demo-data here/data --train 2 --val 1");
    ck_assert_int_eq(
        system("ls -d $PWD/here/data/train/*/* | sed 's,.*/\\(.*\\)/[^/]*$,&\\,\\1,' > "
               "here/list.csv"),
        0);
    expect(0, "train --data-dir here/list.csv --no-val --model mlp --image-size 8 --epochs 2 -b 4 "
              "--stop-at 2 --out a");
    ck_assert_int_eq(rename("here", "there"), 0);
    expect(1, "train --resume a --data-dir there/list.csv");
    expect_err("there/list.csv: 20 of 20 training images are missing, such as '/");
    end_folder();
}
END_TEST

int main(void)
{
    return RUN_SUITE("targets command", several_labels, numbers, misuse, dropout_is_stored,
                     a_group_that_is_never_complete, a_moved_list);
}
