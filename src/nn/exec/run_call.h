/* run_call.h: runs one call of a step. */
#ifndef LS_NN_EXEC_RUN_CALL_H
#define LS_NN_EXEC_RUN_CALL_H

#include "nn/plan/program.h"

typedef struct ls__run_mode {
    bool in_order; /* all in one stream: for traces, profiles, faults and profilers' ranges */
    bool profiled; /* waits for each call and adds its time to call->seconds */
} ls__run_mode;

/* Queues the call, which may be skipped; the caller calls the backend's begin and end. On
 * failure the error names the call. */
ls_status ls__run_call(ls_context *ctx, ls__call *call, const ls__step *step,
                       const ls__run_mode *mode);
/* "epoch 3, step 17" */
enum { LS__STEP_TEXT_SIZE = 64 };
const char *ls__step_text(const ls__step *step, char out[LS__STEP_TEXT_SIZE]);
/* Orders later work after all queued work; called after a failure. */
void ls__join_streams(ls_context *ctx);

#endif
