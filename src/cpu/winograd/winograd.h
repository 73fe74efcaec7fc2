/* winograd.h: our own minimal-filtering convolution, F(4x4, 3x3) (Winograd 1980; Lavin & Gray,
 * "Fast algorithms for convolutional neural networks", CVPR 2016), for dense N,H,W,C activations,
 * 3x3 kernels of stride 1, in f32 with AVX2 and FMA. A tile of 4x4 results needs 6x6 = 36 products
 * a channel pair instead of 144.
 *
 * With d a 6x6 piece of the input, g the 3x3 weights, and 36 positions xi in the transformed
 * domain, at each of which the products are one matrix product:
 *
 *   forward            y  = A' [ (G g G') * (B' d B) ] A, summed over input channels
 *   backward by data   the same over dy, with weights turned by 180 degrees, channels exchanged
 *   backward weights   dg = G' [ (B' d B) * (A dy A') ] G, summed over tiles
 *
 * transform.c  pictures and weights to and from the transformed domain
 * gemm.c       the matrix products on registers
 * wide.c       tasks for many channels and few tiles, cut by shape alone
 * kernel.c     tasks for all else, cut by shape alone; the provider
 *
 * Against direct convolution in f32 the relative L2 error is about 1e-6. */
#ifndef LS_CPU_WINOGRAD_WINOGRAD_H
#define LS_CPU_WINOGRAD_WINOGRAD_H

#include "cpu/cpu.h"

enum {
    LS__WINO_OUT = 4, /* side of a tile of results */
    LS__WINO_IN = 6,  /* side of a tile of inputs */
    LS__WINO_XI = 36, /* positions in the transformed domain */
    LS__WINO_VECTOR = 8,
    LS__WINO_PANEL = 16, /* output channels of a weight panel */
    LS__WINO_ROWS = 6    /* tiles that a matrix product handles at once */
};

/* One picture batch cut into tiles of results. `in` and `out` are those of the correlation that is
 * computed: for backward by data the input is dy. */
typedef struct ls__wino_geometry {
    int64_t n, in_h, in_w, in_channels, out_h, out_w, out_channels;
    int64_t pad_h, pad_w;
    int64_t tiles_h, tiles_w, n_tiles;
} ls__wino_geometry;

/* Transformed inputs B' d B of tiles first..first+count-1 and channels c0..c1-1 (multiples of 8),
 * to v[xi * xi_stride + tile * tile_stride + (c - c0)]. Tiles from n_tiles on give zeros. */
void ls__wino_input(const ls__wino_geometry *g, const float *x, int64_t first, int64_t count,
                    int64_t c0, int64_t c1, float *v, int64_t xi_stride, int64_t tile_stride);
/* Results A' m A of the tiles into y at output channels k0..k1-1; bias (may be NULL) is added. */
void ls__wino_output(const ls__wino_geometry *g, const float *m, int64_t xi_stride,
                     int64_t tile_stride, int64_t first, int64_t count, int64_t k0, int64_t k1,
                     const float *bias, float *y);
/* Transformed gradients A dy A' of tiles and output channels, laid out as ls__wino_input's. */
void ls__wino_gradient(const ls__wino_geometry *g, const float *dy, int64_t first, int64_t count,
                       int64_t k0, int64_t k1, float *d, int64_t xi_stride, int64_t tile_stride);

/* Panels of transformed weights u[panel][xi][in_channels][16] from w [O,3,3,I]: one panel of 16
 * output channels of the correlation. turned: those of backward by data, where the correlation's
 * outputs are I and its inputs O. */
void ls__wino_weights(const ls__wino_geometry *g, const float *w, bool turned, int64_t panel,
                      float *u);
/* dw [O,3,3,I] for input channels c..c+7 from sums u[xi * xi_stride + channel * row_stride + k]. */
void ls__wino_weight_gradient(const ls__wino_geometry *g, const float *u, int64_t xi_stride,
                              int64_t row_stride, int64_t c, float *dw);

/* m[row][16] = sum over c of v[row][c] u[c][16], for `rows` rows (a multiple of 6). */
void ls__wino_multiply(const float *v, int64_t v_stride, const float *u, int64_t channels,
                       int64_t rows, float *m, int64_t m_stride);
/* s[c][k] += sum over rows of v[row][c] d[row][k], c < channels (a multiple of 8), k < columns (a
 * multiple of 8). */
void ls__wino_outer(const float *v, int64_t v_stride, const float *d, int64_t d_stride,
                    int64_t rows, int64_t channels, int64_t columns, float *s, int64_t s_stride);

/* Kernels for many channels and few tiles (wide.c), and whether this is such a case. */
bool ls__wino_is_wide(const ls__wino_geometry *g, ls__op_kind kind);
ls_status ls__wino_wide_open(ls__cpu *cpu, const ls__wino_geometry *g, ls__op_kind kind,
                             const char *name, ls__kernel **out);

extern const ls__cpu_provider ls__winograd_provider;

#endif
