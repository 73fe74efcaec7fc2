/* implicit_gemm.h: our own convolutions as matrix products over pixels, for dense N,H,W,C
 * activations in f32 or bf16: 1x1 and strided kernels, and all others without a faster
 * algorithm; also linear layers, as 1x1 kernels over rows of x. Pixels are the rows of a product,
 * in swapped.c its columns; it sums over (tap, channel):
 *
 *   forward            y[pixel][o]  = sum of x[pixel + tap][i] w[o][tap][i]
 *   backward by data   dx[pixel][i] = sum of dy[pixel - tap][o] w[o][tap][i]: pixels fall into
 *                      stride x stride phases, each with the taps that reach it
 *   backward weights   dw[o][tap][i] = sum over pixels of dy[pixel][o] x[pixel + tap][i]
 *
 * A convolution in groups is one product for each group.
 *
 * No unfolded image is in memory: but in few_rows.c and swapped.c, a task gathers the rows of some
 * pixels at a time, which stay in its second-level cache. bf16 becomes f32 when rows are gathered,
 * and results are rounded when they are scattered.
 *
 * phases.c                which pixels are the rows of a product, which columns a task computes
 * gather.c                copies of the pixels that a product reads, and results back
 * few_rows.c              forward and backward by data for a few pixels and one tap
 * few_rows_microkernel.c  its product, for each vector width
 * swapped.c               forward for at most as many pixels as channels, few, and one tap
 * correlation.c           all other forward and backward by data, cut by shape alone
 * weights.c               backward weights
 * provider.c              the cost and the kernel
 *
 * A sum runs over (tap, channel) in chains of 128, or over pixels in chains of 64, added one after
 * the other; partial sums over pixels are added in a binary tree. Bits are the same for all vector
 * widths. */
#ifndef LS_CPU_CONV_IMPLICIT_GEMM_IMPLICIT_GEMM_H
#define LS_CPU_CONV_IMPLICIT_GEMM_IMPLICIT_GEMM_H

#include "cpu/conv/microkernels.h"
#include "cpu/conv/provider.h"

/* Rows of a product up to which its weights are packed by its tasks, or not at all. */
enum { LS__IMPLICIT_GEMM_SMALL = 256 };

/* One axis of a phase: pixel p of the phase is the result's pixel first + step p. Tap i is the
 * source's pixel source_step p + tap + i tap_step, and has index weight + i weight_step in w. */
typedef struct ls__implicit_gemm_axis {
    int64_t grid, first, step; /* grid: pixels */
    int64_t source_step, tap, tap_step, n_taps;
    int64_t weight, weight_step;
    int64_t taps_before; /* those of other phases, which are packed before */
} ls__implicit_gemm_axis;

/* The pixels of a phase: a grid in each image. A pixel's row has, tap by tap, the channels of the
 * source's pixels, zeros outside the image. */
typedef struct ls__implicit_gemm_phase {
    ls__implicit_gemm_axis axes[2];
    int64_t n_rows; /* of all images */
    bool plain;     /* rows are the source's pixels, one after the other */
} ls__implicit_gemm_phase;

typedef struct ls__implicit_gemm_image {
    int64_t size[2];
    int64_t channels; /* of a group */
    int64_t pixel;    /* channels of all groups */
} ls__implicit_gemm_image;

/* A convolution op: its images, and the phases that it computes. */
typedef struct ls__implicit_gemm_shape {
    bool data; /* backward by data */
    int64_t images, groups;
    ls__implicit_gemm_image source, result; /* of backward weights: x and dy */
    int64_t kernel[2], stride[2], padding[2], dilation[2];
    int64_t n_phases[2]; /* on each axis: of backward by data, else 1 */
} ls__implicit_gemm_shape;

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
    bool bf16; /* operands but dw and db */
    bool relu; /* of a linear layer's results */
    ls__implicit_gemm_shape shape;
    int64_t n_products;    /* phases */
    int64_t n_slabs, slab; /* of the result's channels */
    /* Forward, and backward by data */
    int64_t n_panels; /* of weights; of rows of x, if these are packed */
    int64_t depth;    /* places of (tap, channel) that a task multiplies at a time */
    int64_t group;    /* blocks of a task */
    int64_t packed;   /* floats of a group's panels */
    bool in_place;    /* rows of results lie in the image one after the other */
    bool packs;       /* backward by data: tasks pack the weights of their own columns */
    /* Forward, and backward by data, of a few rows */
    int64_t few_rows;
    /* Backward weights */
    int64_t n_sums, sum_rows;          /* partial sums, and the pixels of each */
    int64_t gathered;                  /* pixels gathered at a time */
    int64_t k_slab, n_k_slabs;         /* of (tap, channel) */
    int64_t d_stride, v_stride, pitch; /* of gathered rows; of partial sums' rows */
    bool first_in_place;               /* the first partial sum is dw itself */
} ls__implicit_gemm_kernel;

/* The op is one of the three, with dense N,H,W,C operands. */
ls__implicit_gemm_shape ls__implicit_gemm_shape_of(const ls__op *op);

/* Phase h * n_phases[1] + w of the result's pixels. */
ls__implicit_gemm_phase ls__implicit_gemm_phase_at(const ls__implicit_gemm_shape *s, int64_t index);

/* Whether no tap reaches the results of some phase. */
bool ls__implicit_gemm_has_empty_phase(const ls__implicit_gemm_shape *s);

/* Whether forward or backward by data has so few rows, and one tap, that few_rows.c computes it. */
bool ls__implicit_gemm_is_few_rows(const ls__implicit_gemm_shape *s);

/* Whether the op is forward with one tap and at most LS__IMPLICIT_GEMM_SMALL rows, and no more than
 * channels of the result, so that swapped.c computes it. */
bool ls__implicit_gemm_is_swapped(const ls__implicit_gemm_shape *s);

/* The call for one group of channels: its operands begin there. The group has so many floats of the
 * workspace. */
ls__conv_call ls__implicit_gemm_group(const ls__conv_call *call, int64_t group,
                                      int64_t workspace_floats);

/* Reads n values of an operand, in bf16 or f32, from an offset on. */
void ls__implicit_gemm_read(const ls__implicit_gemm_kernel *k, const void *from, int64_t offset,
                            int64_t n, float *to);

/* The rows below are those of a phase of the call's kernel. Prefetches n rows of x from `first` on,
 * at places k0..k1-1 of (tap, channel), during so many tiles; none if rows are gathered or
 * converted. */
ls__prefetch ls__implicit_gemm_prefetch(const ls__conv_call *call,
                                        const ls__implicit_gemm_phase *phase, int64_t first,
                                        int64_t n, int64_t k0, int64_t k1, int64_t tiles);

/* Prefetches n rows of some floats of an operand, from an offset on and `stride` apart, during so
 * many tiles; none in bf16. Without rows the offset may be past the operand's end. */
ls__prefetch ls__implicit_gemm_prefetch_rows(const ls__implicit_gemm_kernel *k, const void *operand,
                                             int64_t offset, int64_t stride, int64_t n,
                                             int64_t floats, int64_t tiles);

/* Copies rows first..first+n-1 of x at places k0..k1-1 to rows `stride` apart. */
void ls__implicit_gemm_gather(const ls__conv_call *call, const ls__implicit_gemm_phase *phase,
                              int64_t first, int64_t n, int64_t k0, int64_t k1, float *rows,
                              int64_t stride);

/* Writes results of these rows at channels c0..c1-1 into y, after it has added the bias, if there
 * is one, and applied a linear layer's ReLU in `rows`. rows NULL: zeros. */
void ls__implicit_gemm_scatter(const ls__conv_call *call, const ls__implicit_gemm_phase *phase,
                               float *rows, int64_t stride, int64_t first, int64_t n, int64_t c0,
                               int64_t c1);

/* Sets slab, a multiple of `step`, and n_slabs, so that a task takes some 0.1 ms, of so many
 * multiplications and additions in all, and has about min to max columns. */
void ls__implicit_gemm_plan_slabs(ls__implicit_gemm_kernel *k, double flops, int64_t min,
                                  int64_t max, int64_t step);

/* These set the rest of the kernel from its shape. */
void ls__implicit_gemm_plan_correlation(ls__implicit_gemm_kernel *k, bool bias);
void ls__implicit_gemm_plan_few_rows(ls__implicit_gemm_kernel *k);
void ls__implicit_gemm_plan_swapped(ls__implicit_gemm_kernel *k);
void ls__implicit_gemm_plan_weights(ls__implicit_gemm_kernel *k);

extern const ls__conv_algorithm ls__implicit_gemm_algorithm;
extern const ls__cpu_provider ls__implicit_gemm_provider;

#endif
