/* test_gradients.c: gradients of whole small nets against finite differences: every layer, in fused
 * and unfused forms, shared parameters, several inputs and losses. */
#include "../suite.h"
#include <lockstep/lockstep.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 4, SIZE = 6, CHANNELS = 3, CLASSES = 4 };

static ls_node *plain(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    x = ls_conv2d(g, "conv1", x, 8, &(ls_conv2d_config){ .kernel = 3, .padding = 1, .bias = true });
    x = ls_relu(g, ls_batch_norm(g, "bn1", x, NULL));
    x = ls_conv2d(g, "conv2", x, 8,
                  &(ls_conv2d_config){ .kernel = 3, .stride = 2, .padding = 1, .groups = 2 });
    x = ls_relu(g, x);
    x = ls_avg_pool(g, x, &(ls_pool_config){ .kernel = 2, .stride = 1 });
    return ls_linear(g, "fc", ls_flatten(g, x), CLASSES, NULL);
}

static ls_node *perceptron(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    x = ls_relu(g, ls_linear(g, "fc1", ls_flatten(g, x), 12, NULL));
    x = ls_relu(g, ls_linear(g, "fc2", x, 9, &(ls_linear_config){ .no_bias = true }));
    return ls_linear(g, "fc3", x, CLASSES, NULL);
}

static ls_node *residual(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    x = ls_relu(g, ls_batch_norm(g, "bn0",
                                 ls_conv2d(g, "conv0", x, 8,
                                           &(ls_conv2d_config){ .kernel = 3, .padding = 1 }),
                                 NULL));
    ls_node *shortcut = x;
    ls_scope_begin(g, "block%d", 1);
    ls_node *y = ls_relu(
        g, ls_batch_norm(g, "bn1", ls_conv2d(g, "conv1", x, 8, &(ls_conv2d_config){ .kernel = 1 }),
                         NULL));
    y = ls_batch_norm(g, "bn2",
                      ls_conv2d(g, "conv2", y, 8, &(ls_conv2d_config){ .kernel = 3, .padding = 1 }),
                      NULL);
    x = ls_relu(g, ls_add(g, y, shortcut));
    ls_scope_end(g);
    ls_scope_begin(g, "block%d", 2);
    y = ls_batch_norm(
        g, "bn1",
        ls_conv2d(g, "conv1", x, 16, &(ls_conv2d_config){ .kernel = 3, .stride = 2, .padding = 1 }),
        NULL);
    shortcut = ls_batch_norm(
        g, "bn2", ls_conv2d(g, "conv2", x, 16, &(ls_conv2d_config){ .kernel = 1, .stride = 2 }),
        NULL);
    x = ls_relu(g, ls_add(g, y, shortcut));
    ls_scope_end(g);
    x = ls_max_pool(g, x, &(ls_pool_config){ .kernel = 3, .stride = 2, .padding = 1 });
    return ls_linear(g, "fc", ls_global_avg_pool(g, x), CLASSES, NULL);
}

static ls_node *odd(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    ls_node *a =
        ls_conv2d(g, "a", x, 5,
                  &(ls_conv2d_config){ .kernel = 3, .kernel_w = 1, .padding = 1, .dilation = 1 });
    a = ls_pad_channels(g, ls_dropout(g, a, 0.25f), 8);
    ls_node *b =
        ls_conv2d(g, "b", x, 8, &(ls_conv2d_config){ .kernel = 2, .dilation = 2, .padding = 1 });
    ls_node *c = ls_conv2d(g, "c", x, 8, &(ls_conv2d_config){ .kernel = 1 });
    (void)a;
    ls_node *sum = ls_add(g, c, c); /* one node twice */
    sum = ls_relu(g, ls_add(g, sum, ls_batch_norm(g, "bnc", c, NULL)));
    (void)b;
    x = ls_linear(g, "fc1", ls_flatten(g, sum), 6, &(ls_linear_config){ .no_bias = true });
    x = ls_batch_norm(g, "bn", x, NULL);
    x = ls_dropout(g, ls_relu(g, x), 0.3f);
    return ls_linear(g, "fc2", x, CLASSES, NULL);
}

static ls_node *padded(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    x = ls_conv2d(g, "a", x, 5, &(ls_conv2d_config){ .kernel = 3, .padding = 1 });
    x = ls_add(
        g, ls_pad_channels(g, x, 8),
        ls_conv2d(g, "b", x, 8, &(ls_conv2d_config){ .kernel = 2, .dilation = 2, .padding = 1 }));
    return ls_linear(g, "fc", ls_global_avg_pool(g, x), CLASSES, NULL);
}

/* Gates, and concatenations of nodes that stand in them twice, of one channel, and of matrices. */
static ls_node *gated(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    ls_node *a = ls_conv2d(g, "a", x, 5, &(ls_conv2d_config){ .kernel = 3, .padding = 1 });
    ls_node *gate = ls_sigmoid(g, ls_conv2d(g, "gate", x, 5, NULL));
    ls_node *one = ls_conv2d(g, "one", x, 1, NULL);
    ls_node *y = ls_mul(g, a, gate);
    ls_node *const parts[] = { y, one, x, ls_mul(g, y, y), y, one };
    y = ls_global_avg_pool(g, ls_concat(g, 6, parts));
    y = ls_linear(g, "fc1", y, 6, NULL);
    ls_node *const rows[] = { ls_sigmoid(g, y), y };
    return ls_linear(g, "fc2", ls_concat(g, 2, rows), CLASSES, NULL);
}

/* Activation functions that read their input again, and of a node that others read. */
static ls_node *activated(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    x = ls_conv2d(g, "a", x, 6, &(ls_conv2d_config){ .kernel = 3, .padding = 1 });
    x = ls_add(g, ls_silu(g, x), ls_gelu(g, ls_batch_norm(g, "bn", x, NULL)));
    x = ls_tanh(g, ls_conv2d(g, "b", x, 6, NULL));
    x = ls_relu6(g, ls_batch_norm(g, "bn2", ls_conv2d(g, "c", x, 8, NULL), NULL));
    return ls_linear(g, "fc", ls_global_avg_pool(g, x), CLASSES, NULL);
}

static ls_node *normalised(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    x = ls_conv2d(g, "a", x, 8, &(ls_conv2d_config){ .kernel = 3, .padding = 1 });
    x = ls_relu(g, ls_group_norm(g, "gn", x, 2, NULL));
    x = ls_layer_norm(g, "ln", ls_conv2d(g, "b", x, 8, NULL), NULL);
    x = ls_add(g, x, ls_stochastic_depth(g, ls_softmax(g, x), 0.5f, LS_STOCHASTIC_DEPTH_ROW));
    x = ls_global_avg_pool(g, ls_mul(g, x, ls_softmax(g, x)));
    return ls_linear(g, "fc", ls_layer_norm(g, "ln2", x, NULL), CLASSES, NULL);
}

typedef struct fixture {
    ls_context *ctx;
    ls_net *net;
    ls_tensor *images, *labels;
} fixture;

static fixture open_net(ls_model_fn model, int threads, float smoothing)
{
    fixture f = { 0 };
    f.ctx = ls_context_open(&(ls_context_config){ .seed = 5, .threads = threads });
    const ls_shape shape = LS_SHAPE(BATCH, SIZE, SIZE, CHANNELS);
    f.images = ls_tensor_open(f.ctx, LS_F32, shape);
    ls_tensor_random_normal(f.images, 1, 0, 1);
    const int32_t labels[BATCH] = { 0, 3, 1, 2 };
    f.labels = ls_tensor_from_data(f.ctx, LS_I32, LS_SHAPE(BATCH), labels);
    f.net = ls_net_build(
        f.ctx, model, NULL,
        &(ls_net_config){ .input = { .image = { LS_F32, shape }, .n_classes = CLASSES },
                          .loss = { LS_LOSS_CROSS_ENTROPY, .label_smoothing = smoothing } });
    ck_assert_msg(ls_context_status(f.ctx) == LS_OK, "%s", ls_context_message(f.ctx));
    return f;
}

static double loss_of(fixture *f)
{
    double loss;
    ck_assert_int_eq(ls_net_feed(f->net, "input", f->images), LS_OK);
    ck_assert_int_eq(ls_net_feed(f->net, "label", f->labels), LS_OK);
    ck_assert_int_eq(ls_net_forward(f->net, LS_MODE_TRAIN), LS_OK);
    ck_assert_int_eq(ls_net_loss(f->net, &loss), LS_OK);
    return loss;
}

/* Directional derivative along a random direction d over all of one tensor: (L(w + e d) - L(w - e
 * d)) / 2e = g . d. One direction an entry keeps rounding of the f32 loss small against the change.
 */
static void check_direction(fixture *f, ls_tensor *value, const float *gradient, const char *name)
{
    const int64_t n = ls_tensor_element_count(value);
    float *w = ls_tensor_data(value), *saved = malloc((size_t)n * sizeof *saved);
    memcpy(saved, w, (size_t)n * sizeof *saved);
    double norm = 0;
    for (int64_t i = 0; i < n; i++) norm += (double)gradient[i] * (double)gradient[i];
    norm = sqrt(norm);
    /* Along the gradient itself, with a random part. */
    const double e = 4e-3;
    double expected = 0, change[2];
    uint32_t state = 12345;
    float *d = malloc((size_t)n * sizeof *d);
    double length = 0;
    for (int64_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        d[i] = (float)(gradient[i] / (norm + 1e-30) +
                       0.5 * ((state >> 8) / 16777216.0 - 0.5) / sqrt((double)n));
        length += (double)d[i] * d[i];
    }
    for (int64_t i = 0; i < n; i++) {
        d[i] = (float)(d[i] / sqrt(length));
        expected += (double)gradient[i] * d[i];
    }
    for (int side = 0; side < 2; side++) {
        for (int64_t i = 0; i < n; i++) w[i] = saved[i] + (float)((side ? -e : e) * d[i]);
        change[side] = loss_of(f);
    }
    memcpy(w, saved, (size_t)n * sizeof *w);
    const double got = (change[0] - change[1]) / (2 * e);
    ck_assert_msg(fabs(got - expected) <= 2e-2 * fabs(expected) + 1e-4,
                  "%s: finite difference %g, gradient %g", name, got, expected);
    free(saved);
    free(d);
}

/* Batch norms that are frozen have arbitrary statistics. */
static void freeze_norms(fixture *f)
{
    float numbers[16];
    ls_net_freeze(f->net, "*bn*");
    for (int64_t i = 0; i < ls_net_parameter_count(f->net); i++) {
        const ls_parameter_info p = ls_net_parameter_at(f->net, i);
        const int64_t n = ls_tensor_element_count(p.value);
        const bool mean = strstr(p.name, "running_mean") || strstr(p.name, ".bias");
        if (!strstr(p.name, "bn")) continue;
        for (int64_t k = 0; k < n; k++) numbers[k] = (mean ? 0.1f : 0.7f) + (float)k / 16;
        ck_assert_int_eq(ls_tensor_write(p.value, numbers, ls_tensor_bytes(p.value)), LS_OK);
    }
}

static void check_net(ls_model_fn model, float smoothing, bool frozen_norms)
{
    fixture f = open_net(model, 2, smoothing);
    if (frozen_norms) freeze_norms(&f);
    ck_assert_int_eq(ls_net_require_input_gradient(f.net, "input"), LS_OK);
    loss_of(&f);
    ck_assert_int_eq(ls_net_backward(f.net), LS_OK);
    const int64_t n = ls_net_parameter_count(f.net);
    float **gradients = calloc((size_t)n + 1, sizeof *gradients);
    for (int64_t i = 0; i <= n; i++) {
        const ls_tensor *gradient =
            i < n ? ls_net_parameter_at(f.net, i).gradient : ls_net_input_gradient(f.net, "input");
        if (!gradient || (i < n && ls_net_parameter_at(f.net, i).frozen)) continue;
        gradients[i] = malloc(ls_tensor_bytes(gradient));
        ck_assert_int_eq(ls_tensor_read(gradient, gradients[i], ls_tensor_bytes(gradient)), LS_OK);
    }
    for (int64_t i = 0; i <= n; i++) {
        if (gradients[i]) {
            const ls_parameter_info parameter =
                i < n ? ls_net_parameter_at(f.net, i)
                      : (ls_parameter_info){ .name = "input", .value = f.images };
            check_direction(&f, parameter.value, gradients[i], parameter.name);
        }
        free(gradients[i]);
    }
    free(gradients);
    ls_context_close(&f.ctx);
}

START_TEST(plain_net)
{
    check_net(plain, 0, false);
}
END_TEST
START_TEST(perceptron_net)
{
    check_net(perceptron, 0, false);
}
END_TEST
START_TEST(residual_net)
{
    check_net(residual, 0.1f, false);
}
END_TEST
START_TEST(odd_net)
{
    check_net(odd, 0, false);
}
END_TEST
START_TEST(padded_net)
{
    check_net(padded, 0, false);
}
END_TEST
START_TEST(gated_net)
{
    check_net(gated, 0, false);
}
END_TEST

/* A frozen batch norm uses its running statistics, in training as in evaluation, and does not
 * update them. */
START_TEST(frozen_norms)
{
    check_net(plain, 0, true);
    check_net(residual, 0, true);
    fixture f = open_net(residual, 2, 0);
    freeze_norms(&f);
    ls_tensor *mean = ls_net_parameter(f.net, "block1.bn2.running_mean");
    ls_digest before, after;
    ck_assert_int_eq(ls_tensor_digest(mean, &before), LS_OK);
    const double loss = loss_of(&f);
    double evaluated;
    ck_assert_int_eq(ls_tensor_digest(mean, &after), LS_OK);
    ck_assert(ls_digest_equal(before, after));
    ls_net_feed(f.net, "input", f.images);
    ls_net_feed(f.net, "label", f.labels);
    ls_net_forward(f.net, LS_MODE_EVAL);
    ck_assert_int_eq(ls_net_loss(f.net, &evaluated), LS_OK);
    ck_assert(loss == evaluated);
    ls_net_unfreeze(f.net, "block1.bn2.weight"); /* half frozen: statistics of the batch */
    ck_assert(loss_of(&f) != evaluated);
    ck_assert_int_eq(ls_tensor_digest(mean, &after), LS_OK);
    ck_assert(!ls_digest_equal(before, after));
    ls_context_close(&f.ctx);
}
END_TEST
START_TEST(activated_net)
{
    check_net(activated, 0, false);
}
END_TEST
START_TEST(normalised_net)
{
    check_net(normalised, 0, false);
}
END_TEST

TEST_PROGRAM(gradients)
{
    Suite *suite = suite_create("gradients");
    TCase *c = tcase_create("finite differences");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, plain_net);
    tcase_add_test(c, perceptron_net);
    tcase_add_test(c, residual_net);
    tcase_add_test(c, odd_net);
    tcase_add_test(c, padded_net);
    tcase_add_test(c, gated_net);
    tcase_add_test(c, activated_net);
    tcase_add_test(c, frozen_norms);
    tcase_add_test(c, normalised_net);
    suite_add_tcase(suite, c);
    return run_and_free(suite);
}
