/* transpose.h: transposes 8x8 floats, with AVX2 in registers. */
#ifndef LS_CPU_SIMD_TRANSPOSE_H
#define LS_CPU_SIMD_TRANSPOSE_H

#include <stdint.h>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

/* Eight rows of eight floats become columns. */
static inline void ls__transpose_8x8(const float *from, int64_t from_stride, float *to,
                                     int64_t to_stride)
{
#if defined(__AVX2__)
    __m256 r[8], a[8], b[8];
    for (int i = 0; i < 8; i++) r[i] = _mm256_loadu_ps(from + i * from_stride);
    for (int i = 0; i < 4; i++) {
        a[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        a[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        b[4 * i] = _mm256_shuffle_ps(a[4 * i], a[4 * i + 2], 0x44);
        b[4 * i + 1] = _mm256_shuffle_ps(a[4 * i], a[4 * i + 2], 0xee);
        b[4 * i + 2] = _mm256_shuffle_ps(a[4 * i + 1], a[4 * i + 3], 0x44);
        b[4 * i + 3] = _mm256_shuffle_ps(a[4 * i + 1], a[4 * i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(to + i * to_stride, _mm256_permute2f128_ps(b[i], b[i + 4], 0x20));
        _mm256_storeu_ps(to + (i + 4) * to_stride, _mm256_permute2f128_ps(b[i], b[i + 4], 0x31));
    }
#else
    for (int j = 0; j < 8; j++)
        for (int i = 0; i < 8; i++) to[j * to_stride + i] = from[i * from_stride + j];
#endif
}

#endif
