/* status.h: the status that a call returns.
 *
 * An action returns an ls_status. A call that creates an object returns a pointer, or NULL when it
 * fails; the error is then kept in the context (see context.h). Codes and texts are defined by one
 * list. */
#ifndef LOCKSTEP_STATUS_H
#define LOCKSTEP_STATUS_H

#include <lockstep/export.h>

LS_BEGIN_DECLARATIONS

/* X(name, text) */
#define LS_STATUS_LIST(X)                                                                          \
    X(OK, "ok")                                                                                    \
    X(ERR_INVALID, "invalid argument")                                                             \
    X(ERR_SHAPE, "shapes do not fit")                                                              \
    X(ERR_TYPE, "data type does not fit")                                                          \
    X(ERR_UNSUPPORTED, "not supported")                                                            \
    X(ERR_MEMORY, "out of memory")                                                                 \
    X(ERR_IO, "input or output failed")                                                            \
    X(ERR_FORMAT, "malformed file")                                                                \
    X(ERR_NOT_FOUND, "not found")                                                                  \
    X(ERR_DATA, "unusable data")                                                                   \
    X(ERR_MISMATCH, "does not belong together")                                                    \
    X(ERR_NONFINITE, "not a finite number")                                                        \
    X(ERR_NONDETERMINISTIC, "no deterministic kernel")                                             \
    X(ERR_DEVICE, "device failed")                                                                 \
    X(ERR_EARLIER, "refused: an earlier error is kept, or a NULL object was passed")

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
