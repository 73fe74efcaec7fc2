/* The rows of the op traits table agree with themselves; names, texts and work of ops. */
#include "backend/backend.h"

#include "../suite.h"
#include <string.h>

static const ls__op_traits *row(int kind)
{
    return ls__op_traits_of((ls__op_kind)kind);
}

static int find(int kind, const char *name, size_t length)
{
    ls__operand_role role;
    for (int i = 0; ls__op_operand((ls__op_kind)kind, i, &role); i++)
        if ((size_t)role.length == length && memcmp(role.name, name, length) == 0) return i;
    return -1;
}

static ls__operand_role role_of(int kind, int operand)
{
    ls__operand_role role;
    ck_assert(ls__op_operand((ls__op_kind)kind, operand, &role));
    return role;
}

START_TEST(names)
{
    ck_assert_str_eq(ls__op_name(LS__OP_CONV2D_BACKWARD_DATA), "conv2d_backward_data");
    ck_assert_str_eq(row(LS__OP_CONV2D)->operands, "x w b? -> y");
    ck_assert_str_eq(ls__op_name(LS__N_OPS), "no op");
    ck_assert_str_eq(row(LS__N_OPS)->operands, "");
    for (int i = 0; i < LS__N_OPS; i++) {
        const char *name = row(i)->name;
        ck_assert_uint_eq(strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_"), strlen(name));
        for (int j = 0; j < i; j++) ck_assert_str_ne(name, row(j)->name);
    }
}
END_TEST

START_TEST(operands)
{
    for (int kind = 0; kind < LS__N_OPS; kind++) {
        const char *arrow = strstr(row(kind)->operands, "-> ");
        ck_assert_msg(arrow && !strstr(arrow + 1, "->"), "%s: no single arrow", row(kind)->name);
        ls__operand_role role;
        int n = 0;
        for (; ls__op_operand((ls__op_kind)kind, n, &role); n++)
            ck_assert_msg(find(kind, role.name, (size_t)role.length) == n, "%s: %.*s stands twice",
                          row(kind)->name, role.length, role.name);
        ck_assert_int_le(n, LS__MAX_OPERANDS);
        ck_assert_int_le(ls__op_inputs((ls__op_kind)kind), n);
    }
}
END_TEST

/* Each name of a list is an operand's, and stands in it once; so many names as operands take part.
 */
static int count_listed(int kind, const char *trait, const char *list)
{
    int n = 0;
    for (const char *p = list; p && *p; n++) {
        const size_t length = strcspn(p, " ");
        ck_assert_msg(find(kind, p, length) >= 0, "%s: %s = '%s': no operand '%.*s'",
                      row(kind)->name, trait, list, (int)length, p);
        p += length;
        if (*p) p++;
    }
    return n;
}

START_TEST(lists)
{
    for (int kind = 0; kind < LS__N_OPS; kind++) {
        const ls__op_traits *traits = row(kind);
        int n_half = 0, n_mutated = 0;
        ls__operand_role role;
        for (int i = 0; ls__op_operand((ls__op_kind)kind, i, &role); i++) {
            n_half += role.may_be_half;
            n_mutated += role.mutated;
            ck_assert_msg(!role.mutated || !role.output, "%s: '%.*s' is an output", traits->name,
                          role.length, role.name);
        }
        ck_assert_int_eq(count_listed(kind, "half", traits->half), n_half);
        ck_assert_int_eq(count_listed(kind, "mutates", traits->mutates), n_mutated);
    }
}
END_TEST

static int count_pairs(const char *in_place)
{
    int n = 0;
    for (const char *p = in_place; p && *p; p++) n += *p == '=';
    return n;
}

/* A result in an input's memory has its type. */
START_TEST(in_place)
{
    for (int kind = 0; kind < LS__N_OPS; kind++) {
        const ls__op_traits *traits = row(kind);
        int output, input, n = 0;
        for (; ls__op_in_place((ls__op_kind)kind, n, &output, &input); n++) {
            ck_assert_msg(output >= 0 && input >= 0, "%s: in_place = '%s': no such operand",
                          traits->name, traits->in_place);
            const ls__operand_role y = role_of(kind, output), x = role_of(kind, input);
            ck_assert_msg(y.output && !x.output, "%s: in_place = '%s': not output=input",
                          traits->name, traits->in_place);
            ck_assert_int_eq(y.may_be_half, x.may_be_half);
            ck_assert(!x.mutated);
        }
        ck_assert_int_eq(n, count_pairs(traits->in_place));
        ck_assert(n > 0 || !traits->in_place_unshared);
    }
}
END_TEST

START_TEST(flags)
{
    for (int kind = 0; kind < LS__N_OPS; kind++) {
        const ls__op_traits *traits = row(kind);
        const bool convolution = ls__op_is_convolution((ls__op_kind)kind);
        ck_assert(!convolution || traits->multiplies);
        ck_assert(traits->config != LS__CONFIG_LINEAR || traits->multiplies);
        ck_assert(!traits->weight_gradient || find(kind, "dw", 2) >= 0);
        ck_assert_int_eq(traits->multiplies,
                         (find(kind, "w", 1) >= 0) + (find(kind, "dw", 2) >= 0));
        /* a recomputation drops all results but the first, and must not update anything twice */
        ck_assert(!traits->cheap_to_recompute || !traits->mutates || kind == LS__OP_BATCH_NORM);
    }
}
END_TEST

/* Each member of `u` adds its words to an op's text. */
START_TEST(texts)
{
    static const struct {
        ls__op op;
        const char *text;
    } cases[] = {
        { { .kind = LS__OP_CONV2D_BACKWARD_DATA,
            .u.conv = { { 3, 3 }, { 2, 1 }, { 1, 0 }, { 1, 2 }, 4 } },
          "conv2d_backward_data stride=2x1 padding=1x0 dilation=1x2 groups=4" },
        { { .kind = LS__OP_NORM_CONV2D_STATISTICS,
            .u.conv = { { 3, 3 }, { 1, 1 }, { 0, 0 }, { 1, 1 }, 1 } },
          "norm_conv2d_statistics" },
        { { .kind = LS__OP_AVG_POOL, .u.pool = { { 3, 2 }, { 2, 2 }, { 1, 1 } } },
          "avg_pool kernel=3x2 stride=2x2 padding=1x1" },
        { { .kind = LS__OP_BATCH_NORM }, "batch_norm" },
        { { .kind = LS__OP_BATCH_NORM, .u.norm = { .activation = LS__ACTIVATION_RELU } },
          "batch_norm relu" },
        { { .kind = LS__OP_NORM_APPLY, .u.norm = { .activation = LS__ACTIVATION_RELU6 } },
          "norm_apply relu6" },
        { { .kind = LS__OP_NORM_FINALIZE, .u.norm = { .activation = LS__ACTIVATION_RELU } },
          "norm_finalize" },
        { { .kind = LS__OP_ADD, .u.add = { .relu = true } }, "add relu" },
        { { .kind = LS__OP_LINEAR, .u.linear = { .relu = true }, .tf32 = true },
          "linear relu tf32" },
        { { .kind = LS__OP_TOP_K, .u.top_k = { .k = 5 } }, "top_k k=5" },
        { { .kind = LS__OP_DROPOUT, .u.dropout = { .probability = 0.5f } }, "dropout" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[LS__OP_TEXT_SIZE];
        ls__op_text(&cases[i].op, text, sizeof text);
        ck_assert_str_eq(text, cases[i].text);
    }
}
END_TEST

/* The op among bytes that are all `garbage`: padding, and what the kind does not use. */
static ls__op op_among(int garbage, ls__op_kind kind)
{
    ls__op op;
    memset(&op, garbage, sizeof op);
    op.kind = kind;
    op.n_operands = 3;
    op.tf32 = true;
    for (int i = 0; i < 3; i++) {
        op.operands[i].dtype = LS_BF16;
        op.operands[i].shape.n_dims = i < 2 ? 4 : -1; /* the last one is absent */
        for (int d = 0; i < 2 && d < 4; d++) op.operands[i].shape.dims[d] = d + 2;
    }
    switch (ls__op_traits_of(kind)->config) {
    case LS__CONFIG_CONV: memset(&op.u.conv, 1, sizeof op.u.conv); break;
    case LS__CONFIG_POOL: memset(&op.u.pool, 1, sizeof op.u.pool); break;
    case LS__CONFIG_NORM:
        op.u.norm.activation = LS__ACTIVATION_RELU;
        op.u.norm.count = 9;
        break;
    case LS__CONFIG_ADD:
    case LS__CONFIG_LINEAR: op.u.add.relu = true; break;
    case LS__CONFIG_CONCAT: op.u.concat.offset = 4; break;
    case LS__CONFIG_TOP_K: op.u.top_k.k = 5; break;
    case LS__CONFIG_NONE: break;
    }
    return op;
}

START_TEST(equal_ops)
{
    for (int kind = 0; kind < LS__N_OPS; kind++) {
        const ls__op a = op_among(0x55, (ls__op_kind)kind), b = op_among(0xAA, (ls__op_kind)kind);
        ck_assert_msg(ls__op_equal(&a, &b), "%s", row(kind)->name);
        ls__op others[13];
        for (int i = 0; i < 13; i++) others[i] = b;
        others[0].kind = (ls__op_kind)(kind + 1);
        others[1].n_operands = 2;
        others[2].tf32 = false;
        others[3].operands[1].dtype = LS_F32;
        others[4].operands[1].shape.n_dims = 3;
        others[5].operands[1].shape.dims[3]++;
        others[6].operands[0].shape.n_dims = -1;
        others[7].operands[2] = others[7].operands[0];
        int n = 8;
        switch (row(kind)->config) {
        case LS__CONFIG_CONV:
            others[n++].u.conv.kernel[0]++;
            others[n++].u.conv.dilation[1]++;
            others[n++].u.conv.groups++;
            others[n++].u.conv.padding_channels++;
            break;
        case LS__CONFIG_POOL: others[n++].u.pool.padding[1]++; break;
        case LS__CONFIG_NORM:
            others[n++].u.norm.activation = LS__ACTIVATION_RELU6;
            others[n++].u.norm.count++;
            break;
        case LS__CONFIG_ADD:
        case LS__CONFIG_LINEAR: others[n++].u.add.relu = false; break;
        case LS__CONFIG_CONCAT: others[n++].u.concat.offset++; break;
        case LS__CONFIG_TOP_K: others[n++].u.top_k.k++; break;
        case LS__CONFIG_NONE: break;
        }
        for (int i = 0; i < n; i++) {
            ck_assert_msg(!ls__op_equal(&a, &others[i]), "%s: %d", row(kind)->name, i);
            ck_assert_msg(!ls__op_equal(&others[i], &a), "%s: %d", row(kind)->name, i);
        }
    }
}
END_TEST

/* A convolution and its gradients take the same products, and read and write the same operands. */
START_TEST(work)
{
    const ls__operand x = { LS_F32, LS_SHAPE(2, 8, 6, 12) };
    const ls__operand y = { LS_BF16, LS_SHAPE(2, 4, 3, 10) };
    const ls__operand w = { LS_F32, LS_SHAPE(10, 3, 3, 6) }; /* of two groups */
    const ls__operand none = { LS_F32, { .n_dims = -1 } };
    const double products = 2.0 * 4 * 3 * 10 * 3 * 3 * 6;
    const ls__op convolutions[] = {
        { .kind = LS__OP_CONV2D, .n_operands = 4, .operands = { x, w, none, y } },
        { .kind = LS__OP_CONV2D_BACKWARD_DATA, .n_operands = 3, .operands = { y, w, x } },
        { .kind = LS__OP_CONV2D_BACKWARD_WEIGHTS, .n_operands = 4, .operands = { x, y, w, none } },
    };
    for (size_t i = 0; i < sizeof convolutions / sizeof convolutions[0]; i++) {
        ck_assert_double_eq(ls__op_flops(&convolutions[i]), 2 * products);
        ck_assert_double_eq(ls__op_bytes(&convolutions[i]),
                            4.0 * 2 * 8 * 6 * 12 + 2.0 * 2 * 4 * 3 * 10 + 4.0 * 10 * 3 * 3 * 6);
    }
    for (size_t i = 0; i < sizeof convolutions / sizeof convolutions[0]; i++) {
        ls__op padded = convolutions[i]; /* of the 6 channels, 4 are 0 */
        padded.u.conv.padding_channels = 4;
        ck_assert_double_eq(ls__op_flops(&padded), 2 * products / 6 * 2);
    }
    const ls__operand rows = { LS_F32, LS_SHAPE(5, 7) }, matrix = { LS_F32, LS_SHAPE(3, 7) };
    const ls__operand results = { LS_F32, LS_SHAPE(5, 3) };
    const ls__op linear = { .kind = LS__OP_LINEAR,
                            .n_operands = 4,
                            .operands = { rows, matrix, none, results } };
    ck_assert_double_eq(ls__op_flops(&linear), 2.0 * 5 * 7 * 3);
    const ls__op relu = { .kind = LS__OP_RELU, .n_operands = 2, .operands = { x, x } };
    ck_assert_double_eq(ls__op_flops(&relu), 0);
}
END_TEST

TEST_PROGRAM(op_traits)
{
    return RUN_SUITE("op traits", names, operands, lists, in_place, flags, texts, equal_ops, work);
}
