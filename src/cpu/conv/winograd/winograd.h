/* winograd.h: our own minimal-filtering convolution, F(4x4, 3x3) (Winograd 1980; Lavin & Gray,
 * "Fast algorithms for convolutional neural networks", CVPR 2016), for dense N,H,W,C activations,
 * 3x3 kernels of stride 1, in f32 with FMA. A tile of 4x4 results needs 6x6 = 36 products a channel
 * pair instead of 144.
 *
 * With d a 6x6 piece of the input, g the 3x3 weights, and 36 positions xi in the transformed
 * domain, at each of which the products are one matrix product:
 *
 *   forward            y  = A' [ (G g G') * (B' d B) ] A, summed over input channels
 *   backward by data   the same over dy, with weights turned by 180 degrees, channels exchanged
 *   backward weights   dg = G' [ (B' d B) * (A dy A') ] G, summed over tiles
 *
 * lanes.c      what depends on the width of vectors, compiled for 8 floats (AVX2) and for 16
 *              (AVX-512), and again for bf16 in memory: element.h (the type in memory), transform.h
 *              (the linear maps), images.h and weights.h (to and from the transformed domain),
 *              and gemm's vector.h and product.h
 * wide.c       tasks for many channels and few tiles, cut by shape alone
 * kernel.c     tasks for all else, cut by shape alone; the provider
 *
 * Every result is summed in one order, over channels in chains or over tiles, whatever the width:
 * the bits are those of any other width. Against direct convolution in f32 the relative L2 error is
 * at most 5e-6.
 *
 * Activations, weights and bias may be bf16: what is read becomes f32, all in between is f32, and
 * what is written is rounded once, so results are those of the f32 kernel on the same values,
 * rounded. Products of bf16 factors would need F(2x2), 2.25 times as many: F(4x4)'s transforms make
 * numbers that 8 bits do not hold. */
#ifndef LS_CPU_CONV_WINOGRAD_WINOGRAD_H
#define LS_CPU_CONV_WINOGRAD_WINOGRAD_H

#include "cpu/conv/implicit_gemm/gemm.h"

enum {
    LS__WINO_OUT = 4, /* side of a tile of results */
    LS__WINO_IN = 6,  /* side of a tile of inputs */
    LS__WINO_XI = 36, /* positions in the transformed domain */
};

/* One image batch cut into tiles of results. `in` and `out` are those of the correlation that is
 * computed: for backward by data the input is dy. */
typedef struct ls__wino_geometry {
    int64_t n, in_h, in_w, in_channels, out_h, out_w, out_channels;
    int64_t pad_h, pad_w;
    int64_t tiles_h, tiles_w, n_tiles;
} ls__wino_geometry;

/* Kernels of one vector width and one type of x, w, bias, y and dy, f32 or bf16. Where a count of
 * channels is no multiple of `lanes`, transformed channels are rounded up to one; what lies there
 * comes into no result. */
typedef struct ls__wino_lanes {
    int64_t lanes; /* floats of a vector */
    int64_t panel; /* output channels of a weight panel */
    int64_t rows;  /* of a tile of a product */

    /* Transformed inputs B' d B of tiles first..first+count-1 and channels c0..c1-1 (c0 a multiple
     * of lanes), to v[xi * xi_stride + tile * tile_stride + (c - c0)]. */
    void (*input)(const ls__wino_geometry *g, const void *x, int64_t first, int64_t count,
                  int64_t c0, int64_t c1, float *v, int64_t xi_stride, int64_t tile_stride);
    /* Results A' m A of the tiles into y at output channels k0..k1-1, laid out alike; bias (may be
     * NULL) is added. */
    void (*output)(const ls__wino_geometry *g, const float *m, int64_t xi_stride,
                   int64_t tile_stride, int64_t first, int64_t count, int64_t k0, int64_t k1,
                   const void *bias, void *y);
    /* Transformed gradients A dy A' of tiles and output channels, laid out alike. */
    void (*gradient)(const ls__wino_geometry *g, const void *dy, int64_t first, int64_t count,
                     int64_t k0, int64_t k1, float *d, int64_t xi_stride, int64_t tile_stride);

    /* One panel of transformed weights u[xi][in_channels][panel] from w [O,3,3,I]. turned: those of
     * backward by data, where the correlation's outputs are I and its inputs O. */
    void (*weights)(const ls__wino_geometry *g, const void *w, bool turned, int64_t panel,
                    float *u);
    /* dw [O,3,3,I], always f32, for output channel k from its sums u[xi * xi_stride + c]. */
    void (*weight_gradient)(const ls__wino_geometry *g, const float *u, int64_t xi_stride,
                            int64_t k, void *dw);

    /* m[row][k] = (onto ? m[row][k] : 0) + sum over c of v[row][c] u[c][k], for k < columns of a
     * panel. */
    void (*multiply)(bool onto, const float *v, int64_t v_stride, const float *u, int64_t channels,
                     int64_t rows, int64_t columns, float *m, int64_t m_stride, ls__ahead *ahead);
    /* s[k][c] += sum over rows of d[row][k] v[row][c], k < columns, c < channels. */
    void (*outer)(const float *d, int64_t d_stride, const float *v, int64_t v_stride, int64_t rows,
                  int64_t columns, int64_t channels, float *s, int64_t s_stride, ls__ahead *ahead);
} ls__wino_lanes;

extern const ls__wino_lanes ls__wino_avx2, ls__wino_avx2_bf16;
extern const ls__wino_lanes ls__wino_avx512, ls__wino_avx512_bf16;

/* From one tile to the next: whole vectors. */
static inline int64_t ls__wino_stride(const ls__wino_lanes *lanes, int64_t channels)
{
    return ls__gemm_row_stride(ls__round_up_to(channels, lanes->lanes));
}

/* The kernel for a convolution op that the provider lists, with these kernels of a width. */
ls_status ls__wino_open(ls__cpu *cpu, const ls__op *op, const ls__wino_lanes *lanes,
                        const char *name, ls__kernel **out);

/* Kernels for many channels and few tiles (wide.c), and whether this is such a case. */
bool ls__wino_is_wide(const ls__wino_geometry *g, ls__op_kind kind);
ls_status ls__wino_wide_open(ls__cpu *cpu, const ls__wino_geometry *g, ls__op_kind kind,
                             const ls__wino_lanes *lanes, const char *name, ls__kernel **out);

extern const ls__cpu_provider ls__winograd_provider;

#endif
