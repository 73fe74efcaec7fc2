/* owned.c: the list of objects that a context owns; see context.h. */
#include "base/alloc.h"
#include "base/context.h"
#include "base/error.h"

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

void *ls__open_owned(ls_context *ctx, const char *what, size_t bytes,
                     void (*close)(ls__owned *self))
{
    ls__owned *object = ls__zalloc(ctx, bytes);
    if (object)
        ls__own(ctx, object, close);
    else
        ls__fail_memory(ctx, what, bytes);
    return object;
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
