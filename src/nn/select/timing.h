/* timing.h: how long ops take, one after the other, on the context's device. */
#ifndef LS_NN_SELECT_TIMING_H
#define LS_NN_SELECT_TIMING_H

#include "nn/select/op_memory.h"

/* Memory for timing these ops, which holds random numbers; to be closed in any case. Errors are
 * logged and dropped unless the device is lost: LS_ERR_MEMORY says that nothing is known of the
 * ops, others that they can't be run. */
ls_status ls__timing_open(ls__op_memory *memory, ls_context *ctx, const ls__instruction *ops,
                          int n);
/* Milliseconds that these kernels, one for each op, take together. Timing that shows them to be
 * clearly slower than best_known ends early; best_known is negative when nothing is known. Errors
 * as above. */
ls_status ls__timing_run(ls__op_memory *memory, ls__kernel *const *kernels, double best_known,
                         double *ms);

/* How often a kernel is run to be timed, at least. */
int ls__timing_runs(const ls_context *ctx);

#endif
