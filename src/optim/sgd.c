/* sgd.c: stochastic gradient descent. With g the gradient plus weight_decay times the parameter:
 *   m = momentum m + (1 - dampening) g, at the first update m = g;  p = p - rate (g + momentum m)
 * if nesterov, else rate m */
#include "base/error.h"
#include "optim/optimizer.h"

ls_optimizer *ls_sgd(ls_net *net, const ls_sgd_config *config)
{
    if (!net) return NULL;
    ls_context *ctx = ls_net_context(net);
    LS__ENTER_NULL(ctx);
    const ls_sgd_config c = config ? *config : (ls_sgd_config){ 0 };
    const double any = 1e30;
    if (!ls__in_range(ctx, "ls_sgd", "momentum", (double)c.momentum, 0, any) ||
        !ls__in_range(ctx, "ls_sgd", "dampening", (double)c.dampening, 0, any) ||
        !ls__in_range(ctx, "ls_sgd", "weight_decay", (double)c.weight_decay, 0, any) ||
        !ls__in_range(ctx, "ls_sgd", "clip_norm", (double)c.clip_norm, 0, any) ||
        !ls__in_range(ctx, "ls_sgd", "decay", c.decay, LS_DECAY_ALL, LS_DECAY_WEIGHTS + 1))
        return NULL;
    if (c.nesterov && (c.momentum == 0 || c.dampening != 0)) {
        ls__fail(ctx, LS_ERR_INVALID,
                 "ls_sgd: nesterov wants momentum above 0 (got %g) and no dampening (got %g)",
                 (double)c.momentum, (double)c.dampening);
        return NULL;
    }
    const ls__optimizer_rules rules = { .name = "sgd",
                                        .n_state_operands = 1,
                                        .n_states = c.momentum > 0 ? 1 : 0,
                                        .state_names = { "momentum" },
                                        .weight_decay = c.weight_decay,
                                        .clip_norm = c.clip_norm,
                                        .decay = c.decay };
    ls__op op = { .kind = LS__OP_SGD };
    op.u.sgd.momentum = c.momentum;
    op.u.sgd.dampening = c.dampening;
    op.u.sgd.nesterov = c.nesterov;
    op.u.sgd.clip_norm = c.clip_norm;
    return ls__optimizer_open(net, &rules, &op);
}
