/* The depthwise convolutions, of both vector widths (vector_widths.h). */
#include "../suite.h"
#include "cpu/conv/depthwise/depthwise.h"
#include "vector_widths.h"

static const char NAME[] = "depthwise";

extern const ls__depthwise_microkernels ls__depthwise_pairs; /* 16 wide, of AVX2 */

static void run_width(ls_context *ctx, const op_case *c, vector_width width, op_buffers *b)
{
    static const ls__depthwise_microkernels *const tables[] = { [WIDTH_8] = &ls__depthwise_avx2,
                                                                [WIDTH_16_PAIRS] =
                                                                    &ls__depthwise_pairs,
                                                                [WIDTH_16_AVX512] =
                                                                    &ls__depthwise_avx512 };
    ls__kernel *kernel;
    ck_assert_int_eq(ls__conv_open(&ls__depthwise_algorithm, (ls__cpu *)ctx->device, &c->op,
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
