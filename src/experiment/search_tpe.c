/* search_tpe.c: tree-structured Parzen estimators (Bergstra et al. 2011, section 4), independently
 * for each parameter, with the settings of Optuna's TPESampler without `multivariate`.
 *
 * The best ceil(n / 10) of n trials, at most 25, are "below", the others "above". Each set gives a
 * density: a mixture of a kernel per trial and a wide prior kernel. 24 candidates are drawn from
 * the density l of the trials below. The candidate with the largest l / g is suggested, where g is
 * the density of the trials above. All functions consist of IEEE operations, so a suggestion has
 * the same bits on all machines.
 *
 * Differences from Optuna: the draws are Philox's; values have 6 significant digits; a failed trial
 * counts as the worst, where Optuna ignores it; of equal values in two trials the earlier one is
 * the lower neighbour, where NumPy's sort leaves the order open. */
#include "arith/functions.h"
#include "base/random.h"
#include "experiment/search.h"

#include <math.h>
#include <stdlib.h>

enum { N_CANDIDATES = 24, MAX_BELOW = 25, N_FULL_WEIGHTS = 25 };

/* The density of one parameter. Kernel n - 1 is the prior. */
typedef struct density {
    const ls_search_parameter *parameter;
    double low, high; /* of the coordinate: the value, or log2 of it */
    int64_t n;
    ls__search_kernel *kernels;
} density;

/* ---- The normal distribution ---- */

static double exponential(double x)
{
    return ls__exp2(x * 1.4426950408889634);
}

static double normal_pdf(double x)
{
    return 0.3989422804014327 * exponential(-0.5 * x * x);
}

/* Its integral up to x, absolute error below 1e-15: the series of Marsaglia 2004, "Evaluating the
 * normal distribution", J. Stat. Softw. 11(4). */
static double normal_cdf(double x)
{
    if (fabs(x) > 8.3) return x > 0; /* beyond, 1 - cdf < 2^-53 */
    double sum = x, term = x;
    for (int i = 3; sum + term != sum || i < 5; i += 2) {
        term *= x * x / i;
        sum += term;
    }
    return 0.5 + sum * normal_pdf(x);
}

static double mass(const ls__search_kernel *k, double from, double to)
{
    return normal_cdf((to - k->mean) / k->std) - normal_cdf((from - k->mean) / k->std);
}

/* ---- Densities ---- */

static double coordinate(const ls_search_parameter *p, double value)
{
    return p->kind == LS_SEARCH_LOG ? ls__log2(value) : value;
}

static int by_mean(const void *a, const void *b)
{
    const ls__search_kernel *x = a, *y = b;
    if (x->mean != y->mean) return x->mean < y->mean ? -1 : 1;
    return (x->trial > y->trial) - (x->trial < y->trial);
}

/* The larger distance to a neighbour, within limits. Sorts the kernels. */
static void set_stds(density *d, int64_t n)
{
    const double range = d->high - d->low, min_std = range / fmin(100, 2.0 + (double)n);
    qsort(d->kernels, (size_t)n, sizeof(*d->kernels), by_mean);
    for (int64_t i = 0; i < n; i++) {
        ls__search_kernel *k = &d->kernels[i];
        const double left = k->mean - (i > 0 ? k[-1].mean : d->low);
        const double right = (i + 1 < n ? k[1].mean : d->high) - k->mean;
        double std = fmax(left, right);
        if (n > 1 && i == 0) std = right;
        if (n > 1 && i == n - 1) std = left;
        k->std = fmin(fmax(std, min_std), range);
    }
}

/* Of kernel i of n in the order of trials: the newest have 1, older ones less. */
static double weight(int64_t i, int64_t n)
{
    const int64_t n_ramp = n - N_FULL_WEIGHTS;
    if (i >= n_ramp) return 1;
    const double first = 1.0 / (double)n;
    return n_ramp == 1 ? first : first + (1 - first) * (double)i / (double)(n_ramp - 1);
}

/* `kernels` has n kernels with trial and mean, in the order of trials, and room for the prior. */
static density open_density(const ls_search_parameter *p, int64_t n, ls__search_kernel *kernels)
{
    const double half = p->kind == LS_SEARCH_INTEGER ? 0.5 : 0;
    density d = { .parameter = p, .n = n + 1, .kernels = kernels };
    double sum = 1; /* the prior's weight */
    for (int64_t i = 0; i < n; i++) sum += kernels[i].weight = weight(i, n);
    kernels[n] = (ls__search_kernel){ .weight = 1 };
    for (int64_t i = 0; i <= n; i++) kernels[i].weight /= sum;
    if (p->kind == LS_SEARCH_LIST) return d;
    d.low = coordinate(p, p->low) - half;
    d.high = coordinate(p, p->high) + half;
    if (d.high == d.low) return d; /* one value: it has no density */
    set_stds(&d, n);
    kernels[n].mean = 0.5 * (d.low + d.high);
    kernels[n].std = d.high - d.low;
    return d;
}

/* The density, or for integers and lists the probability, of a kernel. */
static double kernel_density(const density *d, const ls__search_kernel *k, double x)
{
    const ls_search_parameter *p = d->parameter;
    if (p->kind == LS_SEARCH_LIST) {
        const double share = 1.0 / (double)d->n, count = (double)p->count;
        const bool is_prior = k == &d->kernels[d->n - 1];
        return is_prior ? 1 / count : ((x == k->mean) + share) / (1 + count * share);
    }
    if (d->high == d->low) return 1;
    const double inside = p->kind == LS_SEARCH_INTEGER
                              ? mass(k, x - 0.5, x + 0.5)
                              : normal_pdf((x - k->mean) / k->std) / k->std;
    return inside / mass(k, d->low, d->high);
}

static double log_density(const density *d, double value)
{
    const double x = coordinate(d->parameter, value);
    double sum = 0;
    for (int64_t i = 0; i < d->n; i++)
        sum += d->kernels[i].weight * kernel_density(d, &d->kernels[i], x);
    return ls__log2(sum);
}

/* u in (0,1): of the kernel, and within it. */
static double draw_value(const density *d, const double u[2])
{
    const ls_search_parameter *p = d->parameter;
    const ls__search_kernel *k = d->kernels;
    double sum = k->weight;
    for (; sum < u[0] && k < &d->kernels[d->n - 1]; sum += k->weight) k++;
    if (p->kind == LS_SEARCH_LIST) {
        double value = 0, below = kernel_density(d, k, 0);
        for (; below < u[1] && value < (double)p->count - 1; below += kernel_density(d, k, value))
            value++;
        return value;
    }
    if (d->high == d->low) return p->low;
    const double begin = normal_cdf((d->low - k->mean) / k->std);
    const double at = begin + u[1] * mass(k, d->low, d->high);
    const double z = ls__normal_quantile(fmin(fmax(at, 0x1p-53), 1 - 0x1p-53));
    const double x = fmin(fmax(k->mean + k->std * z, d->low), d->high);
    return ls__search_round(p, p->kind == LS_SEARCH_LOG ? ls__exp2(x) : x);
}

/* ---- Suggestions ---- */

static int64_t count_below(int64_t n)
{
    const int64_t tenth = (n + 9) / 10;
    return tenth < MAX_BELOW ? tenth : MAX_BELOW;
}

/* The densities of a parameter from the first n trials, with the kernels in the search's memory. */
static void split(const ls_search *s, int64_t n, int64_t parameter, density *below, density *above)
{
    const ls_search_parameter *p = &s->parameters[parameter];
    const int64_t n_below = count_below(n);
    ls__search_kernel *next[2] = { s->kernels, s->kernels + n_below + 1 };
    for (int64_t i = 0; i < n; i++) {
        const double value = s->values[i * s->config.parameter_count + parameter];
        *next[s->ranks[i] >= n_below]++ =
            (ls__search_kernel){ .trial = i, .mean = coordinate(p, value) };
    }
    *below = open_density(p, n_below, s->kernels);
    *above = open_density(p, n - n_below, s->kernels + n_below + 1);
}

void ls__search_tpe_rank(ls_search *s, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        s->kernels[i] = (ls__search_kernel){ .trial = i, .mean = s->scores[i] };
    qsort(s->kernels, (size_t)n, sizeof(*s->kernels), by_mean);
    for (int64_t i = 0; i < n; i++) s->ranks[s->kernels[i].trial] = i;
}

double ls__search_tpe_score(const ls_search *s, int64_t n, int64_t parameter, double value)
{
    density below, above;
    split(s, n, parameter, &below, &above);
    return log_density(&below, value) - log_density(&above, value);
}

double ls__search_tpe_value(const ls_search *s, int64_t n, int64_t trial, int64_t parameter)
{
    density below, above;
    double best = 0, best_score = -INFINITY;
    split(s, n, parameter, &below, &above);
    for (uint32_t i = 0; i < N_CANDIDATES; i++) {
        double u[2];
        ls__search_uniform(s, trial, parameter, 1 + i, u); /* block 0: random values */
        const double value = draw_value(&below, u);
        const double score = log_density(&below, value) - log_density(&above, value);
        if (i > 0 && !(score > best_score)) continue;
        best = value;
        best_score = score;
    }
    return best;
}
