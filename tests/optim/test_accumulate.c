/* test_accumulate.c: gradient accumulation: when it updates, with which gradients, and what is part
 * of an update only. Values over many steps are compared with PyTorch's in tests/parity. */
#include "../suite.h"
#include "nn/net/net.h"
#include <lockstep/lockstep.h>
#include <string.h>

enum { IMAGES = 12, FEATURES = 4, CLASSES = 3 };

/* has_norm: a bool. */
static ls_node *model(ls_graph *g, ls_node *x, const void *has_norm)
{
    x = ls_linear(g, "a", x, 7, NULL);
    if (*(const bool *)has_norm) x = ls_batch_norm(g, "norm", x, NULL);
    return ls_linear(g, "b", ls_relu(g, x), CLASSES, NULL);
}

typedef struct setting {
    ls_context *ctx;
    ls_net *net;
} setting;

static setting open_setting(bool has_norm, ls_precision precision, float loss_scale, int threads)
{
    setting s = { .ctx = ls_context_open(&(ls_context_config){ .seed = 3, .threads = threads }) };
    s.net =
        ls_net_build(s.ctx, model, &has_norm,
                     &(ls_net_config){ .input = { .image = { LS_F32, LS_SHAPE(IMAGES, FEATURES) },
                                                  .n_classes = CLASSES },
                                       .loss = { LS_LOSS_CROSS_ENTROPY },
                                       .precision = precision,
                                       .loss_scale = { .initial = loss_scale } });
    expect_ok(s.ctx);
    return s;
}

/* n of IMAGES images that are the same in every context, from number `first` on. */
static ls_batch batch_of(const setting *s, int64_t first, int64_t n)
{
    ls_tensor *all = ls_tensor_open(s->ctx, LS_F32, LS_SHAPE(IMAGES, FEATURES));
    ls_tensor *images = ls_tensor_open(s->ctx, LS_F32, LS_SHAPE(n, FEATURES));
    ls_tensor *labels = ls_tensor_open(s->ctx, LS_I32, LS_SHAPE(n));
    ls_tensor_random_normal(all, 1, 0, 1);
    expect_ok(s->ctx);
    const float *pixels = ls_tensor_data_const(all);
    memcpy(ls_tensor_data(images), pixels + first * FEATURES, ls_tensor_bytes(images));
    for (int64_t i = 0; i < n; i++)
        ((int32_t *)ls_tensor_data(labels))[i] = (int32_t)((first + i) % CLASSES);
    return (ls_batch){ .images = images, .labels = labels, .n = n };
}

static void take_step(const setting *s, ls_optimizer *opt, const ls_batch *batch)
{
    ck_assert_msg(ls_net_step(s->net, opt, batch, 0.1) == LS_OK, "%s", ls_context_message(s->ctx));
}

/* A block of the net's parameters; with their gaps. */
enum { MAX_ELEMENTS = 256 };
typedef struct copied {
    int64_t n;
    float values[MAX_ELEMENTS];
} copied;

static copied copy_block(const setting *s, bool gradients)
{
    const ls__net_blocks blocks = ls__net_get_blocks(s->net);
    copied out = { .n = blocks.parameter_elements };
    ck_assert(out.n <= MAX_ELEMENTS);
    memcpy(out.values, gradients ? blocks.gradients : blocks.values,
           (size_t)out.n * sizeof(*out.values));
    return out;
}

static bool is_same(const copied *a, const copied *b)
{
    return a->n == b->n && memcmp(a->values, b->values, (size_t)a->n * sizeof(*a->values)) == 0;
}

/* An update after every 3 batches and on the last, with the mean in the order of the batches, to
 * the bit; between them only statistics change. */
START_TEST(updates_take_the_mean)
{
    static const struct {
        int64_t group;
        bool is_last;
    } steps[] = { { 1, false }, { 2, false }, { 3, false }, /* the third updates */
                  { 1, false }, { 2, true },                /* the epoch's end */
                  { 1, true },                              /* an epoch of one batch */
                  { 1, false }, { 2, false }, { 3, true } };
    enum { N_STEPS = sizeof(steps) / sizeof(steps[0]) };
    const setting s = open_setting(true, LS_PRECISION_F32, 0, 1);
    const setting alone = open_setting(true, LS_PRECISION_F32, 0, 1);
    ls_optimizer *opt = ls_sgd(s.net, &(ls_sgd_config){ .accumulate = 3 });
    ls_optimizer *plain = ls_sgd(alone.net, NULL);
    const ls_tensor *mean = ls_net_parameter(s.net, "norm.running_mean");
    int64_t n_updates = 0;
    float sum[MAX_ELEMENTS], statistics = 0;
    for (int i = 0; i < N_STEPS; i++) {
        const bool updates = steps[i].group == 3 || steps[i].is_last;
        ls_batch batch = batch_of(&s, i, 3), other = batch_of(&alone, i, 3);
        batch.is_last = steps[i].is_last;
        const copied before = copy_block(&s, false);
        take_step(&s, opt, &batch);
        const copied after = copy_block(&s, false), gradients = copy_block(&s, true);
        n_updates += updates;
        ck_assert_int_eq(ls_optimizer_step_count(opt), n_updates);
        ck_assert(is_same(&before, &after) == !updates);
        ck_assert(*(const float *)ls_tensor_data_const(mean) != statistics);
        statistics = *(const float *)ls_tensor_data_const(mean);
        /* the batch's own gradients, by a net with the same weights */
        const ls__net_blocks blocks = ls__net_get_blocks(alone.net);
        memcpy(blocks.values, before.values, (size_t)before.n * sizeof(float));
        take_step(&alone, plain, &other);
        const copied own = copy_block(&alone, true);
        for (int64_t j = 0; j < own.n; j++) {
            sum[j] = steps[i].group == 1 ? own.values[j] : sum[j] + own.values[j];
            const float expected = updates ? sum[j] / (float)steps[i].group : own.values[j];
            ck_assert_msg(gradients.values[j] == expected, "step %d, element %d: %a, expected %a",
                          i, (int)j, (double)gradients.values[j], (double)expected);
        }
    }
    ls_context *ctx = s.ctx, *other = alone.ctx;
    ls_context_close(&ctx);
    ls_context_close(&other);
}
END_TEST

/* The mean over equal batches is that of one large batch, because the net has no batch norm. */
START_TEST(batches_are_as_one_large_batch)
{
    enum { PARTS = 4, UPDATES = 5 };
    setting parts = open_setting(false, LS_PRECISION_F32, 0, 1 + _i);
    setting whole = open_setting(false, LS_PRECISION_F32, 0, 1);
    const ls_adam_config split = { .accumulate = PARTS, .clip_norm = 0.3f, .ema_decay = 0.5f };
    const ls_adam_config large = { .clip_norm = 0.3f, .ema_decay = 0.5f };
    ls_optimizer *opt = ls_adamw(parts.net, &split), *other = ls_adamw(whole.net, &large);
    double norm, expected;
    ls_results results;
    for (int i = 0; i < UPDATES; i++) {
        const ls_batch all = batch_of(&whole, 0, IMAGES);
        take_step(&whole, other, &all);
        for (int k = 0; k < PARTS; k++) {
            const ls_batch part = batch_of(&parts, IMAGES / PARTS * k, IMAGES / PARTS);
            take_step(&parts, opt, &part);
            ck_assert_int_eq(ls_net_last_results(parts.net, &results), LS_OK);
            ck_assert((results.gradient_norm > 0) == (k == PARTS - 1));
        }
        ck_assert_int_eq(ls_optimizer_gradient_norm(opt, &norm), LS_OK);
        ck_assert_int_eq(ls_optimizer_gradient_norm(other, &expected), LS_OK);
        ck_assert_double_eq_tol(norm, expected, 1e-5 * expected);
    }
    for (int averages = 0; averages < 2; averages++) {
        const copied a = copy_block(&parts, false), b = copy_block(&whole, false);
        /* sums of 12 gradients in another order; Adam divides by their size */
        for (int64_t j = 0; j < a.n; j++)
            ck_assert_double_eq_tol((double)a.values[j], (double)b.values[j], 1e-5);
        ls_optimizer_swap_ema(opt);
        ls_optimizer_swap_ema(other);
    }
    ls_context_close(&parts.ctx);
    ls_context_close(&whole.ctx);
}
END_TEST

/* A batch whose gradients overflow skips the whole update, once. */
START_TEST(an_overflow_skips_the_update)
{
    setting s = open_setting(false, LS_PRECISION_F16, 0x1p24f, 1);
    ls_optimizer *opt = ls_sgd(s.net, &(ls_sgd_config){ .accumulate = 2, .momentum = 0.9f });
    double scale;
    int64_t skipped = 0, updates = 0;
    do {
        const copied before = copy_block(&s, false);
        for (int k = 0; k < 2; k++) {
            const ls_batch batch = batch_of(&s, 6 * k, 6);
            take_step(&s, opt, &batch);
            ck_assert_int_eq(ls_net_loss_scale(s.net, &scale, &skipped), LS_OK);
            ck_assert_double_eq(scale, 0x1p24 / (double)(INT64_C(1) << skipped));
        }
        const copied after = copy_block(&s, false);
        updates++;
        ck_assert_int_eq(ls_optimizer_step_count(opt), updates);
        ck_assert(is_same(&before, &after) == (skipped == updates));
        ck_assert_int_lt(updates, 20);
    } while (skipped == updates);
    ck_assert_int_gt(skipped, 1);
    ls_context_close(&s.ctx);
}
END_TEST

/* Frozen between two batches of an update, a parameter stays as it is. */
START_TEST(frozen_parameters_stay)
{
    setting s = open_setting(false, LS_PRECISION_F32, 0, 1);
    ls_optimizer *opt = ls_sgd(s.net, &(ls_sgd_config){ .accumulate = 2 });
    const ls_batch batch = batch_of(&s, 0, IMAGES);
    take_step(&s, opt, &batch);
    ls_digest before, after, trained;
    ls_tensor_digest(ls_net_parameter(s.net, "a.weight"), &before);
    ls_tensor_digest(ls_net_parameter(s.net, "b.weight"), &trained);
    ls_net_freeze(s.net, "a.*");
    take_step(&s, opt, &batch);
    ls_tensor_digest(ls_net_parameter(s.net, "a.weight"), &after);
    ck_assert_int_eq(memcmp(&before, &after, sizeof(before)), 0);
    const float *gradient = ls_tensor_data_const(ls_net_parameter_at(s.net, 0).gradient);
    for (int i = 0; i < 7 * FEATURES; i++) ck_assert(gradient[i] == 0);
    ls_tensor_digest(ls_net_parameter(s.net, "b.weight"), &after);
    ck_assert_int_ne(memcmp(&trained, &after, sizeof(before)), 0);
    ls_context_close(&s.ctx);
}
END_TEST

START_TEST(misuse)
{
    setting s = open_setting(false, LS_PRECISION_F32, 0, 1);
    ck_assert_ptr_null(ls_sgd(s.net, &(ls_sgd_config){ .accumulate = -1 }));
    expect_error(s.ctx, LS_ERR_INVALID, "ls_sgd: accumulate is -1, expected 0 to");
    ck_assert_int_eq(ls_optimizer_accumulate(NULL), LS_ERR_EARLIER);
    ls_optimizer *plain = ls_sgd(s.net, &(ls_sgd_config){ .accumulate = 1 });
    ck_assert_int_eq(ls_optimizer_state_count(plain), 0);
    ck_assert_int_eq(ls_optimizer_accumulate(plain), LS_ERR_INVALID);
    expect_error(s.ctx, LS_ERR_INVALID, "accumulate is 1, expected more than 1");
    ls_optimizer *opt = ls_adam(s.net, &(ls_adam_config){ .accumulate = 2, .ema_decay = 0.5f });
    ck_assert_int_eq(ls_optimizer_state_count(opt), 3);
    ck_assert_str_eq(ls_optimizer_state_name(opt, 2), "accumulated");
    ck_assert_int_eq(ls_optimizer_accumulate(opt), LS_ERR_INVALID);
    expect_error(s.ctx, LS_ERR_INVALID, "there are no gradients to use");
    const ls_batch batch = batch_of(&s, 0, IMAGES);
    take_step(&s, opt, &batch); /* which uses the gradients */
    ck_assert_int_eq(ls_optimizer_step(opt, 0.1), LS_ERR_INVALID);
    expect_error(s.ctx, LS_ERR_INVALID, "there are no gradients to use");
    ls_optimizer_swap_ema(opt);
    ck_assert_int_eq(ls_optimizer_accumulate(opt), LS_ERR_INVALID);
    expect_error(s.ctx, LS_ERR_INVALID, "the net holds the moving averages");
    ls_optimizer_swap_ema(opt);
    ck_assert_int_eq(ls_optimizer_step_count(opt), 0);
    ck_assert_int_eq(ls_optimizer_set_step_count(opt, 0), LS_OK); /* drops the first batch */
    take_step(&s, opt, &batch);
    ck_assert_int_eq(ls_optimizer_step_count(opt), 0);
    ls_context_close(&s.ctx);
}
END_TEST

TEST_PROGRAM(accumulate)
{
    return both(run_loop("large batches", batches_are_as_one_large_batch, 3),
                RUN_SUITE("gradient accumulation", updates_take_the_mean,
                          an_overflow_skips_the_update, frozen_parameters_stay, misuse));
}
