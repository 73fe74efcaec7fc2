/* communicator.c: opens the communicator of a context, and divides the processors of a machine
 * among its ranks. */
#include "backend/registry.h"

#include "base/alloc.h"
#include "base/available.h"
#include "base/error.h"
#include "base/text.h"
#include "comm/agree.h"
#include "comm/comm.h"
#include "comm/merges.h"
#include "comm/plan.h"
#include "backend/module.h"
#include <string.h>
#include <unistd.h>

enum { DEFAULT_TIMEOUT_SECONDS = 600 };

/* ---- Processors ---- */

/* The processors of one rank, gathered from all ranks. */
typedef struct rank_processors {
    ls__processor_mask mask;
    int64_t threads; /* 0 = default */
} rank_processors;

/* The processors of the ranks on this rank's machine; `own` is this rank's index among them. */
typedef struct machine_processors {
    ls__processor_mask *masks, all;
    int n_ranks, own, quota;
    int64_t n_threads;
} machine_processors;

static void add_rank(machine_processors *m, const rank_processors *rank)
{
    m->masks[m->n_ranks++] = rank->mask;
    for (int w = 0; w < LS__MASK_WORDS; w++) m->all.words[w] |= rank->mask.words[w];
}

static int threads_of(const machine_processors *m, int i, const rank_processors *rank)
{
    return rank->threads > 0 ? (int)rank->threads
                             : ls__processor_share(m->masks, m->n_ranks, i, m->quota);
}

/* Threads beyond the processors only wait for each other. */
static void warn_of_threads(ls_context *ctx, const machine_processors *m)
{
    const int n_all = ls__count_processors(&m->all);
    const int n_processors = m->quota && m->quota < n_all ? m->quota : n_all;
    const int n_own = ls__count_processors(&m->masks[m->own]);
    const int threads = ctx->config.threads;
    ls__inform(ctx, LS_LOG_CONTEXT,
               "ls_context_open: rank %d of %d: %d thread%s, affinity to %d of %d processors",
               ctx->comm->rank, ctx->comm->n_ranks, threads, threads == 1 ? "" : "s", n_own, n_all);
    if (m->n_threads > n_processors && m->own == 0)
        ls__warn(ctx, LS_LOG_CONTEXT,
                 "ls_context_open: %d ranks have %lld threads on a machine of which they may use "
                 "%d processor%s%s",
                 m->n_ranks, (long long)m->n_threads, n_processors, n_processors == 1 ? "" : "s",
                 n_own < n_all ? "; the launcher binds each rank to some of them (mpirun --bind-to "
                                 "none does not)"
                               : "");
}

/* By default Open MPI's mpirun binds each rank to one core if there are one or two. mpirun and its
 * daemons, the parents of ranks, may use all processors. With a number of threads in the config the
 * binding may be intended. */
static void warn_of_binding(ls_context *ctx, int n_ranks)
{
    const ls_launch launch = ls__launch_find();
    if (!launch.variable || strcmp(launch.variable, "OMPI_COMM_WORLD_SIZE") != 0) return;
    ls__processor_mask own, parent;
    ls__affinity_mask(0, &own);
    ls__affinity_mask(getppid(), &parent);
    const int n_own = ls__count_processors(&own), n_all = ls__count_processors(&parent);
    if (n_own < n_all / n_ranks)
        ls__warn(ctx, LS_LOG_CONTEXT,
                 "ls_context_open: mpirun binds each rank to %d of %d processors, although the "
                 "machine has %d rank%s (mpirun --bind-to none does not)",
                 n_own, n_all, n_ranks, n_ranks == 1 ? "" : "s");
}

static ls_status divide_processors(ls_context *ctx)
{
    const ls__comm *comm = ctx->comm;
    const size_t n = (size_t)comm->n_ranks;
    const size_t bytes = n * (sizeof(rank_processors) + sizeof(ls__processor_mask));
    rank_processors *ranks = ls__alloc(ctx, bytes);
    if (!ranks) return ls__fail_memory(ctx, "ls_context_open", bytes);
    rank_processors own = { .threads = ctx->config.threads };
    ls__affinity_mask(0, &own.mask);
    const ls_status status =
        ls__comm_gather(ctx->comm, &own, sizeof(own), ranks, "ls_context_open");
    if (status == LS_OK) {
        machine_processors m = { .masks = (ls__processor_mask *)(ranks + n),
                                 .quota = ls__processor_quota() };
        const int machine = comm->machines[comm->rank];
        for (int r = 0; r < comm->n_ranks; r++) {
            if (comm->machines[r] != machine) continue;
            if (r == comm->rank) m.own = m.n_ranks;
            add_rank(&m, &ranks[r]);
        }
        for (int r = 0, i = 0; r < comm->n_ranks; r++)
            if (comm->machines[r] == machine) m.n_threads += threads_of(&m, i++, &ranks[r]);
        if (ctx->config.threads == 0 && m.own == 0) warn_of_binding(ctx, m.n_ranks);
        ctx->config.threads = threads_of(&m, m.own, &own);
        warn_of_threads(ctx, &m);
    }
    ls__free(ctx, ranks);
    return status;
}

/* ---- Opening ---- */

/* Ranks with different settings would exchange different messages. */
static ls_status check_ranks(ls_context *ctx)
{
    const ls_context_config *c = &ctx->config;
    const ls__rank_setting settings[] = {
        ls__rank_number("shards", c->shards),
        ls__rank_number("sync_batch_norm", c->sync_batch_norm),
        ls__rank_number("partition_optimizer", c->partition_optimizer),
        ls__rank_number("audit_every", c->audit_every),
        ls__rank_number("deterministic", c->deterministic),
        ls__rank_number("native_arithmetic", c->arithmetic == LS_ARITHMETIC_NATIVE),
        ls__rank_number("benchmark", c->benchmark)
    };
    return ls__ranks_check_settings(ctx, settings, sizeof(settings) / sizeof(settings[0]));
}

static ls_status check_shards(ls_context *ctx)
{
    const int n_ranks = ctx->comm->n_ranks, shards = ctx->config.shards;
    if (shards < n_ranks)
        return ls__fail(ctx, LS_ERR_INVALID,
                        "ls_context_open: %d ranks need at least %d shards; shards is %d", n_ranks,
                        n_ranks, shards);
    if (shards > LS__MAX_RANK_SHARDS)
        return ls__fail(ctx, LS_ERR_INVALID,
                        "ls_context_open: %d ranks can compute at most %d shards; shards is %d",
                        n_ranks, LS__MAX_RANK_SHARDS, shards);
    return LS_OK;
}

ls_status ls__communicator_open(ls_context *ctx)
{
    const char *name = ctx->config.communicator;
    if (!name) return LS_OK;
    if (strcmp(name, "auto") == 0) {
        const ls_launch launch = ls__launch_find();
        if (launch.n_ranks == 1 && ctx->config.threads == 0) warn_of_binding(ctx, 1);
        if (!launch.variable || launch.n_ranks == 1) return LS_OK;
    } else if (strcmp(name, "mpi") != 0) {
        return ls__fail(ctx, LS_ERR_NOT_FOUND,
                        "ls_context_open: there is no communicator '%.*s', there are mpi and "
                        "auto",
                        LS__CUT(name, 100));
    }
    const ls__module *module;
    LS_TRY(ls__module_load(ctx, "communicator", "mpi", &module));
    LS_TRY(module->comm_open(ctx, &ctx->comm));
    if (ctx->comm->n_ranks == 1) {
        ls__comm_close(&ctx->comm);
        return LS_OK;
    }
    const double timeout_seconds = ctx->config.communication_timeout_seconds;
    ctx->comm->timeout_seconds = timeout_seconds > 0 ? timeout_seconds : DEFAULT_TIMEOUT_SECONDS;
    if (ctx->comm->n_ranks > LS__MAX_RANK_SHARDS)
        return ls__fail(ctx, LS_ERR_INVALID, "ls_context_open: %d ranks, expected at most %d",
                        ctx->comm->n_ranks, LS__MAX_RANK_SHARDS);
    LS_TRY(check_ranks(ctx));
    LS_TRY(check_shards(ctx));
    return divide_processors(ctx);
}

_Static_assert((int)LS_MAX_RANKS == (int)LS__MAX_RANK_SHARDS, "a rank has a shard");

ls_launch ls_launch_find(void)
{
    return ls__launch_find();
}

/* ---- What ranks do together ---- */

int ls_context_machine_count(const ls_context *ctx)
{
    int n = 0;
    if (!ctx || !ctx->comm) return 1;
    for (int r = 0; r < ctx->comm->n_ranks; r++) n += ctx->comm->machines[r] == r;
    return n;
}

ls_status ls_context_gather(ls_context *ctx, int own, int all[LS_MAX_RANKS])
{
    if (!ctx) return LS_ERR_MEMORY;
    all[0] = own;
    return ctx->comm ? ls__comm_gather(ctx->comm, &own, sizeof own, all, "ranks") : LS_OK;
}

void ls_context_abort(ls_context *ctx, int exit_status)
{
    if (ctx && ctx->comm) ctx->comm->provider->abort(ctx->comm, exit_status);
}
