/* graph.h: cuDNN's description of an op: a graph of operations on tensors.
 *
 * A tensor is a buffer of the kernel, with the unique id LS__CUDNN_BUFFER_ID(index), or a scalar by
 * value, or virtual, which means internal to the kernel that cuDNN makes. The graph owns all of
 * them. */
#ifndef LS_CUDA_CUDNN_GRAPH_H
#define LS_CUDA_CUDNN_GRAPH_H

#include "cuda/cudnn/descriptor.h"
#include "backend/backend.h"

enum {
    LS__CUDNN_MAX_DESCRIPTORS = 64, /* of one graph */
    LS__CUDNN_MAX_OPERATIONS = 8,
    LS__CUDNN_MAX_BUFFERS = 16,
    LS__CUDNN_MAX_SCALARS = 3
};
#define LS__CUDNN_BUFFER_ID(index)  ((int64_t)(index) + 1)
#define LS__CUDNN_SCALAR_ID(index)  (LS__CUDNN_BUFFER_ID(LS__CUDNN_MAX_BUFFERS) + (index))
#define LS__CUDNN_VIRTUAL_ID(index) (LS__CUDNN_SCALAR_ID(LS__CUDNN_MAX_SCALARS) + (index))

typedef cudnnBackendDescriptor_t ls__cudnn_tensor;

typedef struct ls__cudnn_graph {
    ls__cudnn_calls calls; /* of everything below */
    cudnnBackendDescriptor_t descriptors[LS__CUDNN_MAX_DESCRIPTORS];
    int n_descriptors;
    cudnnBackendDescriptor_t operations[LS__CUDNN_MAX_OPERATIONS];
    int n_operations;
    int n_virtual;
    cudnnBackendDescriptor_t graph; /* set by ls__cudnn_graph_open */
} ls__cudnn_graph;

typedef union ls__cudnn_scalar_value {
    int64_t i;
    float f;
} ls__cudnn_scalar_value;

/* An op, described to cuDNN. */
typedef struct ls__cudnn_problem {
    char text[LS__OP_TEXT_SIZE + 64]; /* the key of cached lists */
    const ls__op *op;
    /* Adds the operations to an empty graph. Failures are kept in its calls. */
    void (*build)(ls__cudnn_graph *graph, const ls__op *op);
    bool uses[LS__CUDNN_MAX_BUFFERS];            /* the kernel's buffers that the graph has */
    signed char in_place[LS__CUDNN_MAX_BUFFERS]; /* the buffer whose memory one shares; 0: none */
    bool f32;                                    /* inputs are f32, not f16 or bf16 */
    bool tf32;                                   /* and may be rounded to tf32 */
    int n_scalars; /* passed when a kernel runs; a plan does not contain them */
    ls__cudnn_scalar_value scalars[LS__CUDNN_MAX_SCALARS];
    double cost_ms;     /* a lower bound for an H200 */
    int max_candidates; /* 0: any number */
} ls__cudnn_problem;

/* The graph of a problem. To be closed also after a failure. handle NULL: for a described device.
 */
void ls__cudnn_graph_open(ls__cudnn_graph *graph, const ls__cudnn_problem *problem,
                          cudnnHandle_t handle);
void ls__cudnn_graph_close(ls__cudnn_graph *graph);

/* A buffer: an activation [N,H,W,C], weights [O,kh,kw,I], or a vector [C]. */
ls__cudnn_tensor ls__cudnn_buffer(ls__cudnn_graph *graph, int index, ls_dtype dtype,
                                  const ls_shape *shape);
/* Adds one of the problem's scalars. */
ls__cudnn_tensor ls__cudnn_scalar(ls__cudnn_graph *graph, int index, cudnnDataType_t type);
/* A virtual tensor. */
ls__cudnn_tensor ls__cudnn_virtual(ls__cudnn_graph *graph, ls_dtype dtype, const ls_shape *shape);

/* A convolution of `kind`: y of x and w, dx of y's gradient and w, or dw of x and y's gradient. */
void ls__cudnn_convolve(ls__cudnn_graph *graph, ls__op_kind kind, const ls__op *config,
                        ls__cudnn_tensor x, ls__cudnn_tensor w, ls__cudnn_tensor y);
/* y = mode(a, b), computed in f32, b broadcast; b is NULL for functions of one argument. For
 * RELU_BWD a is dy, b is x, y is dx. */
void ls__cudnn_pointwise(ls__cudnn_graph *graph, cudnnPointwiseMode_t mode, ls__cudnn_tensor a,
                         ls__cudnn_tensor b, ls__cudnn_tensor y);
/* A descriptor of another type, which the graph owns; NULL after a failure. If it is an operation,
 * the caller sets its attributes, then adds it. */
cudnnBackendDescriptor_t ls__cudnn_graph_make(ls__cudnn_graph *graph,
                                              cudnnBackendDescriptorType_t type);
void ls__cudnn_add_operation(ls__cudnn_graph *graph, cudnnBackendDescriptor_t operation);

#endif
