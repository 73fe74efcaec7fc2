/* timing.c: see timing.h. If the device has a clock, it measures several consecutive runs in the
 * stream. They are captured first and launched as one graph, like a step, so that the host's time
 * to queue them is excluded; a kernel that can't be captured is not timed and not selected. On
 * other devices the host's clock measures each run.
 *
 * Operands keep their addresses between runs, so small ones are read from the device's cache. In a
 * step that is similar, because the previous op has just written them. Large operands, which
 * dominate a step's time, do not fit into the cache. */
#include "nn/select/timing.h"

#include "base/clock.h"
#include "base/context.h"
#include "base/error.h"
#include "base/strict_math.h"
#include "base/text.h"
#include "nn/select/selector.h"

#include <math.h>

/* Runs per measurement by the device's clock, so that its resolution of half a microsecond is
 * negligible. */
enum { GROUP_RUNS = 10 };
/* The time is the shortest of GROUPS groups, or of up to MAX_GROUPS while all take less than
 * SHORT_MS. */
enum { GROUPS = 3, MAX_GROUPS = 20 };
static const double SHORT_MS = 0.5;
/* Timing ends early if a group is slower than this many times the best, or a single run slower than
 * twice that. */
static const double SLOWER = 1.5;

static bool has_clock(const ls_context *ctx)
{
    return ctx->device->backend->timer_start != NULL;
}

int ls__timing_runs(const ls_context *ctx)
{
    return has_clock(ctx) ? 2 + GROUPS * GROUP_RUNS : 1 + GROUPS;
}

/* Logs that the ops can't be timed, which is no error because another kernel may work. */
static ls_status forgive(ls_context *ctx, ls_status status, const ls__op *op, const char *what)
{
    if (status != LS_OK && ls__forgive_failed_run(ctx))
        ls__inform(ctx, LS_LOG_NET, "%s: %s can't be timed: %.*s", ls__op_name(op->kind), what,
                   LS__CUT(ctx->message, 500));
    return status;
}

ls_status ls__timing_open(ls__op_memory *memory, ls_context *ctx, const ls__instruction *ops, int n)
{
    return forgive(ctx, ls__op_memory_open(memory, ctx, ops, n, LS__RANDOM), &ops[0].op, "it");
}

/* The subject of timing: a kernel for each op, in order. */
typedef struct subject {
    const ls__op_memory *memory;
    ls__kernel *const *kernels;
} subject;

static const ls__step step; /* any */

static ls_status timing_queue(const subject *s, int runs)
{
    for (int run = 0; run < runs; run++)
        for (int i = 0; i < s->memory->n; i++)
            LS_TRY(s->kernels[i]->run(s->kernels[i], s->memory->buffers[i], s->memory->workspace,
                                      &step));
    return LS_OK;
}

/* *out stays NULL if the device can't capture. */
static ls_status timing_capture(const subject *s, ls__captured **out)
{
    ls__device *device = s->memory->ctx->device;
    const ls__backend *backend = device->backend;
    if (!has_clock(s->memory->ctx) || !backend->capture_begin) return LS_OK;
    LS_TRY(backend->capture_begin(device, &step));
    const ls_status status = timing_queue(s, GROUP_RUNS), ended = backend->capture_end(device, out);
    return status == LS_OK ? ended : status;
}

/* Milliseconds of one run, as the mean of `runs`, which may be captured. */
static ls_status time_group(const subject *s, ls__captured *graph, int runs, double *ms)
{
    ls__device *device = s->memory->ctx->device;
    const ls__backend *backend = device->backend;
    const double start = ls__now_ms();
    if (backend->timer_start) LS_TRY(backend->timer_start(device));
    LS_TRY(graph ? backend->captured_launch(device, graph, &step) : timing_queue(s, runs));
    if (backend->timer_start) {
        LS_TRY(backend->timer_stop(device, ms));
    } else {
        LS_TRY(backend->wait(device));
        *ms = ls__now_ms() - start;
    }
    *ms /= runs;
    return LS_OK;
}

static ls_status time_groups(const subject *s, ls__captured *graph, double best_known, double *best)
{
    const int runs = has_clock(s->memory->ctx) ? GROUP_RUNS : 1;
    double sum = 0, ms;
    *best = INFINITY;
    for (int group = 1; group <= MAX_GROUPS; group++) {
        LS_TRY(time_group(s, graph, runs, &ms));
        if (ms < *best) *best = ms;
        sum += ms * runs;
        if (best_known >= 0 && *best > SLOWER * best_known) break;
        if (group >= GROUPS && sum > SHORT_MS) break;
    }
    return LS_OK;
}

static ls_status time_subject(const subject *s, double best_known, double *ms)
{
    ls__device *device = s->memory->ctx->device;
    ls__captured *graph = NULL;
    /* Libraries initialise in the first run, which is not part of a kernel's time. On the CPU that
     * is short. */
    if (has_clock(s->memory->ctx)) LS_TRY(time_group(s, NULL, 1, ms));
    LS_TRY(time_group(s, NULL, 1, ms));
    if (best_known >= 0 && *ms > 2 * SLOWER * best_known) return LS_OK;
    LS_TRY(timing_capture(s, &graph));
    const ls_status status = time_groups(s, graph, best_known, ms);
    if (graph) device->backend->captured_close(device, graph);
    return status;
}

ls_status ls__timing_run(ls__op_memory *memory, ls__kernel *const *kernels, double best_known,
                         double *ms)
{
    ls_context *ctx = memory->ctx;
    const subject s = { memory, kernels };
    ls_status status = ls__op_memory_set_workspace(memory, kernels);
    if (status == LS_OK) {
        ctx->device->backend->begin(ctx->device);
        status = time_subject(&s, best_known, ms);
        ctx->device->backend->end(ctx->device);
    }
    return forgive(ctx, status, &memory->ops[0].op, kernels[0]->name);
}
