/* Every op has a deterministic kernel of our own, whether oneDNN's kernels are used or not. */
#include "../suite.h"
#include "op_case.h"
#include <string.h>

static void check_own(ls_context *ctx, const op_case *c)
{
    ls__candidate kernels[LS__MAX_CANDIDATES];
    const int n = list_kernels(ctx, c, kernels);
    for (int k = 0; k < n; k++)
        if (is_own_kernel(kernels[k].name) && kernels[k].deterministic) return;
    ck_abort_msg("%s: no kernel of our own", c->name);
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
