/* implicit_gemm.h: our own convolutions as matrix products over pixels, for dense N,H,W,C
 * activations in f32 (or bf16, see below) with FMA: kernels of 1x1, strided ones, and whatever else
 * has no faster algorithm. Pixels are the rows of a product, (tap, channel) its sums:
 *
 *   forward            y[pixel][o]  = sum of x[pixel + tap][i] w[o][tap][i]
 *   backward by data   dx[pixel][i] = sum of dy[pixel - tap][o] w[o][tap][i]: pixels fall into
 *                      stride x stride phases, each with the taps that reach it and no others
 *   backward weights   dw[o][tap][i] = sum over pixels of dy[pixel][o] x[pixel + tap][i]
 *
 * Nothing like an unfolded image is in memory: a task gathers some pixels' rows at a time, which
 * stay in its second-level cache.
 *
 * phases.c       which pixels are the rows of a product
 * gather.c       copies of the pixels that a product reads, and results back
 * correlation.c  tasks of forward and backward by data, cut by shape alone
 * weights.c      those of backward weights
 * provider.c     the cost and the kernel
 *
 * Activations, weights and bias may be bf16: they become f32 where they are gathered, and results
 * are rounded where they are scattered.
 *
 * A sum runs over (tap, channel) in chains of 128, or over pixels in chains of 64, added one after
 * the other; parts of the pixels then meet in a binary tree. Its bits are those of any width of
 * vectors. */
#ifndef LS_CPU_CONV_IMPLICIT_GEMM_IMPLICIT_GEMM_H
#define LS_CPU_CONV_IMPLICIT_GEMM_IMPLICIT_GEMM_H

#include "cpu/conv/microkernels.h"
#include "cpu/conv/provider.h"

enum { LS__IMPLICIT_GEMM_MAX_TAPS = 49, LS__IMPLICIT_GEMM_MAX_PHASES = 16 };

/* The pixels of a phase: a grid in every image. Pixel (p, q) of it is the result's pixel (first +
 * step (p, q)), and its row is, tap by tap, the channels of the source's pixel (source_step (p, q)
 * + tap), zeros outside. */
typedef struct ls__implicit_gemm_phase {
    int64_t grid[2], n_rows; /* of all images */
    int64_t first[2], step[2];
    int64_t source_step[2];
    int64_t n_taps, taps[LS__IMPLICIT_GEMM_MAX_TAPS][2];
    int64_t weight[LS__IMPLICIT_GEMM_MAX_TAPS]; /* which tap of w it is */
    bool plain; /* rows are the source's pixels, one after the other */
} ls__implicit_gemm_phase;

typedef struct ls__implicit_gemm_image {
    int64_t size[2], channels;
    bool bf16; /* else f32 */
} ls__implicit_gemm_image;

/* The phases of a forward convolution (one, and that of backward weights), or of backward by data;
 * 0 when they or the taps are too many. */
int ls__implicit_gemm_phases(const ls__op *op,
                             ls__implicit_gemm_phase phases[LS__IMPLICIT_GEMM_MAX_PHASES]);

/* n values of an image, or of another operand of its type, from an offset on. */
void ls__implicit_gemm_read(bool bf16, const void *from, int64_t offset, int64_t n, float *to);

/* n rows of x from `first` on, at places k0..k1-1, prefetched in so many tiles; none where rows
 * are gathered or converted. */
ls__prefetch ls__implicit_gemm_prefetch(const ls__implicit_gemm_phase *phase,
                                        const ls__implicit_gemm_image *image, const void *x,
                                        int64_t first, int64_t n, int64_t k0, int64_t k1,
                                        int64_t tiles);

/* Rows first..first+n-1 at places k0..k1-1 of (tap, channel), to rows `stride` apart. */
void ls__implicit_gemm_gather(const ls__implicit_gemm_phase *phase,
                              const ls__implicit_gemm_image *image, const void *x, int64_t first,
                              int64_t n, int64_t k0, int64_t k1, float *rows, int64_t stride);

/* Results of these rows at channels c0..c1-1 into the image, with an offset per channel where
 * bias is not NULL. rows NULL: zeros. */
void ls__implicit_gemm_scatter(const ls__implicit_gemm_phase *phase,
                               const ls__implicit_gemm_image *image, const float *rows,
                               int64_t stride, int64_t first, int64_t n, int64_t c0, int64_t c1,
                               const float *bias, void *y);

extern const ls__conv_algorithm ls__implicit_gemm_algorithm;
extern const ls__cpu_provider ls__implicit_gemm_provider;

#endif
