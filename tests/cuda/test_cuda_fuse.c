/* Batch norms fused with convolutions in nets of 16 bits, on a CUDA device whose libraries have
 * kernels for it, beside the same nets unfused on the CPU. */
#include "../nn/bottlenecks.h"
#include "../suite.h"
#include "has_cudnn.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 10 };

typedef struct run {
    ls_context *ctx;
    ls_net *net;
    ls_optimizer *opt;
    ls_batch batch;
    double lr;
} run;

static bool is_emulated(const run *r)
{
    return strstr(ls_context_device(r->ctx), "emulated") != NULL;
}

/* Are the kernels cuDNN's, or its stand-in's? The emulator's library has others, which some cases
 * are about. Not called outside of cases: a process that has opened CUDA must not fork them. */
static bool uses_cudnn(void)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .device = "cuda" });
    const bool uses = has_cudnn(ctx);
    ls_context_close(&ctx);
    return uses;
}

static char logged[1 << 18];
static void keep_log(void *user, ls_log_level level, ls_log_category category, const char *message)
{
    (void)category;
    (void)user;
    (void)level;
    const size_t length = strlen(logged);
    snprintf(logged + length, sizeof logged - length, "%s\n", message);
}

/* The settings of a context and of the net. */
typedef struct settings {
    const char *cache_path; /* a file's path, or NULL */
    ls_benchmark benchmark;
    int64_t steps;
} settings;

/* cuDNN's weight gradients are f16, so that they overflow where the CPU's do not: at the usual loss
 * scale of 65536 the first update would be skipped on one of the devices. */
static run open_with(const char *device, ls_precision precision, settings s)
{
    const ls_loss_scale_config scale = { .initial = precision == LS_PRECISION_F16 ? 1024 : 0 };
    setenv("LOCKSTEP_EMULATED_LIBRARY", "fused", 1);
    /* cuDNN's fused kernels are tried with channels as in a resnet; the emulator's are slow. */
    const int64_t channels = uses_cudnn() ? 64 : 8;
    logged[0] = '\0';
    /* Of two runs whose rounding differs, a net of 64 channels parts ten times as fast. */
    run r = { .ctx = ls_context_open(&(ls_context_config){
                  .device = device, .seed = 3, .benchmark = s.benchmark, .log = keep_log }),
              .lr = channels == 64 ? 1e-4 : 1e-3 };
    if (s.cache_path) ck_assert_int_eq(ls_algorithm_cache_load(r.ctx, s.cache_path), LS_OK);
    r.net = ls_net_build(r.ctx, bottlenecks, &channels,
                         &(ls_net_config){ .input = { .image = bottleneck_images },
                                           .loss = { LS_LOSS_CROSS_ENTROPY },
                                           .precision = precision,
                                           .steps = s.steps,
                                           .loss_scale = scale });
    r.opt = ls_sgd(r.net, &(ls_sgd_config){ .momentum = 0.9f, .weight_decay = 1e-4f });
    r.batch = bottleneck_batch(r.ctx);
    ck_assert_msg(ls_context_status(r.ctx) == LS_OK, "%s", ls_context_message(r.ctx));
    return r;
}

static run open_run(const char *device, ls_precision precision)
{
    return open_with(device, precision, (settings){ 0 });
}

static double take_step(run *r)
{
    double loss = 0;
    ck_assert_msg(ls_net_step(r->net, r->opt, &r->batch, r->lr) == LS_OK, "%s",
                  ls_context_message(r->ctx));
    ck_assert_int_eq(ls_net_loss(r->net, &loss), LS_OK);
    r->batch.step++;
    return loss;
}

static int count_in(const char *all, const char *text)
{
    int n = 0;
    for (; (all = strstr(all, text)); all++) n++;
    return n;
}

/* How often a text stands in the net's description. */
static int count(run *r, const char *text)
{
    static char all[65536];
    ck_assert_int_gt(ls_net_describe(r->net, all, sizeof all), 0);
    return count_in(all, text);
}

/* Largest |a - b| over largest |b| of an entry; the floor is for what is 0 but for rounding. */
static double distance(run *a, run *b, int64_t entry)
{
    static float x[1 << 16], y[1 << 16];
    const ls_tensor *of_a = ls_net_parameter_at(a->net, entry).value,
                    *of_b = ls_net_parameter_at(b->net, entry).value;
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

/* `unit` is a type's rounding: 5e-4 in f16, which has 11 bits, 4e-3 in bf16, which has 8. Weights
 * are compared while they have seen few roundings: later ones may bring a value to ReLU's other
 * side, and a gradient of few values with it, with or without fusions. */
enum { CLOSE_STEPS = 2 };
static void compare(run *cuda, run *cpu, double unit)
{
    for (int i = 0; i < STEPS; i++) {
        const double a = take_step(cuda), b = take_step(cpu);
        ck_assert_msg(fabs(a - b) <= 4 * unit * fabs(b), "step %d: loss %.6g, cpu %.6g", i, a, b);
        for (int64_t j = 0; j < ls_net_parameter_count(cuda->net) && i < CLOSE_STEPS; j++)
            ck_assert_msg(distance(cuda, cpu, j) <= 4 * unit, "step %d: %s: %.3g", i,
                          ls_net_parameter_at(cuda->net, j).name, distance(cuda, cpu, j));
    }
    ck_assert_int_eq(ls_net_evaluate(cuda->net, &cuda->batch), LS_OK);
    ck_assert_int_eq(ls_net_evaluate(cpu->net, &cpu->batch), LS_OK);
    double a, b;
    ck_assert_int_eq(ls_net_loss(cuda->net, &a), LS_OK);
    ck_assert_int_eq(ls_net_loss(cpu->net, &b), LS_OK);
    ck_assert_double_eq_tol(a, b, 40 * unit);
}

static const struct {
    ls_precision precision;
    double unit;
} halves[] = { { LS_PRECISION_F16, 5e-4 }, { LS_PRECISION_BF16, 4e-3 } };
enum { N_HALVES = sizeof halves / sizeof *halves };

START_TEST(as_on_the_cpu)
{
    for (int i = 0; i < N_HALVES; i++) {
        run cuda = open_run("cuda", halves[i].precision),
            cpu = open_run("cpu", halves[i].precision);
        /* Real devices may have kernels for some fusions only. */
        if (is_emulated(&cuda) && (!uses_cudnn() || halves[i].precision == LS_PRECISION_F16)) {
            ck_assert_int_eq(count(&cuda, "norm_conv2d_statistics "), 4);
            ck_assert_int_eq(count(&cuda, "norm_conv2d_backward_weights "), 4);
            ck_assert_int_eq(count(&cuda, "norm_conv2d_backward_data "), 4);
            ck_assert_int_ge(count(&cuda, "norm_finalize "), 7); /* the first has 3 channels */
        }
        ck_assert_int_eq(count(&cpu, "norm_finalize"), 0);
        compare(&cuda, &cpu, halves[i].unit);
        ls_context_close(&cpu.ctx);
        ls_context_close(&cuda.ctx);
    }
}
END_TEST

/* cuDNN's share of it in bf16: no kernel gives the norm's gradients with the data's, so that the
 * second fusion is out, and the first is not. */
START_TEST(statistics_alone)
{
    if (uses_cudnn()) SKIP("about the kernels of the emulated library");
    setenv("LOCKSTEP_EMULATED_FAULTS", "norm_conv2d_backward_data=open", 1);
    for (int i = 0; i < N_HALVES; i++) {
        run cuda = open_run("cuda", halves[i].precision);
        ck_assert_int_eq(count(&cuda, "norm_finalize "), 8);
        ck_assert_int_eq(count(&cuda, "norm_conv2d_"), 0);
        ck_assert_int_gt(count_in(logged, "unfused: norm_conv2d_backward_data: "), 0);
        run cpu = open_run("cpu", halves[i].precision);
        compare(&cuda, &cpu, halves[i].unit);
        ls_context_close(&cpu.ctx);
        ls_context_close(&cuda.ctx);
    }
    unsetenv("LOCKSTEP_EMULATED_FAULTS");
}
END_TEST

/* A library may refuse what it has listed: the log says why the net is as it is. */
START_TEST(refused_fusions)
{
    if (uses_cudnn()) SKIP("about the kernels of the emulated library");
    setenv("LOCKSTEP_EMULATED_FAULTS", "conv2d_statistics=open", 1);
    for (int i = 0; i < 2 * N_HALVES; i++) {
        const settings s = { .benchmark = i % 2 ? LS_BENCHMARK_ON : LS_BENCHMARK_OFF,
                             .steps = 1000000 };
        run r = open_with("cuda", halves[i / 2].precision, s);
        ck_assert_int_eq(count(&r, "norm_finalize"), 0);
        ck_assert_msg(count_in(logged, "batch norm stays unfused: conv2d_statistics: 'emulated "
                                       "fused' can't be made\n") == 7,
                      "%s", logged);
        take_step(&r);
        ls_context_close(&r.ctx);
    }
    unsetenv("LOCKSTEP_EMULATED_FAULTS");
}
END_TEST

/* A fused kernel that fails when it is run leaves the net unfused. */
START_TEST(failing_fusions_are_left_out)
{
    setenv("LOCKSTEP_EMULATED_FAULTS", "emulated fused=run", 1);
    setenv("LOCKSTEP_EMULATED_FAILING", "cudnn", 1);
    run r = open_run("cuda", LS_PRECISION_F16);
    if (is_emulated(&r)) ck_assert_int_eq(count(&r, "norm_finalize"), 0);
    take_step(&r);
    ls_context_close(&r.ctx);
    unsetenv("LOCKSTEP_EMULATED_FAULTS");
    unsetenv("LOCKSTEP_EMULATED_FAILING");
}
END_TEST

START_TEST(same_bits_again)
{
    ls_step_digest digests[2 * N_HALVES];
    for (int i = 0; i < 2 * N_HALVES; i++) {
        run r = open_run("cuda", halves[i / 2].precision);
        for (int step = 0; step < 3; step++) take_step(&r);
        ck_assert_int_eq(ls_net_digest(r.net, &r.batch, &digests[i]), LS_OK);
        ls_context_close(&r.ctx);
    }
    for (int i = 0; i < 2 * N_HALVES; i += 2) {
        ck_assert_mem_eq(&digests[i].weights, &digests[i + 1].weights, sizeof(ls_digest));
        ck_assert_mem_eq(&digests[i].gradients, &digests[i + 1].gradients, sizeof(ls_digest));
    }
}
END_TEST

/* Nodes without kernels for the fusion stay unchanged. */
START_TEST(only_16_bits)
{
    static const ls_precision others[] = { LS_PRECISION_F32, LS_PRECISION_TF32 };
    for (int i = 0; i < 2; i++) {
        run r = open_run("cuda", others[i]);
        ck_assert_int_eq(count(&r, "norm_finalize"), 0);
        ls_context_close(&r.ctx);
    }
}
END_TEST

/* ---- By time ---- */

enum { MANY_STEPS = 1000000 };
static const settings timed = { .benchmark = LS_BENCHMARK_ON, .steps = MANY_STEPS };

/* Fails the test unless these numbers of fusions are used. */
static void expect_fusions(run *r, int statistics, int applications)
{
    const int a = count(r, "norm_finalize "), b = count(r, "norm_conv2d_statistics ");
    ck_assert_msg(a == statistics && b == applications, "%d, %d\n%s", a, b, logged);
}

/* Unfused, the emulated device has one launch for a convolution and more for a norm; fused, one for
 * each of three ops. So by its clock fusions are faster, but for what the test adds. */
START_TEST(the_faster_side_is_taken)
{
    if (uses_cudnn()) SKIP("about the kernels of the emulated library");
    static const struct {
        const char *slow;
        int statistics, applications, timed;
    } cases[] = { { "", 8, 4, 10 },
                  { "conv2d_statistics=5", 0, 0, 7 },
                  { "norm_conv2d_statistics=5", 8, 0, 10 },
                  { "norm_conv2d_backward_data=5", 8, 0, 10 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("LOCKSTEP_EMULATED_MS", cases[i].slow, 1);
        run r = open_with("cuda", LS_PRECISION_F16, timed);
        expect_fusions(&r, cases[i].statistics, cases[i].applications);
        ck_assert_int_eq(ls_algorithm_cache_timed_count(r.ctx), cases[i].timed);
        ck_assert_int_eq(count_in(logged, "fused (timed 0."), cases[i].timed);
        ck_assert_int_eq(count_in(logged, " fusion\n"), cases[i].timed);
        take_step(&r);
        ls_context_close(&r.ctx);
    }
    unsetenv("LOCKSTEP_EMULATED_MS");
}
END_TEST

/* Kernels that are made and then fail, or that no graph can hold, which only timing shows. */
START_TEST(fused_kernels_that_fail)
{
    if (uses_cudnn()) SKIP("about the kernels of the emulated library");
    static const char *const faults[] = { "emulated fused=run", "emulated fused=capture" };
    for (int i = 0; i < 2; i++) {
        setenv("LOCKSTEP_EMULATED_FAULTS", faults[i], 1);
        run r = open_with("cuda", LS_PRECISION_BF16, timed);
        expect_fusions(&r, 0, 0);
        ck_assert_int_eq(count_in(logged, "unfused (the fused kernels failed)"), 7);
        take_step(&r);
        ls_context_close(&r.ctx);
    }
    unsetenv("LOCKSTEP_EMULATED_FAULTS");
}
END_TEST

/* Without benchmark, and where timing would not pay, the estimates decide. */
START_TEST(nothing_is_timed_unasked)
{
    if (uses_cudnn()) SKIP("about the kernels of the emulated library");
    setenv("LOCKSTEP_EMULATED_MS", "conv2d_statistics=5", 1);
    for (int i = 0; i < 2; i++) {
        settings s = timed;
        if (i == 0)
            s.benchmark = LS_BENCHMARK_OFF;
        else
            s.steps = 1;
        run r = open_with("cuda", LS_PRECISION_F16, s);
        expect_fusions(&r, 8, 4);
        ck_assert_int_eq(ls_algorithm_cache_timed_count(r.ctx), 0);
        ck_assert_int_eq(count_in(logged, "(timed "), 0);
        ck_assert_int_gt(count_in(logged, "fused (heuristic)"), 0);
        ls_context_close(&r.ctx);
    }
    unsetenv("LOCKSTEP_EMULATED_MS");
}
END_TEST

/* A loaded selection stays, even when it is slower now. */
START_TEST(loaded_kernels_are_not_timed)
{
    if (uses_cudnn()) SKIP("about the kernels of the emulated library");
    static const char slow[] = "conv2d_statistics=5";
    for (int i = 0; i < 2; i++) {
        char path[] = "/tmp/lockstep-cuda-fuse-XXXXXX";
        const int fd = mkstemp(path);
        ck_assert_int_ge(fd, 0);
        close(fd);
        setenv("LOCKSTEP_EMULATED_MS", i ? slow : "", 1);
        run r = open_with("cuda", LS_PRECISION_F16, timed);
        expect_fusions(&r, i ? 0 : 8, i ? 0 : 4);
        ck_assert_int_eq(ls_algorithm_cache_save(r.ctx, path), LS_OK);
        ls_context_close(&r.ctx);

        setenv("LOCKSTEP_EMULATED_MS", i ? "" : slow, 1);
        for (int benchmark = 0; benchmark < 2; benchmark++) {
            settings s = { .cache_path = path, .steps = MANY_STEPS };
            s.benchmark = benchmark ? LS_BENCHMARK_ON : LS_BENCHMARK_OFF;
            r = open_with("cuda", LS_PRECISION_F16, s);
            expect_fusions(&r, i ? 0 : 8, i ? 0 : 4);
            ck_assert_int_eq(ls_algorithm_cache_timed_count(r.ctx), 0);
            ck_assert_int_eq(
                count_in(logged, i ? "unfused (algorithm cache)" : ": fused (algorithm cache)"),
                count_in(logged, " fusion\n"));
            ls_context_close(&r.ctx);
        }
        remove(path);
    }
    unsetenv("LOCKSTEP_EMULATED_MS");
}
END_TEST

/* cuDNN's bf16 statistics are taken where they are faster, as on the emulated device. */
START_TEST(statistics_in_bf16)
{
    if (!uses_cudnn()) SKIP("about the kernels of cuDNN");
    run cuda = open_with("cuda", LS_PRECISION_BF16, timed),
        cpu = open_run("cpu", LS_PRECISION_BF16);
    if (is_emulated(&cuda)) {
        ck_assert_int_ge(count(&cuda, "norm_finalize "), 7);
        ck_assert_int_eq(count(&cuda, "norm_conv2d_backward_data "), 0);
    }
    compare(&cuda, &cpu, 4e-3);
    ls_context_close(&cpu.ctx);
    ls_context_close(&cuda.ctx);
}
END_TEST

TEST_PROGRAM(cuda_fuse)
{
    return RUN_SUITE("cuda fuse", as_on_the_cpu, failing_fusions_are_left_out, statistics_alone,
                     refused_fusions, same_bits_again, only_16_bits, the_faster_side_is_taken,
                     fused_kernels_that_fail, nothing_is_timed_unasked,
                     loaded_kernels_are_not_timed, statistics_in_bf16);
}
