/* parameters.h: the parameters of layers as initializers of an ONNX model. A failure is kept in the
 * model's status. */
#ifndef LS_CHECKPOINT_ONNX_PARAMETERS_H
#define LS_CHECKPOINT_ONNX_PARAMETERS_H

#include "checkpoint/onnx/state.h"

/* "name.suffix", in memory of the model. */
const char *ls__onnx_suffixed(ls__onnx_export *e, const char *name, const char *suffix);

/* Copies a parameter to an initializer of its name and this shape; NULL on failure. */
float *ls__onnx_put_parameter(ls__onnx_export *e, const ls_node *node, int role, ls_shape shape,
                              const char **name);
/* Copies a parameter to an initializer of its shape, and returns its name. */
const char *ls__onnx_put_vector(ls__onnx_export *e, const ls_node *node, int role);
/* Sets inputs[1] and, if there is one, inputs[2] to weight and bias, with the batch norm that is
 * folded into the layer. Returns the number of inputs, and the weight of this shape. */
int ls__onnx_put_weights(ls__onnx_export *e, const ls_node *node, ls_shape shape,
                         const char *inputs[3], float **weight);
/* Transposes n matrices of an initializer in place; values may be NULL. */
void ls__onnx_transpose(ls__onnx_export *e, float *values, int64_t n, int64_t rows,
                        int64_t columns);

#endif
