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

int ls__ranks_machine_count(const ls_context *ctx)
{
    int n = 0;
    for (int r = 0; ctx->comm && r < ctx->comm->n_ranks; r++) n += ctx->comm->machines[r] == r;
    return ctx->comm ? n : 1;
}

void ls__ranks_abort(ls_context *ctx, int exit_status)
{
    if (ctx && ctx->comm) ctx->comm->provider->abort(ctx->comm, exit_status);
}
