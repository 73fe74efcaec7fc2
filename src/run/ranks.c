/* ranks.c: see ranks.h. */
#include "run/ranks.h"

#include "comm/comm.h"
#include "comm/merges.h"

_Static_assert((int)LS__MAX_RANKS == (int)LS__MAX_RANK_SHARDS, "a rank has a shard");

ls_status ls__ranks_gather(ls_context *ctx, int own, int all[LS__MAX_RANKS])
{
    all[0] = own;
    return ctx->comm ? ls__comm_gather(ctx->comm, &own, sizeof own, all, "ranks") : LS_OK;
}

void ls__ranks_abort(ls_context *ctx, int exit_status)
{
    if (ctx && ctx->comm) ctx->comm->provider->abort(ctx->comm, exit_status);
}
