/* fusion.h: convolutions together with the batch norms around them, in f16 with f32 statistics, as
 * far as cuDNN has kernels for it: on sm_90 all of these without compiling; on others some or none,
 * and then there are no candidates. None has a bf16 form.
 *
 * A batch norm falls apart. The convolution before it leaves sums; FINALIZE makes of them what the
 * norm is for every channel, x * mul + add; the convolution after it applies that, with the ReLU,
 * to what it reads. So the normalised activation is never written. Backward, the norm's own
 * gradient is dx = a * dz + b * x + c, for the next kernel to apply. */
#ifndef LS_CUDA_CUDNN_FUSION_H
#define LS_CUDA_CUDNN_FUSION_H

#include "cuda/cudnn/cudnn.h"

/* X(NAME, text, buffers): inputs before "->". Activations, weights, mul and add are f16; all other
 * vectors [C] are f32. Sums are over N, H and W. conv is x * w -> y. */
#define LS__CUDNN_FUSION_LIST(X)                                                                   \
    /* y = conv(x); sums of y and of its squares */                                                \
    X(CONV_STATS, "conv_stats", "x w -> y sum squares")                                            \
    /* y = conv(relu(x * mul + add)); sums of y and of its squares */                              \
    X(NORM_CONV_STATS, "norm_conv_stats", "x mul add w -> y sum squares")                          \
    /* dw of y = conv(relu(x * mul + add)) */                                                      \
    X(NORM_BACKWARD_WEIGHTS, "norm_backward_weights", "x mul add dy -> dw")                        \
    /* with z = (x - mean) * invstd * scale + shift before y = conv(relu(z)): dz, and the          \
     * gradients of the norm: dscale, dshift, and a, b, c of its dx */                             \
    X(BACKWARD_DATA_NORM, "backward_data_norm",                                                    \
      "dy w x mean invstd scale shift -> dz dscale dshift a b c")                                  \
    /* the norm of a conv's y: mean and invstd of the batch, mul = invstd * scale, add = shift -   \
     * mean * mul; running = (1 - momentum) running + momentum batch, out of place or in place */  \
    X(FINALIZE, "norm_finalize",                                                                   \
      "sum squares scale shift running_mean running_var -> "                                       \
      "mean invstd mul add new_running_mean new_running_var")

typedef enum ls__cudnn_fusion_kind {
#define LS__CUDNN_FUSION_ENUM(name, text, buffers) LS__CUDNN_##name,
    LS__CUDNN_FUSION_LIST(LS__CUDNN_FUSION_ENUM)
#undef LS__CUDNN_FUSION_ENUM
        LS__CUDNN_N_FUSIONS
} ls__cudnn_fusion_kind;

typedef struct ls__cudnn_fusion {
    ls__cudnn_fusion_kind kind;
    ls__op conv; /* LS__OP_CONV2D without bias, f16 at block C: x, w, y and its settings */
    float epsilon, momentum; /* FINALIZE */
} ls__cudnn_fusion;

/* As the functions of cudnn.h. Kernels run with the buffers of the list, in its order. */
int ls__cudnn_fusion_candidates(ls__cudnn *cudnn, const ls__cudnn_fusion *fusion,
                                ls__candidate *out, int max);
ls_status ls__cudnn_fusion_open(ls__cudnn *cudnn, const ls__cudnn_fusion *fusion, const char *name,
                                ls__kernel **out);
ls_status ls__cudnn_fusion_restore(ls__cudnn *cudnn, const ls__cudnn_fusion *fusion,
                                   const char *text, ls__kernel **out);

#endif
