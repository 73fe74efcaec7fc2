/* Pooling. Maxima and places are exact; averages round once or a few times. */
#include "op_case.h"

/* Sums of up to some 1000 floats; gradients are sums of a few. */
static const double TOLERANCE = 1e-6;

static const struct {
    struct {
        int64_t n, h, w, c;
    } x;
    int64_t kernel, stride, padding;
} windows[] = {
    { .x = { 2, 5, 7, 3 }, .kernel = 2, .stride = 2 },
    { .x = { 1, 6, 6, 2 }, .kernel = 3, .stride = 2, .padding = 1 },
    { .x = { 2, 7, 5, 8 }, .kernel = 3, .stride = 1, .padding = 1 },
    { .x = { 1, 8, 8, 16 }, .kernel = 3, .stride = 2, .padding = 1 },
    { .x = { 2, 9, 4, 16 }, .kernel = 2, .stride = 3 },
    { .x = { 1, 4, 4, 32 }, .kernel = 4, .stride = 4 },
    { .x = { 1, 20, 18, 8 }, .kernel = 17, .stride = 1, .padding = 8 },
    { .x = { 4, 56, 56, 64 }, .kernel = 3, .stride = 2, .padding = 1 },
    { .x = { 3, 1, 1, 16 }, .kernel = 1, .stride = 1 },
    { .x = { 2, 5, 5, 24 }, .kernel = 5, .stride = 1, .padding = 2 },
    { .x = { 3, 6, 8, 6 }, .kernel = 2, .stride = 2 },
    { .x = { 2, 6, 9, 21 }, .kernel = 3, .stride = 3 },
    { .x = { 1, 18, 18, 5 }, .kernel = 18, .stride = 18 },
    { .x = { 64, 28, 28, 6 }, .kernel = 2, .stride = 2 },
    { .x = { 2, 9, 8, 1 }, .kernel = 3, .stride = 2, .padding = 1 },
    { .x = { 2, 4, 18, 1 }, .kernel = 2, .stride = 2 },
    { .x = { 1, 9, 7, 13 }, .kernel = 3, .stride = 2, .padding = 1 },
};

static const struct {
    int64_t n, h, w, c;
} images[] = {
    { 2, 3, 5, 7 },    { 1, 1, 1, 3 },    { 3, 4, 4, 32 },
    { 32, 4, 4, 512 }, { 2, 33, 31, 16 }, { 1, 7, 7, 2048 },
};

static op_case *add_window(case_list *list, size_t i, ls__op_kind kind, int n,
                           const ls__operand *operands)
{
    op_case *c = add_case(list, kind, n, operands, "kernel %d stride %d padding %d",
                          (int)windows[i].kernel, (int)windows[i].stride, (int)windows[i].padding);
    for (int d = 0; d < 2; d++) {
        c->op.u.pool.kernel[d] = windows[i].kernel;
        c->op.u.pool.stride[d] = windows[i].stride;
        c->op.u.pool.padding[d] = windows[i].padding;
    }
    c->tolerance = TOLERANCE;
    return c;
}

static int64_t output_size(size_t i, int64_t size)
{
    return (size + 2 * windows[i].padding - windows[i].kernel) / windows[i].stride + 1;
}

static void add_windows(case_list *list, size_t i)
{
    const int64_t n = windows[i].x.n, h = windows[i].x.h, w = windows[i].x.w, c = windows[i].x.c;
    const ls__operand x = activation(n, h, w, c);
    const ls__operand y = activation(n, output_size(i, h), output_size(i, w), c);
    const bool small = n * h * w * c < 2000;
    ls__operand index = y;
    index.dtype = windows[i].kernel * windows[i].kernel <= 255 ? LS_U8 : LS_I32;

    op_case *added = add_window(list, i, LS__OP_MAX_POOL, 3, (ls__operand[]){ x, y, index });
    added->tolerance = 0;
    if (small) {
        added->gradient_step = 1e-4; /* two values of a window are rarely this near */
        added->gradient_tolerance = 1e-2;
    }
    added = add_window(list, i, LS__OP_MAX_POOL, 3, (ls__operand[]){ x, y, absent() });
    added->tolerance = 0;
    add_window(list, i, LS__OP_MAX_POOL_BACKWARD, 3, (ls__operand[]){ y, index, x });
    added = add_window(list, i, LS__OP_AVG_POOL, 2, (ls__operand[]){ x, y });
    if (small) {
        added->gradient_step = 1;
        added->gradient_tolerance = 1e-5;
    }
    add_window(list, i, LS__OP_AVG_POOL_BACKWARD, 2, (ls__operand[]){ y, x });
}

static void add_images(case_list *list, size_t i)
{
    const int64_t n = images[i].n, h = images[i].h, w = images[i].w, c = images[i].c;
    const ls__operand x = activation(n, h, w, c), y = dense(LS_F32, LS_SHAPE(n, c));
    op_case *added = add_case(list, LS__OP_GLOBAL_AVG_POOL, 2, (ls__operand[]){ x, y }, "%s", "");
    added->tolerance = TOLERANCE;
    if (n * h * w * c < 2000) {
        added->gradient_step = 1;
        added->gradient_tolerance = 1e-5;
    }
    added = add_case(list, LS__OP_GLOBAL_AVG_POOL_BACKWARD, 2, (ls__operand[]){ y, x }, "%s", "");
    added->tolerance = TOLERANCE;
}

void add_pool_cases(case_list *list)
{
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++) add_windows(list, i);
    for (size_t i = 0; i < sizeof images / sizeof images[0]; i++) add_images(list, i);
}
