/* run_call.c: see run_call.h. */
#include "nn/exec/run_call.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include <assert.h>
#include <stdio.h>

static ls_status run_callback(ls_context *ctx, const ls__call *call)
{
    const ls_status status = call->callback(call->callback_call);
    if (status == LS_OK) return LS_OK;
    return ls__fail(ctx, status, "its %s callback returned '%s'",
                    call->backward ? "backward" : "forward", ls_status_text(status));
}

const char *ls__step_text(const ls__step *step, char out[LS__STEP_TEXT_SIZE])
{
    snprintf(out, LS__STEP_TEXT_SIZE, "epoch %lld, step %lld", (long long)step->epoch,
             (long long)step->step);
    return out;
}

static ls_status run_exchange(ls_context *ctx, const ls__call *call, const ls__step *step)
{
    char what[LS__STEP_TEXT_SIZE];
    return ls__comm_run(ctx->device_comm, call->exchange, ls__step_text(step, what));
}

static ls_status call_run(ls_context *ctx, const ls__call *call, const ls__step *step)
{
    if (call->kernel)
        return call->kernel->run(call->kernel, (void **)call->buffers, call->workspace, step);
    if (call->callback) return run_callback(ctx, call);
    if (call->exchange) return run_exchange(ctx, call, step);
    return ctx->device->backend->copy(ctx->device, call->buffers[1], call->buffers[0],
                                      call->copy_bytes);
}

static ls_status run_profiled(ls_context *ctx, ls__call *call, const ls__step *step)
{
    const double start = ls__now_seconds();
    LS_TRY(call_run(ctx, call, step));
    LS_TRY(ctx->device->backend->wait(ctx->device));
    call->seconds += ls__now_seconds() - start;
    return LS_OK;
}

/* Runs the call in the side stream, after all queued work and concurrent with later work. */
static ls_status run_beside(ls_context *ctx, const ls__call *call, const ls__step *step)
{
    ls__device *device = ctx->device;
    const ls__backend *backend = device->backend;
    LS_TRY(backend->stream_wait(device, LS__STREAM_SIDE, LS__STREAM_COMPUTE));
    backend->launch_in(device, LS__STREAM_SIDE);
    const ls_status status = call_run(ctx, call, step);
    backend->launch_in(device, LS__STREAM_COMPUTE);
    return status;
}

static ls_status join_streams(ls_context *ctx)
{
    return ctx->device->backend->stream_wait(ctx->device, LS__STREAM_COMPUTE, LS__STREAM_SIDE);
}

/* "conv2d 'layer1.0.conv1'", "input 'label'" */
enum { NAME_SIZE = 128 };
static const char *call_name(const ls__call *call, char buffer[NAME_SIZE])
{
    ls__snprintf(buffer, NAME_SIZE, "%s '%s'", call->feeds_input ? "input" : call->kind,
                 call->name);
    return buffer;
}

ls_status ls__run_call(ls_context *ctx, ls__call *call, const ls__step *step,
                       const ls__run_mode *mode)
{
    char name[NAME_SIZE];
    const ls__backend *backend = ctx->device->backend;
    const bool is_shown = ctx->config.nvtx && !call->skipped;
    ls_status status = call->joins && !mode->in_order ? join_streams(ctx) : LS_OK;
    if (is_shown) backend->range_push(ctx->device, call_name(call, name));
    if (status == LS_OK && !call->skipped)
        status = mode->profiled                  ? run_profiled(ctx, call, step)
                 : call->side && !mode->in_order ? run_beside(ctx, call, step)
                                                 : call_run(ctx, call, step);
    if (status == LS_OK && call->joins_after && !mode->in_order) status = join_streams(ctx);
    if (is_shown) backend->range_pop(ctx->device);
    if (status != LS_OK) ls__error_in(ctx, "%s", call_name(call, name));
    return status;
}

void ls__join_streams(ls_context *ctx)
{
    if (ctx->unusable || !ctx->device->backend->launch_in) return;
    if (join_streams(ctx) != LS_OK) (void)ctx->device->backend->wait(ctx->device);
}

/* ---- Additions of other ranks' sums beside later calls ---- */

typedef struct work {
    ls__rank_sums *sums;
    ls_context *ctx;
    const ls__step *step;
    const ls__call *running; /* an exchange that is not done */
} work;

static bool rank_sum_is_done(const ls__rank_sum_state *item)
{
    return item->next == item->end;
}

static ls_status rank_sum_start(const work *w, const ls__call *call)
{
    char what[LS__STEP_TEXT_SIZE];
    return ls__comm_start(w->ctx->device_comm, call->exchange, ls__step_text(w->step, what));
}

/* Runs the calls of an addition up to an exchange that is not done. *n_left += what is left. */
static ls_status rank_sum_advance(work *w, ls__rank_sum_state *item, int64_t *n_left)
{
    for (; !rank_sum_is_done(item); item->next++) {
        ls__call *call = *item->next;
        if (call->exchange) {
            int64_t n = 0;
            if (!item->is_started) LS_TRY(rank_sum_start(w, call));
            item->is_started = true;
            LS_TRY(w->ctx->device_comm->provider->exchange_test(call->exchange, &n));
            if (n > 0) {
                w->running = call;
                *n_left += n + (item->end - item->next);
                return LS_OK;
            }
            item->is_started = false;
        } else {
            /* The first addition's result is the divisor of the others. */
            if (item != w->sums->items && !rank_sum_is_done(w->sums->items)) {
                *n_left += item->end - item->next;
                return LS_OK;
            }
            LS_TRY(ls__run_call(w->ctx, call, w->step, &(ls__run_mode){ 0 }));
        }
    }
    w->sums->n_done++;
    return LS_OK;
}

static ls_status advance_all(void *user, int64_t *n_left, const ls__exchange **running)
{
    work *w = user;
    w->running = NULL;
    for (int i = 0; i < w->sums->n; i++)
        if (!rank_sum_is_done(&w->sums->items[i]))
            LS_TRY(rank_sum_advance(w, &w->sums->items[i], n_left));
    *running = w->running ? w->running->exchange : NULL;
    return LS_OK;
}

void ls__rank_sums_give_up(ls__rank_sums *sums, ls_context *ctx)
{
    if (sums->n > sums->n_done) ctx->comm->is_lost = true;
    sums->n = sums->n_done = 0;
}

ls_status ls__rank_sums_start(ls__rank_sums *sums, ls_context *ctx, ls__call *const *calls, int n,
                              const ls__step *step)
{
    assert(sums->n < LS__MAX_SHARD_SUMS);
    sums->items[sums->n++] = (ls__rank_sum_state){ .next = calls, .end = calls + n };
    return ls__rank_sums_progress(sums, ctx, step);
}

ls_status ls__rank_sums_progress(ls__rank_sums *sums, ls_context *ctx, const ls__step *step)
{
    work w = { sums, ctx, step, NULL };
    int64_t n_left = 0;
    const ls__exchange *running;
    if (sums->n == sums->n_done) return LS_OK;
    return advance_all(&w, &n_left, &running);
}

ls_status ls__rank_sums_wait(ls__rank_sums *sums, ls_context *ctx, const ls__step *step)
{
    work w = { sums, ctx, step, NULL };
    char what[LS__STEP_TEXT_SIZE];
    if (sums->n == 0) return LS_OK;
    const ls_status status =
        ls__comm_wait_for(ctx->device_comm, advance_all, &w, ls__step_text(step, what));
    if (status != LS_OK && w.running) ls__error_in(ctx, "exchange '%s'", w.running->name);
    if (status == LS_OK) sums->n = sums->n_done = 0;
    return status;
}
