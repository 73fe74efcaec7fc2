/* Convolution, forward and both backward ops. */
#include "op_case.h"

/* A float32 sum of K products in any order is off by about sqrt(K) rounding errors of 6e-8: 3e-6
 * for the largest sums here. */
static const double DIRECT_TOLERANCE = 5e-6;

/* A Winograd kernel's is up to ten times that of a direct one: its transforms subtract. */
static const double WINOGRAD_TOLERANCE = 5e-5;

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
    /* What Winograd takes: images that are no whole number of tiles, each padding, one tile row,
       a half panel. */
    { 3, 9, 10, 8, 16, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1, false, 0, 0 },
    { 2, 7, 4, 16, 24, { 3, 3 }, { 1, 1 }, { 0, 2 }, { 1, 1 }, 1, true, 0, 0 },
    { 5, 4, 4, 24, 40, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1, false, 0, 0 },
    { 1, 3, 3, 8, 8, { 3, 3 }, { 1, 1 }, { 0, 0 }, { 1, 1 }, 1, false, 0, 0 },
    { 29, 5, 6, 16, 8, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1, false, 0, 0 },
    { 2, 6, 9, 13, 37, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1, true, 0, 0 },
    { 2, 9, 5, 70, 11, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1, false, 0, 0 },
    { 2, 6, 5, 259, 277, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1, false, 0, 0 },
    { 2, 8, 8, 16, 32, { 1, 1 }, { 2, 2 }, { 0, 0 }, { 1, 1 }, 1, false, 8, 8 },
    /* kernels larger than the image */
    { 1, 1, 1, 8, 16, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1, true, 0, 0 },
    { 3, 2, 2, 24, 16, { 5, 5 }, { 1, 1 }, { 2, 2 }, { 1, 1 }, 1, false, 8, 8 },
    /* first layers */
    { 2, 37, 35, 3, 64, { 7, 7 }, { 2, 2 }, { 3, 3 }, { 1, 1 }, 1, true, 0, 0 },
    { 2, 37, 35, 3, 64, { 7, 7 }, { 2, 2 }, { 3, 3 }, { 1, 1 }, 1, true, 0, 8 },
    { 5, 20, 17, 1, 24, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1, false, 0, 8 },
    { 2, 37, 35, 3, 64, { 7, 7 }, { 2, 2 }, { 3, 3 }, { 1, 1 }, 1, true, 0, 16 },
    /* few channels: LeNet's, images of several pieces, windows that leave a rest out */
    { 7, 28, 28, 1, 6, { 5, 5 }, { 1, 1 }, { 2, 2 }, { 1, 1 }, 1, true, 0, 0 },
    { 7, 14, 14, 6, 16, { 5, 5 }, { 1, 1 }, { 0, 0 }, { 1, 1 }, 1, true, 0, 0 },
    { 2, 9, 13, 1, 8, { 2, 3 }, { 2, 1 }, { 1, 1 }, { 1, 1 }, 1, true, 0, 0 },
    { 3, 8, 11, 1, 3, { 7, 7 }, { 1, 1 }, { 3, 3 }, { 1, 1 }, 1, false, 0, 0 },
    { 3, 6, 13, 1, 2, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1, true, 0, 0 },
    { 3, 3, 3, 1, 1, { 3, 3 }, { 1, 1 }, { 0, 0 }, { 1, 1 }, 1, true, 0, 0 },
    { 2, 130, 60, 3, 20, { 3, 4 }, { 2, 3 }, { 1, 2 }, { 1, 1 }, 1, true, 0, 0 },
    { 2, 11, 13, 7, 33, { 2, 5 }, { 3, 4 }, { 0, 0 }, { 1, 1 }, 1, false, 0, 0 },
    { 3, 2, 3, 4, 5, { 3, 3 }, { 2, 1 }, { 2, 4 }, { 1, 1 }, 1, true, 0, 0 },
    /* one side's channels are one block */
    { 3, 7, 6, 8, 24, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1, true, 8, 8 },
    { 3, 7, 6, 24, 8, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1, true, 8, 8 },
    /* odd kernels, strides, dilation */
    { 2, 15, 13, 64, 40, { 1, 1 }, { 2, 2 }, { 0, 0 }, { 1, 1 }, 1, false, 0, 0 },
    { 2, 15, 13, 64, 40, { 1, 1 }, { 2, 2 }, { 0, 0 }, { 1, 1 }, 1, true, 8, 8 },
    { 2, 9, 11, 16, 24, { 1, 7 }, { 1, 1 }, { 0, 3 }, { 1, 1 }, 1, true, 8, 8 },
    { 2, 11, 9, 24, 16, { 7, 1 }, { 1, 2 }, { 3, 0 }, { 1, 1 }, 1, true, 0, 0 },
    { 2, 14, 12, 16, 24, { 3, 3 }, { 1, 1 }, { 2, 3 }, { 2, 3 }, 1, true, 8, 8 },
    { 1, 14, 12, 20, 12, { 3, 2 }, { 2, 3 }, { 4, 1 }, { 3, 2 }, 1, true, 0, 0 },
    /* groups and depthwise */
    { 2, 8, 9, 32, 64, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, 4, true, 0, 0 },
    { 2, 8, 9, 32, 64, { 3, 3 }, { 2, 2 }, { 1, 1 }, { 1, 1 }, 4, true, 8, 8 },
    { 2, 6, 7, 9, 15, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, 3, true, 0, 0 },
    { 5, 9, 9, 32, 32, { 3, 3 }, { 2, 2 }, { 1, 1 }, { 1, 1 }, 32, true, 0, 0 },
    { 5, 9, 9, 32, 32, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, 32, false, 8, 8 },
    /* several sub-batches, of two sizes; partial sums of weights */
    { 5, 20, 20, 64, 64, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1, true, 0, 0 },
    { 5, 20, 20, 64, 64, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1, true, 8, 8 },
    { 13, 24, 24, 32, 48, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1, true, 8, 8 },
    /* slices of channels */
    { 3, 3, 3, 512, 512, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1, true, 0, 0 },
    { 3, 3, 3, 512, 512, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1, true, 8, 8 },
    { 2, 3, 2, 1536, 512, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 }, 1, true, 8, 8 },
    /* many channels over few tiles, with narrower last blocks */
    { 2, 6, 5, 264, 280, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1, false, 0, 0 },
    /* products over pixels: rows that are copied and rows that are not, several chains, strides
       with and without rests, phases that no tap reaches, panels and slabs that are not whole,
       partial sums */
    { 2, 9, 11, 64, 80, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 }, 1, false, 0, 0 },
    { 3, 7, 7, 272, 300, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 }, 1, true, 0, 0 },
    { 2, 5, 3, 1100, 40, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 }, 1, false, 0, 0 },
    { 3, 11, 14, 32, 48, { 3, 3 }, { 2, 2 }, { 1, 1 }, { 1, 1 }, 1, false, 0, 0 },
    { 2, 10, 9, 72, 270, { 3, 3 }, { 2, 3 }, { 0, 2 }, { 1, 1 }, 1, false, 0, 0 },
    { 2, 13, 12, 11, 19, { 2, 3 }, { 3, 4 }, { 1, 0 }, { 1, 1 }, 1, true, 0, 0 },
    { 2, 12, 12, 24, 32, { 3, 3 }, { 2, 2 }, { 2, 2 }, { 2, 2 }, 1, false, 0, 0 },
    { 4, 24, 24, 16, 24, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 }, 1, false, 0, 0 },
    { 1, 1, 2, 16, 16, { 3, 3 }, { 3, 3 }, { 1, 1 }, { 1, 1 }, 1, false, 0, 0 },
    { 2, 1, 1, 16, 16, { 1, 1 }, { 2, 2 }, { 1, 1 }, { 1, 1 }, 1, false, 0, 0 },
    /* what AVX-512's kernels want; 34 images make two sub-batches for Winograd */
    { 34, 10, 7, 32, 48, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1, true, 16, 16 },
    { 9, 8, 8, 32, 32, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1, false, 16, 16 },
    { 5, 12, 12, 64, 64, { 3, 3 }, { 2, 2 }, { 1, 1 }, { 1, 1 }, 1, false, 16, 16 },
};

/* The reference's gradients are checked on the first cases, which are small. */
enum { N_GRADIENT_CASES = 8 };

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
    c->tolerance = convolutions[i].in_block > 1 && convolutions[i].kernel[0] == 3 &&
                           convolutions[i].stride[0] == 1
                       ? WINOGRAD_TOLERANCE
                       : DIRECT_TOLERANCE;
    if (kind == LS__OP_CONV2D && i < N_GRADIENT_CASES) {
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
