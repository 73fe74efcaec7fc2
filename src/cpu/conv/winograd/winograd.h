/* winograd.h: our own minimal-filtering convolution, F(4x4, 3x3) (Winograd 1980; Lavin & Gray,
 * "Fast algorithms for convolutional neural networks", CVPR 2016), for dense N,H,W,C activations,
 * 3x3 kernels of stride 1, in f32. A tile of 4x4 results needs 6x6 = 36 products a channel
 * pair instead of 144.
 *
 * With d a 6x6 tile of the input, g the 3x3 weights, and 36 positions xi in the transformed domain,
 * at each of which the products are one matrix product:
 *
 *   forward            y  = A' [ (G g G') * (B' d B) ] A, summed over input channels
 *   backward by data   the same over dy, with weights rotated by 180 degrees, channels exchanged
 *   backward weights   dg = G' [ (B' d B) * (A dy A') ] G, summed over tiles
 *
 * transforms.c  the transforms of one vector width and one type in memory
 * transform.h   their linear maps
 * fused.c       products of a block of tiles stay in a core's cache
 * nonfused.c    transformed images go through memory: for many channels and few tiles
 * provider.c    geometry, cost, and which of the two a shape uses
 *
 * Each result is summed in one order, over channels in chains or over tiles, so bits are the same
 * for every vector width. The relative L2 error against direct convolution in f32 is at most
 * 2.5e-6.
 *
 * Activations, weights and bias may be bf16: they are read as f32 and results are rounded once, so
 * they are the rounded results of the f32 kernel. Products of bf16 values would need F(2x2),
 * with 1.78 times as many, because transformed values of F(4x4) need more than 8 bits. */
#ifndef LS_CPU_CONV_WINOGRAD_WINOGRAD_H
#define LS_CPU_CONV_WINOGRAD_WINOGRAD_H

#include "cpu/conv/microkernels.h"
#include "cpu/conv/provider.h"

enum {
    LS__WINOGRAD_OUT = 4, /* side of a tile of results */
    LS__WINOGRAD_IN = 6,  /* side of a tile of inputs */
    LS__WINOGRAD_XI = 36, /* positions in the transformed domain */
};

/* One image batch cut into tiles of results. `in` and `out` are those of the correlation that is
 * computed: for backward by data the input is dy. */
typedef struct ls__winograd_geometry {
    int64_t n, in_h, in_w, in_channels, out_h, out_w, out_channels;
    int64_t pad_h, pad_w;
    int64_t tiles_h, tiles_w, n_tiles;
} ls__winograd_geometry;

/* Transforms of one vector width and one type of x, w, bias, y and dy, f32 or bf16. Channels are
 * rounded up to whole vectors; results of the added channels are never read. */
typedef struct ls__winograd_transforms {
    const ls__microkernels *micro; /* the products, of the same width */

    /* Transformed inputs B' d B of tiles first..first+count-1 and channels c0..c1-1 (c0 a multiple
     * of the vector width), to v[xi * xi_stride + tile * tile_stride + (c - c0)]. */
    void (*input)(const ls__winograd_geometry *g, const void *x, int64_t first, int64_t count,
                  int64_t c0, int64_t c1, float *v, int64_t xi_stride, int64_t tile_stride);
    /* Results A' m A of the tiles, with m in the same layout, into y at output channels k0..k1-1,
     * plus bias (may be NULL). */
    void (*output)(const ls__winograd_geometry *g, const float *m, int64_t xi_stride,
                   int64_t tile_stride, int64_t first, int64_t count, int64_t k0, int64_t k1,
                   const void *bias, void *y);
    /* Transformed gradients A dy A' of tiles and output channels, in the same layout. */
    void (*gradient)(const ls__winograd_geometry *g, const void *dy, int64_t first, int64_t count,
                     int64_t k0, int64_t k1, float *d, int64_t xi_stride, int64_t tile_stride);

    /* One panel of transformed weights u[xi * xi_stride + c * panel + column] from w [O,3,3,I].
     * rotated: those of backward by data, where the correlation's outputs are I and its inputs O.
     */
    void (*weights)(const ls__winograd_geometry *g, const void *w, bool rotated, int64_t panel,
                    float *u, int64_t xi_stride);
    /* dw [O,3,3,I], always f32, for output channel k from its sums u[xi * xi_stride + c]. */
    void (*weight_gradient)(const ls__winograd_geometry *g, const float *u, int64_t xi_stride,
                            int64_t k, void *dw);
} ls__winograd_transforms;

extern const ls__winograd_transforms ls__winograd_plain, ls__winograd_bf16_plain;
extern const ls__winograd_transforms ls__winograd_avx2, ls__winograd_bf16_avx2;
extern const ls__winograd_transforms ls__winograd_avx512, ls__winograd_bf16_avx512;

typedef struct ls__winograd_kernel {
    ls__conv_kernel base; /* first */
    const ls__winograd_transforms *transforms;
    const ls__microkernels *micro;
    ls__winograd_geometry g;
    bool rotated;          /* backward by data */
    int64_t element_bytes; /* of activations */
    int64_t v_stride;      /* floats from tile to tile of transformed inputs */
    int64_t u_xi;          /* floats from position to position: of a panel of transformed weights;
                              backward weights: of their sums over tiles */
    /* fused.c, forward and backward by data */
    int64_t n_panels, block_tiles, group; /* group: blocks of a task */
    int64_t width;                        /* output channels that are multiplied at once */
    /* fused.c, backward weights */
    int64_t d_stride, n_sums, sum_tiles; /* partial sums, and the tiles of each */
    int64_t n_slabs, slab;               /* of output channels */
    /* nonfused.c */
    int64_t n_tile_blocks;      /* for transforms */
    int64_t c_blocks, k_blocks; /* of input and of output channels */
    int64_t row_blocks, rows;   /* of correlations: rows of a row block */
    int64_t v_xi, m_xi;         /* floats from position to position */
    size_t m_offset, u_offset;  /* floats, in the workspace */
} ls__winograd_kernel;

/* Floats from one tile of transformed channels to the next: whole vectors. */
static inline int64_t ls__winograd_stride(const ls__winograd_kernel *k, int64_t channels)
{
    return ls__row_stride(ls__round_up_to(channels, k->micro->width));
}

/* Floats from position to position of a panel of transformed weights. The transform writes all 36
 * positions of a row, one row further each time, so that they do not share cache sets. */
static inline int64_t ls__winograd_panel_xi(const ls__winograd_kernel *k)
{
    return (k->g.in_channels + 1) * k->micro->panel;
}

/* These set the rest of the kernel. */
void ls__winograd_plan_fused(ls__winograd_kernel *k);
void ls__winograd_plan_nonfused(ls__winograd_kernel *k);

/* Whether a shape has so many channels and so few tiles that nonfused.c is faster. */
bool ls__winograd_is_nonfused(const ls__winograd_geometry *g, ls__op_kind kind);

extern const ls__conv_algorithm ls__winograd_algorithm;
extern const ls__cpu_provider ls__winograd_provider;

#endif
