/* test_signals.c: how signals and limits of the process end a command. */
#include "command.h"

#include "../suite.h"
#include "cli.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRAIN "train --data-dir data --image-size 8 -b 8 --seed 7 -j 0 --threads 1 "

/* Waits until the run's log has a step; false when the command ended before. */
static bool has_step(pid_t pid, const char *run)
{
    char path[64];
    struct stat there;
    snprintf(path, sizeof(path), "%s/run_log.txt", run);
    while (stat(path, &there) != 0 || there.st_size == 0) {
        if (waitid(P_PID, (id_t)pid, &(siginfo_t){ 0 }, WEXITED | WNOHANG | WNOWAIT) != 0)
            return false;
        sleep_ms(2);
    }
    return true;
}

/* timeout, make and other parents send a signal twice within milliseconds. */
START_TEST(a_signal_that_comes_twice_saves)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    for (int i = 0; i < 3; i++) {
        char run[32], said[64];
        snprintf(run, sizeof(run), "run%d", i);
        snprintf(said, sizeof(said), "signal %d: saved at epoch", numbers[i]);
        const pid_t pid = start_command(0, TRAIN "--epochs 100000 --out %s", run);
        ck_assert(has_step(pid, run));
        kill(pid, numbers[i]);
        sleep_ms(1); /* so that the first is delivered; two that are pending at once become one */
        kill(pid, numbers[i]);
        ck_assert_int_eq(wait_command(pid), 128 + numbers[i]);
        expect_err(said);
        expect(0, "train --resume %s --stop-at 1", run);
    }
    end_folder();
}
END_TEST

/* In a child: the signal a second time at once, and a third time after `ms`. Returns the signal
 * that ended the child, 0 for none. */
static int ended_by(long ms)
{
    const pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        signal(SIGINT, SIG_DFL);
        catch_signals();
        raise(SIGINT);
        raise(SIGINT);
        if (ms > 0) sleep_ms(ms);
        if (ms > 0) raise(SIGINT);
        _exit(caught_signal == SIGINT ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

START_TEST(a_signal_after_one_second_ends_the_process)
{
    ck_assert_int_eq(ended_by(0), 0);
    ck_assert_int_eq(ended_by(1100), SIGINT);
}
END_TEST

/* As under nohup. */
START_TEST(an_ignored_hangup_stays_ignored)
{
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    ignored_signal = SIGHUP;
    const pid_t pid = start_command(0, TRAIN "--epochs 100000 --out run");
    ignored_signal = 0;
    ck_assert(has_step(pid, "run"));
    kill(pid, SIGHUP); /* delivered before the other, which has the greater number */
    kill(pid, SIGTERM);
    ck_assert_int_eq(wait_command(pid), 128 + SIGTERM);
    expect_err("signal 15: saved at epoch");
    end_folder();
}
END_TEST

/* Whether the process has its temporary file open: one without a name where the file system has
 * such files, else a named one. */
static bool has_temporary(pid_t pid)
{
    char line[128];
    snprintf(line, sizeof(line),
             "ls -l /proc/%d/fd 2>/dev/null | grep -q 'lockstep-test-.*(deleted)$' || ls "
             ".lockstep-*.tmp "
             ">/dev/null 2>&1",
             (int)pid);
    return system(line) == 0;
}

/* Starts 'lockstep pack' and stops it while its temporary file is there. */
static pid_t start_pack(void)
{
    for (;;) {
        const pid_t pid = start_command(0, "pack data/train out.pack --raw -j 0");
        int status = 0;
        while (!has_temporary(pid) && !exists("out.pack")) sleep_ms(1);
        kill(pid, SIGSTOP);
        ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
        if (WIFSTOPPED(status) && !exists("out.pack")) return pid;
        if (WIFSTOPPED(status)) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
        }
        ck_assert_int_eq(remove("out.pack"), 0); /* it was faster than this test */
    }
}

START_TEST(pack_removes_its_temporary_file)
{
    begin_folder();
    expect(0, "demo-data data --train 20 --val 1");
    ck_assert_int_eq(system("cd data/train && for class in *; do for i in 1 2 3 4 5 6 7 8 9; do "
                            "cp -rl $class $class$i; done; done"),
                     0);
    const pid_t pid = start_pack();
    kill(pid, SIGINT);
    kill(pid, SIGTERM);
    kill(pid, SIGCONT); /* both are delivered now, SIGINT first */
    ck_assert_int_eq(wait_command(pid), 128 + SIGINT);
    expect_err("'out.pack': stopped");
    ck_assert(!exists("out.pack"));
    ck_assert_int_ne(system("ls .lockstep-*.tmp >/dev/null 2>&1"), 0);
    end_folder();
}
END_TEST

/* A reader of the output that has gone does not end a run: `lockstep train | head -1`. */
START_TEST(a_closed_pipe_does_not_end_a_run)
{
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    ck_assert_int_eq(system(LOCKSTEP_COMMAND " " TRAIN "--epochs 3 --out run 2>said | true"), 0);
    expect(0, "train --resume run");
    expect_out("all 3 epochs are done");
    size_t size;
    char *said = read_file("said", &size);
    ck_assert_msg(strstr(said, "writing standard output: "), "%s", said);
    free(said);
    end_folder();
}
END_TEST

/* The next commands are begun with this limit. */
static void set_limit(int which, rlim_t value)
{
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(which, &limit), 0);
    limit.rlim_cur = value;
    ck_assert_int_eq(setrlimit(which, &limit), 0);
}

/* Without free file handles the status must not be that of unusable images. */
START_TEST(no_file_handles)
{
    enum { FIRST = 8, LAST = 16 }; /* from the loader of the program to a whole run */
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    expect(0, TRAIN "--epochs 1 --out run");
    int n_refused = 0;
    for (int n = FIRST; n <= LAST; n++) {
        char train[256];
        snprintf(train, sizeof(train), TRAIN "--epochs 1 --out run%d", n);
        const char *const lines[] = {
            train, "eval --checkpoint run/best.safetensors --data-dir data -j 0 --threads 1"
        };
        for (int i = 0; i < 2; i++) {
            set_limit(RLIMIT_NOFILE, (rlim_t)n);
            const int status = run_command("%s", lines[i]);
            set_limit(RLIMIT_NOFILE, 64);
            ck_assert_msg(status == 0 || status == 1 || status == 127, "%d handles: status %d: %s",
                          n, status, said_err);
            if (status != 1) continue;
            expect_err("Too many open files (limit of open files: ulimit -n)");
            n_refused++;
        }
    }
    ck_assert_int_gt(n_refused, 1);
    end_folder();
}
END_TEST

/* Threads whose stacks are larger than the address space can't be started. */
START_TEST(no_threads)
{
    static const char *const options[] = { "-j 2 --threads 1", "-j 0 --threads 2" };
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    for (int i = 0; i < 2; i++) {
        set_limit(RLIMIT_STACK, (rlim_t)100 << 40);
        expect(1, "train --data-dir data --image-size 8 -b 8 --out run %s", options[i]);
        set_limit(RLIMIT_STACK, 8 << 20);
        expect_err("(limit of threads or memory: ulimit -u, ulimit -v)");
    }
    end_folder();
}
END_TEST

/* The system's default is to end such a process without a message. */
START_TEST(files_that_are_too_large)
{
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    static const struct {
        const char *line, *file;
    } cases[] = { { TRAIN "--out run", "writing 'run/last.safetensors': " },
                  { "pack data out.pack --raw", "writing 'out.pack': " },
                  { "demo-data drawn", "drawn/train/" } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const pid_t pid = start_command(i == 2 ? 1000 : 30000, "%s", cases[i].line);
        ck_assert_int_eq(wait_command(pid), 1);
        expect_err(cases[i].file);
        expect_err("File too large (file size limit: ulimit -f)");
    }
    end_folder();
}
END_TEST

TEST_PROGRAM(signals)
{
    return RUN_SUITE("signals", a_signal_that_comes_twice_saves,
                     a_signal_after_one_second_ends_the_process, an_ignored_hangup_stays_ignored,
                     pack_removes_its_temporary_file, a_closed_pipe_does_not_end_a_run,
                     no_file_handles, no_threads, files_that_are_too_large);
}
