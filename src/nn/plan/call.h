/* call.h: a call of a step: the copy of an input, an instruction of the program, an operation of
 * the optimizer. A step is one list of them, which the executor runs (exec/executor.h). */
#ifndef LS_NN_PLAN_CALL_H
#define LS_NN_PLAN_CALL_H

#include "backend/backend.h"
#include "comm/comm.h"
#include <lockstep/nn.h>

typedef struct ls__call {
    const char *kind, *name; /* "conv2d" "layer1.0.conv1"; "copy" "input"; "sgd" "optimizer" */
    const ls__op *op;        /* its operands; the kind and settings are those of the kernel */
    int n_inputs;            /* operands before the outputs */
    void *buffers[LS__MAX_OPERANDS]; /* device memory; NULL where an operand is absent */
    /* A call is one of four kinds: a kernel; a user's callback; an exchange between ranks, which
     * the host waits for, or which is queued; otherwise a copy of copy_bytes from operand 0 to 1.
     */
    ls__kernel *kernel;
    void *workspace;
    ls_status (*callback)(const ls_custom_op_call *call);
    ls_custom_op_call *callback_call;
    ls__exchange *exchange;
    size_t copy_bytes;
    bool adds_ranks;  /* an exchange, or the addition of what it received: see shard.h */
    bool feeds_input; /* operand 0 is the caller's tensor, which differs in each step */
    bool updates;     /* an operation of the optimizer, over the block of parameters */
    bool backward;
    bool recomputes;  /* a value of the forward pass */
    bool skipped;     /* not run: an unused input, or a reorder that layout or memory made
                         unnecessary */
    bool side;        /* runs in LS__STREAM_SIDE (compile/overlap.c) */
    bool joins;       /* COMPUTE waits for SIDE before it */
    bool joins_after; /* COMPUTE waits for SIDE after it */
    double seconds;   /* since profiling began */
} ls__call;

#endif
