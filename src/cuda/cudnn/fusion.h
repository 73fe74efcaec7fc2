/* fusion.h: the optional ops of LS__OP_LIST: convolutions fused with parts of the batch norms
 * around them, with f32 statistics. cuDNN has kernels for all of them in f16 on sm_90, without
 * compiling. In bf16 it has those with statistics and the weights' gradient, which it compiles when
 * they are made, with a driver. Other devices have some or none. An op without kernels has no
 * candidates.
 *
 * Sums are f32, in one fixed order. An engine adds y either before or after rounding to 16 bits, in
 * every run alike. Rounding to bf16 moves a channel's mean by about 2^-9 of its root mean square
 * over the root of its count, and its variance by about 2^-18 of its mean square, which is much
 * less than it changes single activations. */
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
