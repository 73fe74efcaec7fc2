/* trial.c: see trial.h. */
#include "nn/trial.h"

#include "base/error.h"
#include "nn/net_state.h"
#include "tensor/pool.h"

#include <string.h>

bool ls__trial_memory_open(ls_context *ctx, const ls__op *op, const ls__kernel *kernel,
                           ls__trial_memory *out)
{
    ls__device *device = ctx->device;
    memset(out, 0, sizeof *out);
    for (int i = 0; i < op->n_operands; i++) {
        const ls__operand *operand = &op->operands[i];
        if (ls__is_absent(operand)) continue;
        const size_t bytes =
            (size_t)ls_shape_count(&operand->shape) * ls_dtype_bytes(operand->dtype);
        out->buffers[i] = ls__pool_allocate(ctx->pool, bytes);
        if (!out->buffers[i] || device->backend->clear(device, out->buffers[i], bytes) != LS_OK)
            return false;
    }
    out->workspace = ls__pool_allocate(ctx->pool, kernel->workspace_bytes);
    return out->workspace != NULL;
}

void ls__trial_memory_close(ls_context *ctx, ls__trial_memory *memory)
{
    ls__pool_release(ctx->pool, memory->workspace);
    for (int i = 0; i < LS__MAX_OPERANDS; i++) ls__pool_release(ctx->pool, memory->buffers[i]);
}

static ls_status run_once(ls_context *ctx, const ls__op *op, ls__kernel *kernel)
{
    ls__device *device = ctx->device;
    const ls__backend *backend = device->backend;
    const ls__step step = { 0 };
    ls__trial_memory memory;
    ls_status status = LS_OK;
    if (ls__trial_memory_open(ctx, op, kernel, &memory)) {
        backend->begin(device);
        status = kernel->run(kernel, memory.buffers, memory.workspace, &step);
        if (status == LS_OK) status = backend->wait(device);
        backend->end(device);
    } else if (ls__has_error(ctx)) {
        status = ctx->error;
    }
    ls__trial_memory_close(ctx, &memory);
    return status;
}

ls_status ls__net_try_kernel(ls_net *net, const ls__op *op, ls__kernel *kernel)
{
    ls_context *ctx = net->owned.ctx;
    char text[LS__OP_TEXT_SIZE];
    if (!kernel->unproven || net->plans_only) return LS_OK;
    ls__op_text(op, text, sizeof text);
    const ls__choice *tried = ls__choices_find(net->tried, text);
    if (tried && strcmp(tried->kernel, kernel->name) == 0) return LS_OK;
    LS_TRY(run_once(ctx, op, kernel));
    ls__choice choice = { .op = text };
    memcpy(choice.kernel, kernel->name, sizeof choice.kernel);
    LS_TRY(ls__choices_put(ctx, net->tried, &choice));
    ls__choices_keep_recent(net->tried, LS__MAX_CHOICES);
    return LS_OK;
}

int ls__net_tried(ls_net *net, const ls__op *op, const ls__candidate *candidates, int n)
{
    char text[LS__OP_TEXT_SIZE];
    ls__op_text(op, text, sizeof text);
    const ls__choice *tried = ls__choices_find(net->tried, text);
    for (int i = 0; i < n && tried; i++)
        if (strcmp(candidates[i].name, tried->kernel) == 0) return i;
    return -1;
}

bool ls__forgive_failed_run(ls_context *ctx)
{
    /* Whether the device is lost shows when it is waited for. */
    if (!ctx->unusable) (void)ctx->device->backend->wait(ctx->device);
    if (!ls__has_error(ctx) || ctx->unusable || ctx->error == LS_ERR_MEMORY) return false;
    (void)ls_context_status(ctx);
    return true;
}
