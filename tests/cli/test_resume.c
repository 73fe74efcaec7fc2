/* test_resume.c: options that a resume may change (--on-bad-image, --epochs), their list in
 * docs/training.md, and folders in which a run may begin again. */
#include "command.h"
#include "run_files.h"

#include "../suite.h"
#include <jansson.h>
#include <lockstep/run.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <sys/stat.h>

#define TRAIN "train --data-dir data --image-size 8 -b 8 --crop-padding 2 --seed 7 --threads 1 "

static void write_bad_images(const char *folder, int n)
{
    for (int i = 0; i < n; i++) {
        char path[64];
        snprintf(path, sizeof(path), "%s/bad%02d.png", folder, i);
        write_text(path, "no image");
    }
}

static void expect_same_runs(const char *a, const char *b, int n_epochs)
{
    static const char *const files[] = { "last.safetensors", "best.safetensors", "run_log.txt" };
    char in_a[64], in_b[64];
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        snprintf(in_a, sizeof(in_a), "%s/%s", a, files[i]);
        snprintf(in_b, sizeof(in_b), "%s/%s", b, files[i]);
        ck_assert_msg(same_files(in_a, in_b), "%s and %s differ", in_a, in_b);
    }
    snprintf(in_a, sizeof(in_a), "%s/metrics.jsonl", a);
    snprintf(in_b, sizeof(in_b), "%s/metrics.jsonl", b);
    expect_same_metrics(in_a, in_b, n_epochs);
}

/* The value of an option in config.json, as JSON text. To be freed. */
static char *option_of(const char *run, const char *name)
{
    char path[64];
    snprintf(path, sizeof(path), "%s/config.json", run);
    json_t *config = json_load_file(path, 0, NULL);
    ck_assert_ptr_nonnull(config);
    const json_t *options = json_object_get(config, "options");
    char *text = json_dumps(json_object_get(options, name), JSON_ENCODE_ANY);
    json_decref(config);
    return text;
}

/* The manifest's last session says that an option was changed, from one JSON text to another. */
static void expect_changed(const char *run, const char *name, const char *there, const char *here)
{
    char path[64];
    snprintf(path, sizeof(path), "%s/manifest.json", run);
    json_t *manifest = json_load_file(path, 0, NULL);
    const json_t *sessions = json_object_get(manifest, "sessions");
    const json_t *last = json_array_get(sessions, json_array_size(sessions) - 1);
    const json_t *changed = json_object_get(last, "changed");
    ck_assert_int_eq(json_array_size(changed), 1);
    json_t *wanted = json_pack("{s:s, s:o, s:o}", "option", name, "there",
                               json_loads(there, JSON_DECODE_ANY, NULL), "here",
                               json_loads(here, JSON_DECODE_ANY, NULL));
    ck_assert(json_equal(json_array_get(changed, 0), wanted));
    json_decref(wanted);
    json_decref(manifest);
}

/* A run that a bad image stops keeps its steps, and continues as the run that skips such images
 * from the beginning: in the middle of an epoch and in validation. */
START_TEST(a_resume_can_skip_bad_images)
{
    static const char *const folders[] = { "data/train/star", "data/val/star" };
    for (int i = 0; i < 2; i++) {
        begin_folder();
        expect(0, "demo-data data --train 8 --val 2");
        write_bad_images(folders[i], 1);
        expect(0, TRAIN "--epochs 2 --on-bad-image skip --out whole");
        expect(3, TRAIN "--epochs 2 --out run");
        const long n_steps = count_steps("run");
        char said[128];
        snprintf(said, sizeof(said),
                 "epoch 1, %s %ld: image '%s/bad00.png': ", i ? "validation batch" : "step",
                 i ? 3 : n_steps + 1, folders[i]);
        ck_assert(i ? n_steps == 10 : n_steps > 0 && n_steps < 10);
        expect_err(said);
        expect_err("train --resume run --on-bad-image skip\n");
        expect(3, "train --resume run");
        ck_assert_int_eq(count_steps("run"), n_steps);

        expect(0, "train --resume run --on-bad-image skip --stop-at 11");
        char *option = option_of("run", "on-bad-image");
        ck_assert_str_eq(option, "\"skip\"");
        free(option);
        expect_changed("run", "on-bad-image", "\"fail\"", "\"skip\"");
        expect(0, "train --resume run"); /* the option stays changed */
        expect_same_runs("whole", "run", 2);
        expect(0, "compare whole run");
        expect_out("result: identical");
        end_folder();
    }
}
END_TEST

/* A run that has done no step may be begun again; with steps it is kept. */
START_TEST(a_run_without_a_step_is_replaced)
{
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    expect(0, TRAIN "--epochs 1 --out whole");
    write_bad_images("data/train/star", 40);
    expect(3, TRAIN "--epochs 2 --out run");
    expect_err("epoch 1, step 1: ");
    ck_assert_int_eq(count_steps("run"), 0);
    expect(3, "train --resume run");
    expect_out("run     run, from the beginning, because no step was saved\n");
    expect(0, TRAIN "--epochs 1 --on-bad-image skip --out run");
    ck_assert_int_eq(system("rm data/train/star/bad*"), 0);
    expect(2, TRAIN "--epochs 1 --out run");
    expect_err("run already contains a run");

    write_bad_images("data/train/star", 40);
    expect(3, TRAIN "--epochs 2 --out again");
    ck_assert_int_eq(system("rm data/train/star/bad*"), 0);
    expect(0, TRAIN "--epochs 1 --out again");
    expect_same_runs("whole", "again", 1);
    json_t *manifest = json_load_file("again/manifest.json", 0, NULL);
    ck_assert_int_eq(json_array_size(json_object_get(manifest, "sessions")), 1);
    json_decref(manifest);
    end_folder();
}
END_TEST

/* A new run takes an empty folder, or one that holds only what a run leaves before it begins. */
START_TEST(folders_with_other_files_are_refused)
{
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    expect(2, TRAIN "--epochs 1 --out data");
    expect_err("lockstep train: --out data: the folder is not empty and contains no run (found "
               "'train'");
    expect_err("expected a new or empty folder\n");
    ck_assert_int_eq(system("test \"$(ls -A data)\" = \"$(printf 'train\\nval')\""), 0);
    ck_assert_int_eq(
        system("mkdir begun && touch begun/.lock begun/.lockstep-1-0.tmp "
               "begun/run_log.txt begun/metrics.csv begun/metrics.jsonl begun/curves.svg "
               "begun/events.out.tfevents.1500000000.0 "
               "begun/last.safetensors begun/best.safetensors begun/manifest.json "
               "begun/checkpoint-000000000003.safetensors"),
        0);
    expect(0, TRAIN "--epochs 1 --out begun");
    ck_assert_int_eq(system("mkdir other && touch other/checkpoint-3.txt"), 0);
    expect(2, TRAIN "--epochs 1 --out other");
    expect_err("(found 'checkpoint-3.txt')");
    write_text("file", "");
    expect(2, TRAIN "--epochs 1 --out file");
    expect_err("lockstep train: --out file: not a folder\n");
    ck_assert_int_eq(mkdir("empty", 0777), 0);
    expect(0, TRAIN "--epochs 1 --out empty");
    end_folder();
}
END_TEST

/* Where earlier learning rates do not depend on the number of epochs, a lengthened run has the bits
 * of one that was begun with as many. */
/* Reasons other than a missing folder, such as a permission, are not "no such folder". */
START_TEST(a_folder_that_cannot_be_read)
{
    begin_folder();
    ck_assert_int_eq(symlink("loop", "loop"), 0);
    expect(1, "train --resume loop");
    expect_err("loop/config.json: Too many levels of symbolic links");
    end_folder();
}
END_TEST

START_TEST(a_folder_without_permission)
{
    if (geteuid() == 0) SKIP("root may read all folders");
    begin_folder();
    make_folder("closed");
    chmod("closed", 0);
    expect(1, "train --resume closed");
    expect_err("closed/config.json: Permission denied");
    end_folder();
}
END_TEST

START_TEST(a_finished_run_is_lengthened)
{
    static const char *const schedules[] = { "constant",
                                             "step --lr-step-size 2",
                                             "exponential",
                                             "plateau --plateau-metric loss --lr-per-256 0.4",
                                             "multistep --lr-milestones 1,2",
                                             "cosine-restarts --lr-restart-epochs 2" };
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    for (int i = 0; i < 6; i++) {
        char whole[32], run[32];
        snprintf(whole, sizeof(whole), "whole%d", i);
        snprintf(run, sizeof(run), "run%d", i);
        expect(0, TRAIN "--lr-scheduler %s --lr-warmup-epochs 1 --epochs 4 --out %s", schedules[i],
               whole);
        expect(0, TRAIN "--lr-scheduler %s --lr-warmup-epochs 1 --epochs 2 --out %s", schedules[i],
               run);
        expect(0, "train --resume %s", run);
        expect_out("all 2 epochs are done");
        expect_out("for more epochs: ");
        expect_out(" was complete already: nothing was trained\n");
        expect(0, "train --resume %s --epochs 4 --stop-at 12 -j 2 --threads 3", run);
        char *option = option_of(run, "epochs");
        ck_assert_str_eq(option, "4");
        free(option);
        expect_changed(run, "epochs", "2", "4");
        expect(0, "train --resume %s", run);
        expect_same_runs(whole, run, 4);
        expect(0, "compare %s %s", whole, run);
        expect_out("result: identical");
    }
    expect(2, "train --resume run0 --epochs 3");
    expect_err("--epochs 3: the run has 4; a run can be extended, not shortened");
    end_folder();
}
END_TEST

START_TEST(a_schedule_over_all_epochs_is_not_lengthened)
{
    static const char *const schedules[] = { "cosine", "polynomial", "onecycle" };
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    for (int i = 0; i < 3; i++) {
        char said[128];
        expect(0, TRAIN "--lr-scheduler %s --epochs 2 --steps 1 --out run%d", schedules[i], i);
        expect(2, "train --resume run%d/last.safetensors --epochs 4", i);
        snprintf(said, sizeof(said), "with --weights run%d/last.safetensors (", i);
        expect_err(said);
        expect(2, "train --resume run%d --epochs 4", i);
        snprintf(said, sizeof(said),
                 "the learning rates of --lr-scheduler %s depend on the number of epochs",
                 schedules[i]);
        expect_err(said);
        expect_err("start a new run with --epochs 4");
        expect(0, "train --resume run%d --epochs 2", i);
        expect_out("ended after 1 step");
    }
    end_folder();
}
END_TEST

/* Errors about files of the run name what can be done with the others, which is tried here. */
START_TEST(what_remains_of_a_damaged_run)
{
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    expect(0, TRAIN "--epochs 3 --keep-checkpoints --out whole");
    expect(0, TRAIN "--epochs 3 --keep-checkpoints --stop-at 8 --out run");
    ck_assert_int_eq(truncate("run/last.safetensors", 1000), 0); /* and the link to it */
    expect(1, "train --resume run");
    expect_err("run/last.safetensors' is no safetensors file");
    expect_err("if last.safetensors is replaced by a copy of checkpoint-000000000005.safetensors");
    ck_assert_int_eq(remove("run/last.safetensors"), 0);
    expect(1, "train --resume run");
    expect_err("replaced by a copy of checkpoint-000000000008.safetensors");
    ck_assert_int_eq(system("cp run/checkpoint-000000000005.safetensors run/last.safetensors"), 0);
    expect(0, "train --resume run");
    expect_same_runs("whole", "run", 3);

    static const char *const files[] = { "run_log.txt", "manifest.json", "config.json" };
    for (int i = 0; i < 3; i++) {
        char path[64];
        snprintf(path, sizeof(path), "whole/%s", files[i]);
        ck_assert_int_eq(truncate(path, 20), 0);
        expect(1, "train --resume whole");
        expect_err("the weights remain: --weights whole/last.safetensors begins a new run");
    }
    ck_assert_int_eq(system("rm whole/checkpoint-* && truncate -s 9 whole/last.safetensors && "
                            "cp run/*.json run/run_log.txt whole"),
                     0);
    expect(1, "train --resume whole");
    expect_err("--weights whole/best.safetensors begins a new run with the best epoch's weights");
    expect(0, TRAIN "--epochs 1 --weights whole/best.safetensors --out next");
    end_folder();
}
END_TEST

/* Runs of versions without --arithmetic had none in config.json. */
START_TEST(a_run_without_an_option_has_its_default)
{
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    expect(0, TRAIN "--epochs 2 --stop-at 3 --out run");
    json_t *config = json_load_file("run/config.json", 0, NULL);
    ck_assert_int_eq(json_object_del(json_object_get(config, "options"), "arithmetic"), 0);
    ck_assert_int_eq(json_dump_file(config, "run/config.json", 0), 0);
    json_decref(config);
    expect(2, "train --resume run --arithmetic native");
    expect_err("started by a version without --arithmetic");
    expect(0, "train --resume run");
    end_folder();
}
END_TEST

START_TEST(a_run_that_timed_kernels_keeps_its_arithmetic)
{
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    setenv("LOCKSTEP_MODULES", "/nowhere", 1); /* the device auto is the CPU */
    expect(0, TRAIN "--benchmark --device auto --epochs 2 --stop-at 3 --out auto");
    expect(0, "train --resume auto");
    unsetenv("LOCKSTEP_MODULES");
    if (!HAS_ONEDNN) {
        end_folder();
        SKIP("this build has no oneDNN");
    }
    expect(0, TRAIN "--benchmark --arithmetic native --epochs 2 --stop-at 3 --out run");
    expect(2, "train --resume run --arithmetic portable");
    expect_err("--arithmetic portable: the run has --benchmark");
    expect_err("omit --arithmetic to resume the run as it is");
    expect(0, "train --resume run");
    end_folder();
}
END_TEST

/* Stopped in the middle of an epoch and resumed on other workers and threads. */
START_TEST(optimizer_options_resume)
{
    static const char *const options[] = {
        "--opt rmsprop --momentum 0.9 --clip-value 0.01 --param-groups fc.*:lr-scale=10",
        "--model-ema 0.9",
        "--model-ema 0.9 --precision f16 --opt adamw",
    };
    enum { N = sizeof(options) / sizeof(options[0]) };
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    for (int i = 0; i < N; i++) {
        char whole[32], run[32];
        snprintf(whole, sizeof(whole), "whole%d", i);
        snprintf(run, sizeof(run), "run%d", i);
        expect(0, TRAIN "%s --epochs 3 --out %s", options[i], whole);
        expect(0, TRAIN "%s --epochs 3 --stop-at 7 --out %s", options[i], run);
        expect(0, "train --resume %s -j 2 --threads 3", run);
        expect_same_runs(whole, run, 3);
        expect(0, "compare %s %s", whole, run);
        expect_out("result: identical");
    }
    expect(2, "train --resume run0 --param-groups fc.*:lr-scale=2");
    expect_err("--param-groups can't be changed on resume");
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
    expect(3, "train --data-dir there/list.csv --no-val --model mlp --image-size 8 -b 4 --out b");
    expect_err("there/list.csv: 20 of 20 training images are missing, such as '/");
    end_folder();
}
END_TEST

/* The paragraph of docs/training.md names every setting that may change on resume, and its first
 * sentence names no other. */
START_TEST(documented_changes)
{
    size_t n;
    char *page = read_file(LOCKSTEP_SOURCE_DIR "/docs/training.md", &n), word[64];
    char *begin = strstr(page, "**What may change on resume.**");
    ck_assert_ptr_nonnull(begin);
    char *paragraph_end = strstr(begin, "\n\n");
    ck_assert_ptr_nonnull(paragraph_end);
    *paragraph_end = '\0';
    const char *end = strstr(begin, "may change on each resume");
    ck_assert_ptr_nonnull(end);
    for (const ls_setting *s = ls_run_settings(); s->kind != LS_SETTING_END; s++) {
        if (!s->name || strcmp(s->name, "out") == 0 || strcmp(s->name, "resume") == 0) continue;
        snprintf(word, sizeof(word), "`--%s`", s->name);
        const char *found = strstr(begin, word);
        if (s->execution || s->lasting)
            ck_assert_msg(found != NULL, "training.md does not say that %s may change", word);
        else
            ck_assert_msg(!found || found > end, "training.md says that %s may change", word);
    }
    free(page);
}
END_TEST

TEST_PROGRAM(resume)
{
    return RUN_SUITE("resume", what_remains_of_a_damaged_run, a_resume_can_skip_bad_images,
                     a_run_without_an_option_has_its_default,
                     a_run_that_timed_kernels_keeps_its_arithmetic,
                     a_run_without_a_step_is_replaced, folders_with_other_files_are_refused,
                     a_folder_that_cannot_be_read, a_folder_without_permission,
                     a_finished_run_is_lengthened, a_schedule_over_all_epochs_is_not_lengthened,
                     optimizer_options_resume, a_moved_list, documented_changes);
}
