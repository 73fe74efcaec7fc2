/* search.h: the struct of a search, and its parts: values (search_values.c), suggestions of TPE
 * (search_tpe.c), rounds (search.c). */
#ifndef LS_EXPERIMENT_SEARCH_H
#define LS_EXPERIMENT_SEARCH_H

#include "base/context.h"
#include <lockstep/search.h>

/* A kernel of a TPE density: normal, or for a list a distribution with its peak at `mean`. */
typedef struct ls__search_kernel {
    int64_t trial;
    double mean, std, weight;
} ls__search_kernel;

struct ls_search {
    ls__owned owned;
    ls_search_config config; /* with defaults; its parameters are our own copies */
    ls_search_parameter *parameters;
    int64_t n_trials;
    double *values;  /* (n_trials, parameter_count), of trials below n_begun */
    double *scores;  /* (n_trials), of the last report: smaller is better, infinite = failed */
    int64_t n_begun; /* trials that have values */
    int64_t n_draws; /* distinct: draws that were made, of trials and of repeats */
    int64_t *seen;   /* distinct: (SEEN_SLOTS), the hash set of the trials' combinations + 1; else
                        NULL */
    ls_search_job *jobs;        /* of the round; (n_trials) */
    bool *is_reported;          /* (n_trials), of jobs */
    int64_t n_jobs;             /* 0 before the first round and after the last one */
    int64_t n_unreported;       /* jobs of the round without a result */
    int64_t *ranks;             /* TPE: (n_trials), of the scores of known trials */
    ls__search_kernel *kernels; /* TPE: (n_trials + 2) */
    int64_t bracket, rung;      /* of the round; brackets are counted down to 0 */
};

/* A double in (0,1) for each half of a draw; 52 bits. */
void ls__search_uniform(const ls_search *s, int64_t trial, int64_t parameter, uint32_t block,
                        double out[2]);

/* Number of combinations in a grid; above LS_SEARCH_MAX_TRIALS if there are more. */
int64_t ls__search_grid_size(const ls_search_config *c);
double ls__search_grid_value(const ls_search *s, int64_t trial, int64_t parameter);
double ls__search_random_value(const ls_search *s, int64_t trial, int64_t parameter);
/* The number of combinations of values that random draws have; 0 if a range has endless ones, or if
 * there are more than 2^53. */
int64_t ls__search_combination_count(const ls_search_config *c);
/* The number of the combination of a trial's values, from 0. */
int64_t ls__search_combination(const ls_search *s, int64_t trial);
/* Rounds a value of a range to 6 significant digits, or to an integer, within the range. */
double ls__search_round(const ls_search_parameter *p, double value);

/* TPE: ranks the first n trials, which have results. Must precede the following. */
void ls__search_tpe_rank(ls_search *s, int64_t n);
/* The value of a parameter in `trial`, suggested from the results of the first n trials, n > 0. */
double ls__search_tpe_value(const ls_search *s, int64_t n, int64_t trial, int64_t parameter);
/* log2(l / g) at a value. */
double ls__search_tpe_score(const ls_search *s, int64_t n, int64_t parameter, double value);

#endif
