/* Winograd's kernels of both vector widths, in f32 and bf16: every convolution case's bits must be
 * equal. The 16-wide kernels are built for AVX2, as pairs of registers: same source, same bits, on
 * a machine without AVX-512; a machine with it runs those of its own registers too. */
#include "../suite.h"
#include "cpu/conv/winograd/winograd.h"
#include "op_case.h"
#include <string.h>

static const char NAME[] = "winograd 4x4";

extern const ls__wino_lanes ls__wino_pairs, ls__wino_pairs_bf16; /* 16 wide, of AVX2 */

static void run_lanes(ls_context *ctx, const op_case *c, const ls__wino_lanes *lanes, op_buffers *b)
{
    ls__kernel *kernel;
    ck_assert_int_eq(ls__wino_open((ls__cpu *)ctx->device, &c->op, lanes, NAME, &kernel), LS_OK);
    fill_buffers(c, b, false);
    run_and_close(ctx, c, kernel, b);
}

/* 16 wide, in f32 and bf16: pairs of AVX2 registers, and registers of AVX-512 where the machine has
 * them. */
static const ls__wino_lanes *const wide_lanes[][2] = {
    { &ls__wino_pairs, &ls__wino_pairs_bf16 },
    { &ls__wino_avx512, &ls__wino_avx512_bf16 },
};

static void check_widths(ls_context *ctx, const op_case *c)
{
    const int n_wide = ls__isa_detect() >= LS__ISA_AVX512 ? 2 : 1;
    const int out = ls__op_inputs(c->op.kind);
    const bool bf16 = c->op.operands[0].dtype == LS_BF16;
    op_buffers narrow, wide;
    run_lanes(ctx, c, bf16 ? &ls__wino_avx2_bf16 : &ls__wino_avx2, &narrow);
    for (int i = 0; i < n_wide; i++) {
        run_lanes(ctx, c, wide_lanes[i][bf16], &wide);
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
    return RUN_SUITE("winograd", offered) | run_loop("winograd: widths", widths, all_cases()->n);
}
