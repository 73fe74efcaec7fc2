/* precision.c: a net's precision and its loss scale. */
#include "arith/element.h"
#include "base/error.h"
#include "nn/net/net_state.h"
#include <math.h>

typedef struct precision_rules {
    const char *name;
    ls_dtype activations;
    unsigned required; /* of the backend's precisions */
    bool scales_loss;
} precision_rules;

static const precision_rules precisions[] = {
    [LS_PRECISION_F32] = { "f32", LS_F32, 0, false },
    [LS_PRECISION_TF32] = { "tf32", LS_F32, LS__HAS_TF32, false },
    [LS_PRECISION_BF16] = { "bf16", LS_BF16, LS__HAS_BF16, false },
    [LS_PRECISION_F16] = { "f16", LS_F16, LS__HAS_F16, true },
};
enum { N_PRECISIONS = sizeof precisions / sizeof precisions[0] };

/* Limits, so that the scale and its counts are exact in f32. */
static const float FIRST_SCALE = 65536, LARGEST_SCALE = 16777216;
enum { GROWTH_INTERVAL = 2000, LONGEST_INTERVAL = 1 << 24 };

ls_status ls__precision_check(ls_context *ctx, const ls_net_config *config)
{
    const ls_loss_scale_config *scale = &config->loss_scale;
    if ((unsigned)config->precision >= N_PRECISIONS)
        return ls__fail(ctx, LS_ERR_INVALID, "ls_net_build: config.precision is %d",
                        (int)config->precision);
    const precision_rules *rules = &precisions[config->precision];
    if (rules->required & ~ctx->device->backend->precisions)
        return ls__fail(ctx, LS_ERR_UNSUPPORTED,
                        "ls_net_build: precision is %s, which device %s does not have", rules->name,
                        ctx->device->backend->name);
    if (scale->initial == 0 && scale->growth_interval == 0) return LS_OK;
    if (!rules->scales_loss || config->inference)
        return ls__fail(ctx, LS_ERR_INVALID, "ls_net_build: config.loss_scale is set; %s has none",
                        config->inference ? "inference" : rules->name);
    int exponent;
    if (scale->initial != 0 && !(scale->initial >= 1 && scale->initial <= LARGEST_SCALE &&
                                 frexpf(scale->initial, &exponent) == 0.5f))
        return ls__fail(
            ctx, LS_ERR_INVALID,
            "ls_net_build: config.loss_scale.initial is %g, expected a power of two from "
            "1 to 2^24",
            (double)scale->initial);
    if (scale->growth_interval < 0 || scale->growth_interval > LONGEST_INTERVAL)
        return ls__fail(
            ctx, LS_ERR_INVALID,
            "ls_net_build: config.loss_scale.growth_interval is %lld, expected 1 to 2^24",
            (long long)scale->growth_interval);
    return LS_OK;
}

void ls__precision_fill(ls_net *net)
{
    const precision_rules *rules = &precisions[net->config.precision];
    ls_loss_scale_config *scale = &net->config.loss_scale;
    if (rules->scales_loss && !net->config.inference) {
        if (scale->initial == 0) scale->initial = FIRST_SCALE;
        if (scale->growth_interval == 0) scale->growth_interval = GROWTH_INTERVAL;
    }
    const ls__device *device = net->owned.ctx->device;
    const char *faster = device->backend->faster_bf16 ? device->backend->faster_bf16(device) : "";
    if (ls__emulates_precision(net))
        ls__warn(
            net->owned.ctx, LS_LOG_NET,
            "%s on device %s: products are computed in f32, which saves memory but little time%s",
            rules->name, device->backend->name, rules->activations == LS_BF16 ? faster : "");
}

bool ls__emulates_precision(const ls_net *net)
{
    const ls__device *device = net->owned.ctx->device;
    const ls_dtype dtype = precisions[net->config.precision].activations;
    return dtype != LS_F32 && device->backend->emulates && device->backend->emulates(device, dtype);
}

const char *ls__net_precision(const ls_net *net)
{
    return precisions[net->config.precision].name;
}

ls_dtype ls__net_activations(const ls_net *net)
{
    return precisions[net->config.precision].activations;
}

ls_status ls_net_loss_scale(ls_net *net, double *scale, int64_t *skipped)
{
    ls_context *ctx = ls__net_context(net);
    LS__ENTER(ctx);
    if (!net->blocks.loss_scale)
        return ls__fail(ctx, LS_ERR_UNSUPPORTED,
                        "ls_net_loss_scale: the net has none: %s, precision %s",
                        net->config.inference ? "inference" : "training", ls__net_precision(net));
    float loss_scale[LS__LOSS_SCALE_SIZE];
    LS_TRY(ctx->device->backend->read(ctx->device, loss_scale, net->blocks.loss_scale,
                                      sizeof loss_scale));
    if (scale) *scale = (double)loss_scale[LS__LOSS_SCALE_SCALE];
    if (skipped) *skipped = (int64_t)loss_scale[LS__LOSS_SCALE_SKIPPED];
    return LS_OK;
}
