/* vector_widths.c: see vector_widths.h. */
#include "vector_widths.h"

#include "../suite.h"
#include "missing_isa.h"
#include "op_case.h"
#include <stdio.h>
#include <string.h>

static const width_tables *tested;

static void run_width(ls_context *ctx, const op_case *c, vector_width width, op_buffers *b)
{
    const bool bf16 = c->op.operands[0].dtype == LS_BF16;
    ls__kernel *kernel;
    ck_assert_int_eq(ls__conv_open(tested->algorithm, (ls__cpu *)ctx->device, &c->op,
                                   tested->microkernels[width][bf16], tested->kernel, &kernel),
                     LS_OK);
    fill_buffers(c, b, false);
    run_and_close(ctx, c, kernel, b);
}

static void compare_widths(ls_context *ctx, const op_case *c)
{
    static const char *const names[] = { "8", "16 (pairs)", "16 (AVX-512)" };
    const vector_width last = ls__isa_detect() >= LS__ISA_AVX512 ? WIDTH_16_AVX512 : WIDTH_16_PAIRS;
    op_buffers of_8, of_16;
    run_width(ctx, c, WIDTH_8, &of_8);
    for (vector_width width = WIDTH_16_PAIRS; width <= last; width++) {
        run_width(ctx, c, width, &of_16);
        for (int out = ls__op_inputs(c->op.kind); out < of_8.n; out++)
            ck_assert_msg(!of_8.memory[out] /* an absent output */ ||
                              memcmp(of_8.memory[out], of_16.memory[out], of_8.bytes[out]) == 0,
                          "%s: bits of vectors of 8 and of %s differ in operand %d", c->name,
                          names[width], out);
        compare_buffers(c, tested->kernel, &of_16, &of_8);
        free_buffers(&of_16);
    }
    free_buffers(&of_8);
}

START_TEST(widths)
{
    ls_context *ctx = open_cpu(2, -1);
    for (int i = first_case(_i); i < all_cases()->n; i += case_stride()) {
        const op_case *c = &all_cases()->cases[i];
        if (is_conv_or_linear(c->op.kind) && is_offered(ctx, c, tested->kernel))
            compare_widths(ctx, c);
    }
    ls_context_close(&ctx);
}
END_TEST

START_TEST(offered)
{
    check_offered(tested->kernel, tested->last_kind);
}
END_TEST

int run_width_tests(const width_tables *tables)
{
    char loop[64];
    if (ls__isa_detect() < LS__ISA_AVX2) return skip_program(NO_AVX2);
    tested = tables;
    snprintf(loop, sizeof(loop), "%s: widths", tables->kernel);
    note_missing_isa("widths");
    return both(run_suite(tables->kernel, 1, &offered), run_cases(loop, widths));
}
