/* conv.c: reference convolution, cross-correlation as everywhere in deep learning:
 * y[n,p,q,o] = b[o] + sum over r,s,i of x[n, p*stride + r*dilation - padding, ..., i] w[o,r,s,i] */
#include "cpu/reference/reference.h"

typedef struct geometry {
    int64_t kernel[2], stride[2], padding[2], dilation[2];
    int64_t in_per_group, out_per_group;
} geometry;

static geometry geometry_of(const ls__op *op, const ls__view *x, const ls__view *y)
{
    geometry g;
    for (int i = 0; i < 2; i++) {
        g.kernel[i] = op->u.conv.kernel[i];
        g.stride[i] = op->u.conv.stride[i];
        g.padding[i] = op->u.conv.padding[i];
        g.dilation[i] = op->u.conv.dilation[i];
    }
    g.in_per_group = x->c / op->u.conv.groups;
    g.out_per_group = y->c / op->u.conv.groups;
    return g;
}

/* Where in w lies [o,r,s,i]. */
static int64_t weight_offset(const geometry *g, int64_t o, int64_t r, int64_t s, int64_t i)
{
    return ((o * g->kernel[0] + r) * g->kernel[1] + s) * g->in_per_group + i;
}

/* The input place that output place p sees through kernel place r, or -1. */
static int64_t input_place(const geometry *g, int dim, int64_t size, int64_t p, int64_t r)
{
    const int64_t i = p * g->stride[dim] + r * g->dilation[dim] - g->padding[dim];
    return i >= 0 && i < size ? i : -1;
}

/* The output place that sees input place i through kernel place r, or -1. */
static int64_t output_place(const geometry *g, int dim, int64_t size, int64_t i, int64_t r)
{
    const int64_t p = i + g->padding[dim] - r * g->dilation[dim];
    return p >= 0 && p % g->stride[dim] == 0 && p / g->stride[dim] < size ? p / g->stride[dim] : -1;
}

static int64_t images(const ls__op *op)
{
    return ls__operand_view(&op->operands[0]).n;
}

static int64_t output_channels(const ls__op *op)
{
    return ls__operand_view(&op->operands[1]).c; /* of dy */
}

/* x w b? -> y */
static void conv2d(const ls__reference_call *call, int64_t n)
{
    const ls__view x = ls__reference_view(call, 0), y = ls__reference_view(call, 3);
    const float *weights = call->buffers[1], *bias = call->buffers[2];
    const geometry g = geometry_of(call->op, &x, &y);
    for (int64_t p = 0; p < y.h; p++)
        for (int64_t q = 0; q < y.w; q++)
            for (int64_t o = 0; o < y.c; o++) {
                const int64_t first = o / g.out_per_group * g.in_per_group;
                double sum = bias ? bias[o] : 0.0;
                for (int64_t r = 0; r < g.kernel[0]; r++)
                    for (int64_t s = 0; s < g.kernel[1]; s++) {
                        const int64_t h = input_place(&g, 0, x.h, p, r);
                        const int64_t w = input_place(&g, 1, x.w, q, s);
                        if (h < 0 || w < 0) continue;
                        for (int64_t i = 0; i < g.in_per_group; i++)
                            sum += (double)*ls__view_at(&x, n, h, w, first + i) *
                                   weights[weight_offset(&g, o, r, s, i)];
                    }
                *ls__view_at(&y, n, p, q, o) = (float)sum;
            }
}

/* dy w -> dx */
static void conv2d_backward_data(const ls__reference_call *call, int64_t n)
{
    const ls__view dy = ls__reference_view(call, 0), dx = ls__reference_view(call, 2);
    const float *weights = call->buffers[1];
    const geometry g = geometry_of(call->op, &dx, &dy);
    for (int64_t h = 0; h < dx.h; h++)
        for (int64_t w = 0; w < dx.w; w++)
            for (int64_t c = 0; c < dx.c; c++) {
                const int64_t first = c / g.in_per_group * g.out_per_group;
                double sum = 0.0;
                for (int64_t r = 0; r < g.kernel[0]; r++)
                    for (int64_t s = 0; s < g.kernel[1]; s++) {
                        const int64_t p = output_place(&g, 0, dy.h, h, r);
                        const int64_t q = output_place(&g, 1, dy.w, w, s);
                        if (p < 0 || q < 0) continue;
                        for (int64_t o = first; o < first + g.out_per_group; o++)
                            sum += (double)*ls__view_at(&dy, n, p, q, o) *
                                   weights[weight_offset(&g, o, r, s, c % g.in_per_group)];
                    }
                *ls__view_at(&dx, n, h, w, c) = (float)sum;
            }
}

/* x dy -> dw db? */
static void conv2d_backward_weights(const ls__reference_call *call, int64_t o)
{
    const ls__view x = ls__reference_view(call, 0), dy = ls__reference_view(call, 1);
    float *dw = call->buffers[2], *db = call->buffers[3];
    const geometry g = geometry_of(call->op, &x, &dy);
    const int64_t first = o / g.out_per_group * g.in_per_group;
    for (int64_t r = 0; r < g.kernel[0]; r++)
        for (int64_t s = 0; s < g.kernel[1]; s++)
            for (int64_t i = 0; i < g.in_per_group; i++) {
                double sum = 0.0;
                for (int64_t n = 0; n < dy.n; n++)
                    for (int64_t p = 0; p < dy.h; p++)
                        for (int64_t q = 0; q < dy.w; q++) {
                            const int64_t h = input_place(&g, 0, x.h, p, r);
                            const int64_t w = input_place(&g, 1, x.w, q, s);
                            if (h < 0 || w < 0) continue;
                            sum += (double)*ls__view_at(&x, n, h, w, first + i) *
                                   *ls__view_at(&dy, n, p, q, o);
                        }
                dw[weight_offset(&g, o, r, s, i)] = (float)sum;
            }
    if (!db) return;
    double sum = 0.0;
    for (int64_t n = 0; n < dy.n; n++)
        for (int64_t p = 0; p < dy.h; p++)
            for (int64_t q = 0; q < dy.w; q++) sum += *ls__view_at(&dy, n, p, q, o);
    db[o] = (float)sum;
}

const ls__reference ls__reference_conv[LS__N_OPS] = {
    [LS__OP_CONV2D] = { images, conv2d },
    [LS__OP_CONV2D_BACKWARD_DATA] = { images, conv2d_backward_data },
    [LS__OP_CONV2D_BACKWARD_WEIGHTS] = { output_channels, conv2d_backward_weights },
};
