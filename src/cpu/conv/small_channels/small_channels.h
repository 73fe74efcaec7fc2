/* small_channels.h: our own direct convolution for few input channels (a first layer, LeNet), for
 * dense N,H,W,C activations in f32 with AVX2 and FMA. Libraries hold 8 or 16 input channels in a
 * vector, and have little to do where there are 1 or 3.
 *
 * With N,H,W,C what a window sees of one input row, kernel width times channels, is one row_taps of
 * memory, and windows are rows of taps that begin stride times channels apart. So each row of the
 * kernel is a matrix product over rows of taps, without copies of windows:
 *
 *   forward            y[q][k]     = sum over row_taps t of x[q step + t] w[t][k]
 *   backward weights   dw[t][k]    = sum over places q of  x[q step + t] dy[q][k]
 *   backward by data   dx[q step + t] += sum over k of     dy[q][k] w[k][t]
 *
 * microkernel.c  the matrix product on registers
 * sliding.c      the forward one for a single channel
 * tiles.c        tiles of images with their padding
 * tasks.c        tasks, cut by shape alone
 * provider.c     the cost and the kernel */
#ifndef LS_CPU_CONV_SMALL_CHANNELS_SMALL_CHANNELS_H
#define LS_CPU_CONV_SMALL_CHANNELS_SMALL_CHANNELS_H

#include "cpu/conv/provider.h"

enum { LS__SMALL_CHANNELS_VECTOR = 8, LS__SMALL_CHANNELS_MAX_VECTORS = 4 };

/* out[i][j] = start[j] + sum over o, t of a[i][o][t] b[o][t][j], o outside of t, both in order; or,
 * with `add`, out[i][j] += that sum. i counts n_rows, j n_columns. Rows of a lie a_row apart, and
 * lines of `line` rows a_line. b and start are read up to whole vectors. With `add` and a single
 * line rows of out may overlap: they are added one after the other, in a fixed order. Strides are
 * in floats. */
typedef struct ls__small_channels_product {
    const float *a, *b, *start; /* start: NULL for zeros */
    float *out;
    int64_t n_rows, n_columns, n_outer, n_inner;
    int64_t a_row, a_line, line, a_outer, a_inner, b_outer, b_inner, out_row;
    bool add;
} ls__small_channels_product;
void ls__small_channels_multiply(const ls__small_channels_product *product);
/* Copies from[rows][columns] to to[rows][padded], with zeros from column `columns` on; padded is a
 * multiple of a vector. */
void ls__small_channels_pad_columns(const float *from, int64_t rows, int64_t columns,
                                    int64_t padded, float *to);
/* sum[columns] += the sum of from's rows, `pitch` apart: that sum is computed first, then added.
 * Whole vectors. */
void ls__small_channels_add_rows(const float *from, int64_t rows, int64_t columns, int64_t pitch,
                                 float *sum);

/* Windows of one channel that begin side by side: y[q][k] = start[k] + sum over r, t of
 * x[r pitch + q + t] w[r][t][k], r < n_rows, t < taps; k < out, at most VECTOR and at least half of
 * it: what a vector has more is no more than the next place. w and start hold whole vectors. There
 * must be ls__small_channels_min_places(taps) places, of which INT64_MAX says that there is no such
 * kernel. */
typedef struct ls__small_channels_windows {
    const float *w, *start; /* start: NULL for zeros */
    int64_t n_rows, taps, n_places, pitch, out;
} ls__small_channels_windows;
int64_t ls__small_channels_min_places(int64_t taps);
void ls__small_channels_slide(const ls__small_channels_windows *windows, const float *x, float *y);

extern const ls__cpu_provider ls__small_channels_provider;

#endif
