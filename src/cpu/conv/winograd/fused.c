/* fused.c: Winograd convolutions whose transforms and products are one pass. Tasks are blocks of
 * tiles (forward, backward by data), or parts of the tiles times parts of the input channels
 * (backward weights), cut by shape alone. */
#include "cpu/conv/winograd/winograd.h"
#include "cpu/tree.h"

#include <string.h>

/* Measured on a Zen 3 (L2 512 KiB, L3 32 MiB). */
enum {
    CORE_CACHE_BYTES = 288 << 10, /* of V and M that a block of tiles should fit */
    TILE_STEP = 12, /* whole tiles of products, of both widths of vectors; fewer make the weights'
                       way from the outer cache too frequent */
    MAX_TILES = 36,
    GROUP_CHANNELS = 64, /* multiplied before results are transformed: whole lines of an image */
    GROUP_BLOCKS = 4,    /* of a task, at most: while one is worked on, the next is read */
    FEW_BLOCKS = 32,
    LINE_BYTES = 64,
    WEIGHT_TILES = 64,        /* tiles transformed at a time for backward weights */
    MAX_PREFETCHED = 128,     /* up to so many input and output channels together; more
                                are evicted before they are read */
    PARTIAL_BYTES = 20 << 20, /* of partial weight sums in all: they cross memory twice */
    MAX_PARTS = 16,
    REDUCE_ROWS = 4 /* output channels of a task that adds the parts */
};

/* ---- Prefetching ---- */

/* Half of the positions prefetch one image, the others another. */
enum { HALF = LS__WINOGRAD_XI / 2 };

/* Channels c0..c1-1 of those pixels that are to all pixels as tiles first..first+count-1 are to all
 * tiles, in n_fetches parts, one with each tile of a product. */
static ls__prefetch prefetch_of(const ls__winograd_kernel *k, const void *image, int64_t pixels,
                                int64_t channels, int64_t c0, int64_t c1, int64_t first,
                                int64_t count, int64_t n_fetches)
{
    const int64_t n = k->g.n_tiles, in_float = (int64_t)sizeof(float) / k->element_bytes;
    const int64_t begin = ls__min(first, n) * pixels / n,
                  end = ls__min(first + count, n) * pixels / n;
    const int64_t floats = ls__divide_up(c1 - c0, in_float), stride = channels / in_float;
    const int64_t lines =
        (end - begin) * ls__divide_up(floats * (int64_t)sizeof(float), LINE_BYTES);
    return (ls__prefetch){ .row = (const float *)image + begin * stride + c0 / in_float,
                           .n_rows = end - begin,
                           .floats = floats,
                           .stride = stride,
                           .lines_per_tile = ls__divide_up(lines, n_fetches) };
}

/* Tiles read one row of tiles beyond their share of the input; it is prefetched already. */
static ls__prefetch next_input(const ls__conv_call *call, int64_t first, int64_t count,
                               int64_t n_fetches)
{
    const ls__winograd_kernel *k = call->kernel;
    const ls__winograd_geometry *g = &k->g;
    return prefetch_of(k, call->x, g->n * g->in_h * g->in_w, g->in_channels, 0, g->in_channels,
                       first + g->tiles_w, count, n_fetches);
}

/* Results, or their gradients. */
static ls__prefetch next_output(const ls__conv_call *call, const void *image, int64_t k0,
                                int64_t k1, int64_t first, int64_t count, int64_t n_fetches)
{
    const ls__winograd_kernel *k = call->kernel;
    const ls__winograd_geometry *g = &k->g;
    return prefetch_of(k, image, g->n * g->out_h * g->out_w, g->out_channels, k0, k1, first, count,
                       n_fetches);
}

/* ---- Forward, and backward by data ---- */

static void pack_task(void *arg, int64_t panel, int thread)
{
    (void)thread;
    const ls__conv_call *call = arg;
    const ls__winograd_kernel *k = call->kernel;
    const int64_t panel_floats = LS__WINOGRAD_XI * k->g.in_channels * k->micro->panel;
    k->transforms->weights(&k->g, call->w, k->rotated, panel,
                           call->workspace + panel * panel_floats);
}

/* While products run, the next block's input and then this one's results come into the cache. */
static void run_block(const ls__conv_call *call, int64_t first, int64_t tiles, float *v)
{
    const ls__winograd_kernel *k = call->kernel;
    const ls__winograd_geometry *g = &k->g;
    const int64_t c = g->in_channels, panel = k->micro->panel, width = k->width;
    const int64_t v_xi = k->block_tiles * k->v_stride + LS__ROW_GAP;
    const int64_t m_xi = k->block_tiles * width + LS__ROW_GAP;
    const int64_t n_fetches = HALF * ls__divide_up(k->block_tiles, k->micro->rows) *
                              ls__divide_up(c, LS__CHAIN); /* of a panel */
    float *const m = v + LS__WINOGRAD_XI * v_xi;
    k->transforms->input(g, call->x, first, tiles, 0, c, v, v_xi, k->v_stride);
    ls__prefetch prefetch[2] = { next_input(call, first + tiles, tiles, n_fetches * k->n_panels) };
    for (int64_t k0 = 0; k0 < g->out_channels; k0 += width) {
        const int64_t k1 = ls__min(k0 + width, g->out_channels);
        prefetch[1] = next_output(call, call->y, k0, k1, first, tiles,
                                  n_fetches * ls__divide_up(k1 - k0, panel));
        for (int64_t xi = 0; xi < LS__WINOGRAD_XI; xi++)
            for (int64_t p = k0; p < k1; p += panel)
                k->micro->multiply(false, v + xi * v_xi, k->v_stride,
                                   call->workspace + (p * LS__WINOGRAD_XI + xi * panel) * c, c,
                                   tiles, ls__min(panel, k1 - p), m + xi * m_xi + p - k0, width,
                                   &prefetch[xi / HALF]);
        k->transforms->output(g, m, m_xi, width, first, tiles, k0, k1, call->bias, call->y);
    }
}

static void block_task(void *arg, int64_t task, int thread)
{
    const ls__conv_call *call = arg;
    const ls__winograd_kernel *k = call->kernel;
    const int64_t step = k->block_tiles, end = ls__min((task + 1) * k->group * step, k->g.n_tiles);
    for (int64_t first = task * k->group * step; first < end; first += step)
        run_block(call, first, ls__min(step, end - first), ls__conv_scratch(&k->base, thread));
}

static ls_status run_correlation(ls__kernel *kernel, void *const *buffers, void *workspace,
                                 const ls__step *step)
{
    (void)step;
    const ls__winograd_kernel *k = (const ls__winograd_kernel *)kernel;
    ls__conv_call call = ls__conv_call_of(kernel, buffers, workspace);
    ls__threads_run(k->base.cpu->threads, k->n_panels, pack_task, &call);
    ls__threads_run(k->base.cpu->threads, ls__divide_up(k->n_blocks, k->group), block_task, &call);
    return LS_OK;
}

static void plan_correlation(ls__winograd_kernel *k)
{
    const ls__winograd_geometry *g = &k->g;
    k->n_panels = ls__divide_up(g->out_channels, k->micro->panel);
    k->width = ls__min(GROUP_CHANNELS, k->n_panels * k->micro->panel);
    const int64_t tile_bytes = LS__WINOGRAD_XI * (k->v_stride + k->width) * (int64_t)sizeof(float);
    int64_t tiles = ls__min(CORE_CACHE_BYTES / tile_bytes, MAX_TILES) / TILE_STEP * TILE_STEP;
    if (tiles < TILE_STEP) tiles = TILE_STEP;
    k->n_blocks = ls__divide_up(g->n_tiles, tiles);
    /* no short last block */
    tiles = ls__round_up_to(ls__divide_up(g->n_tiles, k->n_blocks), TILE_STEP);
    k->block_tiles = tiles;
    k->n_blocks = ls__divide_up(g->n_tiles, tiles);
    k->group = ls__min(GROUP_BLOCKS, 1 + k->n_blocks / FEW_BLOCKS);
    k->base.scratch_bytes =
        (size_t)(k->block_tiles * tile_bytes) + 2 * LS__WINOGRAD_XI * LS__ROW_GAP * sizeof(float);
    k->base.kernel.workspace_bytes =
        (size_t)(LS__WINOGRAD_XI * g->in_channels * k->micro->panel * k->n_panels) * sizeof(float);
    k->base.kernel.run = run_correlation;
}

/* ---- Backward weights: x dy -> dw ---- */

static int64_t sum_floats(const ls__winograd_kernel *k)
{
    return LS__WINOGRAD_XI * k->g.out_channels * k->v_stride;
}

static void part_task(void *arg, int64_t task, int thread)
{
    const ls__conv_call *call = arg;
    const ls__winograd_kernel *k = call->kernel;
    const ls__winograd_geometry *g = &k->g;
    const int64_t channels = g->in_channels, v_stride = k->v_stride;
    const int64_t part = task / k->k_parts, k0 = task % k->k_parts * k->k_per_part;
    const int64_t k1 = ls__min(k0 + k->k_per_part, g->out_channels);
    const int64_t v_xi = WEIGHT_TILES * v_stride + LS__ROW_GAP;
    const int64_t d_xi = WEIGHT_TILES * k->d_stride + LS__ROW_GAP;
    float *v = ls__conv_scratch(&k->base, thread), *d = v + LS__WINOGRAD_XI * v_xi;
    float *sums = call->workspace + part * sum_floats(k) + k0 * v_stride;
    const int64_t n_fetches =
        HALF * ls__divide_up(k1 - k0, k->micro->rows) * ls__divide_up(channels, k->micro->panel);
    const int64_t s_xi = g->out_channels * v_stride;
    for (int64_t xi = 0; xi < LS__WINOGRAD_XI; xi++)
        memset(sums + xi * s_xi, 0, (size_t)((k1 - k0) * v_stride) * sizeof *sums);
    const bool prefetches = channels + k1 - k0 <= MAX_PREFETCHED;
    const int64_t end = ls__min((part + 1) * k->part_tiles, g->n_tiles);
    for (int64_t first = part * k->part_tiles; first < end; first += WEIGHT_TILES) {
        const int64_t n = ls__min(WEIGHT_TILES, end - first);
        k->transforms->input(g, call->x, first, n, 0, channels, v, v_xi, v_stride);
        k->transforms->gradient(g, call->w, first, n, k0, k1, d, d_xi, k->d_stride);
        ls__prefetch next[] = { next_input(call, first + n, n, n_fetches),
                                next_output(call, call->w, k0, k1, first + n, n, n_fetches) };
        for (int64_t xi = 0; xi < LS__WINOGRAD_XI; xi++)
            k->micro->outer(d + xi * d_xi, k->d_stride, v + xi * v_xi, v_stride, n, k1 - k0,
                            channels, sums + xi * s_xi, v_stride,
                            prefetches ? &next[xi / HALF] : NULL);
    }
}

/* Adds the parts of some output channels in a binary tree and transforms them back. */
static void reduce_task(void *arg, int64_t task, int thread)
{
    (void)thread;
    const ls__conv_call *call = arg;
    const ls__winograd_kernel *k = call->kernel;
    const int64_t k0 = task * REDUCE_ROWS, k1 = ls__min(k0 + REDUCE_ROWS, k->g.out_channels);
    const int64_t n = (k1 - k0) * k->v_stride, part_floats = sum_floats(k);
    const int64_t s_xi = k->g.out_channels * k->v_stride;
    for (int64_t xi = 0; xi < LS__WINOGRAD_XI; xi++) {
        float *first = call->workspace + xi * s_xi + k0 * k->v_stride;
        ls__tree_sum(first, first + part_floats, part_floats, k->parts, n);
    }
    for (int64_t row = k0; row < k1; row++)
        k->transforms->weight_gradient(&k->g, call->workspace + row * k->v_stride, s_xi, row,
                                       call->y);
}

static ls_status run_weights(ls__kernel *kernel, void *const *buffers, void *workspace,
                             const ls__step *step)
{
    (void)step;
    const ls__winograd_kernel *k = (const ls__winograd_kernel *)kernel;
    ls__conv_call call = ls__conv_call_of(kernel, buffers, workspace);
    ls__threads_run(k->base.cpu->threads, k->parts * k->k_parts, part_task, &call);
    ls__threads_run(k->base.cpu->threads, ls__divide_up(k->g.out_channels, REDUCE_ROWS),
                    reduce_task, &call);
    return LS_OK;
}

static void plan_weights(ls__winograd_kernel *k)
{
    const ls__winograd_geometry *g = &k->g;
    const size_t part_bytes = (size_t)sum_floats(k) * sizeof(float);
    /* Counted by shape alone, not by the width of vectors: a sum's order follows from it. */
    const int64_t bytes =
        LS__WINOGRAD_XI * g->in_channels * g->out_channels * (int64_t)sizeof(float);
    int64_t parts = PARTIAL_BYTES / bytes;
    if (parts < 1) parts = 1;
    parts = ls__min(parts, MAX_PARTS);
    parts = ls__min(parts, ls__divide_up(g->n_tiles, 2 * WEIGHT_TILES));
    k->part_tiles = ls__divide_up(g->n_tiles, parts);
    k->parts = ls__divide_up(g->n_tiles, k->part_tiles);
    /* Few parts: cut the output channels as well, at the price of transforming x for each cut. */
    k->k_parts = k->parts >= 8 ? 1 : g->out_channels >= 256 ? 4 : g->out_channels >= 64 ? 2 : 1;
    const int64_t vectors = ls__divide_up(g->out_channels, k->micro->width);
    k->k_per_part = ls__divide_up(vectors, k->k_parts) * k->micro->width;
    k->k_parts = ls__divide_up(g->out_channels, k->k_per_part);
    k->d_stride = ls__winograd_stride(k, k->k_per_part);
    k->base.scratch_bytes =
        (size_t)(LS__WINOGRAD_XI * (WEIGHT_TILES * (k->v_stride + k->d_stride) + 2 * LS__ROW_GAP)) *
        sizeof(float);
    k->base.kernel.workspace_bytes = (size_t)k->parts * part_bytes;
    k->base.kernel.run = run_weights;
}

void ls__winograd_plan_fused(ls__winograd_kernel *k)
{
    if (k->base.kind == LS__OP_CONV2D_BACKWARD_WEIGHTS)
        plan_weights(k);
    else
        plan_correlation(k);
}
