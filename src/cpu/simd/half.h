/* half.h: vectors of floats from and to bf16 and f16 in memory, rounded as in arith/half.h. */
#ifndef LS_CPU_SIMD_HALF_H
#define LS_CPU_SIMD_HALF_H

#include "arith/half.h"
#include "base/strict_math.h"
#include "cpu/simd/compiler.h"
#include <stdint.h>

#if defined(__AVX2__)
#include <immintrin.h>

LS__ALWAYS_INLINE __m256 ls__load_8_bf16(const uint16_t *from)
{
    const __m256i bits =
        _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
}

LS__ALWAYS_INLINE void ls__store_8_bf16(uint16_t *to, __m256 v)
{
    const __m256i bits = _mm256_castps_si256(v), high = _mm256_srli_epi32(bits, 16);
    const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    const __m256i half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, half), 16);
    const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    const __m256i all = _mm256_blendv_epi8(rounded, quiet, is_nan);
    const __m128i low_half = _mm256_castsi256_si128(all);
    _mm_storeu_si128((__m128i *)(void *)to,
                     _mm_packus_epi32(low_half, _mm256_extracti128_si256(all, 1)));
}

#if defined(__F16C__)
LS__ALWAYS_INLINE void ls__read_8_f16(const uint16_t *from, float *to)
{
    const __m128i values = _mm_loadu_si128((const __m128i *)(const void *)from);
    _mm256_storeu_ps(to, _mm256_cvtph_ps(values));
}

LS__ALWAYS_INLINE void ls__write_8_f16(const float *from, uint16_t *to)
{
    _mm_storeu_si128((__m128i *)(void *)to, _mm256_cvtps_ph(_mm256_loadu_ps(from), 0));
}
#endif

#if defined(__AVX512F__)
LS__ALWAYS_INLINE __m512 ls__load_16_bf16(const uint16_t *from)
{
    const __m512i bits =
        _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
}

LS__ALWAYS_INLINE void ls__store_16_bf16(uint16_t *to, __m512 v)
{
    const __m512i bits = _mm512_castps_si512(v), high = _mm512_srli_epi32(bits, 16);
    const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
    const __m512i half = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
    const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, half), 16);
    const __mmask16 is_nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    const __m512i all = _mm512_mask_or_epi32(rounded, is_nan, high, _mm512_set1_epi32(0x40));
    _mm256_storeu_si256((__m256i *)(void *)to, _mm512_cvtepi32_epi16(all));
}
#endif
#endif

/* Rows of n values. */
static inline void ls__bf16_read(const uint16_t *from, int64_t n, float *to)
{
    int64_t i = 0;
#if defined(__AVX2__)
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(to + i, ls__load_8_bf16(from + i));
#endif
    for (; i < n; i++) to[i] = ls__bf16_to_f32(from[i]);
}

static inline void ls__bf16_write(const float *from, int64_t n, uint16_t *to)
{
    int64_t i = 0;
#if defined(__AVX2__)
    for (; i + 8 <= n; i += 8) ls__store_8_bf16(to + i, _mm256_loadu_ps(from + i));
#endif
    for (; i < n; i++) to[i] = ls__f32_to_bf16(from[i]);
}

#endif
