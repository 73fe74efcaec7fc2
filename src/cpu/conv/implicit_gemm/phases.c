/* phases.c: which pixels are the rows of a product. */
#include "cpu/conv/implicit_gemm/implicit_gemm.h"

#include <string.h>

/* False if there is no room for another tap. */
static bool add_tap(ls__implicit_gemm_phase *phase, int64_t h, int64_t w, int64_t weight)
{
    if (phase->n_taps == LS__IMPLICIT_GEMM_MAX_TAPS) return false;
    phase->taps[phase->n_taps][0] = h;
    phase->taps[phase->n_taps][1] = w;
    phase->weight[phase->n_taps++] = weight;
    return true;
}

static void finish_phase(ls__implicit_gemm_phase *phase, int64_t images, const int64_t source[2])
{
    phase->n_rows = images * phase->grid[0] * phase->grid[1];
    phase->plain = phase->n_taps == 1;
    for (int d = 0; d < 2; d++)
        phase->plain = phase->plain && phase->grid[d] == source[d] && phase->source_step[d] == 1 &&
                       phase->taps[0][d] == 0;
}

static bool correlation(const ls__op *op, const int64_t *x, const int64_t *y,
                        ls__implicit_gemm_phase *phase)
{
    *phase = (ls__implicit_gemm_phase){ .grid = { y[1], y[2] }, .step = { 1, 1 } };
    const int64_t *padding = op->u.conv.padding, *dilation = op->u.conv.dilation;
    memcpy(phase->source_step, op->u.conv.stride, sizeof phase->source_step);
    for (int64_t i = 0; i < op->u.conv.kernel[0]; i++)
        for (int64_t j = 0; j < op->u.conv.kernel[1]; j++)
            if (!add_tap(phase, i * dilation[0] - padding[0], j * dilation[1] - padding[1],
                         i * op->u.conv.kernel[1] + j))
                return false;
    finish_phase(phase, x[0], &x[1]);
    return true;
}

/* Pixels (a, b) + stride (p, q) of dx. A tap reaches them if it leads to an integer pixel of dy. */
static bool one_phase(const ls__op *op, const int64_t *x, const int64_t *y, int64_t a, int64_t b,
                      ls__implicit_gemm_phase *phase)
{
    const int64_t *stride = op->u.conv.stride, *kernel = op->u.conv.kernel;
    *phase = (ls__implicit_gemm_phase){ .grid = { ls__divide_up(x[1] - a, stride[0]),
                                                  ls__divide_up(x[2] - b, stride[1]) },
                                        .first = { a, b },
                                        .step = { stride[0], stride[1] },
                                        .source_step = { 1, 1 } };
    for (int64_t i = 0; i < kernel[0]; i++)
        for (int64_t j = 0; j < kernel[1]; j++) {
            const int64_t h = a + op->u.conv.padding[0] - i * op->u.conv.dilation[0];
            const int64_t w = b + op->u.conv.padding[1] - j * op->u.conv.dilation[1];
            if (h % stride[0] == 0 && w % stride[1] == 0 &&
                !add_tap(phase, h / stride[0], w / stride[1], i * kernel[1] + j))
                return false;
        }
    finish_phase(phase, x[0], &y[1]);
    return true;
}

int ls__implicit_gemm_phases(const ls__op *op,
                             ls__implicit_gemm_phase phases[LS__IMPLICIT_GEMM_MAX_PHASES])
{
    const bool data = op->kind == LS__OP_CONV2D_BACKWARD_DATA;
    const ls__operand *o = op->operands;
    const int64_t *x = o[data ? 2 : 0].shape.dims;
    const int64_t *y = o[data ? 0 : op->kind == LS__OP_CONV2D ? 3 : 1].shape.dims;
    if (!data) return correlation(op, x, y, phases);
    const int64_t n_h = ls__min_i64(op->u.conv.stride[0], x[1]);
    const int64_t n_w = ls__min_i64(op->u.conv.stride[1], x[2]);
    if (n_h > LS__IMPLICIT_GEMM_MAX_PHASES || n_w > LS__IMPLICIT_GEMM_MAX_PHASES / n_h) return 0;
    for (int64_t i = 0; i < n_h * n_w; i++)
        if (!one_phase(op, x, y, i / n_w, i % n_w, &phases[i])) return 0;
    return (int)(n_h * n_w);
}
