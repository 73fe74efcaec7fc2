/* The convolutions that are products, of both vector widths (see test_winograd.c): every case's
 * bits must be equal. */
#include "../suite.h"
#include "cpu/conv/implicit_gemm/gemm.h"
#include "op_case.h"
#include <string.h>

static const char NAME[] = "gemm";

extern const ls__gemm_lanes ls__gemm_pairs; /* 16 wide, of AVX2 */

static void run_lanes(ls_context *ctx, const op_case *c, const ls__gemm_lanes *lanes, op_buffers *b)
{
    ls__kernel *kernel;
    ck_assert_int_eq(ls__gemm_open((ls__cpu *)ctx->device, &c->op, lanes, NAME, &kernel), LS_OK);
    fill_buffers(c, b, false);
    run_and_close(ctx, c, kernel, b);
}

/* 16 wide: pairs of AVX2 registers, and registers of AVX-512 where the machine has them. */
static const ls__gemm_lanes *const wide_lanes[] = { &ls__gemm_pairs, &ls__gemm_avx512 };

static void check_widths(ls_context *ctx, const op_case *c)
{
    const int n_wide = ls__isa_detect() >= LS__ISA_AVX512 ? 2 : 1;
    const int out = ls__op_inputs(c->op.kind);
    op_buffers narrow, wide;
    run_lanes(ctx, c, &ls__gemm_avx2, &narrow);
    for (int i = 0; i < n_wide; i++) {
        run_lanes(ctx, c, wide_lanes[i], &wide);
        ck_assert_msg(memcmp(narrow.memory[out], wide.memory[out], narrow.bytes[out]) == 0,
                      "%s: bits of 8 lanes and of 16 (%s) differ", c->name,
                      i == 0 ? "pairs" : "AVX-512");
        compare_buffers(c, NAME, &wide, &narrow);
        free_buffers(&wide);
    }
    free_buffers(&narrow);
}

START_TEST(widths)
{
    const op_case *c = &all_cases()->cases[_i];
    if (!ls__op_is_convolution(c->op.kind)) return;
    ls_context *ctx = open_cpu(2, -1);
    if (is_offered(ctx, c, NAME)) check_widths(ctx, c);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(offered)
{
    check_offered_to_convs(NAME);
}
END_TEST

int main(void)
{
    if (ls__isa_detect() < LS__ISA_AVX2) return 0;
    return RUN_SUITE("gemm", offered) | run_loop("gemm: widths", widths, all_cases()->n);
}
