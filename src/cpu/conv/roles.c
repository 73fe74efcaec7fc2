/* roles.c: see roles.h. */
#include "cpu/conv/roles.h"

#include <string.h>

/* oneDNN's tasks are cut by images, so rows are grouped into images: of IMAGE_ROWS at most if n can
 * be halved. */
enum { IMAGE_ROWS = 32 };

static ls__operand image_of(ls_dtype dtype, int64_t n, int64_t channels)
{
    int64_t rows = n;
    while (rows > IMAGE_ROWS && rows % 2 == 0) rows /= 2;
    return (ls__operand){ dtype, LS_SHAPE(n / rows, rows, 1, channels) };
}

ls__op ls__linear_as_conv(const ls__op *op)
{
    static const ls__op_kind kinds[LS__N_OPS] = {
        [LS__OP_LINEAR] = LS__OP_CONV2D,
        [LS__OP_LINEAR_BACKWARD_DATA] = LS__OP_CONV2D_BACKWARD_DATA,
        [LS__OP_LINEAR_BACKWARD_WEIGHTS] = LS__OP_CONV2D_BACKWARD_WEIGHTS,
    };
    ls__op conv = { .kind = kinds[op->kind],
                    .n_operands = op->n_operands,
                    .u.conv = { { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 }, 1 } };
    ls__conv_roles roles;
    ls__conv_roles_of(conv.kind, &roles);
    /* A gradient of one element may have one dimension, so the sizes are those of x or dy and w. */
    const ls__operand *from = op->operands, *w = &from[roles.w];
    const int64_t n = from[0].shape.dims[0], out = w->shape.dims[0], in = w->shape.dims[1];
    memcpy(conv.operands, from, sizeof conv.operands);
    conv.operands[roles.x] = image_of(from[roles.x].dtype, n, in);
    conv.operands[roles.y] = image_of(from[roles.y].dtype, n, out);
    conv.operands[roles.w] = (ls__operand){ w->dtype, LS_SHAPE(out, 1, 1, in) };
    return conv;
}
