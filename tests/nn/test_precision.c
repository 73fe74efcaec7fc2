/* test_precision.c: whole nets in bf16 and f16, which most CPUs emulate, beside the same nets in
 * f32: every layer, ops of the user's own, f32 and u8 inputs, input gradients, evaluation. */
#include "../suite.h"
#include "base/context.h"
#include "nn/net/net.h"
#include "nn/net/net_trace.h"
#include "optim/optimizer.h"
#include <lockstep/lockstep.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BATCH = 6, SIDE = 13, CLASSES = 7, STEPS = 5 };
static const double RATE = 0.02;

/* Rounding to the type: half of the last place. */
static const struct {
    ls_precision precision;
    const char *name;
    ls_dtype dtype;
    double epsilon;
} types[] = { { LS_PRECISION_BF16, "bf16", LS_BF16, 0x1p-9 },
              { LS_PRECISION_F16, "f16", LS_F16, 0x1p-12 } };
enum { N_TYPES = 2 };

/* ---- y = x * x * scale[c]: an op of the user's own that sees f32 only ---- */

static ls_status square_forward(const ls_custom_op_call *call)
{
    const float *x = call->inputs[0], *scale = call->inputs[1];
    const int64_t n = ls_shape_element_count(&call->output_spec.shape);
    const int64_t c = ls_shape_element_count(&call->input_specs[1].shape);
    for (int64_t i = 0; i < n; i++) ((float *)call->output)[i] = x[i] * x[i] * scale[i % c];
    return LS_OK;
}

static ls_status square_backward(const ls_custom_op_call *call)
{
    const float *x = call->inputs[0], *scale = call->inputs[1], *dy = call->output_gradient;
    float *dx = call->input_gradients[0], *dscale = call->input_gradients[1];
    const int64_t n = ls_shape_element_count(&call->output_spec.shape);
    const int64_t c = ls_shape_element_count(&call->input_specs[1].shape);
    for (int64_t i = 0; dscale && i < c; i++) dscale[i] = 0;
    for (int64_t i = 0; i < n; i++) {
        if (dx) dx[i] = 2 * x[i] * scale[i % c] * dy[i];
        if (dscale) dscale[i % c] += x[i] * x[i] * dy[i];
    }
    return LS_OK;
}

static ls_node *square(ls_graph *g, const char *name, ls_node *x)
{
    const ls_shape shape = ls_node_shape(x);
    ls_node *inputs[2] = { x,
                           ls_parameter(g, "square.scale", LS_SHAPE(shape.dims[shape.n_dims - 1]),
                                        LS_PARAMETER_NORM, LS_INIT_DEFAULT) };
    return ls_custom_op(g, name, 2, inputs,
                        &(ls_custom_op_config){ .kind = "square",
                                                .output = { LS_F32, shape },
                                                .forward = square_forward,
                                                .backward = square_backward });
}

/* x [N,13,13,3] -> [N,7]: every op that there is. */
static ls_node *model(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    x = ls_conv2d(g, "conv1", x, 16, &(ls_conv2d_config){ .kernel = 3, .padding = 1 });
    x = ls_relu(g, ls_batch_norm(g, "bn1", x, NULL));
    x = ls_max_pool(g, x, &(ls_pool_config){ .kernel = 3, .stride = 2, .padding = 1 });
    ls_node *y =
        ls_conv2d(g, "conv2", x, 16, &(ls_conv2d_config){ .kernel = 3, .padding = 1, .groups = 2 });
    y = ls_batch_norm(g, "bn2", y, NULL);
    x = ls_relu(g, ls_add(g, y, x));
    x = ls_add(g, x, square(g, "square", x));
    y = ls_conv2d(g, "conv3", x, 24, &(ls_conv2d_config){ .kernel = 3, .stride = 2, .padding = 1 });
    y = ls_batch_norm(g, "bn3", y, NULL);
    x = ls_avg_pool(g, ls_pad_channels(g, x, 24), &(ls_pool_config){ .kernel = 2, .padding = 1 });
    x = ls_relu(g, ls_add(g, y, x));
    ls_output(g, "middle", x);
    x = ls_relu(g, ls_conv2d(g, "conv4", x, 8, &(ls_conv2d_config){ .bias = true }));
    ls_node *flat = ls_linear(g, "flat", ls_flatten(g, x), 10, NULL);
    x = ls_dropout(g, ls_linear(g, "pooled", ls_global_avg_pool(g, x), 10, NULL), 0.2f);
    return ls_linear(g, "fc", ls_relu(g, ls_add(g, x, flat)), CLASSES, NULL);
}

typedef struct run {
    ls_context *ctx;
    ls_net *net;
    ls_optimizer *opt;
    ls_tensor *images, *labels;
    ls_batch batch;
} run;

static run open_run(ls_precision precision, ls_dtype input, int threads)
{
    static const ls_shape shape = { 4, { BATCH, SIDE, SIDE, 3 } };
    run r = { .ctx = ls_context_open(&(ls_context_config){ .seed = 5, .threads = threads }) };
    r.net =
        ls_net_build(r.ctx, model, NULL,
                     &(ls_net_config){ .input = { .image = { input, shape },
                                                  .mean = { 0.5f, 0.4f, 0.3f },
                                                  .std = { 0.2f, 0.3f, 0.25f },
                                                  .n_classes = CLASSES },
                                       .loss = { LS_LOSS_CROSS_ENTROPY, .label_smoothing = 0.1f },
                                       .precision = precision });
    r.opt = ls_sgd(r.net, &(ls_sgd_config){ .momentum = 0.9f, .weight_decay = 5e-4f });
    if (input == LS_F32) {
        r.images = ls_tensor_open(r.ctx, LS_F32, shape);
        ls_tensor_random_normal(r.images, 3, 0, 1);
    } else {
        static uint8_t pixels[BATCH * SIDE * SIDE * 3];
        for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)(i * 2654435761u >> 11);
        r.images = ls_tensor_from_data(r.ctx, LS_U8, shape, pixels);
    }
    int32_t labels[BATCH];
    for (int i = 0; i < BATCH; i++) labels[i] = i * 3 % CLASSES;
    r.labels = ls_tensor_from_data(r.ctx, LS_I32, LS_SHAPE(BATCH), labels);
    r.batch = (ls_batch){ .images = r.images, .labels = r.labels, .n = BATCH };
    ck_assert_msg(ls_context_status(r.ctx) == LS_OK, "%s", ls_context_message(r.ctx));
    return r;
}

static double take_step(run *r)
{
    double loss = 0;
    const ls_status status = ls_net_step(r->net, r->opt, &r->batch, RATE);
    ck_assert_msg(status == LS_OK, "%s", ls_context_message(r->ctx));
    ck_assert_int_eq(ls_net_loss(r->net, &loss), LS_OK);
    r->batch.step++;
    return loss;
}

/* |a factor - b| over |b|, as vectors. */
static double distance(const ls_tensor *a, const ls_tensor *b, double factor)
{
    const float *x = ls_tensor_data_const(a), *y = ls_tensor_data_const(b);
    double error = 0, size = 0;
    for (int64_t i = 0; i < ls_tensor_element_count(b); i++) {
        const double d = (double)x[i] * factor - (double)y[i];
        error += d * d;
        size += (double)y[i] * (double)y[i];
    }
    return sqrt(error) / (size > 0 ? sqrt(size) : 1);
}

/* Nets of a dozen layers in three kinds of sums: what is found is half of these bounds. Large
 * beside the type's rounding because the first layers' gradients are differences of nearly equal
 * numbers, as they are with a small batch before a batch norm. */
static const double GRADIENTS = 80, WEIGHTS = 60, LOSS = 10; /* times epsilon */

START_TEST(steps_beside_f32)
{
    run half = open_run(types[_i].precision, LS_U8, 2), full = open_run(LS_PRECISION_F32, LS_U8, 2);
    for (int i = 0; i < STEPS; i++) {
        const double a = take_step(&half), b = take_step(&full);
        ck_assert_msg(fabs(a - b) <= LOSS * types[_i].epsilon * fabs(b),
                      "%s, step %d: loss %.9g, f32 %.9g", types[_i].name, i, a, b);
        ck_assert_msg(a != b, "%s, step %d: f32's loss", types[_i].name, i);
    }
    for (int64_t i = 0; i < ls_net_parameter_count(full.net); i++) {
        const ls_parameter_info parameter = ls_net_parameter_at(full.net, i);
        const double d = distance(ls_net_parameter_at(half.net, i).value, parameter.value, 1);
        ck_assert_msg(d <= WEIGHTS * types[_i].epsilon, "%s, %s: %.3g", types[_i].name,
                      parameter.name, d);
    }
    ck_assert_int_eq(ls_net_evaluate(half.net, &half.batch), LS_OK);
    ck_assert_int_eq(ls_net_evaluate(full.net, &full.batch), LS_OK);
    static const char *const outputs[] = { "output", "middle" };
    for (int i = 0; i < 2; i++) {
        const ls_tensor *output = ls_net_output(half.net, outputs[i]);
        ck_assert_int_eq(ls_tensor_dtype(output), LS_F32);
        const double d = distance(output, ls_net_output(full.net, outputs[i]), 1);
        ck_assert_msg(d <= WEIGHTS * types[_i].epsilon, "%s, %s: %.3g", types[_i].name, outputs[i],
                      d);
    }
    ls_context_close(&half.ctx);
    ls_context_close(&full.ctx);
}
END_TEST

START_TEST(gradients_beside_f32)
{
    run half = open_run(types[_i].precision, LS_F32, 2),
        full = open_run(LS_PRECISION_F32, LS_F32, 2);
    const double bound = GRADIENTS * types[_i].epsilon;
    double scale = 1;
    if (types[_i].precision == LS_PRECISION_F16) {
        ck_assert_int_eq(ls_net_loss_scale(half.net, &scale, NULL), LS_OK);
        ck_assert_double_eq(scale, 65536);
    }
    run *const runs[] = { &half, &full };
    for (int i = 0; i < 2; i++) {
        ls_net_require_input_gradient(runs[i]->net, "input");
        const ls_status status = ls_net_step(runs[i]->net, NULL, &runs[i]->batch, 0);
        ck_assert_msg(status == LS_OK, "%s", ls_context_message(runs[i]->ctx));
    }
    for (int64_t i = 0; i < ls_net_parameter_count(full.net); i++) {
        const ls_parameter_info parameter = ls_net_parameter_at(full.net, i);
        if (!parameter.gradient) continue;
        const double d =
            distance(ls_net_parameter_at(half.net, i).gradient, parameter.gradient, 1 / scale);
        ck_assert_msg(d <= bound, "%s, gradient of %s: %.3g", types[_i].name, parameter.name, d);
    }
    const double d = distance(ls_net_input_gradient(half.net, "input"),
                              ls_net_input_gradient(full.net, "input"), 1 / scale);
    ck_assert_msg(d <= bound, "%s, gradient of the input: %.3g", types[_i].name, d);
    ls_context_close(&half.ctx);
    ls_context_close(&full.ctx);
}
END_TEST

/* Each program casts the parameters anew: what a user writes into one counts at once, in training
 * as in evaluation. */
START_TEST(writes_to_parameters_are_seen)
{
    static const char *const names[] = { "conv1.weight", "conv4.bias", "fc.weight", "fc.bias" };
    for (int i = 0; i < 4; i++) {
        double losses[2][2];
        for (int w = 0; w < 2; w++) {
            run r = open_run(types[_i].precision, LS_U8, 1);
            take_step(&r);
            if (w) ls_tensor_random_normal(ls_net_parameter(r.net, names[i]), 1, 0, 0.5f);
            losses[w][0] = take_step(&r);
            if (w) ls_tensor_random_normal(ls_net_parameter(r.net, names[i]), 2, 0, 0.5f);
            ck_assert_int_eq(ls_net_evaluate(r.net, &r.batch), LS_OK);
            ls_net_loss(r.net, &losses[w][1]);
            ls_context_close(&r.ctx);
        }
        for (int e = 0; e < 2; e++)
            ck_assert_msg(losses[0][e] != losses[1][e], "%s of %s", e ? "evaluation" : "step",
                          names[i]);
    }
}
END_TEST

START_TEST(threads_change_no_bit)
{
    ls_step_digest first;
    for (int threads = 1; threads <= 3; threads++) {
        run r = open_run(types[_i].precision, LS_F32, threads);
        ls_step_digest digest;
        for (int i = 0; i < 3; i++) take_step(&r);
        ck_assert_int_eq(ls_net_digest(r.net, &r.batch, &digest), LS_OK);
        if (threads == 1) first = digest;
        ck_assert_double_eq(digest.loss, first.loss);
        ck_assert(ls_digest_equal(digest.gradients, first.gradients));
        ck_assert(ls_digest_equal(digest.weights, first.weights));
        ls_context_close(&r.ctx);
    }
}
END_TEST

/* Activations and compute weights have 16 bits, all other operands are f32. */
START_TEST(types_of_operands)
{
    static const char *const halves[] = { "x",  "y",   "w",   "b",    "a",      "add",    "dx",
                                          "dy", "dy1", "dy2", "dadd", "logits", "dlogits" };
    const ls_dtype half = types[_i].precision == LS_PRECISION_BF16 ? LS_BF16 : LS_F16;
    run r = open_run(types[_i].precision, LS_F32, 1);
    ls_net_require_input_gradient(r.net, "input");
    ls__trace_op op;
    ck_assert_int_eq(ls__net_step_begin(r.net, &r.opt->update, &r.batch, RATE), LS_OK);
    int n_casts = 0, n_halves = 0;
    while (ls__net_step_op(r.net, &op)) {
        const bool exempt = strcmp(op.kind, "cast") == 0 || strcmp(op.kind, "copy") == 0 ||
                            strcmp(op.name, "optimizer") == 0;
        n_casts += strcmp(op.kind, "cast") == 0;
        for (int i = 0; i < op.n_values; i++) {
            ls__trace_value value;
            bool wanted = false;
            ls__net_step_value(r.net, &op, i, &value);
            for (size_t j = 0; j < sizeof halves / sizeof halves[0]; j++)
                wanted |= strcmp(value.role, halves[j]) == 0;
            n_halves += value.dtype == half;
            if (exempt || value.dtype == LS_U8 || value.dtype == LS_I32) continue;
            ck_assert_msg(value.dtype == (wanted ? half : LS_F32), "%s '%s': %s is %s", op.kind,
                          op.name, value.role, ls_dtype_name(value.dtype));
        }
        ck_assert_int_eq(ls__net_step_next(r.net), LS_OK);
    }
    ck_assert_int_gt(n_halves, 80);
    /* parameters; input and its gradient; the op of one's own: to and from it, forward and
     * backward; two outputs */
    ck_assert_int_eq(n_casts, 9);
    ls_context_close(&r.ctx);
}
END_TEST

/* ---- Where types meet: inputs and parameters that layers and users' ops share, a loss that is a
 * layer's output, one that is a user's op's ---- */

static ls_status sum_forward(const ls_custom_op_call *call)
{
    const float *a = call->inputs[0], *b = call->inputs[1];
    float sum = 0;
    for (int64_t i = 0; i < ls_shape_element_count(&call->input_specs[0].shape); i++)
        sum += a[i] * b[i];
    *(float *)call->output = sum;
    return LS_OK;
}

static ls_status sum_backward(const ls_custom_op_call *call)
{
    for (int which = 0; which < 2; which++)
        for (int64_t i = 0; call->input_gradients[which] &&
                            i < ls_shape_element_count(&call->input_specs[0].shape);
             i++)
            call->input_gradients[which][i] =
                call->output_gradient[0] * ((const float *)call->inputs[1 - which])[i];
    return LS_OK;
}

static ls_node *meeting(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    const ls_shape shape = ls_node_shape(x);
    ls_node *p = ls_parameter(g, "p", shape, LS_PARAMETER_WEIGHT, LS_INIT_XAVIER);
    ls_node *pair[] = { x, p };
    ls_node *sum = ls_custom_op(g, "sum", 2, pair,
                                &(ls_custom_op_config){ .kind = "sum",
                                                        .output = { LS_F32, LS_SHAPE(1) },
                                                        .forward = sum_forward,
                                                        .backward = sum_backward });
    ls_loss(g, "op", sum, 0.25f);
    ls_node *both = ls_add(g, ls_add(g, x, p), ls_dropout(g, x, 0.0f));
    ls_node *y = ls_linear(g, "a", ls_relu(g, ls_add(g, both, x)), 3, NULL);
    ls_loss(g, "layer", ls_linear(g, "b", y, 1, NULL), 0.5f);
    return ls_output(g, "p as it is", p) ? y : NULL;
}

START_TEST(types_meet)
{
    double losses[2], outputs[2];
    ls_context *contexts[2];
    ls_net *nets[2];
    double scale = 1;
    for (int half = 0; half < 2; half++) {
        contexts[half] = ls_context_open(&(ls_context_config){ .seed = 1, .threads = 1 });
        nets[half] = ls_net_build(
            contexts[half], meeting, NULL,
            &(ls_net_config){ .input = { .image = { LS_F32, LS_SHAPE(1, 20) } },
                              .precision = half ? types[_i].precision : LS_PRECISION_F32 });
        ls_tensor *x = ls_tensor_open(contexts[half], LS_F32, LS_SHAPE(1, 20));
        ls_tensor_random_normal(x, 1, 0, 1);
        ls_net_require_input_gradient(nets[half], "input");
        ls_net_step(nets[half], NULL, &(ls_batch){ .images = x, .n = 1 }, 0);
        ls_net_loss(nets[half], &losses[half]);
        ls_net_metric(nets[half], "op", &outputs[half]);
        ck_assert_msg(ls_context_status(contexts[half]) == LS_OK, "%s",
                      ls_context_message(contexts[half]));
    }
    const double epsilon = types[_i].epsilon;
    ck_assert_double_eq(outputs[0], outputs[1]); /* rounded nowhere */
    ck_assert_double_eq(
        distance(ls_net_output(nets[1], "p as it is"), ls_net_output(nets[0], "p as it is"), 1), 0);
    ck_assert_msg(fabs(losses[0] - losses[1]) <= 8 * epsilon * fabs(losses[0]), "loss %g, f32 %g",
                  losses[1], losses[0]);
    if (types[_i].precision == LS_PRECISION_F16) ls_net_loss_scale(nets[1], &scale, NULL);
    for (int64_t i = 0; i < ls_net_parameter_count(nets[0]); i++) {
        const ls_parameter_info full = ls_net_parameter_at(nets[0], i),
                                half = ls_net_parameter_at(nets[1], i);
        const double d = distance(half.gradient, full.gradient, 1 / scale);
        ck_assert_msg(d <= 4 * epsilon, "gradient of %s: %g", full.name, d);
    }
    const double d = distance(ls_net_input_gradient(nets[1], "input"),
                              ls_net_input_gradient(nets[0], "input"), 1 / scale);
    ck_assert_msg(d <= 4 * epsilon, "gradient of the input: %g", d);
    for (int half = 0; half < 2; half++) ls_context_close(&contexts[half]);
}
END_TEST

START_TEST(described_with_its_products)
{
    enum { SIZE = 1 << 15 };
    static char text[SIZE];
    run r = open_run(types[_i].precision, LS_U8, 1);
    ck_assert_int_lt(ls_net_describe(r.net, text, SIZE), SIZE);
    const ls__device *device = r.ctx->device;
    const bool emulated = device->backend->emulates(device, types[_i].dtype);
    char line[64];
    snprintf(line, sizeof line, "precision: %s, products made in f32", types[_i].name);
    ck_assert_int_eq(strstr(text, line) != NULL, emulated);
    ck_assert(!emulated || strstr(text, "emulated ") || types[_i].dtype == LS_BF16);
    ls_context_close(&r.ctx);
}
END_TEST

TEST_PROGRAM(precision)
{
    static const TTest *const *const tests[] = {
        &steps_beside_f32,           &gradients_beside_f32, &writes_to_parameters_are_seen,
        &threads_change_no_bit,      &types_of_operands,    &types_meet,
        &described_with_its_products
    };
    int status = SKIPPED;
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
        status = both(status, run_loop("precision", *tests[i], N_TYPES));
    return status;
}
