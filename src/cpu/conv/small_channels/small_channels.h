/* small_channels.h: our own direct convolution for few input channels (a first layer, LeNet), for
 * dense N,H,W,C activations in f32. Libraries hold 8 or 16 input channels in a
 * vector, and leave most of it empty if there are 1 or 3.
 *
 * In N,H,W,C the values of one input row in a window, the row taps, are contiguous: kernel width
 * times channels. Windows begin stride times channels apart. So each row of the kernel is a matrix
 * product over row taps, without copies of windows:
 *
 *   forward            y[q][k]     = sum over row taps t of x[q step + t] w[t][k]
 *   backward weights   dw[t][k]    = sum over places q of   x[q step + t] dy[q][k]
 *   backward by data   dx[q step + t] += sum over k of      dy[q][k] w[k][t]
 *
 * microkernel.c  the matrix product on registers
 * sliding.c      the forward product for a single channel
 * tasks.c        tasks, cut by shape alone
 * provider.c     the cost and the kernel */
#ifndef LS_CPU_CONV_SMALL_CHANNELS_SMALL_CHANNELS_H
#define LS_CPU_CONV_SMALL_CHANNELS_SMALL_CHANNELS_H

#include "cpu/conv/provider.h"

/* Columns of a vector of AVX2. Costs, tasks and the order of sums count in these on every
 * processor; vectors of AVX-512 hold two of them. */
enum { LS__SMALL_CHANNELS_UNIT = 8, LS__SMALL_CHANNELS_MAX_VECTORS = 4 };

/* X(taps, places) of each width of a kernel that slides, and the places that it computes at a time:
 * sums, a row of weights and a value in 16 registers. */
#define LS__SMALL_CHANNELS_SLIDES(X) X(3, 12) X(5, 10) X(7, 8)

/* out[i][j] = start[j] + sum over o, t of a[i][o][t] b[o][t][j], o outside of t, both in order; or,
 * with `add`, out[i][j] += that sum; i < n_rows, j < n_columns. Rows of a are a_row apart, and
 * lines of `line` rows a_line. b and start are read in whole vectors. With `add` and a single line,
 * rows of out may overlap: they are added one after the other, in a fixed order. Strides are in
 * floats. */
typedef struct ls__small_channels_product {
    const float *a, *b, *start; /* start: NULL for zeros */
    float *out;
    int64_t n_rows, n_columns, n_outer, n_inner;
    int64_t a_row, a_line, line, a_outer, a_inner, b_outer, b_inner, out_row;
    bool add;
} ls__small_channels_product;

/* Windows of one channel that begin side by side: y[q][k] = start[k] + sum over r, t of
 * x[r pitch + q + t] w[r][t][k], r < n_rows, t < taps, k < out; out is at most UNIT and at least
 * half of it, so that a vector ends before the place after next. w and start hold whole units.
 * There are at least as many places as LS__SMALL_CHANNELS_SLIDES computes at a time. */
typedef struct ls__small_channels_windows {
    const float *w, *start; /* start: NULL for zeros */
    int64_t n_rows, taps, n_places, pitch, out;
} ls__small_channels_windows;

/* Kernels of one instruction set. */
typedef struct ls__small_channels_microkernels {
    int64_t vector; /* columns of a vector */
    void (*multiply)(const ls__small_channels_product *product);
    void (*slide)(const ls__small_channels_windows *windows, const float *x, float *y);
    /* Copies from[rows][columns] to to[rows][padded], with zeros from column `columns` on; padded
     * is a multiple of a vector. */
    void (*pad_columns)(const float *from, int64_t rows, int64_t columns, int64_t padded,
                        float *to);
    /* sum[columns] += the sum of from's rows, `pitch` apart: that sum is computed first, then
     * added. Whole vectors. */
    void (*add_rows)(const float *from, int64_t rows, int64_t columns, int64_t pitch, float *sum);
} ls__small_channels_microkernels;

typedef struct ls__small_channels_kernel {
    ls__conv_kernel base; /* first */
    const ls__small_channels_microkernels *micro;
    int64_t images, xh, xw, in, yh, yw, out; /* x [images,xh,xw,in], y [images,yh,yw,out] */
    int64_t kernel_h, row_taps;              /* row_taps: kernel width times in */
    int64_t stride_h, stride_w, padding[2];
    bool padded;           /* else x is read in place */
    bool slides;           /* forward: by sliding.c */
    int64_t columns;       /* of a padded row, in places */
    int64_t pitch;         /* of a row that is read, in floats */
    int64_t rows_per_tile; /* of y */
    int64_t tiles_per_image, n_tiles, n_tasks;
    int64_t padded_out,
        padded_row_taps; /* whole vectors; padded_out of a kernel that slides: units */
} ls__small_channels_kernel;

/* Sets the passes, workspace_bytes and scratch_bytes from all else. */
void ls__small_channels_plan_tasks(ls__small_channels_kernel *k);

extern const ls__small_channels_microkernels ls__small_channels_plain, ls__small_channels_avx2,
    ls__small_channels_avx512;
extern const ls__conv_algorithm ls__small_channels_algorithm;
extern const ls__cpu_provider ls__small_channels_provider;

#endif
