/* call_values.h: what a call reads and writes, for traces and injected faults. */
#ifndef LS_NN_EXEC_CALL_VALUES_H
#define LS_NN_EXEC_CALL_VALUES_H

#include "nn/graph/parameter.h"
#include "nn/plan/call.h"

/* An operand of a call. Operands as long as the block of parameters come parameter by parameter. */
enum { LS__ROLE_SIZE = 32 };
typedef struct ls__trace_value {
    char role[LS__ROLE_SIZE]; /* as in the op list: "x", "dw", "running_mean" */
    const char
        *parameter;     /* the parameter or buffer whose value, gradient or state it is, or NULL */
    bool input, output; /* both: changed in place */
    bool is_target;     /* a fault may hit it: floats and images that are written */
    ls_dtype dtype;
    ls_shape shape; /* logical, [N,H,W,C] whatever the block */
    int64_t block;  /* see ls__operand; 0 = dense */
    int64_t count;  /* elements */
    void *memory;   /* device memory */
} ls__trace_value;

/* The i-th value of a call, inputs before outputs, absent ones left out; false when there are no
 * more. blocks: where parameters lie. */
bool ls__call_value(const ls__call *call, const ls__net_blocks *blocks, int i,
                    ls__trace_value *out);

/* The elements in logical order; scratch and out have room for all of them. */
ls_status ls__trace_read(ls_context *ctx, const ls__trace_value *value, void *scratch, void *out);
/* Where a logical element lies, in elements from value->memory. */
int64_t ls__trace_place(const ls__trace_value *value, int64_t element);

#endif
