/* conv.c: LS__OP_CONV2D* as cuDNN graphs. */
#include "base/error.h"
#include "cuda/cudnn/handle.h"

#include <string.h>

/* Peak rates of an H200, for estimates in milliseconds. A cost is only compared with costs of other
 * kernels for the same op, so other GPUs need no other rates. */
static const double tensor_flop_per_ms = 790e9, tf32_flop_per_ms = 395e9, f32_flop_per_ms = 60e9,
                    bytes_per_ms = 4.3e9;

/* The indices of x, w and y, or of their gradients, among an op's operands. */
typedef struct roles {
    int x, w, y, b; /* b -1: the op has none */
} roles;

static roles roles_of(ls__op_kind kind)
{
    switch (kind) {
    case LS__OP_NORM_CONV2D_BACKWARD_DATA:
    case LS__OP_CONV2D_BACKWARD_DATA: return (roles){ .y = 0, .w = 1, .x = 2, .b = -1 };
    case LS__OP_CONV2D_STATISTICS: return (roles){ .x = 0, .w = 1, .y = 2, .b = -1 };
    case LS__OP_NORM_CONV2D_STATISTICS: return (roles){ .x = 0, .w = 3, .y = 4, .b = -1 };
    case LS__OP_NORM_CONV2D_BACKWARD_WEIGHTS: return (roles){ .x = 0, .y = 3, .w = 4, .b = -1 };
    case LS__OP_CONV2D_BACKWARD_WEIGHTS: return (roles){ .x = 0, .y = 1, .w = 2, .b = 3 };
    default: return (roles){ .x = 0, .w = 1, .b = 2, .y = 3 };
    }
}

static bool is_present(const ls__op *op, int operand)
{
    return operand >= 0 && operand < op->n_operands && op->operands[operand].shape.n_dims >= 0;
}

static void build(const ls__cudnn_problem *problem, ls__cudnn_graph *graph)
{
    const ls__op *op = problem->description;
    const roles r = roles_of(op->kind);
    const ls__operand *o = op->operands, *y = &o[r.y];
    ls__cudnn_tensor tx = ls__cudnn_buffer(graph, r.x, o[r.x].dtype, &o[r.x].shape);
    ls__cudnn_tensor tw = ls__cudnn_buffer(graph, r.w, o[r.w].dtype, &o[r.w].shape);
    ls__cudnn_tensor ty = ls__cudnn_buffer(graph, r.y, y->dtype, &y->shape);
    if (op->kind != LS__OP_CONV2D || !is_present(op, r.b)) {
        ls__cudnn_convolve(graph, op->kind, op, tx, tw, ty);
        return;
    }
    ls__cudnn_tensor tb = ls__cudnn_buffer(graph, r.b, o[r.b].dtype, &o[r.b].shape);
    ls__cudnn_tensor sum = ls__cudnn_virtual(graph, LS_F32, &y->shape);
    ls__cudnn_convolve(graph, op->kind, op, tx, tw, sum);
    ls__cudnn_pointwise(graph, CUDNN_POINTWISE_ADD, sum, tb, ty);
}

static double elements(const ls__operand *o)
{
    double n = 1;
    for (int i = 0; i < o->shape.n_dims; i++) n *= (double)o->shape.dims[i];
    return n;
}

double ls__cudnn_conv_cost_ms(const ls__op *op)
{
    const roles r = roles_of(op->kind);
    const ls__operand *x = &op->operands[r.x], *w = &op->operands[r.w], *y = &op->operands[r.y];
    const double flop = 2 * elements(y) * elements(w) / (double)w->shape.dims[0];
    double bytes = 0;
    for (int i = 0; i < op->n_operands; i++)
        if (is_present(op, i))
            bytes += elements(&op->operands[i]) * (double)ls_dtype_bytes(op->operands[i].dtype);
    const double rate = x->dtype != LS_F32 ? tensor_flop_per_ms
                        : op->tf32         ? tf32_flop_per_ms
                                           : f32_flop_per_ms;
    const double compute_ms = flop / rate, memory_ms = bytes / bytes_per_ms;
    return compute_ms > memory_ms ? compute_ms : memory_ms;
}

ls__op ls__cudnn_conv_of(const ls__op *op)
{
    ls__op made = *op;
    const roles r = roles_of(op->kind);
    if (op->kind != LS__OP_CONV2D_BACKWARD_WEIGHTS &&
        op->kind != LS__OP_NORM_CONV2D_BACKWARD_WEIGHTS)
        return made;
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
    const roles r = roles_of(op->kind);
    if (op->kind == LS__OP_CONV2D_BACKWARD_WEIGHTS && is_present(op, r.b))
        return "cuDNN's weight gradients come without the bias's";
    for (int i = 0; i < op->n_operands; i++) {
        const ls__operand *o = &op->operands[i];
        if (!is_present(op, i)) continue;
        if (o->dtype != LS_F32 && o->dtype != LS_F16 && o->dtype != LS_BF16)
            return "cuDNN's operands here are f32, f16 or bf16";
        if (o->dtype != op->operands[0].dtype) return "cuDNN's operands here are of one type";
        if ((i == r.x || i == r.y) && o->block != o->shape.dims[3])
            return "cuDNN's activations here are N,H,W,C";
    }
    return NULL;
}

static ls__cudnn_problem problem_of(const ls__op *op)
{
    ls__cudnn_problem p = { .build = build,
                            .description = op,
                            .f32 = op->operands[0].dtype == LS_F32,
                            .tf32 = op->tf32,
                            .cost_ms = ls__cudnn_conv_cost_ms(op) };
    ls__op_text(op, p.text, sizeof p.text);
    for (int i = 0; i < op->n_operands; i++) p.uses[i] = is_present(op, i);
    return p;
}

/* The problem of an op, or an error with the reason why there is none. */
static ls_status accept(ls__cudnn *cudnn, const ls__op *op, ls__cudnn_problem *out)
{
    const char *reason = rejection(op);
    char text[LS__OP_TEXT_SIZE];
    if (reason == NULL) {
        *out = problem_of(op);
        return LS_OK;
    }
    ls__op_text(op, text, sizeof text);
    return ls__fail(cudnn->ctx, LS_ERR_UNSUPPORTED, "%s: %s", text, reason);
}

int ls__cudnn_conv_candidates(ls__cudnn *cudnn, const ls__op *op, ls__candidate *out, int max)
{
    if (rejection(op) != NULL) return 0;
    const ls__cudnn_problem problem = problem_of(op);
    return ls__cudnn_candidates(cudnn, &problem, out, max);
}

ls_status ls__cudnn_conv_open(ls__cudnn *cudnn, const ls__op *op, const char *name,
                              ls__kernel **out)
{
    ls__cudnn_problem problem;
    *out = NULL;
    LS_TRY(accept(cudnn, op, &problem));
    return ls__cudnn_kernel_open(cudnn, &problem, name, out);
}

ls_status ls__cudnn_conv_restore(ls__cudnn *cudnn, const ls__op *op, const char *text,
                                 ls__kernel **out)
{
    ls__cudnn_problem problem;
    *out = NULL;
    LS_TRY(accept(cudnn, op, &problem));
    return ls__cudnn_kernel_restore(cudnn, &problem, text, out);
}
