/* fusion.h: the optional ops of LS__OP_LIST, convolutions together with parts of the batch norms
 * around them, as far as cuDNN has kernels for it, with f32 statistics: in f16, on sm_90, all of
 * these without compiling; in bf16 those that leave statistics, and the weights' gradient, compiled
 * when they are made, which takes a driver. On other devices some or none. Where there are none
 * there are no candidates.
 *
 * Sums are of f32, and always added in one order. Whether they are of y before or after it is
 * rounded to 16 bits is each engine's own, and the same in every run. Rounding to bf16 moves a
 * channel's mean by about 2^-9 of its root mean square, over the root of its count, and its
 * variance by about 2^-18 of its mean square: far less than it changes single activations. */
#ifndef LS_CUDA_CUDNN_FUSION_H
#define LS_CUDA_CUDNN_FUSION_H

#include "cuda/cudnn/cudnn.h"

/* As the functions of cudnn.h. */
int ls__cudnn_fusion_candidates(ls__cudnn *cudnn, const ls__op *op, ls__candidate *out, int max);
ls_status ls__cudnn_fusion_open(ls__cudnn *cudnn, const ls__op *op, const char *name,
                                ls__kernel **out);
ls_status ls__cudnn_fusion_restore(ls__cudnn *cudnn, const ls__op *op, const char *text,
                                   ls__kernel **out);

#endif
