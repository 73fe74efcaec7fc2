/* few_rows.c: forward and backward by data of 1x1 kernels over a few pixels, above all linear
 * layers of a few rows. The weights are by far the largest operand, so they are read once, in
 * place.
 *
 *   forward            y [row][o] = x [row][i] w [o][i], blocks of w are transposed in registers
 *   backward by data   dx [row][i] = dy [row][o] w [o][i], summed over w's rows
 *
 * A sum runs in the order of correlation.c, so its bits do not depend on the number of rows. */
#include "cpu/conv/implicit_gemm/implicit_gemm.h"

enum {
    TASK_WEIGHTS = 1 << 16,   /* of a task, some 15 microseconds */
    MIN_SLAB = LS__MAX_PANEL, /* columns of a task */
    MAX_SLAB = 512,
    COPIED = 1 << 14, /* values of bf16 rows that a task converts */
    BLOCK = 32        /* rows of w that forward converts at a time */
};

bool ls__implicit_gemm_is_few_rows(const ls__implicit_gemm_shape *s)
{
    if (s->groups != 1 || s->kernel[0] * s->kernel[1] != 1 || s->n_phases[0] * s->n_phases[1] != 1)
        return false;
    const ls__implicit_gemm_phase phase = ls__implicit_gemm_phase_at(s, 0);
    return phase.plain && phase.n_rows <= LS__FEW_ROWS;
}

/* x, or dy, in f32. */
static void copy_task(const ls__conv_call *call, int64_t task, float *scratch)
{
    (void)scratch;
    const ls__implicit_gemm_kernel *k = call->kernel;
    const int64_t floats = k->few_rows * k->shape.source.channels, first = task * COPIED;
    ls__implicit_gemm_read(k, call->x, first, ls__min_i64(COPIED, floats - first),
                           call->workspace + first);
}

/* scratch: results, [row][slab]; weights in f32. */
static void forward_task(const ls__conv_call *call, int64_t task, float *results)
{
    const ls__implicit_gemm_kernel *k = call->kernel;
    const int64_t c0 = task * k->slab, c1 = ls__min_i64(c0 + k->slab, k->shape.result.channels);
    const int64_t depth = k->shape.source.channels;
    const float *const x = k->bf16 ? call->workspace : call->x;
    float *const weights = results + k->few_rows * k->slab;
    const int64_t block = k->bf16 ? BLOCK : k->slab;
    for (int64_t c = c0; c < c1; c += block) {
        const int64_t n = ls__min_i64(block, c1 - c);
        const float *w = k->bf16 ? weights : (const float *)call->w + c * depth;
        if (k->bf16) ls__implicit_gemm_read(k, call->w, c * depth, n * depth, weights);
        k->micro->multiply_few(w, depth, n, x, depth, k->few_rows, depth, results + (c - c0),
                               k->slab);
    }
    const ls__implicit_gemm_phase phase = ls__implicit_gemm_phase_at(&k->shape, 0);
    ls__implicit_gemm_scatter(call, &phase, results, k->slab, 0, k->few_rows, c0, c1);
}

/* scratch: results, [row][slab]; weights in f32. Whole vectors of w are read, so the remaining
 * columns are copied first. */
static void data_task(const ls__conv_call *call, int64_t task, float *results)
{
    const ls__implicit_gemm_kernel *k = call->kernel;
    const int64_t columns = k->shape.result.channels, depth = k->shape.source.channels;
    const int64_t c0 = task * k->slab, c1 = ls__min_i64(c0 + k->slab, columns);
    const int64_t rows = k->few_rows, width = k->micro->width;
    const float *const dy = k->bf16 ? call->workspace : call->x;
    float *const copy = results + rows * k->slab;
    for (int64_t first = 0; first < depth; first += LS__CHAIN) {
        const int64_t n = ls__min_i64(LS__CHAIN, depth - first);
        for (int64_t c = c0, count; c < c1; c += count) {
            const int64_t whole = (c1 - c) / width * width;
            const bool copies = k->bf16 || whole == 0;
            count = whole > 0 ? whole : c1 - c;
            const int64_t offset = first * columns + c;
            const int64_t stride = copies ? ls__row_stride(k->slab) : columns;
            for (int64_t r = 0; copies && r < n; r++)
                ls__implicit_gemm_read(k, call->w, offset + r * columns, count, copy + r * stride);
            const int64_t next = ls__min_i64(LS__CHAIN, depth - first - n);
            ls__prefetch prefetch = ls__implicit_gemm_prefetch_rows(
                k, call->w, offset + n * columns, columns, next, count,
                ls__divide_up(rows, k->micro->rows) * ls__divide_up(count, k->micro->panel));
            k->micro->multiply_apart(first > 0, dy + first, depth,
                                     copies ? copy : (const float *)call->w + offset, stride, n,
                                     rows, count, results + (c - c0), k->slab, &prefetch);
        }
    }
    const ls__implicit_gemm_phase phase = ls__implicit_gemm_phase_at(&k->shape, 0);
    ls__implicit_gemm_scatter(call, &phase, results, k->slab, 0, rows, c0, c1);
}

void ls__implicit_gemm_plan_few_rows(ls__implicit_gemm_kernel *k)
{
    const int64_t columns = k->shape.result.channels, depth = k->shape.source.channels;
    const bool data = k->shape.data;
    k->few_rows = ls__implicit_gemm_phase_at(&k->shape, 0).n_rows;
    k->slab = ls__round_up_to(ls__min_i64(ls__divide_up(TASK_WEIGHTS, depth), columns), MIN_SLAB);
    k->slab = ls__min_i64(k->slab, MAX_SLAB);
    k->n_slabs = ls__divide_up(columns, k->slab);
    const int64_t weights = data      ? LS__CHAIN * ls__row_stride(k->slab)
                            : k->bf16 ? BLOCK * depth
                                      : 0;
    k->base.scratch_bytes = (size_t)(k->few_rows * k->slab + weights) * sizeof(float);
    k->base.kernel.workspace_bytes = k->bf16 ? (size_t)(depth * k->few_rows) * sizeof(float) : 0;
    k->base.passes[0] =
        (ls__conv_pass){ copy_task, k->bf16 ? ls__divide_up(depth * k->few_rows, COPIED) : 0 };
    k->base.passes[1] = (ls__conv_pass){ data ? data_task : forward_task, k->n_slabs };
}
