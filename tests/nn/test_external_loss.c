/* test_external_loss.c: gradients in the hands of the program: losses outside the graph, whose
 * gradient ls_net_backward_from takes, and gradients that are changed before the update. */
#include "small_net.h"
#include <math.h>
#include <string.h>

enum { N = 6, CLASSES = 10 };

typedef struct trial {
    ls_context *ctx;
    ls_net *net, *reference; /* LS_LOSS_EXTERNAL, and LS_LOSS_MSE of the same model */
    data images;
    ls_tensor *target, *gradient; /* [N,CLASSES] */
} trial;

static ls_net *build(ls_context *ctx, ls_loss_kind loss, ls_precision precision)
{
    ls_net_config config = small_config(N);
    config.loss = (ls_loss_config){ loss };
    config.precision = precision;
    config.input.n_classes = 0;
    ls_net *net = ls_net_build(ctx, small, NULL, &config);
    expect_ok(ctx);
    return net;
}

static trial open_trial(ls_precision precision)
{
    trial t = { .ctx = ls_context_open(NULL) };
    t.net = build(t.ctx, LS_LOSS_EXTERNAL, precision);
    t.reference = build(t.ctx, LS_LOSS_MSE, precision);
    t.images = make_data(t.ctx, N, 8);
    t.target = ls_tensor_open(t.ctx, LS_F32, LS_SHAPE(N, CLASSES));
    t.gradient = ls_tensor_open(t.ctx, LS_F32, LS_SHAPE(N, CLASSES));
    float *target = ls_tensor_data(t.target);
    for (int i = 0; i < N * CLASSES; i++) target[i] = (float)(i % 7) - 3;
    return t;
}

static void forward(ls_net *net, const trial *t)
{
    ck_assert_int_eq(ls_net_feed(net, "input", t->images.images), LS_OK);
    ck_assert_int_eq(ls_net_forward(net, LS_MODE_TRAIN), LS_OK);
}

/* The gradient of the mean squared error, times `scale`. */
static void set_gradient(const trial *t, float scale)
{
    const float *y = ls_tensor_data_const(ls_net_output(t->net, "output"));
    const float *target = ls_tensor_data_const(t->target);
    float *gradient = ls_tensor_data(t->gradient);
    for (int i = 0; i < N * CLASSES; i++)
        gradient[i] = scale * 2 * (y[i] - target[i]) / (N * CLASSES);
}

static void backward_reference(const trial *t)
{
    ck_assert_int_eq(ls_net_feed(t->reference, "target", t->target), LS_OK);
    forward(t->reference, t);
    ck_assert_int_eq(ls_net_backward(t->reference), LS_OK);
}

static double norm_of(const float *x, const float *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)x[i] - (y ? (double)y[i] : 0);
        sum += d * d;
    }
    return sqrt(sum);
}

static void expect_near(const ls_tensor *a, const ls_tensor *b, double tolerance, const char *name)
{
    const float *x = ls_tensor_data_const(a), *y = ls_tensor_data_const(b);
    const int64_t n = ls_tensor_element_count(b);
    const double d = norm_of(x, y, n), norm = norm_of(y, NULL, n);
    ck_assert_msg(norm > 0 && d <= tolerance * norm, "%s: %.3g apart, the norm is %.3g", name, d,
                  norm);
}

static const struct {
    ls_precision precision;
    double tolerance;
} precisions[] = { { LS_PRECISION_F32, 1e-6 },
                   { LS_PRECISION_BF16, 2e-2 },
                   { LS_PRECISION_F16, 2e-3 } };

START_TEST(gradients_equal_those_of_the_loss_in_the_graph)
{
    trial t = open_trial(precisions[_i].precision);
    double scale = 1;
    if (precisions[_i].precision == LS_PRECISION_F16)
        ck_assert_int_eq(ls_net_loss_scale(t.net, &scale, NULL), LS_OK);
    backward_reference(&t);
    forward(t.net, &t);
    set_gradient(&t, (float)scale);
    ck_assert_int_eq(ls_net_backward_from(t.net, "output", t.gradient), LS_OK);
    for (int64_t i = 0; i < ls_net_parameter_count(t.net); i++) {
        const ls_parameter_info a = ls_net_parameter_at(t.net, i);
        const ls_parameter_info b = ls_net_parameter_at(t.reference, i);
        /* The gradient of a bias before a batch norm is 0 but for rounding. */
        if (a.gradient && strcmp(a.name, "conv1.bias") != 0)
            expect_near(a.gradient, b.gradient, precisions[_i].tolerance, a.name);
    }
    ls_context_close(&t.ctx);
}
END_TEST

/* ---- Two nets in a row, as in a GAN ---- */

static ls_node *generator(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    return ls_relu(g, ls_linear(g, "generator", x, 12, NULL));
}

static ls_node *critic(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    return ls_linear(g, "critic", x, 1, NULL);
}

static ls_node *generator_and_critic(ls_graph *g, ls_node *x, const void *options)
{
    return critic(g, generator(g, x, options), options);
}

START_TEST(the_gradient_of_a_second_nets_input_goes_on)
{
    ls_context *ctx = ls_context_open(NULL);
    ls_net *nets[3];
    static const ls_model_fn models[3] = { generator, critic, generator_and_critic };
    for (int i = 0; i < 3; i++) {
        const int64_t columns = i == 1 ? 12 : 4;
        nets[i] = ls_net_build(ctx, models[i], NULL,
                               &(ls_net_config){ .input.image = { LS_F32, LS_SHAPE(N, columns) },
                                                 .loss = { i ? LS_LOSS_MSE : LS_LOSS_EXTERNAL } });
        expect_ok(ctx);
    }
    ls_tensor *noise = ls_tensor_open(ctx, LS_F32, LS_SHAPE(N, 4));
    ls_tensor *target = ls_tensor_open(ctx, LS_F32, LS_SHAPE(N, 1));
    for (int i = 0; i < N * 4; i++) ((float *)ls_tensor_data(noise))[i] = (float)(i % 5) - 2;
    for (int i = 0; i < N; i++) ((float *)ls_tensor_data(target))[i] = 1;
    for (int i = 0; i < 2; i++) {
        static const char *const names[4] = { "generator.weight", "generator.bias", "critic.weight",
                                              "critic.bias" };
        for (int j = 2 * i; j < 2 * i + 2; j++)
            ck_assert_int_eq(ls_tensor_copy(ls_net_parameter(nets[2], names[j]),
                                            ls_net_parameter(nets[i], names[j])),
                             LS_OK);
    }
    ck_assert_int_eq(ls_net_require_input_gradient(nets[1], "input"), LS_OK);
    ls_net_feed(nets[0], "input", noise);
    ls_net_forward(nets[0], LS_MODE_TRAIN);
    ls_net_feed(nets[1], "input", ls_net_output(nets[0], "output"));
    ls_net_feed(nets[1], "target", target);
    ls_net_forward(nets[1], LS_MODE_TRAIN);
    ls_net_backward(nets[1]);
    ck_assert_int_eq(
        ls_net_backward_from(nets[0], "output", ls_net_input_gradient(nets[1], "input")), LS_OK);
    ls_net_feed(nets[2], "input", noise);
    ls_net_feed(nets[2], "target", target);
    ls_net_forward(nets[2], LS_MODE_TRAIN);
    ck_assert_int_eq(ls_net_backward(nets[2]), LS_OK);
    for (int i = 0; i < 2; i++)
        expect_near(ls_net_parameter_at(nets[0], i).gradient,
                    ls_net_parameter_at(nets[2], i).gradient, 1e-6, "generator");
    ls_context_close(&ctx);
}
END_TEST

/* ---- Several outputs ---- */

/* x [N,4]: "output" [N,2] of both layers, "hidden" [N,3] of the first, and "raw", which has no
 * parameter. */
static ls_node *two_outputs(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    ls_output(g, "raw", x);
    ls_node *hidden = ls_linear(g, "a", x, 3, NULL);
    ls_output(g, "hidden", hidden);
    return ls_linear(g, "b", hidden, 2, NULL);
}

typedef struct two {
    ls_context *ctx;
    ls_net *net;
    ls_tensor *x, *of_output, *of_hidden;
} two;

static two open_two(void)
{
    two t = { .ctx = ls_context_open(NULL) };
    const ls_net_config config = { .input.image = { LS_F32, LS_SHAPE(N, 4) },
                                   .loss = { LS_LOSS_EXTERNAL } };
    t.net = ls_net_build(t.ctx, two_outputs, NULL, &config);
    expect_ok(t.ctx);
    t.x = ls_tensor_open(t.ctx, LS_F32, LS_SHAPE(N, 4));
    t.of_output = ls_tensor_open(t.ctx, LS_F32, LS_SHAPE(N, 2));
    t.of_hidden = ls_tensor_open(t.ctx, LS_F32, LS_SHAPE(N, 3));
    ls_tensor *const all[] = { t.x, t.of_output, t.of_hidden };
    for (int i = 0; i < 3; i++)
        for (int64_t j = 0; j < ls_tensor_element_count(all[i]); j++)
            ((float *)ls_tensor_data(all[i]))[j] = (float)((j * 7 + i) % 5) - 2;
    return t;
}

static void forward_two(const two *t)
{
    ck_assert_int_eq(ls_net_feed(t->net, "input", t->x), LS_OK);
    ck_assert_int_eq(ls_net_forward(t->net, LS_MODE_TRAIN), LS_OK);
}

/* The gradient of a bias is the sum over the rows. */
static void expect_row_sums(const ls_tensor *gradient, const ls_tensor *rows)
{
    const float *x = ls_tensor_data_const(rows), *sums = ls_tensor_data_const(gradient);
    const int64_t columns = ls_tensor_shape(rows)->dims[1];
    for (int64_t c = 0; c < columns; c++) {
        float sum = 0;
        for (int64_t i = 0; i < N; i++) sum += x[i * columns + c];
        ck_assert_msg(sums[c] == sum, "column %d: %g, expected %g", (int)c, (double)sums[c],
                      (double)sum);
    }
}

START_TEST(other_outputs_have_no_gradient)
{
    enum { A_BIAS = 1, B_WEIGHT, B_BIAS };
    two t = open_two();
    for (int i = 0; i < 2; i++) { /* twice, so that a gradient of the previous step would show */
        forward_two(&t);
        ck_assert_int_eq(ls_net_backward_from(t.net, "output", t.of_output), LS_OK);
        expect_row_sums(ls_net_parameter_at(t.net, B_BIAS).gradient, t.of_output);
        forward_two(&t);
        ck_assert_int_eq(ls_net_backward_from(t.net, "hidden", t.of_hidden), LS_OK);
        expect_row_sums(ls_net_parameter_at(t.net, A_BIAS).gradient, t.of_hidden);
        for (int p = B_WEIGHT; p <= B_BIAS; p++) {
            const ls_tensor *gradient = ls_net_parameter_at(t.net, p).gradient;
            for (int64_t j = 0; j < ls_tensor_element_count(gradient); j++)
                ck_assert(((const float *)ls_tensor_data_const(gradient))[j] == 0);
        }
    }
    ls_context_close(&t.ctx);
}
END_TEST

START_TEST(errors_name_the_output_and_the_way_out)
{
    two t = open_two();
    expect_failure(ls_net_backward_from(t.net, "output", t.of_output), t.ctx, LS_ERR_INVALID,
                   "ls_net_forward in mode LS_MODE_TRAIN");
    forward_two(&t);
    expect_failure(ls_net_backward(t.net), t.ctx, LS_ERR_UNSUPPORTED, "LS_LOSS_EXTERNAL",
                   "ls_net_backward_from");
    expect_failure(ls_net_backward_from(t.net, "hiden", t.of_hidden), t.ctx, LS_ERR_NOT_FOUND,
                   "'hiden'", "hidden");
    expect_failure(ls_net_backward_from(t.net, "hidden", NULL), t.ctx, LS_ERR_INVALID, "'hidden'",
                   "NULL");
    expect_failure(ls_net_backward_from(t.net, "hidden", t.of_output), t.ctx, LS_ERR_SHAPE,
                   "'hidden'", "[6,2]", "[6,3]");
    ls_tensor *labels = ls_tensor_open(t.ctx, LS_I32, LS_SHAPE(N, 3));
    expect_failure(ls_net_backward_from(t.net, "hidden", labels), t.ctx, LS_ERR_TYPE, "'hidden'",
                   "I32");
    expect_failure(ls_net_backward_from(t.net, "raw", t.x), t.ctx, LS_ERR_UNSUPPORTED, "'raw'",
                   "no parameter");
    ls_context *other = ls_context_open(NULL);
    const ls_tensor *foreign = ls_tensor_open(other, LS_F32, LS_SHAPE(N, 3));
    expect_failure(ls_net_backward_from(t.net, "hidden", foreign), t.ctx, LS_ERR_MISMATCH,
                   "another context");
    ls_context_close(&other);
    /* None of these errors has used the forward pass. */
    ck_assert_int_eq(ls_net_backward_from(t.net, "hidden", t.of_hidden), LS_OK);
    expect_failure(ls_net_backward_from(t.net, "hidden", t.of_hidden), t.ctx, LS_ERR_INVALID,
                   "ls_net_forward");
    const ls_batch batch = { .images = t.x };
    expect_failure(ls_net_step(t.net, NULL, &batch, 0), t.ctx, LS_ERR_UNSUPPORTED, "ls_net_step",
                   "ls_net_backward_from");
    ls_context_close(&t.ctx);

    trial u = open_trial(LS_PRECISION_F32);
    backward_reference(&u);
    expect_failure(ls_net_backward_from(u.reference, "output", u.gradient), u.ctx,
                   LS_ERR_UNSUPPORTED, "the loss 'loss'", "LS_LOSS_EXTERNAL");
    ls_context_close(&u.ctx);
}
END_TEST

static ls_node *with_loss(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    ls_node *y = ls_linear(g, "fc", x, 3, NULL);
    ls_loss(g, "own", ls_mse(g, y, ls_input(g, "wanted", (ls_spec){ LS_F32, LS_SHAPE(N, 3) })), 1);
    return y;
}

START_TEST(nets_that_can_not_have_an_external_loss)
{
    ls_context *ctx = ls_context_open(NULL);
    ls_net_config config = { .input.image = { LS_F32, LS_SHAPE(N, 4) },
                             .loss = { LS_LOSS_EXTERNAL } };
    ck_assert_ptr_null(ls_net_build(ctx, with_loss, NULL, &config));
    expect_error(ctx, LS_ERR_INVALID, "LS_LOSS_EXTERNAL", "'own'");
    config.loss.kind = LS_LOSS_NONE;
    ck_assert_ptr_null(ls_net_build(ctx, two_outputs, NULL, &config));
    expect_error(ctx, LS_ERR_INVALID, "no loss to train on", "LS_LOSS_EXTERNAL");
    ls_context *sharded = ls_context_open(&(ls_context_config){ .shards = 2 });
    config.loss.kind = LS_LOSS_EXTERNAL;
    ck_assert_ptr_null(ls_net_build(sharded, two_outputs, NULL, &config));
    expect_error(sharded, LS_ERR_UNSUPPORTED, "LS_LOSS_EXTERNAL", "2 shards");
    ls_context_close(&sharded);
    ls_context_close(&ctx);
}
END_TEST

/* ---- Gradients that the program changes ---- */

START_TEST(an_update_takes_the_gradients_that_the_program_wrote)
{
    two t = open_two();
    ls_optimizer *sgd = ls_sgd(t.net, NULL);
    float before[3], after[3];
    ls_tensor *bias = ls_net_parameter(t.net, "a.bias");
    ck_assert_int_eq(ls_tensor_read(bias, before, sizeof before), LS_OK);
    forward_two(&t);
    ck_assert_int_eq(ls_net_backward_from(t.net, "output", t.of_output), LS_OK);
    const float written[3] = { 1, -2, 0.5f };
    ck_assert_int_eq(
        ls_tensor_write(ls_net_parameter_at(t.net, 1).gradient, written, sizeof written), LS_OK);
    ck_assert_int_eq(ls_optimizer_step(sgd, 0.25), LS_OK);
    ck_assert_int_eq(ls_tensor_read(bias, after, sizeof after), LS_OK);
    for (int i = 0; i < 3; i++) ck_assert(after[i] == before[i] - 0.25f * written[i]);
    ls_context_close(&t.ctx);
}
END_TEST

TEST_PROGRAM(external_loss)
{
    const int n = (int)(sizeof precisions / sizeof *precisions);
    const int loop = run_loop("gradients_equal", gradients_equal_those_of_the_loss_in_the_graph, n);
    return both(loop,
                RUN_SUITE("external_loss", the_gradient_of_a_second_nets_input_goes_on,
                          other_outputs_have_no_gradient, errors_name_the_output_and_the_way_out,
                          nets_that_can_not_have_an_external_loss,
                          an_update_takes_the_gradients_that_the_program_wrote));
}
