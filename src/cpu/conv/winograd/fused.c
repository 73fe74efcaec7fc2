/* fused.c: Winograd convolutions whose transforms and products are one pass. Tasks are blocks of
 * tiles (forward, backward by data), or ranges of tiles times slabs of output channels (backward
 * weights), cut by shape alone. */
#include "cpu/conv/winograd/winograd.h"
#include "cpu/tree.h"

/* Measured on a Zen 3 (L2 512 KiB, L3 32 MiB). */
enum {
    CORE_CACHE_BYTES = 288 << 10, /* of V and M of a block of tiles */
    TILE_STEP = 12, /* whole tiles of products, of all vector widths; with fewer, weights are read
                       from the outer cache too often */
    MAX_TILES = 36,
    GROUP_CHANNELS = 64, /* multiplied before their results are transformed: whole cache lines */
    GROUP_BLOCKS = 4,    /* of a task, at most: during one block the next is prefetched */
    FEW_BLOCKS = 32,
    LINE_BYTES = 64,
    WEIGHT_TILES = 64,        /* tiles transformed at a time for backward weights */
    MAX_PREFETCHED = 128,     /* input and output channels together; more are evicted before use */
    PARTIAL_BYTES = 20 << 20, /* of partial weight sums in all: they are written and read again */
    MAX_SUMS = 16,
    REDUCE_ROWS = 4 /* output channels of a task that adds partial sums */
};

/* Half of the positions prefetch one image, the others another. */
enum { HALF = LS__WINOGRAD_XI / 2 };

/* Channels c0..c1-1 of the pixels of an image (the input, else the output or its gradient) that
 * tiles first..first+count-1 cover, in proportion to all pixels and tiles, during n_fetches tiles
 * of products. */
static ls__prefetch prefetch_of(const ls__winograd_kernel *k, bool input, const void *image,
                                int64_t c0, int64_t c1, int64_t first, int64_t count,
                                int64_t n_fetches)
{
    const ls__winograd_geometry *g = &k->g;
    const int64_t in_float = (int64_t)sizeof(float) / k->element_bytes, n = g->n_tiles;
    const int64_t pixels = g->n * (input ? g->in_h * g->in_w : g->out_h * g->out_w);
    /* Tiles also read the row of tiles after theirs, so that row is prefetched already. */
    if (input) first += g->tiles_w;
    const int64_t begin = ls__min_i64(first, n) * pixels / n;
    const int64_t end = ls__min_i64(first + count, n) * pixels / n;
    const int64_t floats = ls__divide_up(c1 - c0, in_float);
    const int64_t stride = (input ? g->in_channels : g->out_channels) / in_float;
    const int64_t lines =
        (end - begin) * ls__divide_up(floats * (int64_t)sizeof(float), LINE_BYTES);
    return (ls__prefetch){ .row = (const float *)image + begin * stride + c0 / in_float,
                           .n_rows = end - begin,
                           .floats = floats,
                           .stride = stride,
                           .lines_per_tile = ls__divide_up(lines, n_fetches) };
}

static void pack_task(const ls__conv_call *call, int64_t panel, float *scratch)
{
    (void)scratch;
    const ls__winograd_kernel *k = call->kernel;
    k->transforms->weights(&k->g, call->w, k->rotated, panel,
                           call->workspace + panel * LS__WINOGRAD_XI * k->u_xi, k->u_xi);
}

/* During the products the next block's input and then this block's results are prefetched. */
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
    ls__prefetch prefetch[2] = { prefetch_of(k, true, call->x, 0, c, first + tiles, tiles,
                                             n_fetches * k->n_panels) };
    for (int64_t k0 = 0; k0 < g->out_channels; k0 += width) {
        const int64_t k1 = ls__min_i64(k0 + width, g->out_channels);
        prefetch[1] = prefetch_of(k, false, call->y, k0, k1, first, tiles,
                                  n_fetches * ls__divide_up(k1 - k0, panel));
        for (int64_t xi = 0; xi < LS__WINOGRAD_XI; xi++)
            for (int64_t p = k0; p < k1; p += panel)
                k->micro->multiply(false, v + xi * v_xi, k->v_stride,
                                   call->workspace + (p / panel * LS__WINOGRAD_XI + xi) * k->u_xi,
                                   c, tiles, ls__min_i64(panel, k1 - p), m + xi * m_xi + p - k0,
                                   width, &prefetch[xi / HALF]);
        k->transforms->output(g, m, m_xi, width, first, tiles, k0, k1, call->bias, call->y);
    }
}

static void block_task(const ls__conv_call *call, int64_t task, float *scratch)
{
    const ls__winograd_kernel *k = call->kernel;
    const int64_t step = k->block_tiles,
                  end = ls__min_i64((task + 1) * k->group * step, k->g.n_tiles);
    for (int64_t first = task * k->group * step; first < end; first += step)
        run_block(call, first, ls__min_i64(step, end - first), scratch);
}

static void plan_correlation(ls__winograd_kernel *k)
{
    const ls__winograd_geometry *g = &k->g;
    k->n_panels = ls__divide_up(g->out_channels, k->micro->panel);
    k->width = ls__min_i64(GROUP_CHANNELS, k->n_panels * k->micro->panel);
    const int64_t tile_bytes = LS__WINOGRAD_XI * (k->v_stride + k->width) * (int64_t)sizeof(float);
    const int64_t fitting = ls__min_i64(CORE_CACHE_BYTES / tile_bytes, MAX_TILES);
    int64_t n_blocks =
        ls__divide_up(g->n_tiles, ls__max_i64(fitting / TILE_STEP * TILE_STEP, TILE_STEP));
    /* no short last block */
    k->block_tiles = ls__round_up_to(ls__divide_up(g->n_tiles, n_blocks), TILE_STEP);
    n_blocks = ls__divide_up(g->n_tiles, k->block_tiles);
    k->group = ls__min_i64(GROUP_BLOCKS, 1 + n_blocks / FEW_BLOCKS);
    k->base.scratch_bytes =
        (size_t)(k->block_tiles * tile_bytes) + 2 * LS__WINOGRAD_XI * LS__ROW_GAP * sizeof(float);
    k->u_xi = ls__winograd_panel_xi(k);
    k->base.kernel.workspace_bytes =
        (size_t)(k->n_panels * LS__WINOGRAD_XI * k->u_xi) * sizeof(float);
    k->base.passes[0] = (ls__conv_pass){ pack_task, k->n_panels };
    k->base.passes[1] = (ls__conv_pass){ block_task, ls__divide_up(n_blocks, k->group) };
}

/* Returns the number of floats in one partial sum of transformed weights. */
static int64_t sum_floats(const ls__winograd_kernel *k)
{
    return LS__WINOGRAD_XI * k->u_xi;
}

static void sum_task(const ls__conv_call *call, int64_t task, float *v)
{
    const ls__winograd_kernel *k = call->kernel;
    const ls__winograd_geometry *g = &k->g;
    const int64_t channels = g->in_channels, v_stride = k->v_stride;
    const int64_t sum = task / k->n_slabs, k0 = task % k->n_slabs * k->slab;
    const int64_t k1 = ls__min_i64(k0 + k->slab, g->out_channels);
    const int64_t v_xi = WEIGHT_TILES * v_stride + LS__ROW_GAP;
    const int64_t d_xi = WEIGHT_TILES * k->d_stride + LS__ROW_GAP;
    float *d = v + LS__WINOGRAD_XI * v_xi;
    float *sums = call->workspace + sum * sum_floats(k) + k0 * v_stride;
    const int64_t n_fetches =
        HALF * ls__divide_up(k1 - k0, k->micro->rows) * ls__divide_up(channels, k->micro->panel);
    const bool prefetches = channels + k1 - k0 <= MAX_PREFETCHED;
    const int64_t begin = sum * k->sum_tiles, end = ls__min_i64(begin + k->sum_tiles, g->n_tiles);
    for (int64_t first = begin; first < end; first += WEIGHT_TILES) {
        const int64_t n = ls__min_i64(WEIGHT_TILES, end - first);
        k->transforms->input(g, call->x, first, n, 0, channels, v, v_xi, v_stride);
        k->transforms->gradient(g, call->w, first, n, k0, k1, d, d_xi, k->d_stride);
        ls__prefetch next[] = { prefetch_of(k, true, call->x, 0, channels, first + n, n, n_fetches),
                                prefetch_of(k, false, call->w, k0, k1, first + n, n, n_fetches) };
        for (int64_t xi = 0; xi < LS__WINOGRAD_XI; xi++)
            k->micro->outer(first > begin, d + xi * d_xi, k->d_stride, v + xi * v_xi, v_stride, n,
                            k1 - k0, channels, sums + xi * k->u_xi, v_stride,
                            prefetches ? &next[xi / HALF] : NULL);
    }
}

/* Adds the partial sums of some output channels in a binary tree and transforms them back. */
static void reduce_task(const ls__conv_call *call, int64_t task, float *scratch)
{
    (void)scratch;
    const ls__winograd_kernel *k = call->kernel;
    const int64_t k0 = task * REDUCE_ROWS, k1 = ls__min_i64(k0 + REDUCE_ROWS, k->g.out_channels);
    const int64_t floats = sum_floats(k);
    for (int64_t row = k0; row < k1; row++) {
        float *const sums = call->workspace + row * k->v_stride;
        for (int64_t xi = 0; xi < LS__WINOGRAD_XI; xi++) {
            float *const first = sums + xi * k->u_xi;
            ls__tree_sum(first, first + floats, floats, k->n_sums, k->g.in_channels);
        }
        k->transforms->weight_gradient(&k->g, sums, k->u_xi, row, call->y);
    }
}

static void plan_weights(ls__winograd_kernel *k)
{
    const ls__winograd_geometry *g = &k->g;
    /* Counted by shape alone, not by the vector width, because the order of sums follows from it.
     */
    const int64_t bytes =
        LS__WINOGRAD_XI * g->in_channels * g->out_channels * (int64_t)sizeof(float);
    int64_t n_sums = ls__min_i64(ls__max_i64(PARTIAL_BYTES / bytes, 1), MAX_SUMS);
    n_sums = ls__min_i64(n_sums, ls__divide_up(g->n_tiles, 2 * WEIGHT_TILES));
    k->sum_tiles = ls__divide_up(g->n_tiles, n_sums);
    k->n_sums = ls__divide_up(g->n_tiles, k->sum_tiles);
    /* If sums are few, the output channels are cut as well, although x is transformed for each
     * slab. */
    k->n_slabs = k->n_sums >= 8 ? 1 : g->out_channels >= 256 ? 4 : g->out_channels >= 64 ? 2 : 1;
    const int64_t vectors = ls__divide_up(g->out_channels, k->micro->width);
    k->slab = ls__divide_up(vectors, k->n_slabs) * k->micro->width;
    k->n_slabs = ls__divide_up(g->out_channels, k->slab);
    k->d_stride = ls__winograd_stride(k, k->slab);
    k->u_xi = g->out_channels * k->v_stride;
    k->base.scratch_bytes =
        (size_t)(LS__WINOGRAD_XI * (WEIGHT_TILES * (k->v_stride + k->d_stride) + 2 * LS__ROW_GAP)) *
        sizeof(float);
    k->base.kernel.workspace_bytes = (size_t)(k->n_sums * sum_floats(k)) * sizeof(float);
    k->base.passes[0] = (ls__conv_pass){ sum_task, k->n_sums * k->n_slabs };
    k->base.passes[1] = (ls__conv_pass){ reduce_task, ls__divide_up(g->out_channels, REDUCE_ROWS) };
}

void ls__winograd_plan_fused(ls__winograd_kernel *k)
{
    if (k->base.kind == LS__OP_CONV2D_BACKWARD_WEIGHTS)
        plan_weights(k);
    else
        plan_correlation(k);
}
