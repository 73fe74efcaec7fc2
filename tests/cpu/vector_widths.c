/* vector_widths.c: see vector_widths.h. */
#include "vector_widths.h"

#include "../suite.h"
#include "missing_isa.h"
#include <stdio.h>
#include <string.h>

static void compare_widths(ls_context *ctx, const op_case *c, const char *name, run_width_fn run)
{
    static const char *const names[] = { "8", "16 (pairs)", "16 (AVX-512)" };
    const vector_width last = ls__isa_detect() >= LS__ISA_AVX512 ? WIDTH_16_AVX512 : WIDTH_16_PAIRS;
    const int out = ls__op_inputs(c->op.kind);
    op_buffers of_8, of_16;
    run(ctx, c, WIDTH_8, &of_8);
    for (vector_width width = WIDTH_16_PAIRS; width <= last; width++) {
        run(ctx, c, width, &of_16);
        ck_assert_msg(memcmp(of_8.memory[out], of_16.memory[out], of_8.bytes[out]) == 0,
                      "%s: bits of vectors of 8 and of %s differ", c->name, names[width]);
        compare_buffers(c, name, &of_16, &of_8);
        free_buffers(&of_16);
    }
    free_buffers(&of_8);
}

void check_widths(const op_case *c, const char *name, run_width_fn run)
{
    if (!ls__op_is_convolution(c->op.kind)) return;
    ls_context *ctx = open_cpu(2, -1);
    if (is_offered(ctx, c, name)) compare_widths(ctx, c, name, run);
    ls_context_close(&ctx);
}

int run_width_tests(const char *name, const TTest *offered, const TTest *widths)
{
    char loop[64];
    if (ls__isa_detect() < LS__ISA_AVX2) return skip_program("the processor has no AVX2");
    snprintf(loop, sizeof(loop), "%s: widths", name);
    note_missing_isa("widths");
    return both(run_suite(name, 1, &offered), run_loop(loop, widths, all_cases()->n));
}
