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
    X(GELU, gelu)

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

#endif
