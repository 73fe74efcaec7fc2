/* test_fuse.c: a linear layer and its ReLU run as one op, with the bits that they have as two, and
 * so do a batch norm, an addition and ReLU6; what batch norm's backward op reads, by what was fused
 * with the norm. */
#include "../suite.h"
#include "nn/net/net_state.h"
#include <lockstep/lockstep.h>
#include <string.h>

enum { BATCH = 6, FEATURES = 20, CLASSES = 5, STEPS = 4, MAX_PARAMETERS = 16 };

/* A named output is needed by itself, so nothing may absorb it. */
static ls_node *perceptron(ls_graph *g, ls_node *x, const void *options)
{
    const bool *apart = options;
    for (int i = 1; i <= 2; i++) {
        ls_scope_begin(g, "hidden%d", i);
        x = ls_linear(g, "fc", x, 17, &(ls_linear_config){ .no_bias = i == 2 });
        if (*apart) x = ls_output(g, i == 1 ? "first" : "second", x);
        x = ls_relu(g, x);
        ls_scope_end(g);
    }
    return ls_linear(g, "fc", x, CLASSES, NULL);
}

/* Batch norms with ReLU6, alone and after an addition. Each activation has one reader, because two
 * gradients are added in f32 if the op is fused. */
static ls_node *clipped(ls_graph *g, ls_node *x, const void *options)
{
    const bool *apart = options;
    ls_node *skip = ls_linear(g, "skip", x, 17, NULL);
    for (int i = 1; i <= 2; i++) {
        ls_scope_begin(g, "hidden%d", i);
        x = ls_batch_norm(g, "bn", ls_linear(g, "fc", x, 17, NULL), NULL);
        if (i == 2) x = ls_add(g, x, skip);
        if (*apart) x = ls_output(g, i == 1 ? "first" : "second", x);
        x = ls_relu6(g, x);
        ls_scope_end(g);
    }
    return ls_linear(g, "fc", x, CLASSES, NULL);
}

typedef struct outcome {
    ls_digest values[MAX_PARAMETERS]; /* one for each parameter */
    int n;
    double loss;
    bool fused; /* as describe tells */
} outcome;

/* The norms' weights are drawn, so that some activations reach 6; the norms are frozen halfway. */
static outcome train(ls_model_fn model, ls_precision precision, bool apart)
{
    outcome out = { .loss = 0 };
    const bool norms = model == clipped;
    ls_context *ctx = ls_context_open(&(ls_context_config){ .seed = 5, .threads = 2 });
    const ls_net_config config = { .input = { .image = { LS_F32, LS_SHAPE(BATCH, FEATURES) },
                                              .n_classes = CLASSES },
                                   .loss = { LS_LOSS_CROSS_ENTROPY },
                                   .precision = precision };
    ls_net *net = ls_net_build(ctx, model, &apart, &config);
    ls_optimizer *opt = ls_sgd(net, &(ls_sgd_config){ .momentum = 0.9f });
    ls_tensor *images = ls_tensor_open(ctx, LS_F32, LS_SHAPE(BATCH, FEATURES));
    ls_tensor *labels = ls_tensor_from_data(ctx, LS_I32, LS_SHAPE(BATCH),
                                            (const int32_t[BATCH]){ 0, 1, 2, 3, 4, 0 });
    ck_assert_int_eq(ls_tensor_random_normal(images, 1, 0, 1), LS_OK);
    const ls_batch batch = { .images = images, .labels = labels, .n = BATCH };
    out.n = (int)ls_net_parameter_count(net);
    ck_assert_int_le(out.n, MAX_PARAMETERS);
    for (int i = 0; i < out.n; i++) {
        const ls_parameter_info parameter = ls_net_parameter_at(net, i);
        if (strstr(parameter.name, "bn.weight"))
            ck_assert_int_eq(ls_tensor_random_normal(parameter.value, 2, 4, 4), LS_OK);
    }
    for (int i = 0; i < STEPS; i++) {
        if (norms && i == STEPS / 2) ck_assert_int_eq(ls_net_freeze(net, "*.bn.*"), LS_OK);
        ck_assert_int_eq(ls_net_step(net, opt, &batch, 0.01), LS_OK);
    }
    ck_assert_int_eq(ls_net_loss(net, &out.loss), LS_OK);
    for (int i = 0; i < out.n; i++)
        ck_assert_int_eq(ls_tensor_digest(ls_net_parameter_at(net, i).value, &out.values[i]),
                         LS_OK);
    char text[8192];
    ck_assert_int_gt(ls_net_describe(net, text, sizeof(text)), 0);
    out.fused = strstr(text, norms ? "hidden1.bn + relu6 " : "hidden1.fc + relu ") &&
                strstr(text, norms ? "hidden2.bn + add + relu6 " : "hidden2.fc + relu ");
    ls_context_close(&ctx);
    return out;
}

static void compare_fused(ls_model_fn model)
{
    static const ls_precision precisions[] = { LS_PRECISION_F32, LS_PRECISION_BF16,
                                               LS_PRECISION_F16 };
    for (size_t p = 0; p < sizeof(precisions) / sizeof(*precisions); p++) {
        const outcome one = train(model, precisions[p], false),
                      two = train(model, precisions[p], true);
        ck_assert(one.fused && !two.fused);
        ck_assert_double_eq(one.loss, two.loss);
        ck_assert_int_eq(one.n, two.n);
        for (int i = 0; i < one.n; i++) ck_assert(ls_digest_equal(one.values[i], two.values[i]));
    }
}

START_TEST(relu_joins_its_linear_layer)
{
    compare_fused(perceptron);
}
END_TEST

START_TEST(relu6_joins_its_batch_norm)
{
    compare_fused(clipped);
}
END_TEST

/* Norms with ReLU, with an addition and ReLU, and with neither. */
static ls_node *norms(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    ls_node *first = ls_relu(g, ls_batch_norm(g, "bn1", ls_linear(g, "fc1", x, 8, NULL), NULL));
    x = ls_batch_norm(g, "bn2", ls_linear(g, "fc2", first, 8, NULL), NULL);
    x = ls_relu(g, ls_add(g, x, first));
    x = ls_batch_norm(g, "bn3", ls_linear(g, "fc3", x, 8, NULL), NULL);
    return ls_linear(g, "fc4", x, CLASSES, NULL);
}

START_TEST(norms_have_their_shift_where_y_follows_from_x)
{
    enum { BACK_Y = 1, BACK_SHIFT = 7 };
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    const ls_net_config config = { .input = { .image = { LS_F32, LS_SHAPE(BATCH, FEATURES) },
                                              .n_classes = CLASSES },
                                   .loss = { LS_LOSS_CROSS_ENTROPY } };
    ls_net *net = ls_net_build(ctx, norms, NULL, &config);
    ck_assert_msg(net, "%s", ls_context_message(ctx));
    int p_index = 0, n_norms = 0;
    while (net->cache.programs[p_index]->mode != LS_MODE_TRAIN) p_index++;
    const ls__program *p = net->cache.programs[p_index];
    for (int i = 0; i < p->n_instructions; i++) {
        const ls__instruction *in = &p->instructions[i];
        if (in->custom || in->op.kind != LS__OP_BATCH_NORM_BACKWARD) continue;
        const char *last = in->node->name; /* of what was fused */
        ck_assert_int_eq(in->operands[BACK_Y] >= 0, strcmp(last, "bn3") != 0);
        ck_assert_int_eq(in->operands[BACK_SHIFT] >= 0, strcmp(last, "relu") == 0);
        n_norms++;
    }
    ck_assert_int_eq(n_norms, 3);
    ls_context_close(&ctx);
}
END_TEST

TEST_PROGRAM(fuse)
{
    return RUN_SUITE("fuse", relu_joins_its_linear_layer, relu6_joins_its_batch_norm,
                     norms_have_their_shift_where_y_follows_from_x);
}
