/* providers.c: what the module is built with, and how cuDNN comes in. */
#include "cuda/cuda.h"
#include "cuda/cudnn/cudnn.h"

static ls_status cudnn_open(ls__cuda *cuda, void **state)
{
    ls__cudnn *cudnn;
    LS_TRY(ls__cudnn_open(cuda->device.ctx, NULL, &cudnn));
    *state = cudnn;
    return ls__cudnn_set_stream(cudnn, cuda->stream);
}

static void cudnn_close(ls__cuda *cuda, void *state)
{
    (void)cuda;
    ls__cudnn *cudnn = state;
    ls__cudnn_close(&cudnn);
}

static const char *cudnn_library(void *state)
{
    return ls__cudnn_version(state);
}

static int cudnn_candidates(ls__cuda *cuda, void *state, const ls__op *op, ls__candidate *out,
                            int max)
{
    (void)cuda;
    return ls__cudnn_conv_candidates(state, op, out, max);
}

static ls_status cudnn_kernel_open(ls__cuda *cuda, void *state, const ls__op *op, const char *name,
                                   ls__kernel **out)
{
    (void)cuda;
    return ls__cudnn_conv_open(state, op, name, out);
}

static const ls__cuda_provider cudnn_provider = { .name = "cudnn",
                                                  .open = cudnn_open,
                                                  .close = cudnn_close,
                                                  .library = cudnn_library,
                                                  .candidates = cudnn_candidates,
                                                  .kernel_open = cudnn_kernel_open };

const ls__cuda_provider *const ls__cuda_providers[] = { &cudnn_provider, &ls__cuda_own_provider,
                                                        NULL };
