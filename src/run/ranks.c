/* ranks.c: see ranks.h. */
#include "run/ranks.h"

#include "base/error.h"
#include "backend/module.h"
#include "comm/comm.h"
#include "comm/merges.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert((int)LS__MAX_RANKS == (int)LS__MAX_RANK_SHARDS, "a rank has a shard");

static bool is_in_path(const char *program)
{
    char path[PATH_MAX];
    for (const char *at = getenv("PATH"); at;) {
        const int n = (int)strcspn(at, ":");
        snprintf(path, sizeof(path), "%.*s/%s", n, at, program);
        if (access(path, X_OK) == 0) return true;
        at = at[n] ? at + n + 1 : NULL;
    }
    return false;
}

ls_status ls__ranks_find_launcher(ls_context *ctx)
{
    const ls__module *module;
    if (!is_in_path("mpirun"))
        return ls__fail(ctx, LS_ERR_UNSUPPORTED,
                        "several ranks require Open MPI: there is no mpirun in PATH");
    return ls__module_load(ctx, "communicator", "mpi", &module);
}

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
