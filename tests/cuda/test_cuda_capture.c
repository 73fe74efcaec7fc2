/* Recorded steps on the emulated CUDA device: the same bits as steps that run op by op, whatever
 * changes between them; what a replayed step costs; what can't be captured; every call failing in
 * turn. Contexts with nvtx run op by op. */
#include "../suite.h"
#include "base/context.h"
#include "emulator/driver.h"
#include "emulator/symbol.h"
#include "nn/net/net_trace.h"
#include "backend/backend.h"
#include <lockstep/lockstep.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 5, CLASSES = 6, BUILT_FOR = 4, MAX_IMAGES = 6 /* images */ };

/* ---- The emulator ---- */

static int64_t calls(void)
{
    return emulated_count("emulate_calls");
}

static int64_t graphs(void)
{
    return emulated_count("emulate_graphs");
}

static char logged[1 << 14];
static int n_passed_over; /* kernels of the libraries that failed when they were tried */
static void keep_log(void *user, ls_log_level level, ls_log_category category, const char *message)
{
    (void)category;
    (void)user;
    n_passed_over += strstr(message, " fails when it is run, another is used: ") != NULL;
    if (level != LS_LOG_WARNING) return;
    strncat(logged, message, sizeof(logged) - strlen(logged) - 2);
    strcat(logged, "\n");
}

/* ---- A run ---- */

static ls_status keep(const ls_custom_op_call *call);

typedef struct shape {
    ls_custom_op_config op; /* forward NULL: none */
} shape;

static ls_node *model(ls_graph *g, ls_node *x, const void *options)
{
    const shape *s = options;
    x = ls_conv2d(g, "conv", x, 4, &(ls_conv2d_config){ .kernel = 3, .padding = 1 });
    x = ls_relu(g, ls_batch_norm(g, "bn", x, NULL));
    x = ls_dropout(g, ls_global_avg_pool(g, x), 0.3f);
    if (s->op.forward) {
        ls_custom_op_config op = s->op;
        op.kind = "mine";
        op.output = (ls_spec){ LS_F32, ls_node_shape(x) };
        ls_node *y = ls_custom_op(g, "mine", 1, &x, &op);
        x = y ? ls_add(g, x, y) : NULL;
    }
    return ls_linear(g, "fc", x, CLASSES, NULL);
}

typedef struct run {
    ls_context *ctx;
    ls_net *net;
    ls_optimizer *opt;
    ls_batch batches[MAX_IMAGES + 1]; /* by the number of their images */
    int64_t step;
    ls_precision precision;
} run;

static ls_precision precision;
static int shards;

static run open_run(const ls_context_config *with, const shape *s, int max_execution_plans)
{
    ls_context_config config = *with;
    config.device = "cuda";
    config.seed = 11;
    config.shards = shards;
    config.log = keep_log;
    logged[0] = '\0';
    run r = { .ctx = ls_context_open(&config) };
    r.net = ls_net_build(
        r.ctx, model, s,
        &(ls_net_config){ .input = { .image = { LS_U8, LS_SHAPE(BUILT_FOR, SIDE, SIDE, 3) },
                                     .std = { 0.2f, 0.3f, 0.25f },
                                     .n_classes = CLASSES },
                          .loss = { LS_LOSS_CROSS_ENTROPY },
                          .precision = precision,
                          .max_execution_plans = max_execution_plans });
    r.opt = ls_sgd(r.net, &(ls_sgd_config){ .momentum = 0.9f, .clip_norm = 0.5f });
    static uint8_t pixels[MAX_IMAGES * SIDE * SIDE * 3];
    int32_t labels[MAX_IMAGES];
    for (size_t i = 0; i < sizeof(pixels); i++) pixels[i] = (uint8_t)(i * 2654435761u >> 11);
    for (int i = 0; i < MAX_IMAGES; i++) labels[i] = i * 3 % CLASSES;
    for (int n = 1; n <= MAX_IMAGES; n++)
        r.batches[n] =
            (ls_batch){ .images =
                            ls_tensor_from_data(r.ctx, LS_U8, LS_SHAPE(n, SIDE, SIDE, 3), pixels),
                        .labels = ls_tensor_from_data(r.ctx, LS_I32, LS_SHAPE(n), labels),
                        .n = n };
    ck_assert_msg(ls_context_status(r.ctx) == LS_OK, "%s", ls_context_message(r.ctx));
    return r;
}

static run open_plain(void)
{
    return open_run(&(ls_context_config){ 0 }, &(shape){ 0 }, 0);
}

static ls_status step(run *r, int n, double lr)
{
    r->batches[n].step = r->step++;
    return ls_net_step(r->net, r->opt, &r->batches[n], lr);
}

static ls_step_digest checked_step(run *r, int n, double lr)
{
    ls_step_digest digest;
    ck_assert_msg(step(r, n, lr) == LS_OK, "%s", ls_context_message(r->ctx));
    ck_assert_int_eq(ls_net_digest(r->net, &r->batches[n], &digest), LS_OK);
    return digest;
}

/* ---- The same bits ---- */

enum { MAX_STEPS = 64 };

/* All that may change between steps. Gives the steps' digests, and how many there are. */
static int go_through_changes(run *r, ls_step_digest *out)
{
    int n = 0;
    for (int i = 0; i < 3; i++) out[n++] = checked_step(r, BUILT_FOR, 0.1);
    /* These steps need a larger arena, so all addresses change. */
    for (int i = 0; i < 4; i++) out[n++] = checked_step(r, MAX_IMAGES, 0.1 / (i + 1));
    ck_assert_int_eq(ls_net_evaluate(r->net, &r->batches[MAX_IMAGES]), LS_OK);
    for (int i = 0; i < 9; i++) out[n++] = checked_step(r, i % 3 + 2, 0.05 + 0.01 * i);
    for (int i = 0; i < 3; i++) {
        double top1, eval_loss;
        ck_assert_int_eq(ls_net_evaluate(r->net, &r->batches[3]), LS_OK);
        ck_assert_int_eq(ls_net_metric(r->net, "top1", &top1), LS_OK);
        ck_assert_int_eq(ls_net_loss(r->net, &eval_loss), LS_OK);
        out[n] = checked_step(r, MAX_IMAGES, 0.1);
        out[n++].loss += 100 * top1 + 1000 * eval_loss;
    }
    ck_assert_int_eq(ls_net_freeze(r->net, "conv*"), LS_OK);
    for (int i = 0; i < 3; i++) out[n++] = checked_step(r, MAX_IMAGES, 0.1);
    ck_assert_int_eq(ls_net_unfreeze(r->net, "*"), LS_OK);
    for (int i = 0; i < 3; i++) out[n++] = checked_step(r, MAX_IMAGES, 0.1);
    ls_optimizer *other = ls_adamw(r->net, &(ls_adam_config){ .weight_decay = 0.01f });
    for (int i = 0; i < 6; i++) { /* two take turns */
        ls_optimizer *last = r->opt;
        out[n++] = checked_step(r, MAX_IMAGES, 0.001);
        r->opt = other;
        other = last;
    }
    ls_optimizer_close(&other);
    for (int i = 0; i < 3; i++) out[n++] = checked_step(r, MAX_IMAGES, 0.001);
    ls_optimizer_close(&r->opt); /* another one may be given its memory */
    r->opt = ls_sgd(r->net, &(ls_sgd_config){ .momentum = 0.8f });
    for (int i = 0; i < 3; i++) out[n++] = checked_step(r, MAX_IMAGES, 0.1);
    other = r->opt;
    r->opt = ls_adam(r->net, &(ls_adam_config){ .accumulate = 3 });
    for (int i = 0; i < 9; i++) { /* two graphs take turns */
        r->batches[MAX_IMAGES].is_last = i == 4;
        out[n++] = checked_step(r, MAX_IMAGES, 0.001);
    }
    ls_optimizer_close(&r->opt);
    r->opt = other;
    ls__net_set_injected_fault(
        r->net, &(ls__injected_fault){ .epoch = 0, .step = r->step, .op = 4, .element = 1 });
    for (int i = 0; i < 2; i++) out[n++] = checked_step(r, MAX_IMAGES, 0.1);
    for (int i = 0; i < 3 && shards == 0; i++) { /* in three verbs */
        ck_assert_int_eq(ls_net_set_step(r->net, 1, i), LS_OK);
        ck_assert_int_eq(ls_net_feed(r->net, "input", r->batches[4].images), LS_OK);
        ck_assert_int_eq(ls_net_feed(r->net, "label", r->batches[4].labels), LS_OK);
        ck_assert_int_eq(ls_net_forward(r->net, LS_MODE_TRAIN), LS_OK);
        ck_assert_int_eq(ls_net_backward(r->net), LS_OK);
        ck_assert_int_eq(ls_optimizer_step(r->opt, 0.1), LS_OK);
        ck_assert_int_eq(ls_net_digest(r->net, &r->batches[4], &out[n++]), LS_OK);
    }
    ck_assert_int_le(n, MAX_STEPS);
    return n;
}

static void compare(ls_benchmark benchmark, int max_execution_plans)
{
    static ls_step_digest digests[2][MAX_STEPS];
    int n = 0;
    for (int plain = 0; plain < 2; plain++) {
        const ls_context_config config = { .benchmark = benchmark, .nvtx = plain == 1 };
        run r = open_run(&config, &(shape){ 0 }, max_execution_plans);
        memset(digests[plain], 0, sizeof(digests[plain]));
        n = go_through_changes(&r, digests[plain]);
        if (plain)
            ck_assert_int_eq(graphs(), 0);
        else
            ck_assert_int_gt(graphs(), 0);
        ck_assert_str_eq(logged, "");
        ls_context_close(&r.ctx);
        ck_assert_int_eq(graphs(), 0);
    }
    for (int i = 0; i < n; i++) {
        ck_assert_msg(digests[0][i].loss == digests[1][i].loss, "step %d: loss", i);
        ck_assert_mem_eq(&digests[0][i].gradients, &digests[1][i].gradients, sizeof(ls_digest));
        ck_assert_mem_eq(&digests[0][i].weights, &digests[1][i].weights, sizeof(ls_digest));
    }
}

START_TEST(bits_of_plain_steps)
{
    compare(LS_BENCHMARK_OFF, 0);
}
END_TEST

/* Programs leave the cache and are made again. */
START_TEST(bits_with_few_plans)
{
    compare(LS_BENCHMARK_OFF, 1);
}
END_TEST

START_TEST(bits_with_timed_kernels)
{
    setenv("LOCKSTEP_EMULATED_LIBRARY", "1", 1);
    compare(LS_BENCHMARK_ON, 0);
    unsetenv("LOCKSTEP_EMULATED_LIBRARY");
}
END_TEST

/* With loss scaling, whose numbers live on the device. */
START_TEST(bits_in_f16)
{
    precision = LS_PRECISION_F16;
    compare(LS_BENCHMARK_OFF, 0);
    precision = LS_PRECISION_F32;
}
END_TEST

/* A graph per shape of a shard, and one with the update. Of a batch of 3, shards have 1 and 2
 * images. */
START_TEST(bits_of_shards)
{
    shards = 2;
    compare(LS_BENCHMARK_OFF, 0);
    compare(LS_BENCHMARK_OFF, 1);
    shards = 0;
}
END_TEST

/* ---- What a replayed step costs ---- */

/* Calls of the driver: the wait for the step before the last one, two copies, the step's numbers,
 * the graph, the event; then the results: gathered, copied, an event. An evaluation has no use for
 * numbers. */
enum { LAUNCH_CALL = 5, STEP_CALLS = 9, EVALUATION_CALLS = 8 };

START_TEST(calls_of_a_replayed_step)
{
    setenv("LOCKSTEP_EMULATED_STREAMS", "late", 1);
    run r = open_plain();
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(step(&r, MAX_IMAGES, 0.1), LS_OK);
        ck_assert_int_eq(graphs(), i);
    }
    for (int i = 0; i < 2; i++) ck_assert_int_eq(ls_net_evaluate(r.net, &r.batches[3]), LS_OK);
    ck_assert_int_eq(graphs(), 2);
    const ls_memory_stats before = ls_context_memory(r.ctx);
    int64_t queued = 0;
    for (int i = 0; i < 6; i++) {
        emulated_fail_at(0, false);
        ck_assert_int_eq(step(&r, MAX_IMAGES, 0.1 / (i + 1)), LS_OK);
        ck_assert_int_eq(calls(), STEP_CALLS);
        /* A bound limits the steps that are queued. */
        if (i > 2) ck_assert_int_eq(emulated_count("emulate_queued"), queued);
        queued = emulated_count("emulate_queued");
    }
    emulated_fail_at(0, false);
    ck_assert_int_eq(ls_net_evaluate(r.net, &r.batches[3]), LS_OK);
    ck_assert_int_eq(calls(), EVALUATION_CALLS);
    const ls_memory_stats after = ls_context_memory(r.ctx);
    ck_assert_int_eq(after.n_allocated, before.n_allocated);
    ck_assert_int_eq(after.n_reused, before.n_reused);
    ls_context_close(&r.ctx);
}
END_TEST

/* ---- What can't be captured ---- */

static int n_calls_back;

static ls_status keep(const ls_custom_op_call *call)
{
    (void)call;
    n_calls_back++;
    return LS_OK;
}

/* Breaks the promise: waits. */
static ls_status wait(const ls_custom_op_call *call)
{
    ls_context *ctx = call->user;
    n_calls_back++;
    return ctx ? ctx->device->backend->wait(ctx->device) : LS_OK;
}

START_TEST(own_ops)
{
    for (int promise = 0; promise < 2; promise++) {
        const shape s = { { .forward = keep, .capturable = promise == 1 } };
        run r = open_run(&(ls_context_config){ 0 }, &s, 0);
        n_calls_back = 0;
        for (int i = 0; i < 5; i++) ck_assert_int_eq(step(&r, MAX_IMAGES, 0.1), LS_OK);
        ck_assert_int_eq(n_calls_back, promise ? 2 : 5);
        ck_assert_int_eq(graphs(), promise);
        ls_context_close(&r.ctx);
    }
}
END_TEST

/* A recording that fails is a warning, once, and steps go on. */
START_TEST(broken_promise)
{
    shape s = { { .forward = wait, .capturable = true } };
    ls_context *ctx = ls_context_open(&(ls_context_config){ .device = "cuda", .log = keep_log });
    s.op.user = ctx;
    ls_net *net =
        ls_net_build(ctx, model, &s,
                     &(ls_net_config){ .input = { .image = { LS_F32, LS_SHAPE(2, SIDE, SIDE, 3) } },
                                       .inference = true });
    const float pixels[2 * SIDE * SIDE * 3] = { 1 };
    ls_tensor *images = ls_tensor_from_data(ctx, LS_F32, LS_SHAPE(2, SIDE, SIDE, 3), pixels);
    logged[0] = '\0';
    n_calls_back = 0;
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(ls_net_feed(net, "input", images), LS_OK);
        ck_assert_msg(ls_net_forward(net, LS_MODE_EVAL) == LS_OK, "%s", ls_context_message(ctx));
    }
    ck_assert_int_eq(n_calls_back, 5); /* that of the recording, too */
    ck_assert_msg(strstr(logged, "queued op by op: mine 'mine'") != NULL, "%s", logged);
    ck_assert_ptr_eq(strchr(logged, '\n'), logged + strlen(logged) - 1);
    ck_assert_int_eq(graphs(), 0);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(ranges)
{
    ls_context *cpu = ls_context_open(&(ls_context_config){ .nvtx = true });
    expect_error(cpu, LS_ERR_UNSUPPORTED, "nvtx");
    ls_context_close(&cpu);
    run r = open_run(&(ls_context_config){ .nvtx = true }, &(shape){ 0 }, 0);
    ck_assert_int_eq(step(&r, MAX_IMAGES, 0.1), LS_OK);
    void *symbol = module_symbol("emulate_ranges");
    emulate_ranges_fn *function;
    memcpy(&function, &symbol, sizeof(function));
    const char *all = function();
    static const char *const wanted[] = { "input 'label'{}\n", "conv2d 'conv'{}\n",
                                          "dropout_backward", "sgd 'optimizer'{}\n" };
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
        ck_assert_msg(strstr(all, wanted[i]) != NULL, "no %s in\n%s", wanted[i], all);
    ls_context_close(&r.ctx);
}
END_TEST

/* ---- Failures ---- */

enum { FAILING_STEPS = 5 };

/* Runs steps of which one call fails. Gives the first status that is not LS_OK. */
static ls_status failing_steps(run *r, int64_t call, bool sticky)
{
    n_passed_over = 0;
    emulated_fail_at(call, sticky);
    for (int i = 0; i < FAILING_STEPS; i++) {
        const ls_status status = step(r, 3, 0.1);
        if (status != LS_OK) return status;
    }
    return LS_OK;
}

/* An error with the device's own reason; after one that is not the device's end, steps go on. */
static void check_failure(run *r, ls_status status, bool sticky, int64_t call)
{
    ck_assert_int_eq(ls_context_status(r->ctx), status);
    const char *message = ls_context_message(r->ctx);
    const bool by_library = strstr(message, "cuDNN: ") || strstr(message, "cuBLASLt: ");
    ck_assert_msg(strstr(message, "CUDA: ") || (!sticky && by_library), "call %d: %s", (int)call,
                  message);
    ls_context_clear_error(r->ctx);
    if (!sticky) {
        emulated_fail_at(0, false);
        for (int i = 0; i < 3; i++)
            ck_assert_msg(step(r, 3, 0.1) == LS_OK, "call %d: %s", (int)call,
                          ls_context_message(r->ctx));
        return;
    }
    ck_assert_msg(step(r, 3, 0.1) == LS_ERR_EARLIER, "call %d: %s", (int)call,
                  ls_context_message(r->ctx));
    ck_assert_int_eq(ls_net_evaluate(r->net, &r->batches[3]), LS_ERR_EARLIER);
    ck_assert_ptr_null(ls_tensor_open(r->ctx, LS_F32, LS_SHAPE(3)));
    expect_error(r->ctx, status, "This process can't use the device any more");
}

START_TEST(every_call_fails_in_turn)
{
    run working = open_plain();
    ck_assert_int_eq(failing_steps(&working, 0, false), LS_OK);
    const int64_t n = calls();
    const ls_step_digest wanted = checked_step(&working, 3, 0.1);
    ls_context_close(&working.ctx);
    int n_survived = 0, n_passed = 0;
    for (int64_t i = 1; i <= n; i++)
        for (int sticky = 0; sticky < 2; sticky++) {
            run r = open_plain();
            const ls_status status = failing_steps(&r, i, sticky);
            if (status == LS_OK && n_passed_over > 0) { /* with another kernel */
                ck_assert_int_eq(sticky, 0);
                n_passed++;
            } else if (status == LS_OK) { /* what failed was the recording: the bits are the same */
                ck_assert_int_eq(sticky, 0);
                ck_assert_msg(strstr(logged, "can't be captured") != NULL, "call %d", (int)i);
                emulated_fail_at(0, false);
                const ls_step_digest got = checked_step(&r, 3, 0.1);
                ck_assert_mem_eq(&got.weights, &wanted.weights, sizeof(ls_digest));
                n_survived++;
            } else {
                check_failure(&r, status, sticky, i);
            }
            emulated_fail_at(0, false);
            ls_context_close(&r.ctx);
            ck_assert_int_eq(graphs(), 0);
        }
    ck_assert_int_gt(n_survived, 20);
    ck_assert_int_eq(n_passed > 0, getenv("LOCKSTEP_TEST_LIBRARIES") != NULL);
}
END_TEST

START_TEST(errors_say_where)
{
    run r = open_plain();
    for (int i = 0; i < 3; i++) ck_assert_int_eq(step(&r, MAX_IMAGES, 0.1), LS_OK);
    emulated_fail_at(LAUNCH_CALL, false);
    ck_assert_int_eq(step(&r, MAX_IMAGES, 0.1), LS_ERR_DEVICE);
    ck_assert_str_eq(ls_context_message(r.ctx), "step 3 of epoch 0: graph replay: CUDA: too "
                                                "many resources requested for launch");
    ls_context_close(&r.ctx);
    r = open_run(&(ls_context_config){ .nvtx = true }, &(shape){ 0 }, 0);
    ck_assert_int_eq(step(&r, MAX_IMAGES, 0.1), LS_OK);
    emulated_fail_at(5, false); /* wait, copy, copy, normalize, convolution */
    ck_assert_int_eq(step(&r, MAX_IMAGES, 0.1), LS_ERR_DEVICE);
    ck_assert_msg(strncmp(ls_context_message(r.ctx), "conv2d 'conv': ", 15) == 0, "%s",
                  ls_context_message(r.ctx));
    ls_context_close(&r.ctx);
}
END_TEST

/* Libraries allow only those tests that neither count calls nor require equal bits of all kernels.
 */
TEST_PROGRAM(cuda_capture)
{
    if (getenv("LOCKSTEP_TEST_LIBRARIES"))
        return RUN_SUITE("cuda capture, libraries", bits_of_plain_steps, bits_with_few_plans,
                         bits_in_f16, bits_of_shards, every_call_fails_in_turn);
    return RUN_SUITE("cuda capture", bits_of_plain_steps, bits_with_few_plans,
                     bits_with_timed_kernels, bits_in_f16, bits_of_shards, calls_of_a_replayed_step,
                     own_ops, broken_promise, ranges, every_call_fails_in_turn, errors_say_where);
}
