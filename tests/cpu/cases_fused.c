/* The optional ops: convolutions with parts of the batch norms around them, and what is left of the
 * norms. But for NORM_APPLY and NORM_BACKWARD_APPLY they have reference kernels alone on the CPU:
 * other backends' are compared with these. */
#include "op_case.h"

/* The tolerances are those of convolutions alone and of norms alone. */
static const double CONV_TOLERANCE = 5e-6, NORM_TOLERANCE = 1e-6;

/* clang-format off */
static const struct {
    struct {
        int64_t n, h, w, c;
    } x;
    int64_t out, kernel, stride, padding, groups;
} convolutions[] = {
    { .x = { 2, 5, 6, 3 }, .out = 4, .kernel = 3, .stride = 1, .padding = 1, .groups = 1 },
    { .x = { 3, 1, 1, 5 }, .out = 7, .kernel = 1, .stride = 1, .padding = 0, .groups = 1 },
    { .x = { 2, 7, 8, 4 }, .out = 6, .kernel = 3, .stride = 2, .padding = 1, .groups = 2 },
    { .x = { 1, 6, 5, 8 }, .out = 16, .kernel = 1, .stride = 2, .padding = 0, .groups = 1 },
    { .x = { 2, 6, 6, 16 }, .out = 8, .kernel = 3, .stride = 1, .padding = 1, .groups = 1 },
    { .x = { 2, 9, 8, 8 }, .out = 24, .kernel = 3, .stride = 1, .padding = 1, .groups = 1 },
};
/* clang-format on */

static void add_conv(case_list *list, size_t i, ls__op_kind kind, const ls__operand *operands,
                     int n)
{
    op_case *c = add_case(list, kind, n, operands, "kernel %d stride %d groups %d",
                          (int)convolutions[i].kernel, (int)convolutions[i].stride,
                          (int)convolutions[i].groups);
    for (int d = 0; d < 2; d++) {
        c->op.u.conv.kernel[d] = convolutions[i].kernel;
        c->op.u.conv.stride[d] = convolutions[i].stride;
        c->op.u.conv.padding[d] = convolutions[i].padding;
        c->op.u.conv.dilation[d] = 1;
    }
    c->op.u.conv.groups = convolutions[i].groups;
    c->tolerance = CONV_TOLERANCE;
}

static int64_t output_size(size_t i, int64_t size)
{
    return (size + 2 * convolutions[i].padding - convolutions[i].kernel) / convolutions[i].stride +
           1;
}

static void add_convolutions(case_list *list, size_t i)
{
    const int64_t n = convolutions[i].x.n, h = convolutions[i].x.h, w = convolutions[i].x.w;
    const int64_t in = convolutions[i].x.c, out = convolutions[i].out;
    const int64_t kernel = convolutions[i].kernel;
    const ls__operand x = activation(n, h, w, in),
                      y = activation(n, output_size(i, h), output_size(i, w), out),
                      weights =
                          dense(LS_F32, LS_SHAPE(out, kernel, kernel, in / convolutions[i].groups)),
                      of_x = dense(LS_F32, LS_SHAPE(in)), of_y = dense(LS_F32, LS_SHAPE(out));
    add_conv(list, i, LS__OP_CONV2D_STATISTICS, (ls__operand[]){ x, weights, y, of_y, of_y }, 5);
    add_conv(list, i, LS__OP_NORM_CONV2D_STATISTICS,
             (ls__operand[]){ x, of_x, of_x, weights, y, of_y, of_y }, 7);
    add_conv(list, i, LS__OP_NORM_CONV2D_BACKWARD_WEIGHTS,
             (ls__operand[]){ x, of_x, of_x, y, weights }, 5);
    add_conv(
        list, i, LS__OP_NORM_CONV2D_BACKWARD_DATA,
        (ls__operand[]){ y, weights, x, of_x, of_x, of_x, of_x, x, of_x, of_x, of_x, of_x, of_x },
        13);
}

static const struct {
    int64_t n, h, w, c;
} activations[] = {
    { 4, 3, 3, 5 }, { 3, 5, 7, 16 }, { 2, 5, 3, 48 }, { 1, 33, 31, 40 }, { 1, 1, 1, 8 },
};

static op_case *add_norm(case_list *list, ls__op_kind kind, int n, const ls__operand *operands,
                         const char *text)
{
    op_case *c = add_case(list, kind, n, operands, "%s", text);
    c->op.u.norm.epsilon = 1e-5f;
    c->op.u.norm.momentum = 0.1f;
    c->tolerance = NORM_TOLERANCE;
    return c;
}

static void add_norms(case_list *list, size_t i)
{
    const int64_t n = activations[i].n, h = activations[i].h, w = activations[i].w;
    const ls__operand x = activation(n, h, w, activations[i].c),
                      v = dense(LS_F32, LS_SHAPE(activations[i].c));
    const ls__operand finalize[] = { v, v, v, v, v, v, v, v, v, v },
                      apply[] = { x, v, v, v, v, x, x }, backward[] = { x, x, v, v, v, x };
    add_norm(list, LS__OP_NORM_FINALIZE, 10, finalize, "")->op.u.norm.count = 17 + (int64_t)i;
    for (int with = 0; with < 6; with++) {
        ls__operand operands[7];
        for (int j = 0; j < 7; j++) operands[j] = j == 5 && with < 3 ? absent() : apply[j];
        add_norm(list, LS__OP_NORM_APPLY, 7, operands, with < 3 ? "" : "add")
            ->op.u.norm.activation = (ls__activation)(with % 3);
    }
    add_norm(list, LS__OP_NORM_BACKWARD_APPLY, 6, backward, "");
    add_norm(list, LS__OP_NORM_BACKWARD_APPLY, 6, backward, "in place")->shares[5] = 1 + 0;
}

void add_fused_cases(case_list *list)
{
    for (size_t i = 0; i < sizeof convolutions / sizeof convolutions[0]; i++)
        add_convolutions(list, i);
    for (size_t i = 0; i < sizeof activations / sizeof activations[0]; i++) add_norms(list, i);
}
