/* optimizer.c: reference gradient norm, SGD and Adam, element by element as PyTorch's single-tensor
 * optimizers compute them, in double. */
#include "cpu/reference/reference.h"
#include <math.h>

/* By what gradients are multiplied so that their norm is at most clip. */
static double clip_factor(const float *norm, double clip)
{
    if (!norm) return 1.0;
    const double factor = clip / (*norm + 1e-6);
    return factor > 1.0 ? 1.0 : factor; /* NaN stays */
}

/* x -> norm */
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
    *(float *)call->buffers[1] = (float)sqrt(sum);
}

/* parameter gradient momentum? norm? ->
 * The momentum's first value is the gradient itself, without dampening. */
static void sgd(const ls__reference_call *call, int64_t task)
{
    (void)task;
    const ls__op *op = call->op;
    float *parameter = call->buffers[0], *momentum = call->buffers[2];
    const float *gradient = call->buffers[1];
    const double factor = clip_factor(call->buffers[3], op->u.sgd.clip_norm);
    const double beta = op->u.sgd.momentum;
    for (int64_t s = 0; s < *op->u.sgd.n_segments; s++) {
        const ls__segment *segment = &op->u.sgd.segments[s];
        for (int64_t i = segment->offset; i < segment->offset + segment->count; i++) {
            double g = factor * gradient[i] + (double)segment->weight_decay * parameter[i];
            if (momentum) {
                const double m = call->step->optimizer_step == 0
                                     ? g
                                     : beta * momentum[i] + (1 - (double)op->u.sgd.dampening) * g;
                momentum[i] = (float)m;
                g = op->u.sgd.nesterov ? g + beta * m : m;
            }
            parameter[i] = (float)(parameter[i] - call->step->rate * g);
        }
    }
}

/* parameter gradient exp_avg exp_avg_sq norm? -> */
static void adam(const ls__reference_call *call, int64_t task)
{
    (void)task;
    const ls__op *op = call->op;
    float *parameter = call->buffers[0], *exp_avg = call->buffers[2],
          *exp_avg_sq = call->buffers[3];
    const float *gradient = call->buffers[1];
    const double factor = clip_factor(call->buffers[4], op->u.adam.clip_norm);
    const double beta1 = op->u.adam.beta1, beta2 = op->u.adam.beta2, rate = call->step->rate;
    const double updates = (double)(call->step->optimizer_step + 1);
    const double correction1 = 1 - pow(beta1, updates), correction2 = 1 - pow(beta2, updates);
    for (int64_t s = 0; s < *op->u.adam.n_segments; s++) {
        const ls__segment *segment = &op->u.adam.segments[s];
        const double decay = segment->weight_decay;
        for (int64_t i = segment->offset; i < segment->offset + segment->count; i++) {
            double p = parameter[i], g = factor * gradient[i];
            if (op->u.adam.decoupled)
                p *= 1 - rate * decay;
            else
                g += decay * p;
            const double m = beta1 * exp_avg[i] + (1 - beta1) * g;
            const double v = beta2 * exp_avg_sq[i] + (1 - beta2) * g * g;
            exp_avg[i] = (float)m;
            exp_avg_sq[i] = (float)v;
            const double denominator = sqrt(v) / sqrt(correction2) + (double)op->u.adam.epsilon;
            parameter[i] = (float)(p - rate / correction1 * m / denominator);
        }
    }
}

const ls__reference ls__reference_optimizer[LS__N_OPS] = {
    [LS__OP_L2_NORM] = { NULL, l2_norm },
    [LS__OP_SGD] = { NULL, sgd },
    [LS__OP_ADAM] = { NULL, adam },
};
