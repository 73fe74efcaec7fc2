/* search.c: the rounds of a search; see search.h. */
#include "experiment/search.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/floats.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const char CALL[] = "ls_search_open";

/* ---- Checks ---- */

static ls_status check_range(ls_context *ctx, const ls_search_parameter *p, bool is_grid)
{
    if (!isfinite(p->low) || !isfinite(p->high) || p->low > p->high)
        return ls__fail(ctx, LS_ERR_INVALID, "expected finite low <= high, got %g and %g", p->low,
                        p->high);
    if (p->kind == LS_SEARCH_LOG && p->low <= 0)
        return ls__fail(ctx, LS_ERR_INVALID, "a logarithmic range begins above 0, got %g", p->low);
    /* Values are computed from the ends' ratio or difference. */
    if (p->kind == LS_SEARCH_LOG && (p->low < DBL_MIN || !isfinite(p->high / p->low)))
        return ls__fail(ctx, LS_ERR_INVALID,
                        "a logarithmic range begins at %g or above, and the ratio of its "
                        "ends is at most %g; got %g and %g",
                        DBL_MIN, DBL_MAX, p->low, p->high);
    if (!isfinite(p->high - p->low))
        return ls__fail(ctx, LS_ERR_INVALID,
                        "the ends of a range differ by at most %g, got %g and %g", DBL_MAX, p->low,
                        p->high);
    const bool is_integer = p->kind == LS_SEARCH_INTEGER;
    if (is_integer && (p->low != floor(p->low) || p->high != floor(p->high) ||
                       fabs(p->low) >= 0x1p31 || fabs(p->high) >= 0x1p31))
        return ls__fail(ctx, LS_ERR_INVALID, "expected integers below 2^31, got %g and %g", p->low,
                        p->high);
    if (!is_grid || (is_integer && p->count == 0)) return LS_OK;
    if (p->count < 2 || (is_integer && (double)p->count > p->high - p->low + 1))
        return ls__fail(ctx, LS_ERR_INVALID,
                        "a range in a grid requires a number of points, 2 or more%s; got "
                        "%lld",
                        is_integer ? ", at most one per integer" : "", (long long)p->count);
    return LS_OK;
}

static ls_status check_parameters(ls_context *ctx, const ls_search_config *c)
{
    if (!c->parameters || c->parameter_count < 1)
        return ls__fail(ctx, LS_ERR_INVALID, "expected one parameter or more");
    for (int64_t i = 0; i < c->parameter_count; i++) {
        const ls_search_parameter *p = &c->parameters[i];
        if (!p->name || p->kind < LS_SEARCH_LIST || p->kind > LS_SEARCH_INTEGER)
            return ls__fail(ctx, LS_ERR_INVALID, "parameter %lld has no name or kind",
                            (long long)i);
        for (int64_t k = 0; k < i; k++)
            if (strcmp(p->name, c->parameters[k].name) == 0)
                return ls__fail(ctx, LS_ERR_INVALID, "two parameters have the name '%s'", p->name);
        if (p->kind == LS_SEARCH_LIST && p->count < 1)
            return ls__fail(ctx, LS_ERR_INVALID, "'%s': a list requires a value", p->name);
        if (p->kind == LS_SEARCH_LIST || check_range(ctx, p, c->method == LS_SEARCH_GRID) == LS_OK)
            continue;
        ls__error_in(ctx, "'%s'", p->name);
        return LS_ERR_INVALID;
    }
    return LS_OK;
}

static ls_status check_counts(ls_context *ctx, const ls_search_config *c)
{
    const struct {
        const char *name;
        int64_t value, min, max;
    } counts[] = { { "trials", c->trials, 0, LS_SEARCH_MAX_TRIALS },
                   { "max_epochs", c->max_epochs, 1, INT32_MAX },
                   { "min_epochs", c->min_epochs, 0, c->max_epochs },
                   { "eta", c->eta, 0, INT32_MAX },
                   { "startup", c->startup, 0, INT32_MAX },
                   { "batch", c->batch, 0, INT32_MAX } };
    if (c->method < LS_SEARCH_RANDOM || c->method > LS_SEARCH_TPE)
        return ls__fail(ctx, LS_ERR_INVALID, "unknown method %d", (int)c->method);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        if (counts[i].value < counts[i].min || counts[i].value > counts[i].max)
            return ls__fail(ctx, LS_ERR_INVALID, "%s %lld: expected %lld to %lld", counts[i].name,
                            (long long)counts[i].value, (long long)counts[i].min,
                            (long long)counts[i].max);
    if (c->eta == 1) return ls__fail(ctx, LS_ERR_INVALID, "eta 1: expected 2 or more");
    const bool computes = c->method == LS_SEARCH_GRID || c->method == LS_SEARCH_HYPERBAND;
    if (computes != (c->trials == 0))
        return ls__fail(ctx, LS_ERR_INVALID, "trials %lld: %s", (long long)c->trials,
                        computes ? "the method computes the number of trials"
                                 : "expected a number of trials");
    return LS_OK;
}

/* ---- Brackets: each begins with new trials, and has rungs 0 to its own number ---- */

/* The number of the bracket whose first rung has min_epochs. */
static int64_t last_bracket(const ls_search_config *c)
{
    int64_t s = 0;
    for (int64_t epochs = c->max_epochs / c->eta; epochs >= c->min_epochs; epochs /= c->eta) s++;
    return s;
}

static int64_t power(int64_t base, int64_t exponent)
{
    int64_t result = 1;
    for (; exponent > 0; exponent--) result *= base;
    return result;
}

/* Trials that bracket s begins with: ceil((s_max + 1) / (s + 1) eta^s). */
static int64_t bracket_size(const ls_search_config *c, int64_t s)
{
    if (c->method == LS_SEARCH_HALVING) return c->trials;
    return ((last_bracket(c) + 1) * power(c->eta, s) + s) / (s + 1);
}

static int64_t count_trials(const ls_search_config *c)
{
    if (c->method == LS_SEARCH_GRID) return ls__search_grid_size(c);
    if (c->method != LS_SEARCH_HYPERBAND) return c->trials;
    int64_t n = 0;
    for (int64_t s = last_bracket(c); s >= 0 && n <= LS_SEARCH_MAX_TRIALS; s--)
        n += bracket_size(c, s);
    return n;
}

static int compare_scores(const ls_search *s, int64_t a, int64_t b)
{
    if (s->scores[a] != s->scores[b]) return s->scores[a] < s->scores[b] ? -1 : 1;
    return (a > b) - (a < b);
}

/* Keeps the best jobs of the round, at most `max`, in the order of their trials. */
static void keep_best(ls_search *s, int64_t max)
{
    bool *is_kept = s->is_reported; /* all jobs have a result */
    int64_t n = 0;
    for (int64_t i = 0; i < s->n_jobs; i++) {
        const int64_t trial = s->jobs[i].trial;
        int64_t n_better = 0;
        for (int64_t k = 0; k < s->n_jobs; k++)
            n_better += compare_scores(s, s->jobs[k].trial, trial) < 0;
        is_kept[i] = n_better < max && isfinite(s->scores[trial]);
    }
    for (int64_t i = 0; i < s->n_jobs; i++)
        if (is_kept[i]) s->jobs[n++] = s->jobs[i];
    s->n_jobs = n;
}

/* ---- Rounds ---- */

/* n_known: trials with results. */
static double new_value(const ls_search *s, int64_t n_known, int64_t trial, int64_t parameter)
{
    const ls_search_config *c = &s->config;
    if (c->method == LS_SEARCH_GRID) return ls__search_grid_value(s, trial, parameter);
    return c->method == LS_SEARCH_TPE && n_known >= c->startup
               ? ls__search_tpe_value(s, n_known, trial, parameter)
               : ls__search_random_value(s, trial, parameter);
}

enum { SEEN_BITS = 15, SEEN_SLOTS = 1 << SEEN_BITS };
_Static_assert(SEEN_SLOTS >= 2 * LS_SEARCH_MAX_TRIALS, "half of the slots stay free");

/* Adds the combination of a trial to those that were seen; false if it was there. */
static bool add_combination(ls_search *s, int64_t trial)
{
    const int64_t key = ls__search_combination(s, trial) + 1;
    size_t slot = (size_t)((uint64_t)key * 0x9e3779b97f4a7c15u >> (64 - SEEN_BITS));
    while (s->seen[slot] != 0 && s->seen[slot] != key) slot = (slot + 1) % SEEN_SLOTS;
    if (s->seen[slot] == key) return false;
    s->seen[slot] = key;
    return true;
}

/* The values of the next trial from the next draw whose values no trial has. There is one, because
 * there are no more trials than combinations. */
static void draw_distinct(ls_search *s)
{
    const int64_t n = s->config.parameter_count, trial = s->n_begun;
    do {
        for (int64_t i = 0; i < n; i++)
            s->values[trial * n + i] = ls__search_random_value(s, s->n_draws, i);
        s->n_draws++;
    } while (!add_combination(s, trial));
}

/* A round of the next n trials. */
static void begin_trials(ls_search *s, int64_t n)
{
    const int64_t n_parameters = s->config.parameter_count, n_known = s->n_begun;
    if (n > s->n_trials - n_known) n = s->n_trials - n_known;
    for (s->n_jobs = 0; s->n_jobs < n; s->n_jobs++, s->n_begun++) {
        s->jobs[s->n_jobs].trial = s->n_begun;
        if (s->seen) draw_distinct(s);
        for (int64_t i = 0; i < n_parameters && !s->seen; i++)
            s->values[s->n_begun * n_parameters + i] = new_value(s, n_known, s->n_begun, i);
    }
}

/* The next rung of the bracket, else the next bracket. */
static void begin_rung(ls_search *s)
{
    const ls_search_config *c = &s->config;
    if (s->n_jobs > 0 && s->rung < s->bracket) {
        keep_best(s, s->n_jobs >= c->eta ? s->n_jobs / c->eta : 1);
        s->rung++;
    } else {
        s->n_jobs = 0;
    }
    if (s->n_jobs == 0) {
        s->bracket = s->n_begun == 0 ? last_bracket(c) : s->bracket - 1;
        s->rung = 0;
        if (s->bracket >= 0) begin_trials(s, bracket_size(c, s->bracket));
    }
    for (int64_t i = 0; i < s->n_jobs; i++)
        s->jobs[i].epochs = c->max_epochs / power(c->eta, s->bracket - s->rung);
}

ls_status ls_search_next(ls_search *s, const ls_search_job **jobs, int64_t *n)
{
    if (!s) return LS_ERR_EARLIER;
    ls_context *ctx = s->owned.ctx;
    LS__ENTER(ctx);
    LS__DEFAULT_FLOATS;
    if (s->n_unreported > 0)
        return ls__fail(ctx, LS_ERR_INVALID,
                        "ls_search_next: %lld jobs of the round have no result",
                        (long long)s->n_unreported);
    if (s->config.method == LS_SEARCH_HALVING || s->config.method == LS_SEARCH_HYPERBAND) {
        begin_rung(s);
    } else {
        const bool is_tpe = s->config.method == LS_SEARCH_TPE;
        if (is_tpe) ls__search_tpe_rank(s, s->n_begun);
        begin_trials(s, is_tpe ? s->config.batch : s->n_trials);
        for (int64_t i = 0; i < s->n_jobs; i++) s->jobs[i].epochs = s->config.max_epochs;
    }
    for (int64_t i = 0; i < s->n_jobs; i++) s->is_reported[i] = false;
    s->n_unreported = s->n_jobs;
    *jobs = s->jobs;
    *n = s->n_jobs;
    return LS_OK;
}

ls_status ls_search_report(ls_search *s, int64_t trial, double metric)
{
    if (!s) return LS_ERR_EARLIER;
    LS__ENTER(s->owned.ctx);
    for (int64_t i = 0; i < s->n_jobs; i++) {
        if (s->jobs[i].trial != trial || s->is_reported[i]) continue;
        s->is_reported[i] = true;
        s->n_unreported--;
        s->scores[trial] = !isfinite(metric) ? INFINITY : s->config.maximize ? -metric : metric;
        return LS_OK;
    }
    return ls__fail(s->owned.ctx, LS_ERR_INVALID,
                    "ls_search_report: the round has no job of trial %lld without a result",
                    (long long)trial);
}

/* ---- Lifetime ---- */

static void close_search(ls__owned *self)
{
    ls_search *s = (ls_search *)self;
    const ls_context *ctx = self->ctx;
    for (int64_t i = 0; s->parameters && i < s->config.parameter_count; i++)
        ls__free(ctx, (void *)s->parameters[i].name);
    ls__free(ctx, s->parameters);
    ls__free(ctx, s->values);
    ls__free(ctx, s->scores);
    ls__free(ctx, s->jobs);
    ls__free(ctx, s->is_reported);
    ls__free(ctx, s->seen);
    ls__free(ctx, s->ranks);
    ls__free(ctx, s->kernels);
    ls__free(ctx, s);
}

/* Copies the parameters and makes room for the trials; false without memory. */
static bool allocate(ls_context *ctx, ls_search *s)
{
    const ls_search_config *c = &s->config;
    const size_t n = (size_t)s->n_trials, n_parameters = (size_t)c->parameter_count;
    size_t n_values;
    if (!ls__mul_size(n * sizeof(double), n_parameters, &n_values)) return false;
    s->values = ls__zalloc(ctx, n_values);
    s->scores = ls__zalloc(ctx, n * sizeof(*s->scores));
    s->jobs = ls__zalloc(ctx, n * sizeof(*s->jobs));
    s->is_reported = ls__zalloc(ctx, n * sizeof(*s->is_reported));
    s->parameters = ls__zalloc(ctx, n_parameters * sizeof(*s->parameters));
    s->ranks = ls__zalloc(ctx, n * sizeof(*s->ranks));
    s->kernels = ls__zalloc(ctx, (n + 2) * sizeof(*s->kernels));
    s->seen = c->distinct ? ls__zalloc(ctx, SEEN_SLOTS * sizeof(*s->seen)) : NULL;
    bool ok = (s->seen || !c->distinct) && s->ranks && s->kernels && s->values && s->scores &&
              s->jobs && s->is_reported && s->parameters;
    for (size_t i = 0; ok && i < n_parameters; i++) {
        s->parameters[i] = c->parameters[i];
        s->parameters[i].name = ls__strdup(ctx, c->parameters[i].name);
        ok = s->parameters[i].name != NULL;
    }
    return ok;
}

ls_search *ls_search_open(ls_context *ctx, const ls_search_config *config)
{
    if (!ctx) return NULL;
    LS__ENTER_NULL(ctx);
    ls_search_config c = config ? *config : (ls_search_config){ 0 };
    if (check_counts(ctx, &c) != LS_OK || check_parameters(ctx, &c) != LS_OK)
        return ls__error_in(ctx, "%s", CALL), NULL;
    if (c.min_epochs == 0) c.min_epochs = 1;
    if (c.eta == 0) c.eta = 3;
    if (c.startup == 0) c.startup = 10;
    if (c.batch == 0) c.batch = 1;
    const int64_t n_combinations = ls__search_combination_count(&c);
    c.distinct = c.distinct && n_combinations > 0 &&
                 (c.method == LS_SEARCH_RANDOM || c.method == LS_SEARCH_HALVING);
    if (c.distinct && c.trials > n_combinations) c.trials = n_combinations;
    const int64_t n_trials = count_trials(&c);
    if (n_trials > LS_SEARCH_MAX_TRIALS) {
        ls__fail(ctx, LS_ERR_INVALID, "%s: the search has more than %d trials", CALL,
                 LS_SEARCH_MAX_TRIALS);
        return NULL;
    }
    ls_search *s = ls__zalloc(ctx, sizeof(*s));
    if (!s) return (void)ls__fail_memory(ctx, CALL, sizeof(*s)), NULL;
    s->config = c;
    s->n_trials = n_trials;
    ls__own(ctx, &s->owned, close_search);
    if (!allocate(ctx, s)) {
        ls__fail_memory(ctx, CALL, 0);
        ls_search_close(&s);
        return NULL;
    }
    s->config.parameters = s->parameters;
    return s;
}

void ls_search_close(ls_search **search)
{
    if (!search || !*search) return;
    ls__disown_and_close(&(*search)->owned);
    *search = NULL;
}

int64_t ls_search_trial_count(const ls_search *s)
{
    return s ? s->n_trials : 0;
}

double ls_search_value(const ls_search *s, int64_t trial, int64_t parameter)
{
    const bool is_known = s && trial >= 0 && trial < s->n_begun && parameter >= 0 &&
                          parameter < s->config.parameter_count;
    return is_known ? s->values[trial * s->config.parameter_count + parameter] : NAN;
}
