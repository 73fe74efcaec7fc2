/* microkernels.c: see microkernels.h. Tiles of ROWS x 2 vectors of sums keep a core's two FMA units
 * busy. */
#include "cpu/conv/microkernels.h"
#include "cpu/simd/transpose.h"
#include "cpu/simd/vector.h"

/* 16 registers hold 6x2 sums, 2 vectors of b and one of a; 32 registers, those of AVX-512 and of
 * ARM, hold 12x2. */
#if LS__VECTOR_WIDTH == 16 || defined(__aarch64__)
#define ROWS 12
#else
#define ROWS 6
#endif
enum { PANEL = LS__PANEL_VECTORS * LS__WIDTH };

/* Floats of a cache line, and the steps of a product ahead of which b is prefetched: the
 * processors' own prefetching stops where a panel or a chain ends. */
enum { LINE = 16, AHEAD = 16 };

/* s[rows][vectors] = (accumulate ? s : 0) + sum over i of a[i][row] b[i][vectors]. The rows of a
 * may be side by side (row_stride 1) or apart. */
LS__ALWAYS_INLINE void tile(int rows, int vectors, bool accumulate, const float *restrict a,
                            int64_t row_stride, int64_t a_step, const float *restrict b,
                            int64_t b_step, int64_t n, float *restrict s, int64_t s_stride)
{
    ls__vf sum[ROWS][2];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++) sum[r][v] = ls__broadcast(0);
    for (int64_t i = 0; i < n; i++, a += a_step, b += b_step) {
        ls__vf columns[2];
        for (int v = 0; v < vectors; v++) {
            columns[v] = ls__load_f32(b + v * LS__WIDTH);
            if (v * LS__WIDTH % LINE == 0)
                ls__prefetch_after(b + v * LS__WIDTH, AHEAD * b_step * (int64_t)sizeof *b);
        }
        for (int r = 0; r < rows; r++) {
            const ls__vf row = ls__broadcast(a[r * row_stride]);
            for (int v = 0; v < vectors; v++) sum[r][v] = ls__fma(row, columns[v], sum[r][v]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++) {
            float *to = s + r * s_stride + v * LS__WIDTH;
            ls__store_f32(to, accumulate ? ls__add(ls__load_f32(to), sum[r][v]) : sum[r][v]);
        }
}

/* tile() with the number of rows, at most ROWS, known to the compiler. */
LS__ALWAYS_INLINE void some_rows(int64_t rows, int vectors, bool accumulate, const float *a,
                                 int64_t row_stride, int64_t a_step, const float *b, int64_t b_step,
                                 int64_t n, float *s, int64_t s_stride)
{
#define CASE(count)                                                                                \
    case count:                                                                                    \
        tile(count, vectors, accumulate, a, row_stride, a_step, b, b_step, n, s, s_stride);        \
        break;
    switch (rows) {
        CASE(1)
        CASE(2)
        CASE(3)
        CASE(4)
        CASE(5)
        CASE(6)
#if ROWS == 12
        CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12)
#endif
    }
#undef CASE
}

/* Prefetches a tile's share of the rows. */
static inline void fetch(ls__prefetch *prefetch)
{
    for (int64_t i = 0; prefetch && i < prefetch->lines_per_tile && prefetch->n_rows > 0; i++) {
        /* into the second-level cache */
        __builtin_prefetch(prefetch->row + prefetch->offset, 0, 2);
        prefetch->offset += 64 / (int64_t)sizeof(float);
        if (prefetch->offset < prefetch->floats) continue;
        prefetch->offset = 0;
        prefetch->row += prefetch->stride;
        prefetch->n_rows--;
    }
}

static void multiply(bool accumulate, const float *v, int64_t v_stride, const float *u,
                     int64_t channels, int64_t rows, int64_t columns, float *m, int64_t m_stride,
                     ls__prefetch *prefetch)
{
    const int vectors = columns > LS__WIDTH ? 2 : 1;
    for (int64_t c = 0; c < channels; c += LS__CHAIN)
        for (int64_t r = 0; r < rows; r += ROWS) {
            const int64_t count = ls__min_i64(rows - r, ROWS),
                          n = ls__min_i64(channels - c, LS__CHAIN);
            const float *from = v + r * v_stride + c, *weights = u + c * PANEL;
            float *to = m + r * m_stride;
            fetch(prefetch);
            if (vectors == 2 && c == 0 && !accumulate)
                some_rows(count, 2, false, from, v_stride, 1, weights, PANEL, n, to, m_stride);
            else if (vectors == 2)
                some_rows(count, 2, true, from, v_stride, 1, weights, PANEL, n, to, m_stride);
            else
                some_rows(count, 1, accumulate || c > 0, from, v_stride, 1, weights, PANEL, n, to,
                          m_stride);
        }
}

static void multiply_apart(bool accumulate, const float *v, int64_t v_stride, const float *u,
                           int64_t u_stride, int64_t channels, int64_t rows, int64_t columns,
                           float *m, int64_t m_stride, ls__prefetch *prefetch)
{
    for (int64_t r = 0; r < rows; r += ROWS)
        for (int64_t c = 0; c < columns; c += PANEL) {
            const int64_t count = ls__min_i64(rows - r, ROWS);
            fetch(prefetch);
            if (columns - c > LS__WIDTH)
                some_rows(count, 2, accumulate, v + r * v_stride, v_stride, 1, u + c, u_stride,
                          channels, m + r * m_stride + c, m_stride);
            else
                some_rows(count, 1, accumulate, v + r * v_stride, v_stride, 1, u + c, u_stride,
                          channels, m + r * m_stride + c, m_stride);
        }
}

static void outer(bool accumulate, const float *d, int64_t d_stride, const float *v,
                  int64_t v_stride, int64_t rows, int64_t columns, int64_t channels, float *s,
                  int64_t s_stride, ls__prefetch *prefetch)
{
    for (int64_t k = 0; k < columns; k += ROWS)
        for (int64_t c = 0; c < channels; c += PANEL) {
            const int64_t count = ls__min_i64(columns - k, ROWS);
            float *to = s + k * s_stride + c;
            fetch(prefetch);
            for (int64_t r = 0; r < rows; r += LS__ROW_CHAIN) {
                const int64_t n = ls__min_i64(rows - r, LS__ROW_CHAIN);
                const float *a = d + r * d_stride + k, *b = v + r * v_stride + c;
                if (channels - c > LS__WIDTH)
                    some_rows(count, 2, accumulate || r > 0, a, 1, d_stride, b, v_stride, n, to,
                              s_stride);
                else
                    some_rows(count, 1, accumulate || r > 0, a, 1, d_stride, b, v_stride, n, to,
                              s_stride);
            }
        }
}

/* Blocks of 8 x 8 at a time, the rest one by one. */
static void pack(const float *w, int64_t w_stride, int64_t columns, int64_t n, float *u)
{
    for (int64_t j0 = 0; j0 < PANEL; j0 += 8) {
        int64_t k = 0;
        for (; j0 + 8 <= columns && k + 8 <= n; k += 8)
            ls__transpose_8x8(w + j0 * w_stride + k, w_stride, u + k * PANEL + j0, PANEL);
        for (; k < n; k++)
            for (int64_t j = j0; j < j0 + 8; j++)
                u[k * PANEL + j] = j < columns ? w[j * w_stride + k] : 0;
    }
}

static void copy(const float *w, int64_t w_stride, int64_t columns, int64_t n, float *u)
{
    for (int64_t k = 0; k < n; k++, w += w_stride, u += PANEL)
        for (int64_t j = 0; j < PANEL; j += LS__WIDTH)
            if (j + LS__WIDTH <= columns)
                ls__store_f32(u + j, ls__load_f32(w + j));
            else
                for (int64_t i = j; i < j + LS__WIDTH; i++) u[i] = i < columns ? w[i] : 0;
}

/* few_rows_microkernel.c */
extern void LS__ISA_NAME(ls__multiply_few)(const float *w, int64_t w_stride, int64_t columns,
                                           const float *x, int64_t x_stride, int64_t rows,
                                           int64_t depth, float *m, int64_t m_stride);

const ls__microkernels LS__ISA_NAME(ls__microkernels) = {
    .width = LS__WIDTH,
    .panel = PANEL,
    .rows = ROWS,
    .pack = pack,
    .copy = copy,
    .multiply = multiply,
    .multiply_apart = multiply_apart,
    .multiply_few = LS__ISA_NAME(ls__multiply_few),
    .outer = outer,
    .read_bf16 = ls__bf16_read,
    .write_bf16 = ls__bf16_write
};
