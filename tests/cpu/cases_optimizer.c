/* Gradient norm, SGD, Adam over blocks with gaps and frozen stretches; loss scaling. */
#include "op_case.h"

/* PyTorch's order of float operations, a few roundings of 6e-8 each; the reference works in double.
 */
static const double TOLERANCE = 1e-6;

static const ls__segment few[] = { { 0, 5, 0.01f }, { 16, 20, 0 }, { 48, 3, 0.5f } };
static const ls__segment many[] = {
    { 0, 9, 0 },         { 16, 70000, 5e-4f },     { 70016, 1, 5e-4f },     { 70032, 63, 0 },
    { 81920, 16384, 0 }, { 98304, 100000, 5e-4f }, { 250000, 50000, 1e-2f }
};
static const ls__segment one[] = { { 3, 94, 0.1f } };

static const struct {
    const ls__segment *segments;
    int64_t n_segments, count;
} blocks[] = { { few, 3, 64 }, { many, 7, 300000 }, { one, 1, 100 }, { one, 0, 100 } };

static void add_sgd(case_list *list, size_t i)
{
    const ls__operand x = dense(LS_F32, LS_SHAPE(blocks[i].count)),
                      norm = dense(LS_F32, LS_SHAPE(1)), scaler = dense(LS_F32, LS_SHAPE(3));
    for (int with = 0; with < 24; with++) {
        const bool momentum = with % 3 > 0, nesterov = with % 3 == 2, clip = with / 3 & 1;
        const bool first = with / 6 & 1, scaled = with / 12;
        const ls__operand operands[] = { x, x, momentum ? x : absent(),
                                         clip || scaled ? norm : absent(),
                                         scaled ? scaler : absent() };
        op_case *c = add_case(list, LS__OP_SGD, 5, operands, "%s%s%s%s%s",
                              momentum ? "momentum " : "", nesterov ? "nesterov " : "",
                              clip ? "clip " : "", scaled ? "scaled " : "", first ? "first" : "");
        c->op.u.sgd.momentum = momentum ? 0.9f : 0;
        c->op.u.sgd.dampening = momentum && !nesterov ? 0.2f : 0;
        c->op.u.sgd.nesterov = nesterov;
        c->op.u.sgd.clip_norm = clip ? 0.5f : 0;
        c->op.u.sgd.segments = blocks[i].segments;
        c->op.u.sgd.n_segments = &blocks[i].n_segments;
        c->step.optimizer_step = first ? 0 : 3;
        c->tolerance = TOLERANCE;
    }
}

static void add_adam(case_list *list, size_t i)
{
    const ls__operand x = dense(LS_F32, LS_SHAPE(blocks[i].count)),
                      norm = dense(LS_F32, LS_SHAPE(1)), scaler = dense(LS_F32, LS_SHAPE(3));
    for (int with = 0; with < 16; with++) {
        const bool decoupled = with & 1, clip = with & 2, first = with & 4, scaled = with & 8;
        const ls__operand operands[] = {
            x, x, x, x, clip || scaled ? norm : absent(), scaled ? scaler : absent()
        };
        op_case *c =
            add_case(list, LS__OP_ADAM, 6, operands, "%s%s%s%s", decoupled ? "decoupled " : "",
                     clip ? "clip " : "", scaled ? "scaled " : "", first ? "first" : "");
        c->op.u.adam.beta1 = 0.9f;
        c->op.u.adam.beta2 = 0.999f;
        c->op.u.adam.epsilon = 1e-8f;
        c->op.u.adam.decoupled = decoupled;
        c->op.u.adam.clip_norm = clip ? 0.5f : 0;
        c->op.u.adam.segments = blocks[i].segments;
        c->op.u.adam.n_segments = &blocks[i].n_segments;
        c->step.optimizer_step = first ? 0 : 99;
        c->step.lr = 1e-2;
        c->tolerance = TOLERANCE;
    }
}

static void add_l2_norm(case_list *list, size_t i)
{
    const ls__operand x = dense(LS_F32, LS_SHAPE(blocks[i].count)),
                      norm = dense(LS_F32, LS_SHAPE(1)), scaler = dense(LS_F32, LS_SHAPE(3));
    for (int scaled = 0; scaled < 2; scaled++) {
        const ls__operand operands[] = { x, scaled ? scaler : absent(), norm };
        op_case *c = add_case(list, LS__OP_L2_NORM, 3, operands, "%d segments%s",
                              (int)blocks[i].n_segments, scaled ? " scaled" : "");
        c->op.u.l2_norm.segments = blocks[i].segments;
        c->op.u.l2_norm.n_segments = &blocks[i].n_segments;
        c->tolerance = TOLERANCE;
    }
}

void add_optimizer_cases(case_list *list)
{
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        add_l2_norm(list, i);
        add_sgd(list, i);
        add_adam(list, i);
    }
    const ls__operand number = dense(LS_F32, LS_SHAPE(1)), scaler = dense(LS_F32, LS_SHAPE(3));
    add_case(list, LS__OP_LOSS_SCALE, 3, (ls__operand[]){ number, scaler, number }, "one");
    add_case(list, LS__OP_LOSS_SCALE_UPDATE, 2, (ls__operand[]){ number, scaler }, "grows")
        ->op.u.loss_scale.growth_interval = 1;
    add_case(list, LS__OP_LOSS_SCALE_UPDATE, 2, (ls__operand[]){ number, scaler }, "stays")
        ->op.u.loss_scale.growth_interval = 1000;
}
