/* The linear layer, forward and both backward ops. */
#include "op_case.h"

/* The tolerance is that of convolution: sqrt(K) rounding errors of 6e-8 for sums of K products. */
static const double TOLERANCE = 5e-6;

static const struct {
    int64_t n, in, out;
    bool bias;
} linears[] = {
    { .n = 1, .in = 1, .out = 1, .bias = true },
    { .n = 3, .in = 5, .out = 2, .bias = true },
    { .n = 7, .in = 16, .out = 10 },
    { .n = 64, .in = 100, .out = 33, .bias = true },
    { .n = 128, .in = 512, .out = 10, .bias = true },
    { .n = 32, .in = 784, .out = 128 },
    { .n = 1, .in = 300, .out = 200, .bias = true },
    { .n = 131, .in = 257, .out = 515, .bias = true },
    { .n = 2, .in = 3, .out = 1, .bias = true },
    { .n = 17, .in = 17, .out = 2 },
    { .n = 12, .in = 10, .out = 257, .bias = true },
    { .n = 256, .in = 784, .out = 10, .bias = true },
    { .n = 16, .in = 2048, .out = 100, .bias = true },
    { .n = 5, .in = 784, .out = 1000 },
    /* few rows: panels and chains that are not whole, several tasks */
    { .n = 1, .in = 512, .out = 1000 },
    { .n = 2, .in = 141, .out = 90, .bias = true },
    { .n = 6, .in = 320, .out = 77, .bias = true },
    { .n = 8, .in = 133, .out = 150 },
    { .n = 9, .in = 133, .out = 150, .bias = true },
    { .n = 1100, .in = 10, .out = 17, .bias = true }, /* more than one partial sum of weights */
};

void add_linear_cases(case_list *list)
{
    for (size_t i = 0; i < sizeof linears / sizeof linears[0]; i++) {
        const int64_t n = linears[i].n, in = linears[i].in, out = linears[i].out;
        const ls__operand x = dense(LS_F32, LS_SHAPE(n, in)), y = dense(LS_F32, LS_SHAPE(n, out));
        const ls__operand w = dense(LS_F32, LS_SHAPE(out, in));
        const ls__operand b = linears[i].bias ? dense(LS_F32, LS_SHAPE(out)) : absent();
        const struct {
            ls__op_kind kind;
            int n;
            ls__operand operands[4];
        } ops[] = { { LS__OP_LINEAR, 4, { x, w, b, y } },
                    { LS__OP_LINEAR_BACKWARD_DATA, 3, { y, w, x } },
                    { LS__OP_LINEAR_BACKWARD_WEIGHTS, 4, { x, y, w, b } } };
        for (int k = 0; k < 3; k++) {
            op_case *c = add_case(list, ops[k].kind, ops[k].n, ops[k].operands, "%d to %d%s",
                                  (int)in, (int)out, linears[i].bias ? " bias" : "");
            c->tolerance = TOLERANCE;
            if (k == 0 && in * out < 1000) {
                c->gradient_step = 1;
                c->gradient_tolerance = 1e-5;
            }
        }
        op_case *with_relu = add_case(list, LS__OP_LINEAR, 4, ops[0].operands, "%d to %d%s relu",
                                      (int)in, (int)out, linears[i].bias ? " bias" : "");
        with_relu->op.u.linear.relu = true;
        with_relu->tolerance = TOLERANCE;
    }
}
