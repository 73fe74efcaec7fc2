/* trace.h: a training step op by op, for those who want to look at what each op reads and writes.
 *
 *   ls__net_step_begin          all that ls_net_step checks
 *   while (ls__net_step_op)     the op that is next
 *       ls__net_step_value      its operands: what it is going to read
 *       ls__net_step_next       runs it
 *       ls__net_step_value      what it has written
 *
 * ls_net_step is the same walk without the looking. An op's operands hold what their roles say only
 * just before it runs (inputs) and just after (outputs): values share memory. A walk may be left at
 * any op; what then is in the net is a step half done. */
#ifndef LS_NN_EXEC_TRACE_H
#define LS_NN_EXEC_TRACE_H

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

/* An operand of an op. Optimizers' operands come parameter by parameter. */
enum { LS__ROLE_SIZE = 32 };
typedef struct ls__trace_value {
    char role[LS__ROLE_SIZE]; /* as in the op list: "x", "dw", "running_mean" */
    const char
        *parameter;     /* the parameter or buffer whose value, gradient or state it is, or NULL */
    bool input, output; /* both: changed in place */
    bool is_target;     /* a fault may hit it, see below */
    ls_dtype dtype;
    ls_shape shape; /* logical, [N,H,W,C] whatever the block */
    int64_t block;  /* see ls__operand; 0 = dense */
    int64_t count;  /* elements */
    void *memory;   /* device memory */
} ls__trace_value;

/* Begins a step: takes the batch, which must live until its copies have run. Errors as ls_net_step.
 */
ls_status ls__net_step_begin(ls_net *net, ls_optimizer *opt, const ls_batch *batch, double lr);
/* The op that runs next; false at the end. */
bool ls__net_step_op(const ls_net *net, ls__trace_op *out);
/* An operand of the op that runs next or has run last, i < n_values; inputs come before outputs.
 * What an op has only for others (an absent bias) is left out. */
void ls__net_step_value(const ls_net *net, const ls__trace_op *op, int i, ls__trace_value *out);
/* Runs the next op and waits for it. */
ls_status ls__net_step_next(ls_net *net);
/* Runs all that are left. */
ls_status ls__net_step_end(ls_net *net);

/* The elements in logical order; scratch and out have room for all of them. */
ls_status ls__trace_read(ls_context *ctx, const ls__trace_value *value, void *scratch, void *out);

/* ---- Faults: one ulp, added on purpose, to see what becomes of it ---- */

/* In the step of that epoch, right after the op of that number has run, the next larger number
 * takes the place of one element of its outputs (the last bit of an image's byte is turned
 * instead). Elements count over the op's outputs of floats, images too, in order, each in
 * logical order. Only steps of ls_net_step have it. op -1: none. When the step comes and there is
 * no such op or element, that is an error of the step, LS_ERR_INVALID. */
typedef struct ls__fault {
    int64_t epoch, step;
    int64_t op, element;
} ls__fault;
void ls__net_set_fault(ls_net *net, const ls__fault *fault);
/* How many elements of an op a fault may hit; 0 for those that write none. */
int64_t ls__net_fault_elements(const ls_net *net, const ls__trace_op *op);

#endif
