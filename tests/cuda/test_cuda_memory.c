/* Memory of the emulated CUDA device: reports when it runs out, and a net's life with every call of
 * the driver failing in turn. */
#include "../failing_allocator.h"
#include "../suite.h"
#include "emulator/driver.h"
#include "emulator/symbol.h"
#include <lockstep/lockstep.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 6, CLASSES = 3 };

static ls_node *model(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    x = ls_conv2d(g, "conv", x, 4, &(ls_conv2d_config){ .kernel = 3, .padding = 1 });
    x = ls_relu(g, ls_batch_norm(g, "bn", x, NULL));
    return ls_linear(g, "fc", ls_global_avg_pool(g, x), CLASSES, NULL);
}

static ls_net *build(ls_context *ctx, int64_t batch)
{
    return ls_net_build(
        ctx, model, NULL,
        &(ls_net_config){ .input = { .image = { LS_U8, LS_SHAPE(batch, SIDE, SIDE, 3) },
                                     .std = { 1, 1, 1 },
                                     .n_classes = CLASSES },
                          .loss = { LS_LOSS_CROSS_ENTROPY } });
}

static size_t number_before(const char *message, const char *word)
{
    const char *at = strstr(message, word);
    ck_assert_msg(at != NULL, "%s", message);
    while (at[-1] >= '0' && at[-1] <= '9') at--;
    return strtoull(at, NULL, 10);
}

/* The largest batch that is said to fit into so much memory. */
static int64_t largest_batch(ls_context *ctx, size_t memory_bytes)
{
    static const char words[] = "the largest batch that fits is ";
    ck_assert_ptr_null(build(ctx, 1 << 16));
    ck_assert_int_eq(ls_context_status(ctx), LS_ERR_MEMORY);
    const char *message = ls_context_message(ctx);
    const size_t asked = number_before(message, " bytes requested"),
                 free = number_before(message, " free");
    ck_assert_uint_gt(asked, memory_bytes);
    ck_assert_uint_le(free + number_before(message, " cached"), memory_bytes);
    ck_assert_uint_gt(free, memory_bytes / 2);
    const char *best = strstr(message, words);
    ck_assert_msg(best != NULL, "%s", message);
    const int64_t n = atoll(best + strlen(words));
    ls_context_clear_error(ctx);
    return n;
}

/* Whatever memory the host has. */
static void check_largest_batch(size_t memory_bytes, const ls_context_config *config)
{
    ls_context *ctx = ls_context_open(config);
    const int64_t best = largest_batch(ctx, memory_bytes);
    ck_assert_int_gt(best, 100);
    ls_net *net = build(ctx, best);
    ck_assert_msg(net != NULL, "%s", ls_context_message(ctx));
    ls_net_close(&net);
    ck_assert_ptr_null(build(ctx, best + best / 16));
    expect_error(ctx, LS_ERR_MEMORY, "");
    ck_assert_ptr_nonnull(build(ctx, 2));
    ls_context_close(&ctx);
}

START_TEST(the_device_is_too_small)
{
    setenv("LOCKSTEP_EMULATED_MEMORY", "12000000", 1);
    check_largest_batch(12000000, &(ls_context_config){ .device = "cuda" });
}
END_TEST

START_TEST(the_limit_is_too_small)
{
    check_largest_batch(7000000,
                        &(ls_context_config){ .device = "cuda", .memory_limit_bytes = 7000000 });
}
END_TEST

/* Another program may have all of it. */
START_TEST(nothing_is_free)
{
    setenv("LOCKSTEP_EMULATED_MEMORY", "3000", 1);
    ls_context *ctx = ls_context_open(&(ls_context_config){ .device = "cuda" });
    ck_assert_int_eq(ls_context_status(ctx), LS_OK);
    ck_assert_ptr_null(build(ctx, 64));
    expect_error(ctx, LS_ERR_MEMORY, "free, 0 cached");
    ls_context_close(&ctx);
}
END_TEST

/* A net's life; every call may fail. */
static ls_status live(ls_context *ctx)
{
    static uint8_t pixels[2 * SIDE * SIDE * 3];
    static const int32_t labels[2] = { 0, 2 };
    ls_net *net = build(ctx, 2);
    ls_optimizer *opt = ls_sgd(net, &(ls_sgd_config){ .momentum = 0.9f, .clip_norm = 1 });
    ls_batch batch = { .images =
                           ls_tensor_from_data(ctx, LS_U8, LS_SHAPE(2, SIDE, SIDE, 3), pixels),
                       .labels = ls_tensor_from_data(ctx, LS_I32, LS_SHAPE(2), labels),
                       .n = 2 };
    double loss;
    for (; batch.step < 3; batch.step++) {
        (void)ls_net_step(net, opt, &batch, 0.01);
        (void)ls_net_loss(net, &loss);
    }
    (void)ls_net_evaluate(net, &batch);
    (void)ls_context_trim(ctx);
    return ls_context_status(ctx);
}

/* Its end; there is no such room, whatever fails. */
static void outgrow(ls_context *ctx)
{
    ck_assert_ptr_null(build(ctx, 1 << 14));
    const ls_status status = ls_context_status(ctx);
    ck_assert_msg(status == LS_ERR_MEMORY || status == LS_ERR_DEVICE, "%s",
                  ls_context_message(ctx));
}

START_TEST(every_call_of_a_net_fails_in_turn)
{
    failing_allocator a;
    failing_allocator_init(&a, 0);
    const ls_context_config config = { .device = "cuda",
                                       .memory_limit_bytes = 1 << 20,
                                       .allocator = &a.allocator };
    ls_context *ctx = ls_context_open(&config); /* loads the module */
    ls_context_close(&ctx);
    emulate_fail_at_fn *fail_at;
    emulate_calls_fn *calls;
    void *symbols[2] = { module_symbol("emulate_fail_at"), module_symbol("emulate_calls") };
    memcpy(&fail_at, &symbols[0], sizeof(fail_at));
    memcpy(&calls, &symbols[1], sizeof(calls));
    int64_t n_life = 1, n = 1; /* calls of its life, of all */
    for (int64_t i = 0; i <= n; i++)
        for (int sticky = 0; sticky < 2; sticky++) {
            ctx = ls_context_open(&config);
            fail_at(i, sticky != 0);
            const ls_status status = live(ctx);
            if (i == 0) n_life = calls();
            if (i == 0) ck_assert_int_eq(status, LS_OK);
            if (i > 0 && i <= n_life && sticky) ck_assert_int_ne(status, LS_OK);
            if (status != LS_OK) ck_assert_str_ne(ls_context_message(ctx), "");
            ls_context_clear_error(ctx);
            outgrow(ctx);
            if (i == 0) n = calls();
            ls_context_close(&ctx);
            fail_at(0, false);
            ck_assert_msg(emulated_held() == 0, "call %d of %d: %d are left", (int)i, (int)n,
                          (int)emulated_held());
            ck_assert_int_eq(failing_allocator_live(&a), 0);
        }
    ck_assert_int_gt(n, 50);
}
END_TEST

TEST_PROGRAM(cuda_memory)
{
    return RUN_SUITE("cuda memory", the_device_is_too_small, the_limit_is_too_small,
                     nothing_is_free, every_call_of_a_net_fails_in_turn);
}
