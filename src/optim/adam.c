/* adam.c: Adam (Kingma & Ba 2015) and AdamW (Loshchilov & Hutter 2019); the formulas stand in
 * lockstep/optim.h. */
#include "base/error.h"
#include "base/floats.h"
#include "optim/optimizer.h"

static void adam_put_settings(const ls__op *op, ls__setting_fn put, void *user)
{
    ls__put_setting(put, user, "beta1", ls__shortest(op->u.adam.beta1));
    ls__put_setting(put, user, "beta2", ls__shortest(op->u.adam.beta2));
    ls__put_setting(put, user, "epsilon", ls__shortest(op->u.adam.epsilon));
}

static const ls__optimizer_kind kinds[] = {
    { "adam", "ls_adam", 2, { "exp_avg", "exp_avg_sq" }, adam_put_settings },
    { "adamw", "ls_adamw", 2, { "exp_avg", "exp_avg_sq" }, adam_put_settings },
};

static ls_optimizer *open(ls_net *net, const ls_adam_config *config, bool decoupled)
{
    if (!net) return NULL;
    ls_context *ctx = ls_net_context(net);
    LS__ENTER_NULL(ctx);
    const ls__optimizer_kind *kind = &kinds[decoupled];
    const ls_adam_config c = config ? *config : (ls_adam_config){ 0 };
    ls__op op = { .kind = LS__OP_ADAM };
    op.u.adam.beta1 = ls__or_default(c.beta1, 0.9f);
    op.u.adam.beta2 = ls__or_default(c.beta2, 0.999f);
    op.u.adam.epsilon = ls__or_default(c.epsilon, 1e-8f);
    op.u.adam.decoupled = decoupled;
    const float weight_decay = ls__or_default(c.weight_decay, decoupled ? 0.01f : 0.0f);
    /* epsilon must be above 0, because sqrt(v) is 0 if all gradients were 0 */
    const ls__field fields[] = { { "beta1", (double)op.u.adam.beta1, LS__BELOW_ONE },
                                 { "beta2", (double)op.u.adam.beta2, LS__BELOW_ONE },
                                 { "epsilon", (double)op.u.adam.epsilon, LS__POSITIVE } };
    if (ls__check_fields(ctx, kind->call, fields, sizeof fields / sizeof fields[0]) != LS_OK)
        return NULL;
    const ls__optimizer_options options = { .decay = { weight_decay, c.weight_decay_scope },
                                            .groups = c.groups,
                                            .n_groups = c.n_groups,
                                            .clip_norm = c.clip_norm,
                                            .clip_value = c.clip_value,
                                            .ema_decay = c.ema_decay,
                                            .accumulate = c.accumulate };
    return ls__optimizer_open(net, kind, &options, &op);
}

ls_optimizer *ls_adam(ls_net *net, const ls_adam_config *config)
{
    LS__DEFAULT_FLOATS;
    return open(net, config, false);
}

ls_optimizer *ls_adamw(ls_net *net, const ls_adam_config *config)
{
    LS__DEFAULT_FLOATS;
    return open(net, config, true);
}
