/* Winograd's kernels of both vector widths, in f32 and bf16: every convolution case's bits must be
 * equal. The 16-wide kernels are built for AVX2, as pairs of registers: same source, same bits, on
 * a machine without AVX-512; a machine with it runs those of its own registers too. And the error
 * against direct convolution at the shapes of the bundled nets. */
#include "../suite.h"
#include "cpu/winograd/winograd.h"
#include "op_case.h"
#include <math.h>
#include <stdlib.h>
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

/* Channels and sizes of the bundled nets' 3x3 layers of stride 1. */
static const struct {
    int64_t channels, size;
} layers[] = { { 16, 32 }, { 32, 16 }, { 64, 8 },   { 64, 32 },  { 128, 16 }, { 256, 8 },
               { 512, 4 }, { 64, 56 }, { 128, 28 }, { 256, 14 }, { 512, 7 } };
enum { N_LAYERS = sizeof layers / sizeof layers[0], N_DIRECTIONS = 3 };
static const double LARGEST_ERROR = 5e-6; /* relative, L2 */

START_TEST(errors)
{
    const int64_t c = layers[_i / N_DIRECTIONS].channels, size = layers[_i / N_DIRECTIONS].size;
    const int direction = _i % N_DIRECTIONS;
    const ls__operand x = activation(2, size, size, c, 0), none = absent();
    const ls__operand w = dense(LS_F32, LS_SHAPE(c, 3, 3, c));
    const ls__operand operands[N_DIRECTIONS][4] = { { x, w, none, x },
                                                    { x, w, x },
                                                    { x, x, w, none } };
    case_list list = { NULL, 0, 0 };
    op_case *layer = add_case(&list, (ls__op_kind)(LS__OP_CONV2D + direction),
                              direction == 1 ? 3 : 4, operands[direction], "3x3");
    for (int d = 0; d < 2; d++)
        layer->op.u.conv.kernel[d] = 3, layer->op.u.conv.stride[d] = 1,
        layer->op.u.conv.padding[d] = 1, layer->op.u.conv.dilation[d] = 1;
    layer->op.u.conv.groups = 1;
    ls_context *ctx = open_cpu(2, -1);
    op_buffers got, wanted;
    run_lanes(ctx, layer, &ls__wino_avx2, &got);
    fill_buffers(layer, &wanted, false);
    run_kernel(ctx, layer, reference_name(layer), &wanted);
    const int out = output_of(layer);
    const double error =
        relative_error(got.memory[out], wanted.memory[out], got.bytes[out] / sizeof(float));
    ck_assert_msg(error <= LARGEST_ERROR, "%s: relative error %g", layer->name, error);
    free_buffers(&got);
    free_buffers(&wanted);
    free(list.cases);
    ls_context_close(&ctx);
}
END_TEST

int main(void)
{
    if (ls__isa_detect() < LS__ISA_AVX2) return 0;
    const int failed = run_loop("winograd: widths", widths, all_cases()->n);
    return run_loop("winograd: errors", errors, N_LAYERS * N_DIRECTIONS) || failed;
}
