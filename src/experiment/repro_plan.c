/* repro_plan.c: the runs of an experiment; see repro_state.h. */
#include "experiment/repro_state.h"

#include "base/error.h"
#include <ctype.h>
#include <errno.h>
#include <lockstep/random.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct axis {
    int n, values[LS__REPRO_MAX_AXIS];
} axis;

typedef struct axes {
    axis workers, threads, ranks;
} axes;

/* "0,1,2" */
static ls_status read_axis(ls_context *ctx, const char *name, const char *text, int min, int max,
                           axis *out)
{
    out->n = 0;
    for (const char *at = text;; at++) {
        char *end;
        errno = 0;
        const long value = strtol(at, &end, 10);
        bool ok = end != at && !isspace((unsigned char)*at) && (!*end || *end == ',') && !errno &&
                  value >= min && value <= max;
        for (int i = 0; i < out->n; i++) ok = ok && out->values[i] != value;
        if (!ok || out->n == LS__REPRO_MAX_AXIS)
            return ls__fail(ctx, LS_ERR_SETTING,
                            "--%s: expected at most %d different integers from %d to %d, such as "
                            "0,1,2; got '%s'",
                            name, (int)LS__REPRO_MAX_AXIS, min, max, text);
        out->values[out->n++] = (int)value;
        at = end;
        if (!*end) return LS_OK;
    }
}

static int count_combinations(const axes *a)
{
    return a->workers.n * a->threads.n * a->ranks.n;
}

static ls_status read_axes(ls_context *ctx, const ls__repro_values *v, axes *a)
{
    LS_TRY(read_axis(ctx, "workers", v->workers, 0, 256, &a->workers));
    LS_TRY(read_axis(ctx, "threads", v->threads, 1, 1024, &a->threads));
    LS_TRY(read_axis(ctx, "ranks", v->ranks, 1, 64, &a->ranks));
    for (int i = 0; i < a->ranks.n; i++)
        if (a->ranks.values[i] > v->settings.shards)
            return ls__fail(ctx, LS_ERR_SETTING, "--ranks %s: %d ranks require --shards %d or more",
                            v->ranks, a->ranks.values[i], a->ranks.values[i]);
    if (count_combinations(a) > 1 || v->restarts > 0) return LS_OK;
    return ls__fail(ctx, LS_ERR_SETTING,
                    "--workers %s, --threads %s and --ranks %s give only one run; a comparison "
                    "requires two: give more numbers, or --restart 1",
                    v->workers, v->threads, v->ranks);
}

/* The step at which a run is stopped: a random one of the k-th of `restarts` equal intervals. */
static int64_t stop_step(const ls__repro_values *v, int run, int k)
{
    uint32_t words[4];
    ls_random_words(
        (uint64_t)v->settings.seed,
        &(ls_draw){ .stream = LS_RANDOM_USER, .layer = (uint32_t)k, .sample = (uint64_t)run },
        words);
    const int64_t last = v->settings.steps - 1;
    const int64_t begin = k * last / v->restarts, end = (k + 1) * last / v->restarts;
    return begin + 1 + (int64_t)ls_random_below(words[0], words[1], (uint32_t)(end - begin));
}

static void add_leg(const ls_repro *r, int i, ls_repro_leg leg, int64_t stop_at)
{
    ls_repro_run *run = &r->runs[i];
    ls__repro_parts *parts = &r->parts[i];
    const size_t n = strlen(parts->legs_text), size = sizeof(parts->legs_text) - n;
    char stop[32] = "", ranks[16] = "";
    if (stop_at) snprintf(stop, sizeof(stop), " @%lld", (long long)stop_at);
    if (r->has_ranks) snprintf(ranks, sizeof(ranks), "x%d", leg.ranks);
    snprintf(parts->legs_text + n, size, "%s%dx%d%s%s", n ? " " : "", leg.workers, leg.threads,
             ranks, stop);
    if (stop_at) parts->stops[run->leg_count] = stop_at;
    parts->legs[run->leg_count++] = leg;
}

/* The values of combination i, k places further on each axis. With --seeding worker the number of
 * workers is part of the identity, so it stays. */
static ls_repro_leg combination(const axes *a, int i, int k, bool keeps_workers)
{
    const int w = i / (a->threads.n * a->ranks.n), t = i / a->ranks.n % a->threads.n;
    return (ls_repro_leg){ a->workers.values[(w + (keeps_workers ? 0 : k)) % a->workers.n],
                           a->threads.values[(t + k) % a->threads.n],
                           a->ranks.values[(i + k) % a->ranks.n] };
}

static void plan_run(const ls_repro *r, const axes *a, int i, int n_once)
{
    const ls__repro_values *v = &r->values;
    const bool keeps_workers = v->settings.seeding == LS_SEED_BY_WORKER;
    const int restarts = i < n_once ? 0 : (int)v->restarts;
    ls__repro_parts *parts = &r->parts[i];
    r->runs[i] = (ls_repro_run){ .name = parts->name,
                                 .legs = parts->legs,
                                 .stops = parts->stops,
                                 .legs_text = parts->legs_text,
                                 .result = -1,
                                 .divergence.step = -1 };
    for (int k = 0; k <= restarts; k++)
        add_leg(r, i, combination(a, i % n_once, k, keeps_workers),
                k < restarts ? stop_step(v, i, k) : 0);
    char ranks[16] = "", restart[16] = "";
    if (r->has_ranks) snprintf(ranks, sizeof(ranks), "-n%d", parts->legs[0].ranks);
    if (restarts) snprintf(restart, sizeof(restart), "-r%d", restarts);
    snprintf(parts->name, sizeof(parts->name), "w%d-t%d%s%s", parts->legs[0].workers,
             parts->legs[0].threads, ranks, restart);
}

ls_status ls__repro_plan(ls_repro *r)
{
    axes a;
    LS_TRY(read_axes(r->ctx, &r->values, &a));
    const int n_once = count_combinations(&a), n = (r->values.restarts > 0 ? 2 : 1) * n_once;
    r->has_ranks = a.ranks.n > 1 || a.ranks.values[0] > 1;
    r->runs = calloc((size_t)n, sizeof(*r->runs));
    r->parts = calloc((size_t)n, sizeof(*r->parts));
    if (!r->runs || !r->parts)
        return ls__fail_memory(r->ctx, "runs", (size_t)n * sizeof(*r->parts));
    for (; r->n_runs < n; r->n_runs++) plan_run(r, &a, r->n_runs, n_once);
    return LS_OK;
}
