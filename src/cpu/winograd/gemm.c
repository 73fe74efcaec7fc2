/* gemm.c: the two small matrix products. Register tiles of 6x16 and 4x16 keep both FMA units of an
 * AVX2 core busy; every sum runs over its index in order, so bits depend on nothing but the
 * operands. */
#include "cpu/winograd/winograd.h"

#include <immintrin.h>

static void multiply_6x16(const float *restrict v, int64_t v_stride, const float *restrict u,
                          int64_t channels, float *restrict m, int64_t m_stride)
{
    const float *const v0 = v, *const v1 = v0 + v_stride, *const v2 = v1 + v_stride;
    const float *const v3 = v2 + v_stride, *const v4 = v3 + v_stride, *const v5 = v4 + v_stride;
    __m256 s00 = _mm256_setzero_ps(), s01 = s00, s10 = s00, s11 = s00, s20 = s00, s21 = s00;
    __m256 s30 = s00, s31 = s00, s40 = s00, s41 = s00, s50 = s00, s51 = s00;
    for (int64_t c = 0; c < channels; c++, u += LS__WINO_PANEL) {
        const __m256 u0 = _mm256_loadu_ps(u), u1 = _mm256_loadu_ps(u + LS__WINO_VECTOR);
        __m256 a = _mm256_broadcast_ss(v0 + c);
        s00 = _mm256_fmadd_ps(a, u0, s00);
        s01 = _mm256_fmadd_ps(a, u1, s01);
        a = _mm256_broadcast_ss(v1 + c);
        s10 = _mm256_fmadd_ps(a, u0, s10);
        s11 = _mm256_fmadd_ps(a, u1, s11);
        a = _mm256_broadcast_ss(v2 + c);
        s20 = _mm256_fmadd_ps(a, u0, s20);
        s21 = _mm256_fmadd_ps(a, u1, s21);
        a = _mm256_broadcast_ss(v3 + c);
        s30 = _mm256_fmadd_ps(a, u0, s30);
        s31 = _mm256_fmadd_ps(a, u1, s31);
        a = _mm256_broadcast_ss(v4 + c);
        s40 = _mm256_fmadd_ps(a, u0, s40);
        s41 = _mm256_fmadd_ps(a, u1, s41);
        a = _mm256_broadcast_ss(v5 + c);
        s50 = _mm256_fmadd_ps(a, u0, s50);
        s51 = _mm256_fmadd_ps(a, u1, s51);
    }
    const __m256 sums[LS__WINO_ROWS][2] = { { s00, s01 }, { s10, s11 }, { s20, s21 },
                                            { s30, s31 }, { s40, s41 }, { s50, s51 } };
    for (int r = 0; r < LS__WINO_ROWS; r++) {
        _mm256_storeu_ps(m + r * m_stride, sums[r][0]);
        _mm256_storeu_ps(m + r * m_stride + LS__WINO_VECTOR, sums[r][1]);
    }
}

void ls__wino_multiply(const float *v, int64_t v_stride, const float *u, int64_t channels,
                       int64_t rows, float *m, int64_t m_stride)
{
    for (int64_t r = 0; r < rows; r += LS__WINO_ROWS)
        multiply_6x16(v + r * v_stride, v_stride, u, channels, m + r * m_stride, m_stride);
}

enum { OUTER_ROWS = 4 };

/* s[4][16] += ... */
static void outer_4x16(const float *v, int64_t v_stride, const float *d, int64_t d_stride,
                       int64_t rows, float *s, int64_t s_stride)
{
    __m256 sum[OUTER_ROWS][2];
    for (int i = 0; i < OUTER_ROWS; i++) {
        sum[i][0] = _mm256_loadu_ps(s + i * s_stride);
        sum[i][1] = _mm256_loadu_ps(s + i * s_stride + LS__WINO_VECTOR);
    }
    for (int64_t r = 0; r < rows; r++) {
        const __m256 d0 = _mm256_loadu_ps(d + r * d_stride);
        const __m256 d1 = _mm256_loadu_ps(d + r * d_stride + LS__WINO_VECTOR);
        for (int i = 0; i < OUTER_ROWS; i++) {
            const __m256 a = _mm256_broadcast_ss(v + r * v_stride + i);
            sum[i][0] = _mm256_fmadd_ps(a, d0, sum[i][0]);
            sum[i][1] = _mm256_fmadd_ps(a, d1, sum[i][1]);
        }
    }
    for (int i = 0; i < OUTER_ROWS; i++) {
        _mm256_storeu_ps(s + i * s_stride, sum[i][0]);
        _mm256_storeu_ps(s + i * s_stride + LS__WINO_VECTOR, sum[i][1]);
    }
}

/* The rest of 8 columns: s[4][8] += ... */
static void outer_4x8(const float *v, int64_t v_stride, const float *d, int64_t d_stride,
                      int64_t rows, float *s, int64_t s_stride)
{
    __m256 sum[OUTER_ROWS];
    for (int i = 0; i < OUTER_ROWS; i++) sum[i] = _mm256_loadu_ps(s + i * s_stride);
    for (int64_t r = 0; r < rows; r++) {
        const __m256 d0 = _mm256_loadu_ps(d + r * d_stride);
        for (int i = 0; i < OUTER_ROWS; i++)
            sum[i] = _mm256_fmadd_ps(_mm256_broadcast_ss(v + r * v_stride + i), d0, sum[i]);
    }
    for (int i = 0; i < OUTER_ROWS; i++) _mm256_storeu_ps(s + i * s_stride, sum[i]);
}

void ls__wino_outer(const float *v, int64_t v_stride, const float *d, int64_t d_stride,
                    int64_t rows, int64_t channels, int64_t columns, float *s, int64_t s_stride)
{
    for (int64_t c = 0; c < channels; c += OUTER_ROWS) {
        int64_t k = 0;
        for (; k + LS__WINO_PANEL <= columns; k += LS__WINO_PANEL)
            outer_4x16(v + c, v_stride, d + k, d_stride, rows, s + c * s_stride + k, s_stride);
        if (k < columns)
            outer_4x8(v + c, v_stride, d + k, d_stride, rows, s + c * s_stride + k, s_stride);
    }
}
