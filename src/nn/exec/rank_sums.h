/* rank_sums.h: the additions of other ranks' sums of a step (plan/shard.h) that run at the same
 * time as its later calls. The executor calls progress between the calls, because MPI moves
 * messages only while it is called. The order of the additions may differ, their results do not. */
#ifndef LS_NN_EXEC_RANK_SUMS_H
#define LS_NN_EXEC_RANK_SUMS_H

#include "nn/exec/run_call.h"
#include "nn/plan/shard.h"

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
/* Continues all additions, without waiting. */
ls_status ls__rank_sums_progress(ls__rank_sums *sums, ls_context *ctx, const ls__step *step);
/* Ends all additions after a failed call: the other ranks wait for those that are not done, so they
 * are lost. */
void ls__rank_sums_give_up(ls__rank_sums *sums, ls_context *ctx);
/* Waits until all additions are done, and forgets them. */
ls_status ls__rank_sums_wait(ls__rank_sums *sums, ls_context *ctx, const ls__step *step);

#endif
