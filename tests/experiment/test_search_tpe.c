/* test_search_tpe.c: suggestions of tree-structured Parzen estimators: scores as Optuna's, the same
 * suggestions in any order of reports, and better trials than random ones. */
#include "../suite.h"
#include "../train/numbers.h"
#include "experiment/search.h"
#include <lockstep/lockstep.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const ls_search_parameter cases[] = { { "linear", LS_SEARCH_LINEAR, -2, 3, 0 },
                                             { "log", LS_SEARCH_LOG, 1e-4, 1, 0 },
                                             { "integer", LS_SEARCH_INTEGER, 2, 9, 0 },
                                             { "list", LS_SEARCH_LIST, .count = 3 } };
enum { N_CASES = sizeof(cases) / sizeof(cases[0]) };

/* ---- Optuna's scores: tests/reference/tpe.py ---- */

/* Both compute in double; Optuna's sums have another order. */
static void expect_scores(ls_context *ctx, FILE *file, const ls_search_parameter *p)
{
    double values[MOST_NUMBERS], points[MOST_NUMBERS], scores[MOST_NUMBERS];
    const int n = read_numbers(file, values), n_points = read_numbers(file, points);
    ck_assert_int_eq(read_numbers(file, scores), n_points);
    ls_search *s = ls_search_open(ctx, &(ls_search_config){ .method = LS_SEARCH_TPE,
                                                            .parameters = p,
                                                            .parameter_count = 1,
                                                            .trials = n,
                                                            .max_epochs = 1 });
    expect_ok(ctx);
    for (int i = 0; i < n; i++) {
        s->values[i] = values[i];
        s->scores[i] = i * 37 % 23;
    }
    ls__search_tpe_rank(s, n);
    for (int i = 0; i < n_points; i++) {
        const double score = ls__search_tpe_score(s, n, 0, points[i]) * log(2);
        ck_assert_msg(fabs(score - scores[i]) <= 1e-9 * fmax(1, fabs(scores[i])),
                      "%s, %d trials, at %g: score %.15g, Optuna's is %.15g", p->name, n, points[i],
                      score, scores[i]);
    }
    ls_search_close(&s);
}

START_TEST(scores_are_those_of_optuna)
{
    ls_context *ctx = ls_context_open(NULL);
    FILE *file = fopen(LOCKSTEP_SOURCE_DIR "/tests/fixtures/tpe.txt", "r");
    ck_assert_ptr_nonnull(file);
    char name[64];
    int n = 0;
    while (fscanf(file, "%63s ", name) == 1) {
        for (int i = 0; i < N_CASES; i++) {
            if (strcmp(name, cases[i].name) != 0) continue;
            expect_scores(ctx, file, &cases[i]);
            n++;
        }
    }
    ck_assert_int_eq(n, 5 * N_CASES);
    fclose(file);
    ls_context_close(&ctx);
}
END_TEST

/* ---- Suggestions ---- */

/* Smallest at linear = 1, log = 0.01, integer = 7, list = 1. */
static double objective(const ls_search *s, int64_t trial)
{
    const double x = ls_search_value(s, trial, 0) - 1, y = log10(ls_search_value(s, trial, 1)) + 2;
    const double n = (ls_search_value(s, trial, 2) - 7) / 4;
    return x * x + y * y + n * n + (ls_search_value(s, trial, 3) != 1);
}

/* Runs 60 trials. Jobs are reported from `first` on, with a stride. Every 9th one fails. */
static ls_search *run_search(ls_context *ctx, ls_search_method method, int64_t batch, uint64_t seed,
                             int64_t stride)
{
    ls_search *s = ls_search_open(ctx, &(ls_search_config){ .method = method,
                                                            .parameters = cases,
                                                            .parameter_count = N_CASES,
                                                            .trials = 60,
                                                            .max_epochs = 1,
                                                            .batch = batch,
                                                            .seed = seed });
    expect_ok(ctx);
    const ls_search_job *jobs;
    for (int64_t n;;) {
        ck_assert_int_eq(ls_search_next(s, &jobs, &n), LS_OK);
        if (n == 0) return s;
        for (int64_t k = 0, i = 0; k < n; k++, i = (i + stride) % n) {
            const int64_t trial = jobs[i].trial;
            const double metric = trial % 9 == 8 ? NAN : objective(s, trial);
            ck_assert_int_eq(ls_search_report(s, trial, metric), LS_OK);
        }
    }
}

static bool same_values(const ls_search *a, const ls_search *b, int64_t from, int64_t to)
{
    return memcmp(a->values + from * N_CASES, b->values + from * N_CASES,
                  (size_t)((to - from) * N_CASES) * sizeof(double)) == 0;
}

START_TEST(suggestions_depend_on_completed_rounds)
{
    ls_context *ctx = ls_context_open(NULL);
    ls_search *random = run_search(ctx, LS_SEARCH_RANDOM, 0, 5, 1);
    ls_search *one = run_search(ctx, LS_SEARCH_TPE, 0, 5, 1);
    ls_search *four = run_search(ctx, LS_SEARCH_TPE, 4, 5, 1);
    ls_search *order = run_search(ctx, LS_SEARCH_TPE, 4, 5, 3); /* 0, 3, 2, 1 */
    ck_assert(same_values(one, random, 0, 10) && !same_values(one, random, 10, 11));
    ck_assert(same_values(four, random, 0, 12) && !same_values(four, random, 12, 13));
    ck_assert(same_values(four, order, 0, 60) && !same_values(four, one, 0, 60));
    for (int64_t i = 0; i < 60; i++)
        for (int k = 0; k < N_CASES - 1; k++) {
            const double x = ls_search_value(one, i, k);
            ck_assert(x >= cases[k].low && x <= cases[k].high);
        }
    ls_context_close(&ctx);
}
END_TEST

static double best_of(ls_search *s)
{
    double best = INFINITY;
    for (int64_t i = 0; i < 60; i++) best = fmin(best, objective(s, i));
    ls_search_close(&s);
    return best;
}

START_TEST(suggestions_are_better_than_random_ones)
{
    ls_context *ctx = ls_context_open(NULL);
    int n_better = 0;
    for (uint64_t seed = 0; seed < 20; seed++)
        n_better += best_of(run_search(ctx, LS_SEARCH_TPE, 1, seed, 1)) <
                    best_of(run_search(ctx, LS_SEARCH_RANDOM, 0, seed, 1));
    ck_assert_msg(n_better >= 16, "better in %d of 20 searches", n_better);
    ls_context_close(&ctx);
}
END_TEST

/* A parameter with one value has no density. */
START_TEST(ranges_of_one_value)
{
    ls_context *ctx = ls_context_open(NULL);
    const ls_search_parameter p[] = { { "lr", LS_SEARCH_LOG, 0.1, 0.1, 0 },
                                      { "n", LS_SEARCH_INTEGER, 3, 3, 0 },
                                      { "opt", LS_SEARCH_LIST, .count = 1 } };
    ls_search *s = ls_search_open(ctx, &(ls_search_config){ .method = LS_SEARCH_TPE,
                                                            .parameters = p,
                                                            .parameter_count = 3,
                                                            .trials = 8,
                                                            .startup = 2,
                                                            .max_epochs = 1 });
    expect_ok(ctx);
    const ls_search_job *jobs;
    int64_t n;
    for (int64_t i = 0; i < 8; i++) {
        ck_assert_int_eq(ls_search_next(s, &jobs, &n), LS_OK);
        ck_assert(ls_search_value(s, i, 0) == 0.1 && ls_search_value(s, i, 1) == 3);
        ck_assert(ls_search_value(s, i, 2) == 0);
        ck_assert_int_eq(ls_search_report(s, i, NAN), LS_OK);
    }
    ls_context_close(&ctx);
}
END_TEST

TEST_PROGRAM(search_tpe)
{
    return RUN_SUITE("search_tpe", scores_are_those_of_optuna,
                     suggestions_depend_on_completed_rounds,
                     suggestions_are_better_than_random_ones, ranges_of_one_value);
}
