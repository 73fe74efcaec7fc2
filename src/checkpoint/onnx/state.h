/* state.h: an export in progress. */
#ifndef LS_CHECKPOINT_ONNX_STATE_H
#define LS_CHECKPOINT_ONNX_STATE_H

#include "io/onnx/onnx_model.h"
#include "nn/graph/graph.h"
#include <lockstep/onnx.h>

/* The value of a node in the model. */
typedef struct ls__onnx_value {
    const char *name;
    int64_t channels; /* of a flattened [N,C,H,W] whose columns are in the order C,H,W; 0: they are
                         in the order of the net */
    bool is_batch;    /* the first dimension is the batch */
    bool is_computed; /* by a node: neither an input nor an initializer */
} ls__onnx_value;

typedef struct ls__onnx_export {
    ls_net *net;
    const ls_graph *graph;
    ls_onnx_config config;
    ls__onnx_model model;
    ls__onnx_value *values;     /* per node */
    const ls_node **batch_norm; /* per node: the batch norm that is folded into it, or NULL */
    int *n_readers;             /* per node; 0: no output depends on it */
} ls__onnx_export;

#endif
