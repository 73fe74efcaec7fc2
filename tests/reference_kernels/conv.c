/* conv.c: reference convolution (cross-correlation):
 * y[n,p,q,o] = b[o] + sum over r,s,i of x[n, p*stride + r*dilation - padding, ..., i] w[o,r,s,i];
 * alone, and fused with steps of the norms before and after it, whose formulas are in norm.c. */
#include "reference.h"

typedef struct geometry {
    int64_t kernel[2], stride[2], padding[2], dilation[2];
    int64_t in_per_group, out_per_group;
} geometry;

static geometry geometry_of(const ls__op *op, const tensor_view *x, const tensor_view *y)
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

/* The index of w[o,r,s,i]. */
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

/* The input of a convolution: x, or relu(x a + b) if it applies the norm before it. */
typedef struct reader {
    tensor_view x;
    const float *a, *b; /* [C], NULL for x itself */
} reader;

static double read_at(const reader *in, int64_t n, int64_t h, int64_t w, int64_t c)
{
    const double x = *view_at(&in->x, n, h, w, c);
    if (!in->a) return x;
    const double value = x * (double)in->a[c] + (double)in->b[c];
    return value < 0 ? 0 : value;
}

/* y[n,p,q,o] + bias */
static double output_at(const geometry *g, const reader *in, const float *weights, int64_t n,
                        int64_t p, int64_t q, int64_t o, double bias)
{
    const int64_t first = o / g->out_per_group * g->in_per_group;
    double sum = bias;
    for (int64_t r = 0; r < g->kernel[0]; r++)
        for (int64_t s = 0; s < g->kernel[1]; s++) {
            const int64_t h = input_place(g, 0, in->x.h, p, r);
            const int64_t w = input_place(g, 1, in->x.w, q, s);
            if (h < 0 || w < 0) continue;
            for (int64_t i = 0; i < g->in_per_group; i++)
                sum +=
                    read_at(in, n, h, w, first + i) * (double)weights[weight_offset(g, o, r, s, i)];
        }
    return sum;
}

/* dx[n,h,w,c] */
static double data_gradient_at(const geometry *g, const tensor_view *dy, const float *weights,
                               int64_t n, int64_t h, int64_t w, int64_t c)
{
    const int64_t first = c / g->in_per_group * g->out_per_group;
    double sum = 0.0;
    for (int64_t r = 0; r < g->kernel[0]; r++)
        for (int64_t s = 0; s < g->kernel[1]; s++) {
            const int64_t p = output_place(g, 0, dy->h, h, r);
            const int64_t q = output_place(g, 1, dy->w, w, s);
            if (p < 0 || q < 0) continue;
            for (int64_t o = first; o < first + g->out_per_group; o++)
                sum += (double)*view_at(dy, n, p, q, o) *
                       (double)weights[weight_offset(g, o, r, s, c % g->in_per_group)];
        }
    return sum;
}

/* dw[o,...] */
static void weight_gradients(const geometry *g, const reader *in, const tensor_view *dy, int64_t o,
                             float *dw)
{
    const int64_t first = o / g->out_per_group * g->in_per_group;
    for (int64_t r = 0; r < g->kernel[0]; r++)
        for (int64_t s = 0; s < g->kernel[1]; s++)
            for (int64_t i = 0; i < g->in_per_group; i++) {
                double sum = 0.0;
                for (int64_t n = 0; n < dy->n; n++)
                    for (int64_t p = 0; p < dy->h; p++)
                        for (int64_t q = 0; q < dy->w; q++) {
                            const int64_t h = input_place(g, 0, in->x.h, p, r);
                            const int64_t w = input_place(g, 1, in->x.w, q, s);
                            if (h < 0 || w < 0) continue;
                            sum +=
                                read_at(in, n, h, w, first + i) * (double)*view_at(dy, n, p, q, o);
                        }
                dw[weight_offset(g, o, r, s, i)] = (float)sum;
            }
}

/* ---- Convolution alone ---- */

/* x w b? -> y */
static void conv2d(const reference_call *call, int64_t n)
{
    const reader in = { .x = view_of(call, 0) };
    const tensor_view y = view_of(call, 3);
    const float *weights = call->buffers[1], *bias = call->buffers[2];
    const geometry g = geometry_of(call->op, &in.x, &y);
    for (int64_t p = 0; p < y.h; p++)
        for (int64_t q = 0; q < y.w; q++)
            for (int64_t o = 0; o < y.c; o++)
                *view_at(&y, n, p, q, o) =
                    (float)output_at(&g, &in, weights, n, p, q, o, bias ? (double)bias[o] : 0.0);
}

/* dy w -> dx */
static void conv2d_backward_data(const reference_call *call, int64_t n)
{
    const tensor_view dy = view_of(call, 0), dx = view_of(call, 2);
    const float *weights = call->buffers[1];
    const geometry g = geometry_of(call->op, &dx, &dy);
    for (int64_t h = 0; h < dx.h; h++)
        for (int64_t w = 0; w < dx.w; w++)
            for (int64_t c = 0; c < dx.c; c++)
                *view_at(&dx, n, h, w, c) = (float)data_gradient_at(&g, &dy, weights, n, h, w, c);
}

/* x dy -> dw db? */
static void conv2d_backward_weights(const reference_call *call, int64_t o)
{
    const reader in = { .x = view_of(call, 0) };
    const tensor_view dy = view_of(call, 1);
    float *dw = call->buffers[2], *db = call->buffers[3];
    const geometry g = geometry_of(call->op, &in.x, &dy);
    weight_gradients(&g, &in, &dy, o, dw);
    if (!db) return;
    double sum = 0.0;
    for (int64_t n = 0; n < dy.n; n++)
        for (int64_t p = 0; p < dy.h; p++)
            for (int64_t q = 0; q < dy.w; q++) sum += (double)*view_at(&dy, n, p, q, o);
    db[o] = (float)sum;
}

/* ---- Convolution fused with norms ---- */

/* Output channel o, and its sums. */
static void with_statistics(const reference_call *call, const reader *in, const float *weights,
                            int first_output, int64_t o)
{
    const tensor_view y = view_of(call, first_output);
    const geometry g = geometry_of(call->op, &in->x, &y);
    double sum = 0.0, squares = 0.0;
    for (int64_t n = 0; n < y.n; n++)
        for (int64_t p = 0; p < y.h; p++)
            for (int64_t q = 0; q < y.w; q++) {
                const double value = output_at(&g, in, weights, n, p, q, o, 0);
                *view_at(&y, n, p, q, o) = (float)value;
                sum += value;
                squares += value * value;
            }
    ((float *)call->buffers[first_output + 1])[o] = (float)sum;
    ((float *)call->buffers[first_output + 2])[o] = (float)squares;
}

/* x w -> y sum squares */
static void conv2d_statistics(const reference_call *call, int64_t o)
{
    const reader in = { .x = view_of(call, 0) };
    with_statistics(call, &in, call->buffers[1], 2, o);
}

static reader norm_reader(const reference_call *call)
{
    return (reader){ view_of(call, 0), call->buffers[1], call->buffers[2] };
}

/* x a b w -> y sum squares */
static void norm_conv2d_statistics(const reference_call *call, int64_t o)
{
    const reader in = norm_reader(call);
    with_statistics(call, &in, call->buffers[3], 4, o);
}

/* x a b dy -> dw */
static void norm_conv2d_backward_weights(const reference_call *call, int64_t o)
{
    const reader in = norm_reader(call);
    const tensor_view dy = view_of(call, 3);
    const geometry g = geometry_of(call->op, &in.x, &dy);
    weight_gradients(&g, &in, &dy, o, call->buffers[4]);
}

/* dy w x mean invstd scale shift -> dz dscale dshift p q r */
static void norm_conv2d_backward_data(const reference_call *call, int64_t c)
{
    const tensor_view dy = view_of(call, 0), x = view_of(call, 2), dz = view_of(call, 7);
    const geometry g = geometry_of(call->op, &x, &dy);
    float *const *vectors = (float *const *)call->buffers;
    const double mean = vectors[3][c], invstd = vectors[4][c], scale = vectors[5][c],
                 shift = vectors[6][c], m = (double)(x.n * x.h * x.w);
    double dscale = 0.0, dshift = 0.0;
    for (int64_t n = 0; n < x.n; n++)
        for (int64_t h = 0; h < x.h; h++)
            for (int64_t w = 0; w < x.w; w++) {
                const double normal = ((double)*view_at(&x, n, h, w, c) - mean) * invstd;
                const double gradient = normal * scale + shift > 0
                                            ? data_gradient_at(&g, &dy, vectors[1], n, h, w, c)
                                            : 0;
                *view_at(&dz, n, h, w, c) = (float)gradient;
                dscale += gradient * normal;
                dshift += gradient;
            }
    const double p = scale * invstd, q = -p * invstd * dscale / m;
    vectors[8][c] = (float)dscale;
    vectors[9][c] = (float)dshift;
    vectors[10][c] = (float)p;
    vectors[11][c] = (float)q;
    vectors[12][c] = (float)(-p * dshift / m - q * mean);
}

const reference_row reference_conv[LS__N_OPS] = {
    [LS__OP_CONV2D] = { conv2d, TASK_PER_IMAGE },
    [LS__OP_CONV2D_BACKWARD_DATA] = { conv2d_backward_data, TASK_PER_IMAGE },
    [LS__OP_CONV2D_BACKWARD_WEIGHTS] = { conv2d_backward_weights, TASK_PER_CHANNEL, 1 },
    [LS__OP_CONV2D_STATISTICS] = { conv2d_statistics, TASK_PER_CHANNEL, 2 },
    [LS__OP_NORM_CONV2D_STATISTICS] = { norm_conv2d_statistics, TASK_PER_CHANNEL, 4 },
    [LS__OP_NORM_CONV2D_BACKWARD_WEIGHTS] = { norm_conv2d_backward_weights, TASK_PER_CHANNEL, 3 },
    [LS__OP_NORM_CONV2D_BACKWARD_DATA] = { norm_conv2d_backward_data, TASK_PER_CHANNEL, 2 },
};
