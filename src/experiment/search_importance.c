/* search_importance.c: the importance of a parameter; see lockstep/search.h. */
#include "base/alloc.h"
#include "base/error.h"
#include "base/floats.h"
#include "experiment/search.h"
#include <math.h>
#include <stdlib.h>

/* Ranges have at most 5 groups, of at least 4 trials each if no values are equal. */
enum { MAX_GROUPS = 5, GROUP_TRIALS = 4 };
_Static_assert(3 * GROUP_TRIALS == LS_SEARCH_IMPORTANCE_TRIALS, "three groups at least");

typedef struct sorted_trial {
    double key;
    int64_t trial;
} sorted_trial;

static int compare_keys(const void *a, const void *b)
{
    const sorted_trial *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return (x->trial > y->trial) - (x->trial < y->trial);
}

static int64_t end_of_ties(const sorted_trial *sorted, int64_t n, int64_t begin)
{
    int64_t end = begin + 1;
    while (end < n && sorted[end].key == sorted[begin].key) end++;
    return end;
}

/* ranks[trial], from 1; equal scores have the mean of their ranks. Returns the correction for ties,
 * 1 - sum of (t^3 - t) / (n^3 - n), t: trials of a tie. */
static double rank(sorted_trial *by_score, int64_t n, double *ranks)
{
    double ties = 0;
    qsort(by_score, (size_t)n, sizeof(*by_score), compare_keys);
    for (int64_t begin = 0, end; begin < n; begin = end) {
        end = end_of_ties(by_score, n, begin);
        const double t = (double)(end - begin);
        ties += t * t * t - t;
        for (int64_t i = begin; i < end; i++)
            ranks[by_score[i].trial] = (double)(begin + end + 1) / 2;
    }
    const double all = (double)n;
    return 1 - ties / (all * all * all - all);
}

/* Sum of R^2 / m over the groups, R: sum of the ranks of a group's m trials. A list has a group per
 * value, a range groups of about equal size that do not separate equal values. */
static double sum_groups(sorted_trial *by_value, int64_t n, bool is_list, const double *ranks,
                         int64_t *n_groups)
{
    const int64_t max_groups = n / GROUP_TRIALS < MAX_GROUPS ? n / GROUP_TRIALS : MAX_GROUPS;
    double sum = 0, rank_sum = 0, size = 0;
    int64_t group = -1;
    *n_groups = 0;
    qsort(by_value, (size_t)n, sizeof(*by_value), compare_keys);
    for (int64_t begin = 0, end; begin < n; begin = end) {
        end = end_of_ties(by_value, n, begin);
        if (is_list || begin * max_groups / n != group) {
            if (size > 0) sum += rank_sum * rank_sum / size;
            group = begin * max_groups / n;
            rank_sum = size = 0;
            ++*n_groups;
        }
        for (int64_t i = begin; i < end; i++) rank_sum += ranks[by_value[i].trial];
        size += (double)(end - begin);
    }
    return sum + rank_sum * rank_sum / size;
}

/* The 0.95 quantile of the chi-squared distribution: Wilson and Hilferty 1931, "The distribution of
 * chi-square", PNAS 17. */
static double chi_squared_95(double freedom)
{
    const double z = 1.6448536269514722, v = 2 / (9 * freedom), root = 1 - v + z * sqrt(v);
    return freedom * root * root * root;
}

ls_status ls_search_importance(ls_context *ctx, const ls_search_parameter *parameter, int64_t n,
                               const double *values, const double *metrics, bool maximize,
                               ls_search_effect *out)
{
    LS__ENTER(ctx);
    LS__DEFAULT_FLOATS;
    *out = (ls_search_effect){ NAN, NAN };
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(values[i]))
            return ls__fail(ctx, LS_ERR_INVALID,
                            "ls_search_importance: '%s' has the value %g in trial %lld",
                            parameter->name, values[i], (long long)i);
    if (n < LS_SEARCH_IMPORTANCE_TRIALS) return LS_OK;
    sorted_trial *sorted = ls__alloc(ctx, (size_t)n * sizeof(*sorted));
    double *ranks = ls__alloc(ctx, (size_t)n * sizeof(*ranks));
    if (sorted && ranks) {
        int64_t n_groups;
        for (int64_t i = 0; i < n; i++) {
            const double score = maximize ? -metrics[i] : metrics[i];
            sorted[i] = (sorted_trial){ isfinite(metrics[i]) ? score : INFINITY, i };
        }
        const double correction = rank(sorted, n, ranks);
        for (int64_t i = 0; i < n; i++) sorted[i] = (sorted_trial){ values[i], i };
        const double sum =
            sum_groups(sorted, n, parameter->kind == LS_SEARCH_LIST, ranks, &n_groups);
        const double all = (double)n, freedom = (double)(n_groups - 1);
        if (n_groups > 1 && n >= 2 * n_groups && correction > 0) {
            const double h = (12 / (all * (all + 1)) * sum - 3 * (all + 1)) / correction;
            const double rest = (double)(n - n_groups);
            out->share = fmax(0, (h - freedom) / rest);
            out->chance = (chi_squared_95(freedom) - freedom) / rest;
        }
    }
    const bool ok = sorted && ranks;
    ls__free(ctx, sorted);
    ls__free(ctx, ranks);
    return ok ? LS_OK : ls__fail_memory(ctx, "ls_search_importance", (size_t)n * sizeof(*sorted));
}
