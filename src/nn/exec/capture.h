/* capture.h: captures ranges of a call list as graphs, which a backend launches by one call. */
#ifndef LS_NN_EXEC_CAPTURE_H
#define LS_NN_EXEC_CAPTURE_H

#include "nn/exec/run_call.h"

/* Runs `calls` [begin, end) as a captured graph if possible and sets *launched.
 * Otherwise nothing is queued; the caller runs the calls one by one and sets `was_run`. */
ls_status ls__capture_launch(ls_context *ctx, ls__call *const *calls, ls__capture *capture,
                             const ls__step *step, bool *launched);

#endif
