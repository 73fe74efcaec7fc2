/* Convolution, forward and both backward ops. */
#include "op_case.h"

/* A float32 sum of K products in any order is off by about sqrt(K) rounding errors of 6e-8: 3e-6
 * for the largest sums here. */
static const double DIRECT_TOLERANCE = 5e-6;

/* clang-format off */
typedef struct convolution {
    struct {
        int64_t n, h, w, c;
    } x;
    int64_t out, kernel[2], stride[2], padding[2], dilation[2], groups; /* 0 = 1, but for padding */
    bool bias;
} convolution;

static const convolution convolutions[] = {
    { .x = { 2, 5, 6, 3 }, .out = 4, .kernel = { 3, 3 }, .padding = { 1, 1 }, .bias = true },
    { .x = { 1, 7, 5, 2 }, .out = 3, .kernel = { 3, 1 }, .stride = { 2, 1 }, .padding = { 0, 1 } },
    { .x = { 2, 9, 8, 4 }, .out = 6, .kernel = { 3, 2 }, .stride = { 2, 3 },
      .padding = { 2, 1 }, .dilation = { 2, 1 }, .groups = 2, .bias = true },
    { .x = { 1, 4, 4, 6 }, .out = 6, .kernel = { 3, 3 }, .padding = { 1, 1 }, .groups = 6 },
    { .x = { 3, 1, 1, 5 }, .out = 7, .kernel = { 1, 1 }, .bias = true },
    { .x = { 2, 6, 6, 16 }, .out = 8, .kernel = { 3, 3 }, .padding = { 1, 1 }, .bias = true },
    { .x = { 2, 6, 6, 3 }, .out = 16, .kernel = { 3, 3 }, .padding = { 1, 1 } },
    /* What Winograd takes: images that are no whole number of tiles, each padding, one tile row,
       a half panel. */
    { .x = { 3, 9, 10, 8 }, .out = 16, .kernel = { 3, 3 }, .padding = { 1, 1 } },
    { .x = { 2, 7, 4, 16 }, .out = 24, .kernel = { 3, 3 }, .padding = { 0, 2 }, .bias = true },
    { .x = { 5, 4, 4, 24 }, .out = 40, .kernel = { 3, 3 }, .padding = { 1, 1 } },
    { .x = { 1, 3, 3, 8 }, .out = 8, .kernel = { 3, 3 } },
    { .x = { 29, 5, 6, 16 }, .out = 8, .kernel = { 3, 3 }, .padding = { 1, 1 } },
    { .x = { 2, 6, 9, 13 }, .out = 37, .kernel = { 3, 3 }, .padding = { 1, 1 }, .bias = true },
    { .x = { 2, 9, 5, 70 }, .out = 11, .kernel = { 3, 3 }, .padding = { 1, 1 } },
    { .x = { 2, 6, 5, 259 }, .out = 277, .kernel = { 3, 3 }, .padding = { 1, 1 } },
    { .x = { 2, 8, 8, 16 }, .out = 32, .kernel = { 1, 1 }, .stride = { 2, 2 } },
    /* kernels larger than the image */
    { .x = { 1, 1, 1, 8 }, .out = 16, .kernel = { 3, 3 }, .padding = { 1, 1 }, .bias = true },
    { .x = { 3, 2, 2, 24 }, .out = 16, .kernel = { 5, 5 }, .padding = { 2, 2 } },
    /* first layers */
    { .x = { 5, 20, 17, 1 }, .out = 24, .kernel = { 3, 3 }, .padding = { 1, 1 } },
    { .x = { 2, 37, 35, 3 }, .out = 64, .kernel = { 7, 7 }, .stride = { 2, 2 },
      .padding = { 3, 3 }, .bias = true },
    /* few channels: LeNet's, images of several pieces, windows that leave a rest out */
    { .x = { 7, 28, 28, 1 }, .out = 6, .kernel = { 5, 5 }, .padding = { 2, 2 }, .bias = true },
    { .x = { 7, 14, 14, 6 }, .out = 16, .kernel = { 5, 5 }, .bias = true },
    { .x = { 2, 9, 13, 1 }, .out = 8, .kernel = { 2, 3 }, .stride = { 2, 1 },
      .padding = { 1, 1 }, .bias = true },
    { .x = { 3, 8, 11, 1 }, .out = 3, .kernel = { 7, 7 }, .padding = { 3, 3 } },
    { .x = { 3, 6, 13, 1 }, .out = 2, .kernel = { 3, 3 }, .padding = { 1, 1 }, .bias = true },
    { .x = { 3, 3, 3, 1 }, .out = 1, .kernel = { 3, 3 }, .bias = true },
    { .x = { 2, 130, 60, 3 }, .out = 20, .kernel = { 3, 4 }, .stride = { 2, 3 },
      .padding = { 1, 2 }, .bias = true },
    { .x = { 2, 11, 41, 7 }, .out = 33, .kernel = { 2, 5 }, .stride = { 3, 1 } },
    { .x = { 3, 2, 3, 4 }, .out = 5, .kernel = { 3, 3 }, .stride = { 2, 1 },
      .padding = { 2, 4 }, .bias = true },
    /* one side's channels are half a vector of AVX-512 */
    { .x = { 3, 7, 6, 8 }, .out = 24, .kernel = { 3, 3 }, .padding = { 1, 1 }, .bias = true },
    { .x = { 3, 7, 6, 24 }, .out = 8, .kernel = { 3, 3 }, .padding = { 1, 1 }, .bias = true },
    /* odd kernels, strides, dilation */
    { .x = { 2, 15, 13, 64 }, .out = 40, .kernel = { 1, 1 }, .stride = { 2, 2 }, .bias = true },
    { .x = { 2, 9, 11, 16 }, .out = 24, .kernel = { 1, 7 }, .padding = { 0, 3 }, .bias = true },
    { .x = { 2, 14, 12, 16 }, .out = 24, .kernel = { 3, 3 }, .padding = { 2, 3 },
      .dilation = { 2, 3 }, .bias = true },
    { .x = { 2, 15, 13, 64 }, .out = 40, .kernel = { 1, 1 }, .stride = { 2, 2 } },
    { .x = { 2, 11, 9, 24 }, .out = 16, .kernel = { 7, 1 }, .stride = { 1, 2 },
      .padding = { 3, 0 }, .bias = true },
    { .x = { 1, 14, 12, 20 }, .out = 12, .kernel = { 3, 2 }, .stride = { 2, 3 },
      .padding = { 4, 1 }, .dilation = { 3, 2 }, .bias = true },
    /* groups and depthwise */
    { .x = { 2, 8, 9, 32 }, .out = 64, .kernel = { 3, 3 }, .padding = { 1, 1 }, .groups = 4,
      .bias = true },
    { .x = { 2, 8, 9, 32 }, .out = 64, .kernel = { 3, 3 }, .stride = { 2, 2 },
      .padding = { 1, 1 }, .groups = 4, .bias = true },
    { .x = { 5, 9, 9, 32 }, .out = 32, .kernel = { 3, 3 }, .padding = { 1, 1 }, .groups = 32 },
    { .x = { 2, 6, 7, 9 }, .out = 15, .kernel = { 3, 3 }, .padding = { 1, 1 }, .groups = 3,
      .bias = true },
    { .x = { 5, 9, 9, 32 }, .out = 32, .kernel = { 3, 3 }, .stride = { 2, 2 },
      .padding = { 1, 1 }, .groups = 32, .bias = true },
    /* depthwise: whole and part vectors, kernel widths, strides, padding larger than the kernel,
       dilation, images of few pixels */
    { .x = { 2, 9, 13, 24 }, .out = 24, .kernel = { 3, 3 }, .padding = { 1, 1 }, .groups = 24,
      .bias = true },
    { .x = { 2, 10, 14, 21 }, .out = 21, .kernel = { 3, 3 }, .stride = { 2, 2 },
      .padding = { 1, 1 }, .groups = 21, .bias = true },
    { .x = { 2, 11, 12, 19 }, .out = 19, .kernel = { 5, 5 }, .padding = { 2, 2 }, .groups = 19 },
    { .x = { 1, 13, 15, 16 }, .out = 16, .kernel = { 5, 5 }, .stride = { 2, 2 },
      .padding = { 2, 2 }, .groups = 16, .bias = true },
    { .x = { 1, 9, 9, 12 }, .out = 12, .kernel = { 7, 7 }, .padding = { 3, 3 }, .groups = 12,
      .bias = true },
    { .x = { 1, 12, 11, 10 }, .out = 10, .kernel = { 2, 3 }, .stride = { 3, 3 },
      .padding = { 2, 4 }, .groups = 10 },
    { .x = { 2, 11, 12, 16 }, .out = 16, .kernel = { 3, 3 }, .padding = { 2, 2 },
      .dilation = { 2, 2 }, .groups = 16, .bias = true },
    { .x = { 1, 7, 6, 8 }, .out = 8, .kernel = { 1, 1 }, .stride = { 3, 3 }, .groups = 8 },
    { .x = { 3, 2, 1, 8 }, .out = 8, .kernel = { 3, 3 }, .stride = { 2, 2 }, .padding = { 1, 1 },
      .groups = 8 },
    { .x = { 3, 30, 40, 72 }, .out = 72, .kernel = { 3, 3 }, .padding = { 1, 1 }, .groups = 72,
      .bias = true },
    /* the same read in place: several tasks and blocks of channels, each padding, kernels larger
       than the image, strides and dilations with common divisors and without, flat kernels, phases
       that no tap reaches */
    { .x = { 3, 29, 31, 48 }, .out = 48, .kernel = { 3, 3 }, .padding = { 1, 1 }, .groups = 48,
      .bias = true },
    { .x = { 2, 7, 7, 528 }, .out = 528, .kernel = { 3, 3 }, .padding = { 1, 1 }, .groups = 528 },
    { .x = { 3, 33, 31, 32 }, .out = 32, .kernel = { 3, 3 }, .stride = { 2, 2 },
      .padding = { 1, 1 }, .groups = 32, .bias = true },
    { .x = { 2, 11, 9, 16 }, .out = 16, .kernel = { 3, 3 }, .stride = { 2, 2 }, .groups = 16 },
    { .x = { 2, 8, 10, 32 }, .out = 32, .kernel = { 3, 3 }, .padding = { 2, 2 }, .groups = 32,
      .bias = true },
    { .x = { 2, 2, 3, 16 }, .out = 16, .kernel = { 5, 5 }, .padding = { 2, 2 }, .groups = 16 },
    { .x = { 2, 14, 14, 32 }, .out = 32, .kernel = { 7, 7 }, .stride = { 2, 2 },
      .padding = { 3, 3 }, .groups = 32 },
    { .x = { 2, 10, 13, 16 }, .out = 16, .kernel = { 1, 5 }, .padding = { 0, 2 }, .groups = 16,
      .bias = true },
    { .x = { 2, 13, 10, 16 }, .out = 16, .kernel = { 9, 1 }, .stride = { 2, 1 },
      .padding = { 4, 0 }, .groups = 16 },
    { .x = { 2, 13, 14, 16 }, .out = 16, .kernel = { 3, 3 }, .stride = { 2, 2 },
      .padding = { 2, 2 }, .dilation = { 2, 2 }, .groups = 16, .bias = true },
    { .x = { 1, 17, 16, 16 }, .out = 16, .kernel = { 3, 2 }, .stride = { 2, 3 },
      .padding = { 3, 4 }, .dilation = { 3, 2 }, .groups = 16 },
    { .x = { 1, 17, 16, 18 }, .out = 18, .kernel = { 2, 3 }, .stride = { 2, 2 },
      .padding = { 3, 4 }, .dilation = { 3, 4 }, .groups = 18, .bias = true },
    /* more taps and more kinds of columns than depthwise kernels count; two filters per channel */
    { .x = { 1, 20, 3, 16 }, .out = 16, .kernel = { 17, 1 }, .groups = 16 },
    { .x = { 1, 2, 60, 16 }, .out = 16, .kernel = { 1, 1 }, .stride = { 1, 50 }, .groups = 16 },
    { .x = { 2, 6, 7, 16 }, .out = 32, .kernel = { 3, 3 }, .padding = { 1, 1 }, .groups = 16,
      .bias = true },
    /* several sub-batches, of two sizes; partial sums of weights */
    { .x = { 5, 20, 20, 64 }, .out = 64, .kernel = { 3, 3 }, .padding = { 1, 1 }, .bias = true },
    { .x = { 13, 24, 24, 32 }, .out = 48, .kernel = { 3, 3 }, .padding = { 1, 1 }, .bias = true },
    { .x = { 34, 10, 7, 32 }, .out = 48, .kernel = { 3, 3 }, .padding = { 1, 1 }, .bias = true },
    { .x = { 9, 8, 8, 32 }, .out = 32, .kernel = { 3, 3 }, .padding = { 1, 1 } },
    { .x = { 5, 12, 12, 64 }, .out = 64, .kernel = { 3, 3 }, .stride = { 2, 2 },
      .padding = { 1, 1 } },
    /* slices of channels */
    { .x = { 2, 3, 2, 1536 }, .out = 512, .kernel = { 1, 1 }, .bias = true },
    { .x = { 3, 3, 3, 512 }, .out = 512, .kernel = { 3, 3 }, .padding = { 1, 1 }, .bias = true },
    /* many channels over few tiles, with narrower last blocks */
    { .x = { 2, 6, 5, 264 }, .out = 280, .kernel = { 3, 3 }, .padding = { 1, 1 } },
    /* products over pixels: rows that are copied and rows that are not, several chains, strides
       with and without rests, phases that no tap reaches, panels and slabs that are not whole,
       partial sums */
    { .x = { 2, 9, 11, 64 }, .out = 80, .kernel = { 1, 1 } },
    { .x = { 3, 7, 7, 272 }, .out = 300, .kernel = { 1, 1 }, .bias = true },
    { .x = { 2, 5, 3, 1100 }, .out = 40, .kernel = { 1, 1 } },
    { .x = { 3, 11, 14, 32 }, .out = 48, .kernel = { 3, 3 }, .stride = { 2, 2 },
      .padding = { 1, 1 } },
    { .x = { 2, 10, 9, 72 }, .out = 270, .kernel = { 3, 3 }, .stride = { 2, 3 },
      .padding = { 0, 2 } },
    { .x = { 2, 13, 12, 11 }, .out = 19, .kernel = { 2, 3 }, .stride = { 3, 4 },
      .padding = { 1, 0 }, .bias = true },
    { .x = { 2, 12, 12, 24 }, .out = 32, .kernel = { 3, 3 }, .stride = { 2, 2 },
      .padding = { 2, 2 }, .dilation = { 2, 2 } },
    { .x = { 4, 24, 24, 16 }, .out = 24, .kernel = { 1, 1 } },
    { .x = { 1, 1, 2, 16 }, .out = 16, .kernel = { 3, 3 }, .stride = { 3, 3 },
      .padding = { 1, 1 } },
    { .x = { 2, 1, 1, 16 }, .out = 16, .kernel = { 1, 1 }, .stride = { 2, 2 },
      .padding = { 1, 1 } },
    /* products over pixels of any other kind: groups of whole and of few vectors, in groups read in
       place, filters of one and of several per channel; few channels with dilation, with many
       outputs, in one tap; kernels of many taps; strides of many phases, that some reach and that
       none do; gradients of a bias, in several partial sums */
    { .x = { 2, 7, 6, 26 }, .out = 22, .kernel = { 3, 3 }, .padding = { 1, 1 }, .groups = 2 },
    { .x = { 2, 9, 8, 12 }, .out = 15, .kernel = { 3, 2 }, .stride = { 2, 1 }, .padding = { 1, 0 },
      .groups = 3, .bias = true },
    { .x = { 2, 5, 7, 96 }, .out = 64, .kernel = { 1, 1 }, .groups = 2, .bias = true },
    { .x = { 1, 5, 7, 64 }, .out = 64, .kernel = { 1, 1 }, .groups = 4 },
    { .x = { 1, 5, 7, 96 }, .out = 160, .kernel = { 1, 1 }, .groups = 2, .bias = true },
    { .x = { 1, 9, 9, 1280 }, .out = 400, .kernel = { 1, 1 }, .stride = { 2, 2 }, .bias = true },
    { .x = { 20, 9, 8, 36 }, .out = 34, .kernel = { 1, 1 }, .groups = 2, .bias = true },
    { .x = { 2, 8, 7, 5 }, .out = 10, .kernel = { 3, 3 }, .padding = { 1, 1 }, .groups = 5,
      .bias = true },
    { .x = { 2, 9, 10, 3 }, .out = 5, .kernel = { 3, 3 }, .padding = { 2, 2 },
      .dilation = { 2, 2 }, .bias = true },
    { .x = { 1, 6, 7, 2 }, .out = 70, .kernel = { 3, 3 }, .padding = { 1, 1 }, .bias = true },
    { .x = { 2, 6, 7, 70 }, .out = 3, .kernel = { 3, 3 }, .padding = { 1, 1 } },
    { .x = { 2, 5, 7, 40 }, .out = 1, .kernel = { 1, 1 }, .bias = true },
    { .x = { 2, 13, 12, 1 }, .out = 2, .kernel = { 9, 9 }, .padding = { 4, 4 } },
    { .x = { 1, 12, 13, 9 }, .out = 10, .kernel = { 11, 7 }, .padding = { 3, 6 }, .bias = true },
    { .x = { 2, 17, 16, 8 }, .out = 9, .kernel = { 3, 3 }, .stride = { 5, 5 },
      .padding = { 1, 1 } },
    { .x = { 1, 17, 23, 10 }, .out = 12, .kernel = { 7, 6 }, .stride = { 6, 9 },
      .padding = { 2, 3 }, .dilation = { 2, 3 }, .bias = true },
    { .x = { 1, 3, 40, 4 }, .out = 8, .kernel = { 2, 2 }, .stride = { 2, 37 }, .groups = 2 },
    { .x = { 3, 40, 50, 9 }, .out = 8, .kernel = { 1, 1 }, .bias = true },
};
/* clang-format on */

/* The reference's gradients are checked on the first cases, which are small. */
enum { N_GRADIENT_CASES = 8 };

static int64_t or_1(int64_t value)
{
    return value > 0 ? value : 1;
}

static void add(case_list *list, const convolution *v, ls__op_kind kind,
                const ls__operand *operands, int n)
{
    op_case *c = add_case(list, kind, n, operands, "kernel %dx%d stride %d,%d groups %d%s",
                          (int)v->kernel[0], (int)v->kernel[1], (int)or_1(v->stride[0]),
                          (int)or_1(v->stride[1]), (int)or_1(v->groups), v->bias ? " bias" : "");
    for (int d = 0; d < 2; d++) {
        c->op.u.conv.kernel[d] = v->kernel[d];
        c->op.u.conv.stride[d] = or_1(v->stride[d]);
        c->op.u.conv.padding[d] = v->padding[d];
        c->op.u.conv.dilation[d] = or_1(v->dilation[d]);
    }
    c->op.u.conv.groups = or_1(v->groups);
    c->tolerance = DIRECT_TOLERANCE;
    if (kind == LS__OP_CONV2D && v - convolutions < N_GRADIENT_CASES) {
        c->gradient_step = 1;
        c->gradient_tolerance = 1e-5;
    }
}

static int64_t output_size(const convolution *v, int dim, int64_t size)
{
    const int64_t reach = or_1(v->dilation[dim]) * (v->kernel[dim] - 1) + 1;
    return (size + 2 * v->padding[dim] - reach) / or_1(v->stride[dim]) + 1;
}

void add_conv_cases(case_list *list)
{
    for (size_t i = 0; i < sizeof convolutions / sizeof convolutions[0]; i++) {
        const convolution *v = &convolutions[i];
        const int64_t n = v->x.n, h = v->x.h, w = v->x.w;
        const int64_t in = v->x.c, out = v->out;
        const ls__operand x = activation(n, h, w, in);
        const ls__operand y = activation(n, output_size(v, 0, h), output_size(v, 1, w), out);
        const ls__operand weights =
            dense(LS_F32, LS_SHAPE(out, v->kernel[0], v->kernel[1], in / or_1(v->groups)));
        const ls__operand bias = v->bias ? dense(LS_F32, LS_SHAPE(out)) : absent();
        add(list, v, LS__OP_CONV2D, (ls__operand[]){ x, weights, bias, y }, 4);
        add(list, v, LS__OP_CONV2D_BACKWARD_DATA, (ls__operand[]){ y, weights, x }, 3);
        add(list, v, LS__OP_CONV2D_BACKWARD_WEIGHTS, (ls__operand[]){ x, y, weights, bias }, 4);
    }
}
