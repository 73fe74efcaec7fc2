/* graph.h: an op as cuDNN sees it: tensors, and operations on them.
 *
 * Tensors that are buffers of the kernel have the unique id LS__CUDNN_BUFFER_ID(index); virtual
 * ones live within the kernel that cuDNN makes of the graph. Everything belongs to the graph. */
#ifndef LS_CUDA_CUDNN_GRAPH_H
#define LS_CUDA_CUDNN_GRAPH_H

#include "cuda/cudnn/descriptor.h"
#include "backend/backend.h"

enum {
    LS__CUDNN_MAX_DESCRIPTORS = 64, /* made for one graph */
    LS__CUDNN_MAX_OPERATIONS = 8,
    LS__CUDNN_MAX_BUFFERS = 16,
    LS__CUDNN_MAX_NUMBERS = 3
};
#define LS__CUDNN_BUFFER_ID(index)  ((int64_t)(index) + 1)
#define LS__CUDNN_NUMBER_ID(index)  (LS__CUDNN_BUFFER_ID(LS__CUDNN_MAX_BUFFERS) + (index))
#define LS__CUDNN_VIRTUAL_ID(index) (LS__CUDNN_NUMBER_ID(LS__CUDNN_MAX_NUMBERS) + (index))

typedef cudnnBackendDescriptor_t ls__cudnn_tensor;

typedef struct ls__cudnn_graph {
    ls__cudnn_calls calls; /* of everything below */
    cudnnBackendDescriptor_t descriptors[LS__CUDNN_MAX_DESCRIPTORS];
    int n_descriptors;
    cudnnBackendDescriptor_t operations[LS__CUDNN_MAX_OPERATIONS];
    int n_operations;
    int n_virtual;
    cudnnBackendDescriptor_t graph; /* set by ls__cudnn_graph_finish */
} ls__cudnn_graph;

typedef union ls__cudnn_number {
    int64_t i;
    float f;
} ls__cudnn_number;

/* What is to be computed. */
typedef struct ls__cudnn_problem {
    char text[LS__OP_TEXT_SIZE + 64]; /* names it: the key of what is known of it */
    /* Puts the operations into an empty graph; failures stay in its calls. */
    void (*build)(const struct ls__cudnn_problem *problem, ls__cudnn_graph *graph);
    const void *description;                     /* build's own */
    bool uses[LS__CUDNN_MAX_BUFFERS];            /* which of the kernel's buffers the graph has */
    signed char in_place[LS__CUDNN_MAX_BUFFERS]; /* the buffer whose memory one is, 0 = its own */
    bool f32;                                    /* factors are f32, not f16 or bf16 */
    bool tf32;                                   /* which may be rounded to tf32 */
    int n_numbers; /* that a kernel gets when it runs; plans don't know them */
    ls__cudnn_number numbers[LS__CUDNN_MAX_NUMBERS];
    double cost_ms; /* on an H200 at its limits */
} ls__cudnn_problem;

/* The whole graph of a problem. Always to be closed. handle NULL: for a described device. */
void ls__cudnn_graph_open(ls__cudnn_graph *graph, const ls__cudnn_problem *problem,
                          cudnnHandle_t handle);
void ls__cudnn_graph_close(ls__cudnn_graph *graph);

/* A buffer: an activation [N,H,W,C], weights [O,kh,kw,I], or a vector [C]. */
ls__cudnn_tensor ls__cudnn_buffer(ls__cudnn_graph *graph, int index, ls_dtype dtype,
                                  const ls_shape *shape);
/* One of the problem's numbers. */
ls__cudnn_tensor ls__cudnn_scalar(ls__cudnn_graph *graph, int index, cudnnDataType_t type);
/* A tensor within the kernel. */
ls__cudnn_tensor ls__cudnn_virtual(ls__cudnn_graph *graph, ls_dtype dtype, const ls_shape *shape);

/* y = x * w, CONV2D's convolution; dx and dw from dy likewise. kind says which of the three tensors
 * is the result. */
void ls__cudnn_convolve(ls__cudnn_graph *graph, ls__op_kind kind, const ls__op *config,
                        ls__cudnn_tensor x, ls__cudnn_tensor w, ls__cudnn_tensor y);
/* y = mode(a, b), computed in f32, b broadcast; NULL for functions of one argument. For RELU_BWD, a
 * is dy, b is x, and y is dx. */
void ls__cudnn_pointwise(ls__cudnn_graph *graph, cudnnPointwiseMode_t mode, ls__cudnn_tensor a,
                         ls__cudnn_tensor b, ls__cudnn_tensor y);
/* Another kind of operation: the caller sets its attributes, then adds it. */
cudnnBackendDescriptor_t ls__cudnn_operation(ls__cudnn_graph *graph,
                                             cudnnBackendDescriptorType_t type);
void ls__cudnn_add_operation(ls__cudnn_graph *graph, cudnnBackendDescriptor_t operation);

#endif
