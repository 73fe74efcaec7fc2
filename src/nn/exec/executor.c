/* executor.c: see executor.h.
 *
 * If the backend can capture graphs, a range of calls runs call by call the first time, because
 * libraries initialise then. It is captured the second time and replayed afterwards. A range that
 * can't be captured runs call by call, with a warning. Graphs exclude the copies of the inputs,
 * because their addresses change. All other calls are constant while the program is bound to one
 * arena:
 *
 *   instructions, kernels, buffers   owned by the program; a new binding drops its graphs
 *   parameters, gradients            blocks that live as long as the net
 *   the optimizer's                  a graph is for one ls__update, by its serial number
 *   frozen parameters                training programs are dropped when that changes
 *   seed, epoch, step, lr ...        the backend copies them to the device before a launch */
#include "nn/exec/executor.h"

#include "base/alloc.h"
#include "base/error.h"
#include "nn/exec/run_call.h"

#include <string.h>

ls_status ls__executor_open(ls__executor *x, ls_context *ctx, const ls__net_blocks *blocks)
{
    x->ctx = ctx;
    x->blocks = blocks;
    x->fault.op = -1;
    x->fault_at = -1;
    x->step.seed = ctx->config.seed;
    for (int i = 0; i < LS__STEPS_QUEUED; i++)
        LS_TRY(ctx->device->backend->event_open(ctx->device, &x->events[i]));
    return LS_OK;
}

void ls__executor_close(ls__executor *x)
{
    for (int i = 0; i < LS__STEPS_QUEUED; i++)
        if (x->events[i]) x->ctx->device->backend->event_close(x->ctx->device, x->events[i]);
    ls__free(x->ctx, x->calls);
}

/* ---- The list ---- */

static ls_status reserve(ls__executor *x, int n)
{
    if (n <= x->room) return LS_OK;
    const size_t bytes = (size_t)n * sizeof(*x->calls);
    ls__free(x->ctx, x->calls);
    x->room = x->n_calls = 0;
    x->calls = ls__alloc(x->ctx, bytes);
    if (!x->calls) return ls__fail_memory(x->ctx, "a step's calls", bytes);
    x->room = n;
    return LS_OK;
}

ls_status ls__executor_begin(ls__executor *x, ls__program *p, ls__update *update, double lr)
{
    const int n_program = p ? p->n_calls : 0, n_update = update ? update->n_calls : 0;
    x->next = 0;
    x->fault_at = -1;
    x->call_by_call = false;
    x->program = p;
    x->update = update;
    LS_TRY(reserve(x, n_program + n_update));
    for (int i = 0; i < n_program; i++) x->calls[i] = &p->calls[i];
    for (int i = 0; i < n_update; i++) x->calls[n_program + i] = &update->calls[i];
    x->ends[LS__PHASE_COPIES] = p ? p->graph->inputs.n : 0;
    x->ends[LS__PHASE_FORWARD] = p ? p->graph->inputs.n + p->n_forward : 0;
    x->ends[LS__PHASE_BACKWARD] = n_program;
    x->ends[LS__PHASE_UPDATE] = x->n_calls = n_program + n_update;
    x->step.lr = lr;
    x->step.optimizer_step = update ? update->n_steps : 0;
    x->step.accumulated = update ? update->n_accumulated : 0;
    return LS_OK;
}

ls_status ls__executor_place_fault(ls__executor *x)
{
    const ls__injected_fault *fault = &x->fault;
    if (fault->op < 0 || fault->epoch != x->step.epoch || fault->step != x->step.step) return LS_OK;
    return ls__injected_fault_find(x->ctx, fault, x->calls, x->n_calls, x->blocks, &x->fault_at);
}

/* ---- Running ---- */

static void note_end(ls__executor *x)
{
    if (x->update && x->next == x->n_calls) x->update->done(x->update);
}

static ls_status run_one_by_one(ls__executor *x, int end)
{
    const ls__run_mode mode = { .in_order = x->call_by_call || x->fault_at >= 0 || x->profiled ||
                                            x->ctx->config.nvtx,
                                .profiled = x->profiled };
    while (x->next < end) {
        LS_TRY(ls__run_call(x->ctx, x->calls[x->next], &x->step, &mode));
        if (x->next == x->fault_at)
            LS_TRY(ls__injected_fault_apply(x->ctx, &x->fault, x->calls[x->next], x->blocks));
        x->next++;
        note_end(x);
    }
    return LS_OK;
}

static bool may_capture(const ls__executor *x)
{
    return x->ctx->device->backend->capture_begin && !x->ctx->config.nvtx && !x->call_by_call &&
           x->fault_at < 0 && !x->profiled && !(x->program && x->program->uncapturable);
}

/* Captures a range as a graph, or refuses it for good. */
static ls_status capture_range(ls__executor *x, ls__capture *capture)
{
    ls_context *ctx = x->ctx;
    const ls__backend *backend = ctx->device->backend;
    ls_status status = backend->capture_begin(ctx->device, &x->step);
    if (status == LS_OK) {
        for (int i = capture->begin; i < capture->end && status == LS_OK; i++)
            status = ls__run_call(ctx, x->calls[i], &x->step, &(ls__run_mode){ 0 });
        const ls_status ended = backend->capture_end(ctx->device, &capture->graph);
        if (status == LS_OK) status = ended;
    }
    if (status == LS_OK || ctx->unusable) return status;
    ls__capture_drop(ctx, capture);
    capture->refused = true;
    ls__warn(ctx, "net: a step that can't be captured is queued op by op: %s",
             ls_context_message(ctx));
    ls_context_clear_error(ctx);
    return LS_OK;
}

static ls_status launch(ls__executor *x, ls__captured *graph)
{
    const ls__step *step = &x->step;
    const ls_status status = x->ctx->device->backend->captured_launch(x->ctx->device, graph, step);
    if (status != LS_OK)
        ls__error_in(x->ctx, "step %lld of epoch %lld", (long long)step->step,
                     (long long)step->epoch);
    return status;
}

/* Runs calls after the copies. */
static ls_status run_range(ls__executor *x, int end)
{
    if (x->next >= end || !may_capture(x)) return run_one_by_one(x, end);
    ls__captures *captures = x->program ? &x->program->captures : &x->update->captures;
    ls__capture *capture =
        ls__captures_find(x->ctx, captures, x->update ? x->update->serial : 0, x->next, end);
    capture->last_used = ++x->clock;
    if (capture->was_run && !capture->graph && !capture->refused) LS_TRY(capture_range(x, capture));
    if (!capture->graph) {
        LS_TRY(run_one_by_one(x, end));
        capture->was_run = true;
        return LS_OK;
    }
    LS_TRY(launch(x, capture->graph));
    x->next = end;
    note_end(x);
    return LS_OK;
}

/* The event of this step's end. Before that it is the event of the step LS__STEPS_QUEUED earlier.
 */
static ls__event *end_of_step(const ls__executor *x)
{
    return x->events[x->n_steps % LS__STEPS_QUEUED];
}

static ls_status run(ls__executor *x, int end)
{
    ls__device *device = x->ctx->device;
    const int copies = x->ends[LS__PHASE_COPIES];
    if (x->next == 0 && x->program) {
        x->n_steps++;
        LS_TRY(device->backend->event_wait(device, end_of_step(x)));
    }
    device->backend->begin(device);
    ls_status status = run_one_by_one(x, end < copies ? end : copies);
    if (status == LS_OK) status = run_range(x, end);
    if (status != LS_OK && x->program && x->program->overlaps) ls__join_streams(x->ctx);
    device->backend->end(device);
    if (status == LS_OK && x->program)
        status = device->backend->event_record(device, end_of_step(x));
    return status;
}

ls_status ls__executor_run(ls__executor *x, int end)
{
    ls_context *ctx = x->ctx;
    const ls_status status = run(x, end);
    /* Waiting detects a lost device; a library's error alone does not. */
    if (status == LS_ERR_DEVICE && !ctx->unusable) (void)ctx->device->backend->wait(ctx->device);
    return status;
}
