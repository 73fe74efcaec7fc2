/* rmsprop.c: RMSprop (Tieleman & Hinton 2012); the formula stands in lockstep/optim.h. */
#include "base/error.h"
#include "base/floats.h"
#include "optim/optimizer.h"

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
    if (!net) return NULL;
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
    const ls__optimizer_options options = {
        .decay = { c.weight_decay, c.weight_decay_scope },
        .groups = c.groups,
        .n_groups = c.n_groups,
        .clip_norm = c.clip_norm,
        .clip_value = c.clip_value,
        .ema_decay = c.ema_decay,
        .accumulate = c.accumulate,
        .absent_states = (unsigned)!c.centered << GRAD_AVG | (unsigned)(c.momentum == 0) << MOMENTUM
    };
    return ls__optimizer_open(net, &kind, &options, &op);
}
