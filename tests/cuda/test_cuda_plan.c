/* Plan files on a CUDA device: what they settle is made by its name alone, without asking the
 * libraries what they have; and kernels that libraries name and then refuse. */
#include "../suite.h"
#include "base/context.h"
#include "conv_ops.h"
#include "emulator/driver.h"
#include "emulator/symbol.h"
#include <lockstep/lockstep.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 2, SIDE = 8, MANY_STEPS = 1000000 /* all kernels are timed */ };

static ls_node *model(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    x = ls_conv2d(g, "conv1", x, 4, &(ls_conv2d_config){ .kernel = 3, .padding = 1 });
    x = ls_relu(g, x);
    x = ls_conv2d(g, "conv2", x, 4, &(ls_conv2d_config){ .kernel = 3, .padding = 1 });
    return ls_linear(g, "fc", ls_global_avg_pool(g, x), 3, NULL);
}

/* Without a linear layer, for which the emulated device has estimates of hours. */
static ls_node *convolutions(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    x = ls_conv2d(g, "conv1", x, 4, &(ls_conv2d_config){ .kernel = 3, .padding = 1 });
    x = ls_conv2d(g, "conv2", x, 3, &(ls_conv2d_config){ .kernel = 3, .padding = 1 });
    return ls_global_avg_pool(g, x);
}

static char logged[1 << 16];
static void keep_log(void *user, ls_log_level level, ls_log_category category, const char *message)
{
    (void)category;
    (void)user;
    (void)level;
    strncat(logged, message, sizeof(logged) - strlen(logged) - 1);
    strncat(logged, "\n", sizeof(logged) - strlen(logged) - 1);
}

/* Sets the mode of the emulated library. */
static ls_context *open_with(const char *mode, const ls_context_config *more)
{
    ls_context_config config = more ? *more : (ls_context_config){ 0 };
    if (!config.device) config.device = "cuda";
    config.log = keep_log;
    setenv("LOCKSTEP_EMULATED_LIBRARY", mode, 1);
    logged[0] = '\0';
    ls_context *ctx = ls_context_open(&config);
    ck_assert_msg(ls_context_status(ctx) == LS_OK, "%s", ls_context_message(ctx));
    return ctx;
}

static ls_context *open_context(const ls_context_config *more)
{
    return open_with("1", more);
}

static ls_net *build_for(ls_context *ctx, ls_model_fn model_of, ls_precision precision,
                         int64_t steps)
{
    return ls_net_build(
        ctx, model_of, NULL,
        &(ls_net_config){
            .input = { .image = { LS_F32, LS_SHAPE(BATCH, SIDE, SIDE, 3) }, .n_classes = 3 },
            .loss = { LS_LOSS_CROSS_ENTROPY },
            .precision = precision,
            .steps = steps });
}

static ls_net *build(ls_context *ctx)
{
    return build_for(ctx, model, LS_PRECISION_F32, MANY_STEPS);
}

/* Returns the digest of the weights after a step. */
static ls_digest step_digest(ls_context *ctx, ls_net *net)
{
    float pixels[BATCH * SIDE * SIDE * 3];
    for (size_t i = 0; i < sizeof(pixels) / sizeof(pixels[0]); i++)
        pixels[i] = (float)(i * 2654435761u % 997) / 997;
    const ls_batch batch = {
        .images = ls_tensor_from_data(ctx, LS_F32, LS_SHAPE(BATCH, SIDE, SIDE, 3), pixels),
        .labels = ls_tensor_from_data(ctx, LS_I32, LS_SHAPE(BATCH), (const int32_t[BATCH]){ 0, 2 }),
        .n = BATCH
    };
    ls_step_digest digest;
    ls_optimizer *opt = ls_sgd(net, NULL);
    ck_assert_msg(ls_net_step(net, opt, &batch, 0.1) == LS_OK, "%s", ls_context_message(ctx));
    ck_assert_int_eq(ls_net_digest(net, &batch, &digest), LS_OK);
    return digest.weights;
}

static int64_t n_listings(void)
{
    emulate_listings_fn *listings;
    void *symbol = module_symbol("emulate_listings");
    memcpy(&listings, &symbol, sizeof(listings));
    return listings();
}

static int count(const char *text, const char *word)
{
    int n = 0;
    for (; (text = strstr(text, word)); text++) n++;
    return n;
}

/* A file of timed kernels, which the caller removes; all its convolutions' kernels become
 * `kernel`, unless that is NULL. Returns the weights' digest of the run that made it. */
static ls_digest make_cache(char *path, const char *kernel)
{
    static char text[1 << 16];
    const int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    ls_context *ctx = open_context(&(ls_context_config){ .benchmark = LS_BENCHMARK_ON });
    ls_net *net = build(ctx);
    ck_assert_msg(net != NULL, "%s", ls_context_message(ctx));
    const ls_digest digest = step_digest(ctx, net);
    /* conv1: forward and weights; conv2: data too */
    ck_assert_int_eq(ls_algorithm_cache_timed_count(ctx), 5);
    ck_assert_int_eq(ls_algorithm_cache_save(ctx, path), LS_OK);
    ls_context_close(&ctx);
    if (!kernel) return digest;

    FILE *file = fopen(path, "r");
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    file = fopen(path, "w");
    const char *rest = strstr(text, "\"kernels\"");
    ck_assert_ptr_nonnull(rest);
    fwrite(text, 1, (size_t)(rest - text), file);
    int n = 0;
    for (const char *op; (op = strstr(rest, "\"conv2d")); n++) {
        const char *name = strstr(op, "\": \"") + strlen("\": \"");
        fwrite(rest, 1, (size_t)(name - rest), file);
        fputs(kernel, file);
        rest = strchr(name, '"');
    }
    fputs(rest, file);
    fclose(file);
    ck_assert_int_eq(n, 5);
    return digest;
}

START_TEST(refused_kernels_are_passed_over)
{
    ls_context *ctx = open_context(NULL);
    ls_net *net = build(ctx);
    ck_assert_msg(net != NULL, "%s", ls_context_message(ctx));
    ck_assert_int_eq(count(logged, "emulated 1 can't be made, another is used"), 5);
    ck_assert_int_eq(count(logged, ": emulated 2 (heuristic) for conv2d"), 5);
    step_digest(ctx, net);
    ls_context_close(&ctx);
}
END_TEST

static ls_context *open_tuned(void)
{
    return open_context(&(ls_context_config){ .benchmark = LS_BENCHMARK_ON });
}

/* The device's clock decides in all precisions: the host's can't tell these kernels apart. */
START_TEST(the_fastest_by_the_devices_clock)
{
    static const ls_precision precisions[] = { LS_PRECISION_F32, LS_PRECISION_TF32,
                                               LS_PRECISION_BF16, LS_PRECISION_F16 };
    for (int i = 0; i < 8; i++) {
        char chosen[32];
        setenv("LOCKSTEP_EMULATED_MS", i % 2 ? "emulated 2=5" : "emulated 3=5", 1);
        ls_context *ctx = open_tuned();
        ck_assert_ptr_nonnull(build_for(ctx, model, precisions[i / 2], 1000000));
        snprintf(chosen, sizeof(chosen), ": emulated %d (timed 0.", i % 2 ? 3 : 2);
        ck_assert_msg(count(logged, chosen) == 5, "%s", logged);
        ck_assert_int_eq(ls_algorithm_cache_timed_count(ctx), 5);
        ls_context_close(&ctx);
    }
    unsetenv("LOCKSTEP_EMULATED_MS");
}
END_TEST

/* Where both take as long, the estimate's stays, and the first is not slower for a cold device. */
START_TEST(no_faster_than_the_estimates_choice)
{
    for (int cold = 0; cold < 2; cold++) {
        if (cold) setenv("LOCKSTEP_EMULATED_COLD", "60", 1);
        ls_context *ctx = open_tuned();
        ck_assert_ptr_nonnull(build(ctx));
        ck_assert_msg(count(logged, ": emulated 2 (timed ") == 5, "%s", logged);
        ls_context_close(&ctx);
    }
    unsetenv("LOCKSTEP_EMULATED_COLD");
}
END_TEST

/* Kernels that fail when they are run, or when a step is recorded, are not chosen. */
START_TEST(kernels_that_fail_when_they_are_timed)
{
    static const char *const faults[] = { "emulated 2=run", "emulated 2=capture" };
    for (int i = 0; i < 2; i++) {
        setenv("LOCKSTEP_EMULATED_FAULTS", faults[i], 1);
        setenv("LOCKSTEP_EMULATED_MS", "emulated 3=1", 1);
        ls_context *ctx = open_tuned();
        ls_net *net = build(ctx);
        ck_assert_msg(net != NULL, "%s", ls_context_message(ctx));
        ck_assert_msg(count(logged, ": emulated 3 (") == 5, "%s", logged);
        ck_assert_int_eq(count(logged, "emulated 2 can't be timed: "), 5);
        step_digest(ctx, net);
        ls_context_close(&ctx);
    }
    unsetenv("LOCKSTEP_EMULATED_FAULTS");
    unsetenv("LOCKSTEP_EMULATED_MS");
}
END_TEST

/* What there is no time for goes by the estimate, as far as the library has it. */
START_TEST(refused_kernels_without_time_to_compare)
{
    ls_context *ctx = open_tuned();
    ls_net *net = build_for(ctx, convolutions, LS_PRECISION_F32, 1);
    ck_assert_msg(net != NULL, "%s", ls_context_message(ctx));
    ck_assert_msg(count(logged, ": emulated 2 (heuristic, no time to compare)") == 5, "%s", logged);
    ck_assert_int_eq(ls_algorithm_cache_timed_count(ctx), 0);
    ls_context_close(&ctx);
}
END_TEST

static ls_status build_tuned(void)
{
    ls_context *ctx =
        ls_context_open(&(ls_context_config){ .device = "cuda", .benchmark = LS_BENCHMARK_ON });
    (void)build_for(ctx, convolutions, LS_PRECISION_F16, 1000000);
    const ls_status status = ls_context_status(ctx);
    if (status != LS_OK) ck_assert_str_ne(ls_context_message(ctx), "");
    ls_context_close(&ctx);
    return status;
}

/* A call that fails costs a candidate or the net, and nothing stays open; a lost device is always
 * an error. */
START_TEST(calls_that_fail_while_kernels_are_timed)
{
    enum { TRIES = 30 };
    emulate_fail_at_fn *fail_at;
    emulate_calls_fn *calls;
    setenv("LOCKSTEP_EMULATED_LIBRARY", "1", 1);
    ck_assert_int_eq(build_tuned(), LS_OK);
    void *symbols[2] = { module_symbol("emulate_fail_at"), module_symbol("emulate_calls") };
    memcpy(&fail_at, &symbols[0], sizeof(fail_at));
    memcpy(&calls, &symbols[1], sizeof(calls));
    fail_at(0, false);
    ck_assert_int_eq(build_tuned(), LS_OK);
    const int64_t n = calls();
    int n_recovered = 0;
    ck_assert_int_gt(n, TRIES);
    for (int i = 0; i < 2 * TRIES; i++) {
        const bool sticky = i % 2 != 0;
        const int64_t at = 1 + i * (n - 1) / (2 * TRIES);
        fail_at(at, sticky);
        const ls_status status = build_tuned();
        n_recovered += status == LS_OK;
        ck_assert_msg(!sticky || status != LS_OK || at > n - 16, "call %d of %d: no error", (int)at,
                      (int)n);
        fail_at(0, false);
        ck_assert_int_eq(emulated_held(), 0);
    }
    ck_assert_int_gt(n_recovered, TRIES / 2);
    ck_assert_int_eq(build_tuned(), LS_OK);
}
END_TEST

START_TEST(an_algorithm_cache_needs_no_lists)
{
    char path[] = "/tmp/lockstep-cuda-cache-XXXXXX";
    make_cache(path, "emulated 3");
    for (int benchmark = 0; benchmark < 2; benchmark++) {
        ls_context *ctx = open_context(
            &(ls_context_config){ .benchmark = benchmark ? LS_BENCHMARK_ON : LS_BENCHMARK_OFF });
        const int64_t before = n_listings();
        ck_assert_int_eq(ls_algorithm_cache_load(ctx, path), LS_OK);
        ls_net *net = build(ctx);
        ck_assert_msg(net != NULL, "%s", ls_context_message(ctx));
        step_digest(ctx, net);
        ck_assert_int_eq(n_listings(), before);
        ck_assert_int_eq(ls_algorithm_cache_timed_count(ctx), 0);
        ck_assert_int_eq(count(logged, ": emulated 3 (algorithm cache) for conv2d"), 5);
        ls_context_close(&ctx);
    }
    remove(path);
}
END_TEST

START_TEST(an_algorithm_cache_repeats_the_timed_runs_bits)
{
    char path[] = "/tmp/lockstep-cuda-cache-XXXXXX";
    const ls_digest first = make_cache(path, NULL);
    ls_context *ctx = open_context(NULL);
    ck_assert_int_eq(ls_algorithm_cache_load(ctx, path), LS_OK);
    ls_net *net = build(ctx);
    ck_assert_msg(net != NULL, "%s", ls_context_message(ctx));
    const ls_digest again = step_digest(ctx, net);
    ck_assert_mem_eq(&first, &again, sizeof(first));
    ck_assert_int_eq(count(logged, " (algorithm cache) for conv2d"), 5);
    ls_context_close(&ctx);
    remove(path);
}
END_TEST

START_TEST(kernels_that_the_policy_forbids)
{
    char path[] = "/tmp/lockstep-cuda-cache-XXXXXX";
    static const ls_deterministic off = LS_DETERMINISTIC_OFF;
    make_cache(path, "emulated 4");
    for (int i = 0; i < 2; i++) {
        ls_context *ctx = open_context(i ? &(ls_context_config){ .deterministic = off } : NULL);
        ck_assert_int_eq(ls_algorithm_cache_load(ctx, path), LS_OK);
        const ls_net *net = build(ctx);
        if (i)
            ck_assert_msg(net != NULL, "%s", ls_context_message(ctx));
        else
            expect_error(ctx, LS_ERR_NONDETERMINISTIC,
                         "kernel 'emulated 4', which the algorithm cache names");
        ls_context_close(&ctx);
    }
    remove(path);
}
END_TEST

START_TEST(a_cached_kernel_that_fails)
{
    char path[] = "/tmp/lockstep-cuda-cache-XXXXXX";
    make_cache(path, "emulated 3");
    setenv("LOCKSTEP_EMULATED_FAULTS", "emulated 3=run", 1);
    ls_context *ctx = open_context(NULL);
    ck_assert_int_eq(ls_algorithm_cache_load(ctx, path), LS_OK);
    ck_assert_ptr_null(build(ctx));
    expect_error(
        ctx, LS_ERR_UNSUPPORTED,
        "conv2d 'conv1': kernel 'emulated 3', which the algorithm cache names, fails when it is "
        "run: conv2d: emulated: it fails");
    ls_context_close(&ctx);
    remove(path);
}
END_TEST

/* A selection of the context's own, made by an earlier net. */
START_TEST(a_timed_kernel_that_fails)
{
    ls_context *ctx = open_context(&(ls_context_config){ .benchmark = LS_BENCHMARK_ON });
    ck_assert_ptr_nonnull(build(ctx));
    setenv("LOCKSTEP_EMULATED_FAULTS", "emulated 2=run, emulated 3=run", 1);
    ck_assert_ptr_null(build(ctx));
    expect_error(ctx, LS_ERR_UNSUPPORTED,
                 ", selected before (timed 0.1 ms of 2 candidates), fails");
    ls_context_close(&ctx);
}
END_TEST

START_TEST(what_no_library_has)
{
    static const char *const names[] = { "emulated 9", "emulated 1", "cudnn 62", "nobody's" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[] = "/tmp/lockstep-cuda-cache-XXXXXX";
        make_cache(path, names[i]);
        ls_context *ctx = open_context(NULL);
        ck_assert_int_eq(ls_algorithm_cache_load(ctx, path), LS_OK);
        ck_assert_ptr_null(build(ctx));
        if (strcmp(names[i], "emulated 1") == 0) /* it is listed */
            expect_error(ctx, LS_ERR_UNSUPPORTED, "'emulated 1' can't be made");
        else
            expect_error(ctx, LS_ERR_NOT_FOUND, "'emulated 2', 'emulated 3'");
        ls_context_close(&ctx);
        remove(path);
    }
}
END_TEST

/* Slower kernels of our own are no answer to a library that fails. */
START_TEST(a_library_that_fails)
{
    for (int benchmark = 0; benchmark < 2; benchmark++) {
        ls_context *ctx = open_context(
            &(ls_context_config){ .benchmark = benchmark ? LS_BENCHMARK_ON : LS_BENCHMARK_OFF });
        setenv("LOCKSTEP_EMULATED_LIBRARY", "broken", 1);
        ck_assert_ptr_null(build(ctx));
        expect_error(ctx, LS_ERR_DEVICE, "emulated: it is broken");
        ls_context_close(&ctx);
    }
}
END_TEST

/* A kernel that can be made and then fails gives way to the next one, whether kernels are timed, or
 * estimated with or without time to compare them. */
START_TEST(failing_kernels_are_passed_over)
{
    setenv("LOCKSTEP_EMULATED_FAULTS", "emulated 2=run", 1);
    for (int benchmark = 0; benchmark < 2; benchmark++)
        for (int steps = 1; steps <= MANY_STEPS; steps += MANY_STEPS - 1) {
            ls_context *ctx = open_context(&(ls_context_config){
                .benchmark = benchmark ? LS_BENCHMARK_ON : LS_BENCHMARK_OFF });
            ls_net *net = build_for(ctx, convolutions, LS_PRECISION_F32, steps);
            ck_assert_msg(net != NULL, "%s", ls_context_message(ctx));
            const bool timed = benchmark && steps > 1;
            if (!timed)
                ck_assert_int_eq(
                    count(logged, "emulated 2 fails when it is run, another is used: "), 5);
            else
                ck_assert_int_eq(count(logged, "emulated 2 can't be timed: "), 5);
            ck_assert_int_eq(count(logged, ": emulated 2 ("), 0);
            if (!timed) ck_assert_int_eq(count(logged, ": emulated 3 (heuristic"), 5);
            step_digest(ctx, net);
            ls_context_close(&ctx);
        }
}
END_TEST

/* Kernels of our own run where a library is missing, or not wanted; what has computed stands in the
 * run's identity. */
START_TEST(own_kernels_alone)
{
    for (int unwanted = 0; unwanted < 2; unwanted++) {
        if (unwanted) setenv("LOCKSTEP_CUDA_LIBRARIES", "none", 1);
        ls_context *ctx = open_with(unwanted ? "1" : "missing", NULL);
        const int64_t before = n_listings();
        ck_assert_int_eq(count(logged, unwanted ? "LOCKSTEP_CUDA_LIBRARIES is none"
                                                : "can't be used, slow kernels of our own run "
                                                  "instead: emulated: it is not there"),
                         1);
        ck_assert_ptr_nonnull(strstr(ls_context_device(ctx), ", no emulated library, own kernels"));
        ls_net *net = build(ctx);
        ck_assert_msg(net != NULL, "%s", ls_context_message(ctx));
        step_digest(ctx, net);
        ck_assert_int_eq(n_listings(), before);
        ck_assert_int_eq(count(logged, "emulated 2"), 0);
        ls_context_close(&ctx);
    }
    setenv("LOCKSTEP_CUDA_LIBRARIES", "all", 1);
    ls_context *ctx = ls_context_open(&(ls_context_config){ .device = "cuda" });
    expect_error(ctx, LS_ERR_INVALID, "LOCKSTEP_CUDA_LIBRARIES is 'all', expected 'none'");
    ls_context_close(&ctx);
}
END_TEST

/* Whatever another context has made current, a context's libraries work for its own device. */
START_TEST(second_device)
{
    static const conv_shape shape = { 2, 8, 8, 4, 4, 3, 1, 1, 1 };
    const ls__op op = conv_op(LS__OP_CONV2D, &shape, false);
    ls_context *contexts[2] = { open_context(NULL),
                                open_context(&(ls_context_config){ .device = "cuda:1" }) };
    ls__candidate list[LS__MAX_CANDIDATES];
    for (int i = 0; i < 4; i++) {
        ls_context *ctx = contexts[i % 2];
        const ls__backend *backend = ctx->device->backend;
        ck_assert_msg(backend->candidates(ctx->device, &op, list, LS__MAX_CANDIDATES) == 5, "%s",
                      ls_context_message(ctx));
    }
    for (int i = 0; i < 2; i++) ls_context_close(&contexts[i]);
}
END_TEST

TEST_PROGRAM(cuda_plan)
{
    return RUN_SUITE("cuda plan", own_kernels_alone, second_device, failing_kernels_are_passed_over,
                     a_cached_kernel_that_fails, a_timed_kernel_that_fails,
                     refused_kernels_are_passed_over, the_fastest_by_the_devices_clock,
                     no_faster_than_the_estimates_choice, kernels_that_fail_when_they_are_timed,
                     refused_kernels_without_time_to_compare,
                     calls_that_fail_while_kernels_are_timed, an_algorithm_cache_needs_no_lists,
                     an_algorithm_cache_repeats_the_timed_runs_bits,
                     kernels_that_the_policy_forbids, what_no_library_has, a_library_that_fails);
}
