/* roles.h: the operands of convolution ops, the ops that our own kernels support, and linear layers
 * as convolutions. */
#ifndef LS_CPU_CONV_ROLES_H
#define LS_CPU_CONV_ROLES_H

#include "backend/backend.h"

/* Indices of operands; -1: none. In backward ops dx is x, and so on. */
typedef struct ls__conv_roles {
    int x, w, y, b;
} ls__conv_roles;

/* The three ops; also a provider's table of ops in bf16. */
static const bool ls__conv_kinds[LS__N_OPS] = {
    [LS__OP_CONV2D] = true,
    [LS__OP_CONV2D_BACKWARD_DATA] = true,
    [LS__OP_CONV2D_BACKWARD_WEIGHTS] = true,
};

/* And the three of linear layers. */
static const bool ls__conv_and_linear_kinds[LS__N_OPS] = {
    [LS__OP_CONV2D] = true,
    [LS__OP_CONV2D_BACKWARD_DATA] = true,
    [LS__OP_CONV2D_BACKWARD_WEIGHTS] = true,
    [LS__OP_LINEAR] = true,
    [LS__OP_LINEAR_BACKWARD_DATA] = true,
    [LS__OP_LINEAR_BACKWARD_WEIGHTS] = true,
};

static inline bool ls__is_linear(ls__op_kind kind)
{
    return ls__conv_and_linear_kinds[kind] && !ls__conv_kinds[kind];
}

/* A linear op as a 1x1 convolution of the same operands: rows of x are pixels. A fused ReLU is left
 * to the caller. */
ls__op ls__linear_as_conv(const ls__op *op);

/* False if the op is none of the three. */
static inline bool ls__conv_roles_of(ls__op_kind kind, ls__conv_roles *out)
{
    static const ls__conv_roles roles[LS__N_OPS] = {
        [LS__OP_CONV2D] = { 0, 1, 3, 2 },
        [LS__OP_CONV2D_BACKWARD_DATA] = { 2, 1, 0, -1 },
        [LS__OP_CONV2D_BACKWARD_WEIGHTS] = { 0, 2, 1, 3 },
    };
    *out = roles[kind];
    return out->x != out->y;
}

/* Whether the convolution has a bias, or a bias's gradient. */
static inline bool ls__conv_has_bias(const ls__op *op, const ls__conv_roles *roles)
{
    return roles->b >= 0 && !ls__is_absent(&op->operands[roles->b]);
}

#endif
