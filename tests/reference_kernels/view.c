/* view.c: an operand as the loops of the reference kernels index it. */
#include "reference.h"

tensor_view shape_view(const ls__operand *operand)
{
    const int64_t *d = operand->shape.dims;
    if (operand->shape.n_dims == 4) return (tensor_view){ NULL, d[0], d[1], d[2], d[3] };
    if (operand->shape.n_dims == 2) return (tensor_view){ NULL, d[0], 1, 1, d[1] };
    const int64_t count = operand->shape.n_dims < 0 ? 0 : ls_shape_element_count(&operand->shape);
    return (tensor_view){ NULL, 1, 1, 1, count };
}

tensor_view view_of(const reference_call *call, int operand)
{
    tensor_view v = shape_view(&call->op->operands[operand]);
    v.data = call->buffers[operand];
    return v;
}
