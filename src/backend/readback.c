/* readback.c: see late.h. */
#include "backend/readback.h"

#include "base/context.h"
#include "base/error.h"
#include "backend/pool.h"
#include <string.h>

ls_status ls__readback_open(ls__readback *late, ls_context *ctx, const char *call, size_t bytes)
{
    *late = (ls__readback){ .ctx = ctx, .bytes = bytes };
    ls_status status = ctx->device->backend->event_open(ctx->device, &late->come);
    if (status == LS_OK) {
        late->memory = ls__pool_allocate(ctx->pool, bytes);
        late->host = ls__pool_allocate(ctx->host_pool, bytes);
        if (!late->memory || !late->host)
            status = ls__pool_fail(late->memory ? ctx->host_pool : ctx->pool, bytes, "%s", call);
    }
    if (status != LS_OK) ls__readback_close(late);
    return status;
}

void ls__readback_close(ls__readback *late)
{
    ls_context *ctx = late->ctx;
    if (!ctx) return;
    /* What may still come must not come into memory that is another's. */
    if (ls__readback_wait(late) != LS_OK) (void)ctx->device->backend->wait(ctx->device);
    if (late->come) ctx->device->backend->event_close(ctx->device, late->come);
    ls__pool_release(ctx->pool, late->memory);
    ls__pool_release(ctx->host_pool, late->host);
    *late = (ls__readback){ 0 };
}

ls_status ls__readback_clear(ls__readback *late)
{
    return late->ctx->device->backend->clear(late->ctx->device, late->memory, late->bytes);
}

ls_status ls__readback_send(ls__readback *late)
{
    ls__device *device = late->ctx->device;
    LS_TRY(device->backend->download(device, late->host, late->memory, late->bytes));
    const ls_status status = device->backend->event_record(device, late->come);
    late->sent = status == LS_OK;
    if (!late->sent) (void)device->backend->wait(device); /* nothing else can be waited for */
    return status;
}

ls_status ls__readback_wait(ls__readback *late)
{
    ls__device *device = late->ctx->device;
    if (!late->sent) return LS_OK;
    LS_TRY(device->backend->event_wait(device, late->come));
    late->sent = false;
    return LS_OK;
}
