/* partition.c: the partition of an optimizer among ranks; see optimizer.h. The parts are the chunks
 * of a plan of sums over the whole block (comm/plan.h), whose second half sends each chunk to all
 * ranks, on several machines in two levels. */
#include "backend/pool.h"
#include "base/alloc.h"
#include "base/error.h"
#include "optim/optimizer.h"
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

ls_status ls__partition_open(ls_context *ctx, float *values, int64_t count, ls__part range,
                             ls__partition *out)
{
    *out = (ls__partition){ .ctx = ctx, .own = range };
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

/* Sends each rank's part of a block to rank 0. own: the part. whole: the block, NULL in the other
 * ranks. */
static ls_status partition_collect(const ls__partition *p, float *own, float *whole,
                                   const char *what)
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

/* ---- Partitioned states in checkpoints, which do not depend on the ranks: rank 0 writes the
 * states of all parts, and each rank reads them and keeps its own part. ---- */

static float *part_of(const ls_optimizer *opt, int i)
{
    return i == opt->n_states ? opt->average : opt->states[i];
}

/* State i, or the averages, have parts. */
static bool is_partitioned(const ls_optimizer *opt, int i)
{
    const float *part = part_of(opt, i);
    return opt->partition.parts && part && part != opt->sum;
}

float *ls__optimizer_whole(const ls_optimizer *opt, int i)
{
    return is_partitioned(opt, i) ? opt->whole[i] : NULL;
}

ls_status ls__optimizer_open_whole(ls_optimizer *opt)
{
    ls_context *ctx = opt->owned.ctx;
    const ls__net_blocks blocks = ls__net_get_blocks(opt->net);
    for (int i = 0; i <= opt->n_states; i++) {
        const int64_t n = i == opt->n_states ? blocks.block_elements : blocks.parameter_elements;
        const size_t bytes = (size_t)n * sizeof(float);
        if (!is_partitioned(opt, i)) continue;
        opt->whole[i] = ls__pool_allocate(ctx->pool, bytes);
        if (!opt->whole[i])
            return ls__pool_fail(ctx->pool, bytes, "%s: the states of all ranks", opt->kind->call);
        LS_TRY(ctx->device->backend->clear(ctx->device, opt->whole[i], bytes));
    }
    return LS_OK;
}

void ls__optimizer_drop_whole(ls_optimizer *opt)
{
    for (int i = 0; i <= LS__MAX_STATES; i++) {
        ls__pool_release(opt->owned.ctx->pool, opt->whole[i]);
        opt->whole[i] = NULL;
    }
}

/* The averages of the buffers, which all ranks have. */
static ls_status copy_buffers(const ls_optimizer *opt, bool take)
{
    ls__device *device = opt->owned.ctx->device;
    const ls__net_blocks blocks = ls__net_get_blocks(opt->net);
    const size_t bytes =
        (size_t)(blocks.block_elements - blocks.parameter_elements) * sizeof(float);
    float *own = opt->average + opt->partition.own.count;
    float *whole = opt->whole[opt->n_states] + blocks.parameter_elements;
    if (bytes == 0) return LS_OK;
    return device->backend->copy(device, take ? own : whole, take ? whole : own, bytes);
}

ls_status ls__optimizer_collect(ls_optimizer *opt)
{
    for (int i = 0; i <= opt->n_states; i++) {
        if (!is_partitioned(opt, i)) continue;
        LS_TRY(partition_collect(&opt->partition, part_of(opt, i), opt->whole[i],
                                 "optimizer states of a checkpoint"));
        if (i == opt->n_states && opt->whole[i]) LS_TRY(copy_buffers(opt, false));
    }
    return LS_OK;
}

ls_status ls__optimizer_take_whole(ls_optimizer *opt)
{
    ls__device *device = opt->owned.ctx->device;
    const ls__part *own = &opt->partition.own;
    for (int i = 0; i <= opt->n_states; i++) {
        if (!is_partitioned(opt, i)) continue;
        if (own->count > 0)
            LS_TRY(device->backend->copy(device, part_of(opt, i), opt->whole[i] + own->begin,
                                         (size_t)own->count * sizeof(float)));
        if (i == opt->n_states) LS_TRY(copy_buffers(opt, true));
    }
    ls__optimizer_drop_whole(opt);
    return LS_OK;
}
