/* few_rows_microkernel.c: the product multiply_few of microkernels.h. Vectors hold eight results of
 * a row. Blocks of eight of w's rows by eight places are transposed in registers. */
#include "cpu/conv/microkernels.h"
#include "cpu/simd/vector.h"

#include <string.h>

enum { COLUMNS = 8, VECTORS = COLUMNS / LS__WIDTH, MAX_TILES = 2 };

/* to[k] = place k of eight rows. */
static inline void transpose_block(const float *w, int64_t stride, ls__vf to[COLUMNS][VECTORS])
{
#if LS__REGISTER_WIDTH == 8
    for (int k = 0; k < COLUMNS; k += 4) {
        __m256 r[4];
        for (int i = 0; i < 4; i++)
            r[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(w + i * stride + k)),
                                        _mm_loadu_ps(w + (i + 4) * stride + k), 1);
        const __m256 a = _mm256_unpacklo_ps(r[0], r[1]), b = _mm256_unpackhi_ps(r[0], r[1]);
        const __m256 c = _mm256_unpacklo_ps(r[2], r[3]), d = _mm256_unpackhi_ps(r[2], r[3]);
        to[k][0] = _mm256_shuffle_ps(a, c, 0x44);
        to[k + 1][0] = _mm256_shuffle_ps(a, c, 0xee);
        to[k + 2][0] = _mm256_shuffle_ps(b, d, 0x44);
        to[k + 3][0] = _mm256_shuffle_ps(b, d, 0xee);
    }
#else
    float block[COLUMNS][COLUMNS];
    for (int k = 0; k < COLUMNS; k++)
        for (int j = 0; j < COLUMNS; j++) block[k][j] = w[j * stride + k];
    memcpy(to, block, sizeof block);
#endif
}

/* m[row][j] (+)= one chain of n places, for 8 `tiles` columns j. */
LS__ALWAYS_INLINE void chain(int rows, int tiles, bool accumulate, const float *w, int64_t w_stride,
                             const float *x, int64_t x_stride, int64_t n, float *m,
                             int64_t m_stride)
{
    ls__vf sum[MAX_TILES][LS__FEW_ROWS][VECTORS], column[COLUMNS][VECTORS];
    for (int t = 0; t < tiles; t++)
        for (int r = 0; r < rows; r++)
            for (int v = 0; v < VECTORS; v++) sum[t][r][v] = ls__broadcast(0);
    int64_t k = 0;
    for (; k + COLUMNS <= n; k += COLUMNS)
        for (int t = 0; t < tiles; t++) {
            transpose_block(w + t * COLUMNS * w_stride + k, w_stride, column);
            for (int i = 0; i < COLUMNS; i++)
                for (int r = 0; r < rows; r++)
                    for (int v = 0; v < VECTORS; v++)
                        sum[t][r][v] = ls__fma(ls__broadcast(x[r * x_stride + k + i]), column[i][v],
                                               sum[t][r][v]);
        }
    for (; k < n; k++)
        for (int t = 0; t < tiles; t++) {
            float rest[COLUMNS];
            for (int j = 0; j < COLUMNS; j++) rest[j] = w[(t * COLUMNS + j) * w_stride + k];
            for (int r = 0; r < rows; r++)
                for (int v = 0; v < VECTORS; v++)
                    sum[t][r][v] = ls__fma(ls__broadcast(x[r * x_stride + k]),
                                           ls__load_f32(rest + v * LS__WIDTH), sum[t][r][v]);
        }
    for (int t = 0; t < tiles; t++)
        for (int r = 0; r < rows; r++)
            for (int v = 0; v < VECTORS; v++) {
                float *to = m + r * m_stride + t * COLUMNS + v * LS__WIDTH;
                ls__store_f32(to,
                              accumulate ? ls__add(ls__load_f32(to), sum[t][r][v]) : sum[t][r][v]);
            }
}

/* Up to so many rows run two tiles at a time, because the additions of one would wait for each
 * other. */
enum { TWO_TILES_ROWS = 3 };
_Static_assert(LS__FEW_ROWS == 8, "one_tile has a case for each number of rows");

#define CASE(count, tiles)                                                                         \
    case count: chain(count, tiles, accumulate, w, w_stride, x, x_stride, n, m, m_stride); break;

static void one_tile(int64_t rows, bool accumulate, const float *w, int64_t w_stride,
                     const float *x, int64_t x_stride, int64_t n, float *m, int64_t m_stride)
{
    switch (rows) {
        CASE(1, 1)
        CASE(2, 1)
        CASE(3, 1)
        CASE(4, 1)
        CASE(5, 1)
        CASE(6, 1)
        CASE(7, 1)
        CASE(8, 1)
    }
}

static void two_tiles(int64_t rows, bool accumulate, const float *w, int64_t w_stride,
                      const float *x, int64_t x_stride, int64_t n, float *m, int64_t m_stride)
{
    switch (rows) {
        CASE(1, 2)
        CASE(2, 2)
        CASE(3, 2)
    }
}

#undef CASE

extern void LS__ISA_NAME(ls__multiply_few)(const float *w, int64_t w_stride, int64_t columns,
                                           const float *x, int64_t x_stride, int64_t rows,
                                           int64_t depth, float *m, int64_t m_stride);

void LS__ISA_NAME(ls__multiply_few)(const float *w, int64_t w_stride, int64_t columns,
                                    const float *x, int64_t x_stride, int64_t rows, int64_t depth,
                                    float *m, int64_t m_stride)
{
    const int64_t at_once = rows <= TWO_TILES_ROWS ? 2 * COLUMNS : COLUMNS;
    float rest[COLUMNS * LS__CHAIN];
    for (int64_t j = 0, count; j < columns; j += count, w += count * w_stride, m += count) {
        count = columns - j >= at_once ? at_once : ls__min_i64(columns - j, COLUMNS);
        for (int64_t k = 0; k < depth; k += LS__CHAIN) {
            const int64_t n = ls__min_i64(LS__CHAIN, depth - k);
            if (count > COLUMNS) {
                two_tiles(rows, k > 0, w + k, w_stride, x + k, x_stride, n, m, m_stride);
            } else if (count == COLUMNS) {
                one_tile(rows, k > 0, w + k, w_stride, x + k, x_stride, n, m, m_stride);
            } else {
                memset(rest, 0, sizeof rest);
                for (int64_t i = 0; i < count; i++)
                    memcpy(rest + i * LS__CHAIN, w + i * w_stride + k, (size_t)n * sizeof *rest);
                one_tile(rows, k > 0, rest, LS__CHAIN, x + k, x_stride, n, m, m_stride);
            }
        }
    }
}
