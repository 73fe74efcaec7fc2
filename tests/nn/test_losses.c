/* test_losses.c: losses of targets: soft labels of the net's own cross-entropy, binary
 * cross-entropy and squared error with targets that a batch brings. */
#include "small_net.h"
#include <lockstep/run_log.h>
#include <math.h>
#include <string.h>

enum { N = 6, CLASSES = 10 };

/* ---- ls_loss_config.soft_targets ---- */

static ls_net *build(ls_context *ctx, bool soft_targets)
{
    ls_net_config config = small_config(N);
    config.loss.soft_targets = soft_targets;
    ls_net *net = ls_net_build(ctx, small, NULL, &config);
    expect_ok(ctx);
    return net;
}

static double loss_of(ls_net *net, const ls_batch *batch)
{
    double loss;
    ck_assert_int_eq(ls_net_step(net, NULL, batch, 0), LS_OK);
    ck_assert_int_eq(ls_net_loss(net, &loss), LS_OK);
    return loss;
}

/* f32 sums in another order. */
static void expect_near(double a, double b)
{
    ck_assert_msg(fabs(a - b) <= 2e-6 * (1 + fabs(b)), "%.9g, expected %.9g", a, b);
}

START_TEST(targets_of_labels_are_one_hot)
{
    ls_context *ctx = ls_context_open(NULL);
    ls_net *nets[2] = { build(ctx, false), build(ctx, true) };
    const data d = make_data(ctx, N, 8);
    expect_near(loss_of(nets[1], &d.batch), loss_of(nets[0], &d.batch));
    for (int64_t i = 0; i < ls_net_parameter_count(nets[0]); i++) {
        const ls_parameter_info a = ls_net_parameter_at(nets[0], i);
        const ls_parameter_info b = ls_net_parameter_at(nets[1], i);
        for (int64_t k = 0; a.gradient && k < ls_tensor_element_count(a.value); k++)
            expect_near((double)((const float *)ls_tensor_data_const(b.gradient))[k],
                        (double)((const float *)ls_tensor_data_const(a.gradient))[k]);
    }
    double losses[2], top1[2];
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(ls_net_evaluate(nets[i], &d.batch), LS_OK);
        ls_net_loss(nets[i], &losses[i]);
        ls_net_metric(nets[i], "top1", &top1[i]);
    }
    expect_near(losses[1], losses[0]);
    ck_assert(top1[0] == top1[1]);
    const ls_batch unlabelled = { .images = d.images };
    ck_assert_int_eq(ls_net_evaluate(nets[1], &unlabelled), LS_OK);
    expect_failure(ls_net_loss(nets[1], &losses[1]), ctx, LS_ERR_INVALID, "no labels");
    ls_context_close(&ctx);
}
END_TEST

/* A step over so many images of a batch, whose targets are lambda for a label and 1 - lambda for
 * the next class. */
static ls_batch mix(ls_context *ctx, const data *d, double lambda)
{
    float targets[N * CLASSES] = { 0 };
    const int32_t *labels = ls_tensor_data_const(d->labels);
    for (int i = 0; i < N; i++) {
        targets[i * CLASSES + labels[i]] += (float)lambda;
        targets[i * CLASSES + (labels[i] + 1) % CLASSES] += (float)(1 - lambda);
    }
    ls_batch batch = d->batch;
    batch.targets = ls_tensor_from_data(ctx, LS_F32, LS_SHAPE(N, CLASSES), targets);
    return batch;
}

START_TEST(the_loss_of_mixed_targets_is_the_mixed_loss)
{
    ls_context *ctx = ls_context_open(NULL);
    ls_net *hard = build(ctx, false), *soft = build(ctx, true);
    data d = make_data(ctx, N, 8);
    const ls_batch mixed = mix(ctx, &d, 0.25), other = mix(ctx, &d, 0.75);
    const double own = loss_of(hard, &d.batch), mixture = loss_of(soft, &mixed);
    ls_step_digest digests[2];
    ck_assert_int_eq(ls_net_digest(soft, &mixed, &digests[0]), LS_OK);
    loss_of(soft, &other);
    ck_assert_int_eq(ls_net_digest(soft, &other, &digests[1]), LS_OK);
    ck_assert(!ls_digest_equal(digests[0].batch, digests[1].batch));
    int32_t *labels = ls_tensor_data(d.labels);
    for (int i = 0; i < N; i++) labels[i] = (labels[i] + 1) % CLASSES;
    expect_near(mixture, 0.25 * own + 0.75 * loss_of(hard, &d.batch));
    ls_context_close(&ctx);
}
END_TEST

/* ---- Losses of the graph ---- */

typedef enum loss_kind { SOFT, BINARY, SQUARE, N_LOSSES } loss_kind;

static const float positive_weights[3] = { 2, 1, 0.5f };

/* x [N,4] -> [N,3], at first all 0 */
static ls_node *regression(ls_graph *g, ls_node *x, const void *options)
{
    ls_node *target = ls_input(g, "target", (ls_spec){ LS_F32, LS_SHAPE(N, 3) });
    ls_node *y = ls_linear(g, "fc", x, 3, &(ls_linear_config){ .init = LS_INIT_ZERO });
    switch (*(const loss_kind *)options) {
    case SOFT: ls_loss(g, "loss", ls_cross_entropy(g, y, target, NULL), 0); break;
    case BINARY:
        ls_loss(g, "loss",
                ls_binary_cross_entropy(g, y, target,
                                        &(ls_binary_cross_entropy_config){ positive_weights }),
                0);
        break;
    default: ls_loss(g, "loss", ls_mse(g, y, target), 0);
    }
    return y;
}

/* The first loss is known, because the logits are the bias; the last one shows that the gradient
 * leads there. */
START_TEST(a_batch_brings_targets)
{
    static const float targets[N * 3] = { 1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 1 };
    float x[N * 4] = { 0 };
    for (int i = 0; i < N; i++) x[i * 4 + i % 3] = 3;
    for (loss_kind kind = SOFT; kind < N_LOSSES; kind++) {
        ls_context *ctx = ls_context_open(NULL);
        const ls_net_config config = { .input.image = { LS_F32, LS_SHAPE(N, 4) } };
        ls_net *net = ls_net_build(ctx, regression, &kind, &config);
        expect_ok(ctx);
        ls_optimizer *opt = ls_sgd(net, NULL);
        const ls_batch batch = { .images = ls_tensor_from_data(ctx, LS_F32, LS_SHAPE(N, 4), x),
                                 .targets =
                                     ls_tensor_from_data(ctx, LS_F32, LS_SHAPE(N, 3), targets) };
        ls_tensor_fill(ls_net_parameter(net, "fc.bias"), 0);
        double loss = loss_of(net, &batch);
        /* each class has the target 1 in a third of the rows */
        const double expected[] = { log(3), log(2) * (2 + (2 + 1 + 0.5) / 3) / 3, 1.0 / 3 };
        expect_near(loss, expected[kind]);
        for (int i = 0; i < 100; i++) ck_assert_int_eq(ls_net_step(net, opt, &batch, 0.3), LS_OK);
        ls_net_loss(net, &loss);
        ck_assert_msg(loss < 0.15 * expected[kind], "loss %d: %g", (int)kind, loss);
        ls_context_close(&ctx);
    }
}
END_TEST

static ls_node *computed_targets(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    return ls_mse(g, x, ls_relu(g, x));
}

static ls_node *other_shape(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    return ls_mse(g, x, ls_input(g, "target", (ls_spec){ LS_F32, LS_SHAPE(N, 5) }));
}

static ls_node *labels_as_targets(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    return ls_binary_cross_entropy(g, x, ls_input(g, "target", (ls_spec){ LS_I32, LS_SHAPE(N) }),
                                   NULL);
}

static ls_node *negative_weight(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    static const float weights[4] = { 1, -1, 1, 1 };
    return ls_binary_cross_entropy(g, x, ls_input(g, "target", (ls_spec){ LS_F32, LS_SHAPE(N, 4) }),
                                   &(ls_binary_cross_entropy_config){ weights });
}

START_TEST(misuse)
{
    ls_context *ctx = ls_context_open(NULL);
    const struct {
        ls_model_fn model;
        ls_status status;
        const char *message;
    } wrong[] = {
        { computed_targets, LS_ERR_INVALID, "targets are node" },
        { other_shape, LS_ERR_SHAPE, "targets [6,5]; expected [N,K] twice" },
        { labels_as_targets, LS_ERR_TYPE, "targets I32; expected F32" },
        { negative_weight, LS_ERR_INVALID, "binary_cross_entropy: positive weight 1 is -1" },
    };
    const ls_net_config config = { .input.image = { LS_F32, LS_SHAPE(N, 4) } };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ck_assert_ptr_null(ls_net_build(ctx, wrong[i].model, NULL, &config));
        expect_error(ctx, wrong[i].status, wrong[i].message);
    }
    ls_net_config soft = { .input.image = { LS_F32, LS_SHAPE(N, 4) }, .loss.soft_targets = true };
    ck_assert_ptr_null(ls_net_build(ctx, computed_targets, NULL, &soft));
    expect_error(ctx, LS_ERR_INVALID, "soft targets without a loss");

    ls_net *net = build(ctx, true);
    const data d = make_data(ctx, N, 8);
    ls_batch batch = d.batch;
    batch.targets = ls_tensor_open(ctx, LS_F32, LS_SHAPE(N + 1, CLASSES));
    ck_assert_int_ne(ls_net_step(net, NULL, &batch, 0), LS_OK);
    expect_error(ctx, LS_ERR_SHAPE, "target");
    ls_net *hard = build(ctx, false);
    expect_failure(ls_net_step(hard, NULL, &batch, 0), ctx, LS_ERR_INVALID, "loss.soft_targets");
    batch.targets = batch.labels;
    expect_failure(ls_net_step(net, NULL, &batch, 0), ctx, LS_ERR_SHAPE, "input 'target'", "I32");
    batch = d.batch;
    batch.labels = ls_tensor_from_data(ctx, LS_I32, LS_SHAPE(N), (int32_t[N]){ CLASSES });
    expect_failure(ls_net_step(net, NULL, &batch, 0), ctx, LS_ERR_INVALID, "input 'label'",
                   "expected 0 to");
    ls_context_close(&ctx);
}
END_TEST

TEST_PROGRAM(losses)
{
    return RUN_SUITE("losses", targets_of_labels_are_one_hot,
                     the_loss_of_mixed_targets_is_the_mixed_loss, a_batch_brings_targets, misuse);
}
