/* Every op in N,H,W,C has a kernel of our own that costs less than the reference, so that the
 * reference is never selected, whether oneDNN's kernels are used or not. */
#include "../suite.h"
#include "op_case.h"
#include <string.h>

static void check_own(ls_context *ctx, const op_case *c)
{
    ls__candidate reference[LS__MAX_CANDIDATES], kernels[LS__MAX_CANDIDATES];
    ck_assert_int_eq(list_kernels(ctx, c, true, reference), 1);
    const int n = list_kernels(ctx, c, false, kernels);
    for (int k = 0; k < n; k++)
        if (is_own_kernel(kernels[k].name) && kernels[k].deterministic &&
            kernels[k].cost_ms < reference[0].cost_ms)
            return;
    ck_abort_msg("%s: no kernel of our own is cheaper than the reference", c->name);
}

START_TEST(own_kernels)
{
    for (int isa = LS__ISA_PLAIN; isa <= (int)ls__isa_detect(); isa++) {
        ls_context *ctx = open_cpu(1, isa);
        int n = 0;
        for (int i = 0; i < all_cases()->n; i++) {
            const op_case *c = &all_cases()->cases[i];
            if (ls__op_is_optional(c->op.kind)) continue;
            check_own(ctx, c);
            n++;
        }
        ck_assert_int_gt(n, all_cases()->n / 2);
        ls_context_close(&ctx);
    }
}
END_TEST

TEST_PROGRAM(own_kernels)
{
    return run_suite("own kernels", 1, &own_kernels);
}
