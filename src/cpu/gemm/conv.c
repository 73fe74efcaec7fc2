/* conv.c: convolutions as products, in tasks cut by shape alone, and the provider that offers them.
 * A task of forward and backward by data has some rows and some columns of the result; one of
 * backward weights has some of the pixels, and a part of the weights that stays in its core's
 * cache. */
#include "base/alloc.h"
#include "base/error.h"
#include "cpu/gemm/gemm.h"

#include <string.h>

/* Measured on a Zen 3 (L2 512 KiB, L3 32 MiB). */
enum {
    BLOCK_ROWS = 96,   /* of a task */
    WIDEST_PANEL = 32, /* of any width of vectors */
    ROW_STEP = 12,     /* whole tiles of both widths of vectors */
    DEPTH = 512,       /* places of (tap, channel) gathered at a time; a multiple of a chain */
    SLAB = 256,        /* columns of a task where there are few rows */
    FEW_BLOCKS = 32,   /* of rows */
    CHAIN = 128,       /* of multiply() */
    GROUP_BLOCKS = 4,  /* of a task, at most */
    WEIGHT_ROWS = 64,  /* pixels gathered at a time for backward weights: a chain */
    WEIGHT_SLAB = 256, /* channels, and places, of weights that a task sums */
    WEIGHT_TASKS = 32, /* as many as that, or more */
    LEAST_PART_ROWS = 8 * WEIGHT_ROWS,
    PARTIAL_BYTES = 8 << 20, /* of partial weight sums in all */
    SUM_FLOATS = 16384,      /* of partial sums that one task adds */
    GAP = 16,                /* floats between rows, so that many do not meet in one cache set */
    FAR_FLOATS = 256,        /* rows that lie so far apart do */
    PLAIN_CHANNELS = 512     /* and yet up to so many are read where they are */
};

/* A phase, its rows, and its packed weights. */
typedef struct part {
    ls__gemm_phase phase;
    int64_t depth;  /* taps times channels of the source */
    int64_t rows;   /* of a block */
    int64_t packed; /* floats, in the workspace: panels [depth][panel] */
} part;

typedef struct gemm_kernel {
    ls__kernel kernel; /* first */
    ls__cpu *cpu;
    const ls__gemm_lanes *lanes;
    bool data;                       /* backward by data */
    bool bf16;                       /* operands but dw */
    ls__gemm_picture source, result; /* of backward weights: x and dy */
    int n_parts;
    part parts[LS__GEMM_MOST_PHASES];
    int64_t n_tasks;
    /* Forward, and backward by data */
    int64_t n_slabs, slab, n_panels;
    int64_t group;         /* blocks of a task */
    int64_t all_taps;      /* of w */
    bool in_place;         /* rows of results lie in the picture one after the other */
    int64_t w_rows, w_row; /* of w, and the length of one */
    int64_t w_f32;         /* in the workspace, its copy in f32 and behind it the bias's, if bf16 */
    /* Backward weights */
    int64_t n_sums, sum_rows;          /* partial sums, and the pixels of each */
    int64_t k_slab, n_k_slabs;         /* of (tap, channel) */
    int64_t d_stride, v_stride, pitch; /* of gathered rows; of partial sums' rows */
    bool first_in_place;               /* the first partial sum is dw itself */
} gemm_kernel;

typedef struct gemm_call {
    const gemm_kernel *k;
    const void *x, *dy; /* x: of backward by data dy; dy: of backward weights */
    const float *w, *bias;
    void *y;
    float *workspace;
} gemm_call;

static int64_t round_up(int64_t n, int64_t step)
{
    return ls__divide_up(n, step) * step;
}

static int64_t row_stride(int64_t floats)
{
    return floats >= FAR_FLOATS ? floats + GAP : floats;
}

/* Whether rows of a product are read where they are: a tile reads six at a time. */
static bool reads_plain(const gemm_kernel *k, const ls__gemm_phase *phase)
{
    return !k->bf16 && phase->plain && k->source.channels <= PLAIN_CHANNELS;
}

enum { LINE = 64 / sizeof(float) };

/* n rows of the source from `first` on, at places k0..k1-1, in so many tiles; none where rows are
 * gathered from here and there. */
static ls__ahead ahead_of(const gemm_call *call, const ls__gemm_phase *phase, int64_t first,
                          int64_t n, int64_t k0, int64_t k1, int64_t tiles)
{
    const int64_t channels = call->k->source.channels;
    if (call->k->bf16 || !phase->plain || n <= 0) return (ls__ahead){ .n_rows = 0 };
    return (ls__ahead){ .row = (const float *)call->x + first * channels + k0,
                        .n_rows = n,
                        .floats = k1 - k0,
                        .stride = channels,
                        .lines_per_tile = ls__divide_up(n * ls__divide_up(k1 - k0, LINE), tiles) };
}

/* ---- Forward, and backward by data ---- */

/* One panel of one phase: of w's rows turned, or of its columns. */
static void pack_task(void *arg, int64_t task, int thread)
{
    (void)thread;
    const gemm_call *call = arg;
    const gemm_kernel *k = call->k;
    const part *p = &k->parts[task / k->n_panels];
    const int64_t width = k->lanes->panel, first = task % k->n_panels * width;
    const int64_t columns = ls__min(width, k->result.channels - first);
    float *u = call->workspace + p->packed + first * p->depth;
    if (!k->data) {
        k->lanes->pack(call->w + first * p->depth, p->depth, columns, p->depth, u);
        return;
    }
    for (int64_t t = 0; t < p->phase.n_taps; t++)
        for (int64_t o = 0; o < k->source.channels; o++, u += width) {
            const int64_t row = o * k->all_taps + p->phase.weight[t];
            memset(u, 0, (size_t)width * sizeof *u);
            memcpy(u, call->w + row * k->result.channels + first, (size_t)columns * sizeof *u);
        }
}

/* Rows first..first+n-1 by columns c0..c1-1, to `to`; the n_next rows behind them come next. */
static void multiply_rows(const gemm_call *call, const part *p, int64_t first, int64_t n,
                          int64_t n_next, int64_t c0, int64_t c1, float *gathered, float *to,
                          int64_t to_stride)
{
    const gemm_kernel *k = call->k;
    const int64_t channels = k->source.channels, panel = k->lanes->panel;
    for (int64_t k0 = 0; k0 < p->depth; k0 += DEPTH) {
        const int64_t depth = ls__min(DEPTH, p->depth - k0);
        const float *from = gathered;
        int64_t stride = row_stride(depth);
        if (reads_plain(k, &p->phase)) {
            from = (const float *)call->x + first * channels + k0;
            stride = channels;
        } else {
            ls__gemm_gather(&p->phase, &k->source, call->x, first, n, k0, k0 + depth, gathered,
                            stride);
        }
        const int64_t tiles = ls__divide_up(c1 - c0, panel) * ls__divide_up(n, k->lanes->rows) *
                              ls__divide_up(depth, CHAIN);
        ls__ahead ahead =
            k0 + depth < p->depth
                ? ahead_of(call, &p->phase, first, n, k0 + depth,
                           ls__min(k0 + depth + DEPTH, p->depth), tiles)
                : ahead_of(call, &p->phase, first + n, n_next, 0, ls__min(DEPTH, p->depth), tiles);
        for (int64_t c = c0; c < c1; c += panel)
            k->lanes->multiply(k0 > 0, from, stride,
                               call->workspace + p->packed + c * p->depth + k0 * panel, depth, n,
                               ls__min(panel, c1 - c), to + (c - c0), to_stride, &ahead);
    }
}

static void block_task(void *arg, int64_t task, int thread)
{
    const gemm_call *call = arg;
    const gemm_kernel *k = call->k;
    /* All phases of a block, one after the other: they read the same pixels. */
    const part *p = &k->parts[task / k->n_slabs % k->n_parts];
    const int64_t c0 = task % k->n_slabs * k->slab;
    const int64_t c1 = ls__min(c0 + k->slab, k->result.channels);
    const int64_t stride = row_stride(round_up(k->slab, k->lanes->lanes));
    float *const gathered = (float *)(void *)k->cpu->scratch[thread];
    float *const results = gathered + BLOCK_ROWS * row_stride(DEPTH);
    int64_t first = task / k->n_slabs / k->n_parts * k->group * p->rows;
    const int64_t end = ls__min(first + k->group * p->rows, p->phase.n_rows);
    for (; first < end; first += p->rows) {
        const int64_t n = ls__min(p->rows, end - first);
        const int64_t n_next = ls__min(p->rows, end - first - n);
        if (k->in_place) {
            float *const y = (float *)call->y + first * k->result.channels + c0;
            multiply_rows(call, p, first, n, n_next, c0, c1, gathered, y, k->result.channels);
            continue;
        }
        if (p->depth > 0)
            multiply_rows(call, p, first, n, n_next, c0, c1, gathered, results, stride);
        ls__gemm_scatter(&p->phase, &k->result, p->depth > 0 ? results : NULL, stride, first, n, c0,
                         c1, call->bias, call->y);
    }
}

/* One row of w. */
static void widen_task(void *arg, int64_t row, int thread)
{
    (void)thread;
    const gemm_call *call = arg;
    const gemm_kernel *k = call->k;
    ls__gemm_read(true, call->w, row * k->w_row, k->w_row,
                  call->workspace + k->w_f32 + row * k->w_row);
}

/* Weights and bias become f32. */
static void widen(gemm_call *call)
{
    const gemm_kernel *k = call->k;
    float *const w = call->workspace + k->w_f32, *const bias = w + k->w_rows * k->w_row;
    ls__threads_run(k->cpu->threads, k->w_rows, widen_task, call);
    call->w = w;
    if (!call->bias) return;
    ls__gemm_read(true, call->bias, 0, k->w_rows, bias);
    call->bias = bias;
}

static ls_status run_products(ls__kernel *kernel, void *const *buffers, void *workspace,
                              const ls__step *step)
{
    (void)step;
    const gemm_kernel *k = (const gemm_kernel *)kernel;
    gemm_call call = { .k = k,
                       .x = buffers[0],
                       .w = buffers[1],
                       .bias = k->data ? NULL : buffers[2],
                       .y = buffers[k->data ? 2 : 3],
                       .workspace = workspace };
    if (k->bf16) widen(&call);
    ls__threads_run(k->cpu->threads, k->n_parts * k->n_panels, pack_task, &call);
    ls__threads_run(k->cpu->threads, k->n_tasks, block_task, &call);
    return LS_OK;
}

/* Returns the bytes of scratch. */
static size_t plan_products(gemm_kernel *k, bool bias)
{
    const int64_t columns = k->result.channels, panel = k->lanes->panel;
    int64_t n_blocks = 0, packed = 0;
    k->n_panels = ls__divide_up(columns, panel);
    for (int i = 0; i < k->n_parts; i++) {
        part *p = &k->parts[i];
        p->packed = packed;
        packed += k->n_panels * panel * p->depth;
        const int64_t blocks = ls__divide_up(p->phase.n_rows, BLOCK_ROWS);
        p->rows = round_up(ls__divide_up(p->phase.n_rows, blocks), ROW_STEP);
        const int64_t needed = ls__divide_up(p->phase.n_rows, p->rows);
        if (needed > n_blocks) n_blocks = needed;
    }
    k->n_slabs = n_blocks * k->n_parts < FEW_BLOCKS ? ls__divide_up(columns, SLAB) : 1;
    k->slab = round_up(ls__divide_up(columns, k->n_slabs), WIDEST_PANEL);
    k->n_slabs = ls__divide_up(columns, k->slab);
    k->group = k->n_parts > 1 ? 1 : ls__min(GROUP_BLOCKS, 1 + n_blocks / FEW_BLOCKS);
    k->n_tasks = ls__divide_up(n_blocks, k->group) * k->n_parts * k->n_slabs;
    k->in_place = !k->bf16 && k->n_parts == 1 && k->parts[0].depth > 0 && !bias &&
                  columns % k->lanes->lanes == 0;
    k->w_f32 = packed;
    if (k->bf16) packed += k->w_rows * (k->w_row + bias);
    k->kernel.workspace_bytes = (size_t)packed * sizeof(float);
    const int64_t results = k->in_place ? 0 : row_stride(round_up(k->slab, k->lanes->lanes));
    return (size_t)(BLOCK_ROWS * (row_stride(DEPTH) + results)) * sizeof(float);
}

/* ---- Backward weights: x dy -> dw ---- */

static float *sums_of(const gemm_call *call, int64_t sum)
{
    const gemm_kernel *k = call->k;
    const int64_t floats = k->result.channels * k->pitch;
    if (!k->first_in_place) return call->workspace + sum * floats;
    return sum == 0 ? call->y : call->workspace + (sum - 1) * floats;
}

static void sum_task(void *arg, int64_t task, int thread)
{
    const gemm_call *call = arg;
    const gemm_kernel *k = call->k;
    const part *p = &k->parts[0];
    const int64_t channels = k->source.channels, columns = k->result.channels;
    const int64_t sum = task / (k->n_slabs * k->n_k_slabs);
    const int64_t o0 = task / k->n_k_slabs % k->n_slabs * k->slab;
    const int64_t o1 = ls__min(o0 + k->slab, columns);
    const int64_t k0 = task % k->n_k_slabs * k->k_slab, k1 = ls__min(k0 + k->k_slab, p->depth);
    /* a tile reads all of the rows */
    const bool plain_x =
        !k->bf16 && p->phase.plain && channels < FAR_FLOATS && channels % k->lanes->lanes == 0;
    const bool plain_dy = !k->bf16 && columns < FAR_FLOATS;
    float *const v = (float *)(void *)k->cpu->scratch[thread], *const d =
                                                                   v + WEIGHT_ROWS * k->v_stride;
    float *const sums = sums_of(call, sum) + o0 * k->pitch + k0;
    for (int64_t o = 0; o < o1 - o0; o++)
        memset(sums + o * k->pitch, 0, (size_t)(k1 - k0) * sizeof *sums);
    const int64_t tiles =
        ls__divide_up(o1 - o0, k->lanes->rows) * ls__divide_up(k1 - k0, k->lanes->panel);
    const int64_t end = ls__min((sum + 1) * k->sum_rows, p->phase.n_rows);
    for (int64_t first = sum * k->sum_rows; first < end; first += WEIGHT_ROWS) {
        const int64_t n = ls__min(WEIGHT_ROWS, end - first);
        const int64_t x_at = first * channels + k0, dy_at = first * columns + o0;
        if (!plain_x)
            ls__gemm_gather(&p->phase, &k->source, call->x, first, n, k0, k1, v, k->v_stride);
        for (int64_t r = 0; !plain_dy && r < n; r++)
            ls__gemm_read(k->bf16, call->dy, dy_at + r * columns, o1 - o0, d + r * k->d_stride);
        const int64_t n_next = ls__min(WEIGHT_ROWS, end - first - n);
        ls__ahead ahead = ahead_of(call, &p->phase, first + n, n_next, k0, k1, tiles);
        k->lanes->outer(
            plain_dy ? (const float *)call->dy + dy_at : d, plain_dy ? columns : k->d_stride,
            plain_x ? (const float *)call->x + x_at : v, plain_x ? channels : k->v_stride, n,
            o1 - o0, k1 - k0, sums, k->pitch, &ahead);
    }
}

/* Adds a stretch of the partial sums into the first, in a binary tree. */
static void tree_task(void *arg, int64_t task, int thread)
{
    (void)thread;
    const gemm_call *call = arg;
    const gemm_kernel *k = call->k;
    const int64_t first = task * SUM_FLOATS;
    const int64_t n = ls__min(SUM_FLOATS, k->result.channels * k->pitch - first);
    for (int64_t step = 1; step < k->n_sums; step *= 2)
        for (int64_t sum = 0; sum + step < k->n_sums; sum += 2 * step) {
            float *restrict to = sums_of(call, sum) + first;
            const float *restrict from = sums_of(call, sum + step) + first;
            for (int64_t i = 0; i < n; i++) to[i] += from[i];
        }
}

static ls_status run_weights(ls__kernel *kernel, void *const *buffers, void *workspace,
                             const ls__step *step)
{
    (void)step;
    const gemm_kernel *k = (const gemm_kernel *)kernel;
    gemm_call call = {
        .k = k, .x = buffers[0], .dy = buffers[1], .y = buffers[2], .workspace = workspace
    };
    const int64_t rows = k->result.channels, depth = k->parts[0].depth;
    ls__threads_run(k->cpu->threads, k->n_tasks, sum_task, &call);
    if (k->n_sums > 1)
        ls__threads_run(k->cpu->threads, ls__divide_up(rows * k->pitch, SUM_FLOATS), tree_task,
                        &call);
    for (int64_t o = 0; !k->first_in_place && o < rows; o++)
        memcpy((float *)call.y + o * depth, call.workspace + o * k->pitch,
               (size_t)depth * sizeof(float));
    return LS_OK;
}

static size_t plan_weights(gemm_kernel *k)
{
    const part *p = &k->parts[0];
    const int64_t rows = p->phase.n_rows, columns = k->result.channels, lanes = k->lanes->lanes;
    k->n_slabs = ls__divide_up(columns, WEIGHT_SLAB);
    k->slab = round_up(ls__divide_up(columns, k->n_slabs), ROW_STEP);
    k->n_slabs = ls__divide_up(columns, k->slab);
    k->n_k_slabs = ls__divide_up(p->depth, WEIGHT_SLAB);
    k->k_slab = round_up(ls__divide_up(p->depth, k->n_k_slabs), WIDEST_PANEL);
    k->n_k_slabs = ls__divide_up(p->depth, k->k_slab);
    const int64_t slabs = k->n_slabs * k->n_k_slabs;
    const int64_t bytes = columns * p->depth * (int64_t)sizeof(float);
    int64_t sums = ls__min(ls__divide_up(WEIGHT_TASKS, slabs), 1 + PARTIAL_BYTES / bytes);
    sums = ls__min(sums, ls__divide_up(rows, LEAST_PART_ROWS));
    k->sum_rows = round_up(ls__divide_up(rows, sums), WEIGHT_ROWS);
    k->n_sums = ls__divide_up(rows, k->sum_rows);
    k->n_tasks = k->n_sums * slabs;
    k->pitch = round_up(p->depth, lanes);
    k->first_in_place = k->pitch == p->depth;
    k->v_stride = row_stride(round_up(k->k_slab, lanes));
    k->d_stride = row_stride(k->slab);
    k->kernel.workspace_bytes =
        (size_t)((k->n_sums - k->first_in_place) * columns * k->pitch) * sizeof(float);
    return (size_t)(WEIGHT_ROWS * (k->v_stride + k->d_stride)) * sizeof(float);
}

/* ---- The provider ---- */

/* Of fewer channels there is less than a vector. */
enum { LEAST_CHANNELS = 8 };

static bool fits(const ls__cpu *cpu, const ls__op *op)
{
    if (cpu->isa < LS__ISA_AVX2) return false;
    const ls__operand *o = op->operands, *x, *y;
    switch ((int)op->kind) {
    case LS__OP_CONV2D: x = &o[0], y = &o[3]; break;
    case LS__OP_CONV2D_BACKWARD_DATA: x = &o[2], y = &o[0]; break;
    case LS__OP_CONV2D_BACKWARD_WEIGHTS:
        if (!ls__is_absent(&o[3])) return false; /* no bias */
        x = &o[0], y = &o[1];
        break;
    default: return false;
    }
    const int64_t in = x->shape.dims[3], out = y->shape.dims[3];
    return op->u.conv.groups == 1 && x->block == in && y->block == out && in >= LEAST_CHANNELS &&
           out >= LEAST_CHANNELS;
}

/* For one thread, whatever their number: a choice must not depend on it. Measured on a Zen 3, whose
 * core does 103 Gflop/s at best, by bench_ops on the layers of the ResNets: forward, backward by
 * data, backward weights. Kernels of 1x1 run at 88, 90 and 79, as oneDNN's in blocks do, but a step
 * of resnet50 with oneDNN's was 2 % faster: so they are for where oneDNN has none, and cost more.
 */
static double cost_ms(const ls__op *op, const ls__gemm_phase *phases, int n)
{
    static const double GFLOPS[] = { 92, 92, 82 }, ONE_TAP_GFLOPS[] = { 70, 65, 58 };
    static const double GIGABYTES = 50;
    static const double NARROW = 0.6; /* up to NARROW_CHANNELS on both sides */
    enum { NARROW_CHANNELS = 32 };
    static const double MOSTLY_EMPTY = 0.7; /* results that no tap reaches, between those of one */
    const int direction = op->kind - LS__OP_CONV2D;
    const int64_t *w = op->operands[op->kind == LS__OP_CONV2D_BACKWARD_WEIGHTS ? 2 : 1].shape.dims;
    double gflops = w[1] * w[2] == 1 ? ONE_TAP_GFLOPS[direction] : GFLOPS[direction];
    if (w[0] <= NARROW_CHANNELS && w[3] <= NARROW_CHANNELS) gflops *= NARROW;
    bool empty = false;
    for (int i = 0; i < n; i++) empty = empty || phases[i].n_taps == 0;
    if (empty) gflops *= MOSTLY_EMPTY;
    return ls__op_flops(op) / (gflops * 1e6) + ls__op_bytes(op) / (GIGABYTES * 1e6);
}

static int candidates(ls__cpu *cpu, const ls__op *op, ls__candidate *out, int max)
{
    ls__gemm_phase phases[LS__GEMM_MOST_PHASES];
    const int n = max > 0 && fits(cpu, op) ? ls__gemm_phases(op, phases) : 0;
    if (n == 0) return 0;
    *out =
        (ls__candidate){ .name = "gemm", .deterministic = true, .cost_ms = cost_ms(op, phases, n) };
    return 1;
}

static void close_kernel(ls__kernel *kernel)
{
    ls__free(((gemm_kernel *)kernel)->cpu->device.ctx, kernel);
}

static ls__gemm_picture picture_of(const ls__operand *o)
{
    return (ls__gemm_picture){ { o->shape.dims[1], o->shape.dims[2] },
                               o->shape.dims[3],
                               o->dtype == LS_BF16 };
}

ls_status ls__gemm_open(ls__cpu *cpu, const ls__op *op, const ls__gemm_lanes *lanes,
                        const char *name, ls__kernel **out)
{
    ls_context *ctx = cpu->device.ctx;
    ls__gemm_phase phases[LS__GEMM_MOST_PHASES];
    const int n = fits(cpu, op) ? ls__gemm_phases(op, phases) : 0;
    if (n == 0)
        return ls__fail(ctx, LS_ERR_UNSUPPORTED, "%s: not for %s", name, ls__op_name(op->kind));
    gemm_kernel *k = ls__zalloc(ctx, sizeof *k);
    if (!k) return ls__fail_memory(ctx, name, sizeof *k);
    const bool weights = op->kind == LS__OP_CONV2D_BACKWARD_WEIGHTS;
    k->cpu = cpu;
    k->lanes = lanes;
    k->data = op->kind == LS__OP_CONV2D_BACKWARD_DATA;
    k->source = picture_of(&op->operands[0]);
    k->result = picture_of(&op->operands[weights ? 1 : k->data ? 2 : 3]);
    k->bf16 = k->source.bf16;
    k->w_rows = op->operands[1].shape.dims[0];
    k->w_row = ls_shape_count(&op->operands[1].shape) / k->w_rows;
    k->all_taps = op->u.conv.kernel[0] * op->u.conv.kernel[1];
    k->n_parts = n;
    for (int i = 0; i < n; i++)
        k->parts[i] = (part){ phases[i], .depth = phases[i].n_taps * k->source.channels };
    const bool bias = op->kind == LS__OP_CONV2D && !ls__is_absent(&op->operands[2]);
    const size_t scratch = weights ? plan_weights(k) : plan_products(k, bias);
    k->kernel.run = weights ? run_weights : run_products;
    k->kernel.close = close_kernel;
    strncpy(k->kernel.name, name, sizeof k->kernel.name - 1);
    const ls_status status = ls__cpu_reserve_scratch(cpu, scratch);
    if (status != LS_OK) {
        close_kernel(&k->kernel);
        return status;
    }
    *out = &k->kernel;
    return LS_OK;
}

static ls_status kernel_open(ls__cpu *cpu, const ls__op *op, const char *name, ls__kernel **out)
{
    const ls__gemm_lanes *lanes = cpu->isa >= LS__ISA_AVX512 ? &ls__gemm_avx512 : &ls__gemm_avx2;
    return ls__gemm_open(cpu, op, lanes, name, out);
}

static const bool bf16_kinds[LS__N_OPS] = {
    [LS__OP_CONV2D] = true,
    [LS__OP_CONV2D_BACKWARD_DATA] = true,
    [LS__OP_CONV2D_BACKWARD_WEIGHTS] = true,
};

const ls__cpu_provider ls__gemm_provider = { "gemm", candidates, kernel_open, bf16_kinds };
