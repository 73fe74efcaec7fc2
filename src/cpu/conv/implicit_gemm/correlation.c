/* correlation.c: forward, and backward by data. A task computes some rows and some columns of the
 * result. Rows that cannot be read in place are gathered, DEPTH floats at a time. */
#include "cpu/conv/implicit_gemm/implicit_gemm.h"

#include <string.h>

enum {
    BLOCK_ROWS = 96,      /* of a task */
    DEPTH = 512,          /* places of (tap, channel) gathered at a time; a multiple of a chain */
    SLAB = 256,           /* columns of a task if there are few rows */
    FEW_BLOCKS = 32,      /* of rows */
    GROUP_BLOCKS = 4,     /* of a task, at most */
    PLAIN_CHANNELS = 512, /* up to so many are read in place, although such rows share cache sets */
    BLOCK_FLOATS = 2048   /* of weights converted at a time */
};

/* The weights are the largest operand of backward by data if it has few rows, at most
 * LS__IMPLICIT_GEMM_SMALL. Each task packs those of its own columns into its core's cache, where a
 * pass of its own would write them to memory. */
enum { PACKED_SLAB = 128, PACKED_DEPTH = 128 };

/* Whether rows of a product are read in place: a tile reads 6 or 12 at a time. */
static bool reads_plain(const ls__implicit_gemm_kernel *k, const ls__implicit_gemm_phase *phase)
{
    return !k->bf16 && phase->plain && k->shape.source.pixel <= PLAIN_CHANNELS;
}

static ls__implicit_gemm_product product_at(const ls__implicit_gemm_kernel *k, int64_t index)
{
    const ls__implicit_gemm_phase phase = ls__implicit_gemm_phase_at(&k->shape, index);
    const ls__implicit_gemm_axis *v = &phase.axes[0], *h = &phase.axes[1];
    const int64_t channels = k->shape.source.channels;
    const int64_t before = v->taps_before * k->shape.kernel[1] + v->n_taps * h->taps_before;
    const int64_t blocks = k->packs ? 1 : ls__divide_up(phase.n_rows, BLOCK_ROWS);
    return (ls__implicit_gemm_product){
        .phase = phase,
        .depth = v->n_taps * h->n_taps * channels,
        .rows = ls__round_up_to(ls__divide_up(phase.n_rows, blocks), LS__ROW_STEP),
        .packed = k->n_panels * k->micro->panel * before * channels,
    };
}

/* Floats of a task's gathered rows and the weights that it packs. */
static int64_t gathered_floats(const ls__implicit_gemm_kernel *k, int64_t rows)
{
    return rows * ls__row_stride(k->depth) + (k->packs ? k->depth * k->slab : 0);
}

/* Packs rows c0..c1-1 of w, at most a panel, transposed. */
static void pack_rows(const ls__conv_call *call, const ls__implicit_gemm_product *p, int64_t c0,
                      int64_t c1, float *u)
{
    const ls__implicit_gemm_kernel *k = call->kernel;
    const int64_t columns = c1 - c0, first = c0 * p->depth, at_once = BLOCK_FLOATS / LS__MAX_PANEL;
    float block[BLOCK_FLOATS]; /* of bf16 weights in f32 */
    if (!k->bf16) k->micro->pack((const float *)call->w + first, p->depth, columns, p->depth, u);
    for (int64_t i = 0; k->bf16 && i < p->depth; i += at_once) {
        const int64_t n = ls__min_i64(at_once, p->depth - i);
        for (int64_t j = 0; j < columns; j++)
            ls__implicit_gemm_read(k, call->w, first + j * p->depth + i, n, block + j * n);
        k->micro->pack(block, n, columns, n, u + i * k->micro->panel);
    }
}

/* Packs columns of w, at most PACKED_SLAB of them or a panel. */
static void pack_columns(const ls__conv_call *call, const ls__implicit_gemm_product *p, int64_t c0,
                         int64_t c1, int64_t k0, int64_t depth, float *u)
{
    const ls__implicit_gemm_kernel *k = call->kernel;
    const int64_t width = k->micro->panel, channels = k->shape.source.channels, count = c1 - c0;
    const ls__implicit_gemm_axis *v = &p->phase.axes[0], *h = &p->phase.axes[1];
    const int64_t stride = k->shape.kernel[0] * k->shape.kernel[1] * k->shape.result.channels;
    float block[BLOCK_FLOATS];
    for (int64_t i = 0, n; i < depth; i += n) {
        const int64_t tap = (k0 + i) / channels, o = (k0 + i) % channels; /* n rows of one tap */
        const int64_t weight = (v->weight + tap / h->n_taps * v->weight_step) * k->shape.kernel[1] +
                               h->weight + tap % h->n_taps * h->weight_step;
        const int64_t first = o * stride + weight * k->shape.result.channels + c0;
        n = ls__min_i64(depth - i, channels - o);
        if (k->bf16) n = ls__min_i64(n, BLOCK_FLOATS / count);
        for (int64_t r = 0; k->bf16 && r < n; r++)
            ls__implicit_gemm_read(k, call->w, first + r * stride, count, block + r * count);
        const float *from = k->bf16 ? block : (const float *)call->w + first;
        for (int64_t c = 0; c < count; c += width)
            k->micro->copy(from + c, k->bf16 ? count : stride, ls__min_i64(width, count - c), n,
                           u + c * depth + i * width);
    }
}

/* One panel of one phase of a group. */
static void pack_task(const ls__conv_call *call, int64_t task, float *scratch)
{
    (void)scratch;
    const ls__implicit_gemm_kernel *k = call->kernel;
    const int64_t group = task / k->n_panels / k->n_products;
    const ls__conv_call of_group = ls__implicit_gemm_group(call, group, k->packed);
    const ls__implicit_gemm_product p = product_at(k, task / k->n_panels % k->n_products);
    const int64_t first = task % k->n_panels * k->micro->panel;
    const int64_t end = ls__min_i64(first + k->micro->panel, k->shape.result.channels);
    float *const u = of_group.workspace + p.packed + first * p.depth;
    if (k->shape.data)
        pack_columns(&of_group, &p, first, end, 0, p.depth, u);
    else
        pack_rows(&of_group, &p, first, end, u);
}

/* Rows first..first+n-1 by columns c0..c1-1, to `to`. The next n_next rows are prefetched. */
static void multiply_rows(const ls__conv_call *call, const ls__implicit_gemm_product *p,
                          int64_t first, int64_t n, int64_t n_next, int64_t c0, int64_t c1,
                          float *gathered, float *to, int64_t to_stride)
{
    const ls__implicit_gemm_kernel *k = call->kernel;
    const int64_t pixel = k->shape.source.pixel, panel = k->micro->panel;
    const int64_t columns = k->shape.result.channels;
    float *const packed = gathered + p->rows * ls__row_stride(k->depth);
    for (int64_t k0 = 0; k0 < p->depth; k0 += k->depth) {
        const int64_t k1 = ls__min_i64(k0 + k->depth, p->depth), depth = k1 - k0;
        const int64_t k2 = ls__min_i64(k1 + k->depth, p->depth);
        const float *from = gathered;
        int64_t stride = ls__row_stride(depth);
        if (reads_plain(k, &p->phase)) {
            from = (const float *)call->x + first * pixel + k0;
            stride = pixel;
        } else {
            ls__implicit_gemm_gather(call, &p->phase, first, n, k0, k1, gathered, stride);
        }
        if (k->packs) pack_columns(call, p, c0, c1, k0, depth, packed);
        const int64_t tiles = ls__divide_up(c1 - c0, panel) * ls__divide_up(n, k->micro->rows) *
                              ls__divide_up(depth, LS__CHAIN);
        ls__prefetch prefetch =
            k->packs ? ls__implicit_gemm_prefetch_rows(k, call->w, k1 * columns + c0, columns,
                                                       k2 - k1, c1 - c0, tiles)
            : k1 < p->depth ? ls__implicit_gemm_prefetch(call, &p->phase, first, n, k1, k2, tiles)
                            : ls__implicit_gemm_prefetch(call, &p->phase, first + n, n_next, 0,
                                                         ls__min_i64(k->depth, p->depth), tiles);
        for (int64_t c = c0; c < c1; c += panel)
            k->micro->multiply(k0 > 0, from, stride,
                               k->packs ? packed + (c - c0) * depth
                                        : call->workspace + p->packed + c * p->depth + k0 * panel,
                               depth, n, ls__min_i64(panel, c1 - c), to + (c - c0), to_stride,
                               &prefetch);
    }
}

static void block_task(const ls__conv_call *all, int64_t task, float *gathered)
{
    const ls__implicit_gemm_kernel *k = all->kernel;
    const int64_t groups = k->shape.groups, pixel = k->shape.result.pixel;
    const ls__conv_call of_group =
        ls__implicit_gemm_group(all, task / k->n_slabs % groups, k->packed);
    const ls__conv_call *call = &of_group;
    /* The phases of a block are consecutive tasks, because they read the same pixels. */
    const ls__implicit_gemm_product p = product_at(k, task / k->n_slabs / groups % k->n_products);
    const int64_t c0 = task % k->n_slabs * k->slab;
    const int64_t c1 = ls__min_i64(c0 + k->slab, k->shape.result.channels);
    const int64_t stride = ls__row_stride(ls__round_up_to(k->slab, k->micro->width));
    float *const results = gathered + gathered_floats(k, p.rows);
    int64_t first = task / k->n_slabs / groups / k->n_products * k->group * p.rows;
    const int64_t end = ls__min_i64(first + k->group * p.rows, p.phase.n_rows);
    for (; first < end; first += p.rows) {
        const int64_t n = ls__min_i64(p.rows, end - first);
        const int64_t n_next = ls__min_i64(p.rows, end - first - n);
        if (k->in_place) {
            float *const y = (float *)call->y + first * pixel + c0;
            multiply_rows(call, &p, first, n, n_next, c0, c1, gathered, y, pixel);
            continue;
        }
        if (p.depth > 0)
            multiply_rows(call, &p, first, n, n_next, c0, c1, gathered, results, stride);
        ls__implicit_gemm_scatter(call, &p.phase, p.depth > 0 ? results : NULL, stride, first, n,
                                  c0, c1);
    }
}

void ls__implicit_gemm_plan_correlation(ls__implicit_gemm_kernel *k, bool bias)
{
    const ls__implicit_gemm_shape *s = &k->shape;
    const int64_t columns = s->result.channels, panel = k->micro->panel;
    const int64_t taps = s->kernel[0] * s->kernel[1], tap = s->source.channels;
    k->n_panels = ls__divide_up(columns, panel);
    k->packs = s->data && k->n_products == 1 && taps == 1 &&
               ls__implicit_gemm_phase_at(s, 0).n_rows <= LS__IMPLICIT_GEMM_SMALL;
    k->depth = k->packs ? PACKED_DEPTH : DEPTH;
    k->packed = k->packs ? 0 : k->n_panels * panel * taps * tap;
    const ls__implicit_gemm_product p = product_at(k, 0); /* No phase has more rows. */
    const int64_t n_blocks = ls__divide_up(p.phase.n_rows, p.rows);
    const int64_t rows = k->packs ? p.rows : BLOCK_ROWS;
    if (k->packs) {
        ls__implicit_gemm_plan_slabs(k, 2 * (double)(rows * p.depth) * (double)columns,
                                     LS__MAX_PANEL, PACKED_SLAB, LS__MAX_PANEL);
    } else {
        k->n_slabs =
            n_blocks * k->n_products * s->groups < FEW_BLOCKS ? ls__divide_up(columns, SLAB) : 1;
        k->slab = ls__round_up_to(ls__divide_up(columns, k->n_slabs), LS__MAX_PANEL);
        k->n_slabs = ls__divide_up(columns, k->slab);
    }
    k->group = k->n_products > 1 ? 1 : ls__min_i64(GROUP_BLOCKS, 1 + n_blocks / FEW_BLOCKS);
    k->in_place = !k->bf16 && k->n_products == 1 && p.depth > 0 && !bias && !k->relu &&
                  columns % k->micro->width == 0;
    k->base.kernel.workspace_bytes = (size_t)(s->groups * k->packed) * sizeof(float);
    const int64_t results =
        k->in_place ? 0 : ls__row_stride(ls__round_up_to(k->slab, k->micro->width));
    k->base.scratch_bytes = (size_t)(gathered_floats(k, rows) + rows * results) * sizeof(float);
    k->base.passes[0] =
        (ls__conv_pass){ pack_task, k->packs ? 0 : s->groups * k->n_products * k->n_panels };
    k->base.passes[1] = (ls__conv_pass){ block_task, ls__divide_up(n_blocks, k->group) *
                                                         k->n_products * s->groups * k->n_slabs };
}
