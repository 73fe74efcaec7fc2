/* optimizer.c: reference gradient accumulation, sums over shards, gradient norm, SGD, Adam and
 * RMSprop, element by element as PyTorch's single-tensor optimizers compute them, in double; loss
 * scaling. */
#include "arith/element.h"
#include "reference.h"
#include <math.h>

static double scale_of(const float *grad_scaler)
{
    return grad_scaler ? grad_scaler[LS__LOSS_SCALE_SCALE] : 1.0;
}

/* A gradient divided by the loss scale and clipped. NaN stays. */
static double clip(const ls__op *op, const float *norm, const float *grad_scaler, double gradient)
{
    const double clip_norm = op->u.block.clip_norm, limit = op->u.block.clip_value;
    const double factor = norm && clip_norm > 0 ? clip_norm / (*norm + 1e-6) : 1.0;
    const double g = gradient * (factor > 1.0 ? 1.0 : factor) / scale_of(grad_scaler);
    if (limit == 0) return g;
    return g > limit ? limit : g < -limit ? -limit : g;
}

/* With loss scaling, an update whose gradients overflowed is skipped. */
static bool skips(const float *norm, const float *grad_scaler)
{
    return grad_scaler && !isfinite(*norm);
}

/* gradient sum -> */
static void gradient_sum(const reference_call *call, int64_t task)
{
    (void)task;
    const float *gradient = call->buffers[0];
    float *sum = call->buffers[1];
    const bool first = call->step->accumulated == 0;
    for (int64_t i = 0; i < ls_shape_element_count(&call->op->operands[0].shape); i++)
        sum[i] = first ? gradient[i] : (float)((double)sum[i] + gradient[i]);
}

/* gradient sum -> */
static void gradient_mean(const reference_call *call, int64_t task)
{
    (void)task;
    float *gradient = call->buffers[0];
    const float *sum = call->buffers[1];
    const double before = (double)call->step->accumulated;
    for (int64_t i = 0; i < ls_shape_element_count(&call->op->operands[0].shape); i++)
        gradient[i] = (float)(((before > 0 ? (double)sum[i] : 0) + gradient[i]) / (before + 1));
}

/* x weight? total? sums -> y. In f32, whose roundings define the result. */
static void shard_sum(const reference_call *call, int64_t task)
{
    (void)task;
    const ls__step *step = call->step;
    const int64_t n = ls_shape_element_count(&call->op->operands[0].shape);
    const float *x = call->buffers[0], *weight = call->buffers[1], *total = call->buffers[2];
    float *sums = call->buffers[3], *y = call->buffers[4];
    for (int64_t i = 0; i < n; i++) {
        float sum = weight ? x[i] * *weight : x[i];
        for (int64_t m = 1; m <= step->n_merged; m++) sum = sums[(step->n_sums - m) * n + i] + sum;
        if (!step->is_last_shard)
            sums[(step->n_sums - step->n_merged) * n + i] = sum;
        else
            y[i] = total && *total != 0 ? sum / *total : sum;
    }
}

/* rows total? -> y? */
static void tree_sum(const reference_call *call, int64_t task)
{
    (void)task;
    const ls__merges *merges = &call->op->u.merges;
    const int64_t n = call->op->operands[0].shape.dims[1];
    float *rows = call->buffers[0], *y = call->buffers[2];
    const float *total = call->buffers[1];
    for (int64_t i = 0; i < n; i++) {
        int n_sums = 0;
        for (int row = 0; row < merges->n_rows; row++) {
            float sum = rows[row * n + i];
            for (int m = 0; m < merges->n_merged[row]; m++) sum = rows[--n_sums * n + i] + sum;
            if (y && row + 1 == merges->n_rows)
                y[i] = total && *total != 0 ? sum / *total : sum;
            else
                rows[n_sums++ * n + i] = sum;
        }
    }
}

/* sum momentum running -> */
static void running_statistics(const reference_call *call, int64_t task)
{
    (void)task;
    const float *sum = call->buffers[0], *momentum = call->buffers[1];
    float *running = call->buffers[2];
    for (int64_t i = 0; i < ls_shape_element_count(&call->op->operands[0].shape); i++)
        if (momentum[i] != 0)
            running[i] = (float)((1.0 - momentum[i]) * running[i] +
                                 (double)sum[i] / (double)call->step->n_shards);
}

/* x grad_scaler? -> norm */
static void l2_norm(const reference_call *call, int64_t task)
{
    (void)task;
    const float *x = call->buffers[0];
    double sum = 0.0;
    for (int64_t s = 0; s < *call->op->u.block.n_segments; s++) {
        const ls__segment *segment = &call->op->u.block.segments[s];
        for (int64_t i = segment->offset; i < segment->offset + segment->count; i++)
            sum += (double)x[i] * x[i];
    }
    *(float *)call->buffers[2] = (float)(sqrt(sum) / scale_of(call->buffers[1]));
}

/* parameter gradient momentum? norm? grad_scaler? ->
 * The momentum's first value is the gradient itself, without dampening. */
static void sgd(const reference_call *call, int64_t task)
{
    (void)task;
    const ls__op *op = call->op;
    float *parameter = call->buffers[0], *momentum = call->buffers[2];
    const float *gradient = call->buffers[1], *norm = call->buffers[3],
                *grad_scaler = call->buffers[4];
    if (skips(norm, grad_scaler)) return;
    const bool first = ls__updates_done(call->step->optimizer_step, grad_scaler) == 0;
    const double beta = op->u.sgd.momentum;
    for (int64_t s = 0; s < *op->u.block.n_segments; s++) {
        const ls__segment *segment = &op->u.block.segments[s];
        for (int64_t i = segment->offset; i < segment->offset + segment->count; i++) {
            double g = clip(op, norm, grad_scaler, gradient[i]) +
                       (double)segment->weight_decay * parameter[i];
            if (momentum) {
                const double m =
                    first ? g : beta * momentum[i] + (1 - (double)op->u.sgd.dampening) * g;
                momentum[i] = (float)m;
                g = op->u.sgd.nesterov ? g + beta * m : m;
            }
            parameter[i] = (float)(parameter[i] - call->step->lr * segment->lr_scale * g);
        }
    }
}

/* parameter gradient exp_avg exp_avg_sq norm? grad_scaler? -> */
static void adam(const reference_call *call, int64_t task)
{
    (void)task;
    const ls__op *op = call->op;
    float *parameter = call->buffers[0], *exp_avg = call->buffers[2],
          *exp_avg_sq = call->buffers[3];
    const float *gradient = call->buffers[1], *norm = call->buffers[4],
                *grad_scaler = call->buffers[5];
    if (skips(norm, grad_scaler)) return;
    const double beta1 = op->u.adam.beta1, beta2 = op->u.adam.beta2;
    const double updates = (double)(ls__updates_done(call->step->optimizer_step, grad_scaler) + 1);
    const double correction1 = 1 - pow(beta1, updates), correction2 = 1 - pow(beta2, updates);
    for (int64_t s = 0; s < *op->u.block.n_segments; s++) {
        const ls__segment *segment = &op->u.block.segments[s];
        const double decay = segment->weight_decay, lr = call->step->lr * segment->lr_scale;
        for (int64_t i = segment->offset; i < segment->offset + segment->count; i++) {
            double p = parameter[i], g = clip(op, norm, grad_scaler, gradient[i]);
            if (op->u.adam.decoupled)
                p *= 1 - lr * decay;
            else
                g += decay * p;
            const double m = beta1 * exp_avg[i] + (1 - beta1) * g;
            const double v = beta2 * exp_avg_sq[i] + (1 - beta2) * g * g;
            exp_avg[i] = (float)m;
            exp_avg_sq[i] = (float)v;
            const double denominator = sqrt(v) / sqrt(correction2) + (double)op->u.adam.epsilon;
            parameter[i] = (float)(p - lr / correction1 * m / denominator);
        }
    }
}

/* parameter gradient square_avg grad_avg? momentum? norm? grad_scaler? -> */
static void rmsprop(const reference_call *call, int64_t task)
{
    (void)task;
    const ls__op *op = call->op;
    float *parameter = call->buffers[0], *square_avg = call->buffers[2],
          *grad_avg = call->buffers[3], *momentum = call->buffers[4];
    const float *gradient = call->buffers[1], *norm = call->buffers[5],
                *grad_scaler = call->buffers[6];
    if (skips(norm, grad_scaler)) return;
    const double alpha = op->u.rmsprop.alpha;
    for (int64_t s = 0; s < *op->u.block.n_segments; s++) {
        const ls__segment *segment = &op->u.block.segments[s];
        for (int64_t i = segment->offset; i < segment->offset + segment->count; i++) {
            const double g = clip(op, norm, grad_scaler, gradient[i]) +
                             (double)segment->weight_decay * parameter[i];
            const double v = alpha * square_avg[i] + (1 - alpha) * g * g;
            const double mean = grad_avg ? alpha * grad_avg[i] + (1 - alpha) * g : 0;
            /* below 0 by the rounding of the averages */
            const double variance = fmax(v - mean * mean, 0);
            const double root = sqrt(variance) + (double)op->u.rmsprop.epsilon;
            const double m =
                (momentum ? (double)op->u.rmsprop.momentum * momentum[i] : 0) + g / root;
            square_avg[i] = (float)v;
            if (grad_avg) grad_avg[i] = (float)mean;
            if (momentum) momentum[i] = (float)m;
            parameter[i] = (float)(parameter[i] - call->step->lr * segment->lr_scale * m);
        }
    }
}

/* parameter average norm? grad_scaler? -> */
static void ema(const reference_call *call, int64_t task)
{
    (void)task;
    const float *parameter = call->buffers[0], *grad_scaler = call->buffers[3];
    float *average = call->buffers[1];
    if (skips(call->buffers[2], grad_scaler)) return;
    const bool first = ls__updates_done(call->step->optimizer_step, grad_scaler) == 0;
    const double decay = first ? 0 : call->op->u.ema.decay;
    for (int64_t i = 0; i < ls_shape_element_count(&call->op->operands[0].shape); i++)
        average[i] = (float)(decay * average[i] + (1 - decay) * parameter[i]);
}

/* weight share? total? grad_scaler? -> dloss */
static void loss_scale(const reference_call *call, int64_t task)
{
    (void)task;
    const float *weight = call->buffers[0], *share = call->buffers[1], *total = call->buffers[2];
    const double part = !share ? 1.0 : *total == 0 ? 0.0 : (double)*share / *total;
    *(float *)call->buffers[4] = (float)(*weight * part * scale_of(call->buffers[3]));
}

/* norm grad_scaler -> */
static void loss_scale_update(const reference_call *call, int64_t task)
{
    (void)task;
    ls__grad_scaler_update(call->buffers[1], *(const float *)call->buffers[0],
                           call->op->u.loss_scale.growth_interval);
}

const reference_row reference_optimizer[LS__N_OPS] = {
    [LS__OP_LOSS_SCALE] = { loss_scale },
    [LS__OP_GRADIENT_SUM] = { gradient_sum },
    [LS__OP_GRADIENT_MEAN] = { gradient_mean },
    [LS__OP_SHARD_SUM] = { shard_sum },
    [LS__OP_TREE_SUM] = { tree_sum },
    [LS__OP_RUNNING_STATISTICS] = { running_statistics },
    [LS__OP_L2_NORM] = { l2_norm },
    [LS__OP_SGD] = { sgd },
    [LS__OP_ADAM] = { adam },
    [LS__OP_RMSPROP] = { rmsprop },
    [LS__OP_EMA] = { ema },
    [LS__OP_LOSS_SCALE_UPDATE] = { loss_scale_update },
};
