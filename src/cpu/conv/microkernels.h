/* microkernels.h: matrix products on registers for implicit GEMM and Winograd, compiled for vectors
 * of 4 floats (every processor), of 8 (AVX2) and of 16 (AVX-512). A sum runs over its index in
 * order, with an FMA for each element, so its bits are the same for every width. */
#ifndef LS_CPU_CONV_MICROKERNELS_H
#define LS_CPU_CONV_MICROKERNELS_H

#include "cpu/cpu.h"

/* Places of (tap, channel) in one chain of additions: errors grow with its length. */
enum { LS__CHAIN = 128 };
/* The same for rows, in products that sum over them. */
enum { LS__ROW_CHAIN = 64 };

enum {
    LS__PANEL_VECTORS = 2, /* vectors of a panel */
    LS__MAX_PANEL = 32,    /* floats of a panel, at most */
    LS__ROW_STEP = 12,     /* a multiple of a tile's rows, for every vector width */
    LS__ROW_GAP = 16,      /* floats between rows, so that they do not share cache sets */
    LS__FAR_FLOATS = 256   /* rows this far apart do; measured on a Zen 3 */
};

/* Rows for which few_rows_microkernel.c is faster. */
enum { LS__FEW_ROWS = 8 };

/* Floats from one gathered row to the next. */
static inline int64_t ls__row_stride(int64_t floats)
{
    return floats >= LS__FAR_FLOATS ? floats + LS__ROW_GAP : floats;
}

/* Rows of memory to prefetch. Each tile of a product prefetches a few cache lines of them into the
 * second-level cache, so that memory is read while the product is computed. */
typedef struct ls__prefetch {
    const float *row;
    int64_t n_rows, floats, stride; /* of a row; from row to row */
    int64_t offset;                 /* in the row, in floats */
    int64_t lines_per_tile;
} ls__prefetch;

/* Kernels of one vector width. `prefetch` may be NULL. */
typedef struct ls__microkernels {
    int64_t width; /* floats of a vector */
    int64_t panel; /* columns of a packed panel, and of a tile of a product */
    int64_t rows;  /* of a tile */

    /* u[k][j] = w[j * w_stride + k] for k < n and j < columns, else 0: rows of w become
     * columns of a panel. */
    void (*pack)(const float *w, int64_t w_stride, int64_t columns, int64_t n, float *u);
    /* u[k][j] = w[k * w_stride + j] for k < n and j < columns, else 0. */
    void (*copy)(const float *w, int64_t w_stride, int64_t columns, int64_t n, float *u);
    /* m[row][k] = (accumulate ? m[row][k] : 0) + sum over c of v[row][c] u[c][k], for k < columns
     * of a panel. Whole vectors are written. */
    void (*multiply)(bool accumulate, const float *v, int64_t v_stride, const float *u,
                     int64_t channels, int64_t rows, int64_t columns, float *m, int64_t m_stride,
                     ls__prefetch *prefetch);
    /* This is multiply for all columns of a u whose rows are u_stride apart. Whole vectors of u are
     * read, and channels are one chain. */
    void (*multiply_apart)(bool accumulate, const float *v, int64_t v_stride, const float *u,
                           int64_t u_stride, int64_t channels, int64_t rows, int64_t columns,
                           float *m, int64_t m_stride, ls__prefetch *prefetch);
    /* m[row][j] = sum over k < depth of x[row][k] w[j][k], for j < columns and at most LS__FEW_ROWS
     * rows. Whole vectors of eight columns are written. */
    void (*multiply_few)(const float *w, int64_t w_stride, int64_t columns, const float *x,
                         int64_t x_stride, int64_t rows, int64_t depth, float *m, int64_t m_stride);
    /* s[k][c] = (accumulate ? s[k][c] : 0) + sums over LS__ROW_CHAIN rows at a time of
     * d[row][k] v[row][c], k < columns, c < channels. Whole vectors of v are read, and of s
     * written. */
    void (*outer)(bool accumulate, const float *d, int64_t d_stride, const float *v,
                  int64_t v_stride, int64_t rows, int64_t columns, int64_t channels, float *s,
                  int64_t s_stride, ls__prefetch *prefetch);
    /* Rows of n bf16 values to f32, and back, rounded to nearest even. */
    void (*read_bf16)(const uint16_t *from, int64_t n, float *to);
    void (*write_bf16)(const float *from, int64_t n, uint16_t *to);
} ls__microkernels;

extern const ls__microkernels ls__microkernels_plain, ls__microkernels_avx2,
    ls__microkernels_avx512;

#endif
