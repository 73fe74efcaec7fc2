/* suite.h: what all tests share: programs of a runner, skipped tests, errors of a context, folders
 * and files. */
#ifndef LS_TESTS_SUITE_H
#define LS_TESTS_SUITE_H

#include <check.h>
#include <lockstep/context.h>
#include <stdlib.h>

/* ---- Running ---- */

/* Begins the function that runs the tests of test_NAME.c, which runner.c calls. It returns the
 * exit status. */
#define TEST_PROGRAM(name)                                                                         \
    int test_##name(void);                                                                         \
    int test_##name(void)

/* The program's exit status, which ctest reads as "skipped" (SKIP_RETURN_CODE). */
enum { SKIPPED = 77 };

/* Runs the suite. Returns the program's exit status: 0 if all tests passed or were skipped, SKIPPED
 * if all were skipped, 1 if one failed or there was none. Each skipped test, and each skipped part
 * of a test, prints a line "skipped: WHAT: WHY", which scripts/skipped.sh lists. */
int run_and_free(Suite *suite);
int run_suite(const char *name, int n, const TTest *const *tests);
#define RUN_SUITE(name, ...)                                                                       \
    run_suite(name, (int)(sizeof((const TTest *const[]){ __VA_ARGS__ }) / sizeof(TTest *)),        \
              (const TTest *const[]){ __VA_ARGS__ })

/* Where all cases take too long, on an emulated processor, LOCKSTEP_CASES_STEP=7 leaves every 7th.
 */
int cases_step(void);
/* One test that runs n times, with _i from 0 on, less those that cases_step leaves out. */
int run_loop(const char *name, const TTest *test, int n);

/* The exit status of a program with two suites. Not a | b, which is SKIPPED for SKIPPED and 1. */
int both(int a, int b);

/* Ends the test that calls it, as one that can't run here. */
#define SKIP(reason)                                                                               \
    do {                                                                                           \
        note_skipped(__func__, reason);                                                            \
        return;                                                                                    \
    } while (0)
void note_skipped(const char *test, const char *reason);
/* The exit status of a program none of whose tests can run here. */
int skip_program(const char *reason);
/* Prints that a part of a test can't run here. The test itself counts as run. */
void note_left_out(const char *part, const char *reason);

/* ---- Errors ---- */

/* Fails the test, showing the message, where the context has an error. */
#define expect_ok(ctx) suite_check_ok(__FILE__, __LINE__, ctx)
void suite_check_ok(const char *file, int line, const ls_context *ctx);
/* Fails the test unless the context's error has this status and all of these parts in its message.
 * Clears the error. */
#define expect_error(ctx, status, ...)                                                             \
    suite_check_error(__FILE__, __LINE__, ctx, status, (const char *const[]){ __VA_ARGS__, NULL })
void suite_check_error(const char *file, int line, ls_context *ctx, ls_status status,
                       const char *const *parts);
/* The same for a verb, which must also return this status. */
#define expect_failure(call, ctx, status, ...)                                                     \
    do {                                                                                           \
        ck_assert_int_eq(call, status);                                                            \
        expect_error(ctx, status, __VA_ARGS__);                                                    \
    } while (0)

/* ---- Allocations ---- */

/* Calls work for n = 1, 2, ... with a new context whose n-th allocation fails, until all of work's
 * allocations have failed once. Each time work must return true and leave no error, or false and
 * leave LS_ERR_MEMORY, and no memory may remain when the context is closed. */
void fail_each_allocation(bool (*work)(ls_context *ctx, void *user), void *user);

/* ---- Folders and files. Each fails the test where it can't do its work. ---- */

/* A new empty folder, removed by remove_folder with all that is in it. The text is the caller's. */
char *new_folder(void);
void remove_folder(char *folder);
/* "folder/name" with printf's formats; valid until the eighth call after. */
const char *path_in(const char *folder, const char *format, ...) LS_PRINTF(2, 3);
void make_folder(const char *path);
void write_file(const char *path, const void *bytes, size_t n);
void write_text(const char *path, const char *text);
/* With a 0 byte after its end. The caller frees it. */
void *read_file(const char *path, size_t *n);
bool same_files(const char *a, const char *b);

#endif
