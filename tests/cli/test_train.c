/* test_train.c: the files of a training run, also on a full disk; threads and workers change no bit
 * of them. */
#include "command.h"
#include "run_files.h"
#include "three_epochs.h"

#include "../suite.h"
#include <lockstep/lockstep.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The last line that was printed. */
static const char *last_line(void)
{
    const size_t length = strlen(said_out);
    ck_assert(length > 0 && said_out[length - 1] == '\n');
    const char *at = said_out + length - 1;
    while (at > said_out && at[-1] != '\n') at--;
    return at;
}

/* In a file: a line per epoch, with its time, and the result in the last one. */
static void expect_lines(void)
{
    static const char *const words[] = { "  train loss ", " top-1 ",      "  val loss ",
                                         " images/s  ",   "  data wait ", "  time 0:" };
    for (int i = 1; i <= 3; i++) {
        char begin[40];
        snprintf(begin, sizeof(begin), "\nepoch %d/3  train loss ", i);
        expect_out(begin);
        const char *line = strstr(said_out, begin) + 1, *end = strchr(line, '\n');
        for (size_t w = 0; w < sizeof(words) / sizeof(words[0]); w++) {
            const char *word = strstr(line, words[w]);
            ck_assert_msg(word && word < end, "no '%s' in line %d of %s", words[w], i, said_out);
        }
    }
    const char *last = last_line();
    ck_assert_msg(strncmp(last, "total time 0:", 13) == 0, "%s", last);
    ck_assert_msg(strstr(last, "  best val top-1 0.") && strstr(last, " (epoch "), "%s", last);
    ck_assert_msg(strstr(last, "  weights run/best.safetensors\n"), "%s", last);
}

START_TEST(a_run_writes_its_files)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--out run");
    json_t *config = json_load_file("run/config.json", 0, NULL);
    const json_t *options = json_object_get(config, "options");
    ck_assert_int_eq(json_integer_value(json_object_get(options, "epochs")), 3);
    ck_assert(json_number_value(json_object_get(options, "lr")) == 0.00625); /* 0.1 * 8 / 128 */
    ck_assert_int_eq(json_integer_value(json_object_get(config, "parameters")), 272474);
    json_decref(config);
    expect_lines();
    for (int i = 0; i < 3; i++) {
        json_t *row = read_row("run/metrics.jsonl", i);
        ck_assert(number(row, "epoch") == i + 1);
        ck_assert(number(row, "train_loss") > 0 && number(row, "val_loss") > 0);
        ck_assert(number(row, "val_top1") >= 0 && number(row, "val_top1") <= 1);
        ck_assert(number(row, "images_per_second") > 0 && number(row, "seconds") > 0);
        json_decref(row);
    }
    size_t size;
    char *csv = read_file("run/metrics.csv", &size);
    ck_assert(strncmp(csv, "epoch,lr,train_loss,train_top1,", 31) == 0);
    free(csv);

    ls_context *ctx = ls_context_open(NULL);
    ls_tensor_file *file = ls_tensor_file_open(ctx, "run/best.safetensors");
    ls_spec spec;
    ck_assert(ls_tensor_file_find(file, "layer2.0.downsample.0.weight", &spec));
    ck_assert(ls_shape_equal(&spec.shape, &LS_SHAPE(32, 16, 1, 1))); /* O,I,H,W */
    ck_assert(!ls_tensor_file_find(file, "optimizer.momentum.conv1.weight", &spec));
    ck_assert_str_eq(ls_tensor_file_metadata(file, "model"), "resnet20");
    ck_assert_str_eq(ls_tensor_file_metadata(file, "crop"), "8");
    json_t *classes = json_loads(ls_tensor_file_metadata(file, "classes"), 0, NULL);
    ck_assert_int_eq(json_array_size(classes), 10);
    ck_assert_str_eq(json_string_value(json_array_get(classes, 9)), "triangle");
    json_decref(classes);
    file = ls_tensor_file_open(ctx, "run/last.safetensors");
    ck_assert(ls_tensor_file_find(file, "optimizer.momentum.conv1.weight", &spec));
    ls_context_close(&ctx);

    expect(2, TRAIN "--out run");
    expect_err("already contains a run");
    expect(0, "train --resume run");
    expect(2, "train --resume run --lr 0.5");
    expect_err("--lr can't be changed on resume: the run has 0.00625 (run/config.json)");
    end_folder();
}
END_TEST

START_TEST(threads_and_workers_change_nothing)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--epochs 1 --out a -j 0 --threads 1");
    expect(0, TRAIN "--epochs 1 --out b -j 3 --threads 3");
    ck_assert(same_files("a/last.safetensors", "b/last.safetensors"));
    ck_assert(same_files("a/run_log.txt", "b/run_log.txt"));
    expect(0, TRAIN "--epochs 1 --out c -j 3 --threads 3 --seed 8");
    ck_assert(!same_files("a/last.safetensors", "c/last.safetensors"));
    end_folder();
}
END_TEST

/* All of it, with a resume in the middle of an epoch. */
START_TEST(augmentation)
{
    static const char *const options =
        "--vertical-flip 0.5 --auto-augment rand --brightness 0.4 --contrast 0.4 --saturation 0.4 "
        "--hue 0.1 --random-erase 0.25";
    begin_folder();
    draw_data();
    expect(0, TRAIN "--epochs 1 --out plain");
    expect(0, TRAIN "--epochs 1 --out whole -j 0 %s", options);
    expect(0, TRAIN "--epochs 1 --out stopped -j 3 --stop-at 7 %s", options);
    expect(0, "train --resume stopped -j 1");
    ck_assert(same_files("whole/last.safetensors", "stopped/last.safetensors"));
    ck_assert(same_files("whole/run_log.txt", "stopped/run_log.txt"));
    ck_assert(!same_files("whole/last.safetensors", "plain/last.safetensors"));
    expect(2, "train --resume stopped --hue 0.2");
    expect_err("--hue can't be changed on resume: the run has 0.1");
    expect(2, TRAIN "--hue 0.6");
    expect_err("--hue");
    end_folder();
}
END_TEST

/* Mixed batches: the same for workers, threads and a resume in the middle of an epoch. */
START_TEST(mixup_and_cutmix)
{
    static const char *const options = "--mixup-alpha 0.2 --cutmix-alpha 1";
    begin_folder();
    draw_data();
    expect(0, TRAIN "--epochs 1 --out plain");
    expect(0, TRAIN "--epochs 1 --out whole -j 0 --threads 1 %s", options);
    expect(0, TRAIN "--epochs 1 --out stopped -j 3 --threads 3 --stop-at 7 %s", options);
    expect(0, "train --resume stopped -j 1 --threads 2");
    ck_assert(same_files("whole/last.safetensors", "stopped/last.safetensors"));
    ck_assert(same_files("whole/run_log.txt", "stopped/run_log.txt"));
    ck_assert(!same_files("whole/last.safetensors", "plain/last.safetensors"));
    expect(2, "train --resume stopped --mixup-alpha 0.3");
    expect_err("--mixup-alpha can't be changed on resume: the run has 0.2");
    expect(2, TRAIN "--mixup-alpha 0.0005");
    expect_err("--mixup-alpha 0.0005: expected 0, or at least 0.001");
    expect(2, TRAIN "--clip-value 1e-46");
    expect_err("--clip-value 1e-46: expected 0, or at least 1e-30");
    expect(0, TRAIN "--epochs 1 --out cutmix --cutmix-alpha 1");
    ck_assert(!same_files("whole/last.safetensors", "cutmix/last.safetensors"));
    expect(0, "eval --checkpoint cutmix/best.safetensors --data-dir data");
    end_folder();
}
END_TEST

/* f16 with its loss scale, which belongs to what is resumed; the checkpoint is as good as another
 * precision's. */
START_TEST(sixteen_bits)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--epochs 1 --precision f16 --out whole");
    expect(0, TRAIN "--epochs 1 --precision f16 --out stopped --stop-at 7 -j 2 --threads 3");
    expect(0, "train --resume stopped");
    ck_assert(same_files("whole/last.safetensors", "stopped/last.safetensors"));
    ck_assert(same_files("whole/run_log.txt", "stopped/run_log.txt"));
    json_t *row = read_row("whole/metrics.jsonl", 0);
    ck_assert(number(row, "loss_scale") > 0 && number(row, "skipped_updates") >= 0);
    json_decref(row);
    expect(2, "train --resume stopped --precision f32");
    expect(2, "train --resume stopped --precision f32 --force");
    expect_err("--precision can't be changed on resume: the run has \"f16\" (");
    expect(0, TRAIN "--epochs 1 --precision bf16 --out bf16");
    expect_out("next: " LOCKSTEP_COMMAND " eval --checkpoint bf16/best.safetensors --data-dir data "
               "--per-class --precision bf16\n");
    expect_out("next: " LOCKSTEP_COMMAND " predict --checkpoint bf16/best.safetensors --precision "
               "bf16 IMAGE...\n");
    ck_assert(!same_files("whole/run_log.txt", "bf16/run_log.txt"));
    row = read_row("bf16/metrics.jsonl", 0);
    ck_assert_ptr_null(json_object_get(row, "loss_scale"));
    json_decref(row);
    expect(0, "eval --checkpoint whole/best.safetensors --data-dir data --precision bf16");
    ck_assert_int_eq(system("cp $(ls data/val/star/* | head -n 1) image"), 0);
    expect(0, "predict --checkpoint whole/best.safetensors --precision f16 image");
    expect(0, "describe --batch-size 2 --precision f16");
    expect_out("precision: f16, products made in f32");
    expect(1, TRAIN "--precision tf32 --out refused");
    expect_err("lockstep train: precision is tf32, which device cpu does not have");
    expect(1, TRAIN "--nvtx --out refused");
    expect_err("nvtx: device cpu has no ranges");
    end_folder();
}
END_TEST

START_TEST(a_run_ends_after_max_steps)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--out long --steps 33");
    ck_assert_int_eq(count_steps("long"), 33);
    expect(0, TRAIN "--out short --steps 25");
    expect(0, "train --resume short");
    ck_assert_int_eq(count_steps("short"), 25);
    expect(0, "train --resume short --steps 33");
    ck_assert(same_files("long/run_log.txt", "short/run_log.txt"));
    end_folder();
}
END_TEST

/* With a tiny learning rate no epoch is better than the first. */
START_TEST(patience)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--out whole --lr 1e-12 --epochs 50 --patience 2");
    expect_out("ended after epoch 3: no better top-1 since epoch 1");
    expect(0, TRAIN "--out stopped --lr 1e-12 --epochs 50 --patience 2 --stop-at 25");
    expect(0, "train --resume stopped");
    expect_out("ended after epoch 3");
    ck_assert(same_files("whole/last.safetensors", "stopped/last.safetensors"));
    expect(0, "train --resume stopped");
    ck_assert(same_files("whole/last.safetensors", "stopped/last.safetensors"));
    end_folder();
}
END_TEST

/* The first epoch stays the best, as above. */
START_TEST(missing_best_weights)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--out run --lr 1e-12 --stop-at 25");
    expect(0, "train --resume run --stop-at 26");
    ck_assert_str_eq(said_err, "");
    ck_assert_int_eq(unlink("run/best.safetensors"), 0);
    expect(0, "train --resume run");
    expect_err(
        "run/best.safetensors, the weights after epoch 1, is missing; it is rewritten after");
    ck_assert_ptr_nonnull(strstr(last_line(), " (epoch 1)  weights run/last.safetensors\n"));
    ck_assert_int_eq(strncmp(last_line(), "time since resume 0:", 20), 0);
    expect_out("next: " LOCKSTEP_COMMAND " eval --checkpoint run/last.safetensors --data-dir ");
    expect_out("next: " LOCKSTEP_COMMAND " predict --checkpoint run/last.safetensors");
    end_folder();
}
END_TEST

/* Truncated, or with one bit changed: the run continues, but does not call the file usable. */
START_TEST(damaged_best_weights)
{
    static const char *const damages[] = {
        "truncate -s 1000 run/best.safetensors",
        "printf '\\377' | dd of=run/best.safetensors bs=1 seek=100000 conv=notrunc status=none",
    };
    begin_folder();
    draw_data();
    expect(0, TRAIN "--out run --lr 1e-12 --stop-at 25");
    ck_assert_int_eq(system("cp -r run begun"), 0);
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        ck_assert_int_eq(system("rm -r run; cp -r begun run"), 0);
        ck_assert_int_eq(system(damages[i]), 0);
        expect(0, "train --resume run --stop-at 26");
        expect_err("warning: run/best.safetensors, the weights after epoch 1, can't be used: ");
        ck_assert_ptr_nonnull(strstr(last_line(), "  weights run/last.safetensors\n"));
    }
    end_folder();
}
END_TEST

/* A file that can't be written after an epoch is an error before the first step. */
START_TEST(a_folder_in_place_of_the_best_weights)
{
    begin_folder();
    draw_data();
    ck_assert_int_eq(system("mkdir -p run/best.safetensors"), 0);
    expect(1, TRAIN "--out run");
    expect_err("lockstep train: run/best.safetensors: a folder; the best weights are written to");
    ck_assert(!exists("run/config.json"));
    ck_assert_int_eq(rmdir("run/best.safetensors"), 0);
    expect(0, TRAIN "--out run --lr 1e-12 --stop-at 25");
    ck_assert_int_eq(system("rm run/best.safetensors && mkdir run/best.safetensors"), 0);
    const long n_steps = count_steps("run");
    expect(1, "train --resume run");
    expect_err("lockstep train: run/best.safetensors: a folder; ");
    ck_assert_int_eq(count_steps("run"), n_steps);
    end_folder();
}
END_TEST

START_TEST(full_disk)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--epochs 1 --out whole");
    /* first no checkpoint fits, then not even the config */
    for (size_t limit = 500000; limit > 10; limit /= 1000) {
        ck_assert_int_eq(
            wait_command(start_command(limit, TRAIN "--epochs 1 --out full%d", (int)limit)), 1);
        expect_err("File too large");
    }
    ck_assert_int_eq(system("test -z \"$(find full* -name '*.safetensors*' -o -name '*.tmp' -o "
                            "-name config.json)\""),
                     0);
    expect(0, TRAIN "--epochs 1 --out full500000"); /* it was none yet */
    ck_assert(same_files("whole/last.safetensors", "full500000/last.safetensors"));
    ck_assert_int_eq(wait_command(start_command(1000, "demo-data drawn")), 1);
    end_folder();
}
END_TEST

START_TEST(nonfinite_loss)
{
    begin_folder();
    draw_data();
    expect(4, TRAIN
           "--lr 1000 --lr-scheduler constant --lr-warmup-epochs 0 --momentum 0.99 --out run");
    expect_err("the loss is ");
    expect_err("data/train/");
    expect_err("--lr");
    end_folder();
}
END_TEST

TEST_PROGRAM(train)
{
    return RUN_SUITE("train", a_run_writes_its_files, threads_and_workers_change_nothing,
                     augmentation, mixup_and_cutmix, sixteen_bits, a_run_ends_after_max_steps,
                     patience, missing_best_weights, damaged_best_weights,
                     a_folder_in_place_of_the_best_weights, full_disk, nonfinite_loss);
}
