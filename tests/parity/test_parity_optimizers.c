/* test_parity_optimizers.c: 100 steps of SGD, Adam, AdamW and RMSprop against PyTorch in
 * float64 (tests/reference/optimizers.py), from the same values with the same gradients. */
#include "../suite.h"
#include "parity.h"
#include <stdio.h>
#include <string.h>

enum { N_ELEMENTS = 40, N_STEPS = 100 };
/* Of values around 1 in f32, where one rounding is 6e-8. */
static const double tolerance = 1e-6;

typedef struct trajectory {
    const char *name;
    ls_optimizer *(*adam)(ls_net *, const ls_adam_config *); /* NULL = sgd */
    double lr;
    ls_sgd_config sgd;
    ls_adam_config adam_config;
    const ls_rmsprop_config *rmsprop; /* NULL = another */
} trajectory;

static const trajectory trajectories[] = {
    { .name = "sgd", .lr = 0.1 },
    { .name = "sgd_momentum", .lr = 0.01, .sgd = { .momentum = 0.9f } },
    { .name = "sgd_decay", .lr = 0.1, .sgd = { .weight_decay = 5e-4f } },
    { .name = "sgd_dampening", .lr = 0.05, .sgd = { .momentum = 0.9f, .dampening = 0.5f } },
    { .name = "sgd_nesterov_decay",
      .lr = 0.01,
      .sgd = { .momentum = 0.9f, .nesterov = true, .weight_decay = 1e-2f } },
    { .name = "sgd_clip",
      .lr = 0.1,
      .sgd = { .momentum = 0.9f, .weight_decay = 1e-2f, .clip_norm = 1 } },
    { .name = "adam", .adam = ls_adam, .lr = 1e-3 },
    { .name = "adam_decay", .adam = ls_adam, .lr = 1e-2, .adam_config = { .weight_decay = 1e-2f } },
    { .name = "adam_betas",
      .adam = ls_adam,
      .lr = 3e-3,
      .adam_config = { .beta1 = 0.8f, .beta2 = 0.95f, .epsilon = 1e-4f } },
    { .name = "adamw", .adam = ls_adamw, .lr = 1e-3 },
    { .name = "adamw_decay",
      .adam = ls_adamw,
      .lr = 1e-2,
      .adam_config = { .weight_decay = 0.1f } },
    { .name = "adamw_clip",
      .adam = ls_adamw,
      .lr = 1e-2,
      .adam_config = { .clip_norm = 3.6f } }, /* about half of the gradients are longer */
    { .name = "sgd_clip_value",
      .lr = 0.1,
      .sgd = { .momentum = 0.9f, .weight_decay = 1e-2f, .clip_value = 0.25f } },
    { .name = "adamw_clip_both",
      .adam = ls_adamw,
      .lr = 1e-2,
      .adam_config = { .clip_norm = 3.6f, .clip_value = 0.75f } },
    { .name = "rmsprop", .lr = 1e-3, .rmsprop = &(ls_rmsprop_config){ 0 } },
    { .name = "rmsprop_decay",
      .lr = 1e-3,
      .rmsprop = &(ls_rmsprop_config){ .alpha = 0.9f, .epsilon = 1e-3f, .weight_decay = 1e-2f } },
    { .name = "rmsprop_momentum", .lr = 1e-3, .rmsprop = &(ls_rmsprop_config){ .momentum = 0.9f } },
    { .name = "rmsprop_centered",
      .lr = 1e-3,
      .rmsprop = &(ls_rmsprop_config){ .epsilon = 1e-4f, .centered = true } },
    { .name = "rmsprop_all",
      .lr = 1e-3,
      .rmsprop = &(ls_rmsprop_config){ .alpha = 0.95f,
                                       .epsilon = 1e-4f,
                                       .momentum = 0.8f,
                                       .centered = true,
                                       .weight_decay = 1e-2f,
                                       .clip_value = 0.5f } },
};
enum { N_TRAJECTORIES = sizeof(trajectories) / sizeof(trajectories[0]) };

/* An op whose parameter gets a gradient of our own. */
static ls_status give_nothing(const ls_custom_op_call *call)
{
    *(float *)call->output = 0;
    return LS_OK;
}

static ls_status give_gradient(const ls_custom_op_call *call)
{
    const int step = *(const int *)call->user;
    char name[32];
    snprintf(name, sizeof(name), "gradient.%d", step);
    parity_hashed(name, N_ELEMENTS, step % 7 ? 1 : 0x1p-20f, 0, call->input_gradients[0]);
    return LS_OK;
}

static ls_node *model(ls_graph *g, ls_node *x, const void *step)
{
    ls_node *value =
        ls_parameter(g, "value", LS_SHAPE(N_ELEMENTS), LS_PARAMETER_WEIGHT, LS_INIT_ZERO);
    ls_loss(g, "loss",
            ls_custom_op(g, "given", 1, &value,
                         &(ls_custom_op_config){ .kind = "given",
                                                 .output = { LS_F32, LS_SHAPE(1) },
                                                 .forward = give_nothing,
                                                 .backward = give_gradient,
                                                 .user = *(void *const *)step }),
            1);
    return x;
}

START_TEST(trajectory_matches_pytorch)
{
    const trajectory *t = &trajectories[_i];
    ls_context *ctx = ls_context_open(NULL);
    ls_tensor_file *file = ls_tensor_file_open(ctx, parity_path("optimizers.safetensors"));
    int step = 0;
    const int *user = &step;
    const ls_net_config config = { .input.image = { LS_F32, LS_SHAPE(1, 1) } };
    ls_net *net = ls_net_build(ctx, model, &user, &config);
    ls_optimizer *opt = t->rmsprop ? ls_rmsprop(net, t->rmsprop)
                        : t->adam  ? t->adam(net, &t->adam_config)
                                   : ls_sgd(net, &t->sgd);
    ck_assert_msg(file && opt, "%s: %s", t->name, ls_context_message(ctx));
    ls_tensor *value = ls_net_parameter(net, "value");
    ls_tensor *input = ls_tensor_open(ctx, LS_F32, LS_SHAPE(1, 1));
    parity_fill(value, "value", 1, 0);

    int n_compared = 0;
    for (step = 1; step <= N_STEPS; step++) {
        ls_net_feed(net, "input", input);
        ls_net_forward(net, LS_MODE_TRAIN);
        ls_net_backward(net);
        ck_assert_msg(ls_optimizer_step(opt, t->lr) == LS_OK, "%s: %s", t->name,
                      ls_context_message(ctx));
        char name[64];
        snprintf(name, sizeof(name), "%s.%d", t->name, step);
        if (!ls_tensor_file_find(file, name, NULL)) continue;
        parity_check(file, name, value, tolerance);
        n_compared++;
    }
    ck_assert_int_eq(n_compared, 6);
    ls_context_close(&ctx);
}
END_TEST

/* ---- Moving averages ---- */

START_TEST(averages_match_torchvision)
{
    ls_context *ctx = ls_context_open(NULL);
    ls_tensor_file *file = ls_tensor_file_open(ctx, parity_path("optimizers.safetensors"));
    int step = 0, n_compared = 0;
    const int *user = &step;
    const ls_net_config config = { .input.image = { LS_F32, LS_SHAPE(1, 1) } };
    ls_net *net = ls_net_build(ctx, model, &user, &config);
    ls_optimizer *opt = ls_sgd(net, &(ls_sgd_config){ .ema_decay = 0.9f });
    ls_tensor *value = ls_net_parameter(net, "value");
    ls_tensor *input = ls_tensor_open(ctx, LS_F32, LS_SHAPE(1, 1));
    parity_fill(value, "value", 1, 0);
    for (step = 1; step <= 30; step++) {
        ls_net_feed(net, "input", input);
        ls_net_forward(net, LS_MODE_TRAIN);
        ls_net_backward(net);
        ck_assert_msg(ls_optimizer_step(opt, 0.1) == LS_OK, "%s", ls_context_message(ctx));
        char name[64];
        snprintf(name, sizeof(name), "ema.%d", step);
        if (!ls_tensor_file_find(file, name, NULL)) continue;
        ck_assert_int_eq(ls_optimizer_swap_ema(opt), LS_OK);
        parity_check(file, name, value, tolerance);
        ck_assert_int_eq(ls_optimizer_swap_ema(opt), LS_OK);
        n_compared++;
    }
    ck_assert_int_eq(n_compared, 5);
    ls_context_close(&ctx);
}
END_TEST

/* ---- Parameter groups ---- */

enum { N_GROUPED = 3 };
static const char *const grouped[N_GROUPED] = { "body.weight", "head.weight", "head.bias" };

static ls_status give_gradients(const ls_custom_op_call *call)
{
    for (int k = 0; k < N_GROUPED; k++) {
        char name[32];
        snprintf(name, sizeof(name), "%s.%d", grouped[k], *(const int *)call->user);
        parity_hashed(name, N_ELEMENTS, 1, 0, call->input_gradients[k]);
    }
    return LS_OK;
}

static ls_node *grouped_model(ls_graph *g, ls_node *x, const void *step)
{
    ls_node *values[N_GROUPED];
    for (int k = 0; k < N_GROUPED; k++)
        values[k] = ls_parameter(g, grouped[k], LS_SHAPE(N_ELEMENTS),
                                 k == 2 ? LS_PARAMETER_BIAS : LS_PARAMETER_WEIGHT, LS_INIT_ZERO);
    ls_loss(g, "loss",
            ls_custom_op(g, "given", N_GROUPED, values,
                         &(ls_custom_op_config){ .kind = "given",
                                                 .output = { LS_F32, LS_SHAPE(1) },
                                                 .forward = give_nothing,
                                                 .backward = give_gradients,
                                                 .user = *(void *const *)step }),
            1);
    return x;
}

START_TEST(groups_match_pytorch)
{
    static const char *const names[] = { "groups_sgd", "groups_adam", "groups_adamw",
                                         "groups_rmsprop" };
    const ls_parameter_group groups[] = { { "head.*", .lr_scale = 10, .weight_decay = LS_ZERO },
                                          { "*.bias", .lr_scale = 0.5f } };
    ls_context *ctx = ls_context_open(NULL);
    ls_tensor_file *file = ls_tensor_file_open(ctx, parity_path("optimizers.safetensors"));
    int step = 0;
    const int *user = &step;
    const ls_net_config config = { .input.image = { LS_F32, LS_SHAPE(1, 1) } };
    ls_net *net = ls_net_build(ctx, grouped_model, &user, &config);
    const ls_adam_config adam = { .weight_decay = 0.1f, .groups = groups, .n_groups = 2 };
    ls_optimizer *opt =
        _i == 0
            ? ls_sgd(net,
                     &(ls_sgd_config){
                         .momentum = 0.9f, .weight_decay = 0.1f, .groups = groups, .n_groups = 2 })
        : _i == 1 ? ls_adam(net, &adam)
        : _i == 2 ? ls_adamw(net, &adam)
                  : ls_rmsprop(net, &(ls_rmsprop_config){
                                        .weight_decay = 0.1f, .groups = groups, .n_groups = 2 });
    ck_assert_msg(file && opt, "%s", ls_context_message(ctx));
    ls_tensor *input = ls_tensor_open(ctx, LS_F32, LS_SHAPE(1, 1));
    for (int k = 0; k < N_GROUPED; k++)
        parity_fill(ls_net_parameter(net, grouped[k]), grouped[k], 1, 0);
    int n_compared = 0;
    for (step = 1; step <= 30; step++) {
        ls_net_feed(net, "input", input);
        ls_net_forward(net, LS_MODE_TRAIN);
        ls_net_backward(net);
        ck_assert_msg(ls_optimizer_step(opt, 1e-3) == LS_OK, "%s", ls_context_message(ctx));
        for (int k = 0; k < N_GROUPED; k++) {
            char name[64];
            snprintf(name, sizeof(name), "%s.%d.%s", names[_i], step, grouped[k]);
            if (!ls_tensor_file_find(file, name, NULL)) continue;
            parity_check(file, name, ls_net_parameter(net, grouped[k]), tolerance);
            n_compared++;
        }
    }
    ck_assert_int_eq(n_compared, 2 * N_GROUPED);
    ls_context_close(&ctx);
}
END_TEST

/* ---- Gradient accumulation ---- */

/* As ls_net_step, which finds the updates itself, or in separate calls. */
static void accumulate_step(ls_net *net, ls_optimizer *opt, const ls_tensor *input, int step,
                            int64_t n, bool by_hand)
{
    enum { BATCHES = 5 };
    const int place = (step - 1) % BATCHES;
    const bool is_last = place + 1 == BATCHES;
    const double lr = *ls_optimizer_name(opt) == 's' ? 0.05 : 1e-2;
    const ls_batch batch = { .images = input, .step = place, .is_last = is_last };
    if (!by_hand) {
        ls_net_step(net, opt, &batch, lr);
        return;
    }
    ls_net_feed(net, "input", input);
    ls_net_forward(net, LS_MODE_TRAIN);
    ls_net_backward(net);
    if (is_last || (place + 1) % n == 0)
        ls_optimizer_step(opt, lr);
    else
        ls_optimizer_accumulate(opt);
}

START_TEST(accumulation_matches_pytorch)
{
    const int64_t n = 2 + _i % 2;
    const bool adamw = _i / 2 % 2, by_hand = _i / 4;
    ls_context *ctx = ls_context_open(NULL);
    ls_tensor_file *file = ls_tensor_file_open(ctx, parity_path("optimizers.safetensors"));
    int step = 0, n_compared = 0;
    const int *user = &step;
    const ls_net_config config = { .input.image = { LS_F32, LS_SHAPE(1, 1) } };
    ls_net *net = ls_net_build(ctx, model, &user, &config);
    ls_optimizer *opt =
        adamw ? ls_adamw(net, &(ls_adam_config){ .weight_decay = 0.1f, .accumulate = n })
              : ls_sgd(net, &(ls_sgd_config){ .momentum = 0.9f,
                                              .weight_decay = 1e-2f,
                                              .clip_norm = 2.3f, /* some means are longer */
                                              .accumulate = n });
    ls_tensor *value = ls_net_parameter(net, "value");
    ls_tensor *input = ls_tensor_open(ctx, LS_F32, LS_SHAPE(1, 1));
    parity_fill(value, "value", 1, 0);
    for (step = 1; step <= 20; step++) {
        accumulate_step(net, opt, input, step, n, by_hand);
        ck_assert_msg(ls_context_status(ctx) == LS_OK, "%s", ls_context_message(ctx));
        char name[64];
        snprintf(name, sizeof(name), "accumulate%d_%s.%d", (int)n, adamw ? "adamw" : "sgd", step);
        if (!ls_tensor_file_find(file, name, NULL)) continue;
        parity_check(file, name, value, tolerance);
        n_compared++;
    }
    ck_assert_int_eq(n_compared, 3);
    ck_assert_int_eq(ls_optimizer_step_count(opt), n == 2 ? 12 : 8);
    ls_context_close(&ctx);
}
END_TEST

TEST_PROGRAM(parity_optimizers)
{
    int status = run_loop("optimizers against PyTorch", trajectory_matches_pytorch, N_TRAJECTORIES);
    status = both(status, run_loop("parameter groups against PyTorch", groups_match_pytorch, 4));
    status =
        both(status, RUN_SUITE("moving averages against torchvision", averages_match_torchvision));
    return both(status,
                run_loop("gradient accumulation against PyTorch", accumulation_matches_pytorch, 8));
}
