/* Casts, and the cases of other families again with bf16 or f16 where that may stand. */
#include "op_case.h"
#include <stdio.h>
#include <string.h>

/* Elements of all operands: larger cases show nothing else here, except for convolutions, for which
 * our own kernels have several ways by size. */
enum { MAX_ELEMENTS = 3000, MAX_CONVOLUTION_ELEMENTS = 1000000 };

static bool may_be_half(const op_case *c, int operand)
{
    ls__operand_role role;
    return ls__op_operand(c->op.kind, operand, &role) && role.may_be_half;
}

static int64_t count_elements(const op_case *c)
{
    int64_t n = 0;
    for (int i = 0; i < c->op.n_operands; i++)
        if (!ls__is_absent(&c->op.operands[i]))
            n += ls_shape_element_count(&c->op.operands[i].shape);
    return n;
}

bool rounds_between(const op_case *c)
{
    return c->op.kind == LS__OP_BATCH_NORM_BACKWARD && !ls__is_absent(&c->op.operands[3]) &&
           !ls__is_absent(&c->op.operands[11]);
}

/* Libraries round relu(x a + b) to the type before they multiply, up to three times. */
static bool rounds_factors(const op_case *c)
{
    return ls__op_is_optional(c->op.kind) && ls__op_is_convolution(c->op.kind);
}

op_case half_case(const op_case *from, ls_dtype dtype)
{
    op_case copy = *from;
    for (int i = 0; i < copy.op.n_operands; i++)
        if (may_be_half(from, i)) copy.op.operands[i].dtype = dtype;
    if (rounds_between(&copy)) copy.tolerance = dtype == LS_BF16 ? 0x1p-8 : 0x1p-11;
    if (rounds_factors(&copy)) copy.tolerance = dtype == LS_BF16 ? 0x1p-6 : 0x1p-9;
    copy.gradient_step = 0; /* differences of rounded values say nothing */
    snprintf(copy.name, sizeof copy.name, "%s %.180s", ls_dtype_name(dtype), from->name);
    return copy;
}

static void add_half_case(case_list *list, const op_case *from, ls_dtype dtype)
{
    const op_case copy = half_case(from, dtype);
    *add_case(list, copy.op.kind, copy.op.n_operands, copy.op.operands, "again") = copy;
}

static void add_casts(case_list *list, ls_dtype dtype)
{
    static const int64_t counts[] = { 1, 15, 16, 17, 1000, 70001 };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        const ls__operand half = dense(dtype, LS_SHAPE(counts[i]));
        const ls__operand full = dense(LS_F32, LS_SHAPE(counts[i]));
        add_case(list, LS__OP_CAST, 2, (ls__operand[]){ full, half }, "to %s",
                 ls_dtype_name(dtype));
        add_case(list, LS__OP_CAST, 2, (ls__operand[]){ half, full }, "from %s",
                 ls_dtype_name(dtype));
    }
}

/* Cases of other ops alternate: even ones are bf16, odd ones f16; i is the number of the case among
 * those of its kind. */
static bool wants_half(const op_case *c, int i, ls_dtype dtype)
{
    if (!ls__op_traits_of(c->op.kind)->half) return false;
    /* Our own convolutions and linear layers take bf16 themselves, so all that they might want
     * stand in the list. */
    if (dtype == LS_BF16 && is_conv_or_linear(c->op.kind))
        return count_elements(c) <= MAX_CONVOLUTION_ELEMENTS;
    if (count_elements(c) > MAX_ELEMENTS) return false;
    return ls__op_is_optional(c->op.kind) || c->op.kind == LS__OP_NORMALIZE ||
           (i % 2 == 0) == (dtype == LS_BF16);
}

void add_half_cases(case_list *list)
{
    static const ls_dtype dtypes[] = { LS_BF16, LS_F16 };
    const int n = list->n;
    int n_of_kind[LS__N_OPS] = { 0 };
    for (int i = 0; i < n; i++) {
        const op_case from = list->cases[i]; /* the list moves as it grows */
        for (int d = 0; d < 2; d++)
            if (wants_half(&from, n_of_kind[from.op.kind], dtypes[d]))
                add_half_case(list, &from, dtypes[d]);
        n_of_kind[from.op.kind]++;
    }
    for (int d = 0; d < 2; d++) add_casts(list, dtypes[d]);
}
