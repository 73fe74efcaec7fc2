/* products.c: forward, and backward by data. A task has some rows and some columns of the result;
 * of rows that are not read where they are it gathers a stretch at a time. */
#include "cpu/conv/implicit_gemm/kernel.h"

#include <string.h>

enum {
    BLOCK_ROWS = 96,     /* of a task */
    DEPTH = 512,         /* places of (tap, channel) gathered at a time; a multiple of a chain */
    SLAB = 256,          /* columns of a task where there are few rows */
    FEW_BLOCKS = 32,     /* of rows */
    GROUP_BLOCKS = 4,    /* of a task, at most */
    PLAIN_CHANNELS = 512 /* up to so many are read where they are, although such rows meet in one
                            cache set */
};

typedef struct products_call {
    const ls__gemm_kernel *k;
    const void *x; /* of backward by data dy */
    const float *w, *bias;
    void *y;
    float *workspace;
} products_call;

/* Whether rows of a product are read where they are: a tile reads 6 at a time, or 12
 * with AVX-512. */
static bool reads_plain(const ls__gemm_kernel *k, const ls__gemm_phase *phase)
{
    return !k->bf16 && phase->plain && k->source.channels <= PLAIN_CHANNELS;
}

/* One panel of one phase: of w's rows turned, or of its columns. */
static void pack_task(void *arg, int64_t task, int thread)
{
    (void)thread;
    const products_call *call = arg;
    const ls__gemm_kernel *k = call->k;
    const ls__gemm_part *p = &k->parts[task / k->n_panels];
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
static void multiply_rows(const products_call *call, const ls__gemm_part *p, int64_t first,
                          int64_t n, int64_t n_next, int64_t c0, int64_t c1, float *gathered,
                          float *to, int64_t to_stride)
{
    const ls__gemm_kernel *k = call->k;
    const int64_t channels = k->source.channels, panel = k->lanes->panel;
    for (int64_t k0 = 0; k0 < p->depth; k0 += DEPTH) {
        const int64_t depth = ls__min(DEPTH, p->depth - k0);
        const float *from = gathered;
        int64_t stride = ls__gemm_row_stride(depth);
        if (reads_plain(k, &p->phase)) {
            from = (const float *)call->x + first * channels + k0;
            stride = channels;
        } else {
            ls__gemm_gather(&p->phase, &k->source, call->x, first, n, k0, k0 + depth, gathered,
                            stride);
        }
        const int64_t tiles = ls__divide_up(c1 - c0, panel) * ls__divide_up(n, k->lanes->rows) *
                              ls__divide_up(depth, LS__GEMM_CHAIN);
        ls__ahead ahead = k0 + depth < p->depth
                              ? ls__gemm_ahead(&p->phase, &k->source, call->x, first, n, k0 + depth,
                                               ls__min(k0 + depth + DEPTH, p->depth), tiles)
                              : ls__gemm_ahead(&p->phase, &k->source, call->x, first + n, n_next, 0,
                                               ls__min(DEPTH, p->depth), tiles);
        for (int64_t c = c0; c < c1; c += panel)
            k->lanes->multiply(k0 > 0, from, stride,
                               call->workspace + p->packed + c * p->depth + k0 * panel, depth, n,
                               ls__min(panel, c1 - c), to + (c - c0), to_stride, &ahead);
    }
}

static void block_task(void *arg, int64_t task, int thread)
{
    const products_call *call = arg;
    const ls__gemm_kernel *k = call->k;
    /* All phases of a block, one after the other: they read the same pixels. */
    const ls__gemm_part *p = &k->parts[task / k->n_slabs % k->n_parts];
    const int64_t c0 = task % k->n_slabs * k->slab;
    const int64_t c1 = ls__min(c0 + k->slab, k->result.channels);
    const int64_t stride = ls__gemm_row_stride(ls__round_up_to(k->slab, k->lanes->lanes));
    float *const gathered = (float *)(void *)k->cpu->scratch[thread];
    float *const results = gathered + BLOCK_ROWS * ls__gemm_row_stride(DEPTH);
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

static void widen_task(void *arg, int64_t filter, int thread)
{
    (void)thread;
    const products_call *call = arg;
    const ls__gemm_kernel *k = call->k;
    ls__gemm_read(true, call->w, filter * k->filter_floats, k->filter_floats,
                  call->workspace + k->w_f32 + filter * k->filter_floats);
}

/* Weights and bias become f32. */
static void widen(products_call *call)
{
    const ls__gemm_kernel *k = call->k;
    float *const w = call->workspace + k->w_f32, *const bias = w + k->filters * k->filter_floats;
    ls__threads_run(k->cpu->threads, k->filters, widen_task, call);
    call->w = w;
    if (!call->bias) return;
    ls__gemm_read(true, call->bias, 0, k->filters, bias);
    call->bias = bias;
}

ls_status ls__gemm_run_products(ls__kernel *kernel, void *const *buffers, void *workspace,
                                const ls__step *step)
{
    (void)step;
    const ls__gemm_kernel *k = (const ls__gemm_kernel *)kernel;
    products_call call = { .k = k,
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

size_t ls__gemm_plan_products(ls__gemm_kernel *k, bool bias)
{
    const int64_t columns = k->result.channels, panel = k->lanes->panel;
    int64_t n_blocks = 0, packed = 0;
    k->n_panels = ls__divide_up(columns, panel);
    for (int i = 0; i < k->n_parts; i++) {
        ls__gemm_part *p = &k->parts[i];
        p->packed = packed;
        packed += k->n_panels * panel * p->depth;
        const int64_t blocks = ls__divide_up(p->phase.n_rows, BLOCK_ROWS);
        p->rows = ls__round_up_to(ls__divide_up(p->phase.n_rows, blocks), LS__GEMM_ROW_STEP);
        const int64_t needed = ls__divide_up(p->phase.n_rows, p->rows);
        if (needed > n_blocks) n_blocks = needed;
    }
    k->n_slabs = n_blocks * k->n_parts < FEW_BLOCKS ? ls__divide_up(columns, SLAB) : 1;
    k->slab = ls__round_up_to(ls__divide_up(columns, k->n_slabs), LS__GEMM_WIDEST_PANEL);
    k->n_slabs = ls__divide_up(columns, k->slab);
    k->group = k->n_parts > 1 ? 1 : ls__min(GROUP_BLOCKS, 1 + n_blocks / FEW_BLOCKS);
    k->n_tasks = ls__divide_up(n_blocks, k->group) * k->n_parts * k->n_slabs;
    k->in_place = !k->bf16 && k->n_parts == 1 && k->parts[0].depth > 0 && !bias &&
                  columns % k->lanes->lanes == 0;
    k->w_f32 = packed;
    if (k->bf16) packed += k->filters * (k->filter_floats + bias);
    k->kernel.workspace_bytes = (size_t)packed * sizeof(float);
    const int64_t results =
        k->in_place ? 0 : ls__gemm_row_stride(ls__round_up_to(k->slab, k->lanes->lanes));
    return (size_t)(BLOCK_ROWS * (ls__gemm_row_stride(DEPTH) + results)) * sizeof(float);
}
