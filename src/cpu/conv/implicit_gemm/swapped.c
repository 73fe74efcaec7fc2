/* swapped.c: forward of 1x1 kernels over at most 256 pixels and no more than output channels, above
 * all linear layers, so that packing x costs less than packing w. The operands change places: rows
 * of x are packed as columns of the product, and rows of w are read in place, or copied if they are
 * bf16 or share cache sets.
 *
 *   y^T [o][row] = w [o][i] x^T [i][row]
 *
 * A sum runs in the order of correlation.c, so its bits are the same. */
#include "cpu/conv/implicit_gemm/implicit_gemm.h"

enum {
    DEPTH = LS__CHAIN, /* places of i multiplied at a time */
    MIN_SLAB = 96,     /* rows of w of a task */
    MAX_SLAB = 192,
    BLOCK_FLOATS = 2048, /* of x gathered at a time */
    /* Rows of w further apart are copied if their distance is a multiple of SET_FLOATS, because
     * they share few cache sets: as PLAIN_CHANNELS of correlation.c. */
    MAX_APART = 512,
    SET_FLOATS = 128
};

bool ls__implicit_gemm_is_swapped(const ls__implicit_gemm_shape *s)
{
    const int64_t rows = ls__implicit_gemm_phase_at(s, 0).n_rows;
    return !s->data && s->kernel[0] * s->kernel[1] == 1 && rows <= LS__IMPLICIT_GEMM_SMALL &&
           rows <= s->result.channels;
}

/* Packs the rows of x of one panel. */
static void swapped_pack(const ls__conv_call *all, int64_t task, float *scratch)
{
    (void)scratch;
    const ls__implicit_gemm_kernel *k = all->kernel;
    const ls__conv_call call = ls__implicit_gemm_group(all, task / k->n_panels, k->packed);
    const ls__implicit_gemm_phase phase = ls__implicit_gemm_phase_at(&k->shape, 0);
    const int64_t width = k->micro->panel, first = task % k->n_panels * width;
    const int64_t depth = k->shape.source.channels, at_once = BLOCK_FLOATS / LS__MAX_PANEL;
    const int64_t n_rows = ls__min_i64(width, phase.n_rows - first);
    float block[BLOCK_FLOATS];
    for (int64_t i = 0; i < depth; i += at_once) {
        const int64_t n = ls__min_i64(at_once, depth - i);
        ls__implicit_gemm_gather(&call, &phase, first, n_rows, i, i + n, block, n);
        k->micro->pack(block, n, n_rows, n, call.workspace + first * depth + i * width);
    }
}

static bool copies_weights(const ls__implicit_gemm_kernel *k)
{
    const int64_t depth = k->shape.source.channels;
    return k->bf16 || (depth > MAX_APART && depth % SET_FLOATS == 0);
}

/* The product of rows c0..c1-1 of w, to results [o][row]. `weights` is memory for a copy. */
static void swapped_multiply(const ls__conv_call *call, int64_t n_rows, int64_t c0, int64_t c1,
                             float *weights, float *results, int64_t results_stride)
{
    const ls__implicit_gemm_kernel *k = call->kernel;
    const int64_t depth = k->shape.source.channels, panel = k->micro->panel;
    const int64_t tiles = k->n_panels * ls__divide_up(c1 - c0, k->micro->rows);
    const bool copies = copies_weights(k);
    const int64_t stride = copies ? DEPTH : depth;
    for (int64_t i = 0; i < depth; i += DEPTH) {
        const int64_t n = ls__min_i64(DEPTH, depth - i);
        for (int64_t c = c0; copies && c < c1; c++)
            ls__implicit_gemm_read(k, call->w, c * depth + i, n, weights + (c - c0) * stride);
        ls__prefetch prefetch =
            ls__implicit_gemm_prefetch_rows(k, call->w, c0 * depth + i + n, depth, c1 - c0,
                                            ls__min_i64(DEPTH, depth - i - n), tiles);
        for (int64_t r = 0; r < n_rows; r += panel)
            k->micro->multiply(i > 0, copies ? weights : (const float *)call->w + c0 * depth + i,
                               stride, call->workspace + r * depth + i * panel, n, c1 - c0,
                               ls__min_i64(panel, n_rows - r), results + r, results_stride,
                               &prefetch);
    }
}

/* scratch: results [o][row], rows of y of one panel, a copy of weights. */
static void swapped_slab(const ls__conv_call *all, int64_t task, float *results)
{
    const ls__implicit_gemm_kernel *k = all->kernel;
    const ls__conv_call call = ls__implicit_gemm_group(all, task / k->n_slabs, k->packed);
    const ls__implicit_gemm_phase phase = ls__implicit_gemm_phase_at(&k->shape, 0);
    const int64_t c0 = task % k->n_slabs * k->slab;
    const int64_t c1 = ls__min_i64(c0 + k->slab, k->shape.result.channels);
    const int64_t stride = ls__row_stride(k->n_panels * k->micro->panel);
    float *const rows = results + k->slab * stride;
    float *const weights = rows + phase.n_rows * k->micro->panel;
    swapped_multiply(&call, phase.n_rows, c0, c1, weights, results, stride);
    for (int64_t c = c0, n; c < c1; c += n) {
        n = ls__min_i64(k->micro->panel, c1 - c);
        k->micro->pack(results + (c - c0) * stride, stride, n, phase.n_rows, rows);
        ls__implicit_gemm_scatter(&call, &phase, rows, k->micro->panel, 0, phase.n_rows, c, c + n);
    }
}

void ls__implicit_gemm_plan_swapped(ls__implicit_gemm_kernel *k)
{
    const ls__implicit_gemm_shape *s = &k->shape;
    const int64_t n_rows = ls__implicit_gemm_phase_at(s, 0).n_rows, panel = k->micro->panel;
    const int64_t depth = s->source.channels, columns = s->result.channels;
    k->n_panels = ls__divide_up(n_rows, panel);
    k->packed = k->n_panels * panel * depth;
    ls__implicit_gemm_plan_slabs(k, 2 * (double)(n_rows * depth) * (double)columns, MIN_SLAB,
                                 MAX_SLAB, LS__ROW_STEP);
    k->base.kernel.workspace_bytes = (size_t)(s->groups * k->packed) * sizeof(float);
    const int64_t copied = copies_weights(k) ? k->slab * DEPTH : 0;
    k->base.scratch_bytes =
        (size_t)(k->slab * ls__row_stride(k->n_panels * panel) + n_rows * panel + copied) *
        sizeof(float);
    k->base.passes[0] = (ls__conv_pass){ swapped_pack, s->groups * k->n_panels };
    k->base.passes[1] = (ls__conv_pass){ swapped_slab, s->groups * k->n_slabs };
}
