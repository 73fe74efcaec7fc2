/* plan.h: how a convolution is cut into tasks. */
#ifndef LS_CPU_ONEDNN_PLAN_H
#define LS_CPU_ONEDNN_PLAN_H

#include "cpu/conv/roles.h"
#include "cpu/onednn/onednn.h"

/* Tasks are sub-batches of images times slices of channels: of y's channels in forward and backward
 * weights, of x's channels in backward data. */
typedef struct ls__conv_plan {
    ls__dnn_conv task; /* of one task; its n is the larger number of images */
    int64_t images, n_batches;
    int64_t n_larger; /* number of sub-batches with task.n images; the others have one less */
    int64_t n_slices;
    int64_t x_channels, y_channels; /* of the whole op */
} ls__conv_plan;

/* A function of the op's shape. False if oneDNN computes wrong results for it. */
bool ls__conv_plan_make(const ls__op *op, ls__conv_plan *out);

int64_t ls__conv_plan_first_image(const ls__conv_plan *plan, int64_t batch);

#endif
