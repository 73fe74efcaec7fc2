/* norm.c: reference batch normalisation (Ioffe & Szegedy 2015). With m = N*H*W values per channel,
 * xhat = (x - mean) / sqrt(variance + epsilon), y = relu?(scale xhat + shift + add?):
 *   dshift = sum dy,  dscale = sum dy xhat,
 *   dx = scale / sqrt(variance + epsilon) (dy - dshift / m - xhat dscale / m). */
#include "cpu/reference/reference.h"
#include <math.h>

static int64_t channels(const ls__op *op)
{
    return ls__operand_view(&op->operands[0]).c;
}

#define FOR_EACH_PLACE(v)                                                                          \
    for (int64_t n = 0; n < (v).n; n++)                                                            \
        for (int64_t h = 0; h < (v).h; h++)                                                        \
            for (int64_t w = 0; w < (v).w; w++)

static void apply(const ls__reference_call *call, int64_t c, double mean, double invstd,
                  int y_operand)
{
    const ls__view x = ls__reference_view(call, 0), y = ls__reference_view(call, y_operand);
    const ls__view add = ls__reference_view(call, 5);
    const double scale = ((const float *)call->buffers[1])[c];
    const double shift = ((const float *)call->buffers[2])[c];
    FOR_EACH_PLACE(x)
    {
        double value = (*ls__view_at(&x, n, h, w, c) - mean) * invstd * scale + shift;
        if (add.data) value += *ls__view_at(&add, n, h, w, c);
        if (call->op->u.norm.relu && value < 0) value = 0;
        *ls__view_at(&y, n, h, w, c) = (float)value;
    }
}

/* x scale shift running_mean running_var add? -> y mean invstd */
static void batch_norm(const ls__reference_call *call, int64_t c)
{
    const ls__view x = ls__reference_view(call, 0);
    float *running_mean = call->buffers[3], *running_var = call->buffers[4];
    const double m = (double)(x.n * x.h * x.w), momentum = call->op->u.norm.momentum;
    double mean = 0.0, variance = 0.0;
    FOR_EACH_PLACE(x) mean += *ls__view_at(&x, n, h, w, c);
    mean /= m;
    FOR_EACH_PLACE(x)
    {
        const double d = *ls__view_at(&x, n, h, w, c) - mean;
        variance += d * d;
    }
    variance /= m;
    const double unbiased = m > 1 ? variance * m / (m - 1) : variance;
    running_mean[c] = (float)((1 - momentum) * running_mean[c] + momentum * mean);
    running_var[c] = (float)((1 - momentum) * running_var[c] + momentum * unbiased);
    const double invstd = 1 / sqrt(variance + (double)call->op->u.norm.epsilon);
    ((float *)call->buffers[7])[c] = (float)mean;
    ((float *)call->buffers[8])[c] = (float)invstd;
    apply(call, c, mean, invstd, 6);
}

/* x scale shift running_mean running_var add? -> y */
static void batch_norm_eval(const ls__reference_call *call, int64_t c)
{
    const double mean = ((const float *)call->buffers[3])[c];
    const double variance = ((const float *)call->buffers[4])[c];
    apply(call, c, mean, 1 / sqrt(variance + (double)call->op->u.norm.epsilon), 6);
}

/* x y? dy1 dy2? scale mean invstd -> dx dscale dshift dadd? */
static void batch_norm_backward(const ls__reference_call *call, int64_t c)
{
    const ls__view x = ls__reference_view(call, 0), y = ls__reference_view(call, 1);
    const ls__view dy1 = ls__reference_view(call, 2), dy2 = ls__reference_view(call, 3);
    const ls__view dx = ls__reference_view(call, 7), dadd = ls__reference_view(call, 10);
    const double scale = ((const float *)call->buffers[4])[c];
    const double mean = ((const float *)call->buffers[5])[c];
    const double invstd = ((const float *)call->buffers[6])[c];
    const double m = (double)(x.n * x.h * x.w);
    double dshift = 0.0, dscale = 0.0;
    for (int pass = 0; pass < 2; pass++) FOR_EACH_PLACE(x)
        {
            /* dx or dadd may be dy1's memory: both are written in the second pass only, and after
             * the place's gradient was read. */
            double dy = *ls__view_at(&dy1, n, h, w, c);
            if (dy2.data) dy += *ls__view_at(&dy2, n, h, w, c);
            if (call->op->u.norm.relu && !(*ls__view_at(&y, n, h, w, c) > 0)) dy = 0;
            const double xhat = (*ls__view_at(&x, n, h, w, c) - mean) * invstd;
            if (pass == 0) {
                dshift += dy;
                dscale += dy * xhat;
                continue;
            }
            if (dadd.data) *ls__view_at(&dadd, n, h, w, c) = (float)dy;
            *ls__view_at(&dx, n, h, w, c) =
                (float)(scale * invstd * (dy - dshift / m - xhat * dscale / m));
        }
    ((float *)call->buffers[8])[c] = (float)dscale;
    ((float *)call->buffers[9])[c] = (float)dshift;
}

const ls__reference ls__reference_norm[LS__N_OPS] = {
    [LS__OP_BATCH_NORM] = { channels, batch_norm },
    [LS__OP_BATCH_NORM_EVAL] = { channels, batch_norm_eval },
    [LS__OP_BATCH_NORM_BACKWARD] = { channels, batch_norm_backward },
};
