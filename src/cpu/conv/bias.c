/* bias.c: see provider.h. */
#include "arith/half.h"
#include "cpu/conv/microkernels.h"
#include "cpu/conv/provider.h"
#include "cpu/conv/roles.h"
#include "cpu/tree.h"

#include <string.h>

enum {
    COLUMNS = 256,                 /* whose sums a task adds */
    SUM_ROWS = 64 * LS__ROW_CHAIN, /* of a partial sum */
};

/* Adds a row of n values of dy, in bf16 or f32, from an offset on. */
static void add_row(const ls__conv_bias *b, const void *dy, int64_t offset, int64_t n,
                    float *restrict sum)
{
    if (b->bf16) {
        const uint16_t *row = (const uint16_t *)dy + offset;
        for (int64_t c = 0; c < n; c++) sum[c] += ls__bf16_to_f32(row[c]);
    } else {
        const float *row = (const float *)dy + offset;
        for (int64_t c = 0; c < n; c++) sum[c] += row[c];
    }
}

/* Some columns of one partial sum. */
static void bias_sum_task(const ls__conv_call *call, int64_t task, float *scratch)
{
    (void)scratch;
    const ls__conv_bias *b = &((const ls__conv_kernel *)call->kernel)->bias;
    const int64_t c0 = task / b->n_sums * COLUMNS, n = ls__min_i64(COLUMNS, b->columns - c0);
    const int64_t begin = task % b->n_sums * SUM_ROWS, end = ls__min_i64(begin + SUM_ROWS, b->rows);
    float total[COLUMNS] = { 0 };
    for (int64_t first = begin; first < end; first += LS__ROW_CHAIN) {
        float sum[COLUMNS] = { 0 };
        for (int64_t r = first; r < ls__min_i64(first + LS__ROW_CHAIN, end); r++)
            add_row(b, call->w, r * b->columns + c0, n, sum);
        for (int64_t c = 0; c < n; c++) total[c] += sum[c];
    }
    float *to = b->n_sums == 1 ? (float *)call->bias
                               : call->workspace + b->offset + task % b->n_sums * b->columns;
    memcpy(to + c0, total, (size_t)n * sizeof *total);
}

static void bias_tree_task(const ls__conv_call *call, int64_t task, float *scratch)
{
    (void)scratch;
    const ls__conv_bias *b = &((const ls__conv_kernel *)call->kernel)->bias;
    const int64_t c0 = task * COLUMNS, n = ls__min_i64(COLUMNS, b->columns - c0);
    float *sums = call->workspace + b->offset + c0;
    ls__tree_sum(sums, sums + b->columns, b->columns, b->n_sums, n);
    memcpy((float *)call->bias + c0, sums, (size_t)n * sizeof *sums);
}

void ls__conv_plan_bias(ls__conv_kernel *k, const ls__op *op)
{
    ls__conv_roles roles;
    ls__conv_roles_of(op->kind, &roles);
    if (op->kind != LS__OP_CONV2D_BACKWARD_WEIGHTS || !ls__conv_has_bias(op, &roles)) return;
    const ls__operand *dy = &op->operands[roles.y];
    ls__conv_bias *b = &k->bias;
    b->columns = dy->shape.dims[3];
    b->rows = ls_shape_element_count(&dy->shape) / b->columns;
    b->bf16 = dy->dtype == LS_BF16;
    b->n_sums = ls__divide_up(b->rows, SUM_ROWS);
    b->offset = k->kernel.workspace_bytes / sizeof(float);
    if (b->n_sums > 1)
        k->kernel.workspace_bytes += (size_t)(b->n_sums * b->columns) * sizeof(float);
    const int64_t n_slabs = ls__divide_up(b->columns, COLUMNS);
    b->passes[0] = (ls__conv_pass){ bias_sum_task, n_slabs * b->n_sums };
    b->passes[1] = (ls__conv_pass){ bias_tree_task, b->n_sums > 1 ? n_slabs : 0 };
}
