/* Winograd's kernels of both vector widths, in f32 and bf16: every convolution case's bits must be
 * equal. The 16-wide kernels are built for AVX2, as pairs of registers: same source, same bits, on
 * a machine without AVX-512; a machine with it runs those of its own registers too. */
#include "../suite.h"
#include "cpu/winograd/winograd.h"
#include "op_case.h"
#include <string.h>

extern const ls__wino_lanes ls__wino_pairs, ls__wino_pairs_bf16; /* 16 wide, of AVX2 */

static void run_lanes(ls_context *ctx, const op_case *c, const ls__wino_lanes *lanes, op_buffers *b)
{
    ls__kernel *kernel;
    ck_assert_int_eq(ls__wino_open((ls__cpu *)ctx->device, &c->op, lanes, "winograd 4x4", &kernel),
                     LS_OK);
    fill_buffers(c, b, false);
    run_and_close(ctx, c, kernel, b);
}

/* Of the op's first output, the last operand but for db. */
static int output_of(const op_case *c)
{
    return c->op.kind == LS__OP_CONV2D ? 3 : 2;
}

/* 16 wide, in f32 and bf16: pairs of AVX2 registers, and registers of AVX-512 where the machine has
 * them. */
static const ls__wino_lanes *const wide_lanes[][2] = {
    { &ls__wino_pairs, &ls__wino_pairs_bf16 },
    { &ls__wino_avx512, &ls__wino_avx512_bf16 },
};

static void check_widths(const op_case *c)
{
    const int n_wide = ls__isa_detect() >= LS__ISA_AVX512 ? 2 : 1;
    ls_context *ctx = open_cpu(2, -1);
    ls__candidate kernels[LS__MAX_CANDIDATES];
    const int n = list_kernels(ctx, c, false, kernels);
    bool ours = false;
    for (int i = 0; i < n; i++) ours = ours || strcmp(kernels[i].name, "winograd 4x4") == 0;
    if (ours) {
        const bool bf16 = c->op.operands[0].dtype == LS_BF16;
        op_buffers narrow, wide;
        run_lanes(ctx, c, bf16 ? &ls__wino_avx2_bf16 : &ls__wino_avx2, &narrow);
        const int out = output_of(c);
        for (int i = 0; i < n_wide; i++) {
            run_lanes(ctx, c, wide_lanes[i][bf16], &wide);
            ck_assert_msg(memcmp(narrow.memory[out], wide.memory[out], narrow.bytes[out]) == 0,
                          "%s: bits of 8 lanes and of 16 (%s) differ", c->name,
                          i == 0 ? "pairs" : "AVX-512");
            compare_buffers(c, "winograd 4x4", &wide, &narrow);
            free_buffers(&wide);
        }
        free_buffers(&narrow);
    }
    ls_context_close(&ctx);
}

START_TEST(widths)
{
    const op_case *c = &all_cases()->cases[_i];
    if (c->op.kind >= LS__OP_CONV2D && c->op.kind <= LS__OP_CONV2D_BACKWARD_WEIGHTS)
        check_widths(c);
}
END_TEST

int main(void)
{
    if (ls__isa_detect() < LS__ISA_AVX2) return 0;
    return run_loop("winograd: widths", widths, all_cases()->n);
}
