/* trial.h: running a kernel once before a program relies on it: making a library's kernel does not
 * show that it runs. */
#ifndef LS_NN_SELECT_TRIAL_H
#define LS_NN_SELECT_TRIAL_H

#include "nn/select/selector.h"

/* Runs a kernel that is `unproven`, unless this one has run for an equal op of the net, or its
 * program is never going to run; the error is kept. Where there is no memory to run it over, it is
 * not run. */
ls_status ls__selector_try_kernel(ls__selector *s, const ls__op *op, ls__kernel *kernel);

/* Which of the candidates ran for an equal op of the net; -1 for none. */
int ls__selector_tried(ls__selector *s, const ls__op *op, const ls__candidate *candidates, int n);

/* After a run that failed: drops the error, of which ctx->message still tells, unless the device is
 * lost. */
bool ls__forgive_failed_run(ls_context *ctx);

#endif
