/* test_custom.c: a user's own op, loss and parameter in a graph with several inputs, outputs and
 * losses. */
#include "../suite.h"
#include <lockstep/lockstep.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 4, H = 3, W = 2, C = 5, K = 3 };

/* y = x * sigmoid(a[c] x) with a trained slope per channel. */
static ls_status swish_forward(const ls_custom_op_call *call)
{
    const float *x = call->inputs[0], *a = call->inputs[1];
    float *y = call->output;
    const int64_t n = ls_shape_element_count(&call->output_spec.shape);
    for (int64_t i = 0; i < n; i++) y[i] = x[i] / (1 + expf(-a[i % C] * x[i]));
    return LS_OK;
}

static ls_status swish_backward(const ls_custom_op_call *call)
{
    const float *x = call->inputs[0], *a = call->inputs[1], *dy = call->output_gradient;
    float *dx = call->input_gradients[0], *da = call->input_gradients[1];
    const int64_t n = ls_shape_element_count(&call->output_spec.shape);
    double sums[C] = { 0 };
    for (int64_t i = 0; i < n; i++) {
        const float s = 1 / (1 + expf(-a[i % C] * x[i]));
        if (dx) dx[i] = dy[i] * (s + a[i % C] * x[i] * s * (1 - s));
        sums[i % C] += (double)(dy[i] * x[i] * x[i] * s * (1 - s));
    }
    for (int c = 0; da && c < C; c++) da[c] = (float)sums[c];
    return LS_OK;
}

/* Mean squared difference of two tensors: a loss of one's own. */
static ls_status square_forward(const ls_custom_op_call *call)
{
    const float *a = call->inputs[0], *b = call->inputs[1];
    const int64_t n = ls_shape_element_count(&call->input_specs[0].shape);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)((a[i] - b[i]) * (a[i] - b[i]));
    *(float *)call->output = (float)(sum / (double)n);
    return LS_OK;
}

static ls_status square_backward(const ls_custom_op_call *call)
{
    const float *a = call->inputs[0], *b = call->inputs[1];
    const int64_t n = ls_shape_element_count(&call->input_specs[0].shape);
    for (int i = 0; i < 2; i++)
        for (int64_t j = 0; call->input_gradients[i] && j < n; j++)
            call->input_gradients[i][j] =
                call->output_gradient[0] * (i ? -2 : 2) * (a[j] - b[j]) / (float)n;
    return LS_OK;
}

static ls_node *swish(ls_graph *g, const char *name, ls_node *x, ls_node *slope)
{
    ls_node *inputs[2] = { x, slope };
    return ls_custom_op(g, name, 2, inputs,
                        &(ls_custom_op_config){ .kind = "swish",
                                                .output = { LS_F32, ls_node_shape(x) },
                                                .forward = swish_forward,
                                                .backward = swish_backward });
}

static ls_node *two_headed(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    ls_node *target = ls_input(g, "target", (ls_spec){ LS_F32, LS_SHAPE(N, C) });
    ls_node *slope = ls_parameter(g, "slope", LS_SHAPE(C), LS_PARAMETER_WEIGHT, LS_INIT_ONE);
    x = ls_conv2d(g, "conv", x, C, &(ls_conv2d_config){ .kernel = 3, .padding = 1 });
    x = swish(g, "swish1", x, slope);
    x = swish(g, "swish2", ls_batch_norm(g, "bn", x, NULL), slope); /* one parameter, used twice */
    ls_node *features = ls_output(g, "features", ls_global_avg_pool(g, x));
    ls_node *pair[2] = { features, target };
    ls_node *square = ls_custom_op(g, "square", 2, pair,
                                   &(ls_custom_op_config){ .kind = "mean_square",
                                                           .output = { LS_F32, LS_SHAPE(1) },
                                                           .forward = square_forward,
                                                           .backward = square_backward });
    ls_loss(g, "square", square, 0.5f);
    return ls_linear(g, "fc", features, K, NULL);
}

typedef struct fixture {
    ls_context *ctx;
    ls_net *net;
    ls_tensor *x, *label, *target;
} fixture;

static fixture open_fixture(void)
{
    fixture f = { .ctx = ls_context_open(&(ls_context_config){ .seed = 9 }) };
    const int32_t labels[N] = { 0, 1, 2, 1 };
    f.x = ls_tensor_open(f.ctx, LS_F32, LS_SHAPE(N, H, W, 2));
    f.target = ls_tensor_open(f.ctx, LS_F32, LS_SHAPE(N, C));
    f.label = ls_tensor_from_data(f.ctx, LS_I32, LS_SHAPE(N), labels);
    ls_tensor_random_normal(f.x, 1, 0, 1);
    ls_tensor_random_normal(f.target, 2, 0, 1);
    f.net = ls_net_build(
        f.ctx, two_headed, NULL,
        &(ls_net_config){ .input = { .image = { LS_F32, LS_SHAPE(N, H, W, 2) }, .n_classes = K },
                          .loss = { LS_LOSS_CROSS_ENTROPY } });
    ck_assert_msg(ls_context_status(f.ctx) == LS_OK, "%s", ls_context_message(f.ctx));
    return f;
}

static double total_loss(fixture *f)
{
    double loss;
    ck_assert_int_eq(ls_net_feed(f->net, "input", f->x), LS_OK);
    ck_assert_int_eq(ls_net_feed(f->net, "target", f->target), LS_OK);
    ck_assert_int_eq(ls_net_feed(f->net, "label", f->label), LS_OK);
    ck_assert_int_eq(ls_net_forward(f->net, LS_MODE_TRAIN), LS_OK);
    ck_assert_int_eq(ls_net_loss(f->net, &loss), LS_OK);
    return loss;
}

START_TEST(losses_add_up)
{
    fixture f = open_fixture();
    const double total = total_loss(&f);
    double square, cross;
    ck_assert_int_eq(ls_net_metric(f.net, "square", &square), LS_OK);
    ck_assert_int_eq(ls_net_metric(f.net, "loss", &cross), LS_OK);
    ck_assert_double_eq_tol(total, 0.5 * square + cross, 1e-12);
    ck_assert_ptr_nonnull(ls_net_output(f.net, "features"));
    ls_context_close(&f.ctx);
}
END_TEST

START_TEST(shared_parameter_gradient)
{
    fixture f = open_fixture();
    total_loss(&f);
    ck_assert_int_eq(ls_net_backward(f.net), LS_OK);
    static const char *const names[] = { "slope", "conv.weight" };
    for (int t = 0; t < 2; t++) {
        ls_tensor *value = ls_net_parameter(f.net, names[t]);
        const ls_tensor *gradient = NULL;
        for (int64_t i = 0; i < ls_net_parameter_count(f.net); i++)
            if (strcmp(ls_net_parameter_at(f.net, i).name, names[t]) == 0)
                gradient = ls_net_parameter_at(f.net, i).gradient;
        float expected[64];
        const int64_t n = ls_tensor_element_count(value) < 10 ? ls_tensor_element_count(value) : 10;
        memcpy(expected, ls_tensor_data_const(gradient), (size_t)n * sizeof *expected);
        for (int64_t i = 0; i < n; i++) {
            float *w = (float *)ls_tensor_data(value) + i;
            const float saved = *w, e = 1e-2f;
            *w = saved + e;
            const double up = total_loss(&f);
            *w = saved - e;
            const double down = total_loss(&f);
            *w = saved;
            ck_assert_double_eq_tol((up - down) / (2 * e), expected[i], 2e-3);
        }
    }
    ls_context_close(&f.ctx);
}
END_TEST

static ls_status failing(const ls_custom_op_call *call)
{
    (void)call;
    return LS_ERR_DATA;
}

static ls_node *broken(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    x = ls_linear(g, "fc", ls_flatten(g, x), K, NULL);
    return ls_custom_op(g, "mine", 1, &x,
                        &(ls_custom_op_config){ .kind = "breaks",
                                                .output = { LS_F32, LS_SHAPE(N, K) },
                                                .forward = failing });
}

START_TEST(callback_failure_ends_the_step)
{
    ls_context *ctx = ls_context_open(NULL);
    ls_net *net = ls_net_build(
        ctx, broken, NULL,
        &(ls_net_config){ .input = { .image = { LS_F32, LS_SHAPE(N, H) } }, .inference = true });
    ls_tensor *x = ls_tensor_open(ctx, LS_F32, LS_SHAPE(N, H));
    ck_assert_int_eq(ls_net_feed(net, "input", x), LS_OK);
    ck_assert_int_eq(ls_net_forward(net, LS_MODE_EVAL), LS_ERR_DATA);
    ck_assert_ptr_nonnull(strstr(ls_context_message(ctx), "breaks 'mine'"));
    ls_context_close(&ctx);
}
END_TEST

static ls_status halve(const ls_custom_op_call *call)
{
    const float *x = call->inputs[1];
    const int64_t n = ls_shape_element_count(&call->output_spec.shape);
    for (int64_t i = 0; i < n; i++) ((float *)call->output)[i] = x[i] / 2;
    return LS_OK;
}

static ls_node *halved(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    ls_node *inputs[2] = { ls_parameter(g, "p", LS_SHAPE(1), LS_PARAMETER_BIAS, LS_INIT_DEFAULT),
                           x };
    return ls_custom_op(g, "half", 2, inputs,
                        &(ls_custom_op_config){ .kind = "halve",
                                                .output = { LS_F32, LS_SHAPE(N, H) },
                                                .forward = halve });
}

/* Straight after an input, and behind a parameter: the output follows the batch. */
START_TEST(another_batch)
{
    ls_context *ctx = ls_context_open(NULL);
    ls_net *net = ls_net_build(
        ctx, halved, NULL,
        &(ls_net_config){ .input = { .image = { LS_F32, LS_SHAPE(N, H) } }, .inference = true });
    for (int64_t batch = N + 3; batch > 0; batch -= 5) {
        ls_tensor *x = ls_tensor_open(ctx, LS_F32, LS_SHAPE(batch, H));
        ls_tensor_fill(x, 3);
        ck_assert_int_eq(ls_net_feed(net, "input", x), LS_OK);
        ck_assert_int_eq(ls_net_forward(net, LS_MODE_EVAL), LS_OK);
        const ls_tensor *y = ls_net_output(net, "output");
        ck_assert_int_eq(ls_tensor_shape(y)->dims[0], batch);
        ck_assert_float_eq(((const float *)ls_tensor_data_const(y))[batch * H - 1], 1.5f);
        ls_tensor_close(&x);
    }
    ls_context_close(&ctx);
}
END_TEST

/* x [N,H] -> [2 N,H]: x, then -x. */
static ls_status mirror_infer(int n_inputs, const ls_spec *inputs, ls_spec *output, void *user)
{
    const ls_status status = user ? *(const ls_status *)user : LS_OK;
    ck_assert_int_eq(n_inputs, 1);
    if (status == LS_OK)
        *output =
            (ls_spec){ LS_F32, LS_SHAPE(2 * inputs[0].shape.dims[0], inputs[0].shape.dims[1]) };
    return status == LS_ERR_TYPE ? LS_OK : status; /* LS_ERR_TYPE: sets nothing */
}

static ls_status mirror_forward(const ls_custom_op_call *call)
{
    const float *x = call->inputs[0];
    const int64_t n = ls_shape_element_count(&call->input_specs[0].shape);
    for (int64_t i = 0; i < 2 * n; i++) ((float *)call->output)[i] = i < n ? x[i] : -x[i - n];
    return LS_OK;
}

static ls_node *mirrored(ls_graph *g, ls_node *x, const void *options)
{
    return ls_custom_op(g, "both", 1, &x,
                        &(ls_custom_op_config){ .kind = "mirror",
                                                .infer = mirror_infer,
                                                .forward = mirror_forward,
                                                .user = (void *)options });
}

START_TEST(a_callback_gives_the_shape)
{
    ls_context *ctx = ls_context_open(NULL);
    const ls_net_config config = { .input = { .image = { LS_F32, LS_SHAPE(N, H) } },
                                   .inference = true };
    ls_net *net = ls_net_build(ctx, mirrored, NULL, &config);
    for (int64_t batch = N + 3; batch > 0; batch -= 5) {
        ls_tensor *x = ls_tensor_open(ctx, LS_F32, LS_SHAPE(batch, H));
        ls_tensor_fill(x, 3);
        ck_assert_int_eq(ls_net_feed(net, "input", x), LS_OK);
        ck_assert_int_eq(ls_net_forward(net, LS_MODE_EVAL), LS_OK);
        const ls_tensor *y = ls_net_output(net, "output");
        ck_assert_int_eq(ls_tensor_shape(y)->dims[0], 2 * batch);
        ck_assert_float_eq(((const float *)ls_tensor_data_const(y))[batch * H - 1], 3);
        ck_assert_float_eq(((const float *)ls_tensor_data_const(y))[batch * H], -3);
        ls_tensor_close(&x);
    }
    ls_status status = LS_ERR_DATA;
    ck_assert_ptr_null(ls_net_build(ctx, mirrored, &status, &config));
    expect_error(ctx, LS_ERR_DATA, "op 'both'", "infer callback returned");
    status = LS_ERR_TYPE;
    ck_assert_ptr_null(ls_net_build(ctx, mirrored, &status, &config));
    expect_error(ctx, LS_ERR_SHAPE, "op 'both'", "infer callback gave", "at least 1 element");
    ls_context_close(&ctx);
}
END_TEST

TEST_PROGRAM(custom)
{
    return RUN_SUITE("custom", losses_add_up, shared_parameter_gradient,
                     callback_failure_ends_the_step, another_batch, a_callback_gives_the_shape);
}
