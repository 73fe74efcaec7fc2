/* The error of our own convolutions against the plain-C reference at the bundled nets' shapes. */
#include "../suite.h"
#include "op_case.h"
#include <stdlib.h>

static const struct {
    const char *kernel;
    int64_t in, out, size, taps, stride; /* taps: a side of the window */
} layers[] = {
    { "winograd 4x4", 16, 16, 32, 3, 1 },    { "winograd 4x4", 32, 32, 16, 3, 1 },
    { "winograd 4x4", 64, 64, 8, 3, 1 },     { "winograd 4x4", 64, 64, 32, 3, 1 },
    { "winograd 4x4", 128, 128, 16, 3, 1 },  { "winograd 4x4", 256, 256, 8, 3, 1 },
    { "winograd 4x4", 512, 512, 4, 3, 1 },   { "winograd 4x4", 64, 64, 56, 3, 1 },
    { "winograd 4x4", 128, 128, 28, 3, 1 },  { "winograd 4x4", 256, 256, 14, 3, 1 },
    { "winograd 4x4", 512, 512, 7, 3, 1 },   { "implicit gemm", 64, 128, 16, 3, 2 },
    { "implicit gemm", 256, 512, 8, 3, 2 },  { "implicit gemm", 512, 512, 14, 3, 2 },
    { "implicit gemm", 64, 256, 56, 1, 1 },  { "implicit gemm", 1024, 256, 14, 1, 1 },
    { "implicit gemm", 2048, 512, 7, 1, 1 }, { "implicit gemm", 512, 1024, 28, 1, 2 },
};
enum { N_LAYERS = sizeof layers / sizeof layers[0], N_DIRECTIONS = 3 };
static const double LARGEST_ERROR = 2.5e-6; /* relative, L2 */

/* Layer `layer` on two images, in one of three directions, as the only case of a list. */
static op_case *make_case(case_list *list, int layer, int direction)
{
    const int64_t in = layers[layer].in, out = layers[layer].out, taps = layers[layer].taps;
    const int64_t stride = layers[layer].stride, size = layers[layer].size;
    const int64_t out_size = (size - 1) / stride + 1;
    const ls__operand x = activation(2, size, size, in), none = absent();
    const ls__operand y = activation(2, out_size, out_size, out);
    const ls__operand w = dense(LS_F32, LS_SHAPE(out, taps, taps, in));
    const ls__operand operands[N_DIRECTIONS][4] = { { x, w, none, y },
                                                    { y, w, x },
                                                    { x, y, w, none } };
    op_case *c = add_case(list, (ls__op_kind)(LS__OP_CONV2D + direction), direction == 1 ? 3 : 4,
                          operands[direction], "layer");
    c->op.u.conv.groups = 1;
    for (int d = 0; d < 2; d++) {
        c->op.u.conv.kernel[d] = taps;
        c->op.u.conv.stride[d] = stride;
        c->op.u.conv.padding[d] = taps / 2;
        c->op.u.conv.dilation[d] = 1;
    }
    return c;
}

START_TEST(errors)
{
    const int layer = _i / N_DIRECTIONS, direction = _i % N_DIRECTIONS;
    case_list list = { NULL, 0, 0 };
    const op_case *c = make_case(&list, layer, direction);
    ls_context *ctx = open_cpu(2, -1);
    op_buffers got, wanted;
    fill_buffers(c, &got, false);
    run_kernel(ctx, c, layers[layer].kernel, &got);
    fill_buffers(c, &wanted, false);
    run_kernel(ctx, c, reference_name(c), &wanted);
    const int result = direction == 0 ? 3 : 2;
    const double error = relative_error(got.memory[result], wanted.memory[result],
                                        got.bytes[result] / sizeof(float));
    ck_assert_msg(error <= LARGEST_ERROR, "%s, %lld to %lld channels, direction %d: error %g",
                  layers[layer].kernel, (long long)layers[layer].in, (long long)layers[layer].out,
                  direction, error);
    free_buffers(&got);
    free_buffers(&wanted);
    free(list.cases);
    ls_context_close(&ctx);
}
END_TEST

TEST_PROGRAM(conv_errors)
{
    return run_loop("convolutions' errors", errors, N_LAYERS * N_DIRECTIONS);
}
