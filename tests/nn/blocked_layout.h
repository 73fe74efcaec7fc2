/* blocked_layout.h: bends a device's costs so that nets have blocked activations around one kind of
 * op, with reorders before and after, whatever this processor likes; all by reference kernels. */
#ifndef LS_TESTS_NN_BLOCKED_LAYOUT_H
#define LS_TESTS_NN_BLOCKED_LAYOUT_H

#include "cpu/cpu.h"
#include "base/context.h"
#include "backend/backend.h"
#include <string.h>

static ls__backend blocked_backend;
static const ls__backend *unbent_backend;
static ls__op_kind blocked_kind;

/* Allows only the reference kernel of an op, whose sums have the same order in every layout. */
static inline int keep_reference(ls__candidate *candidates, int n)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(candidates[i].name, "reference") != 0) continue;
        candidates[0] = candidates[i];
        return 1;
    }
    return n;
}

static inline int blocked_candidates(ls__device *device, const ls__op *op, ls__candidate *out,
                                     int max)
{
    const int found = unbent_backend->candidates(device, op, out, max);
    const int n = keep_reference(out, found);
    bool blocked = false;
    for (int i = 0; i < op->n_operands; i++) {
        const ls__operand *o = &op->operands[i];
        blocked |= o->shape.n_dims == 4 && o->block > 0 && o->block < o->shape.dims[3];
    }
    const bool wants = op->kind == blocked_kind;
    for (int i = 0; i < n; i++)
        out[i].cost_ms = op->kind == LS__OP_REORDER ? 1 : (blocked == wants ? 10 : 1000);
    return n;
}

static inline int blocked_blocks(const ls__device *device, const ls_shape *shape, int64_t *out,
                                 int max)
{
    (void)device;
    int n = 0;
    out[n++] = shape->dims[3];
    if (n < max && shape->dims[3] % 4 == 0 && shape->dims[3] > 4) out[n++] = 4;
    return n;
}

/* Applies to nets that are built in this context afterwards. */
static inline void bend_layouts(ls_context *ctx, ls__op_kind kind)
{
    blocked_kind = kind;
    ((ls__cpu *)ctx->device)->portable = false; /* the reference has all layouts */
    if (!unbent_backend) unbent_backend = ctx->device->backend;
    blocked_backend = *unbent_backend;
    blocked_backend.candidates = blocked_candidates;
    blocked_backend.blocks = blocked_blocks;
    ctx->device->backend = &blocked_backend;
}

#endif
