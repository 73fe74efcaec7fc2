/* nonfused.c: Winograd convolutions of many channels over few tiles. Blocks of tiles would be few
 * tasks, each with all of the weights to read. So images are transformed as a whole, by tasks of
 * their own, and then the tasks are the products at one of the 36 positions for some of the
 * channels:
 *
 *   forward, data    weights, images -> transformed | products | results back
 *   weights          images, gradients -> transformed | products, sums over all tiles | back
 *
 * One block of output channels after the other, so that of transformed weights, or of their sums,
 * and of results only a block is in memory. Over channels a sum's order is fused.c's. Over tiles
 * it is not: chains of WEIGHT_TILES are added one after the other, and there are no parts. Which
 * file runs follows from the shape. */
#include "cpu/conv/winograd/winograd.h"

#include <string.h>

enum {
    TRANSFORM_TILES = 12, /* of a task that transforms */
    CHANNELS = 128,       /* of a task: with TILES a quarter of a second-level cache */
    TILES = 96,           /* of a task that multiplies, at most */
    WEIGHT_TILES = 48     /* summed at a time for backward weights */
};

typedef struct nonfused_call {
    ls__conv_call conv; /* x, w, bias, y */
    const ls__winograd_kernel *k;
    float *v, *m, *u; /* transformed images, results or gradients, weights or their sums */
    int64_t block;    /* of output channels, the current one */
} nonfused_call;

static nonfused_call call_of(const ls__kernel *kernel, void *const *buffers, void *workspace)
{
    const ls__winograd_kernel *k = (const ls__winograd_kernel *)kernel;
    float *const v = workspace;
    return (nonfused_call){ .conv = ls__conv_call_of(kernel, buffers, workspace),
                            .k = k,
                            .v = v,
                            .m = v + k->m_offset,
                            .u = v + k->u_offset };
}

/* Channels of a block of output channels. */
static int64_t block_channels(const ls__winograd_kernel *k, int64_t block)
{
    return ls__min(CHANNELS, k->g.out_channels - block * CHANNELS);
}

/* ---- Forward, and backward by data ---- */

static void transform_images(const nonfused_call *call, int64_t tile_block, int64_t c_block)
{
    const ls__winograd_kernel *k = call->k;
    const int64_t first = tile_block * TRANSFORM_TILES, c0 = c_block * CHANNELS;
    k->transforms->input(&k->g, call->conv.x, first, ls__min(TRANSFORM_TILES, k->g.n_tiles - first),
                         c0, ls__min(c0 + CHANNELS, k->g.in_channels),
                         call->v + first * k->v_stride + c0, k->v_xi, k->v_stride);
}

static void transform_panel(const nonfused_call *call, int64_t block, int64_t panel)
{
    const ls__winograd_kernel *k = call->k;
    k->transforms->weights(&k->g, call->conv.w, k->rotated,
                           block * (CHANNELS / k->micro->panel) + panel,
                           call->u + panel * LS__WINOGRAD_XI * k->g.in_channels * k->micro->panel);
}

static int64_t n_panels(const ls__winograd_kernel *k, int64_t block)
{
    return block < k->k_blocks ? ls__divide_up(block_channels(k, block), k->micro->panel) : 0;
}

static void open_task(void *arg, int64_t task, int thread)
{
    (void)thread;
    const nonfused_call *call = arg;
    const int64_t images = task - n_panels(call->k, 0), blocks = call->k->c_blocks;
    if (images < 0)
        transform_panel(call, 0, task);
    else
        transform_images(call, images / blocks, images % blocks);
}

static void multiply_task(void *arg, int64_t task, int thread)
{
    (void)thread;
    const nonfused_call *call = arg;
    const ls__winograd_kernel *k = call->k;
    const int64_t channels = k->g.in_channels, panel = k->micro->panel;
    const int64_t first = task % k->row_blocks * k->rows, xi = task / k->row_blocks;
    const int64_t width = block_channels(k, call->block);
    for (int64_t p = 0; p < width; p += panel)
        k->micro->multiply(false, call->v + xi * k->v_xi + first * k->v_stride, k->v_stride,
                           call->u + (p * LS__WINOGRAD_XI + xi * panel) * channels, channels,
                           ls__min(k->rows, k->g.n_tiles - first), ls__min(panel, width - p),
                           call->m + xi * k->m_xi + first * CHANNELS + p, CHANNELS, NULL);
}

/* Results of this block, and the next one's weights. */
static void close_task(void *arg, int64_t task, int thread)
{
    (void)thread;
    const nonfused_call *call = arg;
    const ls__winograd_kernel *k = call->k;
    if (task >= k->n_tile_blocks) {
        transform_panel(call, call->block + 1, task - k->n_tile_blocks);
        return;
    }
    const int64_t first = task * TRANSFORM_TILES, k0 = call->block * CHANNELS;
    k->transforms->output(&k->g, call->m + first * CHANNELS, k->m_xi, CHANNELS, first,
                          ls__min(TRANSFORM_TILES, k->g.n_tiles - first), k0,
                          k0 + block_channels(k, call->block), call->conv.bias, call->conv.y);
}

static ls_status run_correlation(ls__kernel *kernel, void *const *buffers, void *workspace,
                                 const ls__step *step)
{
    (void)step;
    nonfused_call call = call_of(kernel, buffers, workspace);
    const ls__winograd_kernel *k = call.k;
    ls__threads *threads = k->base.cpu->threads;
    ls__threads_run(threads, n_panels(k, 0) + k->n_tile_blocks * k->c_blocks, open_task, &call);
    for (; call.block < k->k_blocks; call.block++) {
        ls__threads_run(threads, LS__WINOGRAD_XI * k->row_blocks, multiply_task, &call);
        ls__threads_run(threads, k->n_tile_blocks + n_panels(k, call.block + 1), close_task, &call);
    }
    return LS_OK;
}

/* ---- Backward weights: x dy -> dw ---- */

static void transform_gradients(const nonfused_call *call, int64_t block, int64_t tile_block)
{
    const ls__winograd_kernel *k = call->k;
    const int64_t first = tile_block * TRANSFORM_TILES, k0 = block * CHANNELS;
    k->transforms->gradient(
        &k->g, call->conv.w, first, ls__min(TRANSFORM_TILES, k->g.n_tiles - first), k0,
        k0 + block_channels(k, block), call->m + first * CHANNELS, k->m_xi, CHANNELS);
}

static void open_weights_task(void *arg, int64_t task, int thread)
{
    (void)thread;
    const nonfused_call *call = arg;
    const int64_t images = task - call->k->n_tile_blocks, blocks = call->k->c_blocks;
    if (images < 0)
        transform_gradients(call, 0, task);
    else
        transform_images(call, images / blocks, images % blocks);
}

static void outer_task(void *arg, int64_t xi, int thread)
{
    (void)thread;
    const nonfused_call *call = arg;
    const ls__winograd_kernel *k = call->k;
    const int64_t rows = block_channels(k, call->block);
    float *sums = call->u + xi * k->u_xi;
    memset(sums, 0, (size_t)(rows * k->v_stride) * sizeof *sums);
    for (int64_t first = 0; first < k->g.n_tiles; first += WEIGHT_TILES)
        k->micro->outer(call->m + xi * k->m_xi + first * CHANNELS, CHANNELS,
                        call->v + xi * k->v_xi + first * k->v_stride, k->v_stride,
                        ls__min(WEIGHT_TILES, k->g.n_tiles - first), rows, k->g.in_channels, sums,
                        k->v_stride, NULL);
}

/* Weights' gradients of this block, and the next one's transformed gradients. */
static void close_weights_task(void *arg, int64_t task, int thread)
{
    (void)thread;
    const nonfused_call *call = arg;
    const ls__winograd_kernel *k = call->k;
    const int64_t rows = block_channels(k, call->block);
    if (task < rows)
        k->transforms->weight_gradient(&k->g, call->u + task * k->v_stride, k->u_xi,
                                       call->block * CHANNELS + task, call->conv.y);
    else
        transform_gradients(call, call->block + 1, task - rows);
}

static ls_status run_weights(ls__kernel *kernel, void *const *buffers, void *workspace,
                             const ls__step *step)
{
    (void)step;
    nonfused_call call = call_of(kernel, buffers, workspace);
    const ls__winograd_kernel *k = call.k;
    ls__threads *threads = k->base.cpu->threads;
    ls__threads_run(threads, k->n_tile_blocks * (1 + k->c_blocks), open_weights_task, &call);
    for (; call.block < k->k_blocks; call.block++) {
        const bool last = call.block + 1 == k->k_blocks;
        ls__threads_run(threads, LS__WINOGRAD_XI, outer_task, &call);
        ls__threads_run(threads, block_channels(k, call.block) + (last ? 0 : k->n_tile_blocks),
                        close_weights_task, &call);
    }
    return LS_OK;
}

/* ---- Planning ---- */

void ls__winograd_plan_nonfused(ls__winograd_kernel *k)
{
    const bool weights = k->base.kind == LS__OP_CONV2D_BACKWARD_WEIGHTS;
    const ls__winograd_geometry *g = &k->g;
    k->n_tile_blocks = ls__divide_up(g->n_tiles, TRANSFORM_TILES);
    k->c_blocks = ls__divide_up(g->in_channels, CHANNELS);
    k->k_blocks = ls__divide_up(g->out_channels, CHANNELS);
    k->row_blocks = ls__divide_up(g->n_tiles, TILES);
    k->rows = ls__divide_up(g->n_tiles, k->row_blocks);
    k->v_xi = g->n_tiles * k->v_stride + LS__ROW_GAP;
    k->m_xi = g->n_tiles * CHANNELS + LS__ROW_GAP;
    k->u_xi = CHANNELS * (weights ? k->v_stride : g->in_channels);
    k->m_offset = (size_t)(LS__WINOGRAD_XI * k->v_xi);
    k->u_offset = k->m_offset + (size_t)(LS__WINOGRAD_XI * k->m_xi);
    k->base.kernel.workspace_bytes =
        (k->u_offset + (size_t)(LS__WINOGRAD_XI * k->u_xi)) * sizeof(float);
    k->base.kernel.run = weights ? run_weights : run_correlation;
}

/* Transformed images go through memory here; that pays where they are small beside the weights,
 * which fused.c reads once for each block of tiles, or sums once for each part. Measured on a Zen
 * 3 with 1 and 2 threads, time by fused.c's: 512 channels at 4x4, batch 128, 0.87; backward
 * weights of 256 channels at 8x8 0.89, of 128 channels at 16x16 1.02; forward of 256 channels at
 * 8x8 1.09. */
bool ls__winograd_is_nonfused(const ls__winograd_geometry *g, ls__op_kind kind)
{
    const int64_t channels = ls__min(g->in_channels, g->out_channels);
    if (kind == LS__OP_CONV2D_BACKWARD_WEIGHTS)
        return channels >= CHANNELS && g->n_tiles <= 4 * channels;
    return channels >= 2 * CHANNELS && g->n_tiles <= channels;
}
