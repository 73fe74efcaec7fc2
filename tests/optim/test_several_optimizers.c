/* test_several_optimizers.c: optimizers of some of a net's parameters, by a pattern of names. Ranks
 * and partitioned states are tested in tests/nn (sharded_net.c: "two optimizers"). */
#include "../failing_allocator.h"
#include "../suite.h"
#include "optim/optimizer.h"
#include <lockstep/lockstep.h>
#include <math.h>
#include <string.h>

enum { N = 8, STEPS = 4 };

static ls_node *model(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    x = ls_relu(g, ls_batch_norm(g, "a.norm", ls_linear(g, "a.fc", x, 5, NULL), NULL));
    x = ls_relu(g, ls_batch_norm(g, "b.norm", ls_linear(g, "b.fc", x, 7, NULL), NULL));
    return ls_linear(g, "c", x, 3, NULL);
}

typedef struct setting {
    ls_context *ctx;
    ls_net *net;
    ls_batch batch;
} setting;

static setting open_setting(const ls_allocator *allocator, ls_precision precision)
{
    const ls_context_config context = { .threads = 1, .allocator = allocator };
    setting s = { .ctx = ls_context_open(&context) };
    s.net = ls_net_build(
        s.ctx, model, NULL,
        &(ls_net_config){ .input = { .image = { LS_F32, LS_SHAPE(N, 4) }, .n_classes = 3 },
                          .loss = { LS_LOSS_CROSS_ENTROPY },
                          .precision = precision });
    ls_tensor *images = ls_tensor_open(s.ctx, LS_F32, LS_SHAPE(N, 4));
    ls_tensor *labels = ls_tensor_open(s.ctx, LS_I32, LS_SHAPE(N));
    if (images) ls_tensor_random_normal(images, 1, 0, 1);
    s.batch = (ls_batch){ .images = images, .labels = labels, .n = N };
    return s;
}

/* ---- Two optimizers are one in two parts ---- */

typedef ls_optimizer *(*open_fn)(ls_net *net, const char *parameters);

static ls_optimizer *open_sgd(ls_net *net, const char *parameters)
{
    return ls_sgd(
        net, &(ls_sgd_config){ .momentum = 0.9f, .weight_decay = 0.01f, .parameters = parameters });
}

static ls_optimizer *open_adamw(ls_net *net, const char *parameters)
{
    return ls_adamw(net, &(ls_adam_config){ .parameters = parameters });
}

static ls_optimizer *open_rmsprop(ls_net *net, const char *parameters)
{
    return ls_rmsprop(
        net, &(ls_rmsprop_config){ .momentum = 0.5f, .centered = true, .parameters = parameters });
}

static const struct {
    open_fn open;
    const char *patterns[2];
} splits[] = { { open_sgd, { "a.*", "[bc].*" } },
               { open_sgd, { "*.weight", "*.bias" } },
               { open_adamw, { "b.*", "[ac].*" } },
               { open_adamw, { "*.bias", "*.weight" } },
               { open_rmsprop, { "[ac].*", "b.*" } } };
enum { N_SPLITS = sizeof splits / sizeof splits[0] };

static void expect_equal_nets(const ls_net *a, const ls_net *b)
{
    for (int64_t i = 0; i < ls_net_parameter_count(a); i++) {
        const ls_parameter_info x = ls_net_parameter_at(a, i), y = ls_net_parameter_at(b, i);
        ck_assert_msg(memcmp(ls_tensor_data_const(x.value), ls_tensor_data_const(y.value),
                             ls_tensor_bytes(x.value)) == 0,
                      "%s differs", x.name);
    }
}

START_TEST(two_optimizers_have_the_bits_of_one)
{
    setting s[2] = { open_setting(NULL, LS_PRECISION_F32), open_setting(NULL, LS_PRECISION_F32) };
    ls_optimizer *one = splits[_i].open(s[0].net, NULL), *two[2];
    for (int i = 0; i < 2; i++) {
        two[i] = splits[_i].open(s[1].net, splits[_i].patterns[i]);
        expect_ok(s[1].ctx);
    }
    for (int step = 0; step < STEPS; step++) {
        ck_assert_int_eq(ls_net_step(s[0].net, one, &s[0].batch, 0.1), LS_OK);
        ck_assert_int_eq(ls_net_step(s[1].net, step % 2 ? NULL : two[0], &s[1].batch, 0.1), LS_OK);
        if (step % 2) ck_assert_int_eq(ls_optimizer_step(two[0], 0.1), LS_OK);
        ck_assert_int_eq(ls_optimizer_step(two[1], 0.1), LS_OK);
        expect_equal_nets(s[0].net, s[1].net);
    }
    for (int state = 0; state < ls_optimizer_state_count(one); state++)
        for (int64_t i = 0; i < ls_net_parameter_count(s[0].net); i++) {
            const ls_parameter_info p = ls_net_parameter_at(s[0].net, i);
            if (p.kind == LS_PARAMETER_BUFFER) continue;
            const ls_tensor *wanted = ls_optimizer_state(one, state, p.name), *found = NULL;
            for (int k = 0; k < 2; k++) {
                const ls_tensor *got = ls_optimizer_state(two[k], state, p.name);
                if (!got) expect_error(s[1].ctx, LS_ERR_NOT_FOUND, splits[_i].patterns[k], p.name);
                if (got) found = got;
            }
            ck_assert_int_eq(memcmp(ls_tensor_data_const(found), ls_tensor_data_const(wanted),
                                    ls_tensor_bytes(wanted)),
                             0);
        }
    for (int i = 0; i < 2; i++) ls_context_close(&s[i].ctx);
}
END_TEST

START_TEST(states_take_the_memory_of_their_parameters)
{
    setting s = open_setting(NULL, LS_PRECISION_F32);
    const ls_optimizer *all = open_sgd(s.net, NULL), *c = open_sgd(s.net, "c.*");
    const ls__net_blocks blocks = ls__net_get_blocks(s.net);
    ck_assert_int_eq(all->partition.own.count, blocks.parameter_elements);
    ck_assert_int_lt(c->partition.own.count, blocks.parameter_elements / 3);
    ls_context_close(&s.ctx);
}
END_TEST

/* ---- Each gradient is used once ---- */

START_TEST(each_gradient_serves_one_update)
{
    setting s = open_setting(NULL, LS_PRECISION_F32);
    ls_optimizer *a = open_sgd(s.net, "a.*"), *bc = open_sgd(s.net, "[bc].*"),
                 *c = open_sgd(s.net, "c.*"), *all = open_sgd(s.net, NULL);
    ck_assert_int_eq(ls_net_step(s.net, NULL, &s.batch, 0), LS_OK);
    ck_assert_int_eq(ls_optimizer_step(a, 0.1), LS_OK);
    expect_failure(ls_optimizer_step(a, 0.1), s.ctx, LS_ERR_INVALID, "already used",
                   "'a.fc.weight'");
    expect_failure(ls_optimizer_step(all, 0.1), s.ctx, LS_ERR_INVALID, "'a.fc.weight'");
    ck_assert_int_eq(ls_optimizer_step(c, 0.1), LS_OK);
    expect_failure(ls_optimizer_step(bc, 0.1), s.ctx, LS_ERR_INVALID, "'c.weight'");
    ck_assert_int_eq(ls_optimizer_step_count(a), 1);
    ck_assert_int_eq(ls_optimizer_step_count(bc), 0);
    ck_assert_int_eq(ls_net_step(s.net, bc, &s.batch, 0.1), LS_OK);
    ck_assert_int_eq(ls_optimizer_step(a, 0.1), LS_OK);
    /* Frozen parameters have no gradient that could be used. */
    ck_assert_int_eq(ls_net_freeze(s.net, "c.*"), LS_OK);
    expect_failure(ls_optimizer_step(a, 0.1), s.ctx, LS_ERR_INVALID, "call ls_net_backward first");
    ck_assert_int_eq(ls_net_step(s.net, a, &s.batch, 0.1), LS_OK);
    ck_assert_int_eq(ls_optimizer_step(bc, 0.1), LS_OK);
    ls_context_close(&s.ctx);
}
END_TEST

START_TEST(norms_and_clipping_are_of_the_own_gradients)
{
    setting s = open_setting(NULL, LS_PRECISION_F32);
    ls_optimizer *weights = open_sgd(s.net, "*.weight");
    ls_optimizer *biases =
        ls_sgd(s.net, &(ls_sgd_config){ .clip_norm = 1e-3f, .parameters = "*.bias" });
    double sums[2] = { 0 }, norms[2], moved = 0;
    ck_assert_int_eq(ls_net_step(s.net, NULL, &s.batch, 0), LS_OK);
    float before[64];
    int64_t n = 0;
    for (int64_t i = 0; i < ls_net_parameter_count(s.net); i++) {
        const ls_parameter_info p = ls_net_parameter_at(s.net, i);
        if (!p.gradient) continue;
        const bool is_bias = strstr(p.name, ".bias") != NULL;
        const float *g = ls_tensor_data_const(p.gradient), *x = ls_tensor_data_const(p.value);
        for (int64_t j = 0; j < ls_tensor_element_count(p.value); j++) {
            sums[is_bias] += (double)g[j] * (double)g[j];
            if (is_bias) before[n++] = x[j];
        }
    }
    ck_assert_int_eq(ls_optimizer_gradient_norm(weights, &norms[0]), LS_OK);
    ck_assert_int_eq(ls_optimizer_step(biases, 1), LS_OK);
    ck_assert_int_eq(ls_optimizer_gradient_norm(biases, &norms[1]), LS_OK);
    for (int i = 0; i < 2; i++)
        ck_assert_double_eq_tol(norms[i], sqrt(sums[i]), 1e-6 * sqrt(sums[i]));
    n = 0;
    for (int64_t i = 0; i < ls_net_parameter_count(s.net); i++) {
        const ls_parameter_info p = ls_net_parameter_at(s.net, i);
        const float *x = ls_tensor_data_const(p.value);
        for (int64_t j = 0; strstr(p.name, ".bias") && j < ls_tensor_element_count(p.value); j++) {
            const double d = (double)x[j] - (double)before[n++];
            moved += d * d;
        }
    }
    ck_assert_double_eq_tol(sqrt(moved), 1e-3, 1e-6);
    ls_context_close(&s.ctx);
}
END_TEST

/* ---- Accumulated gradients and moving averages ---- */

START_TEST(accumulation_and_averages_have_the_bits_of_one)
{
    setting s[2] = { open_setting(NULL, LS_PRECISION_F32), open_setting(NULL, LS_PRECISION_F32) };
    ls_sgd_config config = { .momentum = 0.9f, .ema_decay = 0.75f, .accumulate = 2 };
    ls_optimizer *one = ls_sgd(s[0].net, &config), *two[2];
    for (int i = 0; i < 2; i++) {
        config.parameters = i ? "[bc].*" : "a.*";
        two[i] = ls_sgd(s[1].net, &config);
        expect_ok(s[1].ctx);
    }
    for (int step = 0; step < 2 * STEPS; step++) {
        ck_assert_int_eq(ls_net_step(s[0].net, one, &s[0].batch, 0.1), LS_OK);
        ck_assert_int_eq(ls_net_step(s[1].net, two[0], &s[1].batch, 0.1), LS_OK);
        ck_assert_int_eq(
            step % 2 ? ls_optimizer_step(two[1], 0.1) : ls_optimizer_accumulate(two[1]), LS_OK);
        expect_equal_nets(s[0].net, s[1].net);
    }
    for (int swaps = 0; swaps < 2; swaps++) {
        ck_assert_int_eq(ls_optimizer_swap_ema(one), LS_OK);
        for (int i = 0; i < 2; i++) ck_assert_int_eq(ls_optimizer_swap_ema(two[i]), LS_OK);
        expect_equal_nets(s[0].net, s[1].net);
    }
    for (int i = 0; i < 2; i++) ls_context_close(&s[i].ctx);
}
END_TEST

START_TEST(what_can_not_be_had_of_some_parameters)
{
    setting s = open_setting(NULL, LS_PRECISION_F32);
    ls_sgd_config config = { .parameters = "d.*" };
    ck_assert_ptr_null(ls_sgd(s.net, &config));
    expect_error(s.ctx, LS_ERR_NOT_FOUND, "ls_sgd", "'d.*'");
    config.parameters = "*.running_mean";
    ck_assert_ptr_null(ls_sgd(s.net, &config));
    expect_error(s.ctx, LS_ERR_NOT_FOUND, "no parameter", "'*.running_mean'");
    config = (ls_sgd_config){ .parameters = "*.bias", .accumulate = 2 };
    ck_assert_ptr_null(ls_sgd(s.net, &config));
    expect_error(s.ctx, LS_ERR_UNSUPPORTED, "accumulate", "'*.bias'", "one range", "between");
    config = (ls_sgd_config){ .parameters = "[ac].*", .ema_decay = 0.9f };
    ck_assert_ptr_null(ls_sgd(s.net, &config));
    expect_error(s.ctx, LS_ERR_UNSUPPORTED, "ema_decay", "'[ac].*'", "'b.norm.bias'");
    const ls_parameter_group group = { "c.*", 2 };
    config = (ls_sgd_config){ .parameters = "a.*", .groups = &group, .n_groups = 1 };
    ck_assert_ptr_null(ls_sgd(s.net, &config));
    expect_error(s.ctx, LS_ERR_NOT_FOUND, "group 'c.*'", "the optimizer has no parameter");
    ls_context_close(&s.ctx);

    s = open_setting(NULL, LS_PRECISION_F16);
    config = (ls_sgd_config){ .parameters = "a.*" };
    ck_assert_ptr_null(ls_sgd(s.net, &config));
    expect_error(s.ctx, LS_ERR_UNSUPPORTED, "'a.*'", "loss scale");
    ls_context_close(&s.ctx);
}
END_TEST

/* ---- Checkpoints ---- */

typedef struct pair {
    setting s;
    ls_optimizer *of[2];
    ls_training_state state;
} pair;

static void open_pair(pair *p, float momentum)
{
    p->s = open_setting(NULL, LS_PRECISION_F32);
    p->of[0] = ls_adam(p->s.net, &(ls_adam_config){ .parameters = "*.weight" });
    p->of[1] = ls_sgd(p->s.net, &(ls_sgd_config){ .momentum = momentum, .parameters = "*.bias" });
    expect_ok(p->s.ctx);
    p->state = (ls_training_state){ .net = p->s.net, .optimizers = p->of, .n_optimizers = 2 };
}

static void run_pair(pair *p, int n_steps)
{
    for (int i = 0; i < n_steps; i++) {
        ck_assert_int_eq(ls_net_step(p->s.net, p->of[0], &p->s.batch, 0.01), LS_OK);
        if (i % 2 == 0) ck_assert_int_eq(ls_optimizer_step(p->of[1], 0.1), LS_OK);
    }
}

START_TEST(checkpoints_hold_all_optimizers)
{
    char *folder = new_folder();
    pair whole, first, second;
    open_pair(&whole, 0.9f);
    run_pair(&whole, 7);
    open_pair(&first, 0.9f);
    run_pair(&first, 4);
    ck_assert_int_eq(ls_checkpoint_save(&first.state, path_in(folder, "a")), LS_OK);
    open_pair(&second, 0.9f);
    ck_assert_int_eq(ls_checkpoint_load(&second.state, path_in(folder, "a")), LS_OK);
    ck_assert_int_eq(ls_optimizer_step_count(second.of[0]), 4);
    ck_assert_int_eq(ls_optimizer_step_count(second.of[1]), 2);
    run_pair(&second, 3);
    expect_equal_nets(whole.s.net, second.s.net);
    /* Another optimizer, one that is missing, and another order. */
    pair other;
    open_pair(&other, 0.5f);
    expect_failure(ls_checkpoint_load(&other.state, path_in(folder, "a")), other.s.ctx,
                   LS_ERR_MISMATCH, "optimizer 2.momentum");
    const ls_training_state lone = { .net = second.s.net, .optimizer = second.of[0] };
    ls_training_state state = lone;
    expect_failure(ls_checkpoint_load(&state, path_in(folder, "a")), second.s.ctx, LS_ERR_MISMATCH,
                   "optimizer.momentum.", "which the optimizer has not");
    ls_optimizer *const turned[2] = { second.of[1], second.of[0] };
    state = second.state;
    state.optimizers = turned;
    expect_failure(ls_checkpoint_load(&state, path_in(folder, "a")), second.s.ctx, LS_ERR_MISMATCH,
                   "optimizer.name");
    pair *const all[] = { &whole, &first, &second, &other };
    for (int i = 0; i < 4; i++) ls_context_close(&all[i]->s.ctx);
    remove_folder(folder);
}
END_TEST

static void open_accumulating(pair *p)
{
    p->s = open_setting(NULL, LS_PRECISION_F32);
    for (int i = 0; i < 2; i++)
        p->of[i] = ls_sgd(p->s.net, &(ls_sgd_config){ .ema_decay = 0.5f,
                                                      .accumulate = 2 + i,
                                                      .parameters = i ? "[bc].*" : "a.*" });
    expect_ok(p->s.ctx);
    p->state = (ls_training_state){ .net = p->s.net, .optimizers = p->of, .n_optimizers = 2 };
}

static void run_accumulating(pair *p, int first, int end)
{
    for (int i = first; i < end; i++) {
        ck_assert_int_eq(ls_net_step(p->s.net, p->of[0], &p->s.batch, 0.1), LS_OK);
        ck_assert_int_eq(i % 3 == 2 ? ls_optimizer_step(p->of[1], 0.1)
                                    : ls_optimizer_accumulate(p->of[1]),
                         LS_OK);
    }
}

START_TEST(checkpoints_hold_sums_and_averages_of_all)
{
    char *folder = new_folder();
    pair whole, first, second;
    open_accumulating(&whole);
    run_accumulating(&whole, 0, 12);
    open_accumulating(&first);
    run_accumulating(&first, 0, 5);
    ck_assert_int_eq(ls_checkpoint_save(&first.state, path_in(folder, "a")), LS_OK);
    open_accumulating(&second);
    ck_assert_int_eq(ls_checkpoint_load(&second.state, path_in(folder, "a")), LS_OK);
    run_accumulating(&second, 5, 12);
    expect_equal_nets(whole.s.net, second.s.net);
    pair *const all[] = { &whole, &second };
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(ls_optimizer_swap_ema(all[i / 2]->of[i % 2]), LS_OK);
    expect_equal_nets(whole.s.net, second.s.net);
    ls_context_close(&first.s.ctx);
    for (int i = 0; i < 2; i++) ls_context_close(&all[i]->s.ctx);
    remove_folder(folder);
}
END_TEST

START_TEST(states_with_wrong_lists_are_refused)
{
    char *folder = new_folder();
    pair p;
    open_pair(&p, 0.9f);
    const char *path = path_in(folder, "a");
    ls_training_state state = p.state;
    state.optimizer = p.of[0];
    expect_failure(ls_checkpoint_save(&state, path), p.s.ctx, LS_ERR_INVALID,
                   "both optimizer and optimizers");
    state = p.state;
    state.n_optimizers = 9;
    expect_failure(ls_checkpoint_save(&state, path), p.s.ctx, LS_ERR_INVALID, "n_optimizers is 9");
    ls_optimizer *const null[2] = { p.of[0], NULL };
    state = p.state;
    state.optimizers = null;
    expect_failure(ls_checkpoint_save(&state, path), p.s.ctx, LS_ERR_INVALID, "none of them NULL");
    ls_optimizer *const twice[2] = { p.of[0], open_sgd(p.s.net, "c.*") };
    state.optimizers = twice;
    expect_failure(ls_checkpoint_save(&state, path), p.s.ctx, LS_ERR_INVALID,
                   "two optimizers train 'c.weight'");
    ls_context_close(&p.s.ctx);
    remove_folder(folder);
}
END_TEST

static bool open_and_step(ls_context *ctx, void *user)
{
    (void)user;
    ls_net *net = ls_net_build(
        ctx, model, NULL,
        &(ls_net_config){ .input = { .image = { LS_F32, LS_SHAPE(N, 4) }, .n_classes = 3 },
                          .loss = { LS_LOSS_CROSS_ENTROPY } });
    ls_tensor *images = net ? ls_tensor_open(ctx, LS_F32, LS_SHAPE(N, 4)) : NULL;
    ls_tensor *labels = images ? ls_tensor_open(ctx, LS_I32, LS_SHAPE(N)) : NULL;
    ls_optimizer *opt = labels ? open_sgd(net, "a.*") : NULL;
    double norm;
    const ls_batch batch = { .images = images, .labels = labels };
    return opt && ls_net_step(net, NULL, &batch, 0) == LS_OK &&
           ls_optimizer_gradient_norm(opt, &norm) == LS_OK && ls_optimizer_step(opt, 0.1) == LS_OK;
}

START_TEST(every_allocation_failing)
{
    fail_each_allocation(open_and_step, NULL);
}
END_TEST

TEST_PROGRAM(several_optimizers)
{
    return both(run_loop("one in two parts", two_optimizers_have_the_bits_of_one, N_SPLITS),
                RUN_SUITE("several optimizers", states_take_the_memory_of_their_parameters,
                          each_gradient_serves_one_update,
                          norms_and_clipping_are_of_the_own_gradients,
                          accumulation_and_averages_have_the_bits_of_one,
                          what_can_not_be_had_of_some_parameters, checkpoints_hold_all_optimizers,
                          checkpoints_hold_sums_and_averages_of_all,
                          states_with_wrong_lists_are_refused, every_allocation_failing));
}
