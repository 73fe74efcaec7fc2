/* kernel.c: Winograd convolutions as tasks, and the provider that offers them. Tasks are blocks of
 * tiles (forward, backward by data), or parts of the tiles times parts of the input channels
 * (backward weights), cut by shape alone. */
#include "base/alloc.h"
#include "base/context.h"
#include "base/error.h"
#include "cpu/winograd/winograd.h"

#include <string.h>

enum {
    XI_GAP = 16, /* floats between positions, so that 36 streams do not meet in one cache set */
    CORE_CACHE_BYTES = 384 << 10, /* of V and M that a block of tiles should fit */
    LEAST_TILES = 12, /* fewer make the weights' way from the outer cache too frequent */
    MOST_TILES = 96,
    WEIGHT_TILES = 48, /* tiles transformed at a time for backward weights */
    LARGE_WEIGHTS_BYTES =
        16 << 20,             /* from here on, tasks take parts of the output channels as well */
    PARTIAL_BYTES = 48 << 20, /* of partial weight sums in all */
    MOST_PARTS = 32
};

typedef struct wino_kernel {
    ls__kernel kernel; /* first */
    ls__cpu *cpu;
    ls__op_kind kind;
    ls__wino_geometry g;
    bool turned;
    int64_t n_panels;
    /* Forward and backward by data */
    int64_t block_tiles, n_blocks, panels_per_part, n_parts;
    /* Backward weights */
    int64_t parts, part_tiles, channel_parts, channels_per_part;
    size_t scratch_bytes;
} wino_kernel;

typedef struct wino_call {
    const wino_kernel *k;
    const float *x, *w, *bias;
    float *y, *workspace;
} wino_call;

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* ---- Forward, and backward by data ---- */

static void pack_task(void *arg, int64_t panel, int thread)
{
    (void)thread;
    const wino_call *call = arg;
    const wino_kernel *k = call->k;
    const int64_t panel_floats = LS__WINO_XI * k->g.in_channels * LS__WINO_PANEL;
    ls__wino_weights(&k->g, call->w, k->turned, panel, call->workspace + panel * panel_floats);
}

static void block_task(void *arg, int64_t task, int thread)
{
    const wino_call *call = arg;
    const wino_kernel *k = call->k;
    const int64_t c = k->g.in_channels, tiles = k->block_tiles;
    const int64_t first_panel = task % k->n_parts * k->panels_per_part,
                  first = task / k->n_parts * tiles;
    int64_t panels = k->n_panels - first_panel;
    if (panels > k->panels_per_part) panels = k->panels_per_part;
    const int64_t width = k->panels_per_part * LS__WINO_PANEL;
    const int64_t v_xi = tiles * c + XI_GAP, m_xi = tiles * width + XI_GAP;
    float *v = (float *)k->cpu->scratch[thread], *m = v + LS__WINO_XI * v_xi;
    ls__wino_input(&k->g, call->x, first, tiles, 0, c, v, v_xi, c);
    for (int64_t xi = 0; xi < LS__WINO_XI; xi++)
        for (int64_t p = 0; p < panels; p++)
            ls__wino_multiply(v + xi * v_xi, c,
                              call->workspace +
                                  ((first_panel + p) * LS__WINO_XI + xi) * c * LS__WINO_PANEL,
                              c, tiles, m + xi * m_xi + p * LS__WINO_PANEL, width);
    const int64_t k0 = first_panel * LS__WINO_PANEL;
    int64_t k1 = k0 + panels * LS__WINO_PANEL;
    if (k1 > k->g.out_channels) k1 = k->g.out_channels;
    ls__wino_output(&k->g, m, m_xi, width, first, tiles, k0, k1, call->bias, call->y);
}

static ls_status run_correlation(ls__kernel *kernel, void *const *buffers, void *workspace,
                                 const ls__step *step)
{
    (void)step;
    const wino_kernel *k = (const wino_kernel *)kernel;
    const bool forward = k->kind == LS__OP_CONV2D;
    wino_call call = { .k = k,
                       .x = buffers[0],
                       .w = buffers[1],
                       .bias = forward ? buffers[2] : NULL,
                       .y = buffers[forward ? 3 : 2],
                       .workspace = workspace };
    ls__threads_run(k->cpu->threads, k->n_panels, pack_task, &call);
    ls__threads_run(k->cpu->threads, k->n_blocks * k->n_parts, block_task, &call);
    return LS_OK;
}

static size_t plan_correlation(wino_kernel *k)
{
    const ls__wino_geometry *g = &k->g;
    const size_t weight_bytes =
        (size_t)(LS__WINO_XI * g->in_channels * LS__WINO_PANEL * k->n_panels) * sizeof(float);
    k->n_parts = weight_bytes > LARGE_WEIGHTS_BYTES ? 4 : 1;
    k->panels_per_part = divide_up(k->n_panels, k->n_parts);
    k->n_parts = divide_up(k->n_panels, k->panels_per_part);
    const int64_t width = k->panels_per_part * LS__WINO_PANEL;
    const int64_t tile_bytes = LS__WINO_XI * (g->in_channels + width) * (int64_t)sizeof(float);
    int64_t tiles = CORE_CACHE_BYTES / tile_bytes;
    if (weight_bytes > LARGE_WEIGHTS_BYTES)
        tiles = MOST_TILES; /* the weights come from memory: use them well */
    if (tiles < LEAST_TILES) tiles = LEAST_TILES;
    if (tiles > MOST_TILES) tiles = MOST_TILES;
    const int64_t even =
        divide_up(g->n_tiles, divide_up(g->n_tiles, tiles)); /* no short last block */
    k->block_tiles = divide_up(even, LS__WINO_ROWS) * LS__WINO_ROWS;
    k->n_blocks = divide_up(g->n_tiles, k->block_tiles);
    k->scratch_bytes =
        (size_t)(LS__WINO_XI * (k->block_tiles * (g->in_channels + width) + 2 * XI_GAP)) *
        sizeof(float);
    return weight_bytes;
}

/* ---- Backward weights: x dy -> dw ---- */

static void part_task(void *arg, int64_t task, int thread)
{
    const wino_call *call = arg;
    const wino_kernel *k = call->k;
    const int64_t channels = k->g.in_channels, columns = k->g.out_channels;
    const int64_t part = task / k->channel_parts,
                  c0 = task % k->channel_parts * k->channels_per_part;
    int64_t c1 = c0 + k->channels_per_part;
    if (c1 > channels) c1 = channels;
    const int64_t v_xi = WEIGHT_TILES * (c1 - c0) + XI_GAP, d_xi = WEIGHT_TILES * columns + XI_GAP;
    float *v = (float *)k->cpu->scratch[thread];
    float *d = v + LS__WINO_XI * (WEIGHT_TILES * k->channels_per_part + XI_GAP);
    float *sums = call->workspace + part * LS__WINO_XI * channels * columns;
    for (int64_t xi = 0; xi < LS__WINO_XI; xi++)
        memset(sums + (xi * channels + c0) * columns, 0,
               (size_t)((c1 - c0) * columns) * sizeof *sums);
    int64_t end = (part + 1) * k->part_tiles;
    if (end > k->g.n_tiles) end = k->g.n_tiles;
    for (int64_t first = part * k->part_tiles; first < end; first += WEIGHT_TILES) {
        const int64_t n = end - first < WEIGHT_TILES ? end - first : WEIGHT_TILES;
        ls__wino_input(&k->g, call->x, first, n, c0, c1, v, v_xi, c1 - c0);
        ls__wino_gradient(&k->g, call->w, first, n, 0, columns, d, d_xi, columns);
        for (int64_t xi = 0; xi < LS__WINO_XI; xi++)
            ls__wino_outer(v + xi * v_xi, c1 - c0, d + xi * d_xi, columns, n, c1 - c0, columns,
                           sums + (xi * channels + c0) * columns, columns);
    }
}

/* Adds the parts of eight input channels in a fixed binary tree and transforms them back. */
static void reduce_task(void *arg, int64_t task, int thread)
{
    (void)thread;
    const wino_call *call = arg;
    const wino_kernel *k = call->k;
    const int64_t channels = k->g.in_channels, columns = k->g.out_channels;
    const int64_t c = task * LS__WINO_VECTOR, n = LS__WINO_VECTOR * columns;
    const int64_t part_floats = LS__WINO_XI * channels * columns;
    for (int64_t xi = 0; xi < LS__WINO_XI; xi++) {
        float *first = call->workspace + (xi * channels + c) * columns;
        for (int64_t step = 1; step < k->parts; step *= 2) {
            for (int64_t part = 0; part + step < k->parts; part += 2 * step) {
                float *restrict to = first + part * part_floats;
                const float *restrict from = first + (part + step) * part_floats;
                for (int64_t i = 0; i < n; i++) to[i] += from[i];
            }
        }
    }
    ls__wino_weight_gradient(&k->g, call->workspace + c * columns, channels * columns, columns, c,
                             call->y);
}

static ls_status run_weights(ls__kernel *kernel, void *const *buffers, void *workspace,
                             const ls__step *step)
{
    (void)step;
    const wino_kernel *k = (const wino_kernel *)kernel;
    wino_call call = {
        .k = k, .x = buffers[0], .w = buffers[1], .y = buffers[2], .workspace = workspace
    };
    ls__threads_run(k->cpu->threads, k->parts * k->channel_parts, part_task, &call);
    ls__threads_run(k->cpu->threads, k->g.in_channels / LS__WINO_VECTOR, reduce_task, &call);
    return LS_OK;
}

static size_t plan_weights(wino_kernel *k)
{
    const ls__wino_geometry *g = &k->g;
    const size_t part_bytes =
        (size_t)(LS__WINO_XI * g->in_channels * g->out_channels) * sizeof(float);
    int64_t parts = (int64_t)(PARTIAL_BYTES / part_bytes);
    if (parts < 1) parts = 1;
    if (parts > MOST_PARTS) parts = MOST_PARTS;
    const int64_t most = divide_up(g->n_tiles, 2 * WEIGHT_TILES);
    if (parts > most) parts = most;
    k->part_tiles = divide_up(g->n_tiles, parts);
    k->parts = divide_up(g->n_tiles, k->part_tiles);
    /* Few parts: cut the input channels as well, at the price of transforming dy once for each cut.
     */
    k->channel_parts = k->parts >= 8 ? 1 : g->in_channels >= 256 ? 4 : g->in_channels >= 64 ? 2 : 1;
    k->channels_per_part =
        divide_up(g->in_channels / LS__WINO_VECTOR, k->channel_parts) * LS__WINO_VECTOR;
    k->channel_parts = divide_up(g->in_channels, k->channels_per_part);
    k->scratch_bytes =
        (size_t)(LS__WINO_XI *
                 (WEIGHT_TILES * (k->channels_per_part + g->out_channels) + 2 * XI_GAP)) *
        sizeof(float);
    return (size_t)k->parts * part_bytes;
}

/* ---- The provider ---- */

/* The activations on both sides of a convolution op: x or dx, and y or dy. */
static void sides(const ls__op *op, const ls__operand **x, const ls__operand **y)
{
    const ls__operand *o = op->operands;
    *x = op->kind == LS__OP_CONV2D_BACKWARD_DATA ? &o[2] : &o[0];
    *y = op->kind == LS__OP_CONV2D                 ? &o[3]
         : op->kind == LS__OP_CONV2D_BACKWARD_DATA ? &o[0]
                                                   : &o[1];
}

static bool fits(const ls__cpu *cpu, const ls__op *op)
{
    if (cpu->isa < LS__ISA_AVX2) return false;
    if (op->kind != LS__OP_CONV2D && op->kind != LS__OP_CONV2D_BACKWARD_DATA &&
        op->kind != LS__OP_CONV2D_BACKWARD_WEIGHTS)
        return false;
    if (op->kind == LS__OP_CONV2D_BACKWARD_WEIGHTS && op->operands[3].shape.n_dims >= 0)
        return false; /* no bias */
    for (int i = 0; i < 2; i++)
        if (op->u.conv.kernel[i] != 3 || op->u.conv.stride[i] != 1 || op->u.conv.dilation[i] != 1 ||
            op->u.conv.padding[i] > 2)
            return false;
    const ls__operand *x, *y;
    sides(op, &x, &y);
    const int64_t c = x->shape.dims[3], k = y->shape.dims[3];
    return op->u.conv.groups == 1 && x->block == c && y->block == k && c % LS__WINO_VECTOR == 0 &&
           k % LS__WINO_VECTOR == 0;
}

static void find_geometry(const ls__op *op, ls__wino_geometry *g)
{
    const ls__operand *x, *y;
    sides(op, &x, &y);
    const bool back = op->kind == LS__OP_CONV2D_BACKWARD_DATA;
    const ls__operand *in = back ? y : x, *out = back ? x : y;
    *g = (ls__wino_geometry){ .n = in->shape.dims[0],
                              .in_h = in->shape.dims[1],
                              .in_w = in->shape.dims[2],
                              .in_channels = in->shape.dims[3],
                              .out_h = out->shape.dims[1],
                              .out_w = out->shape.dims[2],
                              .out_channels = out->shape.dims[3],
                              .pad_h = back ? 2 - op->u.conv.padding[0] : op->u.conv.padding[0],
                              .pad_w = back ? 2 - op->u.conv.padding[1] : op->u.conv.padding[1] };
    g->tiles_h = divide_up(g->out_h, LS__WINO_OUT);
    g->tiles_w = divide_up(g->out_w, LS__WINO_OUT);
    g->n_tiles = g->n * g->tiles_h * g->tiles_w;
}

/* For one thread, whatever their number: a choice must not depend on it. Products at 75 Gflop/s,
 * measured on Zen 3 with tiles' edges counted, and the transforms as passes over 2.25 times the
 * data. */
static double cost_ms(const ls__wino_geometry *g)
{
    const double flops =
        2.0 * LS__WINO_XI * (double)g->n_tiles * (double)g->in_channels * (double)g->out_channels;
    const double moved = (double)sizeof(float) * 2 * LS__WINO_XI * (double)g->n_tiles *
                         (double)(g->in_channels + g->out_channels);
    return (flops / 75e9 + moved / 25e9) * 1e3;
}

static int candidates(ls__cpu *cpu, const ls__op *op, ls__candidate *out, int max)
{
    if (max < 1 || !fits(cpu, op)) return 0;
    ls__wino_geometry g;
    find_geometry(op, &g);
    *out = (ls__candidate){ .name = "winograd 4x4", .deterministic = true, .cost_ms = cost_ms(&g) };
    return 1;
}

static void close_kernel(ls__kernel *kernel)
{
    ls__free(((wino_kernel *)kernel)->cpu->device.ctx, kernel);
}

static ls_status kernel_open(ls__cpu *cpu, const ls__op *op, const char *name, ls__kernel **out)
{
    ls_context *ctx = cpu->device.ctx;
    if (!fits(cpu, op))
        return ls__fail(ctx, LS_ERR_UNSUPPORTED, "%s: not for %s", name, ls__op_name(op->kind));
    ls__wino_geometry g;
    find_geometry(op, &g);
    if (ls__wino_is_wide(&g, op->kind)) return ls__wino_wide_open(cpu, &g, op->kind, name, out);
    wino_kernel *k = ls__zalloc(ctx, sizeof *k);
    if (!k) return ls__fail_memory(ctx, name, sizeof *k);
    k->cpu = cpu;
    k->kind = op->kind;
    k->turned = op->kind == LS__OP_CONV2D_BACKWARD_DATA;
    k->g = g;
    k->n_panels = divide_up(k->g.out_channels, LS__WINO_PANEL);
    const bool weights = op->kind == LS__OP_CONV2D_BACKWARD_WEIGHTS;
    k->kernel.workspace_bytes = weights ? plan_weights(k) : plan_correlation(k);
    k->kernel.run = weights ? run_weights : run_correlation;
    k->kernel.close = close_kernel;
    strncpy(k->kernel.name, name, sizeof k->kernel.name - 1);
    const ls_status status = ls__cpu_reserve_scratch(cpu, k->scratch_bytes);
    if (status != LS_OK) {
        close_kernel(&k->kernel);
        return status;
    }
    *out = &k->kernel;
    return LS_OK;
}

const ls__cpu_provider ls__winograd_provider = { "winograd", candidates, kernel_open };
