/* suite.c: see suite.h. */
#include "suite.h"
#include "failing_allocator.h"

#include <errno.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Running ---- */

static int *n_skipped; /* shared with the processes in which Check runs tests */

int run_and_free(Suite *suite)
{
    n_skipped =
        mmap(NULL, sizeof(*n_skipped), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (n_skipped == MAP_FAILED) return EXIT_FAILURE;
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int n_run = srunner_ntests_run(runner), n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    const bool all_skipped = n_run > 0 && *n_skipped == n_run;
    munmap(n_skipped, sizeof(*n_skipped));
    if (n_run == 0 && !getenv("CK_RUN_CASE")) {
        puts("failed: there are no tests");
        return EXIT_FAILURE;
    }
    return n_failed ? EXIT_FAILURE : all_skipped ? SKIPPED : EXIT_SUCCESS;
}

int run_suite(const char *name, int n, const TTest *const *tests)
{
    Suite *suite = suite_create(name);
    for (int i = 0; i < n; i++) {
        TCase *one = tcase_create(tests[i]->name);
        tcase_add_test(one, tests[i]);
        suite_add_tcase(suite, one);
    }
    return run_and_free(suite);
}

int cases_step(void)
{
    const char *text = getenv("LOCKSTEP_CASES_STEP");
    const int step = text ? atoi(text) : 1;
    return step > 1 ? step : 1;
}

int run_loop(const char *name, const TTest *test, int n)
{
    Suite *suite = suite_create(name);
    TCase *tcase = tcase_create(test->name);
    for (int i = 0; i < n; i += cases_step()) tcase_add_loop_test(tcase, test, i, i + 1);
    suite_add_tcase(suite, tcase);
    return run_and_free(suite);
}

int both(int a, int b)
{
    if (a != EXIT_SUCCESS && a != SKIPPED) return a;
    return a == SKIPPED ? b : b == SKIPPED ? a : b;
}

void note_skipped(const char *test, const char *reason)
{
    const char *end = strstr(test, "_fn"); /* which Check adds */
    printf("skipped: %.*s: %s\n", end ? (int)(end - test) : (int)strlen(test), test, reason);
    fflush(stdout);
    __atomic_fetch_add(n_skipped, 1, __ATOMIC_RELAXED);
}

int skip_program(const char *reason)
{
    printf("skipped: %s\n", reason);
    return SKIPPED;
}

void note_left_out(const char *part, const char *reason)
{
    printf("skipped: %s: %s\n", part, reason);
    fflush(stdout);
}

/* ---- Errors ---- */

void suite_check_ok(const char *file, int line, const ls_context *ctx)
{
    const ls_status got = ls_context_status(ctx);
    ck_assert_msg(got == LS_OK, "%s:%d: %s: %s", file, line, ls_status_text(got),
                  ls_context_message(ctx));
}

void suite_check_error(const char *file, int line, ls_context *ctx, ls_status status,
                       const char *const *parts)
{
    const ls_status got = ls_context_status(ctx);
    const char *message = ls_context_message(ctx);
    ck_assert_msg(got == status, "%s:%d: status '%s', expected '%s': %s", file, line,
                  ls_status_text(got), ls_status_text(status), message);
    for (; *parts; parts++)
        ck_assert_msg(strstr(message, *parts), "%s:%d: '%s' has no '%s'", file, line, message,
                      *parts);
    ls_context_clear_error(ctx);
}

/* ---- Allocations ---- */

void fail_each_allocation(bool (*work)(ls_context *ctx, void *user), void *user)
{
    bool failed = true;
    for (int64_t n = 1; failed; n++) {
        failing_allocator a;
        failing_allocator_init(&a, n);
        ls_context *ctx = ls_context_open(&(ls_context_config){ .allocator = &a.allocator });
        expect_error(ctx, work(ctx, user) ? LS_OK : LS_ERR_MEMORY, "");
        ls_context_close(&ctx);
        ck_assert_int_eq(failing_allocator_live(&a), 0);
        failed = failing_allocator_failed(&a);
    }
}

/* ---- Folders and files. Outside of tests only what fails may be an assertion. ---- */

char *new_folder(void)
{
    const char *root = getenv("TMPDIR");
    char *folder = malloc(4096);
    snprintf(folder, 4096, "%s/lockstep-test-XXXXXX", root ? root : "/tmp");
    if (!mkdtemp(folder)) ck_abort_msg("cannot make %s: %s", folder, strerror(errno));
    return folder;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    (void)info, (void)kind, (void)place;
    return remove(path);
}

void remove_folder(char *folder)
{
    if (nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0)
        ck_abort_msg("cannot remove %s: %s", folder, strerror(errno));
    free(folder);
}

const char *path_in(const char *folder, const char *format, ...)
{
    static char paths[8][4096];
    static int next;
    char *path = paths[next++ % 8];
    const int n = snprintf(path, 4096, "%s/", folder);
    va_list args;
    va_start(args, format);
    vsnprintf(path + n, 4096 - (size_t)n, format, args);
    va_end(args);
    return path;
}

void make_folder(const char *path)
{
    ck_assert_int_eq(mkdir(path, 0777), 0);
}

void write_file(const char *path, const void *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");
    ck_assert_msg(file, "cannot write %s: %s", path, strerror(errno));
    ck_assert_uint_eq(fwrite(bytes, 1, n, file), n);
    ck_assert_int_eq(fclose(file), 0);
}

void write_text(const char *path, const char *text)
{
    write_file(path, text, strlen(text));
}

void *read_file(const char *path, size_t *n)
{
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file, "cannot read %s: %s", path, strerror(errno));
    fseek(file, 0, SEEK_END);
    *n = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*n + 1);
    ck_assert_uint_eq(fread(bytes, 1, *n, file), *n);
    bytes[*n] = '\0';
    fclose(file);
    return bytes;
}

bool same_files(const char *a, const char *b)
{
    size_t n[2];
    void *bytes[2] = { read_file(a, &n[0]), read_file(b, &n[1]) };
    const bool same = n[0] == n[1] && memcmp(bytes[0], bytes[1], n[0]) == 0;
    free(bytes[0]);
    free(bytes[1]);
    return same;
}
