/* context.c: a context's error and settings. backend/context.c opens and closes contexts. */
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
    return LS_VERSION;
}

uint64_t ls_context_seed(const ls_context *ctx)
{
    return ctx ? ctx->config.seed : 0;
}

bool ls__is_forked(const ls_context *ctx)
{
    return ctx->process != 0 && ctx->process != getpid();
}
