/* net_trace.h: a training step call by call, to inspect the operands of each call.
 *
 *   ls__net_step_begin          checks as ls_net_step
 *   while (ls__net_step_op)     the next call
 *       ls__net_step_value      its inputs
 *       ls__net_step_next       runs it
 *       ls__net_step_value      its outputs
 *
 * Values share memory, so inputs are valid only just before the call and outputs only just after
 * it. A trace may stop at any op; the step then stays incomplete. */
#ifndef LS_NN_NET_NET_TRACE_H
#define LS_NN_NET_NET_TRACE_H

#include "nn/net/net.h"

typedef struct ls__trace_op {
    int number;         /* index among the ops of this step, without recomputation, from 0 */
    const char *kind;   /* "copy" of an input or of a result, "conv2d", "sgd", a user's kind */
    const char *name;   /* of the input, of the layer, "optimizer" */
    const char *kernel; /* "" for copies and a user's callbacks */
    bool backward;
    bool again; /* recomputes a value, depending on the available memory; no fault is injected */
    int n_values;
    int position; /* private */
} ls__trace_op;

/* Begins a step with the batch, which must live until its copies have run. Fails as ls_net_step. */
ls_status ls__net_step_begin(ls_net *net, ls__update *update, const ls_batch *batch, double lr);
/* The next op; false at the end. */
bool ls__net_step_op(const ls_net *net, ls__trace_op *out);
/* Operand i < n_values of the next or of the last op: inputs, then outputs, without absent ones. */
void ls__net_step_value(const ls_net *net, const ls__trace_op *op, int i, ls__trace_value *out);
/* Runs the next op and waits for it. */
ls_status ls__net_step_next(ls_net *net);
/* Runs all remaining calls. */
ls_status ls__net_step_end(ls_net *net);

/* Sets the fault to inject into later steps of ls_net_step; see exec/call_values.h. */
void ls__net_set_injected_fault(ls_net *net, const ls__injected_fault *fault);
/* The number of elements of an op that an injected fault may change; 0 if it writes none. */
int64_t ls__net_injectable_elements(const ls_net *net, const ls__trace_op *op);

#endif
