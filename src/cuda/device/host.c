/* host.c: the module's side of tensor/module.h: the core's functions under their own names, so that
 * the rest of the backend, and the files of base/ and tensor/ that are built into the module as
 * well, need not know that they are in one. */
#include "base/alloc.h"
#include "base/error.h"
#include "cuda/device/device.h"
#include "backend/module.h"
#include <stdio.h>

enum { LOG_TEXT_SIZE = 1024 };

static const ls__host *_Atomic host; /* contexts may be opened by several threads */

LS__MODULE_EXPORT ls__module_open_fn ls__module_open;

const ls__module *ls__module_open(const ls__host *given)
{
    static const ls__module module = { LS__MODULE_VERSION, LS__VERSION, &ls__cuda_backend };
    if (given->version == LS__MODULE_VERSION) host = given;
    return &module;
}

ls_status ls__fail_v(ls_context *ctx, ls_status status, const char *format, va_list args)
{
    return host->fail_v(ctx, status, format, args);
}

ls_status ls__fail(ls_context *ctx, ls_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    host->fail_v(ctx, status, format, args);
    va_end(args);
    return status;
}

ls_status ls__fail_memory(ls_context *ctx, const char *what, size_t bytes)
{
    return ls__fail(ctx, LS_ERR_MEMORY, "%s: out of memory, %zu bytes asked", what, bytes);
}

/* The table's functions for the log take no va_list. */
static void log_text(void (*log)(ls_context *ctx, const char *format, ...), ls_context *ctx,
                     const char *format, va_list args)
{
    char text[LOG_TEXT_SIZE];
    vsnprintf(text, sizeof(text), format, args);
    log(ctx, "%s", text);
}

void ls__warn(ls_context *ctx, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_text(host->warn, ctx, format, args);
    va_end(args);
}

void ls__inform(ls_context *ctx, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_text(host->inform, ctx, format, args);
    va_end(args);
}

bool ls__has_error(const ls_context *ctx)
{
    return host->has_error(ctx);
}

void *ls__alloc(const ls_context *ctx, size_t bytes)
{
    return host->alloc(ctx, bytes);
}

void *ls__zalloc(const ls_context *ctx, size_t bytes)
{
    return host->zalloc(ctx, bytes);
}

void ls__free(const ls_context *ctx, void *memory)
{
    host->free(ctx, memory);
}
