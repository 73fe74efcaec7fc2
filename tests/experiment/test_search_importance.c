/* test_search_importance.c: the importance of parameters as SciPy's H test gives it, and where it
 * has no meaning. */
#include "../suite.h"
#include "../train/numbers.h"
#include <lockstep/lockstep.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Our sums have another order, and our quantile is an approximation: 2 % off for two groups. */
START_TEST(shares_are_those_of_scipy)
{
    ls_context *ctx = ls_context_open(NULL);
    FILE *file = fopen(LOCKSTEP_SOURCE_DIR "/tests/fixtures/importance.txt", "r");
    ck_assert_ptr_nonnull(file);
    char name[64];
    int n_cases = 0;
    for (; fscanf(file, "%63s ", name) == 1; n_cases++) {
        double values[MOST_NUMBERS], metrics[MOST_NUMBERS], expected[MOST_NUMBERS];
        const int n = read_numbers(file, values);
        ck_assert_int_eq(read_numbers(file, metrics), n);
        ck_assert_int_eq(read_numbers(file, expected), 2);
        const ls_search_parameter p = { .name = name,
                                        .kind = strncmp(name, "list", 4) == 0 ? LS_SEARCH_LIST
                                                                              : LS_SEARCH_LINEAR };
        ls_search_effect e;
        ck_assert_int_eq(
            ls_search_importance(ctx, &p, n, values, metrics, strstr(name, "max") != NULL, &e),
            LS_OK);
        ck_assert_msg(fabs(e.share - expected[0]) < 1e-12, "%s, %d trials: share %.15g, not %.15g",
                      name, n, e.share, expected[0]);
        ck_assert_msg(fabs(e.chance / expected[1] - 1) < 0.02, "%s, %d trials: chance %g, not %g",
                      name, n, e.chance, expected[1]);
    }
    ck_assert_int_eq(n_cases, 24);
    fclose(file);
    ls_context_close(&ctx);
}
END_TEST

static ls_search_effect effect(ls_context *ctx, ls_search_kind kind, int n, const double *values,
                               const double *metrics)
{
    ls_search_effect e;
    const ls_search_parameter p = { .name = "x", .kind = kind };
    ck_assert_int_eq(ls_search_importance(ctx, &p, n, values, metrics, false, &e), LS_OK);
    return e;
}

START_TEST(where_it_has_no_meaning)
{
    ls_context *ctx = ls_context_open(NULL);
    double up[MOST_NUMBERS], same[MOST_NUMBERS] = { 0 }, bad[MOST_NUMBERS] = { [3] = NAN },
                             failed[MOST_NUMBERS], seven[MOST_NUMBERS];
    for (int i = 0; i < MOST_NUMBERS; i++) {
        up[i] = i;
        seven[i] = i % 7;
        failed[i] = i % 2 ? NAN : INFINITY;
    }
    ck_assert(isnan(effect(ctx, LS_SEARCH_LINEAR, 11, up, up).share));
    ck_assert(effect(ctx, LS_SEARCH_LINEAR, 12, up, up).share > 0.8);
    ck_assert(
        isnan(effect(ctx, LS_SEARCH_LIST, 12, seven, up).share)); /* fewer than two per value */
    ck_assert(isfinite(effect(ctx, LS_SEARCH_LIST, 14, seven, up).share));
    ck_assert(isnan(effect(ctx, LS_SEARCH_LINEAR, 20, same, up).chance));
    ck_assert(isnan(effect(ctx, LS_SEARCH_LINEAR, 20, up, same).share));
    ck_assert(isnan(effect(ctx, LS_SEARCH_LINEAR, 20, up, failed).share));
    ls_search_effect e;
    expect_failure(
        ls_search_importance(ctx, &(ls_search_parameter){ .name = "lr" }, 20, bad, up, false, &e),
        ctx, LS_ERR_INVALID, "'lr'", "trial 3");
    ls_context_close(&ctx);
}
END_TEST

static bool work(ls_context *ctx, void *user)
{
    ls_search_effect e;
    const double *x = user;
    return ls_search_importance(ctx, &(ls_search_parameter){ .name = "x" }, 12, x, x, true, &e) ==
           LS_OK;
}

START_TEST(every_allocation_failing)
{
    double x[12];
    for (int i = 0; i < 12; i++) x[i] = i;
    fail_each_allocation(work, x);
}
END_TEST

TEST_PROGRAM(search_importance)
{
    return RUN_SUITE("importance", shares_are_those_of_scipy, where_it_has_no_meaning,
                     every_allocation_failing);
}
