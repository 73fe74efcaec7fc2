/* providers.c: what the module is built with, and how cuDNN comes in. */
#include "base/alloc.h"
#include "base/error.h"
#include "cuda/cuda.h"
#include "cuda/cudnn/cudnn.h"
#include <string.h>

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

/* cuDNN's weight gradients come without the bias's, which are our own kernel's. */
static bool has_bias_gradient(const ls__op *op)
{
    return op->kind == LS__OP_CONV2D_BACKWARD_WEIGHTS && op->operands[3].shape.n_dims >= 0 &&
           op->operands[3].dtype == LS_F32 && op->operands[1].dtype == LS_F32;
}

static ls__op without_bias(const ls__op *op)
{
    ls__op out = *op;
    if (has_bias_gradient(op)) out.operands[3].shape.n_dims = -1;
    return out;
}

static int cudnn_candidates(ls__cuda *cuda, void *state, const ls__op *op, ls__candidate *out,
                            int max)
{
    (void)cuda;
    const ls__op asked = without_bias(op);
    return ls__cudnn_conv_candidates(state, &asked, out, max);
}

typedef struct bias_kernel {
    ls__kernel kernel; /* first */
    ls__cuda *cuda;
    ls__kernel *weights; /* cuDNN's */
    int64_t pixels, channels;
} bias_kernel;

static ls_status bias_run(ls__kernel *kernel, void *const *buffers, void *workspace,
                          const ls__step *step)
{
    bias_kernel *k = (bias_kernel *)kernel;
    LS_TRY(k->weights->run(k->weights, buffers, workspace, step));
    const int status =
        ls__cuda_column_sums(buffers[1], k->pixels, k->channels, buffers[3], k->cuda->stream);
    return ls__cuda_check(k->cuda, status, "conv2d_backward_weights: the bias's gradient");
}

static void bias_close(ls__kernel *kernel)
{
    bias_kernel *k = (bias_kernel *)kernel;
    if (k->weights) k->weights->close(k->weights);
    ls__free(k->cuda->device.ctx, k);
}

static ls_status cudnn_kernel_open(ls__cuda *cuda, void *state, const ls__op *op, const char *name,
                                   ls__kernel **out)
{
    if (!has_bias_gradient(op)) return ls__cudnn_conv_open(state, op, name, out);
    const ls__op asked = without_bias(op);
    const int64_t *dy = op->operands[1].shape.dims;
    bias_kernel *k = ls__zalloc(cuda->device.ctx, sizeof(*k));
    if (!k) return ls__fail_memory(cuda->device.ctx, name, sizeof(*k));
    k->cuda = cuda;
    k->pixels = dy[0] * dy[1] * dy[2];
    k->channels = dy[3];
    const ls_status status = ls__cudnn_conv_open(state, &asked, name, &k->weights);
    if (status != LS_OK) {
        bias_close(&k->kernel);
        return status;
    }
    memcpy(k->kernel.name, k->weights->name, sizeof(k->kernel.name));
    k->kernel.nondeterministic = k->weights->nondeterministic;
    k->kernel.workspace_bytes = k->weights->workspace_bytes;
    k->kernel.run = bias_run;
    k->kernel.close = bias_close;
    *out = &k->kernel;
    return LS_OK;
}

static const ls__cuda_provider cudnn_provider = { .name = "cudnn",
                                                  .open = cudnn_open,
                                                  .close = cudnn_close,
                                                  .library = cudnn_library,
                                                  .candidates = cudnn_candidates,
                                                  .kernel_open = cudnn_kernel_open };

const ls__cuda_provider *const ls__cuda_providers[] = { &cudnn_provider, &ls__cuda_blas_provider,
                                                        &ls__cuda_own_provider, NULL };
