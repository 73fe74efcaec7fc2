/* provider.c: cuDNN as a provider of kernels. */
#include "base/alloc.h"
#include "base/error.h"
#include "cuda/cudnn/cudnn.h"
#include "cuda/device/libraries.h"
#include "cuda/kernels/kernels.h"
#include "cuda/provider.h"
#include <string.h>

static ls_status cudnn_open(ls__cuda *cuda, void **state)
{
    ls__cudnn *cudnn;
    LS_TRY(ls__cudnn_open(cuda->device.ctx, NULL, &cudnn));
    *state = cudnn;
    return ls__cudnn_set_stream(cudnn, &cuda->stream);
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

/* Gradients are f32. */
static bool cudnn_supports(const ls__op *op)
{
    if (!ls__cudnn_is_weight_gradient(op)) return true;
    const ls__cudnn_roles r = ls__cudnn_roles_of(op->kind);
    return op->operands[r.w].dtype == LS_F32 &&
           (!ls__cudnn_is_present(op, r.b) || op->operands[r.b].dtype == LS_F32);
}

static int cudnn_candidates(ls__cuda *cuda, void *state, const ls__op *op, ls__candidate *out,
                            int max)
{
    (void)cuda;
    const ls__op cudnn_op = ls__cudnn_conv_of(op);
    return cudnn_supports(op) ? ls__cudnn_candidates(state, &cudnn_op, out, max) : 0;
}

/* Weight gradients that our kernels complete: the bias's gradient, and an f32 dw of 16-bit inputs.
 * The workspace is used by cuDNN, then for the bias's gradient. Behind it is dw in x's type, if
 * that is not f32. */
typedef struct weights_kernel {
    ls__kernel kernel; /* first */
    ls__cuda *cuda;
    ls__kernel *inner; /* cuDNN's */
    ls__op op;
    ls__cudnn_roles roles;
    size_t dw_offset;
} weights_kernel;

static int64_t pixels_of(const ls__operand *dy)
{
    return dy->shape.dims[0] * dy->shape.dims[1] * dy->shape.dims[2];
}

static ls_status weights_run(ls__kernel *kernel, void *const *buffers, void *workspace,
                             const ls__step *step)
{
    weights_kernel *k = (weights_kernel *)kernel;
    const ls__cudnn_roles r = k->roles;
    const ls__operand *x = &k->op.operands[0], *dy = &k->op.operands[r.y];
    const bool is_half = x->dtype != LS_F32;
    void *inner[LS__MAX_OPERANDS] = { NULL };
    for (int i = 0; i < k->op.n_operands; i++) inner[i] = i == r.b ? NULL : buffers[i];
    if (is_half) inner[r.w] = (unsigned char *)workspace + k->dw_offset;
    LS_TRY(k->inner->run(k->inner, inner, workspace, step));
    int status = 0;
    if (is_half)
        status = ls__cuda_cast(LS_F32, buffers[r.w], x->dtype, inner[r.w],
                               ls_shape_element_count(&k->op.operands[r.w].shape), k->cuda->stream);
    if (status == 0 && ls__cudnn_is_present(&k->op, r.b))
        status = ls__cuda_column_sums(dy, buffers[r.y], pixels_of(dy), dy->shape.dims[3],
                                      buffers[r.b], workspace, k->cuda->stream);
    return ls__cuda_check(k->cuda, status, ls__op_name(k->op.kind));
}

static void weights_close(ls__kernel *kernel)
{
    weights_kernel *k = (weights_kernel *)kernel;
    if (k->inner) k->inner->close(k->inner);
    ls__free(k->cuda->device.ctx, k);
}

static void size_workspace(weights_kernel *k)
{
    const ls__operand *x = &k->op.operands[0], *dy = &k->op.operands[k->roles.y],
                      *dw = &k->op.operands[k->roles.w];
    size_t bytes = k->inner->workspace_bytes;
    if (ls__cudnn_is_present(&k->op, k->roles.b)) {
        const size_t sums = ls__cuda_column_sums_workspace(dy, pixels_of(dy), dy->shape.dims[3]);
        if (bytes < sums) bytes = sums;
    }
    k->dw_offset = ls__round_up(bytes, LS__CUDNN_ALIGNMENT);
    if (x->dtype != LS_F32)
        bytes =
            k->dw_offset + (size_t)ls_shape_element_count(&dw->shape) * ls_dtype_bytes(x->dtype);
    k->kernel.workspace_bytes = bytes;
}

static ls_status cudnn_kernel_open(ls__cuda *cuda, void *state, const ls__op *op, const char *name,
                                   ls__kernel **out)
{
    const ls__op cudnn_op = ls__cudnn_conv_of(op);
    const bool is_f32 = op->operands[0].dtype == LS_F32;
    if (!cudnn_supports(op))
        return ls__fail(cuda->device.ctx, LS_ERR_UNSUPPORTED,
                        "%s: kernel '%s' computes f32 gradients only", ls__op_name(op->kind), name);
    const ls__cudnn_roles roles = ls__cudnn_roles_of(op->kind);
    if (!ls__cudnn_is_weight_gradient(op) || (is_f32 && !ls__cudnn_is_present(op, roles.b)))
        return ls__cudnn_kernel_open(state, op, name, out);
    weights_kernel *k = ls__zalloc(cuda->device.ctx, sizeof(*k));
    if (!k) return ls__fail_memory(cuda->device.ctx, name, sizeof(*k));
    k->cuda = cuda;
    k->op = *op;
    k->roles = roles;
    const ls_status status = ls__cudnn_kernel_open(state, &cudnn_op, name, &k->inner);
    if (status != LS_OK) {
        weights_close(&k->kernel);
        return status;
    }
    memcpy(k->kernel.name, k->inner->name, sizeof(k->kernel.name));
    k->kernel.nondeterministic = k->inner->nondeterministic;
    k->kernel.unproven = k->inner->unproven;
    k->kernel.error_bound =
        is_f32 ? k->inner->error_bound : ls__cuda_rounding(op->operands[0].dtype);
    size_workspace(k);
    k->kernel.run = weights_run;
    k->kernel.close = weights_close;
    *out = &k->kernel;
    return LS_OK;
}

const ls__cuda_provider ls__cuda_cudnn = { .name = "cudnn",
                                           .title = "cuDNN",
                                           .load = ls__cudnn_load,
                                           .channel_multiple = LS__CUDNN_CHANNEL_MULTIPLE,
                                           .open = cudnn_open,
                                           .close = cudnn_close,
                                           .library = cudnn_library,
                                           .candidates = cudnn_candidates,
                                           .kernel_open = cudnn_kernel_open };
