/* trial.c: see trial.h. */
#include "nn/trial.h"

#include "base/error.h"
#include "nn/net_state.h"
#include "tensor/pool.h"

#include <string.h>

/* Zeroed memory for an op's operands, and a workspace. */
typedef struct memory {
    void *buffers[LS__MAX_OPERANDS], *workspace;
} memory;

/* False without memory for all, or after an error, which is kept. To be closed in any case. */
static bool open_memory(ls_context *ctx, const ls__op *op, const ls__kernel *kernel, memory *out)
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

static void close_memory(ls_context *ctx, memory *m)
{
    ls__pool_release(ctx->pool, m->workspace);
    for (int i = 0; i < LS__MAX_OPERANDS; i++) ls__pool_release(ctx->pool, m->buffers[i]);
}

/* Without memory the kernel is not run, and *ran stays false. */
static ls_status run_once(ls_context *ctx, const ls__op *op, ls__kernel *kernel, bool *ran)
{
    ls__device *device = ctx->device;
    const ls__backend *backend = device->backend;
    const ls__step step = { 0 };
    memory m;
    ls_status status = LS_OK;
    if (open_memory(ctx, op, kernel, &m)) {
        *ran = true;
        backend->begin(device);
        status = kernel->run(kernel, m.buffers, m.workspace, &step);
        if (status == LS_OK) status = backend->wait(device);
        backend->end(device);
    } else if (ls__has_error(ctx)) {
        status = ctx->error;
    }
    close_memory(ctx, &m);
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
    bool ran = false;
    LS_TRY(run_once(ctx, op, kernel, &ran));
    if (!ran) return LS_OK;
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
