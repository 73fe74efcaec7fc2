/* conv_ops.h: the convolutions of the bundled models, as ops. */
#ifndef LS_TESTS_CUDA_CONV_OPS_H
#define LS_TESTS_CUDA_CONV_OPS_H

#include "backend/backend.h"

enum { MAX_CONV_OPS = 256 };
typedef struct conv_ops {
    ls__op ops[MAX_CONV_OPS];
    int n;
} conv_ops;

/* Adds the convolutions, forward and backward, of a model's training step on images of that side,
 * f32 and N,H,W,C, those that are not there yet. */
void conv_ops_add(conv_ops *list, const char *model, int64_t batch, int64_t side);

/* One convolution of its own: kind, x [N,H,W,C], w [O,kernel,kernel,C/groups]. */
typedef struct conv_shape {
    int64_t n, h, w, c, o, kernel, stride, padding, groups;
} conv_shape;
ls__op conv_op(ls__op_kind kind, const conv_shape *shape, bool bias);

/* Returns the same op in another type; gradients of weights and biases are f32. */
ls__op conv_op_in(const ls__op *op, ls_dtype dtype, bool tf32);

/* The optional op of that kind that goes with a CONV2D: with its x, w and y in a type, or for
 * NORM_FINALIZE with its y. */
ls__op fused_op(ls__op_kind kind, const ls__op *conv, ls_dtype dtype);

#endif
