/* norm.c: reference batch normalisation (Ioffe & Szegedy 2015). With m = N*H*W values per channel,
 * xhat = (x - mean) / sqrt(variance + epsilon), y = activation(scale xhat + shift + add?):
 *   dshift = sum dy,  dscale = sum dy xhat,
 *   dx = scale / sqrt(variance + epsilon) (dy - dshift / m - xhat dscale / m),
 * which is p dy + q x + r for a channel's p, q and r. */
#include "reference.h"
#include <math.h>

/* Element i of channel c in each place. */
#define FOR_EACH_PLACE(v) for (int64_t i = c; i < (v).n * (v).h * (v).w * (v).c; i += (v).c)

static double value_of(const reference_call *call, int operand, int64_t c)
{
    return ((const float *)call->buffers[operand])[c];
}

/* The operand after scale is shift. */
static void apply(const reference_call *call, int64_t c, double mean, double invstd,
                  int scale_operand, int y_operand)
{
    const tensor_view x = view_of(call, 0), y = view_of(call, y_operand);
    const tensor_view add = view_of(call, 5);
    const double scale = value_of(call, scale_operand, c);
    const double shift = value_of(call, scale_operand + 1, c);
    const ls__activation activation = call->op->u.norm.activation;
    FOR_EACH_PLACE(x)
    {
        double value = (x.data[i] - mean) * invstd * scale + shift;
        if (add.data) value += add.data[i];
        if (activation && value < 0) value = 0;
        if (activation == LS__ACTIVATION_RELU6 && value > 6) value = 6;
        y.data[i] = (float)value;
    }
}

/* Updates the running statistics by those of a channel's m values, and writes the outputs mean and
 * invstd. Returns invstd. */
static double keep_statistics(const reference_call *call, int64_t c, double m, double mean,
                              double variance, float *running_mean, float *running_var,
                              int mean_operand)
{
    const double momentum = call->op->u.norm.momentum;
    const double unbiased = m > 1 ? variance * m / (m - 1) : variance;
    running_mean[c] = (float)((1 - momentum) * running_mean[c] + momentum * mean);
    running_var[c] = (float)((1 - momentum) * running_var[c] + momentum * unbiased);
    const double invstd = 1 / sqrt(variance + (double)call->op->u.norm.epsilon);
    ((float *)call->buffers[mean_operand])[c] = (float)mean;
    ((float *)call->buffers[mean_operand + 1])[c] = (float)invstd;
    return invstd;
}

/* x scale shift running_mean running_var add? -> y mean invstd */
static void batch_norm(const reference_call *call, int64_t c)
{
    const tensor_view x = view_of(call, 0);
    const double m = (double)(x.n * x.h * x.w);
    double mean = 0.0, variance = 0.0;
    FOR_EACH_PLACE(x) mean += x.data[i];
    mean /= m;
    FOR_EACH_PLACE(x)
    {
        const double d = x.data[i] - mean;
        variance += d * d;
    }
    variance /= m;
    (void)keep_statistics(call, c, m, mean, variance, call->buffers[3], call->buffers[4], 7);
    /* The saved values are read, so that NORM_APPLY gives the same bits. */
    apply(call, c, value_of(call, 7, c), value_of(call, 8, c), 1, 6);
}

/* x scale shift running_mean running_var add? -> y */
static void batch_norm_eval(const reference_call *call, int64_t c)
{
    const double mean = value_of(call, 3, c);
    const double variance = value_of(call, 4, c);
    apply(call, c, mean, 1 / sqrt(variance + (double)call->op->u.norm.epsilon), 1, 6);
}

/* Operands of the backward ops whose operands begin with x y? dy1 dy2?. */
typedef struct gradient_views {
    tensor_view y, dy1, dy2;
    ls__activation activation;
} gradient_views;

static gradient_views gradient_views_of(const reference_call *call)
{
    return (gradient_views){ view_of(call, 1), view_of(call, 2), view_of(call, 3),
                             call->op->u.norm.activation };
}

/* The activation gradient of (y, dy1 + dy2?). */
static double gradient_at(const gradient_views *v, int64_t i)
{
    double dy = v->dy1.data[i];
    if (v->dy2.data) dy += v->dy2.data[i];
    if (v->activation && !(v->y.data[i] > 0)) dy = 0;
    if (v->activation == LS__ACTIVATION_RELU6 && !(v->y.data[i] < 6)) dy = 0;
    return dy;
}

/* x y? dy1 dy2? scale mean invstd shift? -> dx dscale dshift dadd? */
static void batch_norm_backward(const reference_call *call, int64_t c)
{
    const tensor_view x = view_of(call, 0);
    const tensor_view dx = view_of(call, 8), dadd = view_of(call, 11);
    const double scale = value_of(call, 4, c);
    const double mean = value_of(call, 5, c);
    const double invstd = value_of(call, 6, c);
    const double m = (double)(x.n * x.h * x.w);
    const gradient_views gradient = gradient_views_of(call);
    double dshift = 0.0, dscale = 0.0;
    for (int pass = 0; pass < 2; pass++) FOR_EACH_PLACE(x)
        {
            /* dx and dadd may be dy1's and dy2's memory. Both are written in the second pass only,
             * after the gradient of the place was read. */
            const double dy = gradient_at(&gradient, i);
            const double xhat = (x.data[i] - mean) * invstd;
            if (pass == 0) {
                dshift += dy;
                dscale += dy * xhat;
                continue;
            }
            if (dadd.data) dadd.data[i] = (float)dy;
            dx.data[i] = (float)(scale * invstd * (dy - dshift / m - xhat * dscale / m));
        }
    ((float *)call->buffers[9])[c] = (float)dscale;
    ((float *)call->buffers[10])[c] = (float)dshift;
}

/* sum squares scale shift running_mean running_var -> mean invstd a b */
static void norm_finalize(const reference_call *call, int64_t c)
{
    float *const *vectors = (float *const *)call->buffers;
    const double m = (double)call->op->u.norm.count, mean = vectors[0][c] / m;
    const double difference = vectors[1][c] / m - mean * mean;
    const double variance = difference > 0 ? difference : 0; /* sums are rounded */
    const double invstd = keep_statistics(call, c, m, mean, variance, vectors[4], vectors[5], 6);
    const double a = invstd * vectors[2][c];
    vectors[8][c] = (float)a;
    vectors[9][c] = (float)(vectors[3][c] - mean * a);
}

/* x mean invstd scale shift add? -> y */
static void norm_apply(const reference_call *call, int64_t c)
{
    apply(call, c, value_of(call, 1, c), value_of(call, 2, c), 3, 6);
}

/* dz x p q r -> dx */
static void norm_backward_apply(const reference_call *call, int64_t c)
{
    const tensor_view dz = view_of(call, 0), x = view_of(call, 1), dx = view_of(call, 5);
    const double p = value_of(call, 2, c), q = value_of(call, 3, c), r = value_of(call, 4, c);
    FOR_EACH_PLACE(x)
    dx.data[i] = (float)(p * dz.data[i] + q * x.data[i] + r);
}

/* ---- With the statistics of all shards: see arith/norm_sums.h ---- */

static void put_sums(const reference_call *call, int operand, int64_t c, const double sums[2])
{
    const int64_t channels = call->op->operands[operand].shape.dims[2];
    float *row = (float *)call->buffers[operand] + 4 * channels * call->step->shard;
    for (int i = 0; i < 2; i++) {
        const float nearest = (float)sums[i];
        row[2 * i * channels + c] = nearest;
        row[(2 * i + 1) * channels + c] = (float)(sums[i] - nearest);
    }
}

/* The sums of operand 0 over the shards, divided by the number of values. Returns that number. */
static double mean_sums(const reference_call *call, int64_t c, double means[2])
{
    const int64_t channels = call->op->operands[0].shape.dims[2];
    const double m = (double)(call->step->n_samples * call->op->u.norm.count);
    const float *rows = call->buffers[0];
    means[0] = means[1] = 0.0;
    for (int64_t i = 0; i < 4 * call->step->n_shards; i++)
        means[i / 2 % 2] += rows[i * channels + c];
    for (int i = 0; i < 2; i++) means[i] /= m;
    return m;
}

/* x moments -> */
static void norm_moments(const reference_call *call, int64_t c)
{
    const tensor_view x = view_of(call, 0);
    double sums[2] = { 0.0, 0.0 };
    FOR_EACH_PLACE(x)
    {
        const double value = x.data[i];
        sums[0] += value;
        sums[1] += value * value;
    }
    put_sums(call, 1, c, sums);
}

/* moments running_mean running_var -> mean invstd */
static void norm_statistics(const reference_call *call, int64_t c)
{
    double means[2];
    const double m = mean_sums(call, c, means), variance = means[1] - means[0] * means[0];
    (void)keep_statistics(call, c, m, means[0], variance > 0 ? variance : 0, call->buffers[1],
                          call->buffers[2], 3);
}

/* x y? dy1 dy2? scale mean invstd shift? products -> dscale dshift dz? */
static void norm_backward_products(const reference_call *call, int64_t c)
{
    const tensor_view x = view_of(call, 0), dz = view_of(call, 11);
    const gradient_views gradient = gradient_views_of(call);
    const double mean = value_of(call, 5, c), invstd = value_of(call, 6, c);
    double sums[2] = { 0.0, 0.0 };
    FOR_EACH_PLACE(x)
    {
        const double dy = gradient_at(&gradient, i);
        sums[0] += dy;
        sums[1] += dy * (x.data[i] - mean) * invstd;
        if (dz.data) dz.data[i] = (float)dy;
    }
    put_sums(call, 8, c, sums);
    ((float *)call->buffers[9])[c] = (float)sums[1];
    ((float *)call->buffers[10])[c] = (float)sums[0];
}

/* products scale mean invstd -> p q r */
static void norm_backward_coefficients(const reference_call *call, int64_t c)
{
    double means[2];
    (void)mean_sums(call, c, means);
    const double mean = value_of(call, 2, c), invstd = value_of(call, 3, c);
    const double p = value_of(call, 1, c) * invstd, q = -p * invstd * means[1];
    ((float *)call->buffers[4])[c] = (float)p;
    ((float *)call->buffers[5])[c] = (float)q;
    ((float *)call->buffers[6])[c] = (float)(-p * means[0] - q * mean);
}

const reference_row reference_norm[LS__N_OPS] = {
    [LS__OP_BATCH_NORM] = { batch_norm, TASK_PER_CHANNEL },
    [LS__OP_BATCH_NORM_EVAL] = { batch_norm_eval, TASK_PER_CHANNEL },
    [LS__OP_BATCH_NORM_BACKWARD] = { batch_norm_backward, TASK_PER_CHANNEL },
    [LS__OP_NORM_FINALIZE] = { norm_finalize, TASK_PER_CHANNEL },
    [LS__OP_NORM_APPLY] = { norm_apply, TASK_PER_CHANNEL },
    [LS__OP_NORM_MOMENTS] = { norm_moments, TASK_PER_CHANNEL },
    [LS__OP_NORM_STATISTICS] = { norm_statistics, TASK_PER_CHANNEL, 1 },
    [LS__OP_NORM_BACKWARD_PRODUCTS] = { norm_backward_products, TASK_PER_CHANNEL },
    [LS__OP_NORM_BACKWARD_COEFFICIENTS] = { norm_backward_coefficients, TASK_PER_CHANNEL, 1 },
    [LS__OP_NORM_BACKWARD_APPLY] = { norm_backward_apply, TASK_PER_CHANNEL },
};
