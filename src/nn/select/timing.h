/* timing.h: memory for ops that run outside of a program, to try their kernels (open_kernel.c) or
 * to time them, and the time of consecutive ops on the context's device. */
#ifndef LS_NN_SELECT_TIMING_H
#define LS_NN_SELECT_TIMING_H

#include "nn/plan/program.h"

/* Operands of one value share memory, so that an op reads the output of an earlier op. */
typedef struct ls__op_memory {
    ls_context *ctx;
    int n;
    const ls__instruction *ops; /* borrowed; filled */
    void *buffers[LS__MAX_FUSION_OPS][LS__MAX_OPERANDS];
    void *workspace; /* shared, because the ops run one after the other */
} ls__op_memory;

typedef enum ls__op_values { LS__ZEROS, LS__RANDOM } ls__op_values;

/* Allocates and fills the operands of these ops. LS_ERR_MEMORY if memory is short. Call close also
 * after a failure. */
ls_status ls__op_memory_open(ls__op_memory *memory, ls_context *ctx, const ls__instruction *ops,
                             int n, ls__op_values values);
void ls__op_memory_close(ls__op_memory *memory);

/* A workspace for these kernels, one for each op, in place of an earlier one. */
ls_status ls__op_memory_set_workspace(ls__op_memory *memory, ls__kernel *const *kernels);

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
