/* has_cudnn.h: whether a context's convolutions are cuDNN's. Its sums have other orders than ours,
 * and limits that our own kernels keep are too tight for it. */
#ifndef LS_TEST_HAS_CUDNN_H
#define LS_TEST_HAS_CUDNN_H

#include <lockstep/context.h>
#include <stdbool.h>
#include <string.h>

static inline bool has_cudnn(ls_context *ctx)
{
    return strstr(ls_context_device(ctx), "cuDNN ") != NULL;
}

#endif
