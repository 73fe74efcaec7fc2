/* fma.h: x y + z of 4 floats, rounded once, on every processor. */
#ifndef LS_CPU_SIMD_FMA_H
#define LS_CPU_SIMD_FMA_H

#include "base/strict_math.h"
#include "cpu/simd/compiler.h"

#if defined(__FMA__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

typedef float ls__v4 __attribute__((vector_size(16)));

#if defined(__SSE2__) && !defined(__FMA__)
/* x y + z, rounded to odd: of the two doubles beside an inexact sum, the one whose last bit is 1.
 * A double has more than two bits more than a float, so that this rounding followed by one to float
 * is a single rounding to float (Boldo & Melquiond, "Emulation of FMA and correctly rounded sums",
 * IEEE Transactions on Computers, 2008), of subnormal results too. The operands are floats, so
 * their product is exact. */
LS__ALWAYS_INLINE __m128d ls__fma_to_odd(__m128d x, __m128d y, __m128d z)
{
    const __m128d product = _mm_mul_pd(x, y), sum = _mm_add_pd(product, z);
    /* the error of the sum (Knuth's TwoSum); NaN if the sum is infinite or NaN */
    const __m128d z_part = _mm_sub_pd(sum, product);
    const __m128d error =
        _mm_add_pd(_mm_sub_pd(product, _mm_sub_pd(sum, z_part)), _mm_sub_pd(z, z_part));
    /* the error away from zero, positive where the sum was rounded towards zero */
    const __m128d outward = _mm_xor_pd(error, _mm_and_pd(sum, _mm_set1_pd(-0.0)));
    const __m128d zero = _mm_setzero_pd();
    const __m128i down = _mm_castpd_si128(_mm_cmplt_pd(outward, zero));
    const __m128i up = _mm_castpd_si128(_mm_cmpgt_pd(outward, zero));
    /* Rounds towards zero: the mask `down` is -1. Then sets the last bit of inexact sums. */
    const __m128i towards_zero = _mm_add_epi64(_mm_castpd_si128(sum), down);
    const __m128i inexact = _mm_srli_epi64(_mm_or_si128(down, up), 63);
    return _mm_castsi128_pd(_mm_or_si128(towards_zero, inexact));
}
#endif

LS__ALWAYS_INLINE ls__v4 ls__fma_4(ls__v4 x, ls__v4 y, ls__v4 z)
{
#if defined(__FMA__)
    return _mm_fmadd_ps(x, y, z);
#elif defined(__SSE2__)
    const __m128d low = ls__fma_to_odd(_mm_cvtps_pd(x), _mm_cvtps_pd(y), _mm_cvtps_pd(z));
    const __m128d high =
        ls__fma_to_odd(_mm_cvtps_pd(_mm_movehl_ps(x, x)), _mm_cvtps_pd(_mm_movehl_ps(y, y)),
                       _mm_cvtps_pd(_mm_movehl_ps(z, z)));
    return _mm_movelh_ps(_mm_cvtpd_ps(low), _mm_cvtpd_ps(high));
#elif defined(__aarch64__)
    return (ls__v4)vfmaq_f32((float32x4_t)z, (float32x4_t)x, (float32x4_t)y);
#else
    for (int i = 0; i < 4; i++) z[i] = __builtin_fmaf(x[i], y[i], z[i]);
    return z;
#endif
}

#endif
