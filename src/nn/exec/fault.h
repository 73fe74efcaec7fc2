/* fault.h: an injected fault: one ulp, added on purpose, to see what becomes of it. */
#ifndef LS_NN_EXEC_FAULT_H
#define LS_NN_EXEC_FAULT_H

#include "nn/exec/call_values.h"

/* In the step of that epoch, right after the op of that number has run, the next larger number
 * replaces one element of its outputs (the last bit of an image's byte is flipped instead).
 * Elements count over the op's outputs of floats, and images, in order, each in logical order. op
 * -1: none. LS_ERR_INVALID of the step when it has no such op or element. */
typedef struct ls__fault {
    int64_t epoch, step;
    int64_t op, element;
} ls__fault;

/* Whether a call has a number: not one that is skipped, nor one that recomputes a value, because
 * which of them there are depends on the memory. */
bool ls__call_is_numbered(const ls__call *call);
/* How many elements of a call a fault may hit. */
int64_t ls__fault_elements(const ls__call *call, const ls__net_blocks *blocks);
/* The position of the call that the fault follows; an error when there is none. */
ls_status ls__fault_find(ls_context *ctx, const ls__fault *fault, ls__call *const *calls,
                         int n_calls, const ls__net_blocks *blocks, int *position);
/* Changes the element. */
ls_status ls__fault_inject(ls_context *ctx, const ls__fault *fault, const ls__call *call,
                           const ls__net_blocks *blocks);

#endif
