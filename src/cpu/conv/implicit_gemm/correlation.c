/* correlation.c: forward, and backward by data. A task computes some rows and some columns of the
 * result. Rows that cannot be read in place are gathered, DEPTH floats at a time. */
#include "cpu/conv/implicit_gemm/implicit_gemm.h"

#include <string.h>

enum {
    BLOCK_ROWS = 96,     /* of a task */
    DEPTH = 512,         /* places of (tap, channel) gathered at a time; a multiple of a chain */
    SLAB = 256,          /* columns of a task if there are few rows */
    FEW_BLOCKS = 32,     /* of rows */
    GROUP_BLOCKS = 4,    /* of a task, at most */
    PLAIN_CHANNELS = 512 /* up to so many are read in place, although such rows share cache sets */
};

/* Whether rows of a product are read in place: a tile reads 6 at a time, or 12 with AVX-512. */
static bool reads_plain(const ls__implicit_gemm_kernel *k, const ls__implicit_gemm_phase *phase)
{
    return !k->bf16 && phase->plain && k->source.channels <= PLAIN_CHANNELS;
}

static void convert_task(const ls__conv_call *call, int64_t filter, float *scratch)
{
    (void)scratch;
    const ls__implicit_gemm_kernel *k = call->kernel;
    float *w = call->workspace + k->w_f32;
    ls__implicit_gemm_read(true, call->w, filter * k->filter_floats, k->filter_floats,
                           w + filter * k->filter_floats);
    if (call->bias && filter == 0)
        ls__implicit_gemm_read(true, call->bias, 0, k->filters, w + k->filters * k->filter_floats);
}

/* One panel of one phase: of w's rows transposed, or of its columns. */
static void pack_task(const ls__conv_call *call, int64_t task, float *scratch)
{
    (void)scratch;
    const ls__implicit_gemm_kernel *k = call->kernel;
    const ls__implicit_gemm_product *p = &k->products[task / k->n_panels];
    const int64_t width = k->micro->panel, first = task % k->n_panels * width;
    const int64_t columns = ls__min_i64(width, k->result.channels - first);
    const float *w = k->bf16 ? call->workspace + k->w_f32 : call->w;
    float *u = call->workspace + p->packed + first * p->depth;
    if (!k->data) {
        k->micro->pack(w + first * p->depth, p->depth, columns, p->depth, u);
        return;
    }
    for (int64_t t = 0; t < p->phase.n_taps; t++)
        for (int64_t o = 0; o < k->source.channels; o++, u += width) {
            const int64_t row = o * k->all_taps + p->phase.weight[t];
            memset(u, 0, (size_t)width * sizeof *u);
            memcpy(u, w + row * k->result.channels + first, (size_t)columns * sizeof *u);
        }
}

/* Rows first..first+n-1 by columns c0..c1-1, to `to`. The next n_next rows are prefetched. */
static void multiply_rows(const ls__conv_call *call, const ls__implicit_gemm_product *p,
                          int64_t first, int64_t n, int64_t n_next, int64_t c0, int64_t c1,
                          float *gathered, float *to, int64_t to_stride)
{
    const ls__implicit_gemm_kernel *k = call->kernel;
    const int64_t channels = k->source.channels, panel = k->micro->panel;
    for (int64_t k0 = 0; k0 < p->depth; k0 += DEPTH) {
        const int64_t depth = ls__min_i64(DEPTH, p->depth - k0);
        const float *from = gathered;
        int64_t stride = ls__row_stride(depth);
        if (reads_plain(k, &p->phase)) {
            from = (const float *)call->x + first * channels + k0;
            stride = channels;
        } else {
            ls__implicit_gemm_gather(call, &p->phase, first, n, k0, k0 + depth, gathered, stride);
        }
        const int64_t tiles = ls__divide_up(c1 - c0, panel) * ls__divide_up(n, k->micro->rows) *
                              ls__divide_up(depth, LS__CHAIN);
        ls__prefetch prefetch =
            k0 + depth < p->depth
                ? ls__implicit_gemm_prefetch(call, &p->phase, first, n, k0 + depth,
                                             ls__min_i64(k0 + depth + DEPTH, p->depth), tiles)
                : ls__implicit_gemm_prefetch(call, &p->phase, first + n, n_next, 0,
                                             ls__min_i64(DEPTH, p->depth), tiles);
        for (int64_t c = c0; c < c1; c += panel)
            k->micro->multiply(k0 > 0, from, stride,
                               call->workspace + p->packed + c * p->depth + k0 * panel, depth, n,
                               ls__min_i64(panel, c1 - c), to + (c - c0), to_stride, &prefetch);
    }
}

static void block_task(const ls__conv_call *call, int64_t task, float *gathered)
{
    const ls__implicit_gemm_kernel *k = call->kernel;
    /* The phases of a block are consecutive tasks, because they read the same pixels. */
    const ls__implicit_gemm_product *p = &k->products[task / k->n_slabs % k->n_products];
    const int64_t c0 = task % k->n_slabs * k->slab;
    const int64_t c1 = ls__min_i64(c0 + k->slab, k->result.channels);
    const int64_t stride = ls__row_stride(ls__round_up_to(k->slab, k->micro->width));
    float *const results = gathered + BLOCK_ROWS * ls__row_stride(DEPTH);
    int64_t first = task / k->n_slabs / k->n_products * k->group * p->rows;
    const int64_t end = ls__min_i64(first + k->group * p->rows, p->phase.n_rows);
    for (; first < end; first += p->rows) {
        const int64_t n = ls__min_i64(p->rows, end - first);
        const int64_t n_next = ls__min_i64(p->rows, end - first - n);
        if (k->in_place) {
            float *const y = (float *)call->y + first * k->result.channels + c0;
            multiply_rows(call, p, first, n, n_next, c0, c1, gathered, y, k->result.channels);
            continue;
        }
        if (p->depth > 0)
            multiply_rows(call, p, first, n, n_next, c0, c1, gathered, results, stride);
        ls__implicit_gemm_scatter(call, &p->phase, p->depth > 0 ? results : NULL, stride, first, n,
                                  c0, c1);
    }
}

void ls__implicit_gemm_plan_correlation(ls__implicit_gemm_kernel *k, bool bias)
{
    const int64_t columns = k->result.channels, panel = k->micro->panel;
    int64_t n_blocks = 0, packed = 0;
    k->n_panels = ls__divide_up(columns, panel);
    for (int i = 0; i < k->n_products; i++) {
        ls__implicit_gemm_product *p = &k->products[i];
        p->packed = packed;
        packed += k->n_panels * panel * p->depth;
        const int64_t blocks = ls__divide_up(p->phase.n_rows, BLOCK_ROWS);
        p->rows = ls__round_up_to(ls__divide_up(p->phase.n_rows, blocks), LS__ROW_STEP);
        n_blocks = ls__max_i64(n_blocks, ls__divide_up(p->phase.n_rows, p->rows));
    }
    k->n_slabs = n_blocks * k->n_products < FEW_BLOCKS ? ls__divide_up(columns, SLAB) : 1;
    k->slab = ls__round_up_to(ls__divide_up(columns, k->n_slabs), LS__MAX_PANEL);
    k->n_slabs = ls__divide_up(columns, k->slab);
    k->group = k->n_products > 1 ? 1 : ls__min_i64(GROUP_BLOCKS, 1 + n_blocks / FEW_BLOCKS);
    k->in_place = !k->bf16 && k->n_products == 1 && k->products[0].depth > 0 && !bias &&
                  columns % k->micro->width == 0;
    k->w_f32 = packed;
    if (k->bf16) packed += k->filters * (k->filter_floats + bias);
    k->base.kernel.workspace_bytes = (size_t)packed * sizeof(float);
    const int64_t results =
        k->in_place ? 0 : ls__row_stride(ls__round_up_to(k->slab, k->micro->width));
    k->base.scratch_bytes =
        (size_t)(BLOCK_ROWS * (ls__row_stride(DEPTH) + results)) * sizeof(float);
    k->base.passes[0] = (ls__conv_pass){ convert_task, k->bf16 ? k->filters : 0 };
    k->base.passes[1] = (ls__conv_pass){ pack_task, k->n_products * k->n_panels };
    const int64_t n_groups = ls__divide_up(n_blocks, k->group);
    k->base.passes[2] = (ls__conv_pass){ block_task, n_groups * k->n_products * k->n_slabs };
}
