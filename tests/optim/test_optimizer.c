/* test_optimizer.c: which parameters an update touches and how, clipping, freezing, and misuse.
 * Values over many steps are compared with PyTorch's in tests/parity. */
#include "../failing_allocator.h"
#include "../suite.h"
#include "nn/net/net.h"
#include "optim/optimizer.h"
#include <lockstep/lockstep.h>
#include <math.h>
#include <string.h>

/* Three linear layers with odd sizes, so that the blocks have gaps, and a batch norm. */
static ls_node *model(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    x = ls_relu(g, ls_linear(g, "a", x, 5, NULL));
    x = ls_relu(g, ls_batch_norm(g, "norm", ls_linear(g, "b", x, 7, NULL), NULL));
    return ls_linear(g, "c", x, 3, NULL);
}

typedef struct setting {
    ls_context *ctx;
    ls_net *net;
    ls_tensor *images, *labels;
    ls_batch batch;
} setting;

static setting open_setting(const ls_allocator *allocator)
{
    setting s = { .ctx = ls_context_open(
                      &(ls_context_config){ .threads = 1, .allocator = allocator }) };
    s.net = ls_net_build(
        s.ctx, model, NULL,
        &(ls_net_config){ .input = { .image = { LS_F32, LS_SHAPE(8, 4) }, .n_classes = 3 },
                          .loss = { LS_LOSS_CROSS_ENTROPY } });
    s.images = ls_tensor_open(s.ctx, LS_F32, LS_SHAPE(8, 4));
    s.labels = ls_tensor_open(s.ctx, LS_I32, LS_SHAPE(8));
    ls_tensor_random_normal(s.images, 1, 0, 1);
    s.batch = (ls_batch){ .images = s.images, .labels = s.labels, .n = 8 };
    return s;
}

static void make_gradients(setting *s)
{
    ls_net_feed(s->net, "input", s->images);
    ls_net_feed(s->net, "label", s->labels);
    ls_net_forward(s->net, LS_MODE_TRAIN);
    ls_net_backward(s->net);
    expect_ok(s->ctx);
}

/* All parameters with their gaps. */
enum { MAX_ELEMENTS = 512 };
static int64_t copy_values(const setting *s, float out[MAX_ELEMENTS])
{
    const ls__net_blocks blocks = ls__net_get_blocks(s->net);
    ck_assert(blocks.parameter_elements <= MAX_ELEMENTS);
    memcpy(out, blocks.values, (size_t)blocks.parameter_elements * sizeof *out);
    return blocks.parameter_elements;
}

/* ---- What is updated, with which decay ---- */

START_TEST(decay_spares_biases_and_norms)
{
    for (int weights_only = 0; weights_only < 2; weights_only++) {
        setting s = open_setting(NULL);
        ls_optimizer *opt = ls_sgd(
            s.net, &(ls_sgd_config){ .weight_decay = 0.5f,
                                     .weight_decay_scope = (ls_weight_decay_scope)weights_only });
        for (int64_t i = 0; i < ls_net_parameter_count(s.net); i++)
            if (ls_net_parameter_at(s.net, i).kind != LS_PARAMETER_BUFFER)
                ls_tensor_fill(ls_net_parameter_at(s.net, i).value, 1);
        make_gradients(&s);
        const ls__net_blocks blocks = ls__net_get_blocks(s.net);
        memset(blocks.gradients, 0, (size_t)blocks.parameter_elements * sizeof(float));
        ck_assert_int_eq(ls_optimizer_step(opt, 0.25), LS_OK);
        for (int64_t i = 0; i < ls_net_parameter_count(s.net); i++) {
            const ls_parameter_info parameter = ls_net_parameter_at(s.net, i);
            if (parameter.kind == LS_PARAMETER_BUFFER) continue;
            const bool decays = !weights_only || parameter.kind == LS_PARAMETER_WEIGHT;
            const float *value = ls_tensor_data_const(parameter.value);
            for (int64_t j = 0; j < ls_tensor_element_count(parameter.value); j++)
                ck_assert_msg(value[j] == (decays ? 0.875f : 1.0f), "%s: %g", parameter.name,
                              (double)value[j]);
        }
        ls_context_close(&s.ctx);
    }
}
END_TEST

START_TEST(segments_are_merged_over_gaps)
{
    setting s = open_setting(NULL);
    const ls_optimizer *all = ls_adamw(s.net, &(ls_adam_config){ .weight_decay = 0.1f });
    ls_optimizer *some =
        ls_adamw(s.net, &(ls_adam_config){ .weight_decay = 0.1f,
                                           .weight_decay_scope = LS_WEIGHT_DECAY_WEIGHTS });
    expect_ok(s.ctx);
    ck_assert_int_eq(all->n_segments, 1);
    ck_assert_int_eq(all->segments[0].offset, 0);
    /* weight, bias, weight, bias+norm+norm, weight, bias */
    ck_assert_int_eq(some->n_segments, 6);

    /* frozen parameters cut a segment, from the next step on */
    ls_net_freeze(s.net, "b.*");
    make_gradients(&s);
    ck_assert_int_eq(ls_optimizer_step(some, 0.1), LS_OK);
    ck_assert_int_eq(some->n_segments, 5);
    ls_net_freeze(s.net, "*");
    make_gradients(&s);
    float before[MAX_ELEMENTS], after[MAX_ELEMENTS];
    const int64_t n = copy_values(&s, before);
    ck_assert_int_eq(ls_optimizer_step(some, 0.1), LS_OK);
    copy_values(&s, after);
    ck_assert_int_eq(some->n_segments, 0);
    ck_assert_int_eq(memcmp(before, after, (size_t)n * sizeof(float)), 0);
    ls_context_close(&s.ctx);
}
END_TEST

START_TEST(frozen_parameters_stay)
{
    setting s = open_setting(NULL);
    ls_optimizer *opt =
        ls_sgd(s.net, &(ls_sgd_config){ .momentum = 0.9f, .weight_decay = 0.1f, .clip_norm = 1 });
    ck_assert_int_eq(ls_net_step(s.net, opt, &s.batch, 0.1), LS_OK);
    float before[MAX_ELEMENTS], after[MAX_ELEMENTS];
    ls_net_freeze(s.net, "b.weight");
    const ls_tensor *frozen = ls_net_parameter(s.net, "b.weight"),
                    *state = ls_optimizer_state(opt, 0, "b.weight"),
                    *trained = ls_net_parameter(s.net, "c.weight");
    ls_tensor_read(frozen, before, ls_tensor_bytes(frozen));
    ls_tensor_read(state, before + 64, ls_tensor_bytes(state));
    ls_tensor_read(trained, before + 128, ls_tensor_bytes(trained));
    for (int i = 0; i < 3; i++) ck_assert_int_eq(ls_net_step(s.net, opt, &s.batch, 0.1), LS_OK);
    ls_tensor_read(frozen, after, ls_tensor_bytes(frozen));
    ls_tensor_read(state, after + 64, ls_tensor_bytes(state));
    ls_tensor_read(trained, after + 128, ls_tensor_bytes(trained));
    ck_assert_int_eq(memcmp(before, after, ls_tensor_bytes(frozen)), 0);
    ck_assert_int_eq(memcmp(before + 64, after + 64, ls_tensor_bytes(state)), 0);
    ck_assert_int_ne(memcmp(before + 128, after + 128, ls_tensor_bytes(trained)), 0);
    ls_net_unfreeze(s.net, "b.weight");
    ck_assert_int_eq(ls_net_step(s.net, opt, &s.batch, 0.1), LS_OK);
    ls_tensor_read(frozen, after, ls_tensor_bytes(frozen));
    ck_assert_int_ne(memcmp(before, after, ls_tensor_bytes(frozen)), 0);
    ls_context_close(&s.ctx);
}
END_TEST

START_TEST(gaps_stay_zero)
{
    setting s = open_setting(NULL);
    ls_optimizer *opt =
        ls_adamw(s.net, &(ls_adam_config){ .weight_decay = 0.3f, .clip_norm = 0.1f });
    for (int i = 0; i < 5; i++) ck_assert_int_eq(ls_net_step(s.net, opt, &s.batch, 0.1), LS_OK);
    const ls__net_blocks blocks = ls__net_get_blocks(s.net);
    float *const all[] = { blocks.values, blocks.gradients, opt->states[0], opt->states[1] };
    bool used[MAX_ELEMENTS] = { false };
    for (int64_t i = 0; i < blocks.n_parameters; i++)
        for (int64_t j = 0; j < blocks.parameters[i].count; j++)
            if (blocks.parameters[i].kind != LS_PARAMETER_BUFFER)
                used[blocks.parameters[i].offset + j] = true;
    int64_t n_gaps = 0;
    for (int64_t i = 0; i < blocks.parameter_elements; i++) {
        n_gaps += !used[i];
        for (int k = 0; k < 4 && !used[i]; k++) ck_assert(all[k][i] == 0);
    }
    ck_assert_int_gt(n_gaps, 0);
    ls_context_close(&s.ctx);
}
END_TEST

/* ---- Clipping ---- */

START_TEST(clipping_scales_to_the_norm)
{
    setting s = open_setting(NULL);
    double norm = 0, reported;
    float before[MAX_ELEMENTS], after[MAX_ELEMENTS], gradients[MAX_ELEMENTS];
    ls_optimizer *opt = ls_sgd(s.net, &(ls_sgd_config){ .clip_norm = 0.125f });
    make_gradients(&s);
    const int64_t n = copy_values(&s, before);
    memcpy(gradients, ls__net_get_blocks(s.net).gradients, (size_t)n * sizeof(float));
    for (int64_t i = 0; i < n; i++) norm += (double)gradients[i] * (double)gradients[i];
    norm = sqrt(norm);
    ck_assert_double_gt(norm, 0.125);
    ck_assert_int_eq(ls_optimizer_step(opt, 1), LS_OK);
    ck_assert_int_eq(ls_optimizer_gradient_norm(opt, &reported), LS_OK);
    ck_assert_double_eq_tol(reported, norm, 1e-6 * norm);
    copy_values(&s, after);
    for (int64_t i = 0; i < n; i++)
        ck_assert_double_eq_tol((double)after[i],
                                (double)before[i] - 0.125 / (norm + 1e-6) * (double)gradients[i],
                                1e-6);
    ls_optimizer_close(&opt);
    ck_assert_ptr_null(opt);
    ls_context_close(&s.ctx);
}
END_TEST

START_TEST(the_norm_on_request_is_that_of_clipping)
{
    setting s = open_setting(NULL);
    double first, later, clipped;
    ls_optimizer *plain = ls_sgd(s.net, NULL),
                 *clip = ls_sgd(s.net, &(ls_sgd_config){ .clip_norm = 1 });
    expect_failure(ls_optimizer_gradient_norm(plain, &first), s.ctx, LS_ERR_INVALID,
                   "the net has no gradients");
    make_gradients(&s);
    ck_assert_int_eq(ls_optimizer_gradient_norm(plain, &first), LS_OK);
    ck_assert_int_eq(ls_optimizer_gradient_norm(clip, &clipped), LS_OK);
    ck_assert(first > 0 && first == clipped);
    ck_assert_int_eq(ls_optimizer_step(plain, 0), LS_OK); /* it has used no gradient */
    ck_assert_int_eq(ls_optimizer_gradient_norm(plain, &later), LS_OK);
    ck_assert(later == first);
    ck_assert_int_eq(ls_net_step(s.net, clip, &s.batch, 0), LS_OK);
    ck_assert_int_eq(ls_optimizer_gradient_norm(clip, &clipped), LS_OK);
    ck_assert(clipped == first);
    /* What the program writes counts. */
    ck_assert_int_eq(ls_net_step(s.net, NULL, &s.batch, 0), LS_OK);
    for (int64_t i = 0; i < ls_net_parameter_count(s.net); i++) {
        ls_tensor *gradient = ls_net_parameter_at(s.net, i).gradient;
        if (gradient) ck_assert_int_eq(ls_tensor_fill(gradient, i == 0 ? 2 : 0), LS_OK);
    }
    ck_assert_int_eq(ls_optimizer_gradient_norm(clip, &later), LS_OK);
    const ls_tensor *weight = ls_net_parameter_at(s.net, 0).value;
    ck_assert_double_eq_tol(later, 2 * sqrt((double)ls_tensor_element_count(weight)), 1e-6);
    ls_context_close(&s.ctx);
}
END_TEST

/* ---- Misuse ---- */

START_TEST(each_backward_pass_serves_one_update)
{
    setting s = open_setting(NULL);
    ls_optimizer *opt = ls_sgd(s.net, &(ls_sgd_config){ .clip_norm = 1 });
    double norm;
    ck_assert_int_ne(ls_optimizer_gradient_norm(opt, &norm), LS_OK);
    expect_error(s.ctx, LS_ERR_INVALID, "the net has no gradients");
    ck_assert_int_ne(ls_optimizer_step(opt, 0.1), LS_OK);
    expect_error(s.ctx, LS_ERR_INVALID, "call ls_net_backward first");
    make_gradients(&s);
    ck_assert_int_eq(ls_optimizer_step(opt, 0.1), LS_OK);
    ck_assert_int_eq(ls_optimizer_step_count(opt), 1);
    ck_assert_int_ne(ls_optimizer_step(opt, 0.1), LS_OK);
    expect_error(s.ctx, LS_ERR_INVALID, "call ls_net_backward first");
    ck_assert_int_eq(ls_net_step(s.net, opt, &s.batch, 0.1), LS_OK);
    ck_assert_int_ne(ls_optimizer_step(opt, 0.1), LS_OK);
    expect_error(s.ctx, LS_ERR_INVALID, "call ls_net_backward first");
    ck_assert_int_eq(ls_optimizer_step_count(opt), 2);
    ls_context_close(&s.ctx);
}
END_TEST

START_TEST(wrong_rates_change_nothing)
{
    setting s = open_setting(NULL);
    ls_optimizer *opt = ls_adam(s.net, NULL);
    make_gradients(&s);
    float before[MAX_ELEMENTS], after[MAX_ELEMENTS];
    const int64_t n = copy_values(&s, before);
    static const double wrong[] = { -1, NAN, INFINITY, 1e31 };
    for (int i = 0; i < 4; i++) {
        ck_assert_int_ne(ls_optimizer_step(opt, wrong[i]), LS_OK);
        expect_error(s.ctx, LS_ERR_INVALID, "expected >= 0 and finite");
    }
    ck_assert_int_eq(ls_optimizer_step(opt, 0), LS_OK); /* a rate of 0 is none of them */
    copy_values(&s, after);
    ck_assert_int_eq(memcmp(before, after, (size_t)n * sizeof(float)), 0);
    ls_context_close(&s.ctx);
}
END_TEST

START_TEST(wrong_configs_are_refused)
{
    setting s = open_setting(NULL);
    static const struct {
        ls_sgd_config config;
        const char *part;
    } sgd[] = {
        { { .momentum = -0.5f }, "ls_sgd: momentum is -0.5, expected a number of at least 0" },
        { { .momentum = NAN }, "momentum is nan" },
        { { .weight_decay = -1e-4f }, "weight_decay is -9.99999975e-05" },
        { { .momentum = 0.9f, .dampening = -1 }, "dampening is -1" },
        { { .dampening = 0.5f }, "no momentum to damp" },
        { { .nesterov = true }, "nesterov requires momentum above 0 (got 0)" },
        { { .nesterov = true, .momentum = 0.9f, .dampening = 0.25f }, "no dampening (got 0.25)" },
        { { .clip_norm = INFINITY }, "clip_norm is inf" },
        { { .clip_value = -1 }, "clip_value is -1, expected a number of at least 0" },
        { { .ema_decay = 1 }, "ema_decay is 1, expected at least 0 and below 1" },
        { { .weight_decay_scope = (ls_weight_decay_scope)2 }, "weight_decay_scope is 2" }
    };
    for (size_t i = 0; i < sizeof sgd / sizeof sgd[0]; i++) {
        ck_assert_ptr_null(ls_sgd(s.net, &sgd[i].config));
        expect_error(s.ctx, LS_ERR_INVALID, sgd[i].part);
    }
    static const struct {
        ls_adam_config config;
        const char *part;
    } adam[] = { { { .beta1 = 1 }, "ls_adamw: beta1 is 1, expected at least 0 and below 1" },
                 { { .beta2 = -0.1f }, "beta2 is -0.1" },
                 { { .beta2 = NAN }, "beta2 is nan" },
                 { { .epsilon = -1e-8f }, "epsilon is -9.99999994e-09" },
                 { { .epsilon = LS_ZERO }, "epsilon is 0, expected a number above 0" },
                 { { .weight_decay = -1 }, "weight_decay is -1" } };
    for (size_t i = 0; i < sizeof adam / sizeof adam[0]; i++) {
        ck_assert_ptr_null(ls_adamw(s.net, &adam[i].config));
        expect_error(s.ctx, LS_ERR_INVALID, adam[i].part);
    }
    static const struct {
        ls_rmsprop_config config;
        const char *part;
    } rmsprop[] = { { { .alpha = 1 }, "ls_rmsprop: alpha is 1, expected at least 0 and below 1" },
                    { { .epsilon = LS_ZERO }, "epsilon is 0, expected a number above 0" },
                    { { .momentum = -1 }, "momentum is -1" },
                    { { .clip_value = NAN }, "clip_value is nan" } };
    for (size_t i = 0; i < sizeof rmsprop / sizeof rmsprop[0]; i++) {
        ck_assert_ptr_null(ls_rmsprop(s.net, &rmsprop[i].config));
        expect_error(s.ctx, LS_ERR_INVALID, rmsprop[i].part);
    }
    ck_assert_ptr_null(ls_rmsprop(NULL, NULL));
    ck_assert_ptr_null(ls_sgd(NULL, NULL));
    ck_assert_ptr_null(ls_adam(NULL, NULL));
    ls_net *net = ls_net_build(
        s.ctx, model, NULL,
        &(ls_net_config){ .input = { .image = { LS_F32, LS_SHAPE(8, 4) } }, .inference = true });
    ck_assert_ptr_null(ls_sgd(net, NULL));
    expect_error(s.ctx, LS_ERR_UNSUPPORTED, "built for inference");
    ls_context_close(&s.ctx);
}
END_TEST

START_TEST(states_can_be_looked_at)
{
    setting s = open_setting(NULL);
    ls_optimizer *plain = ls_sgd(s.net, NULL), *adam = ls_adam(s.net, NULL);
    ck_assert_int_eq(ls_optimizer_state_count(plain), 0);
    ck_assert_int_eq(ls_optimizer_state_count(adam), 2);
    ck_assert_str_eq(ls_optimizer_state_name(adam, 1), "exp_avg_sq");
    ck_assert_str_eq(ls_optimizer_state_name(adam, 2), "");
    ck_assert_str_eq(ls_optimizer_name(adam), "adam");
    ck_assert_int_eq(ls_tensor_element_count(ls_optimizer_state(adam, 1, "a.weight")), 20);
    ls_optimizer *rmsprop = ls_rmsprop(s.net, &(ls_rmsprop_config){ .momentum = 0.9f });
    ck_assert_int_eq(ls_optimizer_state_count(rmsprop), 2);
    ck_assert_str_eq(ls_optimizer_state_name(rmsprop, 0), "square_avg");
    ck_assert_str_eq(ls_optimizer_state_name(rmsprop, 1), "momentum");
    ck_assert_ptr_null(ls_optimizer_state(plain, 0, "a.weight"));
    expect_error(s.ctx, LS_ERR_INVALID, "state 0 of 0 of sgd");
    ck_assert_ptr_null(ls_optimizer_state(adam, 0, "norm.running_mean"));
    expect_error(s.ctx, LS_ERR_NOT_FOUND, "no parameter 'norm.running_mean'");
    ck_assert_int_ne(ls_optimizer_set_step_count(adam, -1), LS_OK);
    expect_error(s.ctx, LS_ERR_INVALID, "steps is -1");
    ck_assert_int_eq(ls_optimizer_set_step_count(adam, 12), LS_OK);
    ck_assert_int_eq(ls_optimizer_step_count(adam), 12);
    ck_assert_int_eq(ls_optimizer_step(NULL, 1), LS_ERR_EARLIER);
    ls_context_close(&s.ctx);
}
END_TEST

START_TEST(groups_without_effect_are_refused)
{
    static const struct {
        ls_parameter_group groups[2];
        int n;
        ls_status status;
        const char *part;
    } wrong[] = {
        { { { "d.*", 2 } },
          1,
          LS_ERR_NOT_FOUND,
          "group 'd.*': the net has no parameter whose name" },
        { { { "*.running_mean", 2 } }, 1, LS_ERR_NOT_FOUND, "no parameter whose name matches" },
        { { { "c.bias", 2 }, { "c.*", 3 } }, 2, LS_ERR_INVALID, "belong to later groups" },
        { { { "c.*" } }, 1, LS_ERR_INVALID, "'c.*' has no effect: it sets neither" },
        { { { "c.*", -1 } }, 1, LS_ERR_INVALID, "lr_scale of a group is -1" },
        { { { "c.*", 1, NAN } }, 1, LS_ERR_INVALID, "weight_decay of a group is nan" },
        { { { "*.bias", 1, 0.1f } }, 1, LS_ERR_INVALID, "weight_decay_scope excludes" },
        { { { NULL, 1 } }, 1, LS_ERR_INVALID, "pattern is NULL" },
        { { { "c.*", 2 } }, 0, LS_ERR_INVALID, "n_groups is 0, but groups is set" },
        { { { "c.*", 2 } }, -1, LS_ERR_INVALID, "n_groups is -1" },
    };
    setting s = open_setting(NULL);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ck_assert_ptr_null(
            ls_sgd(s.net, &(ls_sgd_config){ .weight_decay_scope = LS_WEIGHT_DECAY_WEIGHTS,
                                            .groups = wrong[i].groups,
                                            .n_groups = wrong[i].n }));
        expect_error(s.ctx, wrong[i].status, wrong[i].part);
    }
    ck_assert_ptr_null(ls_adam(s.net, &(ls_adam_config){ .n_groups = 1 }));
    expect_error(s.ctx, LS_ERR_INVALID, "n_groups is 1, but groups is NULL");
    ls_context_close(&s.ctx);
}
END_TEST

/* Buffers are averaged, frozen parameters stay, and the weights come back to the bit. */
START_TEST(averages_are_exchanged)
{
    setting s = open_setting(NULL);
    ls_optimizer *opt = ls_sgd(s.net, &(ls_sgd_config){ .ema_decay = 0.9f });
    float before[MAX_ELEMENTS], after[MAX_ELEMENTS], mean[2][7], frozen[2][20];
    ls_net_freeze(s.net, "a.weight");
    for (int i = 0; i < 5; i++) ck_assert_int_eq(ls_net_step(s.net, opt, &s.batch, 0.1), LS_OK);
    const int64_t n = copy_values(&s, before);
    for (int k = 0; k < 2; k++) {
        ls_tensor_read(ls_net_parameter(s.net, "norm.running_mean"), mean[k], sizeof mean[k]);
        ls_tensor_read(ls_net_parameter(s.net, "a.weight"), frozen[k], sizeof frozen[k]);
        ck_assert_int_eq(ls_optimizer_swap_ema(opt), LS_OK);
    }
    ck_assert_int_ne(memcmp(mean[0], mean[1], sizeof mean[0]), 0);
    ck_assert(mean[1][0] != 0); /* the initial value */
    ck_assert_int_eq(memcmp(frozen[0], frozen[1], sizeof frozen[0]), 0);
    copy_values(&s, after);
    ck_assert_int_eq(memcmp(before, after, (size_t)n * sizeof *before), 0);

    ck_assert_int_eq(ls_optimizer_swap_ema(opt), LS_OK);
    copy_values(&s, after);
    ck_assert_int_ne(memcmp(before, after, (size_t)n * sizeof *before), 0);
    ck_assert_int_ne(ls_net_step(s.net, opt, &s.batch, 0.1), LS_OK);
    expect_error(s.ctx, LS_ERR_INVALID, "ls_net_step: the net holds the moving averages");
    ck_assert_int_ne(ls_optimizer_step(opt, 0.1), LS_OK);
    expect_error(s.ctx, LS_ERR_INVALID, "ls_optimizer_step: the net holds the moving averages");
    const ls_training_state state = { .net = s.net, .optimizer = opt };
    ck_assert_int_ne(ls_checkpoint_save(&state, "none"), LS_OK);
    expect_error(s.ctx, LS_ERR_INVALID, "ls_checkpoint_save: the net holds the moving averages");
    ls_optimizer *plain = ls_sgd(s.net, NULL);
    ck_assert_int_ne(ls_optimizer_swap_ema(plain), LS_OK);
    expect_error(s.ctx, LS_ERR_INVALID, "has no ema_decay");
    ck_assert_int_eq(ls_optimizer_swap_ema(NULL), LS_ERR_EARLIER);
    ls_context_close(&s.ctx);
}
END_TEST

/* The averages are the weights before the first update, including weights that were loaded later.
 */
START_TEST(averages_begin_with_the_weights)
{
    setting s = open_setting(NULL);
    ls_optimizer *opt = ls_sgd(s.net, &(ls_sgd_config){ .ema_decay = 0.9f });
    ls_tensor *weight = ls_net_parameter(s.net, "a.weight");
    static float loaded[20], averages[20];
    for (int i = 0; i < 20; i++) loaded[i] = (float)i;
    ck_assert_int_eq(ls_tensor_write(weight, loaded, sizeof loaded), LS_OK);
    ck_assert_int_eq(ls_optimizer_swap_ema(opt), LS_OK);
    ck_assert_int_eq(ls_tensor_read(weight, averages, sizeof averages), LS_OK);
    ck_assert_int_eq(memcmp(loaded, averages, sizeof loaded), 0);
    ck_assert_int_eq(ls_optimizer_swap_ema(opt), LS_OK);
    ck_assert_int_eq(ls_net_step(s.net, opt, &s.batch, 0.1), LS_OK);
    ck_assert_int_eq(ls_tensor_write(weight, loaded, sizeof loaded), LS_OK);
    ck_assert_int_eq(ls_optimizer_swap_ema(opt), LS_OK);
    ck_assert_int_eq(ls_tensor_read(weight, averages, sizeof averages), LS_OK);
    ck_assert_int_ne(memcmp(loaded, averages, sizeof loaded), 0);
    ls_context_close(&s.ctx);
}
END_TEST

/* The gradients before an exchange are those of other weights. */
START_TEST(an_exchange_drops_the_gradients)
{
    setting s = open_setting(NULL);
    ls_optimizer *opt = ls_sgd(s.net, &(ls_sgd_config){ .ema_decay = 0.9f });
    make_gradients(&s);
    for (int k = 0; k < 2; k++) ck_assert_int_eq(ls_optimizer_swap_ema(opt), LS_OK);
    ck_assert_int_ne(ls_optimizer_step(opt, 0.1), LS_OK);
    expect_error(s.ctx, LS_ERR_INVALID, "call ls_net_backward first");
    ls_context_close(&s.ctx);
}
END_TEST

START_TEST(every_allocation_failing)
{
    int n_failed = 0;
    for (int64_t n = 1;; n++) {
        failing_allocator a;
        failing_allocator_init(&a, 0);
        setting s = open_setting(&a.allocator);
        expect_ok(s.ctx);
        a.fail_at = atomic_load(&a.n_requests) + n;
        const ls_parameter_group group = { "c.*", 2 };
        ls_optimizer *opt = ls_adam(
            s.net, &(ls_adam_config){
                       .clip_norm = 1, .ema_decay = 0.9f, .groups = &group, .n_groups = 1 });
        const bool failed = failing_allocator_failed(&a);
        if (!opt) expect_error(s.ctx, LS_ERR_MEMORY, "");
        n_failed += !opt;
        ls_context_close(&s.ctx);
        ck_assert_int_eq(failing_allocator_live(&a), 0);
        if (!failed) break;
    }
    ck_assert_int_ge(n_failed, 3);
}
END_TEST

TEST_PROGRAM(optimizer)
{
    return RUN_SUITE("optimizers", decay_spares_biases_and_norms, segments_are_merged_over_gaps,
                     frozen_parameters_stay, gaps_stay_zero, clipping_scales_to_the_norm,
                     the_norm_on_request_is_that_of_clipping, each_backward_pass_serves_one_update,
                     wrong_rates_change_nothing, wrong_configs_are_refused, states_can_be_looked_at,
                     groups_without_effect_are_refused, averages_are_exchanged,
                     averages_begin_with_the_weights, an_exchange_drops_the_gradients,
                     every_allocation_failing);
}
