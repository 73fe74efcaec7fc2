/* Activation functions, addition, multiplication, dropout. Additions and the like round once per
 * element, in the same order everywhere: exact. The reference computes the smooth functions in f64.
 */
#include "op_case.h"

/* How far results are off, relative to the largest. Those that only select, multiply or take a root
 * once are exact. Sigmoid and tanh are within 3 ulp; their gradients have three roundings. In
 * silu's and gelu's gradients terms cancel. gelu is within 1e-6 of itself in the lower tail, where
 * a case of one element lies. */
static const struct {
    ls__op_kind forward, backward;
    double tolerance, backward_tolerance;
    bool bends;
} functions[] = {
    { LS__OP_RELU, LS__OP_RELU_BACKWARD, 0, 0, true },
    { LS__OP_RELU6, LS__OP_RELU6_BACKWARD, 0, 0, true },
    { LS__OP_LEAKY_RELU, LS__OP_LEAKY_RELU_BACKWARD, 0, 0, true },
    { LS__OP_ABS, LS__OP_ABS_BACKWARD, 0, 0, true },
    { LS__OP_HARD_SIGMOID, LS__OP_HARD_SIGMOID_BACKWARD, 4 * 0x1p-24, 0, true },
    { LS__OP_HARD_SWISH, LS__OP_HARD_SWISH_BACKWARD, 4 * 0x1p-24, 4 * 0x1p-24, true },
    { LS__OP_EXP, LS__OP_EXP_BACKWARD, 4 * 0x1p-24, 0 },
    { LS__OP_LOG, LS__OP_LOG_BACKWARD, 4 * 0x1p-24, 0 },
    { LS__OP_SQRT, LS__OP_SQRT_BACKWARD, 0, 2 * 0x1p-24 },
    { LS__OP_SIGMOID, LS__OP_SIGMOID_BACKWARD, 4 * 0x1p-24, 4 * 0x1p-24 },
    { LS__OP_TANH, LS__OP_TANH_BACKWARD, 4 * 0x1p-24, 4 * 0x1p-24 },
    { LS__OP_SILU, LS__OP_SILU_BACKWARD, 4 * 0x1p-24, 16 * 0x1p-24 },
    { LS__OP_GELU, LS__OP_GELU_BACKWARD, 16 * 0x1p-24, 16 * 0x1p-24 },
};

static void add_function(case_list *list, int f, ls__operand x)
{
    const bool bends = functions[f].bends;
    for (int in_place = 0; in_place < 2; in_place++) {
        const char *text = in_place ? "in place" : "";
        op_case *c = add_case(list, functions[f].forward, 2, (ls__operand[]){ x, x }, "%s", text);
        c->tolerance = functions[f].tolerance;
        c->shares[1] = in_place;
        if (c->op.kind == LS__OP_LEAKY_RELU) c->op.u.leaky_relu.slope = 0.2f;
        const int64_t count = ls_shape_element_count(&x.shape);
        if (count > 1 && count < 300 && !in_place) {
            /* Values this near to a bend are rare, and seeds are fixed. The others are off by a
             * sixth of the third derivative times step^2. */
            c->gradient_step = bends ? 1e-4 : 1e-2;
            c->gradient_tolerance = bends ? 1e-2 : 1e-3;
        }
        c = add_case(list, functions[f].backward, 3, (ls__operand[]){ x, x, x }, "%s", text);
        c->tolerance = functions[f].backward_tolerance;
        if (c->op.kind == LS__OP_LEAKY_RELU_BACKWARD) c->op.u.leaky_relu.slope = 0.2f;
        c->shares[2] = in_place ? 2 : 0; /* dy */
    }
}

static void add_shape(case_list *list, ls__operand x)
{
    const ls__operand pair[] = { x, x }, triple[] = { x, x, x };
    const bool small = ls_shape_element_count(&x.shape) < 300;
    for (int in_place = 0; in_place < 2; in_place++) {
        const char *text = in_place ? "in place" : "";
        op_case *c = add_case(list, LS__OP_DROPOUT, 2, pair, "%s", text);
        c->op.u.dropout.probability = 0.3f;
        c->op.u.dropout.layer = 5;
        c->step.first_sample = in_place ? 3 : 0; /* inside of a draw, for most shapes */
        c->shares[1] = in_place;
        if (small && !in_place) {
            c->gradient_step = 1;
            c->gradient_tolerance = 1e-5;
        }
        c = add_case(list, LS__OP_DROPOUT_BACKWARD, 2, pair, "%s", text);
        c->op.u.dropout.probability = 0.3f;
        c->op.u.dropout.layer = 5;
        c->step.first_sample = in_place ? 4 : 0;
        c->shares[1] = in_place;
    }
    for (int unit = LS__DROPOUT_IMAGE; unit <= LS__DROPOUT_BATCH; unit++)
        for (uint32_t layer = 3; layer < 5; layer++) { /* two draws */
            const char *text = unit == LS__DROPOUT_IMAGE ? "images" : "batch";
            op_case *c = add_case(list, LS__OP_DROPOUT, 2, pair, "%s %d", text, (int)layer);
            c->op.u.dropout.probability = 0.4f;
            c->op.u.dropout.layer = layer;
            c->op.u.dropout.unit = (ls__dropout_unit)unit;
            c->step.first_sample = layer == 3 ? 0 : 3;
            op_case *backward =
                add_case(list, LS__OP_DROPOUT_BACKWARD, 2, pair, "%s %d", text, (int)layer);
            backward->op.u.dropout = list->cases[list->n - 2].op.u.dropout;
            backward->step = list->cases[list->n - 2].step;
        }
    for (int shared = 0; shared < 3; shared++)
        for (int relu = 0; relu < 2; relu++) {
            static const char *const texts[] = { "", "in a", "in b" };
            op_case *c =
                add_case(list, LS__OP_ADD, 3, triple, "%s %s", relu ? "relu" : "", texts[shared]);
            c->op.u.add.relu = relu;
            c->shares[2] = shared;
            if (relu) continue;
            c = add_case(list, LS__OP_MUL, 3, triple, "%s", texts[shared]);
            c->shares[2] = shared;
        }
    for (size_t f = 0; f < sizeof functions / sizeof functions[0]; f++)
        add_function(list, (int)f, x);
}

void add_activation_cases(case_list *list)
{
    add_shape(list, activation(2, 3, 5, 7));
    add_shape(list, activation(2, 3, 5, 6));
    add_shape(list, activation(3, 5, 3, 32));
    add_shape(list, activation(1, 5, 3, 20));
    add_shape(list, activation(4, 32, 32, 64));
    add_shape(list, dense(LS_F32, LS_SHAPE(13, 11)));
    add_shape(list, dense(LS_F32, LS_SHAPE(1)));
    add_shape(list, dense(LS_F32, LS_SHAPE(7, 3, 2, 2, 5)));
    add_shape(list, dense(LS_F32, LS_SHAPE(300000)));
}
