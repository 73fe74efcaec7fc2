/* repro_plan.c: the settings of an experiment, and its runs; see repro_state.h. */
#include "experiment/repro_state.h"

#include "base/error.h"
#include <ctype.h>
#include <errno.h>
#include <lockstep/random.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Settings ---- */

#define AT(member) offsetof(ls__repro_values, member)

static const ls_setting own_settings[] = {
    { LS_SETTING_HEADING, .help = "Experiment:" },
    { LS_SETTING_TEXT, 'j', "workers", AT(workers), "numbers of data-loader workers to compare",
      "N,N,...", .fallback = "0,1,2,4,8", .usual = true },
    { LS_SETTING_TEXT, 0, "threads", AT(threads),
      "numbers of compute threads to compare, in all combinations with --workers", "N,N,...",
      .fallback = "1,2,3,4", .usual = true },
    { LS_SETTING_TEXT, 0, "ranks", AT(ranks),
      "numbers of ranks to compare, in all combinations; processes that mpirun starts, at most as "
      "many as --shards",
      "N,N,...", .fallback = "1", .usual = true },
    { LS_SETTING_INTEGER, 0, "restart", AT(restarts),
      "train each combination once more, interrupted N times and resumed with other numbers of "
      "workers, threads and ranks",
      "N", 0, LS__REPRO_MAX_RESTARTS, .fallback = "0", .usual = true },
    { LS_SETTING_INTEGER, 0, "steps", AT(settings.steps), "steps of each run", "N", 1, 1e6,
      .fallback = "60", .usual = true },
    { LS_SETTING_TEXT, 0, "out", AT(settings.out), "new folder for the experiment", "DIR",
      .note = "repro, or repro-2, repro-3, ...", .usual = true },
};
enum { N_OWN = sizeof(own_settings) / sizeof(own_settings[0]) };

/* Settings of a run that the experiment sets or that have no effect in it. */
static bool is_taken(const ls_setting *setting)
{
    static const char *const names[] = { "workers", "threads",  "steps", "stop-at",     "out",
                                         "resume",  "patience", "force", "inject-fault" };
    for (size_t i = 0; setting->name && i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(setting->name, names[i]) == 0) return true;
    return false;
}

static ls_setting table[LS_MAX_SETTINGS + 1];

static void make_table(void)
{
    int n = N_OWN;
    memcpy(table, own_settings, sizeof(own_settings));
    for (const ls_setting *s = ls__run_settings_table;
         s->kind != LS_SETTING_END && n < LS_MAX_SETTINGS; s++)
        if (!is_taken(s)) table[n++] = *s;
    table[n] = (ls_setting){ .kind = LS_SETTING_END };
}

const ls_setting *ls_repro_settings(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_table);
    return table;
}

void ls__repro_put_settings(const ls_repro *r, bool of_runs, ls__words *words)
{
    const ls_setting *settings = r->given.table;
    for (int i = of_runs ? N_OWN : 0; settings[i].kind != LS_SETTING_END; i++) {
        const char *value = r->given.text[i];
        if (value) ls__words_put(words, "--%s%s%s", settings[i].name, *value ? "=" : "", value);
    }
}

/* ---- Runs ---- */

typedef struct axis {
    int n, values[LS__REPRO_MAX_AXIS];
} axis;

typedef struct axes {
    axis workers, threads, ranks;
    int n; /* combinations */
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

static ls_status read_axes(ls_context *ctx, const ls__repro_values *v, axes *a)
{
    LS_TRY(read_axis(ctx, "workers", v->workers, 0, 256, &a->workers));
    LS_TRY(read_axis(ctx, "threads", v->threads, 1, 1024, &a->threads));
    LS_TRY(read_axis(ctx, "ranks", v->ranks, 1, 64, &a->ranks));
    for (int i = 0; i < a->ranks.n; i++)
        if (a->ranks.values[i] > v->settings.shards)
            return ls__fail(ctx, LS_ERR_SETTING, "--ranks %s: %d ranks require --shards %d or more",
                            v->ranks, a->ranks.values[i], a->ranks.values[i]);
    a->n = a->workers.n * a->threads.n * a->ranks.n;
    if (a->n > 1 || v->restarts > 0) return LS_OK;
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

static void plan_run(const ls_repro *r, const axes *a, int i)
{
    const ls__repro_values *v = &r->values;
    const bool keeps_workers = v->settings.seeding == LS_SEED_BY_WORKER;
    const int restarts = i < a->n ? 0 : (int)v->restarts;
    ls__repro_parts *parts = &r->parts[i];
    r->runs[i] = (ls_repro_run){ .name = parts->name,
                                 .legs = parts->legs,
                                 .stops = parts->stops,
                                 .legs_text = parts->legs_text,
                                 .result = -1,
                                 .divergence.step = -1 };
    for (int k = 0; k <= restarts; k++)
        add_leg(r, i, combination(a, i % a->n, k, keeps_workers),
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
    const int n = (r->values.restarts > 0 ? 2 : 1) * a.n;
    r->has_ranks = a.ranks.n > 1 || a.ranks.values[0] > 1;
    r->runs = calloc((size_t)n, sizeof(*r->runs));
    r->parts = calloc((size_t)n, sizeof(*r->parts));
    if (!r->runs || !r->parts)
        return ls__fail_memory(r->ctx, "runs", (size_t)n * sizeof(*r->parts));
    for (; r->n_runs < n; r->n_runs++) plan_run(r, &a, r->n_runs);
    return LS_OK;
}
