/* kernel.h: a kernel of this folder, as its tasks and its maker see it. */
#ifndef LS_CPU_CONV_IMPLICIT_GEMM_KERNEL_H
#define LS_CPU_CONV_IMPLICIT_GEMM_KERNEL_H

#include "cpu/conv/implicit_gemm/gemm.h"

/* Measured on a Zen 3 (L2 512 KiB, L3 32 MiB), as the enums of products.c and weights.c. */
enum {
    LS__GEMM_WIDEST_PANEL = 32, /* of any width of vectors */
    LS__GEMM_ROW_STEP = 12      /* whole tiles of both widths of vectors */
};

/* A phase, its rows, and its packed weights. */
typedef struct ls__gemm_part {
    ls__gemm_phase phase;
    int64_t depth;  /* taps times channels of the source */
    int64_t rows;   /* of a block */
    int64_t packed; /* floats, in the workspace: panels [depth][panel] */
} ls__gemm_part;

typedef struct ls__gemm_kernel {
    ls__kernel kernel; /* first */
    ls__cpu *cpu;
    const ls__gemm_lanes *lanes;
    bool data;                     /* backward by data */
    bool bf16;                     /* operands but dw */
    ls__gemm_image source, result; /* of backward weights: x and dy */
    int n_parts;
    ls__gemm_part parts[LS__GEMM_MOST_PHASES];
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
} ls__gemm_kernel;

/* Fill in what the phases and images lead to, workspace_bytes included; return the bytes of
 * scratch. */
size_t ls__gemm_plan_products(ls__gemm_kernel *k, bool bias);
size_t ls__gemm_plan_weights(ls__gemm_kernel *k);

/* Forward, and backward by data. */
ls_status ls__gemm_run_products(ls__kernel *kernel, void *const *buffers, void *workspace,
                                const ls__step *step);
ls_status ls__gemm_run_weights(ls__kernel *kernel, void *const *buffers, void *workspace,
                               const ls__step *step);

#endif
