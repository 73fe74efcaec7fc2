/* kinds.c: SGD, Adam, AdamW and RMSprop: their settings, defaults and checks. The formulas stand in
 * lockstep/optim.h. The loops are ops: cpu/ops/optimizer.c, cuda/kernels/optimizer.cu; their
 * arithmetic is in arith/element.h. */
#include "base/error.h"
#include "base/floats.h"
#include "optim/optimizer.h"

/* The options that all config structs have. */
#define COMMON_OPTIONS(c)                                                                          \
    .decay = { (c).weight_decay, (c).weight_decay_scope }, .groups = (c).groups,                   \
    .n_groups = (c).n_groups, .clip_norm = (c).clip_norm, .clip_value = (c).clip_value,            \
    .ema_decay = (c).ema_decay, .accumulate = (c).accumulate, .parameters = (c).parameters

/* ---- SGD. As in PyTorch, and unlike Sutskever et al. 2013, the momentum does not contain lr, so
 * that a change of lr takes effect at once. ---- */

static void sgd_put_settings(const ls__op *op, ls__setting_fn put, void *user)
{
    ls__put_setting(put, user, "momentum", ls__shortest(op->u.sgd.momentum));
    ls__put_setting(put, user, "dampening", ls__shortest(op->u.sgd.dampening));
    ls__put_setting(put, user, "nesterov", op->u.sgd.nesterov);
}

static const ls__optimizer_kind sgd = { "sgd", "ls_sgd", 1, { "momentum" }, sgd_put_settings };

static ls_status check_sgd_config(ls_context *ctx, const ls_sgd_config *c)
{
    const ls__field fields[] = { { "momentum", (double)c->momentum, LS__NOT_NEGATIVE },
                                 { "dampening", (double)c->dampening, LS__NOT_NEGATIVE } };
    LS_TRY(ls__check_fields(ctx, sgd.call, fields, sizeof fields / sizeof fields[0]));
    if (c->nesterov && (c->momentum == 0 || c->dampening != 0))
        return ls__fail(
            ctx, LS_ERR_INVALID,
            "ls_sgd: nesterov requires momentum above 0 (got %g) and no dampening (got %g)",
            (double)c->momentum, (double)c->dampening);
    if (c->dampening != 0 && c->momentum == 0)
        return ls__fail(ctx, LS_ERR_INVALID,
                        "ls_sgd: dampening is %g, but there is no momentum to damp",
                        (double)c->dampening);
    return LS_OK;
}

ls_optimizer *ls_sgd(ls_net *net, const ls_sgd_config *config)
{
    LS__DEFAULT_FLOATS;
    ls_context *ctx = ls_net_context(net);
    LS__ENTER_NULL(ctx);
    const ls_sgd_config c = config ? *config : (ls_sgd_config){ 0 };
    if (check_sgd_config(ctx, &c) != LS_OK) return NULL;
    ls__op op = { .kind = LS__OP_SGD };
    op.u.sgd.momentum = c.momentum;
    op.u.sgd.dampening = c.dampening;
    op.u.sgd.nesterov = c.nesterov;
    return ls__optimizer_open(
        net, &sgd, &(ls__optimizer_options){ COMMON_OPTIONS(c), .absent_states = c.momentum == 0 },
        &op);
}

/* ---- Adam (Kingma & Ba 2015) and AdamW (Loshchilov & Hutter 2019) ---- */

static void adam_put_settings(const ls__op *op, ls__setting_fn put, void *user)
{
    ls__put_setting(put, user, "beta1", ls__shortest(op->u.adam.beta1));
    ls__put_setting(put, user, "beta2", ls__shortest(op->u.adam.beta2));
    ls__put_setting(put, user, "epsilon", ls__shortest(op->u.adam.epsilon));
}

static ls_optimizer *open_adam(ls_net *net, const ls_adam_config *config, bool decoupled)
{
    static const ls__optimizer_kind kinds[] = {
        { "adam", "ls_adam", 2, { "exp_avg", "exp_avg_sq" }, adam_put_settings },
        { "adamw", "ls_adamw", 2, { "exp_avg", "exp_avg_sq" }, adam_put_settings },
    };
    LS__DEFAULT_FLOATS;
    ls_context *ctx = ls_net_context(net);
    LS__ENTER_NULL(ctx);
    const ls__optimizer_kind *kind = &kinds[decoupled];
    ls_adam_config c = config ? *config : (ls_adam_config){ 0 };
    c.weight_decay = ls__or_default(c.weight_decay, decoupled ? 0.01f : 0.0f);
    ls__op op = { .kind = LS__OP_ADAM };
    op.u.adam.beta1 = ls__or_default(c.beta1, 0.9f);
    op.u.adam.beta2 = ls__or_default(c.beta2, 0.999f);
    op.u.adam.epsilon = ls__or_default(c.epsilon, 1e-8f);
    op.u.adam.decoupled = decoupled;
    /* epsilon must be above 0, because sqrt(v) is 0 if all gradients were 0 */
    const ls__field fields[] = { { "beta1", (double)op.u.adam.beta1, LS__BELOW_ONE },
                                 { "beta2", (double)op.u.adam.beta2, LS__BELOW_ONE },
                                 { "epsilon", (double)op.u.adam.epsilon, LS__POSITIVE } };
    if (ls__check_fields(ctx, kind->call, fields, sizeof fields / sizeof fields[0]) != LS_OK)
        return NULL;
    return ls__optimizer_open(net, kind, &(ls__optimizer_options){ COMMON_OPTIONS(c) }, &op);
}

ls_optimizer *ls_adam(ls_net *net, const ls_adam_config *config)
{
    return open_adam(net, config, false);
}

ls_optimizer *ls_adamw(ls_net *net, const ls_adam_config *config)
{
    return open_adam(net, config, true);
}

/* ---- RMSprop (Tieleman & Hinton 2012) ---- */

/* The op's states. */
enum { SQUARE_AVG, GRAD_AVG, MOMENTUM, N_STATES };

static void rmsprop_put_settings(const ls__op *op, ls__setting_fn put, void *user)
{
    ls__put_setting(put, user, "alpha", ls__shortest(op->u.rmsprop.alpha));
    ls__put_setting(put, user, "epsilon", ls__shortest(op->u.rmsprop.epsilon));
    ls__put_setting(put, user, "momentum", ls__shortest(op->u.rmsprop.momentum));
    ls__put_setting(put, user, "centered", !ls__is_absent(&op->operands[2 + GRAD_AVG]));
}

ls_optimizer *ls_rmsprop(ls_net *net, const ls_rmsprop_config *config)
{
    static const ls__optimizer_kind kind = {
        .name = "rmsprop",
        .call = "ls_rmsprop",
        .n_states = N_STATES,
        .state_names = { [SQUARE_AVG] = "square_avg",
                         [GRAD_AVG] = "grad_avg",
                         [MOMENTUM] = "momentum" },
        .settings = rmsprop_put_settings,
    };
    LS__DEFAULT_FLOATS;
    ls_context *ctx = ls_net_context(net);
    LS__ENTER_NULL(ctx);
    const ls_rmsprop_config c = config ? *config : (ls_rmsprop_config){ 0 };
    ls__op op = { .kind = LS__OP_RMSPROP };
    op.u.rmsprop.alpha = ls__or_default(c.alpha, 0.99f);
    op.u.rmsprop.epsilon = ls__or_default(c.epsilon, 1e-8f);
    op.u.rmsprop.momentum = c.momentum;
    /* epsilon must be above 0, because the root is 0 if all gradients were 0 */
    const ls__field fields[] = { { "alpha", (double)op.u.rmsprop.alpha, LS__BELOW_ONE },
                                 { "epsilon", (double)op.u.rmsprop.epsilon, LS__POSITIVE },
                                 { "momentum", (double)c.momentum, LS__NOT_NEGATIVE } };
    if (ls__check_fields(ctx, kind.call, fields, sizeof fields / sizeof fields[0]) != LS_OK)
        return NULL;
    const unsigned absent = (unsigned)!c.centered << GRAD_AVG | (unsigned)(c.momentum == 0)
                                                                    << MOMENTUM;
    return ls__optimizer_open(
        net, &kind, &(ls__optimizer_options){ COMMON_OPTIONS(c), .absent_states = absent }, &op);
}
