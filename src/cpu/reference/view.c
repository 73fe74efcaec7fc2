/* view.c: an operand as the loops of the reference kernels index it. */
#include "cpu/reference/reference.h"

ls__view ls__operand_view(const ls__operand *operand)
{
    const int64_t *d = operand->shape.dims;
    if (operand->shape.n_dims == 4) return (ls__view){ NULL, d[0], d[1], d[2], d[3] };
    if (operand->shape.n_dims == 2) return (ls__view){ NULL, d[0], 1, 1, d[1] };
    const int64_t count = operand->shape.n_dims < 0 ? 0 : ls_shape_element_count(&operand->shape);
    return (ls__view){ NULL, 1, 1, 1, count };
}

ls__view ls__reference_view(const ls__reference_call *call, int operand)
{
    ls__view v = ls__operand_view(&call->op->operands[operand]);
    v.data = call->buffers[operand];
    return v;
}
