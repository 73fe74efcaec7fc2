/* weights.c: backward weights. A task sums over some of the pixels, for a block of the weights that
 * stays in its core's cache; then the tasks' sums are added in a binary tree. */
#include "cpu/conv/implicit_gemm/implicit_gemm.h"
#include "cpu/tree.h"

#include <string.h>

enum {
    WEIGHT_ROWS = LS__ROW_CHAIN, /* pixels gathered at a time */
    FEW_ROWS = 128,              /* up to so many are gathered at once */
    WEIGHT_SLAB = 256,           /* channels, and places, of weights that a task sums */
    WEIGHT_TASKS = 32,           /* at least, if there are enough pixels */
    MIN_SUM_ROWS = 8 * WEIGHT_ROWS,
    PARTIAL_BYTES = 8 << 20, /* of partial sums in all */
    SUM_FLOATS = 16384,      /* of partial sums that one task adds */
    BIAS_COLUMNS = 256       /* whose sums a task adds */
};

static float *sums_of(const ls__conv_call *call, int64_t sum)
{
    const ls__implicit_gemm_kernel *k = call->kernel;
    const int64_t floats = k->result.channels * k->pitch;
    if (!k->first_in_place) return call->workspace + sum * floats;
    return sum == 0 ? (float *)call->y : call->workspace + (sum - 1) * floats;
}

static void sum_task(const ls__conv_call *call, int64_t task, float *v)
{
    const ls__implicit_gemm_kernel *k = call->kernel;
    const ls__implicit_gemm_product *p = &k->products[0];
    const int64_t channels = k->source.channels, columns = k->result.channels;
    const int64_t sum = task / (k->n_slabs * k->n_k_slabs);
    const int64_t o0 = task / k->n_k_slabs % k->n_slabs * k->slab;
    const int64_t o1 = ls__min_i64(o0 + k->slab, columns);
    const int64_t k0 = task % k->n_k_slabs * k->k_slab, k1 = ls__min_i64(k0 + k->k_slab, p->depth);
    /* A tile reads all gathered rows. Rows that lie far apart share cache sets, so they are
     * gathered, unless one or two tiles read them. */
    const bool plain_x = !k->bf16 && p->phase.plain && channels % k->micro->width == 0 &&
                         (channels < LS__FAR_FLOATS || columns <= LS__ROW_STEP);
    const bool plain_dy = !k->bf16 && columns < LS__FAR_FLOATS;
    float *const d = v + k->gathered * k->v_stride;
    float *const sums = sums_of(call, sum) + o0 * k->pitch + k0;
    const int64_t tiles =
        ls__divide_up(o1 - o0, k->micro->rows) * ls__divide_up(k1 - k0, k->micro->panel);
    const int64_t begin = sum * k->sum_rows;
    const int64_t end = ls__min_i64(begin + k->sum_rows, p->phase.n_rows);
    for (int64_t first = begin; first < end; first += k->gathered) {
        const int64_t n = ls__min_i64(k->gathered, end - first);
        const int64_t x_at = first * channels + k0, dy_at = first * columns + o0;
        if (!plain_x) ls__implicit_gemm_gather(call, &p->phase, first, n, k0, k1, v, k->v_stride);
        for (int64_t r = 0; !plain_dy && r < n; r++)
            ls__implicit_gemm_read(k, call->w, dy_at + r * columns, o1 - o0, d + r * k->d_stride);
        const int64_t n_next = ls__min_i64(k->gathered, end - first - n);
        ls__prefetch prefetch =
            ls__implicit_gemm_prefetch(call, &p->phase, first + n, n_next, k0, k1, tiles);
        k->micro->outer(
            first > begin, plain_dy ? (const float *)call->w + dy_at : d,
            plain_dy ? columns : k->d_stride, plain_x ? (const float *)call->x + x_at : v,
            plain_x ? channels : k->v_stride, n, o1 - o0, k1 - k0, sums, k->pitch, &prefetch);
    }
}

/* Adds SUM_FLOATS floats of the partial sums into the first. */
static void tree_task(const ls__conv_call *call, int64_t task, float *scratch)
{
    (void)scratch;
    const ls__implicit_gemm_kernel *k = call->kernel;
    const int64_t first = task * SUM_FLOATS, floats = k->result.channels * k->pitch;
    ls__tree_sum(sums_of(call, 0) + first, sums_of(call, 1) + first, floats, k->n_sums,
                 ls__min_i64(SUM_FLOATS, floats - first));
}

/* Writes rows of dw from sums that are padded to whole vectors. */
static void unpad_task(const ls__conv_call *call, int64_t task, float *scratch)
{
    (void)scratch;
    const ls__implicit_gemm_kernel *k = call->kernel;
    const int64_t depth = k->products[0].depth, first = task * WEIGHT_SLAB;
    const int64_t end = ls__min_i64(first + WEIGHT_SLAB, k->result.channels);
    for (int64_t o = first; o < end; o++)
        memcpy((float *)call->y + o * depth, call->workspace + o * k->pitch,
               (size_t)depth * sizeof(float));
}

/* The sums of some of dy's columns: chains of WEIGHT_ROWS rows, then their sums. */
static void bias_task(const ls__conv_call *call, int64_t task, float *scratch)
{
    (void)scratch;
    const ls__implicit_gemm_kernel *k = call->kernel;
    const int64_t rows = k->products[0].phase.n_rows, columns = k->result.channels;
    const int64_t c0 = task * BIAS_COLUMNS, n = ls__min_i64(BIAS_COLUMNS, columns - c0);
    float total[BIAS_COLUMNS] = { 0 }, row[BIAS_COLUMNS];
    for (int64_t first = 0; first < rows; first += WEIGHT_ROWS) {
        float sum[BIAS_COLUMNS] = { 0 };
        for (int64_t r = first; r < ls__min_i64(first + WEIGHT_ROWS, rows); r++) {
            ls__implicit_gemm_read(k, call->w, r * columns + c0, n, row);
            for (int64_t c = 0; c < n; c++) sum[c] += row[c];
        }
        for (int64_t c = 0; c < n; c++) total[c] += sum[c];
    }
    memcpy((float *)call->bias + c0, total, (size_t)n * sizeof *total);
}

void ls__implicit_gemm_plan_weights(ls__implicit_gemm_kernel *k, bool bias)
{
    const ls__implicit_gemm_product *p = &k->products[0];
    const int64_t rows = p->phase.n_rows, columns = k->result.channels, width = k->micro->width;
    k->n_slabs = ls__divide_up(columns, WEIGHT_SLAB);
    k->slab = ls__round_up_to(ls__divide_up(columns, k->n_slabs), LS__ROW_STEP);
    k->n_slabs = ls__divide_up(columns, k->slab);
    k->n_k_slabs = ls__divide_up(p->depth, WEIGHT_SLAB);
    k->k_slab = ls__round_up_to(ls__divide_up(p->depth, k->n_k_slabs), LS__MAX_PANEL);
    k->n_k_slabs = ls__divide_up(p->depth, k->k_slab);
    const int64_t slabs = k->n_slabs * k->n_k_slabs;
    const int64_t bytes = columns * p->depth * (int64_t)sizeof(float);
    int64_t sums = ls__min_i64(ls__divide_up(WEIGHT_TASKS, slabs), 1 + PARTIAL_BYTES / bytes);
    sums = ls__min_i64(sums, ls__divide_up(rows, MIN_SUM_ROWS));
    k->sum_rows = ls__round_up_to(ls__divide_up(rows, sums), WEIGHT_ROWS);
    k->n_sums = ls__divide_up(rows, k->sum_rows);
    k->gathered = rows <= FEW_ROWS ? rows : WEIGHT_ROWS;
    k->pitch = ls__round_up_to(p->depth, width);
    k->first_in_place = k->pitch == p->depth;
    k->v_stride = ls__row_stride(ls__round_up_to(k->k_slab, width));
    k->d_stride = ls__row_stride(k->slab);
    k->base.kernel.workspace_bytes =
        (size_t)((k->n_sums - k->first_in_place) * columns * k->pitch) * sizeof(float);
    k->base.scratch_bytes = (size_t)(k->gathered * (k->v_stride + k->d_stride)) * sizeof(float);
    k->base.passes[0] = (ls__conv_pass){ sum_task, k->n_sums * slabs };
    k->base.passes[1] =
        (ls__conv_pass){ tree_task,
                         k->n_sums > 1 ? ls__divide_up(columns * k->pitch, SUM_FLOATS) : 0 };
    k->base.passes[2] =
        (ls__conv_pass){ unpad_task, k->first_in_place ? 0 : ls__divide_up(columns, WEIGHT_SLAB) };
    k->base.passes[3] =
        (ls__conv_pass){ bias_task, bias ? ls__divide_up(columns, BIAS_COLUMNS) : 0 };
}
