/* test_train.c: what a training run leaves behind: when it ends, is stopped, killed, or finds the
 * disk full; and that stopping, threads and workers do not change a bit of it. */
#include "command.h"
#include "run_files.h"

#include "../suite.h"
#include <lockstep/lockstep.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* 20 steps an epoch, with everything that draws random numbers. */
#define TRAIN "train --data-dir data --image-size 8 --epochs 3 -b 8 --crop-padding 2 --seed 7 "

static void draw_data(void)
{
    expect(0, "demo-data data --train 16 --val 4");
}

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
        char begin[32];
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

START_TEST(a_run_leaves_a_record)
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
    char *csv = read_text("run/metrics.csv", &size);
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
    expect_err("holds a run already");
    expect(0, "train --resume run");
    expect(2, "train --resume run --lr 0.5");
    expect_err("--lr differs from the run's own 0.00625");
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
    ck_assert(same_files("a/record.txt", "b/record.txt"));
    expect(0, TRAIN "--epochs 1 --out c -j 3 --threads 3 --seed 8");
    ck_assert(!same_files("a/last.safetensors", "c/last.safetensors"));
    end_folder();
}
END_TEST

/* In mid-epoch, before and after its end, with other threads and workers each time. */
START_TEST(stopped_and_resumed_is_the_same)
{
    static const int stops[] = { 1, 7, 19, 20, 21, 40, 59 };
    begin_folder();
    draw_data();
    expect(0, TRAIN "--out whole");
    expect(0, TRAIN "--out stopped --stop-at %d", stops[0]);
    expect_out("up to step"); /* what came out so far */
    for (int i = 1; i < (int)(sizeof(stops) / sizeof(stops[0])); i++) {
        expect(0, "train --resume stopped --stop-at %d -j %d --threads %d", stops[i], i % 3,
               1 + i % 2);
        expect_out("as asked");
        ck_assert_int_eq(count_steps("stopped"), stops[i]);
    }
    expect(0, "train --resume stopped");
    ck_assert(same_files("whole/last.safetensors", "stopped/last.safetensors"));
    ck_assert(same_files("whole/best.safetensors", "stopped/best.safetensors"));
    ck_assert(same_files("whole/record.txt", "stopped/record.txt"));
    expect_same_metrics("whole/metrics.jsonl", "stopped/metrics.jsonl", 3);
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
    ck_assert(same_files("whole/record.txt", "stopped/record.txt"));
    json_t *row = read_row("whole/metrics.jsonl", 0);
    ck_assert(number(row, "loss_scale") > 0 && number(row, "skipped_updates") >= 0);
    json_decref(row);
    expect(2, "train --resume stopped --precision f32");
    expect(2, "train --resume stopped --precision f32 --force");
    expect_err("--precision differs from the run's own \"f16\": a resumed run keeps its recipe");
    expect(0, TRAIN "--epochs 1 --precision bf16 --out bf16");
    expect_out("next: " LOCKSTEP_COMMAND " eval --checkpoint bf16/best.safetensors --data-dir data "
               "--per-class --precision bf16\n");
    expect_out("next: " LOCKSTEP_COMMAND " predict --checkpoint bf16/best.safetensors --precision "
               "bf16 IMAGE...\n");
    ck_assert(!same_files("whole/record.txt", "bf16/record.txt"));
    row = read_row("bf16/metrics.jsonl", 0);
    ck_assert_ptr_null(json_object_get(row, "loss_scale"));
    json_decref(row);
    expect(0, "eval --checkpoint whole/best.safetensors --data-dir data --precision bf16");
    ck_assert_int_eq(system("cp $(ls data/val/star/* | head -n 1) picture"), 0);
    expect(0, "predict --checkpoint whole/best.safetensors --precision f16 picture");
    expect(0, "describe --batch-size 2 --precision f16");
    expect_out("precision: f16, products made in f32");
    expect(1, TRAIN "--precision tf32 --out refused");
    expect_err("lockstep train: precision is tf32, which device cpu does not have");
    expect(1, TRAIN "--nvtx --out refused");
    expect_err("nvtx: device cpu has no ranges");
    end_folder();
}
END_TEST

/* A run far too long to end by itself is stopped once it has done a step. */
START_TEST(signals_save_and_stop)
{
    static const int numbers[] = { SIGTERM, SIGINT };
    begin_folder();
    draw_data();
    for (int i = 0; i < 2; i++) {
        const pid_t pid = start_command(0, TRAIN "--epochs 100000 --out signalled%d", i);
        char run[32], last[64];
        snprintf(run, sizeof(run), "signalled%d", i);
        snprintf(last, sizeof(last), "%s/last.safetensors", run);
        while (count_steps(run) < 1) sleep_ms(2);
        kill(pid, numbers[i]);
        ck_assert_int_eq(wait_command(pid), 128 + numbers[i]);
        expect_err("saved at epoch");
        const long steps = count_steps(run);
        expect(0, TRAIN "--epochs 100000 --out asked%d --stop-at %ld", i, steps);
        expect_same_tensors(i ? "asked1/last.safetensors" : "asked0/last.safetensors", last);
    }
    end_folder();
}
END_TEST

/* As behind a shell (&), where Ctrl-C is meant for others: what is ignored does not stop a run, nor
 * does the signal that stops it bring it back. */
START_TEST(ignored_signals_stay_so)
{
    begin_folder();
    draw_data();
    ignored_signal = SIGINT;
    const pid_t pid = start_command(0, TRAIN "--epochs 100000 --out background");
    ignored_signal = 0;
    while (count_steps("background") < 1) sleep_ms(2);
    kill(pid, SIGINT); /* delivered before the other, which has the greater number */
    kill(pid, SIGTERM);
    kill(pid, SIGINT);
    ck_assert_int_eq(wait_command(pid), 128 + SIGTERM);
    expect_err("signal 15: saved at epoch");
    end_folder();
}
END_TEST

START_TEST(a_run_of_so_many_steps)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--out long --steps 33");
    ck_assert_int_eq(count_steps("long"), 33);
    expect(0, TRAIN "--out short --steps 25");
    expect(0, "train --resume short");
    ck_assert_int_eq(count_steps("short"), 25);
    expect(0, "train --resume short --steps 33");
    ck_assert(same_files("long/record.txt", "short/record.txt"));
    end_folder();
}
END_TEST

/* Kept checkpoints are what the run could have been resumed from. */
START_TEST(checkpoints_in_mid_epoch)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--out whole --checkpoint-every 7 --keep-checkpoints");
    for (int step = 7; step <= 60; step += 7) {
        char kept[64], name[32];
        snprintf(kept, sizeof(kept), "whole/checkpoint-%012d.safetensors", step);
        snprintf(name, sizeof(name), "asked%d", step);
        expect(0, TRAIN "--out %s --stop-at %d", name, step);
        snprintf(name, sizeof(name), "asked%d/last.safetensors", step);
        expect_same_tensors(kept, name);
    }
    ck_assert(same_files("whole/checkpoint-000000000060.safetensors", "whole/last.safetensors"));
    ck_assert_int_eq(system("test $(ls whole/checkpoint-* | wc -l) = 12"), 0);
    expect(0, "train --resume whole");

    /* where last.safetensors is a link to a file elsewhere, each save is kept all the same */
    expect(0, TRAIN "--out linked --stop-at 1");
    ck_assert_int_eq(system("mv linked/last.safetensors elsewhere && "
                            "ln -s ../elsewhere linked/last.safetensors"),
                     0);
    expect(0, "train --resume linked --stop-at 4 --checkpoint-every 1 --keep-checkpoints");
    ck_assert(!same_files("linked/checkpoint-000000000003.safetensors",
                          "linked/checkpoint-000000000004.safetensors"));

    /* killed after its first save in mid-epoch, it goes on from there */
    const pid_t pid =
        start_command(0, TRAIN "--out killed --checkpoint-every 3 --keep-checkpoints");
    while (!exists("killed/checkpoint-000000000003.safetensors")) sleep_ms(1);
    kill(pid, SIGKILL);
    wait_command(pid);
    expect(0, "train --resume killed --checkpoint-every 1");
    ck_assert(same_files("whole/last.safetensors", "killed/last.safetensors"));
    ck_assert(same_files("whole/record.txt", "killed/record.txt"));
    end_folder();
}
END_TEST

/* With a rate of next to nothing no epoch is better than the first. */
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
START_TEST(best_weights_that_have_gone)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--out run --lr 1e-12 --stop-at 25");
    expect(0, "train --resume run --stop-at 26");
    ck_assert_str_eq(said_err, "");
    ck_assert_int_eq(unlink("run/best.safetensors"), 0);
    expect(0, "train --resume run");
    expect_err("run/best.safetensors, the weights after epoch 1, is missing; the first epoch");
    ck_assert_ptr_nonnull(strstr(last_line(), " (epoch 1)  weights run/last.safetensors\n"));
    ck_assert_int_eq(strncmp(last_line(), "time since resume 0:", 20), 0);
    expect_out("next: " LOCKSTEP_COMMAND " eval --checkpoint run/last.safetensors --data-dir ");
    expect_out("next: " LOCKSTEP_COMMAND " predict --checkpoint run/last.safetensors");
    end_folder();
}
END_TEST

/* Truncated, or with one bit changed: the run continues, but does not call the file usable. */
START_TEST(best_weights_that_are_damaged)
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

/* What could not be saved after an epoch is found out before the first step. */
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

/* Killed early, most often in its first epoch and so before any save of a step, it goes on with the
 * kernels that were timed when it began, and with those of its manifest. */
START_TEST(killed_before_its_first_epoch_ends)
{
    begin_folder();
    draw_data();
    const pid_t pid = start_command(0, TRAIN "--benchmark --epochs 100000 --out run");
    while (count_steps("run") < 1) sleep_ms(1);
    kill(pid, SIGKILL);
    wait_command(pid);
    json_t *begun = read_identity("run/manifest.json");
    const long n_steps = count_steps("run"); /* however far it came */
    for (int i = 1; i <= 2; i++) {
        expect(0, "train --resume run --stop-at %ld", n_steps + i);
        ck_assert_int_eq(count_steps("run"), n_steps + i);
        json_t *now = read_identity("run/manifest.json");
        ck_assert(json_equal(now, begun));
        json_decref(now);
    }
    json_decref(begun);
    ck_assert_int_eq(remove("run/last.safetensors"), 0);
    expect(1, "train --resume run");
    expect_err("run/last.safetensors");
    end_folder();
}
END_TEST

/* Every file that is there is whole. */
static void check_files(const char *dir)
{
    static const char *const names[] = { "last.safetensors", "best.safetensors" };
    char path[128];
    ls_context *ctx = ls_context_open(NULL);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        if (!exists(path)) continue;
        ck_assert_msg(ls_tensor_file_open(ctx, path) != NULL, "%s", ls_context_message(ctx));
    }
    ls_context_close(&ctx);
    snprintf(path, sizeof(path), "%s/config.json", dir);
    json_t *config = exists(path) ? json_load_file(path, 0, NULL) : NULL;
    ck_assert(!exists(path) || config);
    json_decref(config);
    snprintf(path, sizeof(path), "%s/metrics.jsonl", dir);
    size_t size;
    char *text = exists(path) ? read_text(path, &size) : NULL;
    /* Empty: killed between its first row and its first checkpoint, the run has begun again. */
    ck_assert(!text || size == 0 || text[size - 1] == '\n');
    free(text);
}

START_TEST(killed_at_any_moment)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--out whole");
    for (long ms = 20; ms < 1500; ms = ms * 3 / 2) {
        const pid_t pid = exists("killed/config.json") ? start_command(0, "train --resume killed")
                                                       : start_command(0, TRAIN "--out killed");
        sleep_ms(ms);
        kill(pid, SIGKILL);
        wait_command(pid);
        if (exists("killed")) check_files("killed");
    }
    expect(0, exists("killed/config.json") ? "train --resume killed" : TRAIN "--out killed");
    ck_assert(same_files("whole/last.safetensors", "killed/last.safetensors"));
    ck_assert(same_files("whole/best.safetensors", "killed/best.safetensors"));
    ck_assert(same_files("whole/record.txt", "killed/record.txt"));
    expect_same_metrics("whole/metrics.jsonl", "killed/metrics.jsonl", 3);
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

/* What a run needs to go on is missing: it is named, and nothing changes. */
START_TEST(a_resume_that_fails_leaves_no_trace)
{
    static const char *const files[] = { "metrics.jsonl", "record.txt" };
    begin_folder();
    draw_data();
    expect(0, TRAIN "--out run --stop-at 25");
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char command[256];
        snprintf(command, sizeof(command), "rm -rf was && cp -r run was && rm run/%s was/%s",
                 files[i], files[i]);
        ck_assert_int_eq(system(command), 0);
        expect(1, "train --resume run");
        expect_err(files[i]);
        ck_assert_int_eq(system("diff -r run was"), 0);
        ck_assert_int_eq(system("rm -rf run was"), 0);
        expect(0, TRAIN "--out run --stop-at 25");
    }
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
    end_folder();
}
END_TEST

START_TEST(changed_data)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--out run --stop-at 1");
    ck_assert_int_eq(mkdir("elsewhere", 0777), 0);
    ck_assert_int_eq(chdir("elsewhere"), 0);
    expect(0, "train --resume ../run --stop-at 2");
    ck_assert_int_eq(chdir(".."), 0);
    ck_assert_int_eq(system("mv data moved"), 0);
    expect(3, "train --resume run");
    expect_err("/data: no such folder");
    expect_err("--data-dir DIR names another place");
    expect(0, "train --resume run --data-dir moved");
    ck_assert_int_eq(system("rm moved/train/star/000000.*"), 0);
    expect(1, "train --resume run --data-dir moved");
    expect_err("data.samples is 160 there, 159 here");
    expect_err("would continue with another identity");
    expect(0, "train --resume run --data-dir moved --force");
    expect_err("warning: continues with another identity: data.samples is 160 there, 159 here");
    json_t *manifest = json_load_file("run/manifest.json", 0, NULL);
    const json_t *sessions = json_object_get(manifest, "sessions");
    ck_assert_int_eq(json_array_size(sessions), 4);
    for (int i = 0; i < 4; i++) {
        const json_t *forced = json_object_get(json_array_get(sessions, i), "forced");
        ck_assert_int_eq(json_array_size(forced) > 0, i == 3);
    }
    json_decref(manifest);
    expect(0, "train --resume run --data-dir moved"); /* it is that run now */

    ck_assert_int_eq(remove("run/manifest.json"), 0);
    expect(1, "train --resume run --data-dir moved");
    expect_err("run/manifest.json");
    expect(0, "train --resume run --data-dir moved --force");
    ck_assert(exists("run/manifest.json"));
    end_folder();
}
END_TEST

/* What was found unreadable before the stop counts after it. */
START_TEST(bad_images_are_remembered)
{
    begin_folder();
    draw_data();
    for (int i = 0; i < 4; i++) {
        char path[64];
        snprintf(path, sizeof(path), "data/%s/star/bad%d.png", i < 3 ? "train" : "val", i);
        write_text(path, "no picture");
    }
    expect(0, TRAIN "--on-bad-image skip --out whole");
    expect(0, TRAIN "--on-bad-image skip --out stopped --stop-at 19");
    expect(0, "train --resume stopped --stop-at 39");
    expect(0, "train --resume stopped");
    expect_err("data/train/star/bad0.png: not a JPEG");
    expect_same_metrics("whole/metrics.jsonl", "stopped/metrics.jsonl", 3);
    ck_assert(same_files("whole/record.txt", "stopped/record.txt"));
    end_folder();
}
END_TEST

START_TEST(a_run_that_is_going_on_is_left_alone)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--out run --stop-at 1");
    write_text("run/.lockstep-1-0.tmp", "half of a file");
    const int fd = open("run/.lock", O_RDWR | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(flock(fd, LOCK_EX), 0);
    expect(1, "train --resume run");
    expect_err("run folder 'run': another process is training there");
    ck_assert(exists("run/.lockstep-1-0.tmp"));
    close(fd);
    expect(0, "train --resume run --steps 2");
    ck_assert(!exists("run/.lockstep-1-0.tmp"));
    end_folder();
}
END_TEST

/* A plan file that wants the plain-C kernels for ops of a run that begin so, and with `all` for its
 * other ops those that they had. Returns how many it names. */
static int write_plan_of_references(const char *path, const char *manifest, const char *start,
                                    bool all)
{
    json_t *identity = read_identity(manifest), *choices = json_object();
    const char *op;
    json_t *kernel;
    json_object_foreach(json_object_get(identity, "kernels"), op, kernel)
    {
        if (strncmp(op, start, strlen(start)) == 0)
            json_object_set_new(choices, op, json_string("reference"));
        else if (all)
            json_object_set(choices, op, kernel);
    }
    const int n = (int)json_object_size(choices);
    json_t *plan = json_pack("{s:s, s:s, s:s, s:O, s:O, s:o}", "format", "lockstep plan 1",
                             "lockstep", ls_version(), "device", "cpu", "libraries",
                             json_object_get(identity, "libraries"), "processor",
                             json_object_get(identity, "processor"), "choices", choices);
    ck_assert_int_eq(json_dump_file(plan, path, 0), 0);
    json_decref(plan);
    json_decref(identity);
    return n;
}

/* The last batch of a validation is the first one of 8: what the plan says of it is known to the
 * run before it is needed, and stays so when the file is gone, or says something else. */
START_TEST(a_run_goes_on_without_its_plan_file)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "-b 16 --epochs 1 --out plain");
    ck_assert_int_gt(
        write_plan_of_references("plan.json", "plain/manifest.json", "conv2d x=8x", false), 4);
    expect(0, TRAIN "-b 16 --plan plan.json --out whole");
    json_t *whole = read_identity("whole/manifest.json");
    for (int i = 0; i < 2; i++) {
        write_plan_of_references("plan.json", "plain/manifest.json", "conv2d x=8x", false);
        expect(0, TRAIN "-b 16 --plan plan.json --out stopped%d --stop-at 3", i);
        if (i == 0)
            ck_assert_int_eq(remove("plan.json"), 0);
        else
            write_text("plan.json", "no plan");
        expect(0, "train --resume stopped%d", i);
        char metrics[64], manifest[64];
        snprintf(metrics, sizeof(metrics), "stopped%d/metrics.jsonl", i);
        snprintf(manifest, sizeof(manifest), "stopped%d/manifest.json", i);
        expect_same_metrics("whole/metrics.jsonl", metrics, 3);
        json_t *identity = read_identity(manifest);
        ck_assert(json_equal(identity, whole));
        json_decref(identity);
    }
    json_decref(whole);
    expect(2, "train --resume stopped1 --plan other.json");
    expect_err("--plan differs from the run's own \"plan.json\"");
    end_folder();
}
END_TEST

/* With benchmark on, a run whose first part has kernels that no timing would choose, since the
 * plain-C ones are not even tried, goes on with them, whatever threads and workers it has then. The
 * plan names all of its ops, so that nothing depends on time. */
START_TEST(timed_runs_go_on_with_their_kernels)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--benchmark --out plain");
    ck_assert_int_gt(
        write_plan_of_references("plan.json", "plain/manifest.json", "conv2d x=8x", true), 20);
    expect(0, TRAIN "--benchmark --plan plan.json --out whole");
    ck_assert(!same_files("plain/record.txt", "whole/record.txt"));
    expect(0, TRAIN "--benchmark --plan plan.json --out stopped --stop-at 7");
    ck_assert_int_eq(remove("plan.json"), 0);
    expect(0, "train --resume stopped --stop-at 33 -j 3 --threads 1");
    write_plan_of_references("plan.json", "plain/manifest.json", "no such op", true);
    expect(0, "train --resume stopped -j 1 --threads 3");
    ck_assert(same_files("whole/last.safetensors", "stopped/last.safetensors"));
    ck_assert(same_files("whole/record.txt", "stopped/record.txt"));
    json_t *whole = read_identity("whole/manifest.json");
    json_t *stopped = read_identity("stopped/manifest.json");
    ck_assert(json_equal(whole, stopped));
    json_decref(whole);
    json_decref(stopped);
    end_folder();
}
END_TEST

START_TEST(seeds_by_worker_keep_their_number)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--epochs 1 --seeding worker -j 2 --out whole");
    expect(0, TRAIN "--epochs 1 --seeding worker -j 2 --out stopped --stop-at 3");
    for (int force = 0; force < 2; force++) {
        expect(2, "train --resume stopped -j 3 %s", force ? "--force" : "");
        expect_err("--workers 3: the run has 2, and seeds by worker");
    }
    expect(0, "train --resume stopped -j 2 --stop-at 5");
    expect(0, "train --resume stopped");
    ck_assert(same_files("whole/record.txt", "stopped/record.txt"));
    end_folder();
}
END_TEST

/* A plan of another machine: with --force a run does without it, and the file stays as it is. */
START_TEST(unusable_plans)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--benchmark --plan plan.json --out run --stop-at 2");
    ck_assert_int_eq(system("sed 's/\"processor\": \"/&another /' plan.json >foreign.json && "
                            "cp foreign.json before.json"),
                     0);
    expect(1, TRAIN "--benchmark --plan foreign.json --out other --stop-at 2");
    expect_err("processor is 'another ");
    expect_err("lockstep train: --force continues anyway, with other kernels\n");
    expect(0, TRAIN "--benchmark --plan foreign.json --out other --stop-at 2 --force");
    expect_err("warning: 'foreign.json'");
    ck_assert(same_files("foreign.json", "before.json"));

    /* where no plan can be written nothing is begun */
    expect(1, TRAIN "--benchmark --plan nowhere/plan.json --out none");
    expect_err("writing 'nowhere/plan.json': No such file or directory");
    ck_assert(!exists("none"));
    end_folder();
}
END_TEST

int main(void)
{
    return RUN_SUITE("train", a_run_leaves_a_record, threads_and_workers_change_nothing,
                     stopped_and_resumed_is_the_same, sixteen_bits, signals_save_and_stop,
                     ignored_signals_stay_so, a_run_of_so_many_steps, checkpoints_in_mid_epoch,
                     patience, best_weights_that_have_gone, best_weights_that_are_damaged,
                     a_folder_in_place_of_the_best_weights, killed_before_its_first_epoch_ends,
                     killed_at_any_moment, full_disk, a_resume_that_fails_leaves_no_trace,
                     nonfinite_loss, changed_data, unusable_plans,
                     seeds_by_worker_keep_their_number, a_run_goes_on_without_its_plan_file,
                     timed_runs_go_on_with_their_kernels, bad_images_are_remembered,
                     a_run_that_is_going_on_is_left_alone);
}
