/* ops.c: the table of op traits, from the list in ops.h; ops as text; the work of an op. */
#include "backend/ops.h"

#include "base/text.h"
#include <inttypes.h>
#include <string.h>

const ls__op_traits *ls__op_traits_of(ls__op_kind kind)
{
    static const ls__op_traits no_op = { .name = "no op", .operands = "" };
    static const ls__op_traits table[LS__N_OPS] = {
#define OP_TRAITS(op, text, ...) [LS__OP_##op] = { .name = text, .operands = __VA_ARGS__ },
        LS__OP_LIST(OP_TRAITS)
#undef OP_TRAITS
    };
    return (unsigned)kind < LS__N_OPS ? &table[kind] : &no_op;
}

const char *ls__op_name(ls__op_kind kind)
{
    return ls__op_traits_of(kind)->name;
}

/* True if a list, separated by spaces, contains the name. NULL = empty. */
static bool lists(const char *list, const char *name, int length)
{
    for (const char *p = list; p && *p; p += strspn(p, " ")) {
        const size_t n = strcspn(p, " ");
        if (n == (size_t)length && memcmp(p, name, n) == 0) return true;
        p += n;
    }
    return false;
}

bool ls__op_operand(ls__op_kind kind, int i, ls__operand_role *out)
{
    const ls__op_traits *traits = ls__op_traits_of(kind);
    bool output = false;
    for (const char *p = traits->operands; *p; p += strspn(p, " ?")) {
        const int length = (int)strcspn(p, " ?");
        if (*p == '-') {
            output = true;
        } else if (i-- == 0) {
            *out = (ls__operand_role){ .name = p,
                                       .length = length,
                                       .output = output,
                                       .mutated = lists(traits->mutates, p, length),
                                       .may_be_half = lists(traits->half, p, length) };
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

/* The operand whose name is the first `length` characters of `name`; -1 = none. */
static int operand_index(ls__op_kind kind, const char *name, size_t length)
{
    ls__operand_role role;
    for (int i = 0; ls__op_operand(kind, i, &role); i++)
        if ((size_t)role.length == length && memcmp(role.name, name, length) == 0) return i;
    return -1;
}

bool ls__op_in_place(ls__op_kind kind, int i, int *output, int *input)
{
    const char *p = ls__op_traits_of(kind)->in_place;
    for (; p && i > 0; i--) {
        p = strchr(p, ' ');
        if (p) p++;
    }
    if (!p) return false;
    const size_t length = strcspn(p, "=");
    *output = operand_index(kind, p, length);
    p += length + 1;
    *input = operand_index(kind, p, strcspn(p, " "));
    return true;
}

/* "x=128x32x32x64"; "-" when it is absent. */
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
}

/* A height and a width, unless both have the default. */
static void put_pair(ls__text *text, const char *name, const int64_t pair[2], int64_t other_than)
{
    if (pair[0] != other_than || pair[1] != other_than)
        ls__text_put(text, " %s=%" PRId64 "x%" PRId64, name, pair[0], pair[1]);
}

static void put_config(ls__text *text, const ls__op *op)
{
    switch (ls__op_traits_of(op->kind)->config) {
    case LS__CONFIG_CONV: /* the weights' shape contains the kernel size */
        put_pair(text, "stride", op->u.conv.stride, 1);
        put_pair(text, "padding", op->u.conv.padding, 0);
        put_pair(text, "dilation", op->u.conv.dilation, 1);
        if (op->u.conv.groups != 1) ls__text_put(text, " groups=%" PRId64, op->u.conv.groups);
        break;
    case LS__CONFIG_POOL:
        put_pair(text, "kernel", op->u.pool.kernel, 0);
        put_pair(text, "stride", op->u.pool.stride, 1);
        put_pair(text, "padding", op->u.pool.padding, 0);
        break;
    case LS__CONFIG_NORM: {
        static const char *const activations[] = { "", " relu", " relu6" };
        ls__text_put(text, "%s", activations[op->u.norm.activation]);
        break;
    }
    case LS__CONFIG_ADD:
        if (op->u.add.relu) ls__text_put(text, " relu");
        break;
    case LS__CONFIG_LINEAR:
        if (op->u.linear.relu) ls__text_put(text, " relu");
        break;
    case LS__CONFIG_TOP_K: ls__text_put(text, " k=%" PRId64, op->u.top_k.k); break;
    default: break; /* settings that do not affect kernel selection */
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

static bool are_operands_equal(const ls__operand *a, const ls__operand *b)
{
    if (ls__is_absent(a) || ls__is_absent(b)) return ls__is_absent(a) && ls__is_absent(b);
    return a->dtype == b->dtype && ls_shape_equal(&a->shape, &b->shape);
}

static bool are_settings_equal(ls__op_kind kind, const ls__op_settings *a, const ls__op_settings *b)
{
    switch (ls__op_traits_of(kind)->config) {
    case LS__CONFIG_CONV: return memcmp(&a->conv, &b->conv, sizeof a->conv) == 0; /* no padding */
    case LS__CONFIG_POOL: return memcmp(&a->pool, &b->pool, sizeof a->pool) == 0;
    case LS__CONFIG_NORM:
        return a->norm.activation == b->norm.activation && a->norm.count == b->norm.count;
    case LS__CONFIG_ADD: return a->add.relu == b->add.relu;
    case LS__CONFIG_LINEAR: return a->linear.relu == b->linear.relu;
    case LS__CONFIG_CONCAT: return a->concat.offset == b->concat.offset;
    case LS__CONFIG_TOP_K: return a->top_k.k == b->top_k.k;
    case LS__CONFIG_NONE: break;
    }
    return true;
}

bool ls__op_equal(const ls__op *a, const ls__op *b)
{
    if (a->kind != b->kind || a->n_operands != b->n_operands || a->tf32 != b->tf32) return false;
    for (int i = 0; i < a->n_operands; i++)
        if (!are_operands_equal(&a->operands[i], &b->operands[i])) return false;
    return are_settings_equal(a->kind, &a->u, &b->u);
}

/* The operand whose gradient has this name ("dy"), or else the gradient itself. */
static const ls__operand *find_operand(const ls__op *op, const char *gradient)
{
    const int i = operand_index(op->kind, gradient + 1, strlen(gradient) - 1);
    return &op->operands[i >= 0 ? i : operand_index(op->kind, gradient, strlen(gradient))];
}

double ls__op_flops(const ls__op *op)
{
    if (!ls__op_traits_of(op->kind)->multiplies) return 0;
    const ls__operand *y = find_operand(op, "dy"), *w = find_operand(op, "dw");
    if (w->shape.dims[0] == 0) return 0;
    /* Each result is a sum over the weights of one output channel. */
    int64_t products = ls_shape_element_count(&w->shape) / w->shape.dims[0];
    if (ls__op_is_convolution(op->kind) && products > 0)
        products -= products / w->shape.dims[3] * op->u.conv.padding_channels;
    return 2 * (double)ls_shape_element_count(&y->shape) * (double)products;
}

double ls__op_bytes(const ls__op *op)
{
    double bytes = 0;
    for (int i = 0; i < op->n_operands; i++)
        if (!ls__is_absent(&op->operands[i]))
            bytes += (double)ls_shape_element_count(&op->operands[i].shape) *
                     (double)ls_dtype_bytes(op->operands[i].dtype);
    return bytes;
}
