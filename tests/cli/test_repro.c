/* test_repro.c: the experiment with workers, threads and restarts: its verdict, what it leaves, and
 * what happens when a run fails or is interrupted. */
#include "../report/html_check.h"
#include "command.h"

#include "../suite.h"
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

/* 20 steps an epoch. */
#define REPRO "repro --data-dir data --image-size 8 --epochs 2 -b 8 --crop-padding 2 --no-val "

static void draw_data(void)
{
    expect(0, "demo-data data --train 16 --val 1");
}

static void expect_in_file(const char *path, const char *text)
{
    size_t size;
    char *all = read_file(path, &size);
    ck_assert_msg(strstr(all, text), "'%s' is not in %s:\n%s", text, path, all);
    free(all);
}

static int count_lines(const char *path)
{
    size_t size;
    char *text = read_file(path, &size);
    int n = 0;
    for (size_t i = 0; i < size; i++) n += text[i] == '\n';
    free(text);
    return n;
}

/* Counts the runs with the results A and B in a page's grids. Cuts the text after the grids. */
static void expect_grid_results(char *seen, int n_a, int n_b)
{
    char *end = strstr(seen, "\nResults\n");
    ck_assert_ptr_nonnull(end);
    *end = '\0';
    ck_assert_int_eq(count_parts(seen, "| A"), n_a);
    ck_assert_int_eq(count_parts(seen, "| B"), n_b);
}

START_TEST(one_result)
{
    begin_folder();
    draw_data();
    expect(0, REPRO "--steps 22 --workers 0,3 --threads 2,1 --restart 2 --out a/b");
    expect_out("One result: all 8 runs are bit-identical in all 22 steps.");
    ck_assert_str_eq(said_err, "");
    expect_out("'3x1': 3 workers, 1 thread; '@"); /* a run that is there, with its restart */
    expect_out("resumed with 0 workers, 2 threads\n");
    ck_assert_int_eq(count_lines("a/b/repro.csv"), 9);
    expect_in_file("a/b/repro.csv", "\nw3-t2,3,2,1,0,3x2,22,");
    expect_in_file("a/b/repro.csv", "\nw3-t1-r2,3,1,1,2,3x1 @"); /* then 0x2, then 3x1 */
    ck_assert_int_eq(count_lines("a/b/losses.csv"), 23);
    expect_in_file("a/b/repro.svg", ">8 runs of 22 steps: 1 result<");
    expect_in_file("a/b/repro.svg", ">8 runs: same result as w0-t2<");
    expect_in_file("a/b/repro.svg", ">Gaps: interrupted and resumed.<");
    char *html = read_page("a/b/report.html"), *seen = page_text(html);
    expect_part(seen, "\nOne result: all 8 runs are bit-identical in all 22 steps.\n");
    expect_part(seen, "\nInterrupted 2 times and resumed\n");
    expect_part(seen, " repro --workers=0,3 ");
    ck_assert_ptr_null(strstr(seen, "--out"));
    expect_grid_results(seen, 8, 0);
    free(seen);
    free(html);
    ck_assert(same_files("a/b/w0-t2/run_log.txt", "a/b/w3-t1-r2/run_log.txt"));
    expect_in_file("a/b/w3-t1-r2.log", "run     a/b/w3-t1-r2, resumed at epoch ");
    end_folder();
}
END_TEST

/* Seeding by worker: the second batch is another worker's. A fixed number of workers repeats. */
START_TEST(different_results)
{
    begin_folder();
    draw_data();
    expect(1, REPRO "--steps 6 --workers 1,2 --threads 1,2 --restart 1 --seeding worker");
    expect_out("2 results: the runs differ.");
    expect_out("  4 runs: 1x1, 1x2, 1x1 @");
    expect_out("  4 runs: 2x1, 2x2, 2x1 @");
    expect_out("; differ from 1x1 from step 1 on: batch, loss, gradients, weights\n");
    expect_in_file("repro/repro.csv", ",w1-t1,,\n");
    expect_in_file("repro/repro.csv", ",w2-t1,1,batch loss gradients weights\n");
    expect_in_file("repro/repro.svg", ">8 runs of 6 steps: 2 results</text>");
    expect_in_file("repro/repro.svg", ">4 runs: same result as w2-t1; diverges at step 1</text>");
    char *html = read_page("repro/report.html"), *seen = page_text(html);
    expect_part(seen,
                "\n2 results: the runs differ, first in step 1 (step 2 of epoch 1): batch, loss, "
                "gradients, weights. Runs with the same number of workers have the same "
                "result.\n");
    expect_part(seen, " compare repro/w1-t1 repro/w2-t1\n");
    expect_part(seen, "\n| libraries | ");
    expect_grid_results(seen, 4, 4);
    free(seen);
    free(html);
    end_folder();
}
END_TEST

/* The arguments of the runs; all runs use the kernels that the first one timed. */
START_TEST(training_options_apply)
{
    if (!HAS_ONEDNN) SKIP("this build has no oneDNN");
    begin_folder();
    draw_data();
    expect(0, REPRO "--steps 3 --workers 0 --threads 1,2 --arithmetic native --benchmark "
                    "--seed 9007199254740993 "
                    "--opt=adamw --lr 0.0123 --stem small");
    ck_assert(exists("repro/kernels.json"));
    json_t *config = json_load_file("repro/w0-t2/config.json", 0, NULL);
    const json_t *options = json_object_get(config, "options");
    ck_assert_int_eq(json_integer_value(json_object_get(options, "seed")), 9007199254740993);
    ck_assert(json_number_value(json_object_get(options, "lr")) == 0.0123);
    ck_assert_str_eq(json_string_value(json_object_get(options, "opt")), "adamw");
    ck_assert_str_eq(json_string_value(json_object_get(options, "stem")), "small");
    ck_assert(json_is_true(json_object_get(options, "no-val")));
    ck_assert_int_eq(json_integer_value(json_object_get(options, "threads")), 2);
    json_decref(config);
    end_folder();
}
END_TEST

/* One combination, with and without a restart; no worker is explained that is not there. */
START_TEST(one_combination_is_an_error)
{
    begin_folder();
    draw_data();
    expect(0, REPRO "--steps 3 --workers 2 --threads 1 --restart 1");
    expect_out("One result: all 2 runs");
    expect_out("'2x1': 2 workers, 1 thread; '@");
    expect(0, REPRO "--steps 2 --workers 0,1 --threads 2");
    expect_out("\n'1x2': 1 worker, 2 threads\n");
    end_folder();
}
END_TEST

START_TEST(misuse)
{
    begin_folder();
    draw_data();
    static const char *const lists[] = { "--workers 1,1",  "--workers 1,",    "--workers ,1",
                                         "--workers x",    "--workers 0,257", "--workers 1;2",
                                         "--threads 0",    "--threads -1",    "--workers \t1",
                                         "--workers 0,\n1" };
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        expect(2, REPRO "%s", lists[i]);
        expect_err(" different integers from ");
    }
    expect(2, "repro");
    expect_err("--data-dir DIR is required");
    expect(2, REPRO "--stop-at 3");
    expect_err("unknown option '--stop-at'");
    expect(2, REPRO "--opt adam --momentum 0.5");
    expect_err("--momentum has no effect here");
    expect(2, REPRO "--steps 3 --restart 3");
    expect_err("--restart 3: expected less than --steps 3");
    expect(2, REPRO "--steps 3 --workers 2 --threads 1");
    expect_err(
        "--workers 2, --threads 1 and --ranks 1 give only one run; a comparison requires two");
    expect(2, REPRO "--steps 41");
    expect_err("2 epochs of these images have 40 steps: use --epochs 3 or fewer steps");
    expect(3, "repro --data-dir nowhere");
    ck_assert(!exists("repro"));
    write_text("repro", "mine");
    expect(2, REPRO "--out repro");
    expect_err("repro exists already; expected a new folder for --out");
    expect(2, REPRO "--out data");
    expect(5, REPRO "--steps 9 --out repro/below");
    expect_err("repro/below");
    expect(0, "repro --help");
    expect_out("--restart N");
    expect_out("--label-smoothing X");
    end_folder();
}
END_TEST

START_TEST(a_failed_run_is_reported)
{
    begin_folder();
    draw_data();
    write_text("data/train/star/bad.png", "no image");
    expect(3, REPRO "--workers 0,1 --threads 1 --steps 20");
    expect_err("run w0-t1 failed with status 3; repro/w0-t1.log ends with:");
    expect_err("data/train/star/bad.png");
    ck_assert(!exists("repro/w1-t1") && !exists("repro/repro.csv"));
    /* whoever started us may ignore the ends of children */
    const int status = system("trap '' CHLD; exec " LOCKSTEP_COMMAND " " REPRO
                              "--workers 0,1 --threads 1 --steps 20 --out ignored >said 2>&1");
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 3);
    expect(0, REPRO "--workers 0,1 --threads 1 --steps 20 --on-bad-image skip --out skipped");

    /* a disk that is too small for the weights */
    const pid_t pid = start_command(100000, REPRO "--steps 2 --workers 0,1 --threads 1 "
                                                  "--on-bad-image skip --out full");
    ck_assert_int_eq(wait_command(pid), 5);
    expect_err("run w0-t1 failed with status 1");
    expect_err("File too large");
    end_folder();
}
END_TEST

static bool has_bytes(const char *path)
{
    struct stat there;
    return stat(path, &there) == 0 && there.st_size > 0;
}

#define FOR_EVER                                                                                   \
    "repro --data-dir data --image-size 8 -b 8 --epochs 50000 --steps 1000000 --workers 0,1 "      \
    "--threads 1 "

/* The child is in the middle of a run that would take for ever; it saves before either ends. */
START_TEST(interrupted)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
    begin_folder();
    draw_data();
    for (int i = 0; i < 4; i++) {
        const pid_t pid = start_command(0, FOR_EVER "--out run%d", i);
        char record[64], saved[64], text[64];
        snprintf(record, sizeof(record), "run%d/w0-t1/run_log.txt", i);
        snprintf(saved, sizeof(saved), "run%d/w0-t1/last.safetensors", i);
        while (!has_bytes(record) && kill(pid, 0) == 0)
            nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
        kill(pid, numbers[i]);
        ck_assert_int_eq(wait_command(pid), 128 + numbers[i]);
        snprintf(text, sizeof(text), "signal %d: stopped in run 1 of 2", numbers[i]);
        expect_err(text);
        ck_assert(exists(saved));
        snprintf(text, sizeof(text), "run%d/w1-t1.log", i);
        ck_assert(!exists(text));
    }
    end_folder();
}
END_TEST

/* As in the background of a shell (&), where Ctrl-C is ignored. */
START_TEST(an_ignored_interrupt_does_not_stop_the_runs)
{
    begin_folder();
    draw_data();
    ignored_signal = SIGINT;
    const pid_t pid =
        start_command(0, REPRO "--steps 30 --workers 0,1 --threads 1 --out background");
    ignored_signal = 0;
    while (!has_bytes("background/w0-t1/run_log.txt") && kill(pid, 0) == 0)
        nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    kill(pid, SIGINT);
    ck_assert_int_eq(wait_command(pid), 0);
    expect_out("One result: ");
    end_folder();
}
END_TEST

/* If the parent is killed, the child saves and ends. */
START_TEST(killed)
{
    begin_folder();
    draw_data();
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0); /* orphans become ours */
    const pid_t pid = start_command(0, FOR_EVER "--out run");
    while (!has_bytes("run/w0-t1/run_log.txt") && kill(pid, 0) == 0)
        nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    kill(pid, SIGKILL);
    ck_assert_int_eq(wait_command(pid), 128 + SIGKILL);
    int status;
    ck_assert_int_gt(waitpid(-1, &status, 0), 0);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 128 + SIGTERM);
    ck_assert(exists("run/w0-t1/last.safetensors"));
    end_folder();
}
END_TEST

TEST_PROGRAM(repro)
{
    return RUN_SUITE("repro", one_result, different_results, training_options_apply,
                     one_combination_is_an_error, misuse, a_failed_run_is_reported, interrupted,
                     an_ignored_interrupt_does_not_stop_the_runs, killed);
}
