/* The convolutions as implicit GEMM, of both vector widths (vector_widths.h). */
#include "../suite.h"
#include "cpu/conv/implicit_gemm/implicit_gemm.h"
#include "vector_widths.h"

static const char NAME[] = "implicit gemm";

extern const ls__microkernels ls__microkernels_pairs; /* 16 wide, of AVX2 */

static void run_width(ls_context *ctx, const op_case *c, vector_width width, op_buffers *b)
{
    static const ls__microkernels *const tables[] = { [WIDTH_8] = &ls__microkernels_avx2,
                                                      [WIDTH_16_PAIRS] = &ls__microkernels_pairs,
                                                      [WIDTH_16_AVX512] =
                                                          &ls__microkernels_avx512 };
    ls__kernel *kernel;
    ck_assert_int_eq(ls__conv_open(&ls__implicit_gemm_algorithm, (ls__cpu *)ctx->device, &c->op,
                                   tables[width], NAME, &kernel),
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
