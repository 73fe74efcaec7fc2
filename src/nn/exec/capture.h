/* capture.h: ranges of a call list as graphs, which a backend captures once and launches by one
 * call. */
#ifndef LS_NN_EXEC_CAPTURE_H
#define LS_NN_EXEC_CAPTURE_H

#include "nn/exec/run_call.h"

/* Runs `calls` [begin, end) by a captured graph where that can be: *launched is then true.
 * Otherwise nothing has been queued, and the caller runs them one by one, after which `was_run` is
 * set. */
ls_status ls__capture_launch(ls_context *ctx, ls__call *const *calls, ls__capture *capture,
                             const ls__step *step, bool *launched);

#endif
