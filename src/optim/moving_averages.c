/* moving_averages.c: exponential moving averages of parameters and buffers. */
#include "base/error.h"
#include "optim/optimizer.h"

ls_status ls__optimizer_read_skipped(ls_net *net, int64_t *skipped)
{
    *skipped = 0;
    return ls__net_get_blocks(net).loss_scale ? ls_net_loss_scale(net, NULL, skipped) : LS_OK;
}

ls__averaged ls__averaged_range(const ls_optimizer *opt, int i)
{
    const ls__net_blocks blocks = ls__net_get_blocks(opt->net);
    const ls__part *own = &opt->partition.own;
    if (i == 0) return (ls__averaged){ blocks.values + own->begin, opt->average, own->count };
    return (ls__averaged){ blocks.values + opt->averaged.begin, opt->average + own->count,
                           opt->averaged.count };
}

ls_status ls__optimizer_begin_average(ls_optimizer *opt)
{
    if (!opt->average || opt->holds_average) return LS_OK;
    int64_t skipped;
    LS_TRY(ls__optimizer_read_skipped(opt->net, &skipped));
    if (opt->update.n_steps > skipped) return LS_OK;
    ls__device *device = opt->owned.ctx->device;
    for (int i = 0; i < LS__AVERAGED_RANGES; i++) {
        const ls__averaged a = ls__averaged_range(opt, i);
        const size_t bytes = (size_t)a.count * sizeof(float);
        if (bytes > 0) LS_TRY(device->backend->copy(device, a.average, a.values, bytes));
    }
    return LS_OK;
}

static ls_status swap_average(const ls_optimizer *opt, ls__averaged a)
{
    ls__device *device = opt->owned.ctx->device;
    for (int64_t i = 0; i < a.count; i += LS__AVERAGES_EXCHANGED) {
        const int64_t left = a.count - i;
        const size_t bytes =
            (size_t)(left < LS__AVERAGES_EXCHANGED ? left : LS__AVERAGES_EXCHANGED) * sizeof(float);
        LS_TRY(device->backend->copy(device, opt->exchange, a.values + i, bytes));
        LS_TRY(device->backend->copy(device, a.values + i, a.average + i, bytes));
        LS_TRY(device->backend->copy(device, a.average + i, opt->exchange, bytes));
    }
    return LS_OK;
}

ls_status ls__optimizer_swap_ema(ls_optimizer *opt)
{
    if (!opt->average) return LS_OK;
    LS_TRY(ls__optimizer_begin_average(opt));
    for (int i = 0; i < LS__AVERAGED_RANGES; i++)
        LS_TRY(swap_average(opt, ls__averaged_range(opt, i)));
    opt->holds_average = !opt->holds_average;
    ls__net_use_gradients(opt->net); /* the gradients are of other weights */
    return ls__partition_exchange(&opt->partition, "moving averages");
}

ls_status ls_optimizer_swap_ema(ls_optimizer *opt)
{
    if (!opt) return LS_ERR_EARLIER;
    LS__ENTER(opt->owned.ctx);
    if (opt->average) return ls__optimizer_swap_ema(opt);
    return ls__fail(opt->owned.ctx, LS_ERR_INVALID,
                    "ls_optimizer_swap_ema: the optimizer has no ema_decay");
}
