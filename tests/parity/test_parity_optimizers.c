/* test_parity_optimizers.c: 100 steps of SGD, Adam and AdamW against PyTorch in float64
 * (tests/reference/optimizers.py), from the same values with the same gradients. */
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
};
enum { N_TRAJECTORIES = sizeof(trajectories) / sizeof(trajectories[0]) };

/* An op whose parameter gets a gradient of our own. */
static ls_status give_nothing(const ls_op_call *call)
{
    *(float *)call->output = 0;
    return LS_OK;
}

static ls_status give_gradient(const ls_op_call *call)
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
            ls_op(g, "given", 1, &value,
                  &(ls_op_config){ .kind = "given",
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
    ls_optimizer *opt = t->adam ? t->adam(net, &t->adam_config) : ls_sgd(net, &t->sgd);
    ck_assert_msg(file && opt, "%s: %s", t->name, ls_context_message(ctx));
    ls_tensor *value = ls_net_parameter(net, "value");
    ls_tensor *input = ls_tensor_open(ctx, LS_F32, LS_SHAPE(1, 1));
    parity_fill(value, "value", 1, 0);

    int n_compared = 0;
    for (step = 1; step <= N_STEPS; step++) {
        ls_net_feed(net, "input", input);
        ls_net_forward(net, LS_TRAIN);
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

int main(void)
{
    return run_loop("optimizers against PyTorch", trajectory_matches_pytorch, N_TRAJECTORIES);
}
