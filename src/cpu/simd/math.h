/* math.h: our own exp (in arith/element.h) and log, from additions and multiplications alone: the
 * same bits on every machine and with every C library. */
#ifndef LS_CPU_SIMD_MATH_H
#define LS_CPU_SIMD_MATH_H

#include "arith/element.h"

/* log x for positive x, within 1e-15 of max(1, |log x|); x itself where it is not finite.
 * x = 2^n m with m in [sqrt(1/2), sqrt(2)), log m = 2 atanh(s), s = (m - 1) / (m + 1), by its
 * series to s^21, whose error is below 1e-17. */
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
