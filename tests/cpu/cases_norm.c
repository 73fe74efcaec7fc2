/* Batch normalisation: with each activation, addition, second gradient, in place; the same in
 * shares over three shards. */
#include "op_case.h"

/* Statistics are as good as the reference's; what is left is the rounding of (x - mean) * a + shift
 * in float, a few times 6e-8 of the largest value. */
static const double TOLERANCE = 1e-6;

/* Of one channel, a sum that cancels is compared with itself, not with those of other channels. */
static const double ONE_CHANNEL_TOLERANCE = 1e-5;

static const struct {
    int64_t n, h, w, c; /* h 0 = [n,c] */
} shapes[] = {
    { 4, 3, 3, 5 },    { 2, 1, 1, 3 },     { 16, 0, 0, 10 },    { 3, 5, 7, 16 },
    { 2, 5, 3, 48 },   { 1, 1, 1, 8 },     { 1, 33, 31, 40 },   { 8, 32, 32, 64 },
    { 64, 4, 4, 512 }, { 512, 0, 0, 100 }, { 1, 200, 200, 16 }, { 2, 7, 7, 2048 },
    { 3, 6, 9, 1 },    { 4, 32, 32, 1 },   { 3, 5, 7, 8 },      { 4, 32, 32, 8 },
    { 2, 4, 4, 24 },   { 4, 32, 32, 16 },
};

static op_case *add(case_list *list, ls__op_kind kind, int n, const ls__operand *operands,
                    ls__activation activation, const char *text)
{
    static const char *const activations[] = { "", "relu", "relu6" };
    op_case *c = add_case(list, kind, n, operands, "%s%s", activations[activation], text);
    c->op.u.norm.activation = activation;
    c->op.u.norm.epsilon = 1e-5f;
    c->op.u.norm.momentum = 0.1f;
    const ls_shape *x = &operands[0].shape;
    c->tolerance = x->dims[x->n_dims - 1] > 1 ? TOLERANCE : ONE_CHANNEL_TOLERANCE;
    return c;
}

/* Tensors of more elements are there for the division into tasks, which depends on the shape alone.
 * One case of each kind is enough for that; small tensors have all combinations of activation,
 * operands and shared memory. */
enum { MAX_COMBINED_ELEMENTS = 60000 };

static bool is_combined(int64_t rows, int64_t channels)
{
    return rows * channels <= MAX_COMBINED_ELEMENTS;
}

enum { SHARDS = 3 };

/* The step of the second of three shards. */
static op_case *of_shard(op_case *c, int64_t values)
{
    c->step.shard = 1;
    c->step.n_shards = SHARDS;
    c->step.n_samples = values;
    c->op.u.norm.count = 2;
    return c;
}

static void add_shares(case_list *list, ls__operand x, int64_t channels, int64_t rows)
{
    const ls__operand v = dense(LS_F32, LS_SHAPE(channels)),
                      sums = dense(LS_F32, LS_SHAPE(SHARDS, 4, channels));
    of_shard(add(list, LS__OP_NORM_MOMENTS, 2, (ls__operand[]){ x, sums }, LS__ACTIVATION_NONE, ""),
             rows);
    of_shard(add(list, LS__OP_NORM_STATISTICS, 5, (ls__operand[]){ sums, v, v, v, v },
                 LS__ACTIVATION_NONE, ""),
             rows);
    of_shard(add(list, LS__OP_NORM_BACKWARD_COEFFICIENTS, 7,
                 (ls__operand[]){ sums, v, v, v, v, v, v }, LS__ACTIVATION_NONE, ""),
             rows);
    add(list, LS__OP_NORM_BACKWARD_APPLY, 6, (ls__operand[]){ x, x, v, v, v, x },
        LS__ACTIVATION_NONE, "");
}

/* dz is absent where it would be dy1. */
static void add_products(case_list *list, ls__operand x, int64_t channels, int64_t rows,
                         ls__activation activation, bool dy2)
{
    const ls__operand v = dense(LS_F32, LS_SHAPE(channels)), none = absent(),
                      sums = dense(LS_F32, LS_SHAPE(SHARDS, 4, channels));
    const bool dz = activation || dy2;
    for (int masked = 0; masked < (activation ? 2 : 1); masked++)
        for (int in_place = 0; in_place < 1 + is_combined(rows, channels) * (dz + dy2);
             in_place++) {
            op_case *c =
                of_shard(add(list, LS__OP_NORM_BACKWARD_PRODUCTS, 12,
                             (ls__operand[]){ x, activation ? x : none, x, dy2 ? x : none, v, v, v,
                                              masked ? v : none, sums, v, v, dz ? x : none },
                             activation, masked ? " shift" : ""),
                         1);
            if (in_place) c->shares[11] = 1 + 2 + (in_place - 1);
        }
}

static void add_variants(case_list *list, ls__operand x, int64_t channels, int64_t rows,
                         ls__activation activation, bool adds)
{
    const ls__operand per_channel = dense(LS_F32, LS_SHAPE(channels));
    const ls__operand sum = adds ? x : absent();
    const ls__operand forward[] = { x,   per_channel, per_channel, per_channel, per_channel,
                                    sum, x,           per_channel, per_channel };
    op_case *c = add(list, LS__OP_BATCH_NORM, 9, forward, activation, adds ? " add" : "");
    if (rows * channels < 2000 && rows > 2) {
        /* The step balances truncation against the rounding of float outputs; where the activation
         * bends inside the step, single elements are off. */
        c->gradient_step = activation ? 5e-5 : 1e-2;
        c->gradient_tolerance = activation ? 2e-2 : 2e-3;
    }
    add(list, LS__OP_BATCH_NORM_EVAL, 7, forward, activation, adds ? " add" : "");

    const ls__operand y = activation ? x : absent();
    const ls__operand backward[] = { x,           y,           x,           sum,
                                     per_channel, per_channel, per_channel, absent(),
                                     x,           per_channel, per_channel, sum };
    add(list, LS__OP_BATCH_NORM_BACKWARD, 12, backward, activation, adds ? " dy2 dadd" : "");
    c = add(list, LS__OP_BATCH_NORM_BACKWARD, 12, backward, activation,
            adds ? " dy2 dadd, dx in place" : ", dx in place");
    c->shares[8] = 1 + 2;
    if (!adds || !is_combined(rows, channels)) return;
    c = add(list, LS__OP_BATCH_NORM_BACKWARD, 12, backward, activation, " dy2, dadd in place");
    c->shares[11] = 1 + 2;
    for (int dx = 2; dx < 4; dx++) {
        c = add(list, LS__OP_BATCH_NORM_BACKWARD, 12, backward, activation, " dy2, both in place");
        c->shares[8] = 1 + dx;
        c->shares[11] = 1 + 5 - dx;
    }
    /* the optional operands apart */
    const ls__operand second[] = { x,           y,        x, x,           per_channel, per_channel,
                                   per_channel, absent(), x, per_channel, per_channel, absent() };
    add(list, LS__OP_BATCH_NORM_BACKWARD, 12, second, activation, " dy2");
    const ls__operand split[] = { x,           y,        x, absent(),    per_channel, per_channel,
                                  per_channel, absent(), x, per_channel, per_channel, x };
    add(list, LS__OP_BATCH_NORM_BACKWARD, 12, split, activation, " dadd");
    for (int dy2 = 0; activation && dy2 < 2; dy2++) {
        const ls__operand masked[] = { x,           x,           x,           dy2 ? x : absent(),
                                       per_channel, per_channel, per_channel, per_channel,
                                       x,           per_channel, per_channel, absent() };
        add(list, LS__OP_BATCH_NORM_BACKWARD, 12, masked, activation,
            dy2 ? " dy2 shift" : " shift");
        c = add(list, LS__OP_BATCH_NORM_BACKWARD, 12, masked, activation,
                dy2 ? " dy2 shift, dx in place" : " shift, dx in place");
        c->shares[8] = 1 + 2;
    }
}

static void add_shape(case_list *list, ls__operand x, int64_t channels, int64_t rows)
{
    for (int activation = 0; activation <= LS__ACTIVATION_RELU6; activation++)
        for (int adds = 0; adds < 2; adds++) {
            if (!is_combined(rows, channels) && adds != (activation == LS__ACTIVATION_RELU))
                continue;
            add_variants(list, x, channels, rows, (ls__activation)activation, adds);
            add_products(list, x, channels, rows, (ls__activation)activation, adds);
        }
    add_shares(list, x, channels, rows);
}

void add_norm_cases(case_list *list)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const int64_t n = shapes[i].n, h = shapes[i].h, w = shapes[i].w, c = shapes[i].c;
        if (h == 0)
            add_shape(list, dense(LS_F32, LS_SHAPE(n, c)), c, n);
        else
            add_shape(list, activation(n, h, w, c), c, n * h * w);
    }
}
