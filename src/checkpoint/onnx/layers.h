/* layers.h: the ONNX nodes of layers. */
#ifndef LS_CHECKPOINT_ONNX_LAYERS_H
#define LS_CHECKPOINT_ONNX_LAYERS_H

#include "checkpoint/onnx/state.h"

/* Appends what computes the node's value. */
ls_status ls__onnx_put_layer(ls__onnx_export *e, const ls_node *node);
/* The value of a node with its columns in the order of the net. */
const char *ls__onnx_ordered(ls__onnx_export *e, const ls_node *node);
/* True for layers into which a batch norm can be folded. */
bool ls__onnx_is_folded_into(const ls_node *node);

/* A shape of the net, [N,H,W,C], as the model's [N,C,H,W]; other shapes are the same. */
ls_shape ls__onnx_shape(const ls_shape *shape);

#endif
