/* readback.c: see readback.h. */
#include "backend/readback.h"

#include "base/context.h"
#include "base/error.h"
#include "backend/pool.h"
#include <string.h>

ls_status ls__readback_open(ls__readback *readback, ls_context *ctx, const char *call, size_t bytes)
{
    *readback = (ls__readback){ .ctx = ctx, .bytes = bytes };
    ls_status status = ctx->device->backend->event_open(ctx->device, &readback->copied);
    if (status == LS_OK) {
        readback->memory = ls__pool_allocate(ctx->pool, bytes);
        readback->host = ls__pool_allocate(ctx->host_pool, bytes);
        if (!readback->memory || !readback->host)
            status =
                ls__pool_fail(readback->memory ? ctx->host_pool : ctx->pool, bytes, "%s", call);
    }
    if (status != LS_OK) ls__readback_close(readback);
    return status;
}

void ls__readback_close(ls__readback *readback)
{
    ls_context *ctx = readback->ctx;
    if (!ctx) return;
    /* A pending copy must not write into released memory. */
    if (ls__readback_wait(readback) != LS_OK) (void)ctx->device->backend->wait(ctx->device);
    if (readback->copied) ctx->device->backend->event_close(ctx->device, readback->copied);
    ls__pool_release(ctx->pool, readback->memory);
    ls__pool_release(ctx->host_pool, readback->host);
    *readback = (ls__readback){ 0 };
}

ls_status ls__readback_clear(ls__readback *readback)
{
    return readback->ctx->device->backend->clear(readback->ctx->device, readback->memory,
                                                 readback->bytes);
}

ls_status ls__readback_send(ls__readback *readback)
{
    ls__device *device = readback->ctx->device;
    LS_TRY(device->backend->download(device, readback->host, readback->memory, readback->bytes));
    const ls_status status = device->backend->event_record(device, readback->copied);
    readback->sent = status == LS_OK;
    if (!readback->sent) (void)device->backend->wait(device); /* no event to wait for */
    return status;
}

ls_status ls__readback_wait(ls__readback *readback)
{
    ls__device *device = readback->ctx->device;
    if (!readback->sent) return LS_OK;
    LS_TRY(device->backend->event_wait(device, readback->copied));
    readback->sent = false;
    return LS_OK;
}
