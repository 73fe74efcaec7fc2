/* Gradient accumulation and norm, SGD, Adam, RMSprop over blocks with gaps and frozen stretches;
 * loss scaling. */
#include "op_case.h"

/* PyTorch's order of float operations, a few roundings of 6e-8 each; the reference works in double.
 */
static const double TOLERANCE = 1e-6;

static const ls__segment few[] = { { 0, 5, 0.01f, 1 }, { 16, 20, 0, 3 }, { 48, 3, 0.5f, 0.1f } };
static const ls__segment many[] = { { 0, 9, 0, 1 },
                                    { 16, 70000, 5e-4f, 1 },
                                    { 70016, 1, 5e-4f, 0.3f },
                                    { 70032, 63, 0, 1 },
                                    { 81920, 16384, 0, 10 },
                                    { 98304, 100000, 5e-4f, 1 },
                                    { 250000, 50000, 1e-2f, 0 } };
static const ls__segment one[] = { { 3, 94, 0.1f, 1 } };

static const struct {
    const ls__segment *segments;
    int64_t n_segments, count;
} blocks[] = { { few, 3, 64 }, { many, 7, 300000 }, { one, 1, 100 }, { one, 0, 100 } };

static ls__block_settings settings(size_t i, bool clip_norm, bool clip_value)
{
    return (ls__block_settings){ .segments = blocks[i].segments,
                                 .n_segments = &blocks[i].n_segments,
                                 .clip_norm = clip_norm ? 0.5f : 0,
                                 .clip_value = clip_value ? 0.25f : 0 };
}

static void add_sgd(case_list *list, size_t i)
{
    const ls__operand x = dense(LS_F32, LS_SHAPE(blocks[i].count)),
                      norm = dense(LS_F32, LS_SHAPE(1)), grad_scaler = dense(LS_F32, LS_SHAPE(3));
    for (int with = 0; with < 24; with++) {
        const bool momentum = with % 3 > 0, nesterov = with % 3 == 2, clip = with / 3 & 1;
        const bool first = with / 6 & 1, scaled = with / 12;
        const ls__operand operands[] = { x, x, momentum ? x : absent(),
                                         clip || scaled ? norm : absent(),
                                         scaled ? grad_scaler : absent() };
        op_case *c = add_case(list, LS__OP_SGD, 5, operands, "%s%s%s%s%s",
                              momentum ? "momentum " : "", nesterov ? "nesterov " : "",
                              clip ? "clip " : "", scaled ? "scaled " : "", first ? "first" : "");
        c->op.u.sgd.block = settings(i, clip, clip && momentum);
        c->op.u.sgd.momentum = momentum ? 0.9f : 0;
        c->op.u.sgd.dampening = momentum && !nesterov ? 0.2f : 0;
        c->op.u.sgd.nesterov = nesterov;
        c->step.optimizer_step = first ? 0 : 3;
        c->tolerance = TOLERANCE;
    }
}

static void add_adam(case_list *list, size_t i)
{
    const ls__operand x = dense(LS_F32, LS_SHAPE(blocks[i].count)),
                      norm = dense(LS_F32, LS_SHAPE(1)), grad_scaler = dense(LS_F32, LS_SHAPE(3));
    for (int with = 0; with < 16; with++) {
        const bool decoupled = with & 1, clip = with & 2, first = with & 4, scaled = with & 8;
        const ls__operand operands[] = {
            x, x, x, x, clip || scaled ? norm : absent(), scaled ? grad_scaler : absent()
        };
        op_case *c =
            add_case(list, LS__OP_ADAM, 6, operands, "%s%s%s%s", decoupled ? "decoupled " : "",
                     clip ? "clip " : "", scaled ? "scaled " : "", first ? "first" : "");
        c->op.u.adam.block = settings(i, clip, first);
        c->op.u.adam.beta1 = 0.9f;
        c->op.u.adam.beta2 = 0.999f;
        c->op.u.adam.epsilon = 1e-8f;
        c->op.u.adam.decoupled = decoupled;
        c->step.optimizer_step = first ? 0 : 99;
        c->step.lr = 1e-2;
        c->tolerance = TOLERANCE;
    }
}

static void add_rmsprop(case_list *list, size_t i)
{
    const ls__operand x = dense(LS_F32, LS_SHAPE(blocks[i].count)),
                      norm = dense(LS_F32, LS_SHAPE(1)), grad_scaler = dense(LS_F32, LS_SHAPE(3));
    for (int with = 0; with < 17; with++) {
        const bool clamped = with == 16; /* see fill_input */
        const bool centered = clamped || with & 1, momentum = with & 2, clip = with & 4,
                   scaled = with & 8;
        const ls__operand operands[] = { x,
                                         x,
                                         x,
                                         centered ? x : absent(),
                                         momentum ? x : absent(),
                                         clip || scaled ? norm : absent(),
                                         scaled ? grad_scaler : absent() };
        op_case *c =
            add_case(list, LS__OP_RMSPROP, 7, operands, "%s%s%s%s",
                     clamped    ? "clamped "
                     : centered ? "centered "
                                : "",
                     momentum ? "momentum " : "", clip ? "clip " : "", scaled ? "scaled" : "");
        c->op.u.rmsprop.block = settings(i, clip, momentum);
        c->op.u.rmsprop.alpha = 0.9f;
        c->op.u.rmsprop.epsilon = clamped ? RMSPROP_CLAMPED_EPSILON : 1e-8f;
        c->op.u.rmsprop.momentum = momentum ? 0.9f : 0;
        c->step.lr = 1e-2;
        c->tolerance = TOLERANCE;
    }
}

static void add_l2_norm(case_list *list, size_t i)
{
    const ls__operand x = dense(LS_F32, LS_SHAPE(blocks[i].count)),
                      norm = dense(LS_F32, LS_SHAPE(1)), grad_scaler = dense(LS_F32, LS_SHAPE(3));
    for (int scaled = 0; scaled < 2; scaled++) {
        const ls__operand operands[] = { x, scaled ? grad_scaler : absent(), norm };
        op_case *c = add_case(list, LS__OP_L2_NORM, 3, operands, "%d segments%s",
                              (int)blocks[i].n_segments, scaled ? " scaled" : "");
        c->op.u.block = settings(i, false, false);
        c->tolerance = TOLERANCE;
    }
}

static void add_accumulation(case_list *list, size_t i)
{
    const ls__operand x = dense(LS_F32, LS_SHAPE(blocks[i].count));
    for (int64_t accumulated = 0; accumulated < 3; accumulated++)
        for (int mean = 0; mean < 2; mean++) {
            op_case *c = add_case(list, mean ? LS__OP_GRADIENT_MEAN : LS__OP_GRADIENT_SUM, 2,
                                  (ls__operand[]){ x, x }, "after %d", (int)accumulated);
            c->step.accumulated = accumulated;
            c->tolerance = TOLERANCE;
        }
}

/* The first shard, one in the middle, and the last one, in place. */
static void add_shards(case_list *list, size_t i)
{
    static const struct {
        const char *text;
        int64_t n_sums, n_merged, is_last;
    } shards[] = { { "first", 0, 0, 0 }, { "merged", 3, 2, 0 }, { "last", 3, 3, 1 } };
    const ls__operand x = dense(LS_F32, LS_SHAPE(blocks[i].count)),
                      sums = dense(LS_F32, LS_SHAPE(4, blocks[i].count)),
                      scalar = dense(LS_F32, LS_SHAPE(1));
    for (size_t s = 0; s < sizeof shards / sizeof shards[0]; s++)
        for (int weighted = 0; weighted < 2; weighted++) {
            op_case *c = add_case(list, LS__OP_SHARD_SUM, 5,
                                  (ls__operand[]){ x, weighted ? scalar : absent(),
                                                   weighted ? scalar : absent(), sums, x },
                                  "%s%s", shards[s].text, weighted ? " weighted" : "");
            c->step.n_sums = shards[s].n_sums;
            c->step.n_merged = shards[s].n_merged;
            c->step.is_last_shard = shards[s].is_last;
            c->shares[4] = shards[s].is_last; /* x */
        }
    static const struct {
        const char *text;
        ls__merges merges;
    } trees[] = { { "one", { 1, 1, { 0 } } },
                  { "pieces", { 3, 3, { 0, 0, 0 } } },
                  { "partly", { 5, 2, { 0, 1, 0, 0, 2 } } },
                  { "whole", { 6, 1, { 0, 0, 2, 0, 1, 2 } } } };
    for (size_t t = 0; t < sizeof trees / sizeof trees[0]; t++)
        for (int with = 0; with < 3; with++) {
            const ls__merges *merges = &trees[t].merges;
            const ls__operand rows = dense(LS_F32, LS_SHAPE(merges->n_rows, blocks[i].count));
            if (with > 0 && merges->n_sums > 1) continue;
            add_case(list, LS__OP_TREE_SUM, 3,
                     (ls__operand[]){ rows, with == 2 ? scalar : absent(), with ? x : absent() },
                     "%s%s%s", trees[t].text, with ? " to y" : "", with == 2 ? " divided" : "")
                ->op.u.merges = *merges;
        }
    add_case(list, LS__OP_RUNNING_STATISTICS, 3, (ls__operand[]){ x, x, x }, "4 shards")
        ->step.n_shards = 4;
}

static void add_ema(case_list *list, size_t i)
{
    const ls__operand x = dense(LS_F32, LS_SHAPE(blocks[i].count)),
                      norm = dense(LS_F32, LS_SHAPE(1)), grad_scaler = dense(LS_F32, LS_SHAPE(3));
    for (int with = 0; with < 4; with++) {
        const bool first = with & 1, scaled = with & 2;
        const ls__operand operands[] = { x, x, scaled ? norm : absent(),
                                         scaled ? grad_scaler : absent() };
        op_case *c = add_case(list, LS__OP_EMA, 4, operands, "%s%s", first ? "first " : "",
                              scaled ? "scaled" : "");
        c->op.u.ema.decay = 0.9f;
        c->step.optimizer_step = first ? 0 : 5;
        c->tolerance = TOLERANCE;
    }
}

void add_optimizer_cases(case_list *list)
{
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        add_accumulation(list, i);
        add_shards(list, i);
        add_l2_norm(list, i);
        add_sgd(list, i);
        add_adam(list, i);
        add_rmsprop(list, i);
        add_ema(list, i);
    }
    const ls__operand number = dense(LS_F32, LS_SHAPE(1)), grad_scaler = dense(LS_F32, LS_SHAPE(3));
    for (int with = 1; with < 4; with++) {
        const ls__operand share = with & 1 ? number : absent();
        add_case(list, LS__OP_LOSS_SCALE, 5,
                 (ls__operand[]){ number, share, share, with & 2 ? grad_scaler : absent(), number },
                 "%s%s", with & 1 ? "share " : "", with & 2 ? "scaled" : "")
            ->tolerance = TOLERANCE;
    }
    add_case(list, LS__OP_LOSS_SCALE_UPDATE, 2, (ls__operand[]){ number, grad_scaler }, "grows")
        ->op.u.loss_scale.growth_interval = 1;
    add_case(list, LS__OP_LOSS_SCALE_UPDATE, 2, (ls__operand[]){ number, grad_scaler }, "stays")
        ->op.u.loss_scale.growth_interval = 1000;
}
