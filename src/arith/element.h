/* element.h: element-wise arithmetic of CPU and GPU kernels: the same formulas, order of operations
 * and bits. */
#ifndef LS_ARITH_ELEMENT_H
#define LS_ARITH_ELEMENT_H

#include "base/shared.h"

/* value if the condition holds, else 0. By a bit mask, because a compiler that moves value's load
 * under the condition does not vectorise the loop. */
LS__SHARED float ls__where(bool condition, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits &= (uint32_t) - (int32_t)condition;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* NaN for NaN. */
LS__SHARED float ls__relu(float x)
{
    return x < 0 ? 0 : x;
}

/* e^x for -87.3 <= x <= 88, within 2 ulp. x = n ln 2 + r with |r| <= ln 2 / 2, e^x = 2^n e^r, e^r
 * by its Taylor series up to r^7; the remainder is below 6e-9. ln 2 is split into two terms, so
 * that n times the first one is exact. */
LS__SHARED float ls__exp_inside(float x)
{
    const float to_integer = 0x1.8p23f;
    const float shifted = x * 0x1.715476p+0f + to_integer; /* n in the lowest bits */
    const float n = shifted - to_integer;
    const float r = (x - n * 0x1.63p-1f) - n * -0x1.bd0106p-13f;
    float p = 1 / 5040.0f;
    p = p * r + 1 / 720.0f;
    p = p * r + 1 / 120.0f;
    p = p * r + 1 / 24.0f;
    p = p * r + 1 / 6.0f;
    p = p * r + 0.5f;
    p = (p * r) * r + r + 1;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits - 0x4b400000u + 127) << 23; /* 2^n; 0x4b400000 are the bits of to_integer */
    float power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

/* e^x for all x <= 88: 0 below -87.3, where the result would be subnormal. NaN for NaN. */
LS__SHARED float ls__exp(float x)
{
    const float least = -87.3f;
    return x < least ? 0 : ls__exp_inside(x < least ? least : x);
}

/* A pixel's byte. */
LS__SHARED float ls__normalize(uint8_t byte, float mean, float std)
{
    return (float)((byte / 255.0 - (double)mean) / (double)std);
}

/* ---- Loss scaling, so that f16 gradients do not underflow ---- */

enum {
    LS__LOSS_SCALE_SCALE,   /* a power of two */
    LS__LOSS_SCALE_GOOD,    /* updates since the scale last changed */
    LS__LOSS_SCALE_SKIPPED, /* updates that were skipped because their gradients overflowed */
    LS__LOSS_SCALE_SIZE
};

/* The gradient of the sum of losses with respect to one loss of this weight, of a shard with this
 * share of the total if these are not NULL, times the loss scale if that is not NULL. */
LS__SHARED float ls__gradient_of_loss(float weight, const float *share, const float *total,
                                      const float *grad_scaler)
{
    float dloss = weight;
    if (share) dloss = *total == 0 ? 0 : dloss * (*share / *total);
    return grad_scaler ? dloss * grad_scaler[LS__LOSS_SCALE_SCALE] : dloss;
}

/* True if a gradient is infinite or NaN, by the norm of all gradients. */
LS__SHARED bool ls__overflowed(float norm)
{
    return !(norm <= 3.40282347e+38f);
}

/* True if an update is skipped, by the norm of its gradients; false for grad_scaler NULL. */
LS__SHARED bool ls__skips_update(const float *norm, const float *grad_scaler)
{
    return grad_scaler && ls__overflowed(*norm);
}

/* Micikevicius et al. 2018, "Mixed precision training", section 3.2, with the numbers of PyTorch's
 * GradScaler: the scale is halved after an overflow and doubled after growth_interval updates
 * without one. The minimum is 2^-24, because 1 / scale must be finite and a scale of 0 would stay
 * 0. */
LS__SHARED void ls__grad_scaler_update(float *grad_scaler, float norm, int64_t growth_interval)
{
    const float largest = 16777216.0f; /* 2^24: counts are exact up to this */
    const float smallest = 1 / largest;
    if (ls__overflowed(norm)) {
        if (grad_scaler[LS__LOSS_SCALE_SCALE] > smallest)
            grad_scaler[LS__LOSS_SCALE_SCALE] = grad_scaler[LS__LOSS_SCALE_SCALE] * 0.5f;
        grad_scaler[LS__LOSS_SCALE_GOOD] = 0;
        grad_scaler[LS__LOSS_SCALE_SKIPPED] = grad_scaler[LS__LOSS_SCALE_SKIPPED] + 1;
        return;
    }
    grad_scaler[LS__LOSS_SCALE_GOOD] = grad_scaler[LS__LOSS_SCALE_GOOD] + 1;
    if (grad_scaler[LS__LOSS_SCALE_GOOD] < (float)growth_interval) return;
    grad_scaler[LS__LOSS_SCALE_GOOD] = 0;
    if (grad_scaler[LS__LOSS_SCALE_SCALE] < largest)
        grad_scaler[LS__LOSS_SCALE_SCALE] = grad_scaler[LS__LOSS_SCALE_SCALE] * 2;
}

/* The number of updates before this one, of `begun`, that were not skipped. grad_scaler NULL: all.
 */
LS__SHARED int64_t ls__updates_done(int64_t begun, const float *grad_scaler)
{
    const int64_t done = grad_scaler ? begun - (int64_t)grad_scaler[LS__LOSS_SCALE_SKIPPED] : begun;
    return done > 0 ? done : 0; /* with two optimizers, the count includes both */
}

/* The factor reduces the gradients' norm to clip_norm, and divides by the loss scale. Each gradient
 * is then limited to +-limit, 0 for no limit. */
typedef struct ls__clipping {
    float factor, limit;
} ls__clipping;

/* No clipping by the norm for norm NULL or clip_norm 0, none by value for clip_value 0. The factor
 * is NaN for NaN. */
LS__SHARED ls__clipping ls__clipping_of(const float *norm, float clip_norm, float clip_value,
                                        const float *grad_scaler)
{
    ls__clipping c;
    c.factor = 1;
    c.limit = clip_value;
    if (norm && clip_norm > 0) c.factor = clip_norm / (*norm + 1e-6f);
    if (c.factor > 1) c.factor = 1;
    if (grad_scaler) c.factor = c.factor / grad_scaler[LS__LOSS_SCALE_SCALE];
    return c;
}

/* NaN for NaN. */
LS__SHARED float ls__clip(ls__clipping c, float gradient)
{
    const float g = gradient * c.factor;
    const float limited = g > c.limit ? c.limit : g < -c.limit ? -c.limit : g;
    return c.limit == 0 ? g : limited;
}

/* ---- Optimizers: the order of float operations is that of PyTorch 1.13's single-tensor
 * optimizers, except AdamW's decay ---- */

typedef struct ls__sgd_numbers {
    ls__clipping clipping;
    float momentum, share, lr; /* share: 1 - dampening */
    bool first, nesterov;      /* first: the momentum begins as the gradient */
} ls__sgd_numbers;

/* The new parameter. momentum NULL = no momentum. */
LS__SHARED float ls__sgd_element(const ls__sgd_numbers *s, float decay, float gradient,
                                 float parameter, float *momentum)
{
    float g = ls__clip(s->clipping, gradient);
    if (decay != 0) g = g + decay * parameter;
    if (momentum) {
        const float m = s->first ? g : *momentum * s->momentum + s->share * g;
        *momentum = m;
        g = s->nesterov ? g + s->momentum * m : m;
    }
    return parameter - s->lr * g;
}

/* base^n by squaring: the bits do not depend on the C library's pow. */
LS__SHARED double ls__power(double base, int64_t n)
{
    double result = 1;
    for (; n > 0; n /= 2, base *= base)
        if (n % 2) result *= base;
    return result;
}

typedef struct ls__adam_numbers {
    ls__clipping clipping;
    float beta1, beta2, share1, share2; /* shares: 1 - beta */
    float root_correction2, epsilon, step_size;
    double lr;
} ls__adam_numbers;

/* updates: their number, including this one. */
LS__SHARED ls__adam_numbers ls__adam_numbers_of(float beta1, float beta2, float epsilon, double lr,
                                                int64_t updates, ls__clipping clipping)
{
    ls__adam_numbers s;
    s.clipping = clipping;
    s.beta1 = beta1;
    s.beta2 = beta2;
    s.share1 = (float)(1 - (double)beta1);
    s.share2 = (float)(1 - (double)beta2);
    s.root_correction2 = (float)sqrt(1 - ls__power((double)beta2, updates));
    s.epsilon = epsilon;
    s.step_size = (float)(lr / (1 - ls__power((double)beta1, updates)));
    s.lr = lr;
    return s;
}

/* The same with the learning rate times lr_scale. */
LS__SHARED ls__adam_numbers ls__adam_scaled(const ls__adam_numbers *numbers, float lr_scale)
{
    ls__adam_numbers s = *numbers;
    s.step_size = s.step_size * lr_scale;
    s.lr = s.lr * (double)lr_scale;
    return s;
}

typedef enum ls__decay_kind { LS__NO_DECAY, LS__L2_DECAY, LS__DECOUPLED_DECAY } ls__decay_kind;

/* The new parameter. decay: the L2 weight decay, or for decoupled decay lr times weight decay. One
 * subtraction applies the decoupled decay together with the step. A separate factor would be
 * rounded to the same side in each update: the error of PyTorch's factor 1 - 1e-5 is up to 3e-8,
 * and 3e-6 after 100 updates. */
LS__SHARED float ls__adam_element(const ls__adam_numbers *s, ls__decay_kind kind, float decay,
                                  float gradient, float p, float *exp_avg, float *exp_avg_sq)
{
    float g = ls__clip(s->clipping, gradient);
    if (kind == LS__L2_DECAY) g = g + decay * p;
    const float m = *exp_avg * s->beta1 + s->share1 * g;
    const float v = *exp_avg_sq * s->beta2 + (s->share2 * g) * g;
    *exp_avg = m;
    *exp_avg_sq = v;
    float step = (s->step_size * m) / (sqrtf(v) / s->root_correction2 + s->epsilon);
    if (kind == LS__DECOUPLED_DECAY) step = step + decay * p;
    return p - step;
}

/* The sum of a batch's gradients and of those of the `accumulated` batches before it. */
LS__SHARED float ls__gradient_sum(int64_t accumulated, float sum, float gradient)
{
    return accumulated == 0 ? gradient : sum + gradient;
}

/* Running statistics; sum: over n shards, of momentum times the statistics of each. */
LS__SHARED float ls__running_statistic(float running, float momentum, float sum, int64_t n)
{
    const double kept = (1 - (double)momentum) * (double)running;
    return momentum == 0 ? running : (float)(kept + (double)sum / (double)n);
}

/* The new moving average; share: 1 - decay. The average of a constant is the constant itself. */
LS__SHARED float ls__ema_element(float share, float average, float parameter)
{
    return average + share * (parameter - average);
}

typedef struct ls__rmsprop_numbers {
    ls__clipping clipping;
    float alpha, share, epsilon, momentum, lr; /* share: 1 - alpha */
} ls__rmsprop_numbers;

/* The new parameter. grad_avg NULL = not centered; momentum NULL = none. */
LS__SHARED float ls__rmsprop_element(const ls__rmsprop_numbers *s, float decay, float gradient,
                                     float p, float *square_avg, float *grad_avg, float *momentum)
{
    float g = ls__clip(s->clipping, gradient);
    if (decay != 0) g = g + decay * p;
    float v = *square_avg * s->alpha + (s->share * g) * g;
    *square_avg = v;
    if (grad_avg) {
        const float mean = *grad_avg * s->alpha + s->share * g;
        *grad_avg = mean;
        v = v - mean * mean;
        if (v < 0) v = 0; /* by rounding */
    }
    const float root = sqrtf(v) + s->epsilon;
    if (!momentum) return p - (s->lr * g) / root;
    const float m = *momentum * s->momentum + g / root;
    *momentum = m;
    return p - s->lr * m;
}

#endif
