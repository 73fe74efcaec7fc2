/* product.h: the two small matrix products, in tiles of ROWS x 2 vectors of sums, which keep both
 * FMA units of a core busy. A sum runs over its index in order, so bits depend on nothing but the
 * operands. */
#ifndef LS_CPU_CONV_IMPLICIT_GEMM_PRODUCT_H
#define LS_CPU_CONV_IMPLICIT_GEMM_PRODUCT_H

#include "cpu/conv/implicit_gemm/gemm.h"
#include "cpu/conv/implicit_gemm/vector.h"

/* 16 registers hold 6x2 sums, 2 vectors of b and one of a; 32 hold 12x2. */
enum { ROWS = LS__GEMM_LANES == 8 ? 6 : 12, PANEL = 2 * LANES };

/* s[rows][vectors] = (onto ? s : 0) + sum over i of a[i][row] b[i][vectors]. The rows of a may be
 * side by side (row_stride 1) or apart. */
LS__ALWAYS_INLINE void tile(int rows, int vectors, bool onto, const float *restrict a,
                            int64_t row_stride, int64_t a_step, const float *restrict b,
                            int64_t b_step, int64_t n, float *restrict s, int64_t s_stride)
{
    vec sum[ROWS][2];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++) sum[r][v] = all(0);
    for (int64_t i = 0; i < n; i++, a += a_step, b += b_step) {
        vec factors[2];
        for (int v = 0; v < vectors; v++) factors[v] = load(b + v * LANES);
        for (int r = 0; r < rows; r++) {
            const vec factor = all(a[r * row_stride]);
            for (int v = 0; v < vectors; v++) sum[r][v] = fused(factor, factors[v], sum[r][v]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++) {
            float *to = s + r * s_stride + v * LANES;
            store(to, onto ? add(load(to), sum[r][v]) : sum[r][v]);
        }
}

/* tile() with the number of rows, at most ROWS, known to the compiler. */
LS__ALWAYS_INLINE void some_rows(int64_t rows, int vectors, bool onto, const float *a,
                                 int64_t row_stride, int64_t a_step, const float *b, int64_t b_step,
                                 int64_t n, float *s, int64_t s_stride)
{
#define CASE(count)                                                                                \
    case count: tile(count, vectors, onto, a, row_stride, a_step, b, b_step, n, s, s_stride); break;
    switch (rows) {
        CASE(1)
        CASE(2)
        CASE(3)
        CASE(4)
        CASE(5)
        CASE(6)
#if LS__GEMM_LANES == 16
        CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12)
#endif
    }
#undef CASE
}

/* A tile's share of what is read next. */
static inline void fetch(ls__ahead *ahead)
{
    for (int64_t i = 0; ahead && i < ahead->lines_per_tile && ahead->n_rows > 0; i++) {
        _mm_prefetch((const char *)(ahead->row + ahead->place), _MM_HINT_T1);
        ahead->place += 64 / (int64_t)sizeof(float);
        if (ahead->place < ahead->floats) continue;
        ahead->place = 0;
        ahead->row += ahead->stride;
        ahead->n_rows--;
    }
}

/* m[row][k] = (onto ? m[row][k] : 0) + sum over c of v[row][c] u[c][k], k < columns of one panel.
 */
static void multiply(bool onto, const float *v, int64_t v_stride, const float *u, int64_t channels,
                     int64_t rows, int64_t columns, float *m, int64_t m_stride, ls__ahead *ahead)
{
    const int vectors = columns > LANES ? 2 : 1;
    for (int64_t c = 0; c < channels; c += LS__GEMM_CHAIN)
        for (int64_t r = 0; r < rows; r += ROWS) {
            const int64_t count = ls__min(rows - r, ROWS),
                          n = ls__min(channels - c, LS__GEMM_CHAIN);
            const float *from = v + r * v_stride + c, *weights = u + c * PANEL;
            float *to = m + r * m_stride;
            fetch(ahead);
            if (vectors == 2 && c == 0 && !onto)
                some_rows(count, 2, false, from, v_stride, 1, weights, PANEL, n, to, m_stride);
            else if (vectors == 2)
                some_rows(count, 2, true, from, v_stride, 1, weights, PANEL, n, to, m_stride);
            else
                some_rows(count, 1, onto || c > 0, from, v_stride, 1, weights, PANEL, n, to,
                          m_stride);
        }
}

/* s[k][c] += sum over rows of d[row][k] v[row][c], k < columns, c < channels. */
static void outer(const float *d, int64_t d_stride, const float *v, int64_t v_stride, int64_t rows,
                  int64_t columns, int64_t channels, float *s, int64_t s_stride, ls__ahead *ahead)
{
    for (int64_t k = 0; k < columns; k += ROWS)
        for (int64_t c = 0; c < channels; c += PANEL) {
            const int64_t count = ls__min(columns - k, ROWS);
            float *to = s + k * s_stride + c;
            fetch(ahead);
            if (channels - c > LANES)
                some_rows(count, 2, true, d + k, 1, d_stride, v + c, v_stride, rows, to, s_stride);
            else
                some_rows(count, 1, true, d + k, 1, d_stride, v + c, v_stride, rows, to, s_stride);
        }
}

#endif
