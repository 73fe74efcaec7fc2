/* nonfused.c: Winograd convolutions of many channels over few tiles. Blocks of tiles would be few
 * tasks, each of which reads all weights. Instead the transformed images go through memory, and a
 * task computes the products at one of the 36 positions. Blocks of output channels follow each
 * other, so that the workspace holds only one block of u and of m:
 *
 *                    before the products   products                    after the products
 *   forward, data    x -> v, w -> u        m = v u, summed over        m -> y
 *                                          input channels
 *   weights          x -> v, dy -> m       u = m v, summed over tiles  u -> dw
 *
 * Sums over channels have the order of fused.c. Sums over tiles are chains of WEIGHT_TILES, added
 * one after the other. Which of the two files runs follows from the shape. */
#include "cpu/conv/winograd/winograd.h"

enum {
    TRANSFORM_TILES = 12, /* of a task that transforms */
    CHANNELS = 128,       /* of a block: with TILES a quarter of a second-level cache */
    TILES = 96,           /* of a task that multiplies, at most */
    WEIGHT_TILES = 48     /* summed at a time for backward weights */
};

static bool is_weights(const ls__winograd_kernel *k)
{
    return k->base.kind == LS__OP_CONV2D_BACKWARD_WEIGHTS;
}

/* Channels of a block of output channels. */
static int64_t block_channels(const ls__winograd_kernel *k, int64_t block)
{
    return ls__min_i64(CHANNELS, k->g.out_channels - block * CHANNELS);
}

/* Tasks that transform the weights of a block, panel by panel, or its gradients. */
static int64_t operand_tasks(const ls__winograd_kernel *k, int64_t block)
{
    if (block == k->k_blocks) return 0;
    return is_weights(k) ? k->n_tile_blocks
                         : ls__divide_up(block_channels(k, block), k->micro->panel);
}

static void transform_operand(const ls__conv_call *call, int64_t block, int64_t task)
{
    const ls__winograd_kernel *k = call->kernel;
    const int64_t panel = k->micro->panel;
    if (!is_weights(k)) {
        k->transforms->weights(&k->g, call->w, k->rotated, block * (CHANNELS / panel) + task,
                               call->workspace + k->u_offset + task * LS__WINOGRAD_XI * k->u_xi,
                               k->u_xi);
        return;
    }
    const int64_t first = task * TRANSFORM_TILES, k0 = block * CHANNELS;
    k->transforms->gradient(&k->g, call->w, first,
                            ls__min_i64(TRANSFORM_TILES, k->g.n_tiles - first), k0,
                            k0 + block_channels(k, block),
                            call->workspace + k->m_offset + first * CHANNELS, k->m_xi, CHANNELS);
}

/* Images, and the first block's operand. */
static void open_task(const ls__conv_call *call, int64_t task, float *scratch)
{
    (void)scratch;
    const ls__winograd_kernel *k = call->kernel;
    const int64_t image = task - operand_tasks(k, 0);
    if (image < 0) {
        transform_operand(call, 0, task);
        return;
    }
    const int64_t first = image / k->c_blocks * TRANSFORM_TILES;
    const int64_t c0 = image % k->c_blocks * CHANNELS;
    k->transforms->input(&k->g, call->x, first, ls__min_i64(TRANSFORM_TILES, k->g.n_tiles - first),
                         c0, ls__min_i64(c0 + CHANNELS, k->g.in_channels),
                         call->workspace + first * k->v_stride + c0, k->v_xi, k->v_stride);
}

static void multiply_task(const ls__conv_call *call, int64_t task, float *scratch)
{
    (void)scratch;
    const ls__winograd_kernel *k = call->kernel;
    const int64_t channels = k->g.in_channels, panel = k->micro->panel;
    const int64_t first = task % k->row_blocks * k->rows, xi = task / k->row_blocks;
    const int64_t width = block_channels(k, call->block);
    const float *u = call->workspace + k->u_offset + xi * k->u_xi;
    float *m = call->workspace + k->m_offset + xi * k->m_xi + first * CHANNELS;
    for (int64_t p = 0; p < width; p += panel)
        k->micro->multiply(false, call->workspace + xi * k->v_xi + first * k->v_stride, k->v_stride,
                           u + p / panel * LS__WINOGRAD_XI * k->u_xi, channels,
                           ls__min_i64(k->rows, k->g.n_tiles - first),
                           ls__min_i64(panel, width - p), m + p, CHANNELS, NULL);
}

static void outer_task(const ls__conv_call *call, int64_t xi, float *scratch)
{
    (void)scratch;
    const ls__winograd_kernel *k = call->kernel;
    const int64_t rows = block_channels(k, call->block);
    const float *m = call->workspace + k->m_offset + xi * k->m_xi;
    float *sums = call->workspace + k->u_offset + xi * k->u_xi;
    for (int64_t first = 0; first < k->g.n_tiles; first += WEIGHT_TILES)
        k->micro->outer(first > 0, m + first * CHANNELS, CHANNELS,
                        call->workspace + xi * k->v_xi + first * k->v_stride, k->v_stride,
                        ls__min_i64(WEIGHT_TILES, k->g.n_tiles - first), rows, k->g.in_channels,
                        sums, k->v_stride, NULL);
}

/* Tasks that transform a block's results back: y of some tiles, or dw of one output channel. */
static int64_t result_tasks(const ls__winograd_kernel *k, int64_t block)
{
    return is_weights(k) ? block_channels(k, block) : k->n_tile_blocks;
}

/* The results of this block, and the next one's operand. */
static void close_task(const ls__conv_call *call, int64_t task, float *scratch)
{
    (void)scratch;
    const ls__winograd_kernel *k = call->kernel;
    const int64_t n = result_tasks(k, call->block), k0 = call->block * CHANNELS;
    if (task >= n) {
        transform_operand(call, call->block + 1, task - n);
    } else if (is_weights(k)) {
        k->transforms->weight_gradient(&k->g, call->workspace + k->u_offset + task * k->v_stride,
                                       k->u_xi, k0 + task, call->y);
    } else {
        const int64_t first = task * TRANSFORM_TILES;
        k->transforms->output(&k->g, call->workspace + k->m_offset + first * CHANNELS, k->m_xi,
                              CHANNELS, first, ls__min_i64(TRANSFORM_TILES, k->g.n_tiles - first),
                              k0, k0 + block_channels(k, call->block), call->bias, call->y);
    }
}

static ls_status nonfused_run(ls__kernel *kernel, void *const *buffers, void *workspace,
                              const ls__step *step)
{
    (void)step;
    ls__conv_call call = ls__conv_call_of(kernel, buffers, workspace);
    const ls__winograd_kernel *k = call.kernel;
    ls__conv_run_pass(&call, open_task, operand_tasks(k, 0) + k->n_tile_blocks * k->c_blocks);
    for (; call.block < k->k_blocks; call.block++) {
        if (is_weights(k))
            ls__conv_run_pass(&call, outer_task, LS__WINOGRAD_XI);
        else
            ls__conv_run_pass(&call, multiply_task, LS__WINOGRAD_XI * k->row_blocks);
        ls__conv_run_pass(&call, close_task,
                          result_tasks(k, call.block) + operand_tasks(k, call.block + 1));
    }
    ls__conv_run_bias(&call);
    return LS_OK;
}

void ls__winograd_plan_nonfused(ls__winograd_kernel *k)
{
    const ls__winograd_geometry *g = &k->g;
    k->n_tile_blocks = ls__divide_up(g->n_tiles, TRANSFORM_TILES);
    k->c_blocks = ls__divide_up(g->in_channels, CHANNELS);
    k->k_blocks = ls__divide_up(g->out_channels, CHANNELS);
    k->row_blocks = ls__divide_up(g->n_tiles, TILES);
    k->rows = ls__divide_up(g->n_tiles, k->row_blocks);
    k->v_xi = g->n_tiles * k->v_stride + LS__ROW_GAP;
    k->m_xi = g->n_tiles * CHANNELS + LS__ROW_GAP;
    k->u_xi = is_weights(k) ? CHANNELS * k->v_stride : ls__winograd_panel_xi(k);
    k->m_offset = (size_t)(LS__WINOGRAD_XI * k->v_xi);
    k->u_offset = k->m_offset + (size_t)(LS__WINOGRAD_XI * k->m_xi);
    const int64_t panels = is_weights(k) ? 1 : CHANNELS / k->micro->panel;
    k->base.kernel.workspace_bytes =
        (k->u_offset + (size_t)(panels * LS__WINOGRAD_XI * k->u_xi)) * sizeof(float);
    k->base.kernel.run = nonfused_run;
}

/* Transformed images that go through memory are faster if they are small beside the weights, which
 * fused.c reads for each block of tiles, or sums for each partial sum. Measured on a Zen 3 with 1
 * and 2 threads, time relative to fused.c: 512 channels at 4x4, batch 128, 0.87; backward weights
 * of 256 channels at 8x8 0.89, of 128 channels at 16x16 1.02; forward of 256 channels at 8x8 1.09.
 */
bool ls__winograd_is_nonfused(const ls__winograd_geometry *g, ls__op_kind kind)
{
    const int64_t channels = ls__min_i64(g->in_channels, g->out_channels);
    if (kind == LS__OP_CONV2D_BACKWARD_WEIGHTS)
        return channels >= CHANNELS && g->n_tiles <= 4 * channels;
    return channels >= 2 * CHANNELS && g->n_tiles <= channels;
}
