/* wide.c: Winograd convolutions of many channels over few tiles. Blocks of tiles would be few
 * tasks, each with all of the weights to read. So pictures are transformed as a whole, by tasks of
 * their own, and then the tasks are the products at one of the 36 positions for some of the
 * channels:
 *
 *   forward, data    weights, pictures -> transformed | products | results back
 *   weights          pictures, gradients -> transformed | products, sums over all tiles | back
 *
 * A sum's order is the same as kernel.c's: over channels, or over tiles, one after the other. */
#include "base/alloc.h"
#include "base/error.h"
#include "cpu/winograd/winograd.h"

#include <string.h>

enum {
    XI_GAP = 16,          /* as in kernel.c */
    TRANSFORM_TILES = 12, /* of a task that transforms; a multiple of LS__WINO_ROWS */
    CHANNELS = 128,       /* of a task: with TILES a quarter of a second-level cache */
    TILES = 96,           /* of a task that multiplies, at most */
    WEIGHT_TILES = 48     /* summed at a time for backward weights */
};

typedef struct wide_kernel {
    ls__kernel kernel; /* first */
    ls__cpu *cpu;
    ls__wino_geometry g;
    bool turned;
    int64_t tiles;                /* rounded up to whole rows of a product */
    int64_t n_tile_blocks;        /* for transforms */
    int64_t c_blocks, k_blocks;   /* of CHANNELS input and output channels */
    int64_t n_panels, row_blocks; /* of correlations */
    int64_t rows;                 /* of a row block */
    int64_t v_xi, m_xi;           /* floats from one position to the next */
    int64_t m_width;
    size_t m_offset, u_offset; /* floats, in the workspace */
} wide_kernel;

typedef struct wide_call {
    const wide_kernel *k;
    const float *x, *w, *bias;
    float *y;
    float *v, *m, *u; /* transformed pictures, results or gradients, weights or their sums */
} wide_call;

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- Forward, and backward by data ---- */

static void open_task(void *arg, int64_t task, int thread)
{
    (void)thread;
    const wide_call *call = arg;
    const wide_kernel *k = call->k;
    const int64_t channels = k->g.in_channels;
    if (task < k->n_panels) {
        float *panel = call->u + task * LS__WINO_XI * channels * LS__WINO_PANEL;
        ls__wino_weights(&k->g, call->w, k->turned, task, panel);
        return;
    }
    task -= k->n_panels;
    const int64_t first = task / k->c_blocks * TRANSFORM_TILES, c0 = task % k->c_blocks * CHANNELS;
    ls__wino_input(&k->g, call->x, first, min_i64(TRANSFORM_TILES, k->tiles - first), c0,
                   min_i64(c0 + CHANNELS, channels), call->v + first * channels + c0, k->v_xi,
                   channels);
}

static void multiply_task(void *arg, int64_t task, int thread)
{
    (void)thread;
    const wide_call *call = arg;
    const wide_kernel *k = call->k;
    const int64_t channels = k->g.in_channels;
    const int64_t first = task % k->row_blocks * k->rows;
    const int64_t block = task / k->row_blocks % k->k_blocks;
    const int64_t xi = task / k->row_blocks / k->k_blocks;
    const int64_t panel0 = block * (CHANNELS / LS__WINO_PANEL);
    const int64_t panel1 = min_i64(panel0 + CHANNELS / LS__WINO_PANEL, k->n_panels);
    for (int64_t p = panel0; p < panel1; p++)
        ls__wino_multiply(call->v + xi * k->v_xi + first * channels, channels,
                          call->u + (p * LS__WINO_XI + xi) * channels * LS__WINO_PANEL, channels,
                          min_i64(k->rows, k->tiles - first),
                          call->m + xi * k->m_xi + first * k->m_width + p * LS__WINO_PANEL,
                          k->m_width);
}

static void close_task(void *arg, int64_t task, int thread)
{
    (void)thread;
    const wide_call *call = arg;
    const wide_kernel *k = call->k;
    const int64_t first = task / k->k_blocks * TRANSFORM_TILES, k0 = task % k->k_blocks * CHANNELS;
    ls__wino_output(&k->g, call->m + first * k->m_width + k0, k->m_xi, k->m_width, first,
                    min_i64(TRANSFORM_TILES, k->tiles - first), k0,
                    min_i64(k0 + CHANNELS, k->g.out_channels), call->bias, call->y);
}

static ls_status run_correlation(ls__kernel *kernel, void *const *buffers, void *workspace,
                                 const ls__step *step)
{
    (void)step;
    const wide_kernel *k = (const wide_kernel *)kernel;
    wide_call call = { .k = k,
                       .x = buffers[0],
                       .w = buffers[1],
                       .bias = k->turned ? NULL : buffers[2],
                       .y = buffers[k->turned ? 2 : 3],
                       .v = workspace };
    call.m = call.v + k->m_offset;
    call.u = call.v + k->u_offset;
    ls__threads *threads = k->cpu->threads;
    ls__threads_run(threads, k->n_panels + k->n_tile_blocks * k->c_blocks, open_task, &call);
    ls__threads_run(threads, LS__WINO_XI * k->k_blocks * k->row_blocks, multiply_task, &call);
    ls__threads_run(threads, k->n_tile_blocks * k->k_blocks, close_task, &call);
    return LS_OK;
}

/* ---- Backward weights: x dy -> dw ---- */

/* Each block of input channels lies by itself, so that the products read short rows. */
static float *block_of_v(const wide_call *call, int64_t block)
{
    return call->v + block * LS__WINO_XI * call->k->v_xi;
}

static void open_weights_task(void *arg, int64_t task, int thread)
{
    (void)thread;
    const wide_call *call = arg;
    const wide_kernel *k = call->k;
    const int64_t blocks = k->c_blocks + k->k_blocks;
    const int64_t first = task / blocks * TRANSFORM_TILES, block = task % blocks;
    const int64_t n = min_i64(TRANSFORM_TILES, k->tiles - first);
    if (block < k->c_blocks) {
        const int64_t c0 = block * CHANNELS;
        ls__wino_input(&k->g, call->x, first, n, c0, min_i64(c0 + CHANNELS, k->g.in_channels),
                       block_of_v(call, block) + first * CHANNELS, k->v_xi, CHANNELS);
    } else {
        const int64_t k0 = (block - k->c_blocks) * CHANNELS;
        ls__wino_gradient(&k->g, call->w, first, n, k0, min_i64(k0 + CHANNELS, k->g.out_channels),
                          call->m + first * k->m_width + k0, k->m_xi, k->m_width);
    }
}

static void outer_task(void *arg, int64_t task, int thread)
{
    (void)thread;
    const wide_call *call = arg;
    const wide_kernel *k = call->k;
    const int64_t block = task % k->c_blocks, xi = task / k->c_blocks, c0 = block * CHANNELS;
    const int64_t channels = min_i64(CHANNELS, k->g.in_channels - c0), columns = k->m_width;
    float *sums = call->u + (xi * k->g.in_channels + c0) * columns;
    memset(sums, 0, (size_t)(channels * columns) * sizeof *sums);
    for (int64_t first = 0; first < k->tiles; first += WEIGHT_TILES)
        ls__wino_outer(block_of_v(call, block) + xi * k->v_xi + first * CHANNELS, CHANNELS,
                       call->m + xi * k->m_xi + first * columns, columns,
                       min_i64(WEIGHT_TILES, k->tiles - first), channels, columns, sums, columns);
}

static void close_weights_task(void *arg, int64_t task, int thread)
{
    (void)thread;
    const wide_call *call = arg;
    const wide_kernel *k = call->k;
    const int64_t c = task * LS__WINO_VECTOR;
    ls__wino_weight_gradient(&k->g, call->u + c * k->m_width, k->g.in_channels * k->m_width,
                             k->m_width, c, call->y);
}

static ls_status run_weights(ls__kernel *kernel, void *const *buffers, void *workspace,
                             const ls__step *step)
{
    (void)step;
    const wide_kernel *k = (const wide_kernel *)kernel;
    wide_call call = { .k = k, .x = buffers[0], .w = buffers[1], .y = buffers[2], .v = workspace };
    call.m = call.v + k->m_offset;
    call.u = call.v + k->u_offset;
    ls__threads *threads = k->cpu->threads;
    ls__threads_run(threads, k->n_tile_blocks * (k->c_blocks + k->k_blocks), open_weights_task,
                    &call);
    ls__threads_run(threads, LS__WINO_XI * k->c_blocks, outer_task, &call);
    ls__threads_run(threads, k->g.in_channels / LS__WINO_VECTOR, close_weights_task, &call);
    return LS_OK;
}

/* ---- Making ---- */

static void close_kernel(ls__kernel *kernel)
{
    ls__free(((wide_kernel *)kernel)->cpu->device.ctx, kernel);
}

static void plan(wide_kernel *k, bool weights)
{
    const ls__wino_geometry *g = &k->g;
    k->n_panels = divide_up(g->out_channels, LS__WINO_PANEL);
    k->tiles = weights ? g->n_tiles : divide_up(g->n_tiles, LS__WINO_ROWS) * LS__WINO_ROWS;
    k->n_tile_blocks = divide_up(k->tiles, TRANSFORM_TILES);
    k->row_blocks = divide_up(k->tiles, TILES);
    k->rows = divide_up(divide_up(k->tiles, k->row_blocks), LS__WINO_ROWS) * LS__WINO_ROWS;
    k->row_blocks = divide_up(k->tiles, k->rows);
    k->c_blocks = divide_up(g->in_channels, CHANNELS);
    k->k_blocks = divide_up(g->out_channels, CHANNELS);
    k->m_width = weights ? g->out_channels : k->n_panels * LS__WINO_PANEL;
    k->v_xi = k->tiles * (weights ? CHANNELS : g->in_channels) + XI_GAP;
    k->m_xi = k->tiles * k->m_width + XI_GAP;
    k->m_offset = (size_t)(LS__WINO_XI * k->v_xi * (weights ? k->c_blocks : 1));
    k->u_offset = k->m_offset + (size_t)(LS__WINO_XI * k->m_xi);
    const size_t floats = k->u_offset + (size_t)(LS__WINO_XI * g->in_channels * k->m_width);
    k->kernel.workspace_bytes = floats * sizeof(float);
}

/* Transformed pictures go through memory here; that pays where they are small beside the weights,
 * which kernel.c reads once for each block of tiles, or sums once for each part. Measured on a Zen
 * 3 with 1 and 2 threads, time by kernel.c's: 512 channels at 4x4, batch 128, 0.87; backward
 * weights of 256 channels at 8x8 0.89, of 128 channels at 16x16 1.02; forward of 256 channels at
 * 8x8 1.09. */
bool ls__wino_is_wide(const ls__wino_geometry *g, ls__op_kind kind)
{
    const int64_t channels = min_i64(g->in_channels, g->out_channels);
    if (kind == LS__OP_CONV2D_BACKWARD_WEIGHTS)
        return channels >= CHANNELS && g->n_tiles <= 4 * channels;
    return channels >= 2 * CHANNELS && g->n_tiles <= channels;
}

ls_status ls__wino_wide_open(ls__cpu *cpu, const ls__wino_geometry *g, ls__op_kind kind,
                             const char *name, ls__kernel **out)
{
    ls_context *ctx = cpu->device.ctx;
    wide_kernel *k = ls__zalloc(ctx, sizeof *k);
    if (!k) return ls__fail_memory(ctx, name, sizeof *k);
    const bool weights = kind == LS__OP_CONV2D_BACKWARD_WEIGHTS;
    k->cpu = cpu;
    k->g = *g;
    k->turned = kind == LS__OP_CONV2D_BACKWARD_DATA;
    plan(k, weights);
    k->kernel.run = weights ? run_weights : run_correlation;
    k->kernel.close = close_kernel;
    strncpy(k->kernel.name, name, sizeof k->kernel.name - 1);
    *out = &k->kernel;
    return LS_OK;
}
