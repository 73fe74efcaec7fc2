/* test_compare_command.c: 'lockstep compare': identical runs, runs with an injected fault, and
 * folders that can't be compared. */
#include "command.h"

#include "../suite.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* 20 steps an epoch, with everything that draws random numbers. */
#define TRAIN "train --data-dir data --image-size 8 --epochs 2 -b 8 --crop-padding 2 "

static void draw_data(void)
{
    expect(0, "demo-data data --train 16 --val 4");
}

START_TEST(identical_runs)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--out a -j 0 --threads 1");
    expect(0, TRAIN "--out b -j 2 --threads 2 --stop-at 13");
    expect(0, "compare a b"); /* as far as both go */
    expect_out("A: a\nB: b\n");
    expect_out("A has 40 steps, B has 13; all common steps are identical");
    expect_out("result: identical in all common steps\n");
    expect(0, "train --resume b -j 1 --threads 3");
    expect(0, "compare a b");
    expect_out("identity: the same");
    expect_out("result: identical\n");
    expect(0, "compare a a --json");
    end_folder();
}
END_TEST

/* A report that could not be written gives no verdict, whatever it would have been. */
START_TEST(full_standard_output)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--out a --steps 2");
    expect(0, TRAIN "--out b --steps 2 --seed 1");
    static const char *const lines[] = { "compare a a", "compare a a --json", "compare a b" };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        char line[1200];
        snprintf(line, sizeof(line), LOCKSTEP_COMMAND " %s >/dev/full 2>said", lines[i]);
        ck_assert_int_eq(WEXITSTATUS(system(line)), 5);
        size_t size;
        char *said = read_file("said", &size);
        ck_assert_msg(strstr(said, "writing standard output: No space left"), "%s: %s", lines[i],
                      said);
        free(said);
    }
    end_folder();
}
END_TEST

START_TEST(runs_of_other_identities)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--out a --steps 3");
    expect(0, TRAIN "--out b --steps 3 --seed 1 --momentum 0.8");
    expect(2, "compare a b");
    expect_out("seed is \"0\" in A, \"1\" in B");
    expect_out("optimizer.momentum is 0.9 in A, 0.8 in B");
    expect_out("the first step that differs is 0, in: batch loss gradients weights");
    expect_out("result: not comparable: the identities differ, so no step is replayed\n");
    expect(0, TRAIN "--out c --steps 3 --seeding worker -j 1");
    expect(0, TRAIN "--out d --steps 3 --seeding worker -j 2");
    expect(2, "compare c d");
    expect_out("loader.workers is 1 in A, 2 in B");
    expect(0, TRAIN "--out e --steps 3 --decode fast");
    expect(2, "compare a e");
    expect_out("loader.decode_fast is missing in A, 1 in B");
    end_folder();
}
END_TEST

static void expect_not_out(const char *text)
{
    ck_assert_msg(!strstr(said_out, text), "'%s' is in:\n%s", text, said_out);
}

/* The recipe by its options, whatever the identity makes of them. */
START_TEST(options_are_named)
{
    static const struct {
        const char *options, *said;
    } cases[] = {
        { "--label-smoothing 0.2", "  --label-smoothing is 0.1 in A, 0.2 in B\n" },
        { "--stem large", "  --stem is \"auto\" in A, \"large\" in B\n" },
        { "--model resnet32", "  --model is \"resnet20\" in A, \"resnet32\" in B\n" },
        { "--zero-init-residual", "  --zero-init-residual is false in A, true in B\n" },
        { "--lr 0.5", "  --lr is 0.00625 in A, 0.5 in B\n" },
    };
    begin_folder();
    draw_data();
    expect(0, TRAIN "--out a --steps 1 -j 0 --threads 1");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        expect(0, TRAIN "--out b%zu --steps 1 -j 1 --threads 2 %s", i, cases[i].options);
        expect(2, "compare a b%zu", i);
        expect_out("options that differ:\n");
        expect_out(cases[i].said);
        expect_out("identity: different\n");
        expect_not_out("--workers"); /* changes no bit */
        expect_not_out("--threads");
        expect_not_out("--out");
    }
    expect(2, "compare a b0 --json");
    json_t *report = json_loads(said_out, 0, NULL);
    const json_t *first = json_array_get(json_object_get(report, "option_differences"), 0);
    ck_assert_str_eq(json_string_value(json_object_get(first, "field")), "--label-smoothing");
    json_decref(report);

    expect(0, TRAIN "--out c --steps 1 --patience 3"); /* not in the identity */
    expect(0, "compare a c");
    expect_out("  --patience is 0 in A, 3 in B\nidentity: the same\n");
    end_folder();
}
END_TEST

START_TEST(digests_of_contents_in_one_run)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--out a --steps 3");
    expect(0, TRAIN "--out b --steps 3 --digest-contents");
    expect(0, TRAIN "--out c --steps 3 --inject-fault 1:sgd@optimizer:3 --digest-contents");
    expect(0, TRAIN "--out d --steps 3 --digest-contents --seed 1");
    static const char *const sides[][2] = { { "a", "b" }, { "b", "a" } };
    for (int i = 0; i < 2; i++) {
        expect(0, "compare %s %s", sides[i][0], sides[i][1]);
        expect_out("identity: the same\n  digests of the data are not compared: only one run has");
        expect_out("result: identical\n");
    }
    expect(0, "compare b b");
    expect_not_out("not compared");
    expect(1, "compare a c");
    expect_out("step 1 (epoch 1, step 2): the first op whose output differs");
    expect(2, "compare a d");
    expect_out("seed is \"0\" in A, \"1\" in B");
    expect_not_out("data.digest");
    end_folder();
}
END_TEST

START_TEST(ops_of_a_fault_are_listed)
{
    begin_folder();
    draw_data();
    setenv("LOCKSTEP_LOG", "net=info", 1);
    expect(0, TRAIN "--shards 2 --steps 1 --out a --inject-fault 0:linear@fc:0");
    unsetenv("LOCKSTEP_LOG");
    expect_err("net: op 0: copy@input, 768 elements\n"); /* as bytes of images */
    expect_err("net: op 1: copy@label, 0 elements\n");
    expect_err(": copy@input#1, 768 elements\n");
    expect_err(": linear@fc, 40 elements\n");
    expect_err(": linear@fc#1, 40 elements\n");
    end_folder();
}
END_TEST

/* Portable arithmetic has the same results with every instruction set. */
START_TEST(runs_of_other_instruction_sets)
{
    const char *before = getenv("LOCKSTEP_MAX_ISA");
    char *usual = before ? strdup(before) : NULL;
    begin_folder();
    draw_data();
    setenv("LOCKSTEP_MAX_ISA", "plain", 1);
    expect(0, TRAIN "--out a --stop-at 2");
    setenv("LOCKSTEP_MAX_ISA", "avx2", 1);
    expect(0, TRAIN "--out b --stop-at 4");
    expect(0, "compare a b");
    expect(0, "train --resume a --stop-at 4");
    expect(0, "compare a b");
    ck_assert(same_files("a/run_log.txt", "b/run_log.txt"));
    setenv("LOCKSTEP_MAX_ISA", "AVX2", 1);
    expect(1, "train --resume a");
    expect_err("LOCKSTEP_MAX_ISA is 'AVX2', expected plain, avx2 or avx512\n");
    unsetenv("LOCKSTEP_MAX_ISA");
    if (usual) setenv("LOCKSTEP_MAX_ISA", usual, 1);
    free(usual);
    end_folder();
}
END_TEST

/* LOCKSTEP_MAX_ISA excludes products of bf16, and so oneDNN. */
START_TEST(native_runs_without_products_of_bf16)
{
    const char *before = getenv("LOCKSTEP_MAX_ISA");
    char *usual = before ? strdup(before) : NULL;
    if (!HAS_ONEDNN) SKIP("this build has no oneDNN");
    begin_folder();
    draw_data();
    expect(0, TRAIN "--precision bf16 --out a --stop-at 3");
    setenv("LOCKSTEP_MAX_ISA", "plain", 1);
    expect(0, TRAIN "--precision bf16 --arithmetic native --out b --stop-at 3");
    expect(0, "compare a b");
    setenv("LOCKSTEP_MAX_ISA", "avx2", 1);
    expect(0, "train --resume b --stop-at 5");
    expect(0, TRAIN "--arithmetic native --out f32 --stop-at 3");
    unsetenv("LOCKSTEP_MAX_ISA");
    expect(0, "train --resume f32 --stop-at 4");
    expect(0, "train --resume f32 --stop-at 5 --arithmetic portable");
    expect(0, TRAIN "--precision bf16 --arithmetic native --out c --stop-at 5");
    if (run_command("compare b c") == 2) { /* the processor multiplies bf16 */
        expect(1, "train --resume b");
        expect_err(
            "LOCKSTEP_MAX_ISA and ONEDNN_MAX_CPU_ISA must be set as they were; --force resumes");
        expect(1, "train --resume c --arithmetic portable");
        expect_err("libraries is 'oneDNN ");
        expect_err("omit --arithmetic to resume with that of the run; --force ignores");
    }
    if (usual) setenv("LOCKSTEP_MAX_ISA", usual, 1);
    free(usual);
    end_folder();
}
END_TEST

/* In the sum of gradients, which the digests of the step do not contain. That element's gradients
 * are 0.7 and -0.4, so that the ulp is not lost in their sum. */
START_TEST(a_fault_in_accumulated_gradients_is_located)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--accumulate 2 --stop-at 3 --out a");
    expect(0, TRAIN "--accumulate 2 --stop-at 3 --out b --inject-fault "
                    "0:gradient_sum@optimizer:26");
    expect(1, "compare a b");
    expect_out("the first step that differs is 1, in: gradients");
    expect_out(", gradient_sum of 'optimizer'");
    expect_out("sum ('conv1.weight')");
    end_folder();
}
END_TEST

/* In the sum of both shards' gradients, behind the elements of the partial sum, and in the second
 * shard's input. */
START_TEST(a_fault_in_a_shard_is_located)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--shards 2 --stop-at 1 --out a");
    expect(0, TRAIN "--shards 2 --stop-at 1 --out b --inject-fault "
                    "0:shard_sum@gradients#1:272506");
    expect(1, "compare a b");
    expect_out(", shard_sum of 'gradients'");
    expect_out("y ('conv1.weight')");
    expect(0, TRAIN "--shards 2 --stop-at 1 --out c --inject-fault 0:copy@input#1:3");
    expect(1, "compare a c");
    expect_out(", copy of 'input'");
    expect_out("copy U8 [4,8,8,3], element [0, 0, 1, 0]");
    end_folder();
}
END_TEST

/* From the start, from a checkpoint of one run, and from one of each; over the end of an epoch,
 * with a schedule that follows the metric. */
START_TEST(an_injected_fault_is_located)
{
    static const char *const keep[] = { "", "--keep-checkpoints",
                                        "--keep-checkpoints --checkpoint-every 6" };
    begin_folder();
    draw_data();
    for (int i = 0; i < 3; i++) {
        expect(0, TRAIN "--lr-scheduler plateau --out a%d -j 0 %s", i, keep[i]);
        expect(0,
               TRAIN "--lr-scheduler plateau --out b%d --threads 1 --inject-fault "
                     "33:linear_backward_weights@fc:3 %s",
               i, keep[i]);
    }
    for (int i = 0; i < 3; i++) {
        expect(1, "compare a%d b%d", i, 2 - i);
        expect_out("the first step that differs is 33, in:");
        expect_out("step 33 (epoch 2, step 14): the first op whose output differs");
        expect_out(", linear_backward_weights, backward of 'fc'");
        expect_out("1 ulp apart; 1 of ");
    }
    expect(1, "compare a0 b0 --json");
    json_t *report = json_loads(said_out, 0, NULL);
    ck_assert_str_eq(json_string_value(json_object_get(json_object_get(report, "replay"), "found")),
                     "op");
    json_decref(report);

    /* a fault that nobody noted: the replay meets the other run's record */
    json_t *manifest = json_load_file("b1/manifest.json", 0, NULL);
    json_t *session = json_array_get(json_object_get(manifest, "sessions"), 0);
    json_object_set_new(json_object_get(session, "execution"), "fault", json_null());
    ck_assert_int_eq(json_dump_file(manifest, "b1/manifest.json", 0), 0);
    json_decref(manifest);
    expect(1, "compare a0 b1");
    expect_out(
        "which matches A's run log: B was changed by a hardware fault, or by something outside");

    /* the data are gone, are elsewhere, are others */
    ck_assert_int_eq(system("mv data moved"), 0);
    expect(2, "compare a0 b0");
    expect_err("data");
    expect(1, "compare a0 b0 --data-dir moved");
    ck_assert_int_eq(system("printf x >>$(ls moved/train/star/* | head -1)"), 0);
    expect(2, "compare a0 b0 --data-dir moved");
    expect_err("can't be replayed: data.digest is");
    end_folder();
}
END_TEST

/* Names of classes and files may be any bytes: checkpoints and reports bring them back. */
START_TEST(names_that_are_not_utf8)
{
    begin_folder();
    draw_data();
    ck_assert_int_eq(system("for d in data/train data/val; do mv $d/star $d/$(printf 'caf\\351'); "
                            "mv $d/ring $d/'a\\x41\\'; done"),
                     0);
    expect(0, TRAIN "--epochs 1 --out a --stop-at 3");
    expect(0, "train --resume a");
    expect(0, "eval --checkpoint a/last.safetensors --data-dir data --per-class");
    expect_out("\n  caf\xe9 ");
    expect_out("\n  a\\x41\\ ");
    ck_assert_int_eq(system("cp $(ls -d data/val/caf*/* | head -1) image.png"), 0);
    expect(0, "predict --checkpoint a/last.safetensors --top 10 image.png");
    expect_out("  caf\xe9\n");

    /* an image changes without a change of its size */
    ck_assert_int_eq(
        system("mv a $(printf 'r\\351') && cp -r data other && for f in other/train/caf*/*; do "
               "printf '\\252' | dd of=$f bs=1 seek=60 conv=notrunc status=none; "
               "done"),
        0);
    expect(0, TRAIN "--epochs 1 --on-bad-image skip --data-dir other --out b");
    expect(1, "compare r\xe9 b --json");
    json_t *report = json_loads(said_out, 0, NULL);
    ck_assert_str_eq(json_string_value(json_object_get(report, "a")), "r\\xE9");
    ck_assert(json_is_object(json_object_get(report, "replay")));
    ck_assert_ptr_nonnull(strstr(said_out, "/caf\\\\xE9/"));
    json_decref(report);
    end_folder();
}
END_TEST

/* In JSON too no control character reaches a terminal, and all come back. */
START_TEST(control_characters_in_json)
{
#define NAME "b\177\xc2\x9b\xe2\x80\xae\xc3\xa9"
    begin_folder();
    draw_data();
    expect(0, TRAIN "--out a --steps 1");
    expect(0, TRAIN "--out " NAME " --steps 1");
    expect(0, "compare a " NAME " --json");
    expect_out("\"b\\u007f\\u009b\\u202e\xc3\xa9\"");
    json_t *report = json_loads(said_out, 0, NULL);
    ck_assert_str_eq(json_string_value(json_object_get(report, "b")), NAME);
    json_decref(report);
    end_folder();
#undef NAME
}
END_TEST

/* An image's bytes change, but not its name and size: the batch digest shows it. */
START_TEST(a_replaced_image_is_located)
{
    begin_folder();
    draw_data();
    ck_assert_int_eq(system("cp -r data other && cd other/train && f=$(ls star/* | head -1) && "
                            "g=$(ls star/* | tail -1) && s=$(wc -c <$f) && t=$(wc -c <$g) && "
                            "if [ $s -lt $t ]; then u=$t; else u=$s; fi && "
                            "for d in ../../data/train ../../other/train; do "
                            "truncate -s $u $d/$f; truncate -s $u $d/$g; done && cp $g $f"),
                     0);
    expect(0, TRAIN "--out a --on-bad-image skip");
    expect(0, TRAIN "--data-dir other --out b --on-bad-image skip");
    expect(1, "compare a b");
    expect_out("the batches differ");
    expect_out("star/");
    expect_out("\n  image U8 [8,8,3], element [");
    expect_out(" of 192 elements differ\n");
    end_folder();
}
END_TEST

START_TEST(mistakes)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--out a --steps 2");
    expect(2, "compare");
    expect_err("expected two run folders, got 0");
    expect(2, "compare a");
    expect(2, "compare a nosuch");
    expect_err("compare: nosuch: no such folder\n");
    expect(2, "compare a data");
    expect_err("compare: data/config.json: no such file; the folder contains no run\n");
    expect(2, "compare a a/config.json");
    expect_err("compare: a/config.json: not a folder; expected the folder of a run\n");
    expect(2, TRAIN "--out b --inject-fault 3:x");
    expect_err("expected STEP:OP:ELEMENT");
    expect(2, TRAIN "--out b --inject-fault 99999999999999999999:0:0");
    expect_err("the run has steps 0 to ");
    expect(1, TRAIN "--out c --inject-fault 0:100000:0");
    expect_err("injected fault: op 100000; the step has ");
    expect(1, TRAIN "--out c --inject-fault 0:linear@fc#1:0");
    expect_err(" ops, 1 of them linear@fc\n");
    static const char *const ops[] = { "linear", "linear@fc#", "linear@fc#x", "linear@fc#-1",
                                       "-1" };
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        expect(2, TRAIN "--out d --inject-fault 0:%s:0", ops[i]);
        expect_err("expected STEP:OP:ELEMENT");
    }
    ck_assert_int_eq(system("cp -r a d && printf 'no record' >d/run_log.txt"), 0);
    expect(2, "compare a d");
    expect_out("A has 2 steps, B has 0");
    ck_assert_int_eq(system("yes no | head -c 300 >d/run_log.txt"), 0);
    expect(2, "compare a d");
    expect_err("d/run_log.txt");
    ck_assert_int_eq(system("echo '{}' >d/manifest.json"), 0);
    expect(2, "compare a d");
    expect_err("d/manifest.json: missing 'identity', 'sessions' or a session's 'execution'");
    ck_assert_int_eq(system("echo '{\"identity\": {}, \"sessions\": [{}]}' >d/manifest.json"), 0);
    expect(2, "compare d a");
    expect_err("d/manifest.json: missing 'identity', 'sessions' or a session's 'execution'");
    end_folder();
}
END_TEST

/* None is waited for, and none is read without end. */
START_TEST(special_files_in_a_run_folder)
{
    static const mode_t kinds[] = { S_IFIFO, S_IFSOCK, S_IFDIR, S_IFLNK };
    static const char *const names[] = { "config.json", "manifest.json" };
    begin_folder();
    draw_data();
    expect(0, TRAIN "--out a --steps 1");
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
        for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
            char path[64], wanted[128];
            ck_assert_int_eq(system("rm -rf d; cp -r a d"), 0);
            snprintf(path, sizeof(path), "d/%s", names[n]);
            remove(path);
            const int made = kinds[k] == S_IFDIR   ? mkdir(path, 0700)
                             : kinds[k] == S_IFLNK ? symlink("/dev/zero", path)
                                                   : mknod(path, kinds[k] | 0600, 0);
            ck_assert_int_eq(made, 0);
            snprintf(wanted, sizeof(wanted), "%s: not a regular file\n", path);
            expect(2, "compare a d");
            expect_err(wanted);
            expect(1, "train --resume d");
            expect_err(wanted);
        }
    end_folder();
}
END_TEST

TEST_PROGRAM(compare_command)
{
    return RUN_SUITE("compare_command", identical_runs, full_standard_output,
                     runs_of_other_identities, native_runs_without_products_of_bf16,
                     runs_of_other_instruction_sets, options_are_named, ops_of_a_fault_are_listed,
                     digests_of_contents_in_one_run, an_injected_fault_is_located,
                     a_fault_in_accumulated_gradients_is_located, a_fault_in_a_shard_is_located,
                     names_that_are_not_utf8, control_characters_in_json,
                     a_replaced_image_is_located, mistakes, special_files_in_a_run_folder);
}
