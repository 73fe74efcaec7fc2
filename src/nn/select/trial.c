/* trial.c: see trial.h. */
#include "nn/select/trial.h"

#include "base/error.h"
#include "nn/select/selector.h"
#include "nn/select/op_memory.h"

#include <string.h>

/* Runs over zeros. If memory is short, the kernel does not run and *ran stays false. */
static ls_status run_once(ls_context *ctx, const ls__op *op, ls__kernel *kernel, bool *ran)
{
    ls__device *device = ctx->device;
    const ls__backend *backend = device->backend;
    const ls__step step = { 0 };
    ls__instruction in = { .op = *op };
    ls__op_memory memory;
    for (int i = 0; i < op->n_operands; i++) in.operands[i] = i;
    ls_status status = ls__op_memory_open(&memory, ctx, &in, 1, LS__ZEROS);
    if (status == LS_OK) status = ls__op_memory_set_workspace(&memory, &kernel);
    if (status == LS_OK) {
        *ran = true;
        backend->begin(device);
        status = kernel->run(kernel, memory.buffers[0], memory.workspace, &step);
        if (status == LS_OK) status = backend->wait(device);
        backend->end(device);
    } else if (status == LS_ERR_MEMORY) {
        status = LS_OK;
        ls_context_clear_error(ctx);
    }
    ls__op_memory_close(&memory);
    return status;
}

ls_status ls__selector_try_kernel(ls__selector *s, const ls__op *op, ls__kernel *kernel)
{
    ls_context *ctx = s->ctx;
    char text[LS__OP_TEXT_SIZE];
    if (!kernel->unproven || s->never_runs) return LS_OK;
    ls__op_text(op, text, sizeof text);
    const ls__selection *tried = ls__selections_find(s->tried, text);
    if (tried && strcmp(tried->kernel, kernel->name) == 0) return LS_OK;
    bool ran = false;
    LS_TRY(run_once(ctx, op, kernel, &ran));
    if (!ran) return LS_OK;
    ls__selection selection = { .op = text };
    memcpy(selection.kernel, kernel->name, sizeof selection.kernel);
    LS_TRY(ls__selections_put(ctx, s->tried, &selection));
    ls__selections_keep_recent(s->tried, LS__MAX_SELECTIONS);
    return LS_OK;
}

int ls__selector_tried(ls__selector *s, const ls__op *op, const ls__candidate *candidates, int n)
{
    char text[LS__OP_TEXT_SIZE];
    ls__op_text(op, text, sizeof text);
    const ls__selection *tried = ls__selections_find(s->tried, text);
    for (int i = 0; i < n && tried; i++)
        if (strcmp(candidates[i].name, tried->kernel) == 0) return i;
    return -1;
}

bool ls__forgive_failed_run(ls_context *ctx)
{
    /* Waiting detects a lost device. */
    if (!ctx->unusable) (void)ctx->device->backend->wait(ctx->device);
    if (!ls__has_error(ctx) || ctx->unusable) return false;
    ls_context_clear_error(ctx);
    return true;
}
