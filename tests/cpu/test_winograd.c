/* Winograd's kernels of both vector widths, in f32 and bf16: every convolution case's bits must be
 * equal. The 16-wide kernels are built for AVX2, as pairs of registers: same source, same bits, on
 * a machine without AVX-512; a machine with it runs those of its own registers too. */
#include "../suite.h"
#include "missing_isa.h"
#include "cpu/conv/winograd/winograd.h"
#include "op_case.h"
#include <string.h>

static const char NAME[] = "winograd 4x4";

extern const ls__winograd_transforms ls__winograd_pairs,
    ls__winograd_bf16_pairs; /* 16 wide, of AVX2 */

static void run_table(ls_context *ctx, const op_case *c, const ls__winograd_transforms *table,
                      op_buffers *b)
{
    ls__kernel *kernel;
    ck_assert_int_eq(ls__conv_open(&ls__winograd_algorithm, (ls__cpu *)ctx->device, &c->op, table,
                                   NAME, &kernel),
                     LS_OK);
    fill_buffers(c, b, false);
    run_and_close(ctx, c, kernel, b);
}

/* 16 wide, in f32 and bf16: pairs of AVX2 registers, and registers of AVX-512 where the machine has
 * them. */
static const ls__winograd_transforms *const tables_of_16[][2] = {
    { &ls__winograd_pairs, &ls__winograd_bf16_pairs },
    { &ls__winograd_avx512, &ls__winograd_bf16_avx512 },
};

static void check_widths(ls_context *ctx, const op_case *c)
{
    const int n_tables = ls__isa_detect() >= LS__ISA_AVX512 ? 2 : 1;
    const int out = ls__op_inputs(c->op.kind);
    const bool bf16 = c->op.operands[0].dtype == LS_BF16;
    op_buffers of_8, of_16;
    run_table(ctx, c, bf16 ? &ls__winograd_bf16_avx2 : &ls__winograd_avx2, &of_8);
    for (int i = 0; i < n_tables; i++) {
        run_table(ctx, c, tables_of_16[i][bf16], &of_16);
        ck_assert_msg(memcmp(of_8.memory[out], of_16.memory[out], of_8.bytes[out]) == 0,
                      "%s: bits of vectors of 8 and of 16 (%s) differ", c->name,
                      i == 0 ? "pairs" : "AVX-512");
        compare_buffers(c, NAME, &of_16, &of_8);
        free_buffers(&of_16);
    }
    free_buffers(&of_8);
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
    if (ls__isa_detect() < LS__ISA_AVX2) return skip_program("the processor has no AVX2");
    note_missing_isa("widths");
    return both(RUN_SUITE("winograd", offered),
                run_loop("winograd: widths", widths, all_cases()->n));
}
