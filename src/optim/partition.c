/* partition.c: see partition.h. The parts are the chunks of a plan of sums over the whole block
 * (comm/plan.h), whose second half sends each chunk to all ranks, on several machines in two
 * levels.
 */
#include "optim/partition.h"

#include "base/alloc.h"
#include "base/error.h"
#include "comm/comm.h"

#include <assert.h>

static ls_status open_plan(ls_context *ctx, int rank, int64_t count, ls__sum_plan *out)
{
    const ls__sum_plan_config config = { .n_shards = ctx->config.shards,
                                         .rank = rank,
                                         .n_ranks = ctx->comm->n_ranks,
                                         .machines = ctx->comm->machines,
                                         .count = count,
                                         .unit = LS__PARAMETER_ALIGNMENT };
    return ls__sum_plan_open(ctx, &config, out);
}

static ls__message message_of(const ls__transfer *transfer, float *values)
{
    return (ls__message){ transfer->rank, values + transfer->begin,
                          (size_t)transfer->count * sizeof(float) };
}

static ls_status open_level_exchange(ls__partition *p, const ls__level *level, float *values)
{
    ls__message sends[LS__MAX_RANK_SHARDS], receives[LS__MAX_RANK_SHARDS];
    assert(level->n_returns < LS__MAX_RANK_SHARDS &&
           level->n_return_receives < LS__MAX_RANK_SHARDS);
    for (int i = 0; i < level->n_returns; i++) sends[i] = message_of(&level->returns[i], values);
    for (int i = 0; i < level->n_return_receives; i++)
        receives[i] = message_of(&level->return_receives[i], values);
    ls__comm *comm = p->ctx->device_comm;
    LS_TRY(comm->provider->exchange_open(comm, sends, level->n_returns, receives,
                                         level->n_return_receives, &p->exchanges[p->n_exchanges]));
    p->n_exchanges++;
    return LS_OK;
}

static ls_status open_parts(ls__partition *p, float *values, int64_t count)
{
    const ls__comm *comm = p->ctx->comm;
    for (int rank = 0; rank < comm->n_ranks; rank++) {
        ls__sum_plan plan;
        ls_status status = open_plan(p->ctx, rank, count, &plan);
        if (status != LS_OK) return status;
        const ls__level *last = &plan.levels[plan.n_levels - 1];
        p->parts[rank] = (ls__part){ last->begin, last->count };
        for (int i = plan.n_levels - 1; rank == comm->rank && i >= 0 && status == LS_OK; i--)
            status = open_level_exchange(p, &plan.levels[i], values);
        ls__sum_plan_close(&plan);
        LS_TRY(status);
    }
    p->own = p->parts[comm->rank];
    return LS_OK;
}

ls_status ls__partition_open(ls_context *ctx, float *values, int64_t count, ls__partition *out)
{
    *out = (ls__partition){ .ctx = ctx, .own = { 0, count } };
    if (!ctx->comm || !ctx->config.partition_optimizer) return LS_OK;
    const size_t bytes = (size_t)ctx->comm->n_ranks * sizeof *out->parts;
    out->parts = ls__alloc(ctx, bytes);
    return out->parts ? open_parts(out, values, count)
                      : ls__fail_memory(ctx, "parts of the optimizer", bytes);
}

void ls__partition_close(ls__partition *p)
{
    for (int i = 0; i < p->n_exchanges; i++)
        p->ctx->device_comm->provider->exchange_close(p->exchanges[i]);
    ls__free(p->ctx, p->parts);
    *p = (ls__partition){ 0 };
}

void ls__partition_make_calls(const ls__partition *p, ls__call *calls)
{
    static const ls__op no_op = { .kind = LS__N_OPS };
    for (int i = 0; i < p->n_exchanges; i++)
        calls[i] = (ls__call){
            .kind = "exchange", .name = "parameters", .op = &no_op, .exchange = p->exchanges[i]
        };
}

ls_status ls__partition_exchange(const ls__partition *p, const char *what)
{
    for (int i = 0; i < p->n_exchanges; i++)
        LS_TRY(ls__comm_run(p->ctx->device_comm, p->exchanges[i], what));
    return LS_OK;
}

ls_status ls__partition_collect(const ls__partition *p, float *own, float *whole, const char *what)
{
    ls__comm *comm = p->ctx->device_comm;
    ls__message receives[LS__MAX_RANK_SHARDS];
    const ls__message send = { 0, own, (size_t)p->own.count * sizeof(float) };
    int64_t n = 0;
    for (int rank = 0; whole && rank < comm->n_ranks; rank++)
        if (p->parts[rank].count > 0)
            receives[n++] = (ls__message){ rank, whole + p->parts[rank].begin,
                                           (size_t)p->parts[rank].count * sizeof(float) };
    return ls__comm_exchange(comm, &send, p->own.count > 0, receives, n, what);
}
