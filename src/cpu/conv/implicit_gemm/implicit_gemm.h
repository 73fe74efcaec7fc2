/* implicit_gemm.h: our own convolutions as matrix products over pixels, for dense N,H,W,C
 * activations in f32 or bf16: 1x1 and strided kernels, and all others without a faster
 * algorithm; also linear layers, as 1x1 kernels over rows of x. Pixels are the rows of a product;
 * it sums over (tap, channel):
 *
 *   forward            y[pixel][o]  = sum of x[pixel + tap][i] w[o][tap][i]
 *   backward by data   dx[pixel][i] = sum of dy[pixel - tap][o] w[o][tap][i]: pixels fall into
 *                      stride x stride phases, each with the taps that reach it
 *   backward weights   dw[o][tap][i] = sum over pixels of dy[pixel][o] x[pixel + tap][i]
 *
 * No unfolded image is in memory: a task gathers the rows of some pixels at a time, which stay in
 * its second-level cache. bf16 becomes f32 when rows are gathered, and results are rounded when
 * they are scattered.
 *
 * phases.c       which pixels are the rows of a product
 * gather.c       copies of the pixels that a product reads, and results back
 * correlation.c  tasks of forward and backward by data, cut by shape alone
 * weights.c      those of backward weights
 * provider.c     the cost and the kernel
 *
 * A sum runs over (tap, channel) in chains of 128, or over pixels in chains of 64, added one after
 * the other; partial sums over pixels are added in a binary tree. Bits are the same for all vector
 * widths. */
#ifndef LS_CPU_CONV_IMPLICIT_GEMM_IMPLICIT_GEMM_H
#define LS_CPU_CONV_IMPLICIT_GEMM_IMPLICIT_GEMM_H

#include "cpu/conv/microkernels.h"
#include "cpu/conv/provider.h"

enum { LS__IMPLICIT_GEMM_MAX_TAPS = 49, LS__IMPLICIT_GEMM_MAX_PHASES = 16 };

/* The pixels of a phase: a grid in each image. Its pixel (p, q) is the result's pixel (first + step
 * (p, q)). Its row has, tap by tap, the channels of the source's pixel (source_step (p, q) + tap),
 * zeros outside the image. */
typedef struct ls__implicit_gemm_phase {
    int64_t grid[2], n_rows; /* of all images */
    int64_t first[2], step[2];
    int64_t source_step[2];
    int64_t n_taps, taps[LS__IMPLICIT_GEMM_MAX_TAPS][2];
    int64_t weight[LS__IMPLICIT_GEMM_MAX_TAPS]; /* the tap's index in w */
    bool plain; /* rows are the source's pixels, one after the other */
} ls__implicit_gemm_phase;

typedef struct ls__implicit_gemm_image {
    int64_t size[2], channels;
} ls__implicit_gemm_image;

/* The matrix product of a phase. */
typedef struct ls__implicit_gemm_product {
    ls__implicit_gemm_phase phase;
    int64_t depth;  /* taps times channels of the source */
    int64_t rows;   /* of a block */
    int64_t packed; /* offset of the packed weights in the workspace: panels [depth][panel] */
} ls__implicit_gemm_product;

typedef struct ls__implicit_gemm_kernel {
    ls__conv_kernel base; /* first */
    const ls__microkernels *micro;
    bool data;                              /* backward by data */
    bool bf16;                              /* operands but dw and db */
    bool relu;                              /* of a linear layer's results */
    ls__implicit_gemm_image source, result; /* of backward weights: x and dy */
    int n_products;
    ls__implicit_gemm_product products[LS__IMPLICIT_GEMM_MAX_PHASES];
    int64_t n_slabs, slab; /* of the result's channels */
    /* Forward, and backward by data */
    int64_t n_panels;
    int64_t depth;    /* places of (tap, channel) that a task multiplies at a time */
    int64_t group;    /* blocks of a task */
    int64_t all_taps; /* of w */
    bool in_place;    /* rows of results lie in the image one after the other */
    bool packs;       /* tasks pack the weights of their own columns */
    /* Backward weights */
    int64_t n_sums, sum_rows;          /* partial sums, and the pixels of each */
    int64_t gathered;                  /* pixels gathered at a time */
    int64_t k_slab, n_k_slabs;         /* of (tap, channel) */
    int64_t d_stride, v_stride, pitch; /* of gathered rows; of partial sums' rows */
    bool first_in_place;               /* the first partial sum is dw itself */
} ls__implicit_gemm_kernel;

/* The phases of backward by data, or the one of forward and backward weights. Returns their number,
 * 0 if they or the taps are too many. */
int ls__implicit_gemm_phases(const ls__op *op,
                             ls__implicit_gemm_phase phases[LS__IMPLICIT_GEMM_MAX_PHASES]);

/* Reads n values of an operand, in bf16 or f32, from an offset on. */
void ls__implicit_gemm_read(const ls__implicit_gemm_kernel *k, const void *from, int64_t offset,
                            int64_t n, float *to);

/* The rows below are those of a phase of the call's kernel. Prefetches n rows of x from `first` on,
 * at places k0..k1-1 of (tap, channel), during so many tiles; none if rows are gathered or
 * converted. */
ls__prefetch ls__implicit_gemm_prefetch(const ls__conv_call *call,
                                        const ls__implicit_gemm_phase *phase, int64_t first,
                                        int64_t n, int64_t k0, int64_t k1, int64_t tiles);

/* Copies rows first..first+n-1 of x at places k0..k1-1 to rows `stride` apart. */
void ls__implicit_gemm_gather(const ls__conv_call *call, const ls__implicit_gemm_phase *phase,
                              int64_t first, int64_t n, int64_t k0, int64_t k1, float *rows,
                              int64_t stride);

/* Writes results of these rows at channels c0..c1-1 into y, after it has added the bias, if there
 * is one, and applied a linear layer's ReLU in `rows`. rows NULL: zeros. */
void ls__implicit_gemm_scatter(const ls__conv_call *call, const ls__implicit_gemm_phase *phase,
                               float *rows, int64_t stride, int64_t first, int64_t n, int64_t c0,
                               int64_t c1);

/* These set the rest of the kernel from its phases and images. */
void ls__implicit_gemm_plan_correlation(ls__implicit_gemm_kernel *k, bool bias);
void ls__implicit_gemm_plan_weights(ls__implicit_gemm_kernel *k, bool bias);

extern const ls__conv_algorithm ls__implicit_gemm_algorithm;
extern const ls__cpu_provider ls__implicit_gemm_provider;

#endif
