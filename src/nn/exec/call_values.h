/* call_values.h: the operands of a call, for traces and injected faults. */
#ifndef LS_NN_EXEC_CALL_VALUES_H
#define LS_NN_EXEC_CALL_VALUES_H

#include "nn/plan/program.h"

/* An operand of a call. Operands of the parameter block's size are split into parameters. */
enum { LS__ROLE_SIZE = 32 };
typedef struct ls__trace_value {
    char role[LS__ROLE_SIZE]; /* as in the op list: "x", "dw", "running_mean" */
    const char *parameter;    /* the name of its parameter or buffer, or NULL */
    bool input, output;       /* both: changed in place */
    bool is_target;           /* an injected fault may change it: written floats and images */
    ls_dtype dtype;
    ls_shape shape;
    int64_t count; /* elements */
    void *memory;  /* device memory */
} ls__trace_value;

/* The i-th value of a call, inputs before outputs, absent ones skipped; false if there are no more.
 * blocks: the net's parameters. */
bool ls__call_value(const ls__call *call, const ls__net_blocks *blocks, int i,
                    ls__trace_value *out);

/* Reads all elements. */
ls_status ls__trace_read(ls_context *ctx, const ls__trace_value *value, void *out);

/* ---- Injected faults: one element of one op's output is increased by one ulp ---- */

/* The text of an op's kind and name: "conv2d@layer1.0.conv1". */
enum { LS__CALL_TEXT_SIZE = 192 };

/* Replaces one element of an op's outputs by the next larger number, after that op of step `step`
 * of the epoch; of an image's byte the last bit is flipped. Elements are counted over the op's
 * outputs of floats and images. The step fails with LS_ERR_INVALID if it has no such op or element,
 * and logs its ops. */
typedef struct ls__injected_fault {
    int64_t epoch, step;
    char among[LS__CALL_TEXT_SIZE]; /* "" = all ops */
    int64_t op;                     /* number among the ops of this text; -1: no fault */
    int64_t element;
} ls__injected_fault;

/* True if a call has a number: it is not skipped and recomputes no value, because recomputation
 * depends on the available memory. */
bool ls__call_is_numbered(const ls__call *call);
/* The number of elements of a call that an injected fault may change. */
int64_t ls__injected_fault_elements(const ls__call *call, const ls__net_blocks *blocks);
/* The position of the call that the injected fault follows; an error if there is none. */
ls_status ls__injected_fault_find(ls_context *ctx, const ls__injected_fault *fault,
                                  ls__call *const *calls, int n_calls, const ls__net_blocks *blocks,
                                  int *position);
/* Changes the element. */
ls_status ls__injected_fault_apply(ls_context *ctx, const ls__injected_fault *fault,
                                   const ls__call *call, const ls__net_blocks *blocks);

#endif
