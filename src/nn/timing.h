/* timing.h: how long ops take, one after the other, on the context's device. */
#ifndef LS_NN_TIMING_H
#define LS_NN_TIMING_H

#include "nn/program.h"

/* Ops with memory for their operands, which hold random numbers. Operands of one value share
 * memory, so that an op reads what the one before it wrote. */
typedef struct ls__timing {
    ls_context *ctx;
    int n;
    const ls__instruction *ops; /* borrowed; filled */
    void *buffers[LS__MAX_FUSION_OPS][LS__MAX_OPERANDS];
} ls__timing;

/* False without memory on the device, or after a failure, which is dropped unless the device is
 * lost. To be closed in any case. */
bool ls__timing_open(ls__timing *timing, ls_context *ctx, const ls__instruction *ops, int n);
void ls__timing_close(ls__timing *timing);

/* Milliseconds that these kernels, one for each op, take together. Timing that shows them to be
 * clearly slower than best_known ends early; best_known is negative when nothing is known. Negative
 * after a failure: as above, and logged. */
double ls__timing_run(ls__timing *timing, ls__kernel *const *kernels, double best_known);

/* How often a kernel is run to be timed, at least. */
int ls__timing_runs(const ls_context *ctx);

#endif
