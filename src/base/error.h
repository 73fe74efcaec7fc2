/* error.h: the sticky error of a context, and how private code reports one. */
#ifndef LS_BASE_ERROR_H
#define LS_BASE_ERROR_H

#include <lockstep/context.h>
#include <stdarg.h>

/* Keeps the error when none is kept yet (the first one wins), and returns `status`. ctx NULL:
 * returns it only. The text says which call or layer, what it got and what it wanted. */
ls_status ls__fail(ls_context *ctx, ls_status status, const char *format, ...) LS_PRINTF(3, 4);
ls_status ls__fail_v(ls_context *ctx, ls_status status, const char *format, va_list args);

/* "NAME: out of memory, N bytes asked": for the library's own host memory. bytes 0 = not known. */
ls_status ls__fail_memory(ls_context *ctx, const char *what, size_t bytes);

/* "TEXT: the system's reason" for a call that failed with errno `error`: LS_ERR_NOT_FOUND for
 * ENOENT, else LS_ERR_IO. */
ls_status ls__fail_errno(ls_context *ctx, int error, const char *format, ...) LS_PRINTF(3, 4);

/* Puts "TEXT: " before the error that is kept: where it happened. */
void ls__error_in(ls_context *ctx, const char *format, ...) LS_PRINTF(2, 3);

/* Is an error kept? Yes for NULL, which an earlier failure left behind. Public verbs
 * begin with LS__ENTER, public makers with LS__ENTER_NULL. */
bool ls__has_error(const ls_context *ctx);

#define LS__ENTER(ctx)                                                                             \
    do {                                                                                           \
        if (ls__has_error(ctx)) return LS_ERR_EARLIER;                                             \
    } while (0)
#define LS__ENTER_NULL(ctx)                                                                        \
    do {                                                                                           \
        if (ls__has_error(ctx)) return NULL;                                                       \
    } while (0)

/* A warning, or news, for the user's log callback; the context keeps warnings too. May be called
 * from any thread. */
void ls__warn(ls_context *ctx, const char *format, ...) LS_PRINTF(2, 3);
void ls__inform(ls_context *ctx, const char *format, ...) LS_PRINTF(2, 3);
/* Releases the kept warnings. */
void ls__forget_warnings(ls_context *ctx);

/* The system's reason for an errno, as strerror but thread-safe. May or may not use buffer. */
enum { LS__ERRNO_TEXT_SIZE = 128 };
const char *ls__errno_text(int error, char *buffer, size_t size);

#endif
