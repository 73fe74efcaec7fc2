/* module_host.c: the core's functions under their own names, called through the table that the core
 * gives the module (module.h). So a module, and the files of the core that are also built into it,
 * call them as the core does. */
#include "backend/module_host.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "comm/comm.h"
#include <stdio.h>

enum { LOG_TEXT_SIZE = 1024 };

static const ls__host *_Atomic host; /* several threads may open contexts */

void ls__module_set_host(const ls__host *given)
{
    host = given;
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
    return ls__fail(ctx, LS_ERR_MEMORY, "%s: out of memory, %zu bytes requested", what, bytes);
}

/* The table's log functions have no va_list variants. */
static void log_text(void (*log)(ls_context *ctx, ls_log_category category, const char *format,
                                 ...),
                     ls_context *ctx, ls_log_category category, const char *format, va_list args)
{
    char text[LOG_TEXT_SIZE];
    ls__vsnprintf(text, sizeof(text), format, args);
    log(ctx, category, "%s", text);
}

void ls__warn(ls_context *ctx, ls_log_category category, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_text(host->warn, ctx, category, format, args);
    va_end(args);
}

void ls__inform(ls_context *ctx, ls_log_category category, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_text(host->inform, ctx, category, format, args);
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

ls_status ls__comm_gather(ls__comm *comm, const void *own, size_t bytes, void *all,
                          const char *what)
{
    return host->comm_gather(comm, own, bytes, all, what);
}

ls_status ls__comm_fail_wait(ls__comm *comm, const char *what)
{
    return host->comm_fail_wait(comm, what);
}
