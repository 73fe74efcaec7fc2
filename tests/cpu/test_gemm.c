/* The convolutions that are products, of both vector widths (see test_winograd.c): every case's
 * bits must be equal. */
#include "../suite.h"
#include "cpu/gemm/gemm.h"
#include "op_case.h"
#include <string.h>

extern const ls__gemm_lanes ls__gemm_pairs; /* 16 wide, of AVX2 */

static void run_lanes(ls_context *ctx, const op_case *c, const ls__gemm_lanes *lanes, op_buffers *b)
{
    ls__kernel *kernel;
    ck_assert_int_eq(ls__gemm_open((ls__cpu *)ctx->device, &c->op, lanes, "gemm", &kernel), LS_OK);
    fill_buffers(c, b, false);
    run_and_close(ctx, c, kernel, b);
}

static int output_of(const op_case *c)
{
    return c->op.kind == LS__OP_CONV2D ? 3 : 2;
}

START_TEST(widths)
{
    const op_case *c = &all_cases()->cases[_i];
    ls_context *ctx = open_cpu(2, -1);
    ls__candidate kernels[LS__MAX_CANDIDATES];
    const int n = list_kernels(ctx, c, false, kernels);
    bool ours = false;
    for (int i = 0; i < n; i++) ours = ours || strcmp(kernels[i].name, "gemm") == 0;
    if (ours) {
        op_buffers narrow, wide;
        run_lanes(ctx, c, &ls__gemm_avx2, &narrow);
        run_lanes(ctx, c, &ls__gemm_pairs, &wide);
        const int out = output_of(c);
        ck_assert_msg(memcmp(narrow.memory[out], wide.memory[out], narrow.bytes[out]) == 0,
                      "%s: bits of 8 lanes and of 16 differ", c->name);
        free_buffers(&narrow);
        free_buffers(&wide);
    }
    ls_context_close(&ctx);
}
END_TEST

int main(void)
{
    if (ls__isa_detect() < LS__ISA_AVX2) return 0;
    return run_loop("gemm: widths", widths, all_cases()->n);
}
