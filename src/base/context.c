/* context.c: a context's error and the list of objects that it owns. backend/context.c opens and
 * closes contexts. */
#include "base/context.h"

ls_status ls_context_status(const ls_context *ctx)
{
    return ctx ? ctx->error : LS_ERR_MEMORY;
}

const char *ls_context_message(const ls_context *ctx)
{
    if (!ctx) return "ls_context_open: out of memory";
    return ctx->error == LS_OK ? "" : ctx->message;
}

void ls_context_clear_error(ls_context *ctx)
{
    if (ctx && !ctx->unusable) ctx->error = LS_OK;
}

const char *ls_version(void)
{
    return LS__VERSION; /* from the build */
}

uint64_t ls_context_seed(const ls_context *ctx)
{
    return ctx ? ctx->config.seed : 0;
}

void ls__own(ls_context *ctx, ls__owned *object, void (*close)(ls__owned *self))
{
    object->ctx = ctx;
    object->close = close;
    object->previous = ctx->last_owned;
    object->next = NULL;
    if (ctx->last_owned) ctx->last_owned->next = object;
    ctx->last_owned = object;
}

void ls__disown_and_close(ls__owned *object)
{
    if (object->previous) object->previous->next = object->next;
    if (object->next)
        object->next->previous = object->previous;
    else
        object->ctx->last_owned = object->previous;
    object->previous = object->next = NULL;
    object->close(object);
}
