/* net_trace.h: a training step call by call, for those who look at what each call reads and writes.
 *
 *   ls__net_step_begin          all that ls_net_step checks
 *   while (ls__net_step_op)     the call that is next
 *       ls__net_step_value      its operands: what it is going to read
 *       ls__net_step_next       runs it
 *       ls__net_step_value      what it has written
 *
 * An op's operands hold what their roles say only just before it runs (inputs) and just after
 * (outputs): values share memory. A trace may stop at any op; the net then has done half a step. */
#ifndef LS_NN_NET_TRACE_H
#define LS_NN_NET_TRACE_H

#include "nn/net.h"

typedef struct ls__trace_op {
    int number;         /* among the ops of this step but recomputed ones, from 0 */
    const char *kind;   /* "copy" of an input, "conv2d", "sgd", a user's own kind */
    const char *name;   /* of the input, of the layer, "optimizer" */
    const char *kernel; /* "" where none is chosen: copies, a user's callbacks */
    bool backward;
    bool moves; /* a reorder: writes what it reads, in another layout. Which of them there are
                   depends on the kernels; all other ops depend on the model alone */
    bool again; /* recomputes a value: which of them there are depends on the memory. Faults do not
                   hit them */
    int n_values;
    int position; /* private */
} ls__trace_op;

/* Begins a step: takes the batch, which must live until its copies have run. Errors as ls_net_step.
 */
ls_status ls__net_step_begin(ls_net *net, ls__update *update, const ls_batch *batch, double lr);
/* The op that runs next; false at the end. */
bool ls__net_step_op(const ls_net *net, ls__trace_op *out);
/* An operand of the op that runs next or has run last, i < n_values; inputs come before outputs.
 * What an op has only for others (an absent bias) is left out. */
void ls__net_step_value(const ls_net *net, const ls__trace_op *op, int i, ls__trace_value *out);
/* Runs the next op and waits for it. */
ls_status ls__net_step_next(ls_net *net);
/* Runs all that are left. */
ls_status ls__net_step_end(ls_net *net);

/* Steps of ls_net_step have this fault from now on; see exec/fault.h. */
void ls__net_set_fault(ls_net *net, const ls__fault *fault);
/* How many elements of an op a fault may hit; 0 for those that write none. */
int64_t ls__net_fault_elements(const ls_net *net, const ls__trace_op *op);

#endif
