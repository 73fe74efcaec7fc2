/* error.h: the sticky error of a context, and functions that report errors and warnings. */
#ifndef LS_BASE_ERROR_H
#define LS_BASE_ERROR_H

#include <lockstep/context.h>
#include <stdarg.h>

/* Stores the error unless the context has one already, and returns `status`; ctx may be NULL. The
 * text names the call or layer, the actual and the expected value. */
ls_status ls__fail(ls_context *ctx, ls_status status, const char *format, ...) LS_PRINTF(3, 4);
ls_status ls__fail_v(ls_context *ctx, ls_status status, const char *format, va_list args);

/* "NAME: out of memory, N bytes requested": for the library's own host memory. bytes 0 = unknown.
 */
ls_status ls__fail_memory(ls_context *ctx, const char *what, size_t bytes);

/* "TEXT: the system's reason" for a call that failed with errno `error`: LS_ERR_NOT_FOUND for
 * ENOENT, else LS_ERR_IO. */
ls_status ls__fail_errno(ls_context *ctx, int error, const char *format, ...) LS_PRINTF(3, 4);

/* Prepends "TEXT: ", the place of the error, to the stored message. */
void ls__error_in(ls_context *ctx, const char *format, ...) LS_PRINTF(2, 3);

/* Stores what the user can do about the stored error; without one it does nothing. */
void ls__error_hint(ls_context *ctx, const char *format, ...) LS_PRINTF(2, 3);

/* Stores the error of another context with its hint, if it has one, as ls__fail does. */
void ls__copy_error(ls_context *ctx, const ls_context *from);

/* True for a stored error, and for NULL, the result of an earlier failure. */
bool ls__has_error(const ls_context *ctx);

/* LS_ERR_EARLIER for a stored error and for NULL; LS_ERR_UNSUPPORTED in a child made by fork.
 * Public verbs begin with LS__ENTER, public constructors with LS__ENTER_NULL. */
ls_status ls__enter(ls_context *ctx);
#define LS__ENTER(ctx) LS_TRY(ls__enter(ctx))
#define LS__ENTER_NULL(ctx)                                                                        \
    do {                                                                                           \
        if (ls__enter(ctx) != LS_OK) return NULL;                                                  \
    } while (0)

/* Stores "CALL: NAME is NULL" unless the context has an error already, of which the NULL may be the
 * result. Returns LS_ERR_INVALID, or LS_ERR_EARLIER. */
ls_status ls__fail_null(ls_context *ctx, const char *call, const char *name);

/* Pass a message to the user's log callback; the context also stores warnings. Thread-safe. */
void ls__warn(ls_context *ctx, ls_log_category category, const char *format, ...) LS_PRINTF(3, 4);
void ls__note(ls_context *ctx, ls_log_category category, const char *format, ...) LS_PRINTF(3, 4);
void ls__inform(ls_context *ctx, ls_log_category category, const char *format, ...) LS_PRINTF(3, 4);
/* Frees the stored warnings. */
void ls__forget_warnings(ls_context *ctx);

/* Returns strerror's text; thread-safe. The text may be in `buffer` or static. */
enum { LS__ERRNO_TEXT_SIZE = 128 };
const char *ls__errno_text(int error, char *buffer, size_t size);

#endif
