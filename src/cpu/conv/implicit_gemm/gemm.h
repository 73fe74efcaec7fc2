/* gemm.h: our own convolutions as matrix products over pixels, for dense N,H,W,C activations in f32
 * (or bf16, see below) with FMA: kernels of 1x1, strided ones, and whatever else has no faster
 * algorithm. Pixels are the rows of a product, (tap, channel) its sums:
 *
 *   forward            y[pixel][o]  = sum of x[pixel + tap][i] w[o][tap][i]
 *   backward by data   dx[pixel][i] = sum of dy[pixel - tap][o] w[o][tap][i]: pixels fall into
 *                      stride x stride phases, each with the taps that reach it and no others
 *   backward weights   dw[o][tap][i] = sum over pixels of dy[pixel][o] x[pixel + tap][i]
 *
 * Nothing like an unfolded image is in memory: a task gathers some pixels' rows at a time, which
 * stay in its second-level cache.
 *
 * lanes.c      what depends on the width of vectors, compiled for 8 floats (AVX2) and for 16
 *              (AVX-512): vector.h and product.h (matrix products), which Winograd shares
 * gather.c     which pixels a product reads and writes
 * products.c   tasks of forward and backward by data, cut by shape alone
 * weights.c    those of backward weights
 * conv.c       the provider
 *
 * Activations, weights and bias may be bf16: they become f32 where they are gathered, and results
 * are rounded where they are scattered.
 *
 * A sum runs over (tap, channel) in chains of 128, or over pixels in chains of 64, added one after
 * the other; parts of the pixels then meet in a binary tree. Its bits are those of any width of
 * vectors. */
#ifndef LS_CPU_CONV_IMPLICIT_GEMM_GEMM_H
#define LS_CPU_CONV_IMPLICIT_GEMM_GEMM_H

#include "cpu/cpu.h"

/* Places of (tap, channel) in one chain of additions: errors grow with its length. */
enum { LS__GEMM_CHAIN = 128 };

enum {
    LS__GEMM_GAP = 16,        /* floats between rows, so that many do not meet in one cache set */
    LS__GEMM_FAR_FLOATS = 256 /* rows that lie so far apart do; measured on a Zen 3 */
};

/* From row to row of those that are gathered. */
static inline int64_t ls__gemm_row_stride(int64_t floats)
{
    return floats >= LS__GEMM_FAR_FLOATS ? floats + LS__GEMM_GAP : floats;
}

/* Rows of memory that are read next: with each tile of a product a few lines of them are asked for,
 * so that they come into the second-level cache beside the computation and not after it. */
typedef struct ls__ahead {
    const float *row;
    int64_t n_rows, floats, stride; /* of a row; from row to row */
    int64_t place;                  /* in the row */
    int64_t lines_per_tile;
} ls__ahead;

/* Kernels of one vector width. `ahead` may be NULL. */
typedef struct ls__gemm_lanes {
    int64_t lanes; /* floats of a vector */
    int64_t panel; /* columns of a panel of weights, and of a tile of a product */
    int64_t rows;  /* of a tile */

    /* u[k][lane] = w[lane * w_stride + k] for k < n and lane < columns, else 0: rows of w become
     * columns of a panel. */
    void (*pack)(const float *w, int64_t w_stride, int64_t columns, int64_t n, float *u);
    /* m[row][k] = (onto ? m[row][k] : 0) + sum over c of v[row][c] u[c][k], for k < columns of a
     * panel. Whole vectors are written. */
    void (*multiply)(bool onto, const float *v, int64_t v_stride, const float *u, int64_t channels,
                     int64_t rows, int64_t columns, float *m, int64_t m_stride, ls__ahead *ahead);
    /* s[k][c] += sum over rows of d[row][k] v[row][c], k < columns, c < channels. Whole vectors of
     * v are read, and of s written. */
    void (*outer)(const float *d, int64_t d_stride, const float *v, int64_t v_stride, int64_t rows,
                  int64_t columns, int64_t channels, float *s, int64_t s_stride, ls__ahead *ahead);
} ls__gemm_lanes;

extern const ls__gemm_lanes ls__gemm_avx2, ls__gemm_avx512;

enum { LS__GEMM_MOST_TAPS = 49, LS__GEMM_MOST_PHASES = 16 };

/* The pixels of a phase: a grid in every image. Pixel (p, q) of it is the result's pixel (first +
 * step (p, q)), and its row is, tap by tap, the channels of the source's pixel (apart (p, q) +
 * tap), zeros outside. */
typedef struct ls__gemm_phase {
    int64_t grid[2], n_rows; /* of all images */
    int64_t first[2], step[2];
    int64_t apart[2];
    int64_t n_taps, taps[LS__GEMM_MOST_TAPS][2];
    int64_t weight[LS__GEMM_MOST_TAPS]; /* which tap of w it is */
    bool plain;                         /* rows are the source's pixels, one after the other */
} ls__gemm_phase;

typedef struct ls__gemm_image {
    int64_t size[2], channels;
    bool bf16; /* else f32 */
} ls__gemm_image;

/* The phases of a forward convolution (one, and that of backward weights), or of backward by data;
 * 0 when they or the taps are too many. */
int ls__gemm_phases(const ls__op *op, ls__gemm_phase phases[LS__GEMM_MOST_PHASES]);

/* n values of an image, or of another operand of its type, from an offset on. */
void ls__gemm_read(bool bf16, const void *from, int64_t offset, int64_t n, float *to);

/* n rows of x from `first` on, at places k0..k1-1, to be asked for in so many tiles; none where
 * rows are gathered from here and there, or widened. */
ls__ahead ls__gemm_ahead(const ls__gemm_phase *phase, const ls__gemm_image *image, const void *x,
                         int64_t first, int64_t n, int64_t k0, int64_t k1, int64_t tiles);

/* Rows first..first+n-1 at places k0..k1-1 of (tap, channel), to rows `stride` apart. */
void ls__gemm_gather(const ls__gemm_phase *phase, const ls__gemm_image *image, const void *x,
                     int64_t first, int64_t n, int64_t k0, int64_t k1, float *rows, int64_t stride);

/* Results of these rows at channels c0..c1-1 into the image, with an offset per channel where
 * bias is not NULL. rows NULL: zeros. */
void ls__gemm_scatter(const ls__gemm_phase *phase, const ls__gemm_image *image, const float *rows,
                      int64_t stride, int64_t first, int64_t n, int64_t c0, int64_t c1,
                      const float *bias, void *y);

/* The kernel for a convolution op that the provider lists, with these kernels of a width. */
ls_status ls__gemm_open(ls__cpu *cpu, const ls__op *op, const ls__gemm_lanes *lanes,
                        const char *name, ls__kernel **out);

extern const ls__cpu_provider ls__gemm_provider;

#endif
