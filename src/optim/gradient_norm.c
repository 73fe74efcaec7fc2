/* gradient_norm.c: the norm of an optimizer's gradients on request. */
#include "base/error.h"
#include "base/floats.h"
#include "optim/optimizer.h"

/* Measures the norm of the gradients that the net holds. */
static ls_status measure_norm(ls_optimizer *opt)
{
    static const char call[] = "ls_optimizer_gradient_norm";
    if (!ls__net_has_gradients(opt->net))
        return ls__fail(opt->owned.ctx, LS_ERR_INVALID,
                        "%s: the net has no gradients; call it after a backward pass", call);
    if (opt->measurement.n_calls == 0) LS_TRY(ls__optimizer_open_measurement(opt));
    return ls__net_update(opt->net, call, &opt->measurement, 0);
}

ls_status ls_optimizer_gradient_norm(ls_optimizer *opt, double *norm)
{
    LS__DEFAULT_FLOATS;
    if (!opt) return LS_ERR_EARLIER;
    ls_context *ctx = opt->owned.ctx;
    LS__ENTER(ctx);
    if (!norm) return ls__fail(ctx, LS_ERR_INVALID, "ls_optimizer_gradient_norm: norm is NULL");
    if (!opt->has_norm || !ls__optimizer_find_used(opt)) LS_TRY(measure_norm(opt));
    float value;
    LS_TRY(ctx->device->backend->read(ctx->device, &value, opt->norm, sizeof value));
    *norm = (double)value;
    return LS_OK;
}
