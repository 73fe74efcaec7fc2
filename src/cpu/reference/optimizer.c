/* optimizer.c: reference gradient norm, SGD and Adam, element by element as PyTorch's single-tensor
 * optimizers compute them, in double; loss scaling. */
#include "base/element.h"
#include "cpu/reference/reference.h"
#include <math.h>

static double scale_of(const float *scaler)
{
    return scaler ? scaler[LS__LOSS_SCALE_SCALE] : 1.0;
}

/* By what gradients are multiplied: so that their norm is at most clip, and by 1 / loss scale. */
static double gradient_factor(const float *norm, double clip, const float *scaler)
{
    const double factor = norm && clip > 0 ? clip / (*norm + 1e-6) : 1.0;
    return (factor > 1.0 ? 1.0 : factor) / scale_of(scaler); /* NaN stays */
}

/* With loss scaling, gradients that overflowed change nothing. */
static bool skips(const float *norm, const float *scaler)
{
    return scaler && !isfinite(*norm);
}

/* x scaler? -> norm */
static void l2_norm(const ls__reference_call *call, int64_t task)
{
    (void)task;
    const float *x = call->buffers[0];
    double sum = 0.0;
    for (int64_t s = 0; s < *call->op->u.l2_norm.n_segments; s++) {
        const ls__segment *segment = &call->op->u.l2_norm.segments[s];
        for (int64_t i = segment->offset; i < segment->offset + segment->count; i++)
            sum += (double)x[i] * x[i];
    }
    *(float *)call->buffers[2] = (float)(sqrt(sum) / scale_of(call->buffers[1]));
}

/* parameter gradient momentum? norm? scaler? ->
 * The momentum's first value is the gradient itself, without dampening. */
static void sgd(const ls__reference_call *call, int64_t task)
{
    (void)task;
    const ls__op *op = call->op;
    float *parameter = call->buffers[0], *momentum = call->buffers[2];
    const float *gradient = call->buffers[1], *norm = call->buffers[3], *scaler = call->buffers[4];
    if (skips(norm, scaler)) return;
    const bool first = ls__updates_done(call->step->optimizer_step, scaler) == 0;
    const double factor = gradient_factor(norm, op->u.sgd.clip_norm, scaler);
    const double beta = op->u.sgd.momentum;
    for (int64_t s = 0; s < *op->u.sgd.n_segments; s++) {
        const ls__segment *segment = &op->u.sgd.segments[s];
        for (int64_t i = segment->offset; i < segment->offset + segment->count; i++) {
            double g = factor * gradient[i] + (double)segment->weight_decay * parameter[i];
            if (momentum) {
                const double m =
                    first ? g : beta * momentum[i] + (1 - (double)op->u.sgd.dampening) * g;
                momentum[i] = (float)m;
                g = op->u.sgd.nesterov ? g + beta * m : m;
            }
            parameter[i] = (float)(parameter[i] - call->step->lr * g);
        }
    }
}

/* parameter gradient exp_avg exp_avg_sq norm? scaler? -> */
static void adam(const ls__reference_call *call, int64_t task)
{
    (void)task;
    const ls__op *op = call->op;
    float *parameter = call->buffers[0], *exp_avg = call->buffers[2],
          *exp_avg_sq = call->buffers[3];
    const float *gradient = call->buffers[1], *norm = call->buffers[4], *scaler = call->buffers[5];
    if (skips(norm, scaler)) return;
    const double factor = gradient_factor(norm, op->u.adam.clip_norm, scaler);
    const double beta1 = op->u.adam.beta1, beta2 = op->u.adam.beta2, lr = call->step->lr;
    const double updates = (double)(ls__updates_done(call->step->optimizer_step, scaler) + 1);
    const double correction1 = 1 - pow(beta1, updates), correction2 = 1 - pow(beta2, updates);
    for (int64_t s = 0; s < *op->u.adam.n_segments; s++) {
        const ls__segment *segment = &op->u.adam.segments[s];
        const double decay = segment->weight_decay;
        for (int64_t i = segment->offset; i < segment->offset + segment->count; i++) {
            double p = parameter[i], g = factor * gradient[i];
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

/* weight scaler -> dloss */
static void loss_scale(const ls__reference_call *call, int64_t task)
{
    (void)task;
    const float *weight = call->buffers[0];
    *(float *)call->buffers[2] = (float)(*weight * scale_of(call->buffers[1]));
}

/* norm scaler -> */
static void loss_scale_update(const ls__reference_call *call, int64_t task)
{
    (void)task;
    ls__scaler_update(call->buffers[1], *(const float *)call->buffers[0],
                      call->op->u.loss_scale.growth_interval);
}

const ls__reference ls__reference_optimizer[LS__N_OPS] = {
    [LS__OP_LOSS_SCALE] = { NULL, loss_scale },
    [LS__OP_L2_NORM] = { NULL, l2_norm },
    [LS__OP_SGD] = { NULL, sgd },
    [LS__OP_ADAM] = { NULL, adam },
    [LS__OP_LOSS_SCALE_UPDATE] = { NULL, loss_scale_update },
};
