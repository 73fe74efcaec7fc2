/* call_values.h: the operands of a call, for traces and injected faults. */
#ifndef LS_NN_EXEC_CALL_VALUES_H
#define LS_NN_EXEC_CALL_VALUES_H

#include "nn/graph/parameter.h"
#include "nn/plan/call.h"

/* An operand of a call. Operands of the parameter block's size are split into parameters. */
enum { LS__ROLE_SIZE = 32 };
typedef struct ls__trace_value {
    char role[LS__ROLE_SIZE]; /* as in the op list: "x", "dw", "running_mean" */
    const char *parameter;    /* the name of its parameter or buffer, or NULL */
    bool input, output;       /* both: changed in place */
    bool is_target;           /* an injected fault may change it: written floats and images */
    ls_dtype dtype;
    ls_shape shape; /* logical: [N,H,W,C] for any block */
    int64_t block;  /* see ls__operand; 0 = dense */
    int64_t count;  /* elements */
    void *memory;   /* device memory */
} ls__trace_value;

/* The i-th value of a call, inputs before outputs, absent ones skipped; false if there are no more.
 * blocks: the net's parameters. */
bool ls__call_value(const ls__call *call, const ls__net_blocks *blocks, int i,
                    ls__trace_value *out);

/* The elements in logical order; scratch and out hold all of them. */
ls_status ls__trace_read(ls_context *ctx, const ls__trace_value *value, void *scratch, void *out);
/* The offset of a logical element from value->memory, in elements. */
int64_t ls__trace_place(const ls__trace_value *value, int64_t element);

#endif
