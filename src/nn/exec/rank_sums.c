/* rank_sums.c: additions of other ranks' sums beside later calls; see run_call.h. */
#include "nn/exec/run_call.h"

#include "base/error.h"

#include <assert.h>

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
