/* conv.c: LS__OP_CONV2D* as cuDNN graphs. */
#include "cuda/cudnn/handle.h"

/* Peak performance of an H200, for estimates. A cost is only compared with costs of other kernels
 * for the same op, so other GPUs need no other numbers. */
static const double TENSOR_FLOP_PER_MS = 790e9, TF32_FLOP_PER_MS = 395e9, F32_FLOP_PER_MS = 60e9,
                    BYTES_PER_MS = 4.3e9;

ls__cudnn_roles ls__cudnn_roles_of(ls__op_kind kind)
{
    switch (kind) {
    case LS__OP_NORM_CONV2D_BACKWARD_DATA:
    case LS__OP_CONV2D_BACKWARD_DATA: return (ls__cudnn_roles){ .y = 0, .w = 1, .x = 2, .b = -1 };
    case LS__OP_CONV2D_STATISTICS: return (ls__cudnn_roles){ .x = 0, .w = 1, .y = 2, .b = -1 };
    case LS__OP_NORM_CONV2D_STATISTICS: return (ls__cudnn_roles){ .x = 0, .w = 3, .y = 4, .b = -1 };
    case LS__OP_NORM_CONV2D_BACKWARD_WEIGHTS:
        return (ls__cudnn_roles){ .x = 0, .y = 3, .w = 4, .b = -1 };
    case LS__OP_CONV2D_BACKWARD_WEIGHTS: return (ls__cudnn_roles){ .x = 0, .y = 1, .w = 2, .b = 3 };
    default: return (ls__cudnn_roles){ .x = 0, .w = 1, .b = 2, .y = 3 };
    }
}

static void build(ls__cudnn_graph *graph, const ls__op *op)
{
    const ls__cudnn_roles r = ls__cudnn_roles_of(op->kind);
    const ls__operand *o = op->operands, *y = &o[r.y];
    ls__cudnn_tensor tx = ls__cudnn_buffer(graph, r.x, o[r.x].dtype, &o[r.x].shape);
    ls__cudnn_tensor tw = ls__cudnn_buffer(graph, r.w, o[r.w].dtype, &o[r.w].shape);
    ls__cudnn_tensor ty = ls__cudnn_buffer(graph, r.y, y->dtype, &y->shape);
    if (op->kind != LS__OP_CONV2D || !ls__cudnn_is_present(op, r.b)) {
        ls__cudnn_convolve(graph, op->kind, op, tx, tw, ty);
        return;
    }
    ls__cudnn_tensor tb = ls__cudnn_buffer(graph, r.b, o[r.b].dtype, &o[r.b].shape);
    ls__cudnn_tensor sum = ls__cudnn_virtual(graph, LS_F32, &y->shape);
    ls__cudnn_convolve(graph, op->kind, op, tx, tw, sum);
    ls__cudnn_pointwise(graph, CUDNN_POINTWISE_ADD, sum, tb, ty);
}

double ls__cudnn_conv_cost_ms(const ls__op *op)
{
    const ls__cudnn_roles r = ls__cudnn_roles_of(op->kind);
    const ls_shape *w = &op->operands[r.w].shape, *y = &op->operands[r.y].shape;
    const double flop = 2 * (double)ls_shape_element_count(y) * (double)ls_shape_element_count(w) /
                        (double)w->dims[0];
    const double flop_per_ms = op->operands[r.x].dtype != LS_F32 ? TENSOR_FLOP_PER_MS
                               : op->tf32                        ? TF32_FLOP_PER_MS
                                                                 : F32_FLOP_PER_MS;
    const double compute_ms = flop / flop_per_ms, memory_ms = ls__op_bytes(op) / BYTES_PER_MS;
    return compute_ms > memory_ms ? compute_ms : memory_ms;
}

ls__op ls__cudnn_conv_of(const ls__op *op)
{
    ls__op made = *op;
    const ls__cudnn_roles r = ls__cudnn_roles_of(op->kind);
    if (!ls__cudnn_is_weight_gradient(op)) return made;
    made.operands[r.w].dtype = op->operands[r.x].dtype;
    if (r.b >= 0) made.operands[r.b].shape.n_dims = -1;
    return made;
}

/* Why cuDNN can't have a kernel for an op; NULL if it may. */
static const char *rejection(const ls__op *op)
{
    if (op->kind != LS__OP_CONV2D && op->kind != LS__OP_CONV2D_BACKWARD_DATA &&
        op->kind != LS__OP_CONV2D_BACKWARD_WEIGHTS)
        return "cuDNN's kernels here are convolutions";
    const ls__cudnn_roles r = ls__cudnn_roles_of(op->kind);
    if (op->kind == LS__OP_CONV2D_BACKWARD_WEIGHTS && ls__cudnn_is_present(op, r.b))
        return "cuDNN's weight gradients come without the bias's";
    for (int i = 0; i < op->n_operands; i++) {
        const ls__operand *o = &op->operands[i];
        if (!ls__cudnn_is_present(op, i)) continue;
        if (o->dtype != LS_F32 && o->dtype != LS_F16 && o->dtype != LS_BF16)
            return "cuDNN's operands here are f32, f16 or bf16";
        if (o->dtype != op->operands[0].dtype) return "cuDNN's operands here are of one type";
    }
    return NULL;
}

const char *ls__cudnn_conv_problem(const ls__op *op, ls__cudnn_problem *out)
{
    const char *reason = rejection(op);
    if (reason != NULL) return reason;
    *out = (ls__cudnn_problem){ .op = op,
                                .build = build,
                                .f32 = op->operands[0].dtype == LS_F32,
                                .tf32 = op->tf32,
                                .cost_ms = ls__cudnn_conv_cost_ms(op) };
    ls__op_text(op, out->text, sizeof out->text);
    for (int i = 0; i < op->n_operands; i++) out->uses[i] = ls__cudnn_is_present(op, i);
    return NULL;
}
