/* test_parity_resnet18.c: the whole resnet18 for 32x32 images against PyTorch
 * (tests/reference/resnet18.py): all gradients of one step in float64, and the losses of ten SGD
 * steps. */
#include "../sanitizers.h"
#include "../suite.h"
#include "parity.h"
#include <lockstep/models.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_CLASSES = 10 };

static bool is_norm(const char *name)
{
    return strstr(name, "bn") != NULL || strstr(name, "downsample.1") != NULL;
}

/* Weights as model() of resnet18.py makes them. */
static void set_weights(ls_net *net)
{
    for (int64_t i = 0; i < ls_net_parameter_count(net); i++) {
        const ls_parameter_info e = ls_net_parameter_at(net, i);
        const ls_shape *shape = ls_tensor_shape(e.value);
        if (e.kind == LS_PARAMETER_BUFFER) continue;
        if (shape->n_dims == 4) {
            const double fan_in = (double)(ls_tensor_element_count(e.value) / shape->dims[0]);
            parity_fill(e.value, e.name, (float)sqrt(6.0 / fan_in), 0);
        } else if (shape->n_dims == 2) {
            parity_fill(e.value, e.name, (float)(1 / sqrt((double)shape->dims[1])), 0);
        } else if (is_norm(e.name) && strstr(e.name, "weight")) {
            parity_fill(e.value, e.name, 0.1f, 1);
        } else {
            parity_fill(e.value, e.name, 0.1f, 0);
        }
    }
}

static void set_norm_biases(ls_net *net, ls_tensor_file *file)
{
    for (int64_t i = 0; i < ls_net_parameter_count(net); i++) {
        const ls_parameter_info e = ls_net_parameter_at(net, i);
        if (is_norm(e.name) && e.kind != LS_PARAMETER_BUFFER && strstr(e.name, "bias"))
            ck_assert_int_eq(ls_tensor_file_read(file, e.name, e.value), LS_OK);
    }
}

/* An integer in [0, n) from the hash; n at most 256. */
static int below(float hashed, int n)
{
    return (int)((hashed + 1) * ((float)n / 2));
}

static ls_tensor *labels(ls_context *ctx, const char *name, int64_t n)
{
    ls_tensor *tensor = ls_tensor_open(ctx, LS_I32, LS_SHAPE(n));
    float *drawn = calloc((size_t)n, sizeof(float));
    ck_assert(tensor && drawn);
    parity_hashed(name, n, 1, 0, drawn);
    int32_t *to = ls_tensor_data(tensor);
    for (int64_t i = 0; i < n; i++) to[i] = below(drawn[i], N_CLASSES);
    free(drawn);
    return tensor;
}

static ls_tensor *pixels(ls_context *ctx, const char *name, int64_t n)
{
    ls_tensor *tensor = ls_tensor_open(ctx, LS_U8, LS_SHAPE(n, 32, 32, 3));
    ck_assert(tensor != NULL);
    const int64_t count = ls_tensor_element_count(tensor);
    float *drawn = calloc((size_t)count, sizeof(float));
    ck_assert(drawn != NULL);
    parity_hashed(name, count, 1, 0, drawn);
    uint8_t *to = ls_tensor_data(tensor);
    for (int64_t i = 0; i < count; i++) to[i] = (uint8_t)below(drawn[i], 256);
    free(drawn);
    return tensor;
}

static ls_net *build(ls_context *ctx, ls_input_spec input)
{
    input.n_classes = N_CLASSES;
    ls_net *net =
        ls_net_build(ctx, ls_resnet18, &(ls_model_options){ .n_classes = N_CLASSES },
                     &(ls_net_config){ .input = input, .loss = { .kind = LS_LOSS_CROSS_ENTROPY } });
    ck_assert_msg(net != NULL, "%s", ls_context_message(ctx));
    set_weights(net);
    return net;
}

static ls_tensor_file *fixture(ls_context *ctx, const char *name)
{
    ls_tensor_file *file = ls_tensor_file_open(ctx, parity_path(name));
    ck_assert_msg(file != NULL, "%s", ls_context_message(ctx));
    return file;
}

START_TEST(gradients_match_pytorch)
{
    /* PyTorch's own f32 is 8e-6 from its float64 here. */
    const double tolerance = 1e-4;
    const int64_t batch = 16;
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 2 });
    ls_tensor_file *file = fixture(ctx, "resnet18_gradients.safetensors");
    ls_net *net = build(ctx, (ls_input_spec){ .image = { LS_F32, LS_SHAPE(batch, 32, 32, 3) } });
    set_norm_biases(net, file);
    ls_tensor *images = ls_tensor_open(ctx, LS_F32, LS_SHAPE(batch, 32, 32, 3));
    parity_fill(images, "images", 2, 0);
    ls_net_require_input_gradient(net, "input");
    ls_net_feed(net, "input", images);
    ls_net_feed(net, "label", labels(ctx, "labels", batch));
    ls_net_forward(net, LS_MODE_TRAIN);
    ls_net_backward(net);
    double loss = NAN;
    ck_assert_msg(ls_net_loss(net, &loss) == LS_OK, "%s", ls_context_message(ctx));

    const float ours = (float)loss;
    ls_tensor *theirs = parity_load(ctx, file, "loss");
    parity_compare("loss", 1, &ours, ls_tensor_data(theirs), 1e-5);
    double worst = parity_check_projected(file, "gradient.input", "input",
                                          ls_net_input_gradient(net, "input"), tolerance);
    int n_gradients = 0;
    for (int64_t i = 0; i < ls_net_parameter_count(net); i++) {
        const ls_parameter_info e = ls_net_parameter_at(net, i);
        if (!e.gradient) continue;
        char name[256];
        snprintf(name, sizeof(name), "gradient.%s", e.name);
        const double apart = parity_check_projected(file, name, e.name, e.gradient, tolerance);
        worst = fmax(worst, apart);
        n_gradients++;
    }
    ck_assert_int_eq(n_gradients, 62);
    printf("gradients: the furthest is %.1e from PyTorch\n", worst);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(losses_of_ten_steps_match_pytorch)
{
    /* Later steps run the same code, and sanitizers make each ten times as slow. */
    enum { N_STEPS = ADDRESS_SANITIZER || THREAD_SANITIZER ? 3 : 10 };
    const int64_t batch = 64;
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 2 });
    ls_tensor_file *file = fixture(ctx, "resnet18_steps.safetensors");
    ls_net *net = build(ctx, (ls_input_spec){ .image = { LS_U8, LS_SHAPE(batch, 32, 32, 3) },
                                              .mean = { 0.485f, 0.456f, 0.406f },
                                              .std = { 0.229f, 0.224f, 0.225f } });
    ls_optimizer *opt = ls_sgd(net, &(ls_sgd_config){ .momentum = 0.9f });
    const float *theirs = ls_tensor_data(parity_load(ctx, file, "losses"));
    double worst = 0;
    for (int64_t step = 0; step < N_STEPS; step++) {
        char name[32];
        snprintf(name, sizeof(name), "pixels %d", (int)step);
        ls_tensor *images = pixels(ctx, name, batch);
        snprintf(name, sizeof(name), "labels %d", (int)step);
        ls_tensor *classes = labels(ctx, name, batch);
        const ls_batch b = { .images = images, .labels = classes, .n = batch, .step = step };
        double loss = NAN;
        ls_net_step(net, opt, &b, 1e-3);
        ck_assert_msg(ls_net_loss(net, &loss) == LS_OK, "%s", ls_context_message(ctx));
        const float ours = (float)loss;
        snprintf(name, sizeof(name), "loss of step %d", (int)step);
        worst = fmax(worst, parity_compare(name, 1, &ours, &theirs[step], 1e-4));
        ls_tensor_close(&images);
        ls_tensor_close(&classes);
    }
    printf("%d steps: the furthest loss is %.1e from PyTorch\n", N_STEPS, worst);
    ls_context_close(&ctx);
}
END_TEST

TEST_PROGRAM(parity_resnet18)
{
    return RUN_SUITE("resnet18 against PyTorch", gradients_match_pytorch,
                     losses_of_ten_steps_match_pytorch);
}
