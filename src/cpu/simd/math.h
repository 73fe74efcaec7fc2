/* math.h: exp and log of our own, from additions and multiplications alone: the same bits on every
 * machine and C library. Without branches, so that loops over them become vector loops. */
#ifndef LS_CPU_SIMD_MATH_H
#define LS_CPU_SIMD_MATH_H

#include <stdint.h>
#include <string.h>

/* e^x for x <= 88, within 2 ulp; 0 below -87.3, where the result would be no normal number.
 * x = n ln 2 + r with |r| <= ln 2 / 2, e^x = 2^n e^r, e^r by its Taylor series to r^7, whose rest
 * is below 6e-9. ln 2 is split so that n times its first part is exact. */
static inline float ls__exp(float x)
{
    const float smallest = -87.3f, to_integer = 0x1.8p23f;
    const float inside = x < smallest ? smallest : x;
    const float shifted = inside * 0x1.715476p+0f + to_integer; /* n in the lowest bits */
    const float n = shifted - to_integer;
    const float r = (inside - n * 0x1.63p-1f) - n * -0x1.bd0106p-13f;
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
    return x < smallest ? 0 : p * power;
}

/* log x for positive x, within 1e-15 of max(1, |log x|); x itself where it is not finite.
 * x = 2^n m with m in [sqrt(1/2), sqrt(2)), log m = 2 atanh(s), s = (m - 1) / (m + 1), by its
 * series to s^21, whose rest is below 1e-17. */
static inline double ls__log(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (bits >> 52 >= 0x7ff) return x;
    /* the exponent, rounded so that m comes near 1; sqrt(1/2) is 0x3fe6a09e... */
    const int64_t n = (int64_t)(bits - UINT64_C(0x3fe6a09e667f3bcd)) >> 52;
    bits -= (uint64_t)n << 52;
    double m;
    memcpy(&m, &bits, sizeof m);
    const double s = (m - 1) / (m + 1), q = s * s;
    double series = 1.0 / 21;
    for (int i = 19; i >= 1; i -= 2) series = series * q + 1.0 / i;
    return (double)n * 0x1.62e42fefa39efp-1 + 2 * s * series;
}

#endif
