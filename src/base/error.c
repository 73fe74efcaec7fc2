/* error.c: statuses as text, and the sticky error of a context. */
#include "base/error.h"

#include "base/alloc.h"
#include "base/context.h"
#include "base/text.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

const char *ls_status_text(ls_status status)
{
    static const char *const texts[] = {
#define STATUS_TEXT(name, text) text,
        LS_STATUS_LIST(STATUS_TEXT)
#undef STATUS_TEXT
    };
    const size_t n = sizeof(texts) / sizeof(texts[0]);
    return (size_t)status < n ? texts[(size_t)status] : "unknown status";
}

bool ls__has_error(const ls_context *ctx)
{
    return !ctx || ctx->error != LS_OK;
}

ls_status ls__enter(ls_context *ctx)
{
    if (ls__has_error(ctx)) return LS_ERR_EARLIER;
    if (!ls__is_forked(ctx)) return LS_OK;
    return ls__fail(ctx, LS_ERR_UNSUPPORTED,
                    "process %" PRId64 " opened this context; process %ld, which fork made of it, "
                    "has none of its threads and can only close it: open a context of its own "
                    "there, or fork before ls_context_open",
                    ctx->process, (long)getpid());
}

ls_status ls__fail_v(ls_context *ctx, ls_status status, const char *format, va_list args)
{
    if (ctx && ctx->error == LS_OK) {
        ctx->error = status;
        ctx->hint[0] = '\0';
        ls__vsnprintf(ctx->message, sizeof(ctx->message), format, args);
    }
    return status;
}

ls_status ls__fail(ls_context *ctx, ls_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    ls__fail_v(ctx, status, format, args);
    va_end(args);
    return status;
}

ls_status ls__fail_null(ls_context *ctx, const char *call, const char *name)
{
    LS__ENTER(ctx);
    return ls__fail(ctx, LS_ERR_INVALID, "%s: %s is NULL", call, name);
}

ls_status ls__fail_memory(ls_context *ctx, const char *what, size_t bytes)
{
    if (bytes == 0) return ls__fail(ctx, LS_ERR_MEMORY, "%s: out of memory", what);
    return ls__fail(ctx, LS_ERR_MEMORY, "%s: out of memory, %zu bytes requested", what, bytes);
}

ls_status ls__fail_errno(ls_context *ctx, int error, const char *format, ...)
{
    char text[LS__MESSAGE_SIZE], reason[LS__ERRNO_TEXT_SIZE];
    va_list args;
    va_start(args, format);
    ls__vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return ls__fail(ctx, error == ENOENT ? LS_ERR_NOT_FOUND : LS_ERR_IO, "%s: %s", text,
                    ls__errno_text(error, reason, sizeof(reason)));
}

void ls__error_in(ls_context *ctx, const char *format, ...)
{
    char message[LS__MESSAGE_SIZE];
    va_list args;
    if (ctx->error == LS_OK) return;
    memcpy(message, ctx->message, sizeof(message));
    va_start(args, format);
    ls__vsnprintf(ctx->message, sizeof(ctx->message), format, args);
    va_end(args);
    const size_t length = strlen(ctx->message);
    ls__snprintf(ctx->message + length, sizeof(ctx->message) - length, ": %s", message);
}

void ls__error_hint(ls_context *ctx, const char *format, ...)
{
    va_list args;
    if (!ctx || ctx->error == LS_OK || ctx->hint[0]) return;
    va_start(args, format);
    ls__vsnprintf(ctx->hint, sizeof(ctx->hint), format, args);
    va_end(args);
}

void ls__copy_error(ls_context *ctx, const ls_context *from)
{
    const ls_status status = ls_context_status(from);
    if (status == LS_OK || ls__has_error(ctx)) return;
    ls__fail(ctx, status, "%s", ls_context_message(from));
    if (*ls_context_hint(from)) ls__error_hint(ctx, "%s", ls_context_hint(from));
}

static void keep_warning(ls_context *ctx, const char *message)
{
    const int64_t i = atomic_fetch_add(&ctx->n_warnings, 1);
    if (i < LS__KEPT_WARNINGS) atomic_store(&ctx->warnings[i], ls__strdup(ctx, message));
}

static void log_message(ls_context *ctx, ls_log_level level, ls_log_category category,
                        const char *format, va_list args)
{
    char message[LS__MESSAGE_SIZE];
    if (!ctx) return;
    ls__vsnprintf(message, sizeof(message), format, args);
    if (level == LS_LOG_WARNING) keep_warning(ctx, message);
    if (ctx->config.log) ctx->config.log(ctx->config.log_user, level, category, message);
}

void ls__warn(ls_context *ctx, ls_log_category category, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_message(ctx, LS_LOG_WARNING, category, format, args);
    va_end(args);
}

void ls__note(ls_context *ctx, ls_log_category category, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_message(ctx, LS_LOG_NOTE, category, format, args);
    va_end(args);
}

void ls__inform(ls_context *ctx, ls_log_category category, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_message(ctx, LS_LOG_INFO, category, format, args);
    va_end(args);
}

int64_t ls_context_warning_count(const ls_context *ctx)
{
    const int64_t n = ctx ? atomic_load(&ctx->n_warnings) : 0;
    return n < LS__KEPT_WARNINGS ? n : LS__KEPT_WARNINGS;
}

int64_t ls_context_dropped_warning_count(const ls_context *ctx)
{
    return ctx ? atomic_load(&ctx->n_warnings) - ls_context_warning_count(ctx) : 0;
}

const char *ls_context_warning(const ls_context *ctx, int64_t i)
{
    if (i < 0 || i >= ls_context_warning_count(ctx)) return NULL;
    const char *text = atomic_load(&ctx->warnings[i]);
    return text ? text : "a warning that could not be stored: out of memory";
}

void ls__forget_warnings(ls_context *ctx)
{
    for (int i = 0; i < LS__KEPT_WARNINGS; i++)
        ls__free(ctx, atomic_exchange(&ctx->warnings[i], NULL));
    atomic_store(&ctx->n_warnings, 0);
}

const char *ls__errno_text(int error, char *buffer, size_t size)
{
    return strerror_r(error, buffer, size);
}
