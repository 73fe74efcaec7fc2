/* element.h: element-wise arithmetic of kernels, on the CPU and on the GPU: same formulas,
 * same order of operations, same bits. */
#ifndef LS_BASE_ELEMENT_H
#define LS_BASE_ELEMENT_H

#include "base/shared.h"

/* NaN stays. */
LS__SHARED float ls__relu(float x)
{
    return x < 0 ? 0 : x;
}

/* e^x for -87.3 <= x <= 88, within 2 ulp. x = n ln 2 + r with |r| <= ln 2 / 2, e^x = 2^n e^r, e^r
 * by its Taylor series to r^7, whose rest is below 6e-9. ln 2 is split so that n times its first
 * part is exact. */
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

/* e^x for all x <= 88: 0 below -87.3, where the result would be no normal number. NaN stays. */
LS__SHARED float ls__exp(float x)
{
    const float least = -87.3f;
    return x < least ? 0 : ls__exp_inside(x < least ? least : x);
}

/* 1 / (1 + e^-x), within 3 ulp: e^-|x| / (1 + e^-|x|) or 1 / (1 + e^-|x|). Below -87.3 e^x counts
 * as 0. NaN stays. A mask removes what lies outside: where the power is computed under a condition,
 * GCC does not vectorise loops over this. */
LS__SHARED float ls__sigmoid(float x)
{
    const float exponent = -fabsf(x);
    float power = ls__exp_inside(exponent);
    uint32_t bits;
    memcpy(&bits, &power, sizeof bits);
    bits &= (uint32_t)(exponent < -87.3f) - 1;
    memcpy(&power, &bits, sizeof power);
    return (x < 0 ? power : 1) / (1 + power);
}

/* dx from y = sigmoid(x) and dy */
LS__SHARED float ls__sigmoid_gradient(float y, float dy)
{
    return dy * ((1 - y) * y);
}

/* A pixel's byte. */
LS__SHARED float ls__normalize(uint8_t byte, float mean, float std)
{
    return (float)((byte / 255.0 - (double)mean) / (double)std);
}

/* ---- Loss scaling, which keeps f16 gradients from vanishing ---- */

enum {
    LS__LOSS_SCALE_SCALE,   /* a power of two */
    LS__LOSS_SCALE_GOOD,    /* updates since the scale last changed */
    LS__LOSS_SCALE_SKIPPED, /* updates that were not done, for their gradients had overflowed */
    LS__LOSS_SCALE_SIZE
};

/* True if a gradient is infinite or NaN, by the norm of all gradients. */
LS__SHARED bool ls__overflowed(float norm)
{
    return !(norm <= 3.40282347e+38f);
}

/* Whether an update is left out, by the norm of its gradients. scaler NULL: none is. */
LS__SHARED bool ls__skips_update(const float *norm, const float *scaler)
{
    return scaler && ls__overflowed(*norm);
}

/* Micikevicius et al. 2018, "Mixed precision training", section 3.2, with the numbers of PyTorch's
 * GradScaler: half the scale after an overflow, twice after growth_interval updates without. It
 * ends at 2^-24, since 1 / scale must stay finite and a scale of 0 would never grow again. */
LS__SHARED void ls__scaler_update(float *scaler, float norm, int64_t growth_interval)
{
    const float largest = 16777216.0f; /* 2^24, up to which the counts are exact, too */
    const float smallest = 1 / largest;
    if (ls__overflowed(norm)) {
        if (scaler[LS__LOSS_SCALE_SCALE] > smallest)
            scaler[LS__LOSS_SCALE_SCALE] = scaler[LS__LOSS_SCALE_SCALE] * 0.5f;
        scaler[LS__LOSS_SCALE_GOOD] = 0;
        scaler[LS__LOSS_SCALE_SKIPPED] = scaler[LS__LOSS_SCALE_SKIPPED] + 1;
        return;
    }
    scaler[LS__LOSS_SCALE_GOOD] = scaler[LS__LOSS_SCALE_GOOD] + 1;
    if (scaler[LS__LOSS_SCALE_GOOD] < (float)growth_interval) return;
    scaler[LS__LOSS_SCALE_GOOD] = 0;
    if (scaler[LS__LOSS_SCALE_SCALE] < largest)
        scaler[LS__LOSS_SCALE_SCALE] = scaler[LS__LOSS_SCALE_SCALE] * 2;
}

/* How many updates have been done before this one, of `begun`. scaler NULL: all. */
LS__SHARED int64_t ls__updates_done(int64_t begun, const float *scaler)
{
    const int64_t done = scaler ? begun - (int64_t)scaler[LS__LOSS_SCALE_SKIPPED] : begun;
    return done > 0 ? done : 0; /* with two optimizers some may be another's */
}

/* By what gradients are multiplied: so that their norm is at most clip, and 1 / scale. norm NULL or
 * clip 0: as they are. NaN stays. */
LS__SHARED float ls__gradient_factor(const float *norm, float clip, const float *scaler)
{
    float factor = 1;
    if (norm && clip > 0) factor = clip / (*norm + 1e-6f);
    if (factor > 1) factor = 1;
    return scaler ? factor / scaler[LS__LOSS_SCALE_SCALE] : factor;
}

/* ---- Optimizers: the order of float operations is that of PyTorch 1.13's single-tensor
 * optimizers, but for AdamW's decay ---- */

typedef struct ls__sgd_numbers {
    float factor, momentum, share, lr; /* share: 1 - dampening */
    bool first, nesterov;              /* first: the momentum begins as the gradient */
} ls__sgd_numbers;

/* The new parameter. momentum NULL: there is none. */
LS__SHARED float ls__sgd_element(const ls__sgd_numbers *s, float decay, float gradient,
                                 float parameter, float *momentum)
{
    float g = gradient * s->factor;
    if (decay != 0) g = g + decay * parameter;
    if (momentum) {
        const float m = s->first ? g : *momentum * s->momentum + s->share * g;
        *momentum = m;
        g = s->nesterov ? g + s->momentum * m : m;
    }
    return parameter - s->lr * g;
}

/* base^n by squaring: the same bits whatever the C library's pow. */
LS__SHARED double ls__power(double base, int64_t n)
{
    double result = 1;
    for (; n > 0; n /= 2, base *= base)
        if (n % 2) result *= base;
    return result;
}

typedef struct ls__adam_numbers {
    float factor, beta1, beta2, share1, share2; /* shares: 1 - beta */
    float root_correction2, epsilon, step_size;
    double lr;
} ls__adam_numbers;

/* updates: how many have been done, this one counted. */
LS__SHARED ls__adam_numbers ls__adam_numbers_of(float beta1, float beta2, float epsilon, double lr,
                                                int64_t updates, float factor)
{
    ls__adam_numbers s;
    s.factor = factor;
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

typedef enum ls__decay_kind { LS__NO_DECAY, LS__L2_DECAY, LS__DECOUPLED_DECAY } ls__decay_kind;

/* The new parameter. decay: the weight decay of L2, or the share of the parameter that a decoupled
 * decay takes, rate times weight decay. That is taken in one subtraction with the step. By itself
 * it changes so little from update to update that its rounding falls to the same side each time:
 * PyTorch's factor 1 - 1e-5 is off by up to 3e-8, 3e-6 after 100 updates. */
LS__SHARED float ls__adam_element(const ls__adam_numbers *s, ls__decay_kind kind, float decay,
                                  float gradient, float p, float *exp_avg, float *exp_avg_sq)
{
    float g = gradient * s->factor;
    if (kind == LS__L2_DECAY) g = g + decay * p;
    const float m = *exp_avg * s->beta1 + s->share1 * g;
    const float v = *exp_avg_sq * s->beta2 + (s->share2 * g) * g;
    *exp_avg = m;
    *exp_avg_sq = v;
    float step = (s->step_size * m) / (sqrtf(v) / s->root_correction2 + s->epsilon);
    if (kind == LS__DECOUPLED_DECAY) step = step + decay * p;
    return p - step;
}

#endif
