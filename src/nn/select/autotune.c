/* autotune.c: benchmark = on. While a net is built, the kernels of its ops are timed, and the
 * fastest are put into the algorithm cache, where open_kernel.c finds them.
 *
 * Timing takes at most a small share of the estimated time of all expected steps. The longest ops
 * are timed first. An op for which no time is left gets its cheapest candidate by the estimates.
 * That selection is stored too, so that a run with this algorithm cache times nothing. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "nn/select/selector.h"
#include "nn/select/timing.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The largest share of all steps' time. If sizes change often, only few steps have the sizes of the
 * build, so an unknown number of steps counts as few. With these values bench_sizes measures a cost
 * of 0.5 % of 200 steps. */
static const double SHARE = 0.03;
enum { UNKNOWN_STEPS = 25 };
/* Timing may always take this long. */
static const double MIN_MS = 30;
/* Opening a kernel: oneDNN generates code at run time. */
static const double OPEN_MS = 1;

/* Candidates whose estimate is this many times the best one's are not timed: no estimate is wrong
 * by this much. */
static const double HOPELESS = 8;

/* ---- One op ---- */

/* An op that is worth timing. */
typedef struct job {
    const ls__instruction *in; /* filled */
    const char *text;
    int n; /* candidates to time, the cheapest by the estimates first */
    ls__candidate candidates[LS__MAX_CANDIDATES];
    double weight_ms; /* of all equal ops of the program */
    double price_ms;  /* of timing, by the estimates */
} job;

/* Lists the candidates; 0 or 1 if there is nothing to compare. */
static int list_candidates(ls_context *ctx, const ls__op *op, ls__candidate *out)
{
    ls__candidate allowed[LS__MAX_CANDIDATES];
    int n_found, n = 0;
    const int n_allowed = ls__list_candidates(ctx, op, allowed, &n_found);
    const int best = ls__cheapest(allowed, n_allowed);
    if (best >= 0) out[n++] = allowed[best];
    for (int i = 0; i < n_allowed; i++)
        if (i != best && allowed[i].cost_ms <= HOPELESS * allowed[best].cost_ms)
            out[n++] = allowed[i];
    return n;
}

/* Time of a candidate; negative if it can't be opened or run. */
static double measure_kernel(ls__op_memory *memory, const char *name, double best_known)
{
    ls_context *ctx = memory->ctx;
    ls__kernel *kernel = NULL;
    const ls_status status =
        ctx->device->backend->kernel_open(ctx->device, &memory->ops[0].op, name, &kernel);
    if (status != LS_OK) {
        (void)ls__forgive_missing_kernel(ctx, status);
        return -1;
    }
    double ms;
    const bool timed = ls__timing_run(memory, &kernel, best_known, &ms) == LS_OK;
    kernel->close(kernel);
    return timed ? ms : -1;
}

/* The fastest candidate; no kernel if none can be run. */
static ls__selection choose_by_time(ls_context *ctx, const job *j)
{
    ls__selection selection = { .op = j->text };
    int n_tried = 0, best = -1;
    double best_ms = -1;
    ls__op_memory memory;
    const bool ready = ls__timing_open(&memory, ctx, j->in, 1) == LS_OK;
    /* The first time is dropped, because an idle GPU needs some milliseconds to reach its clock
     * rate. */
    bool idle = ctx->device->backend->timer_start && ctx->selections->n_timed == 0;
    for (int i = 0; i < j->n && ready; i++) {
        double ms = measure_kernel(&memory, j->candidates[i].name, best_ms);
        if (idle && ms >= 0) ms = measure_kernel(&memory, j->candidates[i].name, best_ms);
        if (ms < 0) continue;
        idle = false;
        n_tried++;
        if (best_ms >= 0 && ms >= LS__CLEARLY_FASTER * best_ms) continue;
        best_ms = ms;
        best = i;
    }
    ls__op_memory_close(&memory);
    if (n_tried == 0) return selection;
    memcpy(selection.kernel, j->candidates[best].name, sizeof selection.kernel);
    snprintf(selection.reason, sizeof selection.reason, "timed %.3g ms of %d candidates", best_ms,
             n_tried);
    return selection;
}

ls_status ls__autotune_put(ls_context *ctx, const ls__selection *selection, bool timed)
{
    LS__ENTER(ctx);
    if (!selection->kernel[0]) return LS_OK;
    LS_TRY(ls__selections_put(ctx, ctx->selections, selection));
    ls__selections_keep_recent(ctx->selections, LS__MAX_SELECTIONS);
    ctx->selections->n_timed += timed;
    return LS_OK;
}

/* The cheapest candidate that can be opened; no kernel if there is none, or after an error, which
 * stays in the context. */
static ls__selection choose_by_estimate(ls__selector *s, const job *j)
{
    ls__selection selection = { .op = j->text, .reason = "heuristic, no time to compare" };
    ls__candidate candidates[LS__MAX_CANDIDATES];
    ls__kernel *kernel;
    int n = j->n, chosen;
    memcpy(candidates, j->candidates, (size_t)n * sizeof *candidates);
    const ls_status status =
        ls__selector_open_best(s, &j->in->op, j->in->node->name, candidates, &n, &kernel, &chosen);
    if (status == LS_OK) {
        memcpy(selection.kernel, candidates[chosen].name, sizeof selection.kernel);
        kernel->close(kernel);
    } else {
        (void)ls__forgive_missing_kernel(s->ctx, status); /* open_kernel.c reports the error */
    }
    return selection;
}

/* Times the op if that takes at most *left_ms, and subtracts the time taken. */
static ls_status run_job(ls__selector *s, const job *j, double *left_ms)
{
    ls_context *ctx = s->ctx;
    const double start = ls__now_ms();
    const bool timed = j->price_ms <= *left_ms;
    const ls__selection selection = timed ? choose_by_time(ctx, j) : choose_by_estimate(s, j);
    const ls_status status = ls__autotune_put(ctx, &selection, timed);
    *left_ms -= ls__now_ms() - start;
    return status;
}

/* ---- All of a program ---- */

static int by_weight(const void *a, const void *b)
{
    const job *x = a, *y = b;
    if (x->weight_ms != y->weight_ms) return x->weight_ms < y->weight_ms ? 1 : -1;
    return strcmp(x->text, y->text);
}

static bool is_selected(const ls__program *p, const char *text)
{
    return ls__selections_find(p->env->selector->used, text) ||
           ls__selections_find(p->ctx->selections, text);
}

static bool is_for_a_kernel(const ls__instruction *in)
{
    return !in->custom && !ls__is_copy(in);
}

double ls__autotune_price_ms(const ls__program *p, double cost_ms)
{
    const ls__device *device = p->ctx->device;
    return OPEN_MS + ls__timing_runs(p->ctx) * cost_ms / device->backend->threads(device);
}

double *ls__autotune_left_ms(ls__program *p)
{
    if (p->has_tuning_budget) return &p->tuning_left_ms;
    double step_ms = 0;
    for (int i = 0; i < p->n_instructions; i++) {
        ls__instruction in = p->instructions[i];
        if (!is_for_a_kernel(&in)) continue;
        ls__instruction_fill(p, &in);
        const double ms = ls__cheapest_ms(p->ctx, &in.op);
        if (ms < LS__IMPOSSIBLE_MS) step_ms += ms;
    }
    step_ms /= p->ctx->device->backend->threads(p->ctx->device);
    const int64_t steps = p->env->expected_steps ? p->env->expected_steps : UNKNOWN_STEPS;
    p->tuning_left_ms = SHARE * (double)steps * step_ms;
    if (p->tuning_left_ms < MIN_MS) p->tuning_left_ms = MIN_MS;
    p->has_tuning_budget = true;
    return &p->tuning_left_ms;
}

/* Adds the op to the *n jobs, or adds its weight to that of an equal op. */
static ls_status add_job(ls__program *p, job *jobs, int *n, const ls__instruction *in)
{
    char text[LS__OP_TEXT_SIZE];
    job *j = &jobs[*n];
    const size_t length = ls__op_text(&in->op, text, sizeof text);
    if (is_selected(p, text)) return LS_OK;
    j->n = list_candidates(p->ctx, &in->op, j->candidates);
    if (j->n < 2) return LS_OK; /* if there is none, open_kernel.c reports the error */
    const double ms = j->candidates[0].cost_ms;
    for (int i = 0; i < *n; i++)
        if (strcmp(jobs[i].text, text) == 0) {
            jobs[i].weight_ms += ms;
            return LS_OK;
        }
    char *copy = ls__bump_alloc(&p->bump, length + 1);
    if (!copy) return ls__fail_memory(p->ctx, "timing of kernels", length + 1);
    j->text = memcpy(copy, text, length + 1);
    j->in = in;
    j->weight_ms = ms;
    j->price_ms = 0;
    for (int i = 0; i < j->n; i++)
        j->price_ms += ls__autotune_price_ms(p, j->candidates[i].cost_ms);
    ++*n;
    return LS_OK;
}

ls_status ls__autotune(ls__program *p, const ls__instruction *list, int n)
{
    const size_t bytes = (size_t)n * sizeof(job);
    job *jobs = ls__alloc(p->ctx, bytes);
    if (!jobs) return ls__fail_memory(p->ctx, "timing of kernels", bytes);
    ls_status status = LS_OK;
    int n_jobs = 0;
    for (int i = 0; i < n && status == LS_OK; i++)
        if (is_for_a_kernel(&list[i])) status = add_job(p, jobs, &n_jobs, &list[i]);
    qsort(jobs, (size_t)n_jobs, sizeof *jobs, by_weight);
    for (int i = 0; i < n_jobs && status == LS_OK; i++)
        status = run_job(p->env->selector, &jobs[i], ls__autotune_left_ms(p));
    ls__free(p->ctx, jobs);
    return status;
}
