/* fusion.h: the optional ops of LS__OP_LIST, convolutions together with parts of the batch norms
 * around them, as far as cuDNN has kernels for it: in f16 with f32 statistics, on sm_90 all of
 * these without compiling; on others some or none, and then there are no candidates. None has a
 * bf16 form. */
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
