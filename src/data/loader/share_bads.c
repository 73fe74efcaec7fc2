/* share_bads.c: the unreadable samples of several ranks, each of which finds those that it loads.
 */
#include "data/loader/loader.h"

#include "base/alloc.h"
#include "base/error.h"
#include "comm/comm.h"
#include <stdio.h>

/* What a rank sends at a time. */
enum { N_AT_ONCE = LS__GATHER_BYTES / (sizeof(int64_t) + LS__REASON_SIZE) - 1 };
typedef struct some_bads {
    int64_t n;
    int64_t samples[N_AT_ONCE];
    char reasons[N_AT_ONCE][LS__REASON_SIZE];
} some_bads;
_Static_assert(sizeof(some_bads) <= LS__GATHER_BYTES, "they are sent in one message");

/* The next ones that other ranks do not know. */
static some_bads take_unshared(ls_loader *loader)
{
    some_bads out = { .n = 0 };
    for (int64_t i = 0; i < loader->n_bads && out.n < N_AT_ONCE; i++) {
        ls__known_bad *bad = &loader->bads[i];
        if (bad->is_shared) continue;
        bad->is_shared = true;
        out.samples[out.n] = bad->sample;
        snprintf(out.reasons[out.n++], LS__REASON_SIZE, "%s", bad->reason);
    }
    return out;
}

static ls_status add(ls_loader *loader, const some_bads *bads)
{
    for (int64_t i = 0; i < bads->n; i++) {
        LS_TRY(ls__loader_add_bad(loader, bads->samples[i], bads->reasons[i]));
        for (int64_t j = 0; j < loader->n_bads; j++)
            loader->bads[j].is_shared |= loader->bads[j].sample == bads->samples[i];
    }
    return LS_OK;
}

/* Until no rank has more. */
static ls_status share(ls_loader *loader, some_bads *all)
{
    ls__comm *comm = loader->owned.ctx->comm;
    for (bool has_more = true; has_more;) {
        const some_bads own = take_unshared(loader);
        LS_TRY(ls__comm_gather(comm, &own, sizeof own, all, "unreadable images of ranks"));
        has_more = false;
        for (int i = 0; i < comm->n_ranks; i++) has_more |= all[i].n == N_AT_ONCE;
        for (int i = 0; i < comm->n_ranks; i++)
            if (i != comm->rank) LS_TRY(add(loader, &all[i]));
    }
    return LS_OK;
}

ls_status ls__loader_share_bads(ls_loader *loader)
{
    ls_context *ctx = loader->owned.ctx;
    if (!ctx->comm) return LS_OK;
    const size_t bytes = (size_t)ctx->comm->n_ranks * sizeof(some_bads);
    some_bads *all = ls__alloc(ctx, bytes);
    if (!all) return ls__fail_memory(ctx, "loader", bytes);
    const ls_status status = share(loader, all);
    ls__free(ctx, all);
    return status;
}
