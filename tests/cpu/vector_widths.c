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
    static const char *const names[] = { "4", "8", "16 (pairs)", "16 (AVX-512)" };
    const vector_width last = ls__isa_detect() >= LS__ISA_AVX512 ? WIDTH_16_AVX512 : WIDTH_16_PAIRS;
    op_buffers first, other;
    run_width(ctx, c, WIDTH_4, &first);
    for (vector_width width = WIDTH_8; width <= last; width++) {
        run_width(ctx, c, width, &other);
        for (int out = ls__op_inputs(c->op.kind); out < first.n; out++)
            ck_assert_msg(!first.memory[out] /* an absent output */ ||
                              memcmp(first.memory[out], other.memory[out], first.bytes[out]) == 0,
                          "%s: bits of vectors of 4 and of %s differ in operand %d", c->name,
                          names[width], out);
        compare_buffers(c, tested->kernel, &other, &first);
        free_buffers(&other);
    }
    free_buffers(&first);
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

/* Whether some case of each kind has the kernel, in f32 and, if it takes bf16, in bf16: else the
 * widths of that kernel compare nothing. */
START_TEST(offered)
{
    ls_context *ctx = open_cpu(1, -1);
    const bool takes_bf16 = tested->microkernels[WIDTH_4][1] != NULL;
    int n_cases[LS__N_OPS][2] = { { 0 } };
    for (int i = 0; i < all_cases()->n; i++) {
        const op_case *c = &all_cases()->cases[i];
        const bool bf16 = c->op.operands[0].dtype == LS_BF16;
        if (is_conv_or_linear(c->op.kind))
            n_cases[c->op.kind][bf16] += is_offered(ctx, c, tested->kernel);
    }
    for (int kind = LS__OP_CONV2D; kind <= (int)tested->last_kind; kind++)
        for (int bf16 = 0; bf16 < 1 + takes_bf16; bf16++)
            ck_assert_msg(n_cases[kind][bf16] > 0, "%s is offered for no %s in %s", tested->kernel,
                          ls__op_name((ls__op_kind)kind), bf16 ? "bf16" : "f32");
    ls_context_close(&ctx);
}
END_TEST

int run_width_tests(const width_tables *tables)
{
    char loop[64];
    tested = tables;
    snprintf(loop, sizeof(loop), "%s: widths", tables->kernel);
    note_missing_isa("widths");
    const int status = run_suite(tables->kernel, 1, &offered);
    return ls__isa_detect() < LS__ISA_AVX2 ? status : both(status, run_cases(loop, widths));
}
