/* ops.c: ops as text: the names of kinds and of operands, from the list in backend.h; descriptors;
 * how much work an op is. */
#include "base/text.h"
#include "backend/backend.h"

#include <inttypes.h>
#include <string.h>

const char *ls__op_name(ls__op_kind kind)
{
    static const char *const names[LS__N_OPS] = {
#define OP_NAME(name, text, operands) text,
        LS__OP_LIST(OP_NAME)
#undef OP_NAME
    };
    return (unsigned)kind < LS__N_OPS ? names[kind] : "no op";
}

const char *ls__op_operands(ls__op_kind kind)
{
    static const char *const operand_names[LS__N_OPS] = {
#define OP_OPERANDS(name, text, operands) operands,
        LS__OP_LIST(OP_OPERANDS)
#undef OP_OPERANDS
    };
    return (unsigned)kind < LS__N_OPS ? operand_names[kind] : "";
}

static bool may_be_half(ls__op_kind kind, const ls__operand_role *role)
{
    static const char *const names[] = { "x",  "y",   "w",   "b",  "a",    "add",    "dx",
                                         "dy", "dy1", "dy2", "dz", "dadd", "logits", "dlogits" };
    if (kind > LS__OP_TOP_K || kind == LS__OP_CAST) return false;
    if (kind == LS__OP_NORMALIZE && !role->output) return false; /* bytes */
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i]) == (size_t)role->length &&
            memcmp(names[i], role->name, strlen(names[i])) == 0)
            return true;
    return false;
}

bool ls__op_operand(ls__op_kind kind, int i, ls__operand_role *out)
{
    bool output = false;
    for (const char *p = ls__op_operands(kind); *p; p += strspn(p, " ?")) {
        const int length = (int)strcspn(p, " ?");
        if (*p == '-') {
            output = true;
        } else if (i-- == 0) {
            *out = (ls__operand_role){ .name = p, .length = length, .output = output };
            out->may_be_half = may_be_half(kind, out);
            return true;
        }
        p += length;
    }
    return false;
}

int ls__op_inputs(ls__op_kind kind)
{
    ls__operand_role role;
    int n = 0;
    while (ls__op_operand(kind, n, &role) && !role.output) n++;
    return n;
}

/* "x=128x32x32x64/8"; "-" when it is absent. */
static void put_operand(ls__text *text, const ls__operand_role *role, const ls__operand *o)
{
    ls__text_put(text, " %.*s=", role->length, role->name);
    if (ls__is_absent(o)) {
        ls__text_put(text, "-");
        return;
    }
    if (o->dtype != LS_F32) ls__text_put(text, "%s:", ls_dtype_name(o->dtype));
    for (int i = 0; i < o->shape.n_dims; i++)
        ls__text_put(text, "%s%" PRId64, i ? "x" : "", o->shape.dims[i]);
    if (o->shape.n_dims == 4 && o->block != o->shape.dims[3])
        ls__text_put(text, "/%" PRId64, o->block);
}

/* A height and a width, where they are not what they are for most. */
static void put_pair(ls__text *text, const char *name, const int64_t pair[2], int64_t usual)
{
    if (pair[0] != usual || pair[1] != usual)
        ls__text_put(text, " %s=%" PRId64 "x%" PRId64, name, pair[0], pair[1]);
}

static void put_config(ls__text *text, const ls__op *op)
{
    switch (op->kind) {
    case LS__OP_CONV2D: /* windows are in the weights' shape */
    case LS__OP_CONV2D_BACKWARD_DATA:
    case LS__OP_CONV2D_BACKWARD_WEIGHTS:
    case LS__OP_CONV2D_STATISTICS:
    case LS__OP_NORM_CONV2D_STATISTICS:
    case LS__OP_NORM_CONV2D_BACKWARD_WEIGHTS:
    case LS__OP_NORM_CONV2D_BACKWARD_DATA:
        put_pair(text, "stride", op->u.conv.stride, 1);
        put_pair(text, "padding", op->u.conv.padding, 0);
        put_pair(text, "dilation", op->u.conv.dilation, 1);
        if (op->u.conv.groups != 1) ls__text_put(text, " groups=%" PRId64, op->u.conv.groups);
        break;
    case LS__OP_MAX_POOL:
    case LS__OP_MAX_POOL_BACKWARD:
    case LS__OP_AVG_POOL:
    case LS__OP_AVG_POOL_BACKWARD:
        put_pair(text, "kernel", op->u.pool.kernel, 0);
        put_pair(text, "stride", op->u.pool.stride, 1);
        put_pair(text, "padding", op->u.pool.padding, 0);
        break;
    case LS__OP_BATCH_NORM:
    case LS__OP_BATCH_NORM_EVAL:
    case LS__OP_BATCH_NORM_BACKWARD:
    case LS__OP_NORM_APPLY:
        if (op->u.norm.relu) ls__text_put(text, " relu");
        break;
    case LS__OP_ADD:
        if (op->u.add.relu) ls__text_put(text, " relu");
        break;
    case LS__OP_LINEAR:
        if (op->u.linear.relu) ls__text_put(text, " relu");
        break;
    case LS__OP_TOP_K: ls__text_put(text, " k=%" PRId64, op->u.top_k.k); break;
    default: break; /* numbers of no consequence for a choice */
    }
}

size_t ls__op_text(const ls__op *op, char *buffer, size_t size)
{
    ls__text text = { buffer, size, 0 };
    ls__text_put(&text, "%s", ls__op_name(op->kind));
    ls__operand_role role;
    for (int i = 0; i < op->n_operands && ls__op_operand(op->kind, i, &role); i++)
        put_operand(&text, &role, &op->operands[i]);
    put_config(&text, op);
    if (op->tf32) ls__text_put(&text, " tf32");
    return text.length;
}

static const ls__operand *find_operand(const ls__op *op, const char *name, const char *gradient)
{
    ls__operand_role role;
    for (int i = 0; i < op->n_operands && ls__op_operand(op->kind, i, &role); i++) {
        const char *wanted = role.length == 1 ? name : gradient;
        if (strlen(wanted) == (size_t)role.length && memcmp(wanted, role.name, strlen(wanted)) == 0)
            return &op->operands[i];
    }
    return NULL;
}

double ls__op_flops(const ls__op *op)
{
    const bool linear = op->kind >= LS__OP_LINEAR && op->kind <= LS__OP_LINEAR_BACKWARD_WEIGHTS;
    if (!linear && !ls__op_is_convolution(op->kind)) return 0;
    const ls__operand *y = find_operand(op, "y", "dy"), *w = find_operand(op, "w", "dw");
    if (w->shape.dims[0] == 0) return 0;
    /* each result is a sum over the weights of one output channel */
    int64_t products = ls_shape_count(&w->shape) / w->shape.dims[0];
    if (!linear && products > 0)
        products -= products / w->shape.dims[3] * op->u.conv.padding_channels;
    return 2 * (double)ls_shape_count(&y->shape) * (double)products;
}

double ls__op_bytes(const ls__op *op)
{
    double bytes = 0;
    for (int i = 0; i < op->n_operands; i++)
        if (!ls__is_absent(&op->operands[i]))
            bytes += (double)ls_shape_count(&op->operands[i].shape) *
                     (double)ls_dtype_bytes(op->operands[i].dtype);
    return bytes;
}
