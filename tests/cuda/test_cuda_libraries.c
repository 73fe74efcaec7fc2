/* Nets and kernels on a CUDA device with the backend's own providers and stand-ins for cuDNN and
 * cuBLASLt: which of their kernels are listed, passed over, refused and run. What they compute is
 * in test_cuda_ops.c and test_cuda_net.c. */
#include "../nn/bottlenecks.h"
#include "../suite.h"
#include "base/context.h"
#include "conv_ops.h"
#include "emulator/symbol.h"
#include <lockstep/lockstep.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char logged[1 << 16];
static void keep_log(void *user, ls_log_level level, ls_log_category category, const char *message)
{
    (void)category;
    (void)user;
    if (level == LS_LOG_WARNING) strncat(logged, "warning: ", sizeof logged - strlen(logged) - 1);
    strncat(logged, message, sizeof logged - strlen(logged) - 1);
    strncat(logged, "\n", sizeof logged - strlen(logged) - 1);
}

static ls_context *open_context(ls_deterministic deterministic)
{
    logged[0] = '\0';
    ls_context *ctx = ls_context_open(&(ls_context_config){
        .device = "cuda", .seed = 3, .log = keep_log, .deterministic = deterministic });
    ck_assert_msg(ls_context_status(ctx) == LS_OK, "%s", ls_context_message(ctx));
    return ctx;
}

static ls_net *build(ls_context *ctx, ls_precision precision)
{
    return ls_net_build(ctx, bottlenecks, NULL,
                        &(ls_net_config){ .input = { .image = bottleneck_images },
                                          .loss = { LS_LOSS_CROSS_ENTROPY },
                                          .precision = precision,
                                          .steps = 1000000 });
}

static ls_digest weights_after(ls_context *ctx, ls_net *net, int steps)
{
    ls_batch batch = bottleneck_batch(ctx);
    ls_step_digest digest;
    ck_assert_msg(net != NULL, "%s", ls_context_message(ctx));
    ls_optimizer *opt = ls_sgd(net, NULL);
    for (int i = 0; i < steps; i++, batch.step++)
        ck_assert_msg(ls_net_step(net, opt, &batch, 0.1) == LS_OK, "%s", ls_context_message(ctx));
    ck_assert_int_eq(ls_net_digest(net, &batch, &digest), LS_OK);
    return digest.weights;
}

static int count(const char *text, const char *word)
{
    int n = 0;
    for (; (text = strstr(text, word)); text++) n++;
    return n;
}

static bool begins(const char *name, const char *with)
{
    const size_t length = strlen(with);
    return strncmp(name, with, length) == 0 &&
           (name[length - 1] == ',' || name[length] == ' ' || name[length] == '\0');
}

/* The places of kernels in the list for a convolution; -1: it is not listed. */
static void list(ls_context *ctx, ls__op_kind kind, ls_dtype dtype, bool tf32,
                 const char *const *names, int *places, int n)
{
    static const conv_shape shape = { 2, 6, 6, 16, 8, 3, 1, 1, 1 };
    ls__candidate all[LS__MAX_CANDIDATES];
    const ls__op f32 = conv_op(kind, &shape, false), op = conv_op_in(&f32, dtype, tf32);
    const int n_listed =
        ctx->device->backend->candidates(ctx->device, &op, all, LS__MAX_CANDIDATES);
    for (int i = 0; i < n; i++) {
        places[i] = -1;
        for (int j = 0; j < n_listed; j++)
            if (begins(all[j].name, names[i]) && places[i] < 0) places[i] = j;
    }
}

/* The best ones first, those that are compiled later, our own last; never one that rounds more than
 * the op allows, or that needs too much memory. */
START_TEST(listed_engines)
{
    enum { LONG, CORES, ROUNDS, HUGE, WINOGRAD, COMPILED, OWN, N };
    static const char *const names[N] = {
        "cudnn 41 1=0,2=18,", "cudnn 10", "cudnn 4", "cudnn 8", "cudnn 6", "cudnn 7", "own direct"
    };
    static const struct {
        ls_dtype dtype;
        bool tf32;
    } types[] = { { LS_F16, false }, { LS_BF16, false }, { LS_F32, true }, { LS_F32, false } };
    ls_context *ctx = open_context(LS_DETERMINISTIC_OFF);
    for (int i = 0; i < 12; i++) {
        int places[N];
        const ls__op_kind kind = (ls__op_kind)(LS__OP_CONV2D + i / 4);
        list(ctx, kind, types[i % 4].dtype, types[i % 4].tf32, names, places, N);
        const bool f32 = types[i % 4].dtype == LS_F32;
        ck_assert_int_ge(places[LONG], 0);
        ck_assert_int_eq(places[CORES] > places[LONG], !f32 || types[i % 4].tf32);
        ck_assert_int_eq(places[ROUNDS], -1);
        ck_assert_int_eq(places[HUGE], -1);
        ck_assert_int_eq(places[WINOGRAD] > 0, f32);
        ck_assert_int_gt(places[COMPILED], places[LONG]);
        ck_assert_int_gt(places[OWN], places[COMPILED]);
    }
    ls_context_close(&ctx);
}
END_TEST

START_TEST(refused_engines_are_passed_over)
{
    static const ls_precision precisions[] = { LS_PRECISION_F32, LS_PRECISION_F16 };
    for (int i = 0; i < 2; i++) {
        ls_context *ctx = open_context(LS_DETERMINISTIC_STRICT);
        weights_after(ctx, build(ctx, precisions[i]), 2);
        ck_assert_int_ge(count(logged, "cudnn 1 2=5 can't be made, another is used"), 10);
        ck_assert_int_ge(count(logged, ": cudnn 41 1=0,2=18,"), 10);
        ls_context_close(&ctx);
        ck_assert_int_eq(emulated_held(), 0);
    }
}
END_TEST

static void train_with_failing(const char *kernels)
{
    setenv("LOCKSTEP_EMULATED_FAILING", kernels, 1);
    ls_context *ctx = open_context(LS_DETERMINISTIC_STRICT);
    weights_after(ctx, build(ctx, LS_PRECISION_F16), 2);
    ls_context_close(&ctx);
}

/* A kernel that can be made, and fails when it is run. */
START_TEST(failing_engines_are_passed_over)
{
    train_with_failing("cudnn 41");
    ck_assert_int_ge(count(logged, "fails when it is run, another is used: "), 10);
    ck_assert_int_ge(count(logged, ": cudnn 10 2=5,13=1,14=3 (heuristic)"), 10);
    train_with_failing("cublaslt 1");
    ck_assert_int_ge(count(logged, "cublaslt 1 15,1,0,0,0,4,0,0 fails when it is run"), 1);
    ck_assert_int_ge(count(logged, ": cublaslt 66 "), 1);
    /* No library kernel runs, so our own do; fusions exist only in cuDNN. */
    train_with_failing("cudnn");
    ck_assert_int_ge(count(logged, ": own direct (heuristic) for conv2d"), 10);
    ck_assert_int_eq(count(logged, "warning: "), 1); /* training and evaluation have the same ops */
    char warning[256];
    snprintf(warning, sizeof warning,
             "warning: net: all library kernels of %d ops fail when they are run, and slow 'own "
             "direct' runs instead: ",
             count(logged, ": own direct (heuristic) for conv2d"));
    ck_assert_msg(strstr(logged, warning) != NULL, "no %s", warning);
}
END_TEST

/* Its name does not say all of the algorithm: the heuristics do. */
START_TEST(algorithms_come_back_by_name)
{
    ls_context *ctx = open_context(LS_DETERMINISTIC_STRICT);
    weights_after(ctx, build(ctx, LS_PRECISION_F32), 2);
    ck_assert_int_ge(count(logged, ": cublaslt 1 15,1,0,0,0,4,0,0 (heuristic) for linear"), 1);
    ls_context_close(&ctx);
}
END_TEST

/* Sums in an order that changes are no kernel of a run that is to repeat itself, and one of a run
 * that is not. */
START_TEST(engines_that_do_not_repeat_their_bits)
{
    const ls__op_kind kind = LS__OP_CONV2D;
    static const conv_shape shape = { 2, 6, 6, 16, 8, 3, 1, 1, 1 };
    const ls__op op = conv_op(kind, &shape, false);
    ls_context *ctx = open_context(LS_DETERMINISTIC_OFF);
    ls__kernel *kernel;
    ck_assert_int_eq(ctx->device->backend->kernel_open(ctx->device, &op, "cudnn 3 2=2", &kernel),
                     LS_OK);
    ck_assert(kernel->nondeterministic);
    kernel->close(kernel);
    ls_context_close(&ctx);
}
END_TEST

/* The message names the remedy for a library that does not work. */
START_TEST(libraries_that_do_not_open)
{
    static const char *const titles[] = { "cuDNN", "cuBLASLt" };
    ls_context *working = open_context(LS_DETERMINISTIC_STRICT);
    emulate_fail_at_fn *fail_at;
    void *symbol = module_symbol("emulate_fail_at");
    memcpy(&fail_at, &symbol, sizeof fail_at);
    ls_context_close(&working);
    for (int i = 0; i < 2; i++) {
        char text[128];
        bool found = false;
        snprintf(text, sizeof text,
                 "(emulated driver; LOCKSTEP_CUDA_LIBRARIES=none computes "
                 "without %s, slowly)",
                 titles[i]);
        for (int64_t call = 1; call < 30 && !found; call++) {
            fail_at(call, false);
            ls_context *ctx = ls_context_open(&(ls_context_config){ .device = "cuda" });
            found = ls_context_status(ctx) == LS_ERR_DEVICE &&
                    strstr(ls_context_message(ctx), text) != NULL;
            ls_context_close(&ctx);
        }
        ck_assert_msg(found, "%s", text);
        fail_at(0, false);
    }
}
END_TEST

START_TEST(heuristics_that_fail)
{
    ls_context *ctx = open_context(LS_DETERMINISTIC_STRICT);
    setenv("LOCKSTEP_EMULATED_LIBRARY", "broken", 1);
    ck_assert_ptr_null(build(ctx, LS_PRECISION_F32));
    expect_error(ctx, LS_ERR_DEVICE, "emulated: it is broken", "LOCKSTEP_CUDA_LIBRARIES=none");
    ls_context_close(&ctx);
    ck_assert_int_eq(emulated_held(), 0);
}
END_TEST

/* tf32 rounds what is multiplied, f16 and bf16 what is stored. */
START_TEST(precisions_have_bits_of_their_own)
{
    static const ls_precision precisions[] = { LS_PRECISION_F32, LS_PRECISION_TF32,
                                               LS_PRECISION_BF16, LS_PRECISION_F16 };
    ls_digest digests[4];
    setenv("LOCKSTEP_EMULATED_FAILING", "cudnn 41", 1); /* which rounds nothing */
    for (int i = 0; i < 4; i++) {
        ls_context *ctx = open_context(LS_DETERMINISTIC_STRICT);
        digests[i] = weights_after(ctx, build(ctx, precisions[i]), 1);
        for (int j = 0; j < i; j++) ck_assert_mem_ne(&digests[i], &digests[j], sizeof digests[i]);
        ls_context_close(&ctx);
    }
}
END_TEST

TEST_PROGRAM(cuda_libraries)
{
    return RUN_SUITE("cuda libraries", listed_engines, refused_engines_are_passed_over,
                     failing_engines_are_passed_over, algorithms_come_back_by_name,
                     engines_that_do_not_repeat_their_bits, libraries_that_do_not_open,
                     heuristics_that_fail, precisions_have_bits_of_their_own);
}
