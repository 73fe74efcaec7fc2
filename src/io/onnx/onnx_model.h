/* onnx_model.h: builds and writes an ONNX model, without knowledge of nets. The first failure is
 * kept in `status`; later calls then do nothing, and return NULL. Texts are not copied: they must
 * live as long as the model. */
#ifndef LS_IO_ONNX_ONNX_MODEL_H
#define LS_IO_ONNX_ONNX_MODEL_H

#include "base/bump.h"
#include <onnx.pb-c.h> /* generated from onnx.proto */
#include <lockstep/tensor.h>

typedef struct ls__onnx_model {
    ls_context *ctx;
    ls__bump bump; /* owns all of the model */
    ls_status status;
    Ls__OnnxPb__Model model;
    Ls__OnnxPb__Graph graph;
    Ls__OnnxPb__OperatorSet opset;
    Ls__OnnxPb__OperatorSet *opsets[1];
    size_t node_capacity, initializer_capacity, input_capacity, output_capacity, pair_capacity;
    const char **names; /* of values and initializers */
    size_t n_names, name_capacity;
    uint64_t weight_bytes; /* of all initializers */
} ls__onnx_model;

void ls__onnx_open(ls__onnx_model *m, ls_context *ctx, int64_t opset);
void ls__onnx_close(ls__onnx_model *m);
/* Returns a name that no value has yet: `wanted`, or `wanted` with a number. */
const char *ls__onnx_name(ls__onnx_model *m, const char *wanted);

/* The first dimension is the batch "N" if is_batch. The name must come from ls__onnx_name. */
void ls__onnx_input(ls__onnx_model *m, const char *name, const ls_spec *spec, bool is_batch);
void ls__onnx_output(ls__onnx_model *m, const char *name, const ls_spec *spec, bool is_batch);

/* Appends a node with one output, a new value called `name`, whose name is returned in *value. */
Ls__OnnxPb__Node *ls__onnx_node(ls__onnx_model *m, const char *op, const char *name, int n_inputs,
                                const char *const *inputs, const char **value);
void ls__onnx_put_int(ls__onnx_model *m, Ls__OnnxPb__Node *node, const char *name, int64_t value);
void ls__onnx_put_ints(ls__onnx_model *m, Ls__OnnxPb__Node *node, const char *name, int n,
                       const int64_t *values);
void ls__onnx_put_float(ls__onnx_model *m, Ls__OnnxPb__Node *node, const char *name, float value);

/* Appends an initializer and returns its name. *elements is its zeroed memory, for the caller. */
const char *ls__onnx_initializer(ls__onnx_model *m, const char *name, ls_dtype dtype,
                                 const ls_shape *shape, void **elements);
const char *ls__onnx_int64s(ls__onnx_model *m, const char *name, int n, const int64_t *values);

void ls__onnx_metadata(ls__onnx_model *m, const char *key, const char *value);

/* Renames a value. */
void ls__onnx_rename(ls__onnx_model *m, const char *from, const char *to);

/* Writes the model atomically. LS_ERR_UNSUPPORTED, before anything is written, for 2 GiB or more.
 */
ls_status ls__onnx_write(ls_context *ctx, const char *path, const Ls__OnnxPb__Model *model);

#endif
