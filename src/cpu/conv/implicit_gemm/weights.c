/* weights.c: backward weights. A task sums over some of the pixels, for a block of the weights that
 * stays in its core's cache; then the tasks' sums are added in a binary tree. */
#include "cpu/conv/implicit_gemm/implicit_gemm.h"
#include "cpu/tree.h"

#include <string.h>

enum {
    WEIGHT_ROWS = LS__ROW_CHAIN, /* pixels gathered at a time */
    GATHERED_ROWS = 128,         /* up to so many are gathered at once */
    WEIGHT_SLAB = 256,           /* channels, and places, of weights that a task sums */
    WEIGHT_TASKS = 32,           /* at least, if there are enough pixels */
    MIN_SUM_ROWS = 8 * WEIGHT_ROWS,
    PARTIAL_BYTES = 8 << 20, /* of partial sums in all */
    SUM_FLOATS = 16384       /* of partial sums that one task adds */
};

static int64_t depth_of(const ls__implicit_gemm_kernel *k)
{
    return k->shape.kernel[0] * k->shape.kernel[1] * k->shape.source.channels;
}

/* The call for a group of channels; its partial sums follow each other in the workspace. */
static ls__conv_call group_call(const ls__conv_call *call, int64_t group)
{
    const ls__implicit_gemm_kernel *k = call->kernel;
    return ls__implicit_gemm_group(
        call, group, (k->n_sums - k->first_in_place) * k->shape.result.channels * k->pitch);
}

static float *sums_of(const ls__conv_call *call, int64_t sum)
{
    const ls__implicit_gemm_kernel *k = call->kernel;
    const int64_t floats = k->shape.result.channels * k->pitch;
    if (!k->first_in_place) return call->workspace + sum * floats;
    return sum == 0 ? (float *)call->y : call->workspace + (sum - 1) * floats;
}

static void sum_task(const ls__conv_call *all, int64_t task, float *v)
{
    const ls__implicit_gemm_kernel *k = all->kernel;
    const int64_t groups = k->shape.groups, slabs = k->n_slabs * k->n_k_slabs;
    const ls__conv_call of_group = group_call(all, task / slabs % groups), *call = &of_group;
    const ls__implicit_gemm_phase phase = ls__implicit_gemm_phase_at(&k->shape, 0);
    const int64_t x_pixel = k->shape.source.pixel, dy_pixel = k->shape.result.pixel;
    const int64_t columns = k->shape.result.channels, sum = task / slabs / groups;
    const int64_t o0 = task / k->n_k_slabs % k->n_slabs * k->slab;
    const int64_t o1 = ls__min_i64(o0 + k->slab, columns);
    const int64_t k0 = task % k->n_k_slabs * k->k_slab;
    const int64_t k1 = ls__min_i64(k0 + k->k_slab, depth_of(k));
    /* A tile reads all gathered rows. Rows that lie far apart share cache sets, so they are
     * gathered, unless one or two tiles read them. */
    const bool plain_x = !k->bf16 && phase.plain &&
                         k->shape.source.channels % k->micro->width == 0 &&
                         (x_pixel < LS__FAR_FLOATS || columns <= LS__ROW_STEP);
    const bool plain_dy = !k->bf16 && dy_pixel < LS__FAR_FLOATS;
    float *const d = v + k->gathered * k->v_stride;
    float *const sums = sums_of(call, sum) + o0 * k->pitch + k0;
    const int64_t tiles =
        ls__divide_up(o1 - o0, k->micro->rows) * ls__divide_up(k1 - k0, k->micro->panel);
    const int64_t begin = sum * k->sum_rows;
    const int64_t end = ls__min_i64(begin + k->sum_rows, phase.n_rows);
    for (int64_t first = begin; first < end; first += k->gathered) {
        const int64_t n = ls__min_i64(k->gathered, end - first);
        const int64_t x_at = first * x_pixel + k0, dy_at = first * dy_pixel + o0;
        if (!plain_x) ls__implicit_gemm_gather(call, &phase, first, n, k0, k1, v, k->v_stride);
        for (int64_t r = 0; !plain_dy && r < n; r++)
            ls__implicit_gemm_read(k, call->w, dy_at + r * dy_pixel, o1 - o0, d + r * k->d_stride);
        const int64_t n_next = ls__min_i64(k->gathered, end - first - n);
        /* One operand is prefetched, that with the longer rows. Of dy a tile reads a few floats of
         * each row, which the processor does not foresee. */
        ls__prefetch prefetch =
            o1 - o0 > k1 - k0
                ? ls__implicit_gemm_prefetch_rows(k, call->w, dy_at + n * dy_pixel, dy_pixel,
                                                  n_next, o1 - o0, tiles)
                : ls__implicit_gemm_prefetch(call, &phase, first + n, n_next, k0, k1, tiles);
        k->micro->outer(
            first > begin, plain_dy ? (const float *)call->w + dy_at : d,
            plain_dy ? dy_pixel : k->d_stride, plain_x ? (const float *)call->x + x_at : v,
            plain_x ? x_pixel : k->v_stride, n, o1 - o0, k1 - k0, sums, k->pitch, &prefetch);
    }
}

/* Adds SUM_FLOATS floats of a group's partial sums into the first. */
static void tree_task(const ls__conv_call *all, int64_t task, float *scratch)
{
    (void)scratch;
    const ls__implicit_gemm_kernel *k = all->kernel;
    const int64_t floats = k->shape.result.channels * k->pitch;
    const int64_t n = ls__divide_up(floats, SUM_FLOATS), first = task % n * SUM_FLOATS;
    const ls__conv_call call = group_call(all, task / n);
    ls__tree_sum(sums_of(&call, 0) + first, sums_of(&call, 1) + first, floats, k->n_sums,
                 ls__min_i64(SUM_FLOATS, floats - first));
}

/* Writes rows of a group's dw from sums that are padded to whole vectors. */
static void unpad_task(const ls__conv_call *all, int64_t task, float *scratch)
{
    (void)scratch;
    const ls__implicit_gemm_kernel *k = all->kernel;
    const int64_t depth = depth_of(k), n = ls__divide_up(k->shape.result.channels, WEIGHT_SLAB);
    const ls__conv_call call = group_call(all, task / n);
    const int64_t first = task % n * WEIGHT_SLAB;
    const int64_t end = ls__min_i64(first + WEIGHT_SLAB, k->shape.result.channels);
    for (int64_t o = first; o < end; o++)
        memcpy((float *)call.y + o * depth, call.workspace + o * k->pitch,
               (size_t)depth * sizeof(float));
}

void ls__implicit_gemm_plan_weights(ls__implicit_gemm_kernel *k)
{
    const int64_t rows = ls__implicit_gemm_phase_at(&k->shape, 0).n_rows, depth = depth_of(k);
    const int64_t columns = k->shape.result.channels, groups = k->shape.groups;
    const int64_t width = k->micro->width;
    k->n_slabs = ls__divide_up(columns, WEIGHT_SLAB);
    k->slab = ls__round_up_to(ls__divide_up(columns, k->n_slabs), LS__ROW_STEP);
    k->n_slabs = ls__divide_up(columns, k->slab);
    k->n_k_slabs = ls__divide_up(depth, WEIGHT_SLAB);
    k->k_slab = ls__round_up_to(ls__divide_up(depth, k->n_k_slabs), LS__MAX_PANEL);
    k->n_k_slabs = ls__divide_up(depth, k->k_slab);
    const int64_t slabs = groups * k->n_slabs * k->n_k_slabs;
    const int64_t bytes = groups * columns * depth * (int64_t)sizeof(float);
    int64_t sums = ls__min_i64(ls__divide_up(WEIGHT_TASKS, slabs), 1 + PARTIAL_BYTES / bytes);
    sums = ls__min_i64(sums, ls__divide_up(rows, MIN_SUM_ROWS));
    k->sum_rows = ls__round_up_to(ls__divide_up(rows, sums), WEIGHT_ROWS);
    k->n_sums = ls__divide_up(rows, k->sum_rows);
    k->gathered = rows <= GATHERED_ROWS ? rows : WEIGHT_ROWS;
    k->pitch = ls__round_up_to(depth, width);
    k->first_in_place = k->pitch == depth;
    k->v_stride = ls__row_stride(ls__round_up_to(k->k_slab, width));
    k->d_stride = ls__row_stride(k->slab);
    k->base.kernel.workspace_bytes =
        (size_t)(groups * (k->n_sums - k->first_in_place) * columns * k->pitch) * sizeof(float);
    k->base.scratch_bytes = (size_t)(k->gathered * (k->v_stride + k->d_stride)) * sizeof(float);
    k->base.passes[0] = (ls__conv_pass){ sum_task, k->n_sums * slabs };
    k->base.passes[1] = (ls__conv_pass){
        tree_task, k->n_sums > 1 ? groups * ls__divide_up(columns * k->pitch, SUM_FLOATS) : 0
    };
    k->base.passes[2] =
        (ls__conv_pass){ unpad_task,
                         k->first_in_place ? 0 : groups * ls__divide_up(columns, WEIGHT_SLAB) };
}
