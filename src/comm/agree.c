/* agree.c: see agree.h. */
#include "comm/agree.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "comm/merges.h"
#include <string.h>

typedef struct vote {
    int32_t status, stop, gives_up;
} vote;

/* The message of the first rank that has an error. */
static ls_status share_error(ls_context *ctx, const vote *votes)
{
    ls__comm *comm = ctx->comm;
    const size_t bytes = (size_t)comm->n_ranks * LS__MESSAGE_SIZE;
    int failed = 0;
    while (votes[failed].status == LS_OK) failed++;
    char *messages = ls__alloc(ctx, bytes);
    if (!messages) return ls__fail_memory(ctx, "communicator", bytes);
    const ls_status status =
        ls__comm_gather(comm, ctx->message, LS__MESSAGE_SIZE, messages, "an error of a rank");
    if (status == LS_OK)
        ls__fail(ctx, (ls_status)votes[failed].status, "rank %d: %.*s", failed,
                 LS__CUT(messages + (size_t)failed * LS__MESSAGE_SIZE, 900));
    ls__free(ctx, messages);
    return status == LS_OK ? (ls_status)votes[failed].status : status;
}

static ls_status agree(ls_context *ctx, const vote *own, bool *stop)
{
    ls__comm *comm = ctx->comm;
    vote votes[LS__MAX_RANK_SHARDS];
    bool is_failed = false, is_over = false;
    LS_TRY(ls__comm_gather(comm, own, sizeof *own, votes, "agreement of ranks"));
    for (int i = 0; i < comm->n_ranks; i++) {
        is_failed |= votes[i].status != LS_OK;
        is_over |= votes[i].gives_up != 0;
        if (stop) *stop |= votes[i].stop != 0;
    }
    const ls_status status = is_failed ? share_error(ctx, votes) : LS_OK;
    comm->is_lost |= is_over;
    return status;
}

ls_status ls__ranks_agree(ls_context *ctx, bool *stop)
{
    const vote own = { .status = ctx->error, .stop = stop && *stop };
    return ctx->comm ? agree(ctx, &own, stop) : ctx->error;
}

void ls__ranks_give_up(ls_context *ctx)
{
    const vote own = { .status = ctx->error, .gives_up = true };
    if (ctx->comm && !ctx->comm->is_lost) (void)agree(ctx, &own, NULL);
}
