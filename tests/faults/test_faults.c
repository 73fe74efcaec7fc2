/* test_faults.c: whole processes of the command in which one call of the system fails, through
 * fail_calls.c. The command must end with its own exit code and a message, or with the results of
 * the undisturbed run; what comes after it (a resume, a second try) must give those results to the
 * byte. LOCKSTEP_FAULTS=N tries up to N calls of each kind and calling
 * library; otherwise a few.
 */
#include "../cli/command.h"

#include "../suite.h"
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNTS_MAX = 256, LINE_SIZE = 512 };

/* How often the undisturbed command makes a call. */
typedef struct call_count {
    char kind[32], caller[32];
    int count;
} call_count;

/* One command, and how its results are checked. */
typedef struct job {
    const char *command;
    /* Saves the results of the undisturbed command. */
    void (*keep)(void);
    /* Compares with them. */
    void (*expect_kept)(const char *when);
    /* After a command that failed: what a user does next, until the results are there. */
    void (*recover)(const char *when);
    /* Before each command: removes what an earlier one made. */
    const char *clean;
} job;

/* A failed allocation in these ends the process, whatever their caller does: they are counted only.
 */
static const char *const unchecked[] = { "libdnnl", "libstdc++", "libgomp" };

static bool is_unchecked(const char *caller)
{
    for (size_t i = 0; i < sizeof(unchecked) / sizeof(unchecked[0]); i++)
        if (strncmp(caller, unchecked[i], strlen(unchecked[i])) == 0) return true;
    return false;
}

static int n_findings;

/* Reports a finding and continues with the next call. */
__attribute__((format(printf, 2, 3))) static void check(bool good, const char *format, ...)
{
    va_list args;
    if (good) return;
    n_findings++;
    printf("finding: ");
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("; it printed: %s\n", said_err);
}

static void shell(const char *line)
{
    ck_assert_msg(system(line) == 0, "%s", line);
}

/* Runs the command with these settings of fail_calls.c; NULL = unset. */
static int run_with(const job *j, const char *call, const char *caller, const char *counts)
{
    shell(j->clean);
    setenv("LD_PRELOAD", "./fail_calls.so", 1); /* a path with spaces would be two */
    if (call) setenv("FAIL_CALL", call, 1);
    if (caller) setenv("FAIL_CALLER", caller, 1);
    if (counts) setenv("FAIL_COUNTS", counts, 1);
    const pid_t pid = start_command(0, "%s", j->command);
    unsetenv("LD_PRELOAD");
    unsetenv("FAIL_CALL");
    unsetenv("FAIL_CALLER");
    unsetenv("FAIL_COUNTS");
    return wait_command(pid);
}

static int read_counts(const char *path, call_count counts[COUNTS_MAX])
{
    size_t size;
    int n = 0, length;
    char *text = read_file(path, &size);
    for (char *at = text; n < COUNTS_MAX; at += length, n++) {
        call_count *c = &counts[n];
        if (sscanf(at, "%31s %31s %d\n%n", c->kind, c->caller, &c->count, &length) != 3) break;
    }
    ck_assert_int_gt(n, 0);
    ck_assert_int_lt(n, COUNTS_MAX);
    free(text);
    return n;
}

/* ---- One failing call ---- */

typedef struct tally {
    int tried, survived, reported;
} tally;

/* The command's own exit codes: runtime and data (usage is no answer to a failing call). */
static bool is_own_status(int status)
{
    return status == 1 || status == 3;
}

static void fail_once(const job *j, const call_count *c, const char *call, tally *t)
{
    char when[LINE_SIZE];
    const int status = run_with(j, call, c->caller, NULL);
    snprintf(when, sizeof(when), "FAIL_CALL=%s FAIL_CALLER=%s lockstep %s", call, c->caller,
             j->command);
    t->tried++;
    if (status == 0) {
        t->survived++;
        j->expect_kept(when);
        return;
    }
    check(is_own_status(status), "%s: status %d", when, status);
    check(*said_err, "%s: status %d without a message", when, status);
    t->reported++;
    j->recover(when);
    j->expect_kept(when);
}

/* Call k of n, from 1, is tried: at most LOCKSTEP_FAULTS of them, evenly spaced. */
static bool is_chosen(int64_t k, int64_t n)
{
    enum { FEW = 4 };
    const char *text = getenv("LOCKSTEP_FAULTS");
    const int64_t most = text && atoi(text) > 0 ? atoi(text) : FEW;
    return n <= most || k * most / n != (k - 1) * most / n;
}

static void fail_all(const job *j)
{
    call_count counts[COUNTS_MAX];
    int n_tried = 0;
    ck_assert_int_eq(symlink(LOCKSTEP_FAIL_CALLS, "fail_calls.so"), 0);
    ck_assert_msg(run_with(j, NULL, NULL, "counts") == 0, "%s", said_err);
    j->keep();
    const int n = read_counts("counts", counts);
    for (int i = 0; i < n; i++) {
        const call_count *c = &counts[i];
        tally t = { 0 };
        if (is_unchecked(c->caller)) {
            printf("%.5s %s by %s: %d calls, not tried\n", j->command, c->kind, c->caller,
                   c->count);
            continue;
        }
        for (int k = 1; k <= c->count; k++) {
            char call[96];
            if (!is_chosen(k, c->count)) continue;
            snprintf(call, sizeof(call), "%.31s:%d", c->kind, k);
            fail_once(j, c, call, &t);
            /* and from there on, as on a full disk */
            snprintf(call, sizeof(call), "%.31s:%d+", c->kind, k);
            fail_once(j, c, call, &t);
        }
        n_tried += t.tried;
        printf("%.5s %s by %s: %d calls, %d tries, %d reported, %d without harm\n", j->command,
               c->kind, c->caller, c->count, t.tried, t.reported, t.survived);
        fflush(stdout);
    }
    ck_assert_int_gt(n_tried, 0);
    ck_assert_int_eq(n_findings, 0);
}

/* ---- train ---- */

#define TRAIN                                                                                      \
    "train --data-dir data --image-size 8 --epochs 2 -b 5 --crop-padding 2 --seed 7 -j 1 "         \
    "--threads 2 --checkpoint-every 1 --out run"

static void keep_run(void)
{
    shell("cp -r run whole");
}

static void expect_kept_run(const char *when)
{
    static const char *const same[] = { "run_log.txt", "config.json", "last.safetensors",
                                        "best.safetensors" };
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        char whole[64], run[64];
        snprintf(whole, sizeof(whole), "whole/%s", same[i]);
        snprintf(run, sizeof(run), "run/%s", same[i]);
        check(exists(run) && same_files(whole, run), "%s: %s differs", when, run);
    }
    /* each process has its own event file */
    check(system("ls -A -I 'events.*' whole >a; ls -A -I 'events.*' run >b; diff a b") == 0,
          "%s: other files", when);
}

static void recover_run(const char *when)
{
    const int status = run_command(exists("run/config.json") ? "train --resume run" : TRAIN);
    check(status == 0, "%s: not resumed: status %d", when, status);
}

START_TEST(train)
{
    const job j = { .command = TRAIN,
                    .keep = keep_run,
                    .expect_kept = expect_kept_run,
                    .recover = recover_run,
                    .clean = "rm -rf run" };
    begin_folder();
    expect(0, "demo-data data --train 1 --val 1");
    fail_all(&j);
    end_folder();
}
END_TEST

/* ---- pack ---- */

#define PACK "pack data out/data.pack"

static void keep_pack(void)
{
    shell("cp out/data.pack whole.pack");
}

static void expect_kept_pack(const char *when)
{
    check(exists("out/data.pack") && same_files("whole.pack", "out/data.pack"), "%s: pack differs",
          when);
    check(system("test \"$(ls -A out)\" = data.pack") == 0, "%s: leftovers", when);
}

/* A failure after the rename (of the folder's flush) leaves the whole pack. */
static void recover_pack(const char *when)
{
    if (!exists("out/data.pack")) check(run_command(PACK) == 0, "%s: not packed again", when);
}

START_TEST(pack)
{
    const job j = { .command = PACK,
                    .keep = keep_pack,
                    .expect_kept = expect_kept_pack,
                    .recover = recover_pack,
                    .clean = "rm -rf out && mkdir out" };
    begin_folder();
    expect(0, "demo-data data --train 1 --val 1");
    fail_all(&j);
    end_folder();
}
END_TEST

/* ---- eval, from a pack ---- */

#define EVAL                                                                                       \
    "eval --checkpoint run/last.safetensors --data-dir data.pack -j 1 --threads 2 --per-class"

static char *whole_out;

static void keep_out(void)
{
    whole_out = strdup(said_out);
}

static void expect_kept_out(const char *when)
{
    check(strcmp(whole_out, said_out) == 0, "%s: printed\n%sinstead of\n%s", when, said_out,
          whole_out);
}

static void recover_out(const char *when)
{
    check(run_command(EVAL) == 0, "%s: the next one fails", when);
}

START_TEST(eval)
{
    const job j = { .command = EVAL,
                    .keep = keep_out,
                    .expect_kept = expect_kept_out,
                    .recover = recover_out,
                    .clean = "true" };
    begin_folder();
    expect(0, "demo-data data --train 1 --val 1");
    expect(0, "pack data data.pack");
    expect(0, "train --data-dir data.pack --image-size 8 --epochs 1 -b 5 --out run");
    fail_all(&j);
    free(whole_out);
    end_folder();
}
END_TEST

TEST_PROGRAM(faults)
{
    return RUN_SUITE("faults", train, pack, eval);
}
