/* swapped.c: forward of 1x1 kernels over so few pixels that the weights are the largest operand,
 * above all linear layers. The operands change places: rows of x are packed as columns of the
 * product, and rows of w are read in place.
 *
 *   y^T [o][row] = w [o][i] x^T [i][row]
 *
 * A sum runs in the order of correlation.c, so its bits are the same. */
#include "cpu/conv/implicit_gemm/implicit_gemm.h"

enum {
    MAX_ROWS = 256,
    DEPTH = LS__CHAIN, /* places of i multiplied at a time */
    MIN_SLAB = 96,     /* rows of w of a task */
    MAX_SLAB = 192,
    BLOCK_FLOATS = 2048,
    /* Rows so far apart share few cache sets if their distance is a multiple of SETS. */
    FAR_FLOATS = 512,
    SETS = 128
};
static const double TASK_FLOPS = 8e6; /* about 0.1 ms */

bool ls__implicit_gemm_is_swapped(const ls__implicit_gemm_shape *s)
{
    const int64_t rows = ls__implicit_gemm_phase_at(s, 0).n_rows;
    return !s->data && s->kernel[0] * s->kernel[1] == 1 && rows <= MAX_ROWS &&
           rows <= s->result.channels;
}

/* Packs the rows of x of one panel. */
static void pack_task(const ls__conv_call *all, int64_t task, float *scratch)
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

/* Rows c0..c1-1 of w at places i0..i1-1. */
static ls__prefetch prefetch_weights(const ls__conv_call *call, int64_t c0, int64_t c1, int64_t i0,
                                     int64_t i1)
{
    const ls__implicit_gemm_kernel *k = call->kernel;
    const int64_t depth = k->shape.source.channels, rows = c1 - c0;
    const int64_t lines = rows * ls__divide_up(i1 - i0, 64 / (int64_t)sizeof(float));
    const int64_t tiles = k->n_panels * ls__divide_up(rows, k->micro->rows);
    if (k->bf16 || i0 == i1) return (ls__prefetch){ .n_rows = 0 };
    return (ls__prefetch){ .row = (const float *)call->w + c0 * depth + i0,
                           .n_rows = rows,
                           .floats = i1 - i0,
                           .stride = depth,
                           .lines_per_tile = ls__divide_up(lines, tiles) };
}

/* The product of rows c0..c1-1 of w, to results [o][row]. `weights` is memory for a copy. */
static void multiply_slab(const ls__conv_call *call, int64_t n_rows, int64_t c0, int64_t c1,
                          float *weights, float *results, int64_t results_stride)
{
    const ls__implicit_gemm_kernel *k = call->kernel;
    const int64_t depth = k->shape.source.channels, panel = k->micro->panel;
    const bool copies = k->bf16 || (depth > FAR_FLOATS && depth % SETS == 0);
    for (int64_t i = 0; i < depth; i += DEPTH) {
        const int64_t n = ls__min_i64(DEPTH, depth - i);
        const int64_t stride = copies ? ls__row_stride(DEPTH) : depth;
        for (int64_t c = c0; copies && c < c1; c++)
            ls__implicit_gemm_read(k, call->w, c * depth + i, n, weights + (c - c0) * stride);
        ls__prefetch prefetch =
            prefetch_weights(call, c0, c1, i + n, ls__min_i64(i + n + DEPTH, depth));
        for (int64_t r = 0; r < n_rows; r += panel)
            k->micro->multiply(i > 0, copies ? weights : (const float *)call->w + c0 * depth + i,
                               stride, call->workspace + r * depth + i * panel, n, c1 - c0,
                               ls__min_i64(panel, n_rows - r), results + r, results_stride,
                               &prefetch);
    }
}

static void slab_task(const ls__conv_call *all, int64_t task, float *weights)
{
    const ls__implicit_gemm_kernel *k = all->kernel;
    const ls__conv_call call = ls__implicit_gemm_group(all, task / k->n_slabs, k->packed);
    const ls__implicit_gemm_phase phase = ls__implicit_gemm_phase_at(&k->shape, 0);
    const int64_t c0 = task % k->n_slabs * k->slab;
    const int64_t c1 = ls__min_i64(c0 + k->slab, k->shape.result.channels);
    const int64_t stride = ls__row_stride(k->n_panels * k->micro->panel);
    float *const results = weights + k->slab * ls__row_stride(DEPTH);
    float *const rows = results + k->slab * stride;
    multiply_slab(&call, phase.n_rows, c0, c1, weights, results, stride);
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
    const double flops = 2.0 * (double)(n_rows * depth) * (double)columns;
    k->n_panels = ls__divide_up(n_rows, panel);
    k->packed = k->n_panels * panel * depth;
    k->n_slabs = ls__min_i64((int64_t)(flops / TASK_FLOPS), ls__divide_up(columns, MIN_SLAB));
    k->n_slabs = ls__max_i64(k->n_slabs, ls__divide_up(columns, MAX_SLAB));
    k->slab = ls__round_up_to(ls__divide_up(columns, k->n_slabs), LS__ROW_STEP);
    k->n_slabs = ls__divide_up(columns, k->slab);
    k->base.kernel.workspace_bytes = (size_t)(s->groups * k->packed) * sizeof(float);
    k->base.scratch_bytes =
        (size_t)(k->slab * (ls__row_stride(DEPTH) + ls__row_stride(k->n_panels * panel)) +
                 n_rows * panel) *
        sizeof(float);
    k->base.passes[0] = (ls__conv_pass){ pack_task, s->groups * k->n_panels };
    k->base.passes[1] = (ls__conv_pass){ slab_task, s->groups * k->n_slabs };
}
