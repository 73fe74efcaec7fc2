/* Every kernel against the reference kernel, on every case. */
#include "../suite.h"
#include "op_case.h"
#include <string.h>

static bool shares_memory(const op_case *c)
{
    for (int i = 0; i < c->op.n_operands; i++)
        if (c->shares[i]) return true;
    return false;
}

static void check_values(ls_context *ctx, const op_case *c)
{
    ls__candidate kernels[LS__MAX_CANDIDATES];
    op_buffers wanted, got;
    fill_buffers(c, &wanted, false);
    run_kernel(ctx, c, reference_name(c), &wanted);

    const int n = list_kernels(ctx, c, kernels);
    /* the reference again, where it has to work in place */
    for (int k = shares_memory(c) ? -1 : 0; k < n; k++) {
        const char *kernel = k < 0 ? reference_name(c) : kernels[k].name;
        fill_buffers(c, &got, true);
        run_kernel(ctx, c, kernel, &got);
        compare_buffers(c, kernel, &got, &wanted);
        free_buffers(&got);
    }
    free_buffers(&wanted);
}

START_TEST(values)
{
    ls_context *ctx = open_cpu(2, -1);
    for (int i = first_case(_i); i < all_cases()->n; i += case_stride())
        check_values(ctx, &all_cases()->cases[i]);
    ls_context_close(&ctx);
}
END_TEST

TEST_PROGRAM(op_values)
{
    return run_cases("op values", values);
}
