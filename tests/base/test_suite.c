/* test_suite.c: the exit statuses of suites, and the lines that scripts/skipped.sh lists. */
#include "../suite.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

START_TEST(passes)
{
}
END_TEST

START_TEST(fails)
{
    ck_abort_msg("planted");
}
END_TEST

START_TEST(is_skipped)
{
    SKIP("no reason");
}
END_TEST

START_TEST(leaves_out)
{
    note_left_out("a part", "no reason");
}
END_TEST

static int run_passes_and_skips(void)
{
    return RUN_SUITE("inner", passes, is_skipped);
}

static int run_skips(void)
{
    return run_loop("inner", is_skipped, 2);
}

static int run_skips_and_fails(void)
{
    return RUN_SUITE("inner", is_skipped, fails);
}

static int run_part(void)
{
    return RUN_SUITE("inner", leaves_out);
}

static int run_none(void)
{
    return run_loop("inner", passes, 0);
}

static int run_program(void)
{
    return skip_program("no reason");
}

/* The exit status of a process that runs it, and what that prints. */
static int run_apart(int (*run)(void), char *printed, size_t size)
{
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(fileno(file), STDOUT_FILENO);
        const int status = run();
        fflush(NULL);
        _exit(status);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    rewind(file);
    printed[fread(printed, 1, size - 1, file)] = '\0';
    fclose(file);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int count_lines(const char *text, const char *line)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, line)); at++) n += at == text || at[-1] == '\n';
    return n;
}

START_TEST(statuses)
{
    static const struct {
        int (*run)(void);
        int status;
        const char *line;
        int n_lines;
    } cases[] = {
        { run_passes_and_skips, 0, "skipped: is_skipped: no reason\n", 1 },
        { run_skips, SKIPPED, "skipped: is_skipped: no reason\n", 2 },
        { run_skips_and_fails, 1, "skipped: is_skipped: no reason\n", 1 },
        { run_part, 0, "skipped: a part: no reason\n", 1 },
        { run_none, 1, "failed: there are no tests\n", 1 },
        { run_program, SKIPPED, "skipped: no reason\n", 1 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char printed[4096];
        ck_assert_msg(run_apart(cases[i].run, printed, sizeof(printed)) == cases[i].status,
                      "case %zu: %s", i, printed);
        ck_assert_msg(count_lines(printed, cases[i].line) == cases[i].n_lines, "case %zu: %s", i,
                      printed);
    }
}
END_TEST

START_TEST(two_suites)
{
    const int all[] = { 0, 1, SKIPPED },
              wanted[3][3] = { { 0, 1, 0 }, { 1, 1, 1 }, { 0, 1, SKIPPED } };
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++) ck_assert_int_eq(both(all[a], all[b]), wanted[a][b]);
}
END_TEST

TEST_PROGRAM(suite)
{
    return RUN_SUITE("suite", statuses, two_suites);
}
