/* Convolution, forward and both backward ops. */
#include "op_case.h"

/* A float32 sum of K products in any order is off by about sqrt(K) rounding errors of 6e-8: 3e-6
 * for the largest sums here. */
static const double DIRECT_TOLERANCE = 5e-6;

static const struct {
    int64_t n, h, w, in, out, kernel[2], stride[2], padding[2], dilation[2], groups;
    bool bias;
    int64_t in_block, out_block; /* 0 = dense */
} convolutions[] = {
    { 2, 5, 6, 3, 4, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1, true, 0, 0 },
    { 1, 7, 5, 2, 3, { 3, 1 }, { 2, 1 }, { 0, 1 }, { 1, 1 }, 1, false, 0, 0 },
    { 2, 9, 8, 4, 6, { 3, 2 }, { 2, 3 }, { 2, 1 }, { 2, 1 }, 2, true, 0, 0 },
    { 1, 4, 4, 6, 6, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, 6, false, 0, 0 },
    { 3, 1, 1, 5, 7, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 }, 1, true, 0, 0 },
    { 2, 6, 6, 16, 8, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1, true, 8, 8 },
    { 2, 6, 6, 3, 16, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1, false, 0, 8 },
    /* What Winograd takes: pictures that are no whole number of tiles, each padding, one tile row,
       a half panel. */
    { 3, 9, 10, 8, 16, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1, false, 0, 0 },
    { 2, 7, 4, 16, 24, { 3, 3 }, { 1, 1 }, { 0, 2 }, { 1, 1 }, 1, true, 0, 0 },
    { 5, 4, 4, 24, 40, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1, false, 0, 0 },
    { 1, 3, 3, 8, 8, { 3, 3 }, { 1, 1 }, { 0, 0 }, { 1, 1 }, 1, false, 0, 0 },
    { 29, 5, 6, 16, 8, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1, false, 0, 0 },
    { 2, 8, 8, 16, 32, { 1, 1 }, { 2, 2 }, { 0, 0 }, { 1, 1 }, 1, false, 8, 8 },
};

static void add(case_list *list, size_t i, ls__op_kind kind, const ls__operand *operands, int n)
{
    op_case *c = add_case(list, kind, n, operands, "kernel %dx%d stride %d,%d groups %d%s",
                          (int)convolutions[i].kernel[0], (int)convolutions[i].kernel[1],
                          (int)convolutions[i].stride[0], (int)convolutions[i].stride[1],
                          (int)convolutions[i].groups, convolutions[i].bias ? " bias" : "");
    for (int d = 0; d < 2; d++) {
        c->op.u.conv.kernel[d] = convolutions[i].kernel[d];
        c->op.u.conv.stride[d] = convolutions[i].stride[d];
        c->op.u.conv.padding[d] = convolutions[i].padding[d];
        c->op.u.conv.dilation[d] = convolutions[i].dilation[d];
    }
    c->op.u.conv.groups = convolutions[i].groups;
    c->tolerance = DIRECT_TOLERANCE;
    if (kind == LS__OP_CONV2D) {
        c->gradient_step = 1;
        c->gradient_tolerance = 1e-5;
    }
}

static int64_t output_size(size_t i, int dim, int64_t size)
{
    const int64_t reach = convolutions[i].dilation[dim] * (convolutions[i].kernel[dim] - 1) + 1;
    return (size + 2 * convolutions[i].padding[dim] - reach) / convolutions[i].stride[dim] + 1;
}

void add_conv_cases(case_list *list)
{
    for (size_t i = 0; i < sizeof convolutions / sizeof convolutions[0]; i++) {
        const int64_t n = convolutions[i].n, h = convolutions[i].h, w = convolutions[i].w;
        const int64_t in = convolutions[i].in, out = convolutions[i].out;
        const ls__operand x = activation(n, h, w, in, convolutions[i].in_block);
        const ls__operand y = activation(n, output_size(i, 0, h), output_size(i, 1, w), out,
                                         convolutions[i].out_block);
        const ls__operand weights =
            dense(LS_F32, LS_SHAPE(out, convolutions[i].kernel[0], convolutions[i].kernel[1],
                                   in / convolutions[i].groups));
        const ls__operand bias = convolutions[i].bias ? dense(LS_F32, LS_SHAPE(out)) : absent();
        add(list, i, LS__OP_CONV2D, (ls__operand[]){ x, weights, bias, y }, 4);
        add(list, i, LS__OP_CONV2D_BACKWARD_DATA, (ls__operand[]){ y, weights, x }, 3);
        add(list, i, LS__OP_CONV2D_BACKWARD_WEIGHTS, (ls__operand[]){ x, y, weights, bias }, 4);
    }
}
