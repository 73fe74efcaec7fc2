/* tune.c: benchmark = on. While a net is built, the kernels of its ops are timed, and the fastest
 * go into the context's table, where choose.c finds them.
 *
 * Timing has to pay: it takes at most a small share of the time that the steps are expected to
 * take, by the backend's estimates. The ops that weigh most come first; those for which no time is
 * left go by the estimate, and into the table all the same, so that a run with this run's plan
 * times nothing. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "nn/lower.h"
#include "nn/net_state.h"
#include "nn/trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Timing may take this share of all steps' time. Where sizes change all the time only few steps
 * have the sizes that the net is built for, so an unknown number counts as few; with these numbers
 * bench_sizes finds what timing costs to be 0.5 % of 200 steps. */
static const double SHARE = 0.03;
enum { UNKNOWN_STEPS = 25 };
/* It may always take this long. */
static const double LEAST_MS = 30;
/* Making a kernel: oneDNN writes its code at run time. */
static const double OPEN_MS = 1;

/* A kernel's time is the shortest of so many runs after one that warms up, or of more, as long as
 * all of them take less than SHORT_MS. */
enum { TIMED_RUNS = 3, MOST_TIMED_RUNS = 20 };
static const double SHORT_MS = 0.5;
/* Kernels whose estimate is so many times the best one's are not tried: the estimates are not that
 * wrong, and the plain-C reference is there for every op. */
static const double HOPELESS = 8;
/* One that a run shows to be slower than this many times the best is given up; the run that warms
 * up shows it when it is slower than twice that. */
static const double SLOWER = 1.5;
/* The estimate's choice stays unless another one takes less than this share of its time: smaller
 * differences are noise. */
static const double CLEARLY_FASTER = 0.97;

static double now_ms(void)
{
    return 1e3 * ls__now_seconds();
}

/* Runs the kernel until its time is known: see the numbers at the top. Negative when it fails. */
static double time_runs(ls__device *device, ls__kernel *kernel, void *const *buffers,
                        void *workspace, double best_known)
{
    const ls__step step = { 0 };
    double best = -1, sum = 0;
    for (int run = 0; run <= MOST_TIMED_RUNS; run++) {
        const double start = now_ms();
        if (kernel->run(kernel, buffers, workspace, &step) != LS_OK ||
            device->backend->wait(device) != LS_OK)
            return -1;
        const double time = now_ms() - start;
        if (run == 0 && best_known >= 0 && time > 2 * SLOWER * best_known) return time;
        if (run == 0) continue;
        if (best < 0 || time < best) best = time;
        sum += time;
        const bool hopeless = best_known >= 0 && best > SLOWER * best_known;
        if (hopeless || (run >= TIMED_RUNS && sum > SHORT_MS)) break;
    }
    return best;
}

/* Time of a candidate over zeroed memory; negative when it could not be made or run. */
static double measure(ls_context *ctx, const ls__op *op, const char *name, double best_known)
{
    ls__device *device = ctx->device;
    const ls__backend *backend = device->backend;
    ls__trial_memory memory;
    ls__kernel *kernel = NULL;
    double time = -1;
    const ls_status status = backend->kernel_open(device, op, name, &kernel);
    if (status != LS_OK) {
        (void)ls__forgive_missing_kernel(ctx, status);
        return -1;
    }
    if (ls__trial_memory_open(ctx, op, kernel, &memory)) {
        backend->begin(device);
        time = time_runs(device, kernel, memory.buffers, memory.workspace, best_known);
        backend->end(device);
        if (time < 0 && ls__forgive_failed_run(ctx))
            ls__inform(ctx, "%s: %s fails when it is run, it is not compared: %.500s",
                       ls__op_name(op->kind), name, ctx->message);
    }
    ls__trial_memory_close(ctx, &memory);
    kernel->close(kernel);
    return time;
}

/* ---- One op ---- */

/* An op that is worth timing. */
typedef struct job {
    const ls__op *op;
    const char *text;
    int n; /* candidates that are worth a try, the estimate's choice first */
    ls__candidate candidates[LS__MAX_CANDIDATES];
    double weight_ms; /* of all equal ops of the program */
    double price_ms;  /* of timing, by the estimates */
} job;

/* The candidates; 0 or 1 when there is nothing to compare. */
static int list_candidates(ls_context *ctx, const ls__op *op, ls__candidate *out)
{
    ls__candidate allowed[LS__MAX_CANDIDATES];
    int n_found, n = 0;
    const int cheapest = ls__choose_candidate(ctx, op, allowed, &n_found);
    if (cheapest < 0) return 0;
    out[n++] = allowed[cheapest];
    for (int i = 0; i < n_found && allowed[i].name[0]; i++)
        if (i != cheapest && allowed[i].cost_ms <= HOPELESS * allowed[cheapest].cost_ms)
            out[n++] = allowed[i];
    return n;
}

/* The fastest of the candidates; no kernel when fewer than two could be run. */
static ls__choice choose_by_time(ls_context *ctx, const job *j)
{
    ls__choice choice = { .op = j->text };
    int n_tried = 0, best = -1;
    double best_time = -1;
    for (int i = 0; i < j->n; i++) {
        const double time = measure(ctx, j->op, j->candidates[i].name, best_time);
        if (time < 0) continue;
        n_tried++;
        if (best_time >= 0 && time >= CLEARLY_FASTER * best_time) continue;
        best_time = time;
        best = i;
    }
    if (n_tried < 2) return choice;
    memcpy(choice.kernel, j->candidates[best].name, sizeof choice.kernel);
    snprintf(choice.reason, sizeof choice.reason, "timed %.3g ms of %d candidates", best_time,
             n_tried);
    return choice;
}

static ls_status settle(ls_context *ctx, const job *j, bool timed)
{
    ls__choice choice = { .op = j->text,
                          .reason = "heuristic, no time to compare",
                          .estimated = true };
    memcpy(choice.kernel, j->candidates[0].name, sizeof choice.kernel);
    if (timed) choice = choose_by_time(ctx, j);
    LS__ENTER(ctx);
    if (!choice.kernel[0]) return LS_OK;
    LS_TRY(ls__choices_put(ctx, ctx->choices, &choice));
    ls__choices_keep_recent(ctx->choices, LS__MAX_CHOICES);
    ctx->choices->n_timed += timed;
    return LS_OK;
}

/* ---- A program's ---- */

typedef struct job_list {
    job *items;
    int n;
    double step_ms; /* the whole program, by the estimates */
} job_list;

static int by_weight(const void *a, const void *b)
{
    const job *x = a, *y = b;
    if (x->weight_ms != y->weight_ms) return x->weight_ms < y->weight_ms ? 1 : -1;
    return strcmp(x->text, y->text);
}

static bool is_settled(const ls__program *p, const char *text)
{
    return ls__choices_find(p->net->choices, text) || ls__choices_find(p->ctx->choices, text);
}

static bool is_for_a_kernel(const ls__program *p, const ls__instruction *in)
{
    return !in->custom && !ls__reorder_is_identity(p, in);
}

/* Is there an op that is not settled and has several kernels? Where listing takes long, a program
 * whose plan settles all has no time to lose. */
static bool has_news(ls__program *p)
{
    ls__candidate candidates[LS__MAX_CANDIDATES];
    char text[LS__OP_TEXT_SIZE];
    for (int i = 0; i < p->n_instructions; i++) {
        const ls__instruction *in = &p->instructions[i];
        if (!is_for_a_kernel(p, in)) continue;
        ls__op_text(&in->op, text, sizeof text);
        if (!is_settled(p, text) && list_candidates(p->ctx, &in->op, candidates) > 1) return true;
    }
    return false;
}

/* Adds the op, or its weight to that of an equal one. */
static ls_status add(ls__program *p, job_list *jobs, const ls__op *op)
{
    const double threads = p->ctx->device->backend->threads(p->ctx->device);
    char text[LS__OP_TEXT_SIZE];
    job *j = &jobs->items[jobs->n];
    j->n = list_candidates(p->ctx, op, j->candidates);
    if (j->n < 1) return LS_OK; /* choose.c makes the error */
    const double ms = j->candidates[0].cost_ms / threads;
    jobs->step_ms += ms;
    if (j->n < 2) return LS_OK;
    const size_t length = ls__op_text(op, text, sizeof text);
    if (is_settled(p, text)) return LS_OK;
    for (int i = 0; i < jobs->n; i++)
        if (strcmp(jobs->items[i].text, text) == 0) {
            jobs->items[i].weight_ms += ms;
            return LS_OK;
        }
    char *copy = ls__bump_alloc(&p->bump, length + 1);
    if (!copy) return ls__fail_memory(p->ctx, "timing of kernels", length + 1);
    j->text = memcpy(copy, text, length + 1);
    j->op = op;
    j->weight_ms = ms;
    j->price_ms = 0;
    for (int i = 0; i < j->n; i++)
        j->price_ms += OPEN_MS + (1 + TIMED_RUNS) * j->candidates[i].cost_ms / threads;
    jobs->n++;
    return LS_OK;
}

ls_status ls__program_tune(ls__program *p)
{
    if (!has_news(p)) return LS_OK;
    const size_t bytes = (size_t)p->n_instructions * sizeof(job);
    job_list jobs = { .items = ls__alloc(p->ctx, bytes) };
    if (!jobs.items) return ls__fail_memory(p->ctx, "timing of kernels", bytes);
    ls_status status = LS_OK;
    for (int i = 0; i < p->n_instructions && status == LS_OK; i++) {
        const ls__instruction *in = &p->instructions[i];
        if (is_for_a_kernel(p, in)) status = add(p, &jobs, &in->op);
    }
    qsort(jobs.items, (size_t)jobs.n, sizeof(job), by_weight);
    const int64_t steps = p->net->config.steps ? p->net->config.steps : UNKNOWN_STEPS;
    double left = SHARE * (double)steps * jobs.step_ms;
    if (left < LEAST_MS) left = LEAST_MS;
    for (int i = 0; i < jobs.n && status == LS_OK; i++) {
        const double start = now_ms();
        status = settle(p->ctx, &jobs.items[i], jobs.items[i].price_ms <= left);
        left -= now_ms() - start;
    }
    ls__free(p->ctx, jobs.items);
    return status;
}
