/* whole_states.c: partitioned states in checkpoints, which do not depend on the ranks: rank 0
 * writes the states of all parts, and each rank reads them and keeps its own part. */
#include "backend/pool.h"
#include "base/error.h"
#include "optim/optimizer.h"

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

float *ls__optimizer_block(const ls_optimizer *opt, int i)
{
    return is_partitioned(opt, i) ? opt->whole[i] : part_of(opt, i);
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
        LS_TRY(ls__partition_collect(&opt->partition, part_of(opt, i), opt->whole[i],
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
