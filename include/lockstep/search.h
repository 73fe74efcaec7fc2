/* search.h: hyperparameter search: which trials are trained with which values, and for how many
 * epochs. The caller trains and reports; a search starts nothing and reads no files.
 *
 *   while (ls_search_next(search, &jobs, &n) == LS_OK && n > 0)
 *       for each job, in any order:
 *           train trial job.trial up to job.epochs; the values are ls_search_value
 *           ls_search_report(search, job.trial, metric)
 *
 * The jobs of a round are independent. Each decision depends on the config and on the results of
 * completed rounds only, so neither the order nor the number of simultaneous jobs changes a search,
 * and a search continues by reporting the known results again. */
#ifndef LOCKSTEP_SEARCH_H
#define LOCKSTEP_SEARCH_H

#include <lockstep/context.h>
#include <stdbool.h>

LS_BEGIN_DECLARATIONS

typedef enum ls_search_method {
    LS_SEARCH_RANDOM,
    LS_SEARCH_GRID,      /* all combinations of values; the last parameter changes fastest */
    LS_SEARCH_HALVING,   /* successive halving: Hyperband's first bracket, with `trials` */
    LS_SEARCH_HYPERBAND, /* Li et al. 2018, "Hyperband", JMLR 18, algorithm 1 */
    LS_SEARCH_TPE        /* tree-structured Parzen estimators: Bergstra et al. 2011, "Algorithms for
                            hyper-parameter optimization", with the settings of Optuna */
} ls_search_method;

typedef enum ls_search_kind {
    LS_SEARCH_LIST,   /* one of `count` values, by index */
    LS_SEARCH_LINEAR, /* uniform in [low, high] */
    LS_SEARCH_LOG,    /* the logarithm is uniform; low > 0 */
    LS_SEARCH_INTEGER /* uniform integers from low to high */
} ls_search_kind;

typedef struct ls_search_parameter {
    const char *name; /* selects the parameter's draws; copied */
    ls_search_kind kind;
    double low, high; /* of ranges; integers below 2^31 in LS_SEARCH_INTEGER */
    int64_t count;    /* LIST: number of values. Ranges: number of points in a grid, at least 2;
                         0 for integers = each integer. Other methods ignore it for ranges */
    LS_RESERVED(4);
} ls_search_parameter;

enum { LS_SEARCH_MAX_TRIALS = 10000 };

/* 0 = default. */
typedef struct ls_search_config {
    ls_search_method method;
    const ls_search_parameter *parameters; /* at least one, with different names; copied */
    int64_t parameter_count;
    int64_t trials;     /* random, halving, TPE: required, at most LS_SEARCH_MAX_TRIALS. Grid and
                           Hyperband compute it, and require 0 */
    int64_t max_epochs; /* of a trial; required */
    int64_t min_epochs; /* halving, Hyperband: of the first rung, about: max_epochs divided by
                           powers of eta [1] */
    int64_t eta;     /* halving, Hyperband: 1 of eta trials is promoted to the next rung, with eta
                        times the epochs [3]; 2 or more */
    int64_t startup; /* TPE: number of random trials before the first suggestion [10] */
    int64_t batch;   /* TPE: number of trials in a round: trial k is suggested from the results of
                        the trials before k - k % batch [1] */
    bool maximize;   /* a larger metric is better */
    bool distinct;   /* random, halving: no two trials have equal values. The values are those of
                        the draws without `distinct`, less the repeated ones. If lists and integers
                        have fewer combinations than `trials`, each is one trial. Without an effect
                        if another range is searched */
    uint64_t seed;
    LS_RESERVED(8);
} ls_search_config;

typedef struct ls_search ls_search;

/* LS_ERR_INVALID names the field or parameter. Trials and parameters are counted from 0. */
LS_API ls_search *ls_search_open(ls_context *ctx, const ls_search_config *config);
LS_API void ls_search_close(ls_search **search);

/* All trials of the search. */
LS_API int64_t ls_search_trial_count(const ls_search *search);

typedef struct ls_search_job {
    int64_t trial;
    int64_t epochs; /* that the trial has trained in total when the job is done */
    LS_RESERVED(4);
} ls_search_job;

/* Begins the next round. *jobs, sorted by trial, is valid until the next call; *n = 0 when the
 * search is complete. LS_ERR_INVALID while a job of the round has no result. */
LS_API ls_status ls_search_next(ls_search *search, const ls_search_job **jobs, int64_t *n);

/* The metric of a trial after its job of this round; NaN = the trial has failed: it is worse than
 * all others and is not promoted. LS_ERR_INVALID if the round has no such job without a result. */
LS_API ls_status ls_search_report(ls_search *search, int64_t trial, double metric);

/* The value of a parameter in a trial of this round or an earlier one; of a list, its index. Values
 * of ranges have 6 significant digits. Equal (seed, trial, parameter name and range) give equal
 * values in random search, halving and Hyperband without `distinct`, on any machine. */
LS_API double ls_search_value(const ls_search *search, int64_t trial, int64_t parameter);

/* The effect of one parameter on the metric. */
typedef struct ls_search_effect {
    double share;  /* of the variance of the metric's ranks, 0 to 1, that the parameter explains */
    double chance; /* a parameter without any effect has a larger share in 1 of 20 searches */
    LS_RESERVED(2);
} ls_search_effect;

enum { LS_SEARCH_IMPORTANCE_TRIALS = 12 }; /* fewer trials give no importance */

/* The importance of a parameter: the effect size of the H test (Kruskal and Wallis 1952, "Use of
 * ranks in one-criterion variance analysis", JASA 47), with its correction for ties:
 *
 *   share = max(0, (H - k + 1) / (n - k))     for n trials in k groups
 *
 * (Tomczak and Tomczak 2014, "The need to report effect size estimates revisited", eta squared by
 * H). A list has a group per value. A range has at most 5 groups in the order of the values, of
 * about equally many trials, at least 4; equal values are in one group, so groups can be smaller.
 * chance is the same formula with the 0.95 quantile of the chi-squared distribution, which H has
 * approximately without an effect, in place of H. Interactions are not included: a parameter whose
 * best value depends on another parameter can have the share 0.
 *
 * Only the name and the kind of *parameter are read. values: (n), as of ls_search_value; metrics:
 * (n), of trials that have trained for equally many epochs. A metric that is not finite is worse
 * than all others. Both results are NaN for fewer than LS_SEARCH_IMPORTANCE_TRIALS trials, fewer
 * than two trials per group on average, a single group, or equal metrics. All results are the same
 * on any machine. LS_ERR_INVALID: a value is not finite, with the name and the trial. */
LS_API ls_status ls_search_importance(ls_context *ctx, const ls_search_parameter *parameter,
                                      int64_t n, const double *values, const double *metrics,
                                      bool maximize, ls_search_effect *out);

LS_END_DECLARATIONS

#endif
