/* test_crash_train.c: `lockstep train`, killed at any call that changes files, or by a power
 * failure there, resumes to the same files as an uninterrupted run. The trainer is the command's
 * own, in a forked process whose calls are noted. */
#include "command.h"
#include "run_files.h"

#include "../run/crash_calls.h"
#include "../suite.h"
#include "cli.h"
#include <fcntl.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* 2 steps an epoch: one save in mid-epoch, one at its end. */
enum { STEPS = 2, MAX_WORDS = 32 };
#define BEGIN                                                                                      \
    "--data-dir data --image-size 8 --epochs 1 -b 4 --crop-padding 2 --seed 7 -j 0 --threads 1 "   \
    "--checkpoint-every 1 --keep-checkpoints --out run"

#define RESUME "--resume run"

static call_trace *trace;

/* ---- Processes ---- */

/* 'lockstep train <line>' in a child, which is traced when it is to be: exit status, or 128 + the
 * signal that ended it. */
static int run_train(const char *line, call_trace *traced)
{
    const pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid != 0) return wait_command(pid);
    char text[512], *words[MAX_WORDS];
    int n = 0;
    snprintf(text, sizeof(text), "%s", line);
    for (char *word = strtok(text, " "); word && n < MAX_WORDS; word = strtok(NULL, " "))
        words[n++] = word;
    if (!freopen(".said-out", "w", stdout) || !freopen(".said-err", "w", stderr)) _exit(127);
    trace_calls(traced);
    const int answer = cli_run_command(&command_train, n, words);
    fflush(NULL);
    _exit(answer);
}

static void begin(void)
{
    begin_folder();
    expect(0, "demo-data data --train 1 --val 1");
    ck_assert_int_eq(mkdir("shadow", 0777), 0);
    trace = mmap(NULL, sizeof(*trace), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(trace, MAP_FAILED);
    *trace = (call_trace){ .kill_at = -1, .shadow = "shadow" };
}

/* The next traced process dies at its call k; -1 = at none. */
static void begin_trace(int k, crash how)
{
    ck_assert_int_eq(system("rm -f shadow/*"), 0);
    trace->n = 0;
    trace->kill_at = k;
    trace->how = how;
}

static void end(void)
{
    munmap(trace, sizeof(*trace));
    end_folder();
}

/* The undisturbed run, and what it called. Its config has the folder's name, thus it had the same.
 */
static void run_whole(void)
{
    ck_assert_msg(run_train(BEGIN, trace) == 0, "%s", said_err);
    ck_assert_int_eq(rename("run", "whole"), 0);
}

/* The process dies at its call k. */
static void run_until(const char *line, int k, crash how)
{
    begin_trace(k, how);
    const int status = run_train(line, trace);
    ck_assert_msg(status == 128 + SIGKILL, "call %d: status %d: %s", k, status, said_err);
}

static bool has_step(void)
{
    struct stat there;
    return stat("run/run_log.txt", &there) == 0 && there.st_size >= 129; /* a whole line */
}

/* Continues as a user would: by the same command if the folder holds no run, else by --resume. The
 * wrong one of both is an error, except that a run without a step may be begun again. */
static void go_on(void)
{
    const bool is_run = exists("run/config.json");
    if (!is_run || has_step()) {
        ck_assert_int_ne(run_train(is_run ? BEGIN : RESUME, NULL), 0);
        expect_err(is_run ? "run already contains a run" : "; --out run starts a run there");
    }
    const int status = run_train(is_run ? RESUME : BEGIN, NULL);
    ck_assert_msg(status == 0, "not resumed: %s", said_err);
}

/* ---- Comparing ---- */

/* Files that hold no times. */
static const char *const same_bytes[] = { "run_log.txt",
                                          "config.json",
                                          "first_batch.jpg",
                                          "first_batch.json",
                                          "evaluation.json",
                                          "best.safetensors",
                                          "last.safetensors",
                                          "checkpoint-000000000000.safetensors",
                                          "checkpoint-000000000002.safetensors" };

static void expect_same_manifests(void)
{
    json_t *whole = read_identity("whole/manifest.json"), *run = read_identity("run/manifest.json");
    ck_assert(whole && json_equal(whole, run));
    json_decref(whole);
    json_decref(run);
}

static void expect_same_runs(const char *when, int k)
{
    /* each process has its own event file */
    ck_assert_msg(system("ls -A -I 'events.*' whole >a; ls -A -I 'events.*' run >b; diff a b") == 0,
                  "other files %s %d", when, k);
    for (size_t i = 0; i < sizeof(same_bytes) / sizeof(same_bytes[0]); i++) {
        char whole[64], run[64];
        snprintf(whole, sizeof(whole), "whole/%s", same_bytes[i]);
        snprintf(run, sizeof(run), "run/%s", same_bytes[i]);
        ck_assert_msg(same_files(whole, run), "%s differs %s %d", same_bytes[i], when, k);
    }
    expect_same_tensors("whole/checkpoint-000000000001.safetensors",
                        "run/checkpoint-000000000001.safetensors");
    expect_same_metrics("whole/metrics.jsonl", "run/metrics.jsonl", 1);
    expect_same_manifests();
}

/* ---- Tests ---- */

typedef struct wanted_calls {
    const char *file;    /* as a pattern, because the name of an event file contains the time */
    int n[N_CALL_KINDS]; /* places to die at: of a run of writes the first and the middle one */
} wanted_calls;

#define SAVED(n)                                                                                   \
    {                                                                                              \
        [CALL_CREATE] = (n), [CALL_WRITE] = 2 * (n), [CALL_FSYNC] = (n), [CALL_RENAME] = (n)       \
    }
#define SAVED_IN_ONE_WRITE                                                                         \
    {                                                                                              \
        [CALL_CREATE] = 1, [CALL_WRITE] = 1, [CALL_FSYNC] = 1, [CALL_RENAME] = 1                   \
    }

/* A new call must be added here before the tests pass, so that they also kill the process at that
 * call. */
static const wanted_calls wanted[] = {
    { "run", { [CALL_MKDIR] = 1 } },
    { "/", { [CALL_FSYNC] = 1 + 13 } }, /* after mkdir and each rename */
    { ".lock", { [CALL_CREATE] = 1 } },
    { "config.json", SAVED(1) },
    { "manifest.json", SAVED(2) },
    { "metrics.jsonl", SAVED_IN_ONE_WRITE },
    { "metrics.csv", SAVED_IN_ONE_WRITE },
    { "events.out.tfevents.*", { [CALL_CREATE] = 1, [CALL_WRITE] = 2 } },
    { "log.txt", { [CALL_CREATE] = 1 } },
    { "first_batch.jpg", SAVED_IN_ONE_WRITE },
    { "first_batch.json", SAVED(1) },
    { "evaluation.json", SAVED_IN_ONE_WRITE },
    { "report.html", SAVED_IN_ONE_WRITE },
    { "best.safetensors", SAVED(1) },
    { "last.safetensors", SAVED(1 + STEPS) },
    { "checkpoint-000000000000.safetensors", { [CALL_LINK] = 1 } },
    { "checkpoint-000000000001.safetensors", { [CALL_LINK] = 1 } },
    { "checkpoint-000000000002.safetensors", { [CALL_LINK] = 1 } },
    { "run_log.txt",
      { [CALL_CREATE] = 1,
        [CALL_TRUNCATE] = 1,
        [CALL_WRITE] = STEPS,
        [CALL_FSYNC] = 1 + STEPS + 1 } }, /* before each save of weights */
};
enum { N_WANTED = sizeof(wanted) / sizeof(wanted[0]) };

START_TEST(file_calls_match_the_list)
{
    begin();
    run_whole();
    int found[N_WANTED][N_CALL_KINDS] = { { 0 } };
    for (int i = 0; i < trace->n; i++) {
        const call *c = &trace->calls[i];
        if (!is_worth_dying(trace, i)) continue;
        int w = 0;
        while (w < N_WANTED && fnmatch(wanted[w].file, call_file(trace, i), 0) != 0) w++;
        ck_assert_msg(w < N_WANTED, "call %d of kind %d is about %s", i, (int)c->kind,
                      call_file(trace, i));
        found[w][c->kind]++;
        ck_assert_msg(c->kind != CALL_RENAME || !c->dirty, "%s was not flushed", c->to);
    }
    for (int w = 0; w < N_WANTED; w++)
        for (int kind = 0; kind < N_CALL_KINDS; kind++)
            ck_assert_msg(found[w][kind] == wanted[w].n[kind], "%s: %d calls of kind %d, wanted %d",
                          wanted[w].file, found[w][kind], kind, wanted[w].n[kind]);
    end();
}
END_TEST

/* The calls worth dying at, of a trace that is going to be overwritten. */
static int choose_calls(int chosen[MAX_CALLS])
{
    int n = 0;
    for (int i = 0; i < trace->n; i++)
        if (is_worth_dying(trace, i)) chosen[n++] = i;
    return n;
}

/* Had the run its config on the disk, and all of the folders above it? */
static bool was_begun(void)
{
    for (int i = 0; i + 1 < trace->n; i++)
        if (trace->calls[i].kind == CALL_RENAME && strcmp(call_file(trace, i), "config.json") == 0)
            return trace->calls[i + 1].kind == CALL_FSYNC;
    return false;
}

START_TEST(killed_before_any_call)
{
    int chosen[MAX_CALLS];
    begin();
    run_whole();
    const int n = choose_calls(chosen);
    for (int i = 0; i < n; i++) {
        ck_assert_int_eq(system("rm -rf run"), 0);
        run_until(BEGIN, chosen[i], CRASH_BEFORE_CALL);
        go_on();
        expect_same_runs("before call", chosen[i]);
    }
    end();
}
END_TEST

/* By turns the disk has kept all names, or none that were not flushed. Of a begun run nothing is
 * lost that a start from new would have to make again. */
START_TEST(power_fails_in_any_call)
{
    int chosen[MAX_CALLS];
    begin();
    run_whole();
    const int n = choose_calls(chosen);
    for (int i = 0; i < n; i++) {
        ck_assert_int_eq(system("rm -rf run"), 0);
        run_until(BEGIN, chosen[i], CRASH_IN_CALL);
        cut_power(trace, "run", i % 2 == 0);
        ck_assert_msg(exists("run/config.json") || !was_begun(), "lost after call %d", chosen[i]);
        go_on();
        expect_same_runs("after call", chosen[i]);
    }
    end();
}
END_TEST

/* The first or the last call of this kind about this file. */
static int find_call(call_kind kind, const char *file, bool last)
{
    int found = -1;
    for (int i = 0; i < trace->n && (last || found < 0); i++)
        if (trace->calls[i].kind == kind && strcmp(call_file(trace, i), file) == 0) found = i;
    ck_assert_msg(found >= 0, "no call of kind %d about %s", (int)kind, file);
    return found;
}

/* A resume of a run with a step too many in its run log and a checkpoint under its temporary name
 * has leftovers to remove and lines to cut. It dies at each of its calls up to its first step. */
START_TEST(killed_again_before_any_call_of_a_resume)
{
    int chosen[MAX_CALLS], n_tried = 0;
    begin();
    run_whole();
    run_until(BEGIN, find_call(CALL_RENAME, "last.safetensors", true), CRASH_BEFORE_CALL);
    ck_assert_int_eq(system("cp -r run wreck"), 0);
    begin_trace(-1, CRASH_BEFORE_CALL);
    ck_assert_msg(run_train(RESUME, trace) == 0, "%s", said_err);
    ck_assert_int_eq(trace->calls[0].kind, CALL_UNLINK);
    const int line = find_call(CALL_WRITE, "run_log.txt", false);
    const int n = choose_calls(chosen);
    for (int i = 0; i < n && chosen[i] <= line; i++, n_tried++) {
        ck_assert_int_eq(system("rm -r run && cp -r wreck run"), 0);
        run_until(RESUME, chosen[i], CRASH_BEFORE_CALL);
        go_on();
        expect_same_runs("before call of the resume", chosen[i]);
    }
    /* leftover, both metrics files, record's cut, manifest, first line */
    ck_assert_int_eq(n_tried, 1 + 2 * 4 + 1 + 6 + 1);
    end();
}
END_TEST

TEST_PROGRAM(crash_train)
{
    return RUN_SUITE("crash_train", file_calls_match_the_list, killed_before_any_call,
                     power_fails_in_any_call, killed_again_before_any_call_of_a_resume);
}
