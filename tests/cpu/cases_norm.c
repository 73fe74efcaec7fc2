/* Batch normalisation: all layouts, with and without ReLU, addition, second gradient, in place. */
#include "op_case.h"

/* Statistics are as good as the reference's; what is left is the rounding of (x - mean) * a + shift
 * in float, a few times 6e-8 of the largest value. */
static const double TOLERANCE = 1e-6;

static const struct {
    struct {
        int64_t n, h, w, c; /* h 0 = [n,c] */
    } x;
    int64_t block;
} shapes[] = {
    { .x = { 4, 3, 3, 5 } },
    { .x = { 4, 3, 3, 5 }, .block = 1 },
    { .x = { 2, 1, 1, 3 } },
    { .x = { 16, 0, 0, 10 } },
    { .x = { 3, 5, 7, 16 } },
    { .x = { 3, 5, 7, 16 }, .block = 8 },
    { .x = { 3, 5, 7, 16 }, .block = 1 },
    { .x = { 2, 5, 3, 48 }, .block = 16 },
    { .x = { 2, 5, 3, 48 } },
    { .x = { 1, 1, 1, 8 } },
    { .x = { 2, 4, 4, 24 }, .block = 4 },
    { .x = { 1, 33, 31, 40 } },
    { .x = { 1, 33, 31, 40 }, .block = 8 },
    { .x = { 8, 32, 32, 64 } },
    { .x = { 8, 32, 32, 64 }, .block = 8 },
    { .x = { 8, 32, 32, 64 }, .block = 16 },
    { .x = { 4, 32, 32, 16 }, .block = 1 },
    { .x = { 64, 4, 4, 512 } },
    { .x = { 64, 4, 4, 512 }, .block = 16 },
    { .x = { 512, 0, 0, 100 } },
    { .x = { 1, 200, 200, 16 }, .block = 16 },
    { .x = { 2, 7, 7, 2048 } },
};

static op_case *add(case_list *list, ls__op_kind kind, int n, const ls__operand *operands,
                    bool relu, const char *text)
{
    op_case *c = add_case(list, kind, n, operands, "%s%s", relu ? "relu" : "", text);
    c->op.u.norm.relu = relu;
    c->op.u.norm.epsilon = 1e-5f;
    c->op.u.norm.momentum = 0.1f;
    c->tolerance = TOLERANCE;
    return c;
}

static void add_shape(case_list *list, ls__operand x, int64_t channels, int64_t rows)
{
    const ls__operand per_channel = dense(LS_F32, LS_SHAPE(channels));
    for (int with = 0; with < 4; with++) {
        const bool relu = with & 1;
        const ls__operand sum = with & 2 ? x : absent();
        const ls__operand forward[] = { x,   per_channel, per_channel, per_channel, per_channel,
                                        sum, x,           per_channel, per_channel };
        op_case *c = add(list, LS__OP_BATCH_NORM, 9, forward, relu, with & 2 ? " add" : "");
        if (rows * channels < 2000 && rows > 2) {
            /* The step balances truncation against the rounding of float outputs; where ReLU
             * bends inside the step, single elements are off. */
            c->gradient_step = relu ? 5e-5 : 1e-2;
            c->gradient_tolerance = relu ? 2e-2 : 2e-3;
        }
        add(list, LS__OP_BATCH_NORM_EVAL, 7, forward, relu, with & 2 ? " add" : "");

        const ls__operand backward[] = {
            x,           relu ? x : absent(), x,           with & 2 ? x : absent(),
            per_channel, per_channel,         per_channel, absent(),
            x,           per_channel,         per_channel, sum
        };
        add(list, LS__OP_BATCH_NORM_BACKWARD, 12, backward, relu, with & 2 ? " dy2 dadd" : "");
        c = add(list, LS__OP_BATCH_NORM_BACKWARD, 12, backward, relu,
                with & 2 ? " dy2 dadd, dx in place" : ", dx in place");
        c->shares[8] = 1 + 2;
        if (with & 2) {
            c = add(list, LS__OP_BATCH_NORM_BACKWARD, 12, backward, relu, " dy2, dadd in place");
            c->shares[11] = 1 + 2;
            for (int dx = 2; dx < 4; dx++) {
                c = add(list, LS__OP_BATCH_NORM_BACKWARD, 12, backward, relu,
                        " dy2, both in place");
                c->shares[8] = 1 + dx;
                c->shares[11] = 1 + 5 - dx;
            }
        }
    }
    /* the optional operands apart */
    const ls__operand second[] = { x,           x,        x, x,           per_channel, per_channel,
                                   per_channel, absent(), x, per_channel, per_channel, absent() };
    add(list, LS__OP_BATCH_NORM_BACKWARD, 12, second, true, " dy2");
    for (int dy2 = 0; dy2 < 2; dy2++) {
        const ls__operand masked[] = { x,           x,           x,           dy2 ? x : absent(),
                                       per_channel, per_channel, per_channel, per_channel,
                                       x,           per_channel, per_channel, absent() };
        add(list, LS__OP_BATCH_NORM_BACKWARD, 12, masked, true, dy2 ? " dy2 shift" : " shift");
        op_case *c = add(list, LS__OP_BATCH_NORM_BACKWARD, 12, masked, true,
                         dy2 ? " dy2 shift, dx in place" : " shift, dx in place");
        c->shares[8] = 1 + 2;
    }
    const ls__operand split[] = { x,           absent(), x, absent(),    per_channel, per_channel,
                                  per_channel, absent(), x, per_channel, per_channel, x };
    add(list, LS__OP_BATCH_NORM_BACKWARD, 12, split, false, " dadd");
}

void add_norm_cases(case_list *list)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const int64_t n = shapes[i].x.n, h = shapes[i].x.h, w = shapes[i].x.w, c = shapes[i].x.c;
        if (h == 0)
            add_shape(list, dense(LS_F32, LS_SHAPE(n, c)), c, n);
        else
            add_shape(list, activation(n, h, w, c, shapes[i].block), c, n * h * w);
    }
}
