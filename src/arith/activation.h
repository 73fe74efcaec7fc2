/* activation.h: the element-wise functions of one input and their gradients, for CPU and GPU
 * kernels.
 */
#ifndef LS_ARITH_ACTIVATION_H
#define LS_ARITH_ACTIVATION_H

#include "arith/element.h"

/* X(OP, name): y = ls__name(x) of LS__OP_OP; dx = ls__name_gradient(a, dy) of LS__OP_OP_BACKWARD,
 * where a is x or y, as the op list says. NaN for NaN. */
#define LS__UNARY_LIST(X)                                                                          \
    X(RELU, relu)                                                                                  \
    X(RELU6, relu6)                                                                                \
    X(SIGMOID, sigmoid)                                                                            \
    X(TANH, tanh)                                                                                  \
    X(SILU, silu)                                                                                  \
    X(GELU, gelu)                                                                                  \
    X(HARD_SIGMOID, hard_sigmoid)                                                                  \
    X(HARD_SWISH, hard_swish)                                                                      \
    X(EXP, float_exp)                                                                              \
    X(LOG, float_log)                                                                              \
    X(SQRT, float_sqrt)                                                                            \
    X(ABS, float_abs)

LS__SHARED float ls__relu_gradient(float y, float dy)
{
    return ls__where(y > 0, dy);
}

LS__SHARED float ls__relu6(float x)
{
    x = x < 0 ? 0 : x;
    return x > 6 ? 6 : x;
}

/* With &, because GCC does not vectorise loops with this &&, which take 5 times as long. */
LS__SHARED float ls__relu6_gradient(float y, float dy)
{
    return ls__where((y > 0) & (y < 6), dy);
}

/* slope >= 0, so that y has the sign of x. */
LS__SHARED float ls__leaky_relu(float x, float slope)
{
    return x < 0 ? slope * x : x;
}

LS__SHARED float ls__leaky_relu_gradient(float y, float dy, float slope)
{
    return y > 0 ? dy : slope * dy;
}

/* min(max(x + 3, 0), 6) / 6 (Howard et al. 2019, "Searching for MobileNetV3"). */
LS__SHARED float ls__hard_sigmoid(float x)
{
    return ls__relu6(x + 3) / 6;
}

LS__SHARED float ls__hard_sigmoid_gradient(float x, float dy)
{
    return ls__where((x > -3) & (x < 3), dy / 6);
}

/* x min(max(x + 3, 0), 6) / 6 (the same). NaN for -infinity, as in PyTorch. */
LS__SHARED float ls__hard_swish(float x)
{
    return x * ls__relu6(x + 3) / 6;
}

LS__SHARED float ls__hard_swish_gradient(float x, float dy)
{
    const float inside = dy * (x / 3 + 0.5f);
    return ls__where(x > -3, x < 3 ? inside : dy);
}

/* The function at the end of a batch norm. */
typedef enum ls__activation {
    LS__ACTIVATION_NONE,
    LS__ACTIVATION_RELU,
    LS__ACTIVATION_RELU6
} ls__activation;

LS__SHARED float ls__activate(ls__activation activation, float x)
{
    return activation == LS__ACTIVATION_RELU    ? ls__relu(x)
           : activation == LS__ACTIVATION_RELU6 ? ls__relu6(x)
                                                : x;
}

/* y before or after the activation. */
LS__SHARED float ls__activation_gradient(ls__activation activation, float y, float dy)
{
    return activation == LS__ACTIVATION_RELU    ? ls__relu_gradient(y, dy)
           : activation == LS__ACTIVATION_RELU6 ? ls__relu6_gradient(y, dy)
                                                : dy;
}

/* e^x for x <= 0: 0 below -87.3. NaN for NaN. A mask replaces a condition, because GCC does not
 * vectorise loops with a conditional power. */
LS__SHARED float ls__exp_negative(float x)
{
    return ls__where(!(x < -87.3f), ls__exp_inside(x));
}

/* 1 / (1 + e^-x), within 3 ulp: e^-|x| / (1 + e^-|x|) or 1 / (1 + e^-|x|). */
LS__SHARED float ls__sigmoid(float x)
{
    const float power = ls__exp_negative(-fabsf(x));
    return (x < 0 ? power : 1) / (1 + power);
}

LS__SHARED float ls__sigmoid_gradient(float y, float dy)
{
    return dy * ((1 - y) * y);
}

/* Within 3 ulp: a polynomial in x^2 (tanhf of Cephes, Moshier 1989) up to |x| = 0.625, then
 * (1 - e^-2|x|) / (1 + e^-2|x|). */
LS__SHARED float ls__tanh(float x)
{
    const float square = x * x, power = ls__exp_negative(-2 * fabsf(x));
    float p = -5.70498872745e-3f;
    p = p * square + 2.06390887954e-2f;
    p = p * square - 5.37397155531e-2f;
    p = p * square + 1.33314422036e-1f;
    p = p * square - 3.33332819422e-1f;
    const float near = p * square * x + x, far = (1 - power) / (1 + power);
    return fabsf(x) < 0.625f ? near : x < 0 ? -far : far;
}

LS__SHARED float ls__tanh_gradient(float y, float dy)
{
    return dy * ((1 - y) * (1 + y));
}

/* x sigmoid(x) (Ramachandran et al. 2017). NaN for -infinity, as in PyTorch. */
LS__SHARED float ls__silu(float x)
{
    return x * ls__sigmoid(x);
}

LS__SHARED float ls__silu_gradient(float x, float dy)
{
    const float s = ls__sigmoid(x);
    return dy * (s * (1 + x * (1 - s)));
}

/* P(x), the distribution function of the standard normal distribution; *power = e^(-x^2 / 2).
 * P(-|x|) = power t q(t), t = 1 / (1 + 0.3 |x|), in the form of Abramowitz & Stegun 1964, 7.1.26.
 * q is a least-maximum fit: its relative error is below 3e-8 up to |x| = 2 and 1e-6 beyond. */
LS__SHARED float ls__normal_cdf(float x, float *power)
{
    const float size = fabsf(x), t = 1 / (1 + 0.3f * size);
    float q = 0.03600869513f;
    q = q * t - 0.158027638f;
    q = q * t + 0.2066368593f;
    q = q * t - 0.05273026900f;
    q = q * t + 0.1273218623f;
    q = q * t + 0.1005374093f;
    q = q * t + 0.1206118320f;
    q = q * t + 0.1196412635f;
    *power = ls__exp_negative(x * (-0.5f * x));
    const float tail = *power * (q * t);
    return x < 0 ? tail : 1 - tail;
}

/* x P(x) (Hendrycks & Gimpel 2016), without the approximation by tanh. NaN for -infinity, as in
 * PyTorch. */
LS__SHARED float ls__gelu(float x)
{
    float power;
    return x * ls__normal_cdf(x, &power);
}

LS__SHARED float ls__gelu_gradient(float x, float dy)
{
    const float root = 0.3989422804f; /* 1 / sqrt(2 pi) */
    float power;
    const float cdf = ls__normal_cdf(x, &power);
    return dy * (cdf + x * (power * root));
}

/* e^x, within 4 ulp: 0 below -87.3, where the result would be subnormal, infinite above 88.7. */
LS__SHARED float ls__float_exp(float x)
{
    const float limited = x > 89 ? 89 : x < -87.3f ? -87.3f : x, e = 2.718281828f;
    const bool large = limited > 88; /* e^(x - 1) is in the range of exp_inside */
    const float power = ls__exp_inside(large ? limited - 1 : limited) * (large ? e : 1);
    return ls__where(!(x < -87.3f), power);
}

LS__SHARED float ls__float_exp_gradient(float y, float dy)
{
    return dy * y;
}

/* ln x, within 2 ulp: x = 2^n m with m in [sqrt(1/2), sqrt(2)), ln m by a polynomial in m - 1 (logf
 * of Cephes, Moshier 1989). -infinity for 0, NaN below. */
LS__SHARED float ls__float_log(float x)
{
    const bool small = x < 0x1p-126f; /* a subnormal number, scaled by 2^23 */
    const float normal = small ? x * 0x1p23f : x;
    const uint32_t root_half = 0x3f3504f3u; /* the bits of sqrt(1/2) */
    uint32_t bits;
    memcpy(&bits, &normal, sizeof bits);
    bits -= root_half;
    const int32_t exponent = (int32_t)bits >> 23;
    bits = (bits & 0x7fffffu) + root_half;
    float m;
    memcpy(&m, &bits, sizeof m);
    const float n = (float)(small ? exponent - 23 : exponent), r = m - 1, square = r * r;
    float p = 7.0376836292e-2f;
    p = p * r - 1.1514610310e-1f;
    p = p * r + 1.1676998740e-1f;
    p = p * r - 1.2420140846e-1f;
    p = p * r + 1.4249322787e-1f;
    p = p * r - 1.6668057665e-1f;
    p = p * r + 2.0000714765e-1f;
    p = p * r - 2.4999993993e-1f;
    p = p * r + 3.3333331174e-1f;
    /* ln 2 in two terms, so that n times the second one is exact */
    const float tail = p * r * square + n * -2.12194440e-4f - 0.5f * square;
    const float y = r + tail + n * 0.693359375f;
    const float edge = x == 0 ? -INFINITY : x < 0 ? NAN : x; /* also infinity and NaN */
    const bool is_inside = (x > 0) & (x < INFINITY);
    return is_inside ? y : edge;
}

LS__SHARED float ls__float_log_gradient(float x, float dy)
{
    return dy / x;
}

LS__SHARED float ls__float_sqrt(float x)
{
    return sqrtf(x);
}

LS__SHARED float ls__float_sqrt_gradient(float y, float dy)
{
    return dy / (2 * y);
}

LS__SHARED float ls__float_abs(float x)
{
    return fabsf(x);
}

/* 0 at 0, as in PyTorch. */
LS__SHARED float ls__float_abs_gradient(float x, float dy)
{
    return ls__where(x != 0, x < 0 ? -dy : dy);
}

#endif
