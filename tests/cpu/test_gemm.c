/* The convolutions that are products, of both vector widths (see test_winograd.c): every case's
 * bits must be equal. And the error at shapes of the bundled nets. */
#include "../suite.h"
#include "cpu/gemm/gemm.h"
#include "op_case.h"
#include <stdlib.h>
#include <string.h>

extern const ls__gemm_lanes ls__gemm_pairs; /* 16 wide, of AVX2 */

static void run_lanes(ls_context *ctx, const op_case *c, const ls__gemm_lanes *lanes, op_buffers *b)
{
    ls__kernel *kernel;
    ck_assert_int_eq(ls__gemm_open((ls__cpu *)ctx->device, &c->op, lanes, "gemm", &kernel), LS_OK);
    fill_buffers(c, b, false);
    run_and_close(ctx, c, kernel, b);
}

static int output_of(const op_case *c)
{
    return c->op.kind == LS__OP_CONV2D ? 3 : 2;
}

START_TEST(widths)
{
    const op_case *c = &all_cases()->cases[_i];
    ls_context *ctx = open_cpu(2, -1);
    ls__candidate kernels[LS__MAX_CANDIDATES];
    const int n = list_kernels(ctx, c, false, kernels);
    bool ours = false;
    for (int i = 0; i < n; i++) ours = ours || strcmp(kernels[i].name, "gemm") == 0;
    if (ours) {
        op_buffers narrow, wide;
        run_lanes(ctx, c, &ls__gemm_avx2, &narrow);
        run_lanes(ctx, c, &ls__gemm_pairs, &wide);
        const int out = output_of(c);
        ck_assert_msg(memcmp(narrow.memory[out], wide.memory[out], narrow.bytes[out]) == 0,
                      "%s: bits of 8 lanes and of 16 differ", c->name);
        free_buffers(&narrow);
        free_buffers(&wide);
    }
    ls_context_close(&ctx);
}
END_TEST

static const struct {
    int64_t in, out, size, kernel, stride;
} layers[] = { { 64, 128, 16, 3, 2 },  { 256, 512, 8, 3, 2 },   { 512, 512, 14, 3, 2 },
               { 64, 256, 56, 1, 1 },  { 1024, 256, 14, 1, 1 }, { 2048, 512, 7, 1, 1 },
               { 512, 1024, 28, 1, 2 } };
enum { N_LAYERS = sizeof layers / sizeof layers[0], N_DIRECTIONS = 3 };
static const double LARGEST_ERROR = 5e-6; /* relative, L2 */

START_TEST(errors)
{
    const int layer = _i / N_DIRECTIONS, direction = _i % N_DIRECTIONS;
    const int64_t kernel = layers[layer].kernel, stride = layers[layer].stride;
    const int64_t size = layers[layer].size, out_size = (size - 1) / stride + 1;
    const ls__operand x = activation(2, size, size, layers[layer].in, 0), none = absent();
    const ls__operand y = activation(2, out_size, out_size, layers[layer].out, 0);
    const ls__operand w =
        dense(LS_F32, LS_SHAPE(layers[layer].out, kernel, kernel, layers[layer].in));
    const ls__operand operands[N_DIRECTIONS][4] = { { x, w, none, y },
                                                    { y, w, x },
                                                    { x, y, w, none } };
    case_list list = { NULL, 0, 0 };
    op_case *c = add_case(&list, (ls__op_kind)(LS__OP_CONV2D + direction), direction == 1 ? 3 : 4,
                          operands[direction], "layer");
    c->op.u.conv.groups = 1;
    for (int d = 0; d < 2; d++) {
        c->op.u.conv.kernel[d] = kernel;
        c->op.u.conv.stride[d] = stride;
        c->op.u.conv.padding[d] = kernel / 2;
        c->op.u.conv.dilation[d] = 1;
    }
    ls_context *ctx = open_cpu(2, -1);
    op_buffers got, wanted;
    run_lanes(ctx, c, &ls__gemm_avx2, &got);
    fill_buffers(c, &wanted, false);
    run_kernel(ctx, c, reference_name(c), &wanted);
    const int out = output_of(c);
    const double error =
        relative_error(got.memory[out], wanted.memory[out], got.bytes[out] / sizeof(float));
    ck_assert_msg(error <= LARGEST_ERROR, "%s: relative error %g", c->name, error);
    free_buffers(&got);
    free_buffers(&wanted);
    free(list.cases);
    ls_context_close(&ctx);
}
END_TEST

int main(void)
{
    if (ls__isa_detect() < LS__ISA_AVX2) return 0;
    const int failed = run_loop("gemm: widths", widths, all_cases()->n);
    return run_loop("gemm: errors", errors, N_LAYERS * N_DIRECTIONS) || failed;
}
