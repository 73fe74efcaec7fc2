/* test_search.c: the values, rounds and decisions of hyperparameter searches. */
#include "../suite.h"
#include <lockstep/lockstep.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MANY = 2000 };

static const ls_search_parameter lr = { "lr", LS_SEARCH_LOG, 0.001, 1, 0 };
static const ls_search_parameter wide[] = { { "lr", LS_SEARCH_LOG, 0.001, 1, 0 },
                                            { "flip", LS_SEARCH_LINEAR, 0.25, 0.75, 0 },
                                            { "warm-up", LS_SEARCH_INTEGER, 2, 5, 0 },
                                            { "opt", LS_SEARCH_LIST, .count = 3 } };

static ls_context *ctx;

static void begin(void)
{
    ctx = ls_context_open(NULL);
    ck_assert_ptr_nonnull(ctx);
}

static void end(void)
{
    ls_context_close(&ctx);
}

static ls_search *open_search(ls_search_config config)
{
    ls_search *s = ls_search_open(ctx, &config);
    expect_ok(ctx);
    ck_assert_ptr_nonnull(s);
    return s;
}

/* The next round must have n jobs of so many epochs. */
static const ls_search_job *expect_round(ls_search *s, int64_t n, int64_t epochs)
{
    const ls_search_job *jobs;
    int64_t count;
    ck_assert_int_eq(ls_search_next(s, &jobs, &count), LS_OK);
    ck_assert_int_eq(count, n);
    for (int64_t i = 0; i < n; i++) ck_assert_int_eq(jobs[i].epochs, epochs);
    return jobs;
}

static void report(ls_search *s, int64_t trial, double metric)
{
    ck_assert_int_eq(ls_search_report(s, trial, metric), LS_OK);
}

/* ---- Values ---- */

START_TEST(random_values)
{
    begin();
    ls_search *s = open_search((ls_search_config){
        .parameters = wide, .parameter_count = 4, .trials = MANY, .max_epochs = 1 });
    ck_assert_int_eq(ls_search_trial_count(s), MANY);
    ck_assert(isnan(ls_search_value(s, 0, 0))); /* has not begun */
    expect_round(s, MANY, 1);
    int64_t below = 0, flips = 0, integers[6] = { 0 }, words[3] = { 0 };
    for (int64_t i = 0; i < MANY; i++) {
        const double x = ls_search_value(s, i, 0), flip = ls_search_value(s, i, 1);
        char text[32];
        snprintf(text, sizeof(text), "%.6g", x);
        ck_assert(x >= 0.001 && x <= 1 && strtod(text, NULL) == x);
        ck_assert(flip >= 0.25 && flip <= 0.75);
        below += x < 0.01; /* a third of the logarithms */
        flips += flip < 0.5;
        integers[(int)ls_search_value(s, i, 2)]++;
        words[(int)ls_search_value(s, i, 3)]++;
    }
    /* five standard deviations of a binomial count are below 0.056 MANY */
    const double far = 0.056 * MANY;
    ck_assert(fabs((double)below - MANY / 3.0) < far && fabs((double)flips - MANY / 2.0) < far);
    for (int i = 2; i <= 5; i++) ck_assert(fabs((double)integers[i] - MANY / 4.0) < far);
    for (int i = 0; i < 3; i++) ck_assert(fabs((double)words[i] - MANY / 3.0) < far);
    end();
}
END_TEST

/* The values are the same on every machine, whatever other parameters and trials there are. */
START_TEST(values_depend_on_seed_trial_and_name)
{
    begin();
    const ls_search_parameter reversed[] = { wide[3], wide[2], wide[1], wide[0] };
    ls_search *a = open_search((ls_search_config){
        .parameters = wide, .parameter_count = 4, .trials = 3, .max_epochs = 1 });
    ls_search *b = open_search((ls_search_config){
        .parameters = reversed, .parameter_count = 4, .trials = 9, .max_epochs = 1 });
    ls_search *c = open_search((ls_search_config){
        .parameters = wide, .parameter_count = 4, .trials = 3, .max_epochs = 1, .seed = 1 });
    expect_round(a, 3, 1);
    expect_round(b, 9, 1);
    expect_round(c, 3, 1);
    static const double known[] = { 0.00314272, 0.00678386, 0.0536261 };
    for (int64_t i = 0; i < 3; i++) {
        ck_assert(ls_search_value(a, i, 0) == known[i]);
        ck_assert(ls_search_value(c, i, 0) != known[i]);
        for (int64_t k = 0; k < 4; k++)
            ck_assert(ls_search_value(a, i, k) == ls_search_value(b, i, 3 - k));
    }
    end();
}
END_TEST

/* The draws without `distinct`, less the repeated ones, up to all combinations. */
START_TEST(distinct_values)
{
    static const ls_search_parameter few[] = { { "opt", LS_SEARCH_LIST, .count = 3 },
                                               { "n", LS_SEARCH_INTEGER, -1, 2, 0 },
                                               { "flip", LS_SEARCH_LINEAR, 0.5, 0.5, 0 } };
    enum { N = 12, N_DRAWS = 400 };
    begin();
    ls_search_config config = {
        .parameters = few, .parameter_count = 3, .trials = N_DRAWS, .max_epochs = 1
    };
    ls_search *all = open_search(config);
    config.distinct = true;
    ls_search *s = open_search(config);
    ck_assert_int_eq(ls_search_trial_count(s), N);
    expect_round(all, N_DRAWS, 1);
    expect_round(s, N, 1);
    int64_t n = 0;
    for (int64_t i = 0; i < N_DRAWS; i++) {
        bool is_new = true;
        for (int64_t k = 0; k < i && is_new; k++)
            is_new = ls_search_value(all, i, 0) != ls_search_value(all, k, 0) ||
                     ls_search_value(all, i, 1) != ls_search_value(all, k, 1);
        for (int64_t p = 0; p < 3 && is_new; p++)
            ck_assert(ls_search_value(s, n, p) == ls_search_value(all, i, p));
        n += is_new;
    }
    ck_assert_int_eq(n, N);
    config.trials = 5; /* a larger number extends the search */
    ls_search *shorter = open_search(config);
    expect_round(shorter, 5, 1);
    for (int64_t i = 0; i < 5; i++)
        ck_assert(ls_search_value(shorter, i, 1) == ls_search_value(s, i, 1));
    config.method = LS_SEARCH_HALVING;
    config.trials = 100;
    ck_assert_int_eq(ls_search_trial_count(open_search(config)), N);
    config.parameters = wide; /* endless values */
    config.parameter_count = 4;
    ck_assert_int_eq(ls_search_trial_count(open_search(config)), 100);
    const ls_search_parameter many = { "n", LS_SEARCH_INTEGER, 1, 10000, 0 };
    config = (ls_search_config){ .parameters = &many,
                                 .parameter_count = 1,
                                 .trials = LS_SEARCH_MAX_TRIALS,
                                 .max_epochs = 1,
                                 .distinct = true };
    s = open_search(config);
    expect_round(s, LS_SEARCH_MAX_TRIALS, 1);
    bool seen[LS_SEARCH_MAX_TRIALS + 1] = { false };
    for (int64_t i = 0; i < LS_SEARCH_MAX_TRIALS; i++) {
        bool *is_seen = &seen[(int)ls_search_value(s, i, 0)];
        ck_assert(!*is_seen);
        *is_seen = true;
    }
    end();
}
END_TEST

START_TEST(grid)
{
    begin();
    const ls_search_parameter p[] = { { "lr", LS_SEARCH_LOG, 0.01, 1, 3 },
                                      { "n", LS_SEARCH_INTEGER, 1, 2, 0 },
                                      { "flip", LS_SEARCH_LINEAR, 0, 1, 2 } };
    ls_search *s = open_search((ls_search_config){
        .method = LS_SEARCH_GRID, .parameters = p, .parameter_count = 3, .max_epochs = 7 });
    expect_round(s, 12, 7);
    static const double lrs[] = { 0.01, 0.1, 1 };
    for (int i = 0; i < 12; i++) {
        ck_assert(ls_search_value(s, i, 0) == lrs[i / 4]);
        ck_assert(ls_search_value(s, i, 1) == 1 + i / 2 % 2);
        ck_assert(ls_search_value(s, i, 2) == i % 2);
        report(s, 11 - i, 0);
    }
    expect_round(s, 0, 0);
    end();
}
END_TEST

/* ---- Successive halving and Hyperband ---- */

/* Li et al. 2018, table 1: n_i and r_i of each bracket for R = 81, eta = 3. */
START_TEST(hyperband_has_the_rungs_of_the_paper)
{
    static const int sizes[5][5] = {
        { 81, 27, 9, 3, 1 }, { 34, 11, 3, 1 }, { 15, 5, 1 }, { 8, 2 }, { 5 }
    };
    static const int epochs[] = { 1, 3, 9, 27, 81 };
    begin();
    ls_search *s = open_search((ls_search_config){
        .method = LS_SEARCH_HYPERBAND, .parameters = &lr, .parameter_count = 1, .max_epochs = 81 });
    ck_assert_int_eq(ls_search_trial_count(s), 81 + 34 + 15 + 8 + 5);
    int64_t first = 0;
    for (int bracket = 0; bracket < 5; bracket++) {
        for (int rung = 0; rung < 5 - bracket; rung++) {
            const int n = sizes[bracket][rung];
            const ls_search_job *jobs = expect_round(s, n, epochs[bracket + rung]);
            for (int i = 0; i < n; i++) { /* the first trials are the best ones */
                ck_assert_int_eq(jobs[i].trial, first + i);
                report(s, jobs[i].trial, (double)jobs[i].trial);
            }
        }
        first += sizes[bracket][0];
    }
    expect_round(s, 0, 0);
    expect_round(s, 0, 0);
    end();
}
END_TEST

/* The best are promoted, earlier trials first where results are equal, failed ones never. The order
 * of reports does not matter. */
START_TEST(halving_promotes_the_best)
{
    begin();
    const double first[] = { 0.5, NAN, 0.7, 0.9, 0.7, 0.1, 0.7, INFINITY, 0.2 };
    const int64_t order[] = { 8, 3, 0, 7, 1, 2, 6, 5, 4 };
    const ls_search_config config = { .method = LS_SEARCH_HALVING,
                                      .parameters = &lr,
                                      .parameter_count = 1,
                                      .trials = 9,
                                      .min_epochs = 2,
                                      .max_epochs = 20,
                                      .maximize = true };
    ls_search *s = open_search(config);
    expect_round(s, 9, 2); /* 20 / 9 */
    for (int i = 0; i < 9; i++) report(s, order[i], first[order[i]]);
    const ls_search_job *jobs = expect_round(s, 3, 6);
    ck_assert_int_eq(jobs[0].trial, 2);
    ck_assert_int_eq(jobs[1].trial, 3);
    ck_assert_int_eq(jobs[2].trial, 4);
    report(s, 3, 0.95);
    report(s, 4, 0.96);
    report(s, 2, NAN);
    jobs = expect_round(s, 1, 20);
    ck_assert_int_eq(jobs[0].trial, 4);
    report(s, 4, 0.99);
    expect_round(s, 0, 0);

    s = open_search(config); /* all fail: no rung follows */
    expect_round(s, 9, 2);
    for (int i = 0; i < 9; i++) report(s, i, NAN);
    expect_round(s, 0, 0);
    end();
}
END_TEST

START_TEST(few_epochs_have_one_rung)
{
    begin();
    ls_search *s = open_search((ls_search_config){
        .method = LS_SEARCH_HYPERBAND, .parameters = &lr, .parameter_count = 1, .max_epochs = 2 });
    expect_round(s, 1, 2);
    report(s, 0, 1);
    expect_round(s, 0, 0);
    end();
}
END_TEST

/* ---- Misuse ---- */

START_TEST(misuse)
{
    begin();
    const ls_search_parameter twice[] = { lr, lr };
    const ls_search_parameter zero = { "lr", LS_SEARCH_LOG, 0, 1, 0 };
    const ls_search_parameter subnormal = { "lr", LS_SEARCH_LOG, 1e-320, 1, 0 };
    const ls_search_parameter far = { "lr", LS_SEARCH_LOG, 1e-300, 1e10, 0 };
    const ls_search_parameter distant = { "lr", LS_SEARCH_LINEAR, -1e308, 1e308, 0 };
    const ls_search_parameter backwards = { "lr", LS_SEARCH_LINEAR, 1, 0, 0 };
    const ls_search_parameter half = { "n", LS_SEARCH_INTEGER, 0, 1.5, 0 };
    const ls_search_parameter empty = { "opt", LS_SEARCH_LIST, .count = 0 };
    const ls_search_parameter huge = { "n", LS_SEARCH_INTEGER, 0, 1e6, 0 };
    const struct {
        ls_search_config config;
        const char *part;
    } cases[] = {
        { { .parameters = &lr, .parameter_count = 1, .max_epochs = 1 }, "number of trials" },
        { { .parameters = &lr, .parameter_count = 1, .trials = 1 }, "max_epochs 0" },
        { { .parameters = &lr, .trials = 1, .max_epochs = 1 }, "one parameter or more" },
        { { .parameters = twice, .parameter_count = 2, .trials = 1, .max_epochs = 1 },
          "two parameters have the name 'lr'" },
        { { .parameters = &zero, .parameter_count = 1, .trials = 1, .max_epochs = 1 },
          "'lr': a logarithmic range begins above 0" },
        { { .parameters = &subnormal, .parameter_count = 1, .trials = 1, .max_epochs = 1 },
          "'lr': a logarithmic range begins at 2.22507e-308 or above" },
        { { .parameters = &far, .parameter_count = 1, .trials = 1, .max_epochs = 1 },
          "got 1e-300 and 1e+10" },
        { { .parameters = &distant, .parameter_count = 1, .trials = 1, .max_epochs = 1 },
          "differ by at most 1.79769e+308, got -1e+308 and 1e+308" },
        { { .parameters = &backwards, .parameter_count = 1, .trials = 1, .max_epochs = 1 },
          "low <= high, got 1 and 0" },
        { { .parameters = &half, .parameter_count = 1, .trials = 1, .max_epochs = 1 },
          "'n': expected integers" },
        { { .parameters = &empty, .parameter_count = 1, .trials = 1, .max_epochs = 1 },
          "'opt': a list requires a value" },
        { { .parameters = &lr, .parameter_count = 1, .trials = 1, .max_epochs = 1, .eta = 1 },
          "eta 1: expected 2 or more" },
        { { LS_SEARCH_GRID, &lr, 1, .max_epochs = 1 }, "'lr': a range in a grid requires" },
        { { LS_SEARCH_GRID, &huge, 1, .max_epochs = 1 }, "more than 10000 trials" },
        { { LS_SEARCH_HYPERBAND, &lr, 1, .trials = 4, .max_epochs = 1 },
          "computes the number of trials" },
        { { LS_SEARCH_HALVING, &lr, 1, .trials = 4, .max_epochs = 3, .min_epochs = 4 },
          "min_epochs 4: expected 0 to 3" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_ptr_null(ls_search_open(ctx, &cases[i].config));
        expect_error(ctx, LS_ERR_INVALID, "ls_search_open: ", cases[i].part);
    }
    ls_search *s = open_search((ls_search_config){
        .parameters = &lr, .parameter_count = 1, .trials = 2, .max_epochs = 1 });
    expect_failure(ls_search_report(s, 0, 1), ctx, LS_ERR_INVALID, "no job of trial 0");
    const ls_search_job *jobs = expect_round(s, 2, 1);
    int64_t n;
    expect_failure(ls_search_next(s, &jobs, &n), ctx, LS_ERR_INVALID, "2 jobs of the round");
    report(s, 1, 1);
    expect_failure(ls_search_report(s, 1, 1), ctx, LS_ERR_INVALID, "no job of trial 1");
    ck_assert(isnan(ls_search_value(s, 2, 0)) && isnan(ls_search_value(s, 0, 1)));
    ls_search_close(&s);
    ls_search_close(&s);
    ck_assert_int_eq(ls_search_next(NULL, &jobs, &n), LS_ERR_EARLIER);
    end();
}
END_TEST

static bool open_and_close(ls_context *failing, void *user)
{
    (void)user;
    ls_search *s = ls_search_open(
        failing, &(ls_search_config){
                     .parameters = wide, .parameter_count = 4, .trials = 2, .max_epochs = 1 });
    const bool good = s != NULL;
    ls_search_close(&s);
    return good;
}

START_TEST(memory_is_short)
{
    fail_each_allocation(open_and_close, NULL);
}
END_TEST

TEST_PROGRAM(search)
{
    return RUN_SUITE("search", random_values, distinct_values, values_depend_on_seed_trial_and_name,
                     grid, hyperband_has_the_rungs_of_the_paper, halving_promotes_the_best,
                     few_epochs_have_one_rung, misuse, memory_is_short);
}
