/* test_failures.c: every allocation of building and running a net fails once, in turn. */
#include "../failing_allocator.h"
#include "../suite.h"
#include <lockstep/lockstep.h>

enum { N = 2, SIZE = 6 };

static ls_node *model(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    ls_node *y = ls_batch_norm(
        g, "bn", ls_conv2d(g, "conv", x, 8, &(ls_conv2d_config){ .kernel = 3, .padding = 1 }),
        NULL);
    x = ls_relu(g, ls_add(g, y, ls_conv2d(g, "short", x, 8, NULL)));
    x = ls_max_pool(g, x, &(ls_pool_config){ .kernel = 2 });
    return ls_linear(g, "fc", ls_flatten(g, x), 3, NULL);
}

/* Returns whether everything went well. */
static bool work(ls_context *ctx, ls_precision precision)
{
    const uint8_t pixels[N * SIZE * SIZE * 3] = { 7, 200, 31 };
    const int32_t labels[N] = { 2, 1 };
    ls_tensor *images = ls_tensor_from_data(ctx, LS_U8, LS_SHAPE(N, SIZE, SIZE, 3), pixels);
    ls_tensor *label = ls_tensor_from_data(ctx, LS_I32, LS_SHAPE(N), labels);
    ls_net *net =
        ls_net_build(ctx, model, NULL,
                     &(ls_net_config){ .input = { .image = { LS_U8, LS_SHAPE(N, SIZE, SIZE, 3) } },
                                       .loss = { LS_LOSS_CROSS_ENTROPY },
                                       .precision = precision });
    ls_optimizer *opt = ls_adam(net, NULL);
    if (ls_context_status(ctx) != LS_OK) return false;
    const ls_batch batch = { .images = images, .labels = label, .n = N };
    return ls_net_step(net, opt, &batch, 0) == LS_OK && ls_net_evaluate(net, &batch) == LS_OK;
}

START_TEST(every_allocation_fails_once)
{
    const ls_precision precision = _i == 1 ? LS_PRECISION_F16 : LS_PRECISION_F32;
    for (int64_t n = 1;; n++) {
        failing_allocator a;
        failing_allocator_init(&a, n);
        ls_context *ctx = ls_context_open(&(ls_context_config){ .allocator = &a.allocator,
                                                                .threads = 2,
                                                                .shards = _i >= 2 ? N : 1,
                                                                .sync_batch_norm = _i == 3 });
        const bool well = ctx && work(ctx, precision);
        const bool failed = failing_allocator_failed(&a);
        ls_context_close(&ctx);
        ck_assert_int_eq(failing_allocator_live(&a), 0);
        if (!failed) {
            ck_assert(well);
            break;
        }
    }
}
END_TEST

TEST_PROGRAM(failures)
{
    return run_loop("failures", every_allocation_fails_once, 4);
}
