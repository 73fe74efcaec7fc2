/* Softmax, layer norm and group norm of dense activations. */
#include "op_case.h"

/* Sums are as good as the reference's; what is left is the rounding of a few float operations. */
static const double TOLERANCE = 2e-6;

/* clang-format off */
static const struct {
    struct {
        int64_t n, h, w, c; /* h 0 = [n,c] */
    } x;
    int64_t groups; /* 0: layer norm */
} shapes[] = {
    { .x = { 3, 2, 3, 6 } },
    { .x = { 3, 2, 3, 6 }, .groups = 1 },
    { .x = { 3, 2, 3, 6 }, .groups = 3 },
    { .x = { 4, 0, 0, 10 } },
    { .x = { 4, 0, 0, 10 }, .groups = 5 },
    { .x = { 2, 5, 7, 33 } },
    { .x = { 2, 5, 7, 36 }, .groups = 2 },
    { .x = { 2, 5, 7, 34 }, .groups = 34 },
    { .x = { 8, 12, 14, 96 } },
    { .x = { 5, 30, 31, 64 }, .groups = 32 },
    { .x = { 300, 0, 0, 1000 } },
};
/* clang-format on */

static op_case *add(case_list *list, ls__op_kind kind, int n, const ls__operand *operands,
                    int64_t groups)
{
    op_case *c = add_case(list, kind, n, operands, "groups %d", (int)groups);
    c->op.u.group_norm.epsilon = 1e-5f;
    c->op.u.group_norm.groups = groups;
    c->tolerance = TOLERANCE;
    return c;
}

void add_rows_cases(case_list *list)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const int64_t n = shapes[i].x.n, h = shapes[i].x.h, w = shapes[i].x.w, c = shapes[i].x.c;
        const int64_t groups = shapes[i].groups, places = h ? n * h * w : n;
        const ls__operand x = h ? activation(n, h, w, c) : dense(LS_F32, LS_SHAPE(n, c));
        const ls__operand channels = dense(LS_F32, LS_SHAPE(c));
        const ls__operand saved = dense(LS_F32, groups ? LS_SHAPE(n, groups) : LS_SHAPE(places, 1));
        const bool small = places * c < 300;
        op_case *made = add(list, LS__OP_GROUP_NORM, 6,
                            (ls__operand[]){ x, channels, channels, x, saved, saved }, groups);
        if (small) {
            made->gradient_step = 1e-2;
            made->gradient_tolerance = 1e-2; /* of small groups the third derivative is large */
        }
        add(list, LS__OP_GROUP_NORM_BACKWARD, 8,
            (ls__operand[]){ x, x, channels, saved, saved, x, channels, channels }, groups);
        if (groups > 0) continue;
        made = add(list, LS__OP_SOFTMAX, 2, (ls__operand[]){ x, x }, 0);
        if (small) {
            made->gradient_step = 1e-2;
            made->gradient_tolerance = 1e-3;
        }
        add(list, LS__OP_SOFTMAX_BACKWARD, 3, (ls__operand[]){ x, x, x }, 0);
    }
}
