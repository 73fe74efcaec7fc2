/* weights.c: backward weights. A task has some of the pixels, and a part of the weights that stays
 * in its core's cache; then the tasks' sums are added in a binary tree. */
#include "cpu/conv/implicit_gemm/kernel.h"
#include "cpu/tree.h"

#include <string.h>

enum {
    WEIGHT_ROWS = 64,  /* pixels gathered at a time: a chain */
    WEIGHT_SLAB = 256, /* channels, and places, of weights that a task sums */
    WEIGHT_TASKS = 32, /* as many as that, or more */
    MIN_PART_ROWS = 8 * WEIGHT_ROWS,
    PARTIAL_BYTES = 8 << 20, /* of partial sums in all */
    SUM_FLOATS = 16384       /* of partial sums that one task adds */
};

static float *sums_of(const ls__conv_call *call, int64_t sum)
{
    const ls__implicit_gemm_kernel *k = call->kernel;
    const int64_t floats = k->result.channels * k->pitch;
    if (!k->first_in_place) return call->workspace + sum * floats;
    return sum == 0 ? (float *)call->y : call->workspace + (sum - 1) * floats;
}

static void sum_task(void *arg, int64_t task, int thread)
{
    const ls__conv_call *call = arg;
    const ls__implicit_gemm_kernel *k = call->kernel;
    const ls__implicit_gemm_part *p = &k->parts[0];
    const int64_t channels = k->source.channels, columns = k->result.channels;
    const int64_t sum = task / (k->n_slabs * k->n_k_slabs);
    const int64_t o0 = task / k->n_k_slabs % k->n_slabs * k->slab;
    const int64_t o1 = ls__min(o0 + k->slab, columns);
    const int64_t k0 = task % k->n_k_slabs * k->k_slab, k1 = ls__min(k0 + k->k_slab, p->depth);
    /* A tile reads all WEIGHT_ROWS rows; those that lie far apart meet in one cache set, so they
     * are gathered. */
    const bool plain_x =
        !k->bf16 && p->phase.plain && channels < LS__FAR_FLOATS && channels % k->micro->width == 0;
    const bool plain_dy = !k->bf16 && columns < LS__FAR_FLOATS;
    float *const v = ls__conv_scratch(&k->base, thread), *const d = v + WEIGHT_ROWS * k->v_stride;
    float *const sums = sums_of(call, sum) + o0 * k->pitch + k0;
    for (int64_t o = 0; o < o1 - o0; o++)
        memset(sums + o * k->pitch, 0, (size_t)(k1 - k0) * sizeof *sums);
    const int64_t tiles =
        ls__divide_up(o1 - o0, k->micro->rows) * ls__divide_up(k1 - k0, k->micro->panel);
    const int64_t end = ls__min((sum + 1) * k->sum_rows, p->phase.n_rows);
    for (int64_t first = sum * k->sum_rows; first < end; first += WEIGHT_ROWS) {
        const int64_t n = ls__min(WEIGHT_ROWS, end - first);
        const int64_t x_at = first * channels + k0, dy_at = first * columns + o0;
        if (!plain_x)
            ls__implicit_gemm_gather(&p->phase, &k->source, call->x, first, n, k0, k1, v,
                                     k->v_stride);
        for (int64_t r = 0; !plain_dy && r < n; r++)
            ls__implicit_gemm_read(k->bf16, call->w, dy_at + r * columns, o1 - o0,
                                   d + r * k->d_stride);
        const int64_t n_next = ls__min(WEIGHT_ROWS, end - first - n);
        ls__prefetch prefetch = ls__implicit_gemm_prefetch(&p->phase, &k->source, call->x,
                                                           first + n, n_next, k0, k1, tiles);
        k->micro->outer(
            plain_dy ? (const float *)call->w + dy_at : d, plain_dy ? columns : k->d_stride,
            plain_x ? (const float *)call->x + x_at : v, plain_x ? channels : k->v_stride, n,
            o1 - o0, k1 - k0, sums, k->pitch, &prefetch);
    }
}

/* Adds a stretch of the partial sums into the first. */
static void tree_task(void *arg, int64_t task, int thread)
{
    (void)thread;
    const ls__conv_call *call = arg;
    const ls__implicit_gemm_kernel *k = call->kernel;
    const int64_t first = task * SUM_FLOATS;
    const int64_t n = ls__min(SUM_FLOATS, k->result.channels * k->pitch - first);
    ls__tree_sum(sums_of(call, 0) + first, sums_of(call, 1) + first, k->result.channels * k->pitch,
                 k->n_sums, n);
}

static ls_status run_weights(ls__kernel *kernel, void *const *buffers, void *workspace,
                             const ls__step *step)
{
    (void)step;
    const ls__implicit_gemm_kernel *k = (const ls__implicit_gemm_kernel *)kernel;
    ls__conv_call call = ls__conv_call_of(kernel, buffers, workspace);
    const int64_t rows = k->result.channels, depth = k->parts[0].depth;
    ls__threads_run(k->base.cpu->threads, k->n_tasks, sum_task, &call);
    if (k->n_sums > 1)
        ls__threads_run(k->base.cpu->threads, ls__divide_up(rows * k->pitch, SUM_FLOATS), tree_task,
                        &call);
    /* Of channels that fill no whole vectors, hence few weights: not worth a hand-over to threads.
     */
    for (int64_t o = 0; !k->first_in_place && o < rows; o++)
        memcpy((float *)call.y + o * depth, call.workspace + o * k->pitch,
               (size_t)depth * sizeof(float));
    return LS_OK;
}

void ls__implicit_gemm_plan_weights(ls__implicit_gemm_kernel *k)
{
    const ls__implicit_gemm_part *p = &k->parts[0];
    const int64_t rows = p->phase.n_rows, columns = k->result.channels, width = k->micro->width;
    k->n_slabs = ls__divide_up(columns, WEIGHT_SLAB);
    k->slab = ls__round_up_to(ls__divide_up(columns, k->n_slabs), LS__ROW_STEP);
    k->n_slabs = ls__divide_up(columns, k->slab);
    k->n_k_slabs = ls__divide_up(p->depth, WEIGHT_SLAB);
    k->k_slab = ls__round_up_to(ls__divide_up(p->depth, k->n_k_slabs), LS__MAX_PANEL);
    k->n_k_slabs = ls__divide_up(p->depth, k->k_slab);
    const int64_t slabs = k->n_slabs * k->n_k_slabs;
    const int64_t bytes = columns * p->depth * (int64_t)sizeof(float);
    int64_t sums = ls__min(ls__divide_up(WEIGHT_TASKS, slabs), 1 + PARTIAL_BYTES / bytes);
    sums = ls__min(sums, ls__divide_up(rows, MIN_PART_ROWS));
    k->sum_rows = ls__round_up_to(ls__divide_up(rows, sums), WEIGHT_ROWS);
    k->n_sums = ls__divide_up(rows, k->sum_rows);
    k->n_tasks = k->n_sums * slabs;
    k->pitch = ls__round_up_to(p->depth, width);
    k->first_in_place = k->pitch == p->depth;
    k->v_stride = ls__row_stride(ls__round_up_to(k->k_slab, width));
    k->d_stride = ls__row_stride(k->slab);
    k->base.kernel.workspace_bytes =
        (size_t)((k->n_sums - k->first_in_place) * columns * k->pitch) * sizeof(float);
    k->base.scratch_bytes = (size_t)(WEIGHT_ROWS * (k->v_stride + k->d_stride)) * sizeof(float);
    k->base.kernel.run = run_weights;
}
