/* Winograd's kernels of both vector widths, in f32 and bf16 (vector_widths.h). */
#include "../suite.h"
#include "cpu/conv/winograd/winograd.h"
#include "vector_widths.h"

static const char NAME[] = "winograd 4x4";

extern const ls__winograd_transforms ls__winograd_pairs,
    ls__winograd_bf16_pairs; /* 16 wide, of AVX2 */

static void run_width(ls_context *ctx, const op_case *c, vector_width width, op_buffers *b)
{
    static const ls__winograd_transforms *const tables[][2] = {
        [WIDTH_8] = { &ls__winograd_avx2, &ls__winograd_bf16_avx2 },
        [WIDTH_16_PAIRS] = { &ls__winograd_pairs, &ls__winograd_bf16_pairs },
        [WIDTH_16_AVX512] = { &ls__winograd_avx512, &ls__winograd_bf16_avx512 },
    };
    const bool bf16 = c->op.operands[0].dtype == LS_BF16;
    ls__kernel *kernel;
    ck_assert_int_eq(ls__conv_open(&ls__winograd_algorithm, (ls__cpu *)ctx->device, &c->op,
                                   tables[width][bf16], NAME, &kernel),
                     LS_OK);
    fill_buffers(c, b, false);
    run_and_close(ctx, c, kernel, b);
}

START_TEST(widths)
{
    check_widths(&all_cases()->cases[_i], NAME, run_width);
}
END_TEST

START_TEST(offered)
{
    check_offered_to_convs(NAME);
}
END_TEST

int main(void)
{
    return run_width_tests(NAME, offered, widths);
}
