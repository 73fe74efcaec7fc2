/* timing.h: the time of consecutive ops on the context's device. */
#ifndef LS_NN_SELECT_TIMING_H
#define LS_NN_SELECT_TIMING_H

#include "nn/select/op_memory.h"

/* Allocates memory of random numbers to time these ops; close it in any case. Errors are logged and
 * dropped unless the device is lost. LS_ERR_MEMORY: nothing was timed; other errors: the ops can't
 * be run. */
ls_status ls__timing_open(ls__op_memory *memory, ls_context *ctx, const ls__instruction *ops,
                          int n);
/* The total milliseconds of these kernels, one for each op. Timing ends early if they are clearly
 * slower than best_known, which is negative if unknown. Errors as above. */
ls_status ls__timing_run(ls__op_memory *memory, ls__kernel *const *kernels, double best_known,
                         double *ms);

/* The smallest number of runs per kernel. */
int ls__timing_runs(const ls_context *ctx);

#endif
