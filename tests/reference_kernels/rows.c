/* rows.c: reference softmax and group normalisation.
 *
 * softmax: over the channels of a place, y = e^x / sum e^x, dx = y (dy - sum y dy).
 *
 * Group norm (Wu & He 2018) of x [N,H,W,C]: statistics are those of an instance and a group of
 * channels, m values. mean [instances,groups] gives their number: an instance is an image, or, for
 * layer norm (Ba et al. 2016) with one group, a place. With xhat = (x - mean) invstd and
 * g = dy scale:
 *   y = xhat scale + shift,  dshift = sum dy,  dscale = sum dy xhat,
 *   dx = invstd (g - sum g / m - xhat sum g xhat / m), with sums over the m values. */
#include "reference.h"
#include <math.h>

/* The rows of image n: the channels of its places. */
#define FOR_EACH_ROW(v) for (int64_t row = n * (v).h * (v).w; row < (n + 1) * (v).h * (v).w; row++)

static void softmax(const reference_call *call, int64_t n)
{
    const tensor_view view = shape_view(&call->op->operands[0]);
    FOR_EACH_ROW(view)
    {
        const float *x = (const float *)call->buffers[0] + row * view.c;
        float *y = (float *)call->buffers[1] + row * view.c;
        double largest = -INFINITY, sum = 0;
        for (int64_t c = 0; c < view.c; c++) largest = fmax(largest, x[c]);
        for (int64_t c = 0; c < view.c; c++) sum += exp(x[c] - largest);
        for (int64_t c = 0; c < view.c; c++) y[c] = (float)(exp(x[c] - largest) / sum);
    }
}

/* y dy -> dx */
static void softmax_backward(const reference_call *call, int64_t n)
{
    const tensor_view view = shape_view(&call->op->operands[0]);
    FOR_EACH_ROW(view)
    {
        const float *y = (const float *)call->buffers[0] + row * view.c;
        const float *dy = (const float *)call->buffers[1] + row * view.c;
        float *dx = (float *)call->buffers[2] + row * view.c;
        double sum = 0;
        for (int64_t c = 0; c < view.c; c++) sum += (double)y[c] * dy[c];
        for (int64_t c = 0; c < view.c; c++) dx[c] = (float)(y[c] * (dy[c] - sum));
    }
}

/* The values of one instance and group: number i of `count`. */
typedef struct group {
    int64_t count, instance, group, places, width;
} group;

static group group_of(const tensor_view *x, const tensor_view *mean, int64_t instance,
                      int64_t number)
{
    const int64_t places = x->n * x->h * x->w / mean->n, width = x->c / mean->c;
    return (group){ places * width, instance, number, places, width };
}

static int64_t channel_of(const group *g, int64_t i)
{
    return g->group * g->width + i % g->width;
}

static float *value_at(const tensor_view *x, const group *g, int64_t i)
{
    return x->data + (g->instance * g->places + i / g->width) * x->c + channel_of(g, i);
}

/* x scale shift -> y mean invstd */
static void group_norm(const reference_call *call, int64_t instance)
{
    const tensor_view x = view_of(call, 0), y = view_of(call, 3);
    const tensor_view mean_view = view_of(call, 4);
    const float *scale = call->buffers[1], *shift = call->buffers[2];
    for (int64_t n = 0; n < mean_view.c; n++) {
        const group g = group_of(&x, &mean_view, instance, n);
        double mean = 0, variance = 0;
        for (int64_t i = 0; i < g.count; i++) mean += *value_at(&x, &g, i);
        mean /= (double)g.count;
        for (int64_t i = 0; i < g.count; i++) {
            const double d = *value_at(&x, &g, i) - mean;
            variance += d * d;
        }
        variance /= (double)g.count;
        const double invstd = 1 / sqrt(variance + (double)call->op->u.group_norm.epsilon);
        ((float *)call->buffers[4])[instance * mean_view.c + n] = (float)mean;
        ((float *)call->buffers[5])[instance * mean_view.c + n] = (float)invstd;
        for (int64_t i = 0; i < g.count; i++) {
            const int64_t c = channel_of(&g, i);
            *value_at(&y, &g, i) =
                (float)((*value_at(&x, &g, i) - mean) * invstd * scale[c] + (double)shift[c]);
        }
    }
}

/* x dy scale mean invstd -> dx dscale dshift */
static void group_norm_backward(const reference_call *call, int64_t task)
{
    (void)task;
    const tensor_view x = view_of(call, 0), dy = view_of(call, 1);
    const tensor_view mean_view = view_of(call, 3), dx = view_of(call, 5);
    const float *scale = call->buffers[2], *invstds = call->buffers[4];
    float *dscale = call->buffers[6], *dshift = call->buffers[7];
    for (int64_t n = 0; n < mean_view.c; n++)
        for (int64_t j = 0; j < x.c / mean_view.c; j++) {
            double scale_sum = 0, shift_sum = 0;
            for (int64_t instance = 0; instance < mean_view.n; instance++) {
                const group g = group_of(&x, &mean_view, instance, n);
                const double mean = mean_view.data[instance * mean_view.c + n];
                const double invstd = invstds[instance * mean_view.c + n];
                for (int64_t i = j; i < g.count; i += g.width) {
                    const double gradient = *value_at(&dy, &g, i);
                    shift_sum += gradient;
                    scale_sum += gradient * (*value_at(&x, &g, i) - mean) * invstd;
                }
            }
            const int64_t c = n * (x.c / mean_view.c) + j;
            dscale[c] = (float)scale_sum;
            dshift[c] = (float)shift_sum;
        }
    for (int64_t set = 0; set < mean_view.n * mean_view.c; set++) {
        const group g = group_of(&x, &mean_view, set / mean_view.c, set % mean_view.c);
        const double mean = mean_view.data[set], invstd = invstds[set];
        const double m = (double)g.count;
        double s1 = 0, s2 = 0;
        for (int pass = 0; pass < 2; pass++)
            for (int64_t i = 0; i < g.count; i++) {
                const double gradient = (double)*value_at(&dy, &g, i) * scale[channel_of(&g, i)];
                const double xhat = (*value_at(&x, &g, i) - mean) * invstd;
                if (pass == 0) {
                    s1 += gradient;
                    s2 += gradient * xhat;
                } else {
                    *value_at(&dx, &g, i) = (float)(invstd * (gradient - s1 / m - xhat * s2 / m));
                }
            }
    }
}

const reference_row reference_rows[LS__N_OPS] = {
    [LS__OP_SOFTMAX] = { softmax, TASK_PER_IMAGE },
    [LS__OP_SOFTMAX_BACKWARD] = { softmax_backward, TASK_PER_IMAGE },
    [LS__OP_GROUP_NORM] = { group_norm, TASK_PER_IMAGE, .split_operand = 4 },
    [LS__OP_GROUP_NORM_BACKWARD] = { group_norm_backward, ONE_TASK },
};
