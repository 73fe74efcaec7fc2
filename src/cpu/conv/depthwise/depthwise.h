/* depthwise.h: our own depthwise convolutions (groups = channels, one filter per channel), for
 * dense N,H,W,C activations in f32 or bf16:
 *
 *   forward            y[p][c]   = b[c] + sum over taps of x[p + tap][c] w[c][tap]
 *   backward by data   dx[p][c]  = sum over taps of dy[p - tap][c] w[c][tap]
 *   backward weights   dw[c][tap] = sum over pixels p of dy[p][c] x[p + tap][c]
 *
 * Vectors hold channels of one pixel. A task has some rows of results, for a block of the channels.
 * It reads f32 in place if the channels are whole vectors. Else it copies each source row once, in
 * f32, into a ring of the rows that one row of results reads. bf16 becomes f32 in the copy, and
 * results are rounded once.
 *
 * microkernels.c  one row of results, or of dy, in registers, for each vector width
 * tasks.c         the ring; tasks, cut by shape alone
 * provider.c      the cost and the kernel
 *
 * A sum runs over taps in order of their source pixels. A weight's gradient is summed over a row's
 * pixels that the same taps reach; these sums are added in order, and those of tasks in a binary
 * tree. Bits are the same for all vector widths. */
#ifndef LS_CPU_CONV_DEPTHWISE_DEPTHWISE_H
#define LS_CPU_CONV_DEPTHWISE_DEPTHWISE_H

#include "cpu/conv/provider.h"

enum {
    LS__DEPTHWISE_MAX_TAPS = 15, /* of a kernel's side */
    LS__DEPTHWISE_MAX_RUNS = 48, /* of columns with the same taps: a kernel of 15 has up to 31 */
    LS__DEPTHWISE_MAX_NEXT = 2,  /* rows to prefetch: the stride, at most 2 */
    LS__DEPTHWISE_VECTOR = 16    /* copies hold a multiple of so many channels */
};

/* Some pixels of a row of results, or of dy, that the same taps reach, and the kernel rows that
 * reach the row. Offsets are in floats. */
typedef struct ls__depthwise_row {
    int64_t n_rows, n_taps;
    const float *x[LS__DEPTHWISE_MAX_TAPS]; /* by kernel row: the source row */
    float *w[LS__DEPTHWISE_MAX_TAPS];       /* by kernel row: its weights, or their gradients */
    int64_t x_first, w_first; /* of the first tap: its source pixel for the first result; weight */
    int64_t x_tap, w_tap;     /* from tap to tap */
    int64_t x_step, y_step;   /* from pixel to pixel of y or dy */
    int64_t n_pixels, channels;
    const float *bias, *dy; /* bias: NULL for zeros */
    float *y;
    /* Source rows that the next row of results is the first to read, and the source pixels of each
     * result, `pitch` apart: they are prefetched. */
    int64_t n_next, next_pixels, pitch;
    const float *next[LS__DEPTHWISE_MAX_NEXT];
} ls__depthwise_row;

/* Kernels of one vector width. All operands but y are read and written in whole vectors. */
typedef struct ls__depthwise_microkernels {
    /* y[q][c] = bias[c] + sum over r, s of x[r][q + s][c] w[r][s][c] */
    void (*correlate)(const ls__depthwise_row *row);
    /* w[r][s][c] += sum over q of x[r][q + s][c] dy[q][c] */
    void (*add_gradients)(const ls__depthwise_row *row);
    /* Rows of n bf16 values to f32, and back, rounded to nearest even. */
    void (*read_bf16)(const uint16_t *from, int64_t n, float *to);
    void (*write_bf16)(const float *from, int64_t n, uint16_t *to);
} ls__depthwise_microkernels;

/* Every step-th column of the result from `first` on, n of them, that the same taps reach: `tap`
 * and every tap_step-th after it. Their source columns begin at `source`, and at source + x_step
 * for the next result. */
typedef struct ls__depthwise_run {
    int64_t first, n;
    int64_t n_taps, tap, tap_step, source, source_step;
} ls__depthwise_run;

typedef struct ls__depthwise_kernel {
    ls__conv_kernel base; /* first */
    const ls__depthwise_microkernels *micro;
    bool bf16;    /* operands but dw and db */
    bool data;    /* backward by data: the source is dy, the result dx */
    bool weights; /* the source is x, the result's shape dy's */
    int64_t images, channels, source[2], result[2];
    int64_t kernel[2], stride[2], padding[2], dilation[2];
    int64_t x_step, y_step; /* columns of the source and of the result */
    int n_runs;
    ls__depthwise_run runs[LS__DEPTHWISE_MAX_RUNS];
    bool in_place; /* the source is read in place, else through a ring */
    int64_t ring_rows;
    int64_t block, n_blocks; /* of channels */
    int64_t n_chunks;        /* of all images' result rows */
    int64_t row_floats;      /* of scratch, for a row of results or dy */
} ls__depthwise_kernel;

/* Sets the ring, the runs and the block of channels from the shape. False if the ring is too large,
 * or the runs are too many. */
bool ls__depthwise_plan_ring(ls__depthwise_kernel *k);
/* Sets the passes, workspace_bytes and scratch_bytes from all else. */
void ls__depthwise_plan_tasks(ls__depthwise_kernel *k, bool bias);

extern const ls__depthwise_microkernels ls__depthwise_plain, ls__depthwise_avx2,
    ls__depthwise_avx512;
extern const ls__conv_algorithm ls__depthwise_algorithm;
extern const ls__cpu_provider ls__depthwise_provider;

#endif
