/* sgd.c: stochastic gradient descent; the formula stands in lockstep/optim.h. As in PyTorch, and
 * unlike Sutskever et al. 2013, the momentum does not contain lr, so that a change of lr takes
 * effect at once. The loop is the op SGD: cpu/ops/optimizer.c, its arithmetic arith/element.h. */
#include "base/error.h"
#include "base/floats.h"
#include "optim/optimizer.h"

static void sgd_put_settings(const ls__op *op, ls__setting_fn put, void *user)
{
    ls__put_setting(put, user, "momentum", ls__shortest(op->u.sgd.momentum));
    ls__put_setting(put, user, "dampening", ls__shortest(op->u.sgd.dampening));
    ls__put_setting(put, user, "nesterov", op->u.sgd.nesterov);
}

static const ls__optimizer_kind kind = { "sgd", "ls_sgd", 1, { "momentum" }, sgd_put_settings };

static ls_status check_sgd_config(ls_context *ctx, const ls_sgd_config *c)
{
    const ls__field fields[] = { { "momentum", (double)c->momentum, LS__NOT_NEGATIVE },
                                 { "dampening", (double)c->dampening, LS__NOT_NEGATIVE } };
    LS_TRY(ls__check_fields(ctx, kind.call, fields, sizeof fields / sizeof fields[0]));
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
    if (!net) return NULL;
    ls_context *ctx = ls_net_context(net);
    LS__ENTER_NULL(ctx);
    const ls_sgd_config c = config ? *config : (ls_sgd_config){ 0 };
    if (check_sgd_config(ctx, &c) != LS_OK) return NULL;
    const ls__optimizer_options options = { .decay = { c.weight_decay, c.weight_decay_scope },
                                            .groups = c.groups,
                                            .n_groups = c.n_groups,
                                            .clip_norm = c.clip_norm,
                                            .clip_value = c.clip_value,
                                            .ema_decay = c.ema_decay,
                                            .accumulate = c.accumulate,
                                            .absent_states = c.momentum == 0 };
    ls__op op = { .kind = LS__OP_SGD };
    op.u.sgd.momentum = c.momentum;
    op.u.sgd.dampening = c.dampening;
    op.u.sgd.nesterov = c.nesterov;
    return ls__optimizer_open(net, &kind, &options, &op);
}
