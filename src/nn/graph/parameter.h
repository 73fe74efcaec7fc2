/* parameter.h: parameters and buffers, which lie in one block. */
#ifndef LS_NN_GRAPH_PARAMETER_H
#define LS_NN_GRAPH_PARAMETER_H

#include <lockstep/nn.h>

/* Parameters start at multiples of this many elements; gaps are zero in every block. */
enum { LS__PARAMETER_ALIGNMENT = 16 };

/* A parameter or buffer. Parameters come first in the block, buffers after all of them. */
typedef struct ls__parameter {
    char *name; /* "layer1.0.conv1.weight" */
    ls_parameter_kind kind;
    ls_shape shape;        /* memory order */
    int64_t offset, count; /* elements in the block */
    int64_t flattened;     /* C of a linear layer's weight whose input is a flattened [N,H,W,C] with
                              H W > 1 and C > 1: its columns are in the order H,W,C, in PyTorch C,H,W;
                              else 0 */
    bool frozen;
} ls__parameter;

typedef struct ls__net_blocks {
    int64_t n_parameters;
    const ls__parameter *parameters;
    int64_t parameter_elements; /* of the parameters with gaps, and of the gradient block */
    int64_t block_elements;     /* buffers included */
    float *values;              /* device memory: parameters, then buffers */
    float *gradients;           /* device memory; NULL for inference */
    int64_t gradient_stride;    /* elements from one shard's block of gradients to the next one's */
    int64_t n_gradients;        /* such blocks: 1 unless batch norms are synchronised */
    void *compute_weights;      /* device memory: the parameters in the type of activations, as
                                   the last program has cast them; NULL if that is f32 */
    float *loss_scale;          /* device memory: see LS__LOSS_SCALE_*; NULL without loss scaling */
    int64_t frozen_version;     /* changes with every freeze and unfreeze */
} ls__net_blocks;

#endif
