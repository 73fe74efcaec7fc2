/* layer.h: the functions of a kind of layer: shape inference, lowering to ops, settings. The
 * file of a layer, or of a family of layers, defines them. */
#ifndef LS_NN_GRAPH_LAYER_H
#define LS_NN_GRAPH_LAYER_H

#include "backend/backend.h"
#include "base/text.h"
#include <lockstep/nn.h>

typedef struct ls__builder ls__builder;   /* plan/builder.h */
typedef struct ls__fused_op ls__fused_op; /* plan/program.h */

typedef struct ls__layer {
    const char *name; /* "conv2d"; users' ops are called "op" */
    /* Output spec from input specs; errors name the node, the dimension and both values. */
    ls_status (*infer)(const ls_node *node, const ls_spec *inputs, ls_spec *out);
    /* Forward: emits and sets the value of fused->tail. Backward (optional): takes the gradient of
     * fused->tail, which exists, and contributes to the inputs and addend of the fused op. */
    void (*forward)(ls__builder *b, const ls__fused_op *fused);
    void (*backward)(ls__builder *b, const ls__fused_op *fused);
    ls__op_kind op, backward_op; /* of ls__lower_op and ls__lower_op_backward */
    /* Multiply-adds of the forward pass (optional: none). */
    int64_t (*multiply_adds)(const ls_node *node, const ls_spec *inputs, const ls_spec *out);
    /* Appends the settings that do not follow from inputs, shapes and parameters (optional: none).
     * A model's digest contains this text, so it must never change. */
    void (*put_settings)(const ls_node *node, ls__text *out);
    bool reads_compute_weights; /* weight and bias in the type of activations */
    bool has_no_gradient;       /* its input has no gradient */
} ls__layer;

#endif
