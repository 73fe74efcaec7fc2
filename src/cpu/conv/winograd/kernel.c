/* kernel.c: Winograd convolutions as tasks, and the provider that offers them. Tasks are blocks of
 * tiles (forward, backward by data), or parts of the tiles times parts of the input channels
 * (backward weights), cut by shape alone. */
#include "base/alloc.h"
#include "base/error.h"
#include "cpu/conv_roles.h"
#include "cpu/tree.h"
#include "cpu/conv/winograd/winograd.h"

#include <stdio.h>
#include <string.h>

static const char NAME[] = "winograd 4x4";

/* Measured on a Zen 3 (L2 512 KiB, L3 32 MiB). */
enum {
    CORE_CACHE_BYTES = 288 << 10, /* of V and M that a block of tiles should fit */
    TILE_STEP = 12, /* whole tiles of products, of both widths of vectors; fewer make the weights'
                       way from the outer cache too frequent */
    MOST_TILES = 36,
    GROUP_CHANNELS = 64, /* multiplied before results are transformed: whole lines of an image */
    GROUP_BLOCKS = 4,    /* of a task, at most: while one is worked on, the next is read */
    FEW_BLOCKS = 32,
    LINE_BYTES = 64,
    WEIGHT_TILES = 64, /* tiles transformed at a time for backward weights */
    MOST_ASKED = 128,  /* of their input and output channels: of more nothing stays until it is read
                        */
    PARTIAL_BYTES = 20 << 20, /* of partial weight sums in all: they cross memory twice */
    MOST_PARTS = 16,
    REDUCE_ROWS = 4 /* output channels of a task that adds the parts */
};

typedef struct wino_kernel {
    ls__kernel kernel; /* first */
    ls__cpu *cpu;
    const ls__wino_lanes *lanes;
    ls__wino_geometry g;
    bool turned;
    int64_t element_bytes; /* of activations */
    int64_t v_stride;      /* floats from tile to tile of transformed inputs */
    /* Forward and backward by data */
    int64_t n_panels, block_tiles, n_blocks, group; /* blocks of a task */
    int64_t width; /* output channels that are multiplied at once */
    /* Backward weights */
    int64_t d_stride, parts, part_tiles, k_parts, k_per_part;
    size_t scratch_bytes;
} wino_kernel;

typedef struct wino_call {
    const wino_kernel *k;
    const void *x, *w, *bias;
    void *y;
    float *workspace;
} wino_call;

/* ---- What is read next ---- */

/* Half of the positions ask for one image, the others for another. */
enum { HALF = LS__WINO_XI / 2 };

/* Channels c0..c1-1 of the share of pixels that is that of tiles first..first+count-1 among all, to
 * be asked for in so many fetches: one with each tile of a product. */
static ls__ahead ahead_of(const wino_kernel *k, const void *image, int64_t pixels, int64_t channels,
                          int64_t c0, int64_t c1, int64_t first, int64_t count, int64_t n_fetches)
{
    const int64_t n = k->g.n_tiles, in_float = (int64_t)sizeof(float) / k->element_bytes;
    const int64_t begin = ls__min(first, n) * pixels / n,
                  end = ls__min(first + count, n) * pixels / n;
    const int64_t floats = ls__divide_up(c1 - c0, in_float), stride = channels / in_float;
    const int64_t lines =
        (end - begin) * ls__divide_up(floats * (int64_t)sizeof(float), LINE_BYTES);
    return (ls__ahead){ .row = (const float *)image + begin * stride + c0 / in_float,
                        .n_rows = end - begin,
                        .floats = floats,
                        .stride = stride,
                        .lines_per_tile = ls__divide_up(lines, n_fetches) };
}

/* Tiles read a row of tiles further than their share of the input, which is asked for already. */
static ls__ahead next_input(const wino_call *call, int64_t first, int64_t count, int64_t n_fetches)
{
    const ls__wino_geometry *g = &call->k->g;
    return ahead_of(call->k, call->x, g->n * g->in_h * g->in_w, g->in_channels, 0, g->in_channels,
                    first + g->tiles_w, count, n_fetches);
}

/* Of results, or of their gradients. */
static ls__ahead next_output(const wino_call *call, const void *image, int64_t k0, int64_t k1,
                             int64_t first, int64_t count, int64_t n_fetches)
{
    const ls__wino_geometry *g = &call->k->g;
    return ahead_of(call->k, image, g->n * g->out_h * g->out_w, g->out_channels, k0, k1, first,
                    count, n_fetches);
}

/* ---- Forward, and backward by data ---- */

static void pack_task(void *arg, int64_t panel, int thread)
{
    (void)thread;
    const wino_call *call = arg;
    const wino_kernel *k = call->k;
    const int64_t panel_floats = LS__WINO_XI * k->g.in_channels * k->lanes->panel;
    k->lanes->weights(&k->g, call->w, k->turned, panel, call->workspace + panel * panel_floats);
}

/* While products run, the next block's input and then this one's results come into the cache. */
static void run_block(const wino_call *call, int64_t first, int64_t tiles, float *v)
{
    const wino_kernel *k = call->k;
    const ls__wino_geometry *g = &k->g;
    const int64_t c = g->in_channels, panel = k->lanes->panel, width = k->width;
    const int64_t v_xi = k->block_tiles * k->v_stride + LS__GEMM_GAP;
    const int64_t m_xi = k->block_tiles * width + LS__GEMM_GAP;
    const int64_t n_fetches = HALF * ls__divide_up(k->block_tiles, k->lanes->rows) *
                              ls__divide_up(c, LS__GEMM_CHAIN); /* of a panel */
    float *const m = v + LS__WINO_XI * v_xi;
    k->lanes->input(g, call->x, first, tiles, 0, c, v, v_xi, k->v_stride);
    ls__ahead ahead[2] = { next_input(call, first + tiles, tiles, n_fetches * k->n_panels) };
    for (int64_t k0 = 0; k0 < g->out_channels; k0 += width) {
        const int64_t k1 = ls__min(k0 + width, g->out_channels);
        ahead[1] = next_output(call, call->y, k0, k1, first, tiles,
                               n_fetches * ls__divide_up(k1 - k0, panel));
        for (int64_t xi = 0; xi < LS__WINO_XI; xi++)
            for (int64_t p = k0; p < k1; p += panel)
                k->lanes->multiply(false, v + xi * v_xi, k->v_stride,
                                   call->workspace + (p * LS__WINO_XI + xi * panel) * c, c, tiles,
                                   ls__min(panel, k1 - p), m + xi * m_xi + p - k0, width,
                                   &ahead[xi / HALF]);
        k->lanes->output(g, m, m_xi, width, first, tiles, k0, k1, call->bias, call->y);
    }
}

static void block_task(void *arg, int64_t task, int thread)
{
    const wino_call *call = arg;
    const wino_kernel *k = call->k;
    const int64_t step = k->block_tiles, end = ls__min((task + 1) * k->group * step, k->g.n_tiles);
    for (int64_t first = task * k->group * step; first < end; first += step)
        run_block(call, first, ls__min(step, end - first), (float *)k->cpu->scratch[thread]);
}

static ls_status run_correlation(ls__kernel *kernel, void *const *buffers, void *workspace,
                                 const ls__step *step)
{
    (void)step;
    const wino_kernel *k = (const wino_kernel *)kernel;
    wino_call call = { .k = k,
                       .x = buffers[0],
                       .w = buffers[1],
                       .bias = k->turned ? NULL : buffers[2],
                       .y = buffers[k->turned ? 2 : 3],
                       .workspace = workspace };
    ls__threads_run(k->cpu->threads, k->n_panels, pack_task, &call);
    ls__threads_run(k->cpu->threads, ls__divide_up(k->n_blocks, k->group), block_task, &call);
    return LS_OK;
}

static size_t plan_correlation(wino_kernel *k)
{
    const ls__wino_geometry *g = &k->g;
    k->n_panels = ls__divide_up(g->out_channels, k->lanes->panel);
    k->width = ls__min(GROUP_CHANNELS, k->n_panels * k->lanes->panel);
    const int64_t tile_bytes = LS__WINO_XI * (k->v_stride + k->width) * (int64_t)sizeof(float);
    int64_t tiles = ls__min(CORE_CACHE_BYTES / tile_bytes, MOST_TILES) / TILE_STEP * TILE_STEP;
    if (tiles < TILE_STEP) tiles = TILE_STEP;
    k->n_blocks = ls__divide_up(g->n_tiles, tiles);
    /* no short last block */
    tiles = ls__round_up_to(ls__divide_up(g->n_tiles, k->n_blocks), TILE_STEP);
    k->block_tiles = tiles;
    k->n_blocks = ls__divide_up(g->n_tiles, tiles);
    k->group = ls__min(GROUP_BLOCKS, 1 + k->n_blocks / FEW_BLOCKS);
    k->scratch_bytes =
        (size_t)(k->block_tiles * tile_bytes) + 2 * LS__WINO_XI * LS__GEMM_GAP * sizeof(float);
    return (size_t)(LS__WINO_XI * g->in_channels * k->lanes->panel * k->n_panels) * sizeof(float);
}

/* ---- Backward weights: x dy -> dw ---- */

static int64_t sum_floats(const wino_kernel *k)
{
    return LS__WINO_XI * k->g.out_channels * k->v_stride;
}

static void part_task(void *arg, int64_t task, int thread)
{
    const wino_call *call = arg;
    const wino_kernel *k = call->k;
    const ls__wino_geometry *g = &k->g;
    const int64_t channels = g->in_channels, v_stride = k->v_stride;
    const int64_t part = task / k->k_parts, k0 = task % k->k_parts * k->k_per_part;
    const int64_t k1 = ls__min(k0 + k->k_per_part, g->out_channels);
    const int64_t v_xi = WEIGHT_TILES * v_stride + LS__GEMM_GAP;
    const int64_t d_xi = WEIGHT_TILES * k->d_stride + LS__GEMM_GAP;
    float *v = (float *)k->cpu->scratch[thread], *d = v + LS__WINO_XI * v_xi;
    float *sums = call->workspace + part * sum_floats(k) + k0 * v_stride;
    const int64_t n_fetches =
        HALF * ls__divide_up(k1 - k0, k->lanes->rows) * ls__divide_up(channels, k->lanes->panel);
    const int64_t s_xi = g->out_channels * v_stride;
    for (int64_t xi = 0; xi < LS__WINO_XI; xi++)
        memset(sums + xi * s_xi, 0, (size_t)((k1 - k0) * v_stride) * sizeof *sums);
    const bool asks = channels + k1 - k0 <= MOST_ASKED;
    const int64_t end = ls__min((part + 1) * k->part_tiles, g->n_tiles);
    for (int64_t first = part * k->part_tiles; first < end; first += WEIGHT_TILES) {
        const int64_t n = ls__min(WEIGHT_TILES, end - first);
        k->lanes->input(g, call->x, first, n, 0, channels, v, v_xi, v_stride);
        k->lanes->gradient(g, call->w, first, n, k0, k1, d, d_xi, k->d_stride);
        ls__ahead next[] = { next_input(call, first + n, n, n_fetches),
                             next_output(call, call->w, k0, k1, first + n, n, n_fetches) };
        for (int64_t xi = 0; xi < LS__WINO_XI; xi++)
            k->lanes->outer(d + xi * d_xi, k->d_stride, v + xi * v_xi, v_stride, n, k1 - k0,
                            channels, sums + xi * s_xi, v_stride, asks ? &next[xi / HALF] : NULL);
    }
}

/* Adds the parts of some output channels in a binary tree and transforms them back. */
static void reduce_task(void *arg, int64_t task, int thread)
{
    (void)thread;
    const wino_call *call = arg;
    const wino_kernel *k = call->k;
    const int64_t k0 = task * REDUCE_ROWS, k1 = ls__min(k0 + REDUCE_ROWS, k->g.out_channels);
    const int64_t n = (k1 - k0) * k->v_stride, part_floats = sum_floats(k);
    const int64_t s_xi = k->g.out_channels * k->v_stride;
    for (int64_t xi = 0; xi < LS__WINO_XI; xi++) {
        float *first = call->workspace + xi * s_xi + k0 * k->v_stride;
        ls__tree_sum(first, first + part_floats, part_floats, k->parts, n);
    }
    for (int64_t row = k0; row < k1; row++)
        k->lanes->weight_gradient(&k->g, call->workspace + row * k->v_stride, s_xi, row, call->y);
}

static ls_status run_weights(ls__kernel *kernel, void *const *buffers, void *workspace,
                             const ls__step *step)
{
    (void)step;
    const wino_kernel *k = (const wino_kernel *)kernel;
    wino_call call = {
        .k = k, .x = buffers[0], .w = buffers[1], .y = buffers[2], .workspace = workspace
    };
    ls__threads_run(k->cpu->threads, k->parts * k->k_parts, part_task, &call);
    ls__threads_run(k->cpu->threads, ls__divide_up(k->g.out_channels, REDUCE_ROWS), reduce_task,
                    &call);
    return LS_OK;
}

static size_t plan_weights(wino_kernel *k)
{
    const ls__wino_geometry *g = &k->g;
    const size_t part_bytes = (size_t)sum_floats(k) * sizeof(float);
    /* Counted by shape alone, not by the width of vectors: a sum's order follows from it. */
    const int64_t bytes = LS__WINO_XI * g->in_channels * g->out_channels * (int64_t)sizeof(float);
    int64_t parts = PARTIAL_BYTES / bytes;
    if (parts < 1) parts = 1;
    parts = ls__min(parts, MOST_PARTS);
    parts = ls__min(parts, ls__divide_up(g->n_tiles, 2 * WEIGHT_TILES));
    k->part_tiles = ls__divide_up(g->n_tiles, parts);
    k->parts = ls__divide_up(g->n_tiles, k->part_tiles);
    /* Few parts: cut the output channels as well, at the price of transforming x for each cut. */
    k->k_parts = k->parts >= 8 ? 1 : g->out_channels >= 256 ? 4 : g->out_channels >= 64 ? 2 : 1;
    const int64_t vectors = ls__divide_up(g->out_channels, k->lanes->lanes);
    k->k_per_part = ls__divide_up(vectors, k->k_parts) * k->lanes->lanes;
    k->k_parts = ls__divide_up(g->out_channels, k->k_per_part);
    k->d_stride = ls__wino_stride(k->lanes, k->k_per_part);
    k->scratch_bytes =
        (size_t)(LS__WINO_XI * (WEIGHT_TILES * (k->v_stride + k->d_stride) + 2 * LS__GEMM_GAP)) *
        sizeof(float);
    return (size_t)k->parts * part_bytes;
}

/* ---- The provider ---- */

/* Of fewer channels transforms cost more than they save. */
enum { LEAST_CHANNELS = 8 };

static bool fits(const ls__cpu *cpu, const ls__op *op)
{
    ls__conv_roles roles;
    if (cpu->isa < LS__ISA_AVX2 || !ls__conv_is_plain(op, LEAST_CHANNELS, &roles)) return false;
    for (int i = 0; i < 2; i++)
        if (op->u.conv.kernel[i] != 3 || op->u.conv.stride[i] != 1 || op->u.conv.dilation[i] != 1 ||
            op->u.conv.padding[i] > 2)
            return false;
    return true;
}

static void find_geometry(const ls__op *op, ls__wino_geometry *g)
{
    ls__conv_roles roles;
    ls__conv_roles_of(op->kind, &roles);
    const ls__operand *x = &op->operands[roles.x], *y = &op->operands[roles.y];
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
    g->tiles_h = ls__divide_up(g->out_h, LS__WINO_OUT);
    g->tiles_w = ls__divide_up(g->out_w, LS__WINO_OUT);
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
    *out = (ls__candidate){ .deterministic = true, .cost_ms = cost_ms(&g) };
    snprintf(out->name, sizeof out->name, "%s", NAME);
    return 1;
}

static void close_kernel(ls__kernel *kernel)
{
    ls__free(((wino_kernel *)kernel)->cpu->device.ctx, kernel);
}

ls_status ls__wino_open(ls__cpu *cpu, const ls__op *op, const ls__wino_lanes *lanes,
                        const char *name, ls__kernel **out)
{
    ls_context *ctx = cpu->device.ctx;
    if (strcmp(name, NAME) != 0 || !fits(cpu, op))
        return ls__fail(ctx, LS_ERR_UNSUPPORTED, "%s: no kernel '%s' for this shape",
                        ls__op_name(op->kind), name);
    ls__wino_geometry g;
    find_geometry(op, &g);
    if (ls__wino_is_wide(&g, op->kind))
        return ls__wino_wide_open(cpu, &g, op->kind, lanes, name, out);
    wino_kernel *k = ls__zalloc(ctx, sizeof *k);
    if (!k) return ls__fail_memory(ctx, name, sizeof *k);
    k->cpu = cpu;
    k->lanes = lanes;
    k->turned = op->kind == LS__OP_CONV2D_BACKWARD_DATA;
    k->element_bytes = (int64_t)ls_dtype_bytes(op->operands[0].dtype);
    k->g = g;
    k->v_stride = ls__wino_stride(lanes, g.in_channels);
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

static ls_status kernel_open(ls__cpu *cpu, const ls__op *op, const char *name, ls__kernel **out)
{
    static const ls__wino_lanes *const lanes[][2] = { { &ls__wino_avx2, &ls__wino_avx2_bf16 },
                                                      { &ls__wino_avx512, &ls__wino_avx512_bf16 } };
    const bool wide = cpu->isa >= LS__ISA_AVX512, bf16 = op->operands[0].dtype == LS_BF16;
    return ls__wino_open(cpu, op, lanes[wide][bf16], name, out);
}

const ls__cpu_provider ls__winograd_provider = { "winograd", candidates, kernel_open,
                                                 ls__conv_kinds };
