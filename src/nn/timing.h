/* timing.h: how long ops take, one after the other, on the context's device. */
#ifndef LS_NN_TIMING_H
#define LS_NN_TIMING_H

#include "nn/program.h"

/* Ops with memory for their operands, which hold random numbers. Operands of one value share
 * memory, so that an op reads what the one before it wrote. */
enum { LS__MOST_TIMED_OPS = 5 };
typedef struct ls__trial {
    ls_context *ctx;
    int n;
    const ls__instruction *ops; /* borrowed; filled */
    void *buffers[LS__MOST_TIMED_OPS][LS__MAX_OPERANDS];
} ls__trial;

/* False without memory on the device, or after a failure, which is dropped unless the device is
 * lost. To be closed in any case. */
bool ls__trial_open(ls__trial *trial, ls_context *ctx, const ls__instruction *ops, int n);
void ls__trial_close(ls__trial *trial);

/* Milliseconds that these kernels, one for each op, take together. Timing that shows them to be
 * clearly slower than best_known ends early; best_known is negative when nothing is known. Negative
 * after a failure: as above, and logged. */
double ls__trial_time(ls__trial *trial, ls__kernel *const *kernels, double best_known);

/* How often a kernel is run to be timed, at least. */
int ls__trial_runs(const ls_context *ctx);

#endif
