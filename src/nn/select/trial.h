/* trial.h: runs a kernel once before a program uses it, because a library may make a kernel that
 * fails when it is run. */
#ifndef LS_NN_SELECT_TRIAL_H
#define LS_NN_SELECT_TRIAL_H

#include "nn/select/selector.h"

/* Runs an `unproven` kernel, unless it has run for an equal op of the net or its program never
 * runs. The error stays in the context. If memory is short, the kernel is not run. */
ls_status ls__selector_try_kernel(ls__selector *s, const ls__op *op, ls__kernel *kernel);

/* The index of the candidate that ran for an equal op of the net, or -1. */
int ls__selector_tried(ls__selector *s, const ls__op *op, const ls__candidate *candidates, int n);

/* After a failed run: drops the error, but not ctx->message, unless the device is lost. */
bool ls__forgive_failed_run(ls_context *ctx);

#endif
