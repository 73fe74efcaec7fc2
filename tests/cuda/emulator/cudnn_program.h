/* cudnn_program.h: a graph of the emulated cuDNN as plain data: what a launch takes along, since a
 * plan may be destroyed before what it queued has run. */
#ifndef LS_TEST_EMULATED_CUDNN_PROGRAM_H
#define LS_TEST_EMULATED_CUDNN_PROGRAM_H

#include "cudnn_descriptor.h"

enum { CUDNN_MAX_TENSORS = 24, CUDNN_MAX_STEPS = 8, CUDNN_MAX_ROLES = 15 };

typedef struct cudnn_tensor {
    int64_t id, alignment;
    int64_t dims[4], strides[4]; /* N,C,H,W; weights K,C,R,S; elements */
    cudnnDataType_t type;
    bool is_virtual, by_value;
    void *memory; /* of one that is neither, once a pack is bound */
    union {
        int64_t i;
        float f;
    } value; /* of one by value */
} cudnn_tensor;

/* The tensors of a step, by role. */
enum { CUDNN_ROLE_X, CUDNN_ROLE_W, CUDNN_ROLE_Y };          /* of convolutions */
enum { CUDNN_ROLE_A, CUDNN_ROLE_B, CUDNN_ROLE_RESULT };     /* of pointwise operations */
enum { CUDNN_ROLE_OF, CUDNN_ROLE_SUM, CUDNN_ROLE_SQUARES }; /* of statistics */

/* An operation. */
typedef struct cudnn_step {
    char letter;
    int tensors[CUDNN_MAX_ROLES];               /* by role; -1: none */
    int64_t padding[2], stride[2], dilation[2]; /* of a convolution */
    cudnnPointwiseMode_t mode;
} cudnn_step;

/* How an engine multiplies and adds. */
typedef struct cudnn_arithmetic {
    int n_parts;       /* a sum is made of so many sums, each of every n-th product */
    int mantissa_bits; /* of factors; 23: as they are */
    bool repeats;      /* false: parts are added in an order that changes from run to run */
    bool fails;        /* when it is executed */
} cudnn_arithmetic;

typedef struct cudnn_program {
    int n_tensors, n_steps;
    cudnn_tensor tensors[CUDNN_MAX_TENSORS];
    cudnn_step steps[CUDNN_MAX_STEPS];
    char pattern[CUDNN_MAX_STEPS + 1]; /* "D-**+rB": the steps' letters, pointwise ones' by mode */
    cudnn_arithmetic arithmetic;
    int64_t workspace_bytes;
    void *workspace;
} cudnn_program;

/* cudnn_graph.c: the finalize functions of tensors and operations; a graph's makes a program. */
cudnnStatus_t cudnn_finalize_tensor(cudnn_body *body);
cudnnStatus_t cudnn_finalize_convolution(cudnn_body *body);
cudnnStatus_t cudnn_finalize_operation(cudnn_body *body);
cudnnStatus_t cudnn_finalize_graph(cudnn_body *body);
size_t cudnn_type_bytes(cudnnDataType_t type);
bool cudnn_is_channels_last(const cudnn_tensor *t);

/* cudnn_engines.c: the finalize functions of what chooses an engine, and of plans. */
cudnnStatus_t cudnn_finalize_device(cudnn_body *body);
cudnnStatus_t cudnn_finalize_heuristics(cudnn_body *body);
cudnnStatus_t cudnn_finalize_engine(cudnn_body *body);
cudnnStatus_t cudnn_finalize_configuration(cudnn_body *body);
cudnnStatus_t cudnn_finalize_plan(cudnn_body *body);

/* cudnn_execute.c */
cudnnStatus_t cudnn_finalize_pack(cudnn_body *body);

/* cudnn_compute.c: runs a program whose memory is bound. */
void cudnn_compute(void *program);

#endif
