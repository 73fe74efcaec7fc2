/* Batch norms fused with convolutions in f16 nets, on a CUDA device whose libraries have kernels
 * for it, beside the same nets unfused on the CPU. */
#include "../nn/bottlenecks.h"
#include "../suite.h"
#include "has_cudnn.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 10 };

typedef struct run {
    ls_context *ctx;
    ls_net *net;
    ls_optimizer *opt;
    ls_batch batch;
    double rate;
} run;

/* cuDNN's fused kernels are tried with channels as in a resnet; the emulator's are slow. */
static int64_t n_channels(void)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .device = "cuda" });
    const int64_t n = has_cudnn(ctx) ? 64 : 8;
    ls_context_close(&ctx);
    return n;
}

/* cuDNN's weight gradients are f16, so that they overflow where the CPU's do not: at the usual loss
 * scale of 65536 the first update would be skipped on one of the devices. */
static run open_run(const char *device, ls_precision precision)
{
    const ls_loss_scale_config scale = { .initial = precision == LS_PRECISION_F16 ? 1024 : 0 };
    setenv("LOCKSTEP_EMULATED_LIBRARY", "fused", 1);
    const int64_t channels = n_channels();
    /* Of two runs whose rounding differs, a net of 64 channels parts ten times as fast. */
    run r = { .ctx = ls_context_open(&(ls_context_config){ .device = device, .seed = 3 }),
              .rate = channels == 64 ? 1e-4 : 1e-3 };
    r.net = ls_net_build(r.ctx, bottlenecks, &channels,
                         &(ls_net_config){ .input = { .image = bottleneck_images },
                                           .loss = { LS_CROSS_ENTROPY },
                                           .precision = precision,
                                           .loss_scale = scale });
    r.opt = ls_sgd(r.net, &(ls_sgd_config){ .momentum = 0.9f, .weight_decay = 1e-4f });
    r.batch = bottleneck_batch(r.ctx);
    ck_assert_msg(ls_context_status(r.ctx) == LS_OK, "%s", ls_context_message(r.ctx));
    return r;
}

static double take_step(run *r)
{
    double loss = 0;
    ck_assert_msg(ls_net_step(r->net, r->opt, &r->batch, r->rate) == LS_OK, "%s",
                  ls_context_message(r->ctx));
    ck_assert_int_eq(ls_net_loss(r->net, &loss), LS_OK);
    r->batch.step++;
    return loss;
}

/* How often a text stands in the net's description. */
static int count(run *r, const char *text)
{
    static char all[65536];
    int n = 0;
    ck_assert_int_gt(ls_net_describe(r->net, all, sizeof all), 0);
    for (const char *at = all; (at = strstr(at, text)); at++) n++;
    return n;
}

/* Largest |a - b| over largest |b| of an entry; the floor is for what is 0 but for rounding. */
static double distance(run *a, run *b, int64_t entry)
{
    static float x[1 << 16], y[1 << 16];
    const ls_tensor *of_a = ls_net_entry(a->net, entry).value,
                    *of_b = ls_net_entry(b->net, entry).value;
    const size_t bytes = ls_tensor_bytes(of_a);
    ck_assert_uint_le(bytes, sizeof x);
    ck_assert_int_eq(ls_tensor_read(of_a, x, bytes), LS_OK);
    ck_assert_int_eq(ls_tensor_read(of_b, y, bytes), LS_OK);
    double error = 0, largest = 1e-2;
    for (size_t i = 0; i < bytes / sizeof *x; i++) {
        error = fmax(error, fabs((double)x[i] - (double)y[i]));
        largest = fmax(largest, fabs((double)y[i]));
    }
    return error / largest;
}

/* f16 has 11 bits, 5e-4; ten small steps make ten times that of it at most. */
static void compare(run *cuda, run *cpu)
{
    for (int i = 0; i < STEPS; i++) {
        const double a = take_step(cuda), b = take_step(cpu);
        ck_assert_msg(fabs(a - b) <= 2e-3 * fabs(b), "step %d: loss %.6g, cpu %.6g", i, a, b);
    }
    for (int64_t i = 0; i < ls_net_entries(cuda->net); i++)
        ck_assert_msg(distance(cuda, cpu, i) <= 5e-3, "%s: %.3g", ls_net_entry(cuda->net, i).name,
                      distance(cuda, cpu, i));
    ck_assert_int_eq(ls_net_evaluate(cuda->net, &cuda->batch), LS_OK);
    ck_assert_int_eq(ls_net_evaluate(cpu->net, &cpu->batch), LS_OK);
    double a, b;
    ck_assert_int_eq(ls_net_loss(cuda->net, &a), LS_OK);
    ck_assert_int_eq(ls_net_loss(cpu->net, &b), LS_OK);
    ck_assert_double_eq_tol(a, b, 2e-2);
}

START_TEST(as_on_the_cpu)
{
    run cuda = open_run("cuda", LS_PRECISION_F16), cpu = open_run("cpu", LS_PRECISION_F16);
    ck_assert_int_eq(count(&cuda, "norm_conv2d_statistics "), 4);
    ck_assert_int_eq(count(&cuda, "norm_conv2d_backward_weights "), 4);
    ck_assert_int_eq(count(&cuda, "norm_conv2d_backward_data "), 4);
    ck_assert_int_ge(count(&cuda, "norm_finalize "), 7); /* the first has 3 channels */
    ck_assert_int_eq(count(&cpu, "norm_finalize"), 0);
    compare(&cuda, &cpu);
    ls_context_close(&cpu.ctx);
    ls_context_close(&cuda.ctx);
}
END_TEST

/* A fused kernel that fails when it is run leaves the net unfused. */
START_TEST(failing_fusions_are_left_out)
{
    setenv("LOCKSTEP_EMULATED_FAILING",
           getenv("LOCKSTEP_TEST_LIBRARIES") ? "cudnn" : "emulated fused", 1);
    run r = open_run("cuda", LS_PRECISION_F16);
    ck_assert_int_eq(count(&r, "norm_finalize"), 0);
    take_step(&r);
    ls_context_close(&r.ctx);
}
END_TEST

START_TEST(same_bits_again)
{
    ls_step_digest digests[2];
    for (int i = 0; i < 2; i++) {
        run r = open_run("cuda", LS_PRECISION_F16);
        for (int step = 0; step < 3; step++) take_step(&r);
        ck_assert_int_eq(ls_net_digest(r.net, &r.batch, &digests[i]), LS_OK);
        ls_context_close(&r.ctx);
    }
    ck_assert_mem_eq(&digests[0].weights, &digests[1].weights, sizeof(ls_digest));
    ck_assert_mem_eq(&digests[0].gradients, &digests[1].gradients, sizeof(ls_digest));
}
END_TEST

/* What has no kernels stays as it was. */
START_TEST(only_f16)
{
    static const ls_precision others[] = { LS_PRECISION_F32, LS_PRECISION_TF32, LS_PRECISION_BF16 };
    for (int i = 0; i < 3; i++) {
        run r = open_run("cuda", others[i]);
        ck_assert_int_eq(count(&r, "norm_finalize"), 0);
        ls_context_close(&r.ctx);
    }
}
END_TEST

int main(void)
{
    return RUN_SUITE("cuda fuse", as_on_the_cpu, failing_fusions_are_left_out, same_bits_again,
                     only_f16);
}
