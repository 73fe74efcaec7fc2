/* context.c: a context's error and the list of objects that it owns. backend/context.c opens and
 * closes contexts. */
#include "base/context.h"

#include <unistd.h>

ls_status ls_context_status(const ls_context *ctx)
{
    return ctx ? ctx->error : LS_ERR_MEMORY;
}

const char *ls_context_message(const ls_context *ctx)
{
    if (!ctx) return "ls_context_open: out of memory";
    return ctx->error == LS_OK ? "" : ctx->message;
}

const char *ls_context_hint(const ls_context *ctx)
{
    return ctx && ctx->error != LS_OK ? ctx->hint : "";
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
    object->n_users = 0;
    object->is_closed = false;
    object->previous = ctx->last_owned;
    object->next = NULL;
    if (ctx->last_owned) ctx->last_owned->next = object;
    ctx->last_owned = object;
}

static void unlink_and_close(ls__owned *object)
{
    ls_context *ctx = object->ctx;
    if (object->previous) object->previous->next = object->next;
    if (object->next)
        object->next->previous = object->previous;
    else
        ctx->last_owned = object->previous;
    object->previous = object->next = NULL;
    if (!ctx->is_remote || !ls__is_forked(ctx)) object->close(object);
}

void ls__disown_and_close(ls__owned *object)
{
    if (object->n_users > 0)
        object->is_closed = true;
    else
        unlink_and_close(object);
}

void ls__close_last_owned(ls_context *ctx)
{
    unlink_and_close(ctx->last_owned);
}

void ls__use(void *used)
{
    if (used) ((ls__owned *)used)->n_users++;
}

void ls__release(void *used)
{
    ls__owned *object = used;
    if (object && --object->n_users == 0 && object->is_closed) unlink_and_close(object);
}

bool ls__is_forked(const ls_context *ctx)
{
    return ctx->process != 0 && ctx->process != getpid();
}
