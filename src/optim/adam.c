/* adam.c: Adam (Kingma & Ba 2015) and AdamW (Loshchilov & Hutter 2019). With t the number of this
 * update, from 1: m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2 p = p - rate (m / (1
 * - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon) Adam's g includes weight_decay p; AdamW first
 * scales p by 1 - rate weight_decay. */
#include "base/error.h"
#include "optim/optimizer.h"

static ls_optimizer *open(ls_net *net, const ls_adam_config *config, bool decoupled)
{
    if (!net) return NULL;
    ls_context *ctx = ls_net_context(net);
    LS__ENTER_NULL(ctx);
    const char *call = decoupled ? "ls_adamw" : "ls_adam";
    const ls_adam_config c = config ? *config : (ls_adam_config){ 0 };
    const float beta1 = ls__or_default(c.beta1, 0.9f), beta2 = ls__or_default(c.beta2, 0.999f);
    const float epsilon = ls__or_default(c.epsilon, 1e-8f);
    const float weight_decay = ls__or_default(c.weight_decay, decoupled ? 0.01f : 0.0f);
    const double any = 1e30;
    if (!ls__in_range(ctx, call, "beta1", (double)beta1, 0, 1) ||
        !ls__in_range(ctx, call, "beta2", (double)beta2, 0, 1) ||
        !ls__in_range(ctx, call, "epsilon", (double)epsilon, 0, any) ||
        !ls__in_range(ctx, call, "weight_decay", (double)weight_decay, 0, any) ||
        !ls__in_range(ctx, call, "clip_norm", (double)c.clip_norm, 0, any) ||
        !ls__in_range(ctx, call, "decay", c.decay, LS_DECAY_ALL, LS_DECAY_WEIGHTS + 1))
        return NULL;
    const ls__optimizer_rules rules = { .name = decoupled ? "adamw" : "adam",
                                        .n_state_operands = 2,
                                        .n_states = 2,
                                        .state_names = { "exp_avg", "exp_avg_sq" },
                                        .weight_decay = weight_decay,
                                        .clip_norm = c.clip_norm,
                                        .decay = c.decay };
    ls__op op = { .kind = LS__OP_ADAM };
    op.u.adam.beta1 = beta1;
    op.u.adam.beta2 = beta2;
    op.u.adam.epsilon = epsilon;
    op.u.adam.clip_norm = c.clip_norm;
    op.u.adam.decoupled = decoupled;
    return ls__optimizer_open(net, &rules, &op);
}

ls_optimizer *ls_adam(ls_net *net, const ls_adam_config *config)
{
    return open(net, config, false);
}

ls_optimizer *ls_adamw(ls_net *net, const ls_adam_config *config)
{
    return open(net, config, true);
}
