/* A net on the emulated CUDA device beside the same net on the CPU: losses and weights of ten
 * steps, the same bits when run again, an op of the user's own, checkpoints from one device to the
 * other. */
#include "../suite.h"
#include "has_cudnn.h"
#include <lockstep/lockstep.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 6, SIDE = 13, CLASSES = 7, STEPS = 10 };
static const double RATE = 1e-3;

/* x [N,13,13,3] -> [N,7]: every op that the backend has. */
static ls_node *model(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    x = ls_conv2d(g, "conv1", x, 8, &(ls_conv2d_config){ .kernel = 3, .padding = 1 });
    x = ls_relu(g, ls_batch_norm(g, "bn1", x, NULL));
    x = ls_max_pool(g, x, &(ls_pool_config){ .kernel = 3, .stride = 2, .padding = 1 });
    ls_node *y =
        ls_conv2d(g, "conv2", x, 8, &(ls_conv2d_config){ .kernel = 3, .padding = 1, .groups = 2 });
    y = ls_batch_norm(g, "bn2", y, NULL);
    x = ls_relu(g, ls_add(g, y, x));
    y = ls_conv2d(g, "conv3", x, 12, &(ls_conv2d_config){ .kernel = 3, .stride = 2, .padding = 1 });
    y = ls_batch_norm(g, "bn3", y, NULL);
    x = ls_avg_pool(g, ls_pad_channels(g, x, 12), &(ls_pool_config){ .kernel = 2, .padding = 1 });
    x = ls_relu(g, ls_add(g, y, x));
    x = ls_relu(g, ls_conv2d(g, "conv4", x, 9, &(ls_conv2d_config){ .bias = true }));
    x = ls_dropout(g, ls_global_avg_pool(g, x), 0.3f);
    x = ls_relu(g, ls_linear(g, "fc1", x, 10, NULL));
    return ls_linear(g, "fc2", x, CLASSES, NULL);
}

typedef struct run {
    ls_context *ctx;
    ls_net *net;
    ls_optimizer *opt;
    ls_batch batch;
} run;

static int shards;
static bool synced;

static run open_run_in(ls_precision precision, const char *device, bool adam)
{
    run r = { .ctx = ls_context_open(&(ls_context_config){
                  .device = device, .seed = 5, .shards = shards, .sync_batch_norm = synced }) };
    r.net = ls_net_build(
        r.ctx, model, NULL,
        &(ls_net_config){ .input = { .image = { LS_U8, LS_SHAPE(BATCH, SIDE, SIDE, 3) },
                                     .mean = { 0.5f, 0.4f, 0.3f },
                                     .std = { 0.2f, 0.3f, 0.25f },
                                     .n_classes = CLASSES },
                          .loss = { LS_LOSS_CROSS_ENTROPY, .label_smoothing = 0.1f },
                          .precision = precision });
    if (adam)
        r.opt = ls_adamw(r.net, &(ls_adam_config){ .weight_decay = 0.01f, .clip_norm = 1 });
    else
        r.opt = ls_sgd(
            r.net, &(ls_sgd_config){ .momentum = 0.9f, .weight_decay = 5e-4f, .clip_norm = 0.5f });
    static uint8_t pixels[BATCH * SIDE * SIDE * 3];
    int32_t labels[BATCH];
    for (size_t i = 0; i < sizeof(pixels); i++) pixels[i] = (uint8_t)(i * 2654435761u >> 11);
    for (int i = 0; i < BATCH; i++) labels[i] = i * 3 % CLASSES;
    r.batch = (ls_batch){ .images = ls_tensor_from_data(r.ctx, LS_U8,
                                                        LS_SHAPE(BATCH, SIDE, SIDE, 3), pixels),
                          .labels = ls_tensor_from_data(r.ctx, LS_I32, LS_SHAPE(BATCH), labels),
                          .n = BATCH };
    ck_assert_msg(ls_context_status(r.ctx) == LS_OK, "%s", ls_context_message(r.ctx));
    return r;
}

static run open_run(const char *device, bool adam)
{
    return open_run_in(LS_PRECISION_F32, device, adam);
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

/* Largest |a - b| over largest |b|, of an entry of two nets. */
static double entry_distance(run *a, run *b, int64_t i)
{
    enum { MAX_ELEMENTS = 4096 };
    static float x[MAX_ELEMENTS], y[MAX_ELEMENTS];
    const ls_tensor *of_a = ls_net_parameter_at(a->net, i).value,
                    *of_b = ls_net_parameter_at(b->net, i).value;
    const size_t bytes = ls_tensor_bytes(of_a);
    ck_assert_uint_le(bytes, sizeof(x));
    ck_assert_int_eq(ls_tensor_read(of_a, x, bytes), LS_OK);
    ck_assert_int_eq(ls_tensor_read(of_b, y, bytes), LS_OK);
    double error = 0, largest = 0;
    for (size_t j = 0; j < bytes / sizeof(float); j++) {
        error = fmax(error, fabs((double)x[j] - (double)y[j]));
        largest = fmax(largest, fabs((double)y[j]));
    }
    return largest > 0 ? error / largest : error;
}

static void close_run(run *r)
{
    ls_context_close(&r->ctx);
}

/* How far ten steps may lead from the CPU's: our own kernels sum in double, libraries in f32. */
typedef struct limits {
    double loss, weights;
} limits;

static limits limits_of(const run *r)
{
    return has_cudnn(r->ctx) ? (limits){ 1e-5, 1e-4 } : (limits){ 2e-6, 1e-5 };
}

/* frozen: a pattern, or NULL */
static void check_parity(bool adam, const char *frozen)
{
    run cuda = open_run("cuda", adam), cpu = open_run("cpu", adam);
    if (frozen) ck_assert_int_eq(ls_net_freeze(cuda.net, frozen), LS_OK);
    if (frozen) ck_assert_int_eq(ls_net_freeze(cpu.net, frozen), LS_OK);
    const limits limit = limits_of(&cuda);
    for (int i = 0; i < STEPS; i++) {
        const double a = take_step(&cuda), b = take_step(&cpu);
        ck_assert_msg(fabs(a - b) <= limit.loss * fabs(b), "step %d: loss %.9g, cpu %.9g", i, a, b);
    }
    for (int64_t i = 0; i < ls_net_parameter_count(cpu.net); i++) {
        const double distance = entry_distance(&cuda, &cpu, i);
        /* Adam's first steps divide gradients by themselves: near 0 their rounding shows. */
        ck_assert_msg(distance <= (adam ? 1e-3 : limit.weights), "%s: %.3g of the largest",
                      ls_net_parameter_at(cpu.net, i).name, distance);
    }
    ck_assert_int_eq(ls_net_evaluate(cuda.net, &cuda.batch), LS_OK);
    ck_assert_int_eq(ls_net_evaluate(cpu.net, &cpu.batch), LS_OK);
    double a, b;
    ck_assert_int_eq(ls_net_metric(cuda.net, "top1", &a), LS_OK);
    ck_assert_int_eq(ls_net_metric(cpu.net, "top1", &b), LS_OK);
    ck_assert_double_eq(a, b);
    close_run(&cuda);
    close_run(&cpu);
}

START_TEST(sgd_as_on_the_cpu)
{
    check_parity(false, NULL);
}
END_TEST

START_TEST(frozen_norms_as_on_the_cpu)
{
    check_parity(false, "bn*");
}
END_TEST

START_TEST(shards_as_on_the_cpu)
{
    shards = BATCH / 2;
    check_parity(false, NULL);
    shards = 0;
}
END_TEST

START_TEST(synchronised_shards_as_on_the_cpu)
{
    shards = BATCH / 2;
    synced = true;
    check_parity(false, NULL);
    shards = 0;
    synced = false;
}
END_TEST

START_TEST(adamw_as_on_the_cpu)
{
    check_parity(true, NULL);
}
END_TEST

/* The CPU rounds where the GPU does, of sums in another order: some values fall on the other side
 * of a tie, and their last place is what steps then differ by. */
static void check_half_parity(ls_precision precision, double last_place)
{
    run cuda = open_run_in(precision, "cuda", false), cpu = open_run_in(precision, "cpu", false);
    for (int i = 0; i < STEPS; i++) {
        const double a = take_step(&cuda), b = take_step(&cpu);
        ck_assert_msg(fabs(a - b) <= 0.5 * last_place * fabs(b), "step %d: loss %.9g, cpu %.9g", i,
                      a, b);
    }
    for (int64_t i = 0; i < ls_net_parameter_count(cpu.net); i++) {
        const double distance = entry_distance(&cuda, &cpu, i);
        ck_assert_msg(distance <= 4 * last_place, "%s: %.3g of the largest",
                      ls_net_parameter_at(cpu.net, i).name, distance);
    }
    close_run(&cuda);
    close_run(&cpu);
}

START_TEST(bf16_as_on_the_cpu)
{
    check_half_parity(LS_PRECISION_BF16, 0x1p-8);
}
END_TEST

START_TEST(f16_as_on_the_cpu)
{
    check_half_parity(LS_PRECISION_F16, 0x1p-11);
}
END_TEST

START_TEST(same_bits_again)
{
    static const ls_precision precisions[] = { LS_PRECISION_F32, LS_PRECISION_BF16,
                                               LS_PRECISION_F16 };
    for (size_t p = 0; p < sizeof precisions / sizeof *precisions; p++) {
        ls_step_digest digests[2];
        for (int i = 0; i < 2; i++) {
            run r = open_run_in(precisions[p], "cuda", false);
            for (int step = 0; step < STEPS; step++) take_step(&r);
            ck_assert_int_eq(ls_net_digest(r.net, &r.batch, &digests[i]), LS_OK);
            close_run(&r);
        }
        ck_assert_mem_eq(&digests[0].weights, &digests[1].weights, sizeof(ls_digest));
        ck_assert_mem_eq(&digests[0].gradients, &digests[1].gradients, sizeof(ls_digest));
    }
}
END_TEST

/* Frozen parameters change the optimizer's segments between steps. */
START_TEST(freezing)
{
    run cuda = open_run("cuda", false), cpu = open_run("cpu", false);
    run *both[2] = { &cuda, &cpu };
    for (int i = 0; i < 2; i++) {
        take_step(both[i]);
        ck_assert_int_eq(ls_net_freeze(both[i]->net, "conv*"), LS_OK);
        take_step(both[i]);
        ck_assert_int_eq(ls_net_unfreeze(both[i]->net, "conv2.*"), LS_OK);
        take_step(both[i]);
    }
    for (int64_t i = 0; i < ls_net_parameter_count(cpu.net); i++)
        ck_assert_double_le(entry_distance(&cuda, &cpu, i), limits_of(&cuda).weights);
    close_run(&cuda);
    close_run(&cpu);
}
END_TEST

START_TEST(checkpoints_go_to_the_other_device)
{
    char path[] = "/tmp/lockstep-cuda-XXXXXX.safetensors";
    const int file = mkstemps(path, (int)strlen(".safetensors"));
    ck_assert_int_ge(file, 0);
    close(file);
    run cuda = open_run("cuda", false), cpu = open_run("cpu", false);
    for (int i = 0; i < 3; i++) take_step(&cuda);
    ls_training_state state = { .net = cuda.net, .optimizer = cuda.opt, .step = 3 };
    ck_assert_msg(ls_checkpoint_save(&state, path) == LS_OK, "%s", ls_context_message(cuda.ctx));
    /* Another device is another identity. */
    ls_training_state here = { .net = cpu.net, .optimizer = cpu.opt };
    ck_assert_int_eq(ls_checkpoint_load(&here, path), LS_ERR_MISMATCH);
    ck_assert_ptr_nonnull(strstr(ls_context_message(cpu.ctx), "device is \"cuda\" there"));
    ls_context_clear_error(cpu.ctx);
    ck_assert_int_eq(ls_net_load_weights(cpu.net, path, NULL, NULL), LS_OK);
    for (int64_t i = 0; i < ls_net_parameter_count(cpu.net); i++)
        ck_assert_double_eq(entry_distance(&cuda, &cpu, i), 0);
    /* And back: the run goes on as if it had not been stopped. */
    run again = open_run("cuda", false);
    ls_training_state there = { .net = again.net, .optimizer = again.opt };
    ck_assert_msg(ls_checkpoint_load(&there, path) == LS_OK, "%s", ls_context_message(again.ctx));
    again.batch.step = there.step;
    for (int i = 0; i < 2; i++) {
        take_step(&cuda);
        take_step(&again);
    }
    for (int64_t i = 0; i < ls_net_parameter_count(cpu.net); i++)
        ck_assert_double_eq(entry_distance(&cuda, &again, i), 0);
    close_run(&cuda);
    close_run(&cpu);
    close_run(&again);
    remove(path);
}
END_TEST

/* An op of the user's own gets the device's memory and stream. */
static void *seen_stream;
static const void *seen_input;

static ls_status see(const ls_custom_op_call *call)
{
    seen_stream = call->stream;
    seen_input = call->inputs[0];
    return LS_OK;
}

static ls_node *model_with_op(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    x = ls_global_avg_pool(g, x);
    return ls_custom_op(g, "mine", 1, &x,
                        &(ls_custom_op_config){ .kind = "see",
                                                .output = { LS_F32, ls_node_shape(x) },
                                                .forward = see });
}

START_TEST(own_op_gets_the_stream)
{
    static const float pixels[2 * 4 * 4 * 3] = { 1 };
    ls_context *ctx = ls_context_open(&(ls_context_config){ .device = "cuda" });
    const ls_spec image = { LS_F32, LS_SHAPE(2, 4, 4, 3) };
    ls_net *net = ls_net_build(ctx, model_with_op, NULL,
                               &(ls_net_config){ .input = { .image = image }, .inference = true });
    ck_assert_int_eq(
        ls_net_feed(net, "input", ls_tensor_from_data(ctx, LS_F32, image.shape, pixels)), LS_OK);
    ck_assert_int_eq(ls_net_forward(net, LS_MODE_EVAL), LS_OK);
    ck_assert_ptr_nonnull(seen_stream);
    ck_assert_ptr_nonnull(seen_input);
    ls_context_close(&ctx);
}
END_TEST

/* tf32 belongs to the device, to the kernels' ops and to the identity. */
START_TEST(tf32)
{
    const ls_net_config config = { .input = { .image = { LS_F32, LS_SHAPE(2, 13, 13, 3) } },
                                   .precision = LS_PRECISION_TF32,
                                   .inference = true };
    ls_context *ctx = ls_context_open(&(ls_context_config){ .device = "cpu" });
    ck_assert_ptr_null(ls_net_build(ctx, model, NULL, &config));
    expect_error(ctx, LS_ERR_UNSUPPORTED, "tf32");
    ls_context_close(&ctx);
    ctx = ls_context_open(&(ls_context_config){ .device = "cuda" });
    ck_assert_ptr_nonnull(ls_net_build(ctx, model, NULL, &config));
    ls_context_close(&ctx);
}
END_TEST

/* The device's labels are read once after each write. */
START_TEST(labels_must_be_classes)
{
    run r = open_run("cuda", false);
    ls_tensor *labels = (ls_tensor *)r.batch.labels;
    int32_t values[BATCH] = { 0 };
    for (int k = 0; k < 2; k++) {
        take_step(&r);
        take_step(&r);
        values[1] = CLASSES;
        ck_assert_int_eq(ls_tensor_write(labels, values, sizeof values), LS_OK);
        for (int i = 0; i < 2; i++) {
            ck_assert_int_eq(ls_net_step(r.net, r.opt, &r.batch, RATE), LS_ERR_INVALID);
            ck_assert_ptr_nonnull(strstr(ls_context_message(r.ctx), "'label': label 1 of "));
            ls_context_clear_error(r.ctx);
        }
        values[1] = -1;
        ck_assert_int_eq(ls_tensor_write(labels, values, sizeof values), LS_OK);
    }
    ck_assert(isfinite(take_step(&r)));
    close_run(&r);
}
END_TEST

TEST_PROGRAM(cuda_net)
{
    return RUN_SUITE("cuda net", sgd_as_on_the_cpu, frozen_norms_as_on_the_cpu,
                     shards_as_on_the_cpu, synchronised_shards_as_on_the_cpu, adamw_as_on_the_cpu,
                     bf16_as_on_the_cpu, f16_as_on_the_cpu, same_bits_again, freezing,
                     checkpoints_go_to_the_other_device, own_op_gets_the_stream, tf32,
                     labels_must_be_classes);
}
