/* status.h: the status that a call returns.
 *
 * An action returns an ls_status. A call that creates an object returns a pointer, or NULL when it
 * fails; the error is then kept in the context (see context.h). */
#ifndef LOCKSTEP_STATUS_H
#define LOCKSTEP_STATUS_H

#include <lockstep/export.h>

LS_BEGIN_DECLARATIONS

/* X(name, text) */
#define LS_STATUS_LIST(X)                                                                          \
    X(OK, "ok")                                                                                    \
    X(ERR_INVALID, "invalid argument")                                                             \
    X(ERR_SHAPE, "incompatible shapes")                                                            \
    X(ERR_TYPE, "wrong data type")                                                                 \
    X(ERR_UNSUPPORTED, "not supported")                                                            \
    X(ERR_MEMORY, "out of memory")                                                                 \
    X(ERR_IO, "input or output failed")                                                            \
    X(ERR_FORMAT, "malformed file")                                                                \
    X(ERR_NOT_FOUND, "not found")                                                                  \
    X(ERR_DATA, "unusable data")                                                                   \
    X(ERR_MISMATCH, "mismatch")                                                                    \
    X(ERR_NONFINITE, "not finite")                                                                 \
    X(ERR_NONDETERMINISTIC, "no deterministic kernel")                                             \
    X(ERR_DEVICE, "device failed")                                                                 \
    X(ERR_TIMEOUT, "timed out")                                                                    \
    X(ERR_EARLIER, "not run: the context has an earlier error, or an object is NULL")              \
    X(ERR_SETTING, "unusable setting of a run")

typedef enum ls_status {
#define LS_STATUS_ENUM(name, text) LS_##name,
    LS_STATUS_LIST(LS_STATUS_ENUM)
#undef LS_STATUS_ENUM
} ls_status;

/* One line of text for a status, static. Never NULL. */
LS_API const char *ls_status_text(ls_status status);

/* Returns the status of `call` from the calling function unless it is LS_OK. */
#define LS_TRY(call)                                                                               \
    do {                                                                                           \
        ls_status ls_try_status_ = (call);                                                         \
        if (ls_try_status_ != LS_OK) return ls_try_status_;                                        \
    } while (0)

LS_END_DECLARATIONS

#endif
