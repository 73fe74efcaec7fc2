/* suite.h: a test program's main in one line: return run_suite("name", n, tests). */
#ifndef LS_TESTS_SUITE_H
#define LS_TESTS_SUITE_H

#include <check.h>
#include <stdlib.h>

static inline int run_and_free(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed != 0;
}

/* The program's exit status is the verdict: 0 when all tests passed. */
static inline int run_suite(const char *name, int n, const TTest *const *tests)
{
    Suite *suite = suite_create(name);
    for (int i = 0; i < n; i++) {
        TCase *one = tcase_create(tests[i]->name);
        tcase_add_test(one, tests[i]);
        suite_add_tcase(suite, one);
    }
    return run_and_free(suite);
}

/* Where all cases take too long, on an emulated processor, LOCKSTEP_CASES_STEP=7 leaves every 7th.
 */
static inline int cases_step(void)
{
    const char *text = getenv("LOCKSTEP_CASES_STEP");
    const int step = text ? atoi(text) : 1;
    return step > 1 ? step : 1;
}

/* The same for one test that runs n times, with _i from 0 on. */
static inline int run_loop(const char *name, const TTest *test, int n)
{
    Suite *suite = suite_create(name);
    TCase *tcase = tcase_create(test->name);
    for (int i = 0; i < n; i += cases_step()) tcase_add_loop_test(tcase, test, i, i + 1);
    suite_add_tcase(suite, tcase);
    return run_and_free(suite);
}

#define RUN_SUITE(name, ...)                                                                       \
    run_suite(name, (int)(sizeof((const TTest *const[]){ __VA_ARGS__ }) / sizeof(TTest *)),        \
              (const TTest *const[]){ __VA_ARGS__ })

#endif
