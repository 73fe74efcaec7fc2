/* sgd.c: stochastic gradient descent. With g the clipped gradient plus weight_decay p:
 *
 *   m = momentum m + (1 - dampening) g         (in the first update m = g)
 *   p = p - lr (g + momentum m) if nesterov, else p - lr m
 *
 * Without momentum p = p - lr g. As in PyTorch, and unlike Sutskever et al. 2013, m does not
 * contain lr, so that a change of lr takes effect at once. */
#include "base/error.h"
#include "base/floats.h"
#include "optim/optimizer.h"

static void put_settings(const ls__op *op, ls__setting_fn put, void *user)
{
    ls__put_setting(put, user, "momentum", ls__shortest(op->u.sgd.momentum));
    ls__put_setting(put, user, "dampening", ls__shortest(op->u.sgd.dampening));
    ls__put_setting(put, user, "nesterov", op->u.sgd.nesterov);
}

static const ls__optimizer_kind kind = { .name = "sgd",
                                         .call = "ls_sgd",
                                         .op = LS__OP_SGD,
                                         .n_states = 1,
                                         .state_names = { "momentum" },
                                         .settings = put_settings };

static bool check(ls_context *ctx, const ls_sgd_config *c)
{
    const ls__field fields[] = { { "momentum", (double)c->momentum, LS__NOT_NEGATIVE },
                                 { "dampening", (double)c->dampening, LS__NOT_NEGATIVE },
                                 { "weight_decay", (double)c->weight_decay, LS__NOT_NEGATIVE },
                                 { "decay", c->decay, LS__SELECTION_OF_2 },
                                 { "clip_norm", (double)c->clip_norm, LS__NOT_NEGATIVE } };
    if (!ls__check_fields(ctx, kind.call, fields, sizeof fields / sizeof fields[0])) return false;
    if (c->nesterov && (c->momentum == 0 || c->dampening != 0)) {
        ls__fail(ctx, LS_ERR_INVALID,
                 "ls_sgd: nesterov requires momentum above 0 (got %g) and no dampening (got %g)",
                 (double)c->momentum, (double)c->dampening);
        return false;
    }
    if (c->dampening != 0 && c->momentum == 0) {
        ls__fail(ctx, LS_ERR_INVALID, "ls_sgd: dampening is %g, but there is no momentum to damp",
                 (double)c->dampening);
        return false;
    }
    return true;
}

ls_optimizer *ls_sgd(ls_net *net, const ls_sgd_config *config)
{
    LS__DEFAULT_FLOATS;
    if (!net) return NULL;
    ls_context *ctx = ls_net_context(net);
    LS__ENTER_NULL(ctx);
    const ls_sgd_config c = config ? *config : (ls_sgd_config){ 0 };
    if (!check(ctx, &c)) return NULL;
    const ls__optimizer_options options = { .weight_decay = c.weight_decay,
                                            .clip_norm = c.clip_norm,
                                            .decay = c.decay,
                                            .stateless = c.momentum == 0 };
    ls__op op = { .kind = LS__OP_SGD };
    op.u.sgd.momentum = c.momentum;
    op.u.sgd.dampening = c.dampening;
    op.u.sgd.nesterov = c.nesterov;
    return ls__optimizer_open(net, &kind, &options, &op);
}
