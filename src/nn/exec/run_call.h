/* run_call.h: runs one call of a step; adds the sums of other ranks beside later calls. */
#ifndef LS_NN_EXEC_RUN_CALL_H
#define LS_NN_EXEC_RUN_CALL_H

#include "nn/plan/shard.h"

typedef struct ls__run_mode {
    bool in_order; /* all in one stream: for traces, profiles, faults and profilers' ranges */
    bool profiled; /* waits for each call and adds its time to call->seconds */
} ls__run_mode;

/* Queues the call, which may be skipped; the caller calls the backend's begin and end. On
 * failure the error names the call. */
ls_status ls__run_call(ls_context *ctx, ls__call *call, const ls__step *step,
                       const ls__run_mode *mode);
/* "epoch 3, step 17" */
enum { LS__STEP_TEXT_SIZE = 64 };
const char *ls__step_text(const ls__step *step, char out[LS__STEP_TEXT_SIZE]);
/* Orders later work after all queued work; called after a failure. */
void ls__join_streams(ls_context *ctx);

/* ---- Additions of other ranks' sums (plan/shard.h) at the same time as later calls. The order of
 * the additions may differ, their results do not. ---- */

typedef struct ls__rank_sum_state {
    ls__call *const *next, *const *end; /* the calls that are left */
    bool is_started;                    /* the exchange of the next call */
} ls__rank_sum_state;

typedef struct ls__rank_sums {
    ls__rank_sum_state items[LS__MAX_SHARD_SUMS];
    int n, n_done;
} ls__rank_sums;

/* Begins an addition. Its calls stay valid until it is done. */
ls_status ls__rank_sums_start(ls__rank_sums *sums, ls_context *ctx, ls__call *const *calls, int n,
                              const ls__step *step);
/* Continues all additions, without waiting. The executor calls it between calls, because MPI moves
 * messages only while it is called. */
ls_status ls__rank_sums_progress(ls__rank_sums *sums, ls_context *ctx, const ls__step *step);
/* Ends all additions after a failed call: the other ranks wait for those that are not done, so they
 * are lost. */
void ls__rank_sums_give_up(ls__rank_sums *sums, ls_context *ctx);
/* Waits until all additions are done, and forgets them. */
ls_status ls__rank_sums_wait(ls__rank_sums *sums, ls_context *ctx, const ls__step *step);

#endif
