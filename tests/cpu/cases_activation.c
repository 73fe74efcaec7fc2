/* ReLU, addition, multiplication, dropout: one rounding per element, in the same order everywhere:
 * exact. The reference computes sigmoids in f64. */
#include "op_case.h"

/* Sigmoid is within 3 ulp; its gradient has three roundings. */
static const double SIGMOID_TOLERANCE = 4 * 0x1p-24;

static void add_sigmoid(case_list *list, ls__operand x)
{
    for (int in_place = 0; in_place < 2; in_place++) {
        const char *text = in_place ? "in place" : "";
        op_case *c = add_case(list, LS__OP_SIGMOID, 2, (ls__operand[]){ x, x }, "%s", text);
        c->tolerance = SIGMOID_TOLERANCE;
        c->shares[1] = in_place;
        if (ls_shape_count(&x.shape) < 300 && !in_place) {
            c->gradient_step = 1e-2;
            c->gradient_tolerance = 1e-3; /* a sixth of the third derivative times step^2 */
        }
        c = add_case(list, LS__OP_SIGMOID_BACKWARD, 3, (ls__operand[]){ x, x, x }, "%s", text);
        c->tolerance = SIGMOID_TOLERANCE;
        c->shares[2] = in_place ? 2 : 0; /* dy */
    }
}

static void add_shape(case_list *list, ls__operand x)
{
    const ls__operand pair[] = { x, x }, triple[] = { x, x, x };
    const bool small = ls_shape_count(&x.shape) < 300;
    for (int in_place = 0; in_place < 2; in_place++) {
        const char *text = in_place ? "in place" : "";
        op_case *c = add_case(list, LS__OP_RELU, 2, pair, "%s", text);
        c->shares[1] = in_place;
        if (small && !in_place) {
            c->gradient_step = 1e-4; /* values this near to 0 are rare, and seeds are fixed */
            c->gradient_tolerance = 1e-2;
        }
        c = add_case(list, LS__OP_DROPOUT, 2, pair, "%s", text);
        c->op.u.dropout.probability = 0.3f;
        c->op.u.dropout.layer = 5;
        c->shares[1] = in_place;
        if (small && !in_place) {
            c->gradient_step = 1;
            c->gradient_tolerance = 1e-5;
        }
        c = add_case(list, LS__OP_DROPOUT_BACKWARD, 2, pair, "%s", text);
        c->op.u.dropout.probability = 0.3f;
        c->op.u.dropout.layer = 5;
        c->shares[1] = in_place;
    }
    add_case(list, LS__OP_RELU_BACKWARD, 3, triple, "%s", "");
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
    add_sigmoid(list, x);
}

void add_activation_cases(case_list *list)
{
    add_shape(list, activation(2, 3, 5, 7, 0));
    add_shape(list, activation(2, 3, 5, 6, 1));
    add_shape(list, activation(2, 3, 5, 6, 2));
    add_shape(list, activation(1, 5, 3, 32, 8));
    add_shape(list, activation(3, 5, 3, 32, 16));
    add_shape(list, activation(1, 5, 3, 20, 0));
    add_shape(list, activation(4, 32, 32, 64, 16));
    add_shape(list, activation(4, 32, 32, 64, 0));
    add_shape(list, dense(LS_F32, LS_SHAPE(13, 11)));
    add_shape(list, dense(LS_F32, LS_SHAPE(1)));
    add_shape(list, dense(LS_F32, LS_SHAPE(7, 3, 2, 2, 5)));
    add_shape(list, dense(LS_F32, LS_SHAPE(300000)));
}
