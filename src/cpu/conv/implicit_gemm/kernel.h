/* kernel.h: a kernel of this folder, as its tasks and the provider see it. */
#ifndef LS_CPU_CONV_IMPLICIT_GEMM_KERNEL_H
#define LS_CPU_CONV_IMPLICIT_GEMM_KERNEL_H

#include "cpu/conv/implicit_gemm/implicit_gemm.h"

/* A phase, its rows, and its packed weights. */
typedef struct ls__implicit_gemm_part {
    ls__implicit_gemm_phase phase;
    int64_t depth;  /* taps times channels of the source */
    int64_t rows;   /* of a block */
    int64_t packed; /* floats, in the workspace: panels [depth][panel] */
} ls__implicit_gemm_part;

typedef struct ls__implicit_gemm_kernel {
    ls__conv_kernel base; /* first */
    const ls__microkernels *micro;
    bool data;                              /* backward by data */
    bool bf16;                              /* operands but dw */
    ls__implicit_gemm_image source, result; /* of backward weights: x and dy */
    int n_parts;
    ls__implicit_gemm_part parts[LS__IMPLICIT_GEMM_MAX_PHASES];
    int64_t n_tasks;
    /* Forward, and backward by data */
    int64_t n_slabs, slab, n_panels;
    int64_t group;                  /* blocks of a task */
    int64_t all_taps;               /* of w */
    bool in_place;                  /* rows of results lie in the image one after the other */
    int64_t filters, filter_floats; /* of w, and of one of them */
    int64_t w_f32; /* in the workspace, its copy in f32 and behind it the bias's, if bf16 */
    /* Backward weights */
    int64_t n_sums, sum_rows;          /* partial sums, and the pixels of each */
    int64_t k_slab, n_k_slabs;         /* of (tap, channel) */
    int64_t d_stride, v_stride, pitch; /* of gathered rows; of partial sums' rows */
    bool first_in_place;               /* the first partial sum is dw itself */
} ls__implicit_gemm_kernel;

/* Set the rest of the kernel from its phases and images: run, workspace_bytes, scratch_bytes. */
void ls__implicit_gemm_plan_correlation(ls__implicit_gemm_kernel *k, bool bias);
void ls__implicit_gemm_plan_weights(ls__implicit_gemm_kernel *k);

#endif
