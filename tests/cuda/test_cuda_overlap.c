/* Gradients of weights in a stream of their own, on the emulated CUDA device: the same bits as in
 * order, recorded or not, in many orders of the streams; which instructions they are and how long
 * their memory lives; every call failing in turn. */
#include "../suite.h"
#include "base/context.h"
#include "emulator/driver.h"
#include "emulator/symbol.h"
#include "nn/net/net_state.h"
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIDE = 9, CLASSES = 5, BATCH = 4, CHANNELS = 8, STEPS = 5, N_WEIGHTS = 7 };

static char logged[1 << 12];
static void keep_log(void *user, ls_log_level level, ls_log_category category, const char *message)
{
    (void)category;
    (void)user;
    if (level != LS_LOG_WARNING) return;
    strncat(logged, message, sizeof(logged) - strlen(logged) - 2);
}

/* ---- A net: a stem, two blocks with a shortcut, a linear layer: N_WEIGHTS gradients ---- */

static ls_status copy(const ls_custom_op_call *call, void *to, const void *from)
{
    ls_context *ctx = call->user;
    const size_t bytes = (size_t)ls_shape_element_count(&call->output_spec.shape) * sizeof(float);
    return ctx->device->backend->copy(ctx->device, to, from, bytes);
}

static ls_status pass(const ls_custom_op_call *call)
{
    return copy(call, call->output, call->inputs[0]);
}

static ls_status pass_back(const ls_custom_op_call *call)
{
    return copy(call, call->input_gradients[0], call->output_gradient);
}

typedef struct options {
    bool plainly; /* with an op that can't be captured */
    ls_context *ctx;
} options;

static ls_node *norm(ls_graph *g, const char *name, ls_node *x)
{
    return ls_batch_norm(g, name, x, NULL);
}

static ls_node *model(ls_graph *g, ls_node *x, const void *with)
{
    const options *o = with;
    const ls_conv2d_config three = { .kernel = 3, .padding = 1 },
                           down = { .kernel = 3, .stride = 2, .padding = 1 },
                           skip = { .stride = 2 }, bias = { .bias = true };
    x = ls_relu(g, norm(g, "bn1", ls_conv2d(g, "conv1", x, CHANNELS, &three)));
    /* One gradient goes to conv6 and to bn1, which could write its own in the same memory. */
    x = ls_add(g, ls_conv2d(g, "conv6", x, CHANNELS, &three), x);
    ls_node *y = ls_relu(g, norm(g, "bn2", ls_conv2d(g, "conv2", x, CHANNELS, &down)));
    y = norm(g, "bn3", ls_conv2d(g, "conv3", y, 2 * CHANNELS, &three));
    x = norm(g, "bn4", ls_conv2d(g, "conv4", x, 2 * CHANNELS, &skip));
    x = ls_relu(g, ls_add(g, y, x));
    x = ls_conv2d(g, "conv5", x, CHANNELS, &bias);
    x = ls_dropout(g, ls_global_avg_pool(g, x), 0.3f);
    x = ls_linear(g, "fc", x, CLASSES, NULL);
    if (!o->plainly) return x;
    return ls_custom_op(g, "mine", 1, &x,
                        &(ls_custom_op_config){ .kind = "mine",
                                                .forward = pass,
                                                .backward = pass_back,
                                                .user = o->ctx,
                                                .output = { LS_F32, ls_node_shape(x) } });
}

typedef struct run {
    ls_context *ctx;
    ls_net *net;
    ls_optimizer *opt;
    ls_batch batch;
} run;

static const char *text_of(ls_precision precision)
{
    return precision == LS_PRECISION_BF16
               ? "weight_gradients BF16 U8:4x9x9x3 I32:4, 2925 parameters"
               : "weight_gradients F32 U8:4x9x9x3 I32:4, 2925 parameters";
}

/* The gradient of a padded stem is made in another place first, so it stays in order. */
static int side_count(ls_precision precision)
{
    return precision == LS_PRECISION_BF16 ? N_WEIGHTS - 1 : N_WEIGHTS;
}

static void settle(ls_context *ctx, const char *text, const char *where)
{
    ls__selection choice = { .op = text, .reason = "test" };
    snprintf(choice.kernel, sizeof choice.kernel, "%s", where);
    ck_assert_int_eq(ls__selections_put(ctx, ctx->selections, &choice), LS_OK);
}

static ls_benchmark benchmark;

/* where NULL: nothing is settled. */
static run try_run(ls_precision precision, const char *where, bool plainly)
{
    run r = { .ctx = ls_context_open(&(ls_context_config){
                  .device = "cuda", .seed = 3, .benchmark = benchmark, .log = keep_log }) };
    const options with = { plainly, r.ctx };
    logged[0] = '\0';
    if (where) settle(r.ctx, text_of(precision), where);
    r.net = ls_net_build(
        r.ctx, model, &with,
        &(ls_net_config){ .input = { .image = { LS_U8, LS_SHAPE(BATCH, SIDE, SIDE, 3) },
                                     .std = { 0.2f, 0.3f, 0.25f },
                                     .n_classes = CLASSES },
                          .loss = { LS_LOSS_CROSS_ENTROPY },
                          .precision = precision });
    r.opt = ls_sgd(r.net, &(ls_sgd_config){ .momentum = 0.9f, .clip_norm = 0.5f });
    static uint8_t pixels[BATCH * SIDE * SIDE * 3];
    int32_t labels[BATCH];
    for (size_t i = 0; i < sizeof(pixels); i++) pixels[i] = (uint8_t)(i * 2654435761u >> 11);
    for (int i = 0; i < BATCH; i++) labels[i] = i * 3 % CLASSES;
    r.batch = (ls_batch){ .images = ls_tensor_from_data(r.ctx, LS_U8,
                                                        LS_SHAPE(BATCH, SIDE, SIDE, 3), pixels),
                          .labels = ls_tensor_from_data(r.ctx, LS_I32, LS_SHAPE(BATCH), labels),
                          .n = BATCH };
    return r;
}

static run open_run(ls_precision precision, const char *where, bool plainly)
{
    const run r = try_run(precision, where, plainly);
    ck_assert_msg(ls_context_status(r.ctx) == LS_OK, "%s", ls_context_message(r.ctx));
    return r;
}

static ls_status step(run *r)
{
    r->batch.step++;
    return ls_net_step(r->net, r->opt, &r->batch, 0.1);
}

static ls_step_digest checked_step(run *r)
{
    ls_step_digest digest;
    ck_assert_msg(step(r) == LS_OK, "%s", ls_context_message(r->ctx));
    ck_assert_int_eq(ls_net_digest(r->net, &r->batch, &digest), LS_OK);
    return digest;
}

/* The steps run without a digest in between, so that they are queued behind each other. */
static ls_step_digest last_of_steps(run *r)
{
    for (int i = 1; i < STEPS; i++) ck_assert_int_eq(step(r), LS_OK);
    return checked_step(r);
}

static ls__program *train_program(const run *r)
{
    for (int i = 0; i < r->net->cache.n_programs; i++)
        if (r->net->cache.programs[i]->gradients) return r->net->cache.programs[i];
    return NULL;
}

static int count_side(const run *r)
{
    const ls__program *p = train_program(r);
    int n = 0;
    for (int i = 0; i < p->n_instructions; i++) n += p->instructions[i].side;
    return n;
}

static void check_equal(const ls_step_digest *a, const ls_step_digest *b, const char *what)
{
    ck_assert_msg(a->loss == b->loss, "%s: loss", what);
    ck_assert_msg(memcmp(&a->gradients, &b->gradients, sizeof(ls_digest)) == 0, "%s: gradients",
                  what);
    ck_assert_msg(memcmp(&a->weights, &b->weights, sizeof(ls_digest)) == 0, "%s: weights", what);
}

/* ---- The same bits ---- */

static ls_precision precision;

static const char *const orders[] = { "late", "now", "1", "2", "3", "4", "5", "6", "7", "8" };
enum { N_ORDERS = sizeof(orders) / sizeof(orders[0]) };

static void compare(bool plainly)
{
    setenv("LOCKSTEP_EMULATED_STREAMS", "late", 1);
    run plain = open_run(precision, NULL, plainly);
    ck_assert_int_eq(count_side(&plain), 0);
    const ls_step_digest wanted = last_of_steps(&plain);
    ls_context_close(&plain.ctx);
    for (int i = 0; i < N_ORDERS; i++) {
        setenv("LOCKSTEP_EMULATED_STREAMS", orders[i], 1);
        run r = open_run(precision, "side", plainly);
        ck_assert_int_eq(count_side(&r), side_count(precision));
        const ls_step_digest got = last_of_steps(&r);
        check_equal(&got, &wanted, orders[i]);
        ck_assert_int_eq(ls__net_is_captured(r.net), !plainly);
        if (!plainly) ck_assert_int_ge(emulated_count("emulate_beside"), side_count(precision));
        ck_assert_str_eq(logged, "");
        ls_context_close(&r.ctx);
    }
}

START_TEST(bits_of_recorded_steps)
{
    compare(false);
}
END_TEST

START_TEST(bits_of_plain_steps)
{
    compare(true);
}
END_TEST

START_TEST(bits_in_bf16)
{
    precision = LS_PRECISION_BF16;
    compare(false);
    compare(true);
}
END_TEST

/* Forward and backward by themselves: gradients are read without an update. */
START_TEST(bits_of_three_verbs)
{
    ls_step_digest digests[2];
    for (int side = 0; side < 2; side++) {
        run r = open_run(precision, side ? "side" : "main", false);
        for (int i = 0; i < 4; i++) {
            ck_assert_int_eq(ls_net_set_step(r.net, 0, i), LS_OK);
            ck_assert_int_eq(ls_net_feed(r.net, "input", r.batch.images), LS_OK);
            ck_assert_int_eq(ls_net_feed(r.net, "label", r.batch.labels), LS_OK);
            ck_assert_int_eq(ls_net_forward(r.net, LS_MODE_TRAIN), LS_OK);
            ck_assert_int_eq(ls_net_backward(r.net), LS_OK);
            ck_assert_int_eq(ls_net_digest(r.net, &r.batch, &digests[side]), LS_OK);
            ck_assert_int_eq(ls_optimizer_step(r.opt, 0.1), LS_OK);
        }
        ls_context_close(&r.ctx);
    }
    check_equal(&digests[1], &digests[0], "three verbs");
}
END_TEST

/* ---- What runs beside what ---- */

typedef struct range {
    const unsigned char *begin, *end;
} range;

/* The memory of an operand, or of the workspace (operand -1). */
static range range_of(const ls__program *p, const ls__instruction *in, int operand)
{
    const int v = operand < 0 ? in->workspace : in->operands[operand];
    if (v < 0) return (range){ NULL, NULL };
    const unsigned char *begin = ls__program_address(p, v);
    return (range){ begin, begin + p->values[v].bytes };
}

/* What one of two instructions writes that run at the same time stays off the other's memory. */
static void check_apart(const ls__program *p, const ls__instruction *side,
                        const ls__instruction *other)
{
    for (int i = -1; i < side->op.n_operands; i++)
        for (int j = -1; j < other->op.n_operands; j++) {
            /* both may read the same */
            if (i >= 0 && i < side->n_inputs && j >= 0 && j < other->n_inputs) continue;
            const range a = range_of(p, side, i), b = range_of(p, other, j);
            ck_assert_msg(a.end <= b.begin || b.end <= a.begin, "%s '%s' and %s '%s'",
                          ls__op_name(side->op.kind), side->node->name, ls__op_name(other->op.kind),
                          other->node->name);
        }
}

START_TEST(memory_lives_until_the_join)
{
    for (int half = 0; half < 2; half++) {
        run r = open_run(half ? LS_PRECISION_BF16 : LS_PRECISION_F32, "side", false);
        const ls__program *p = train_program(&r);
        int n = 0, last = 0;
        for (int i = 0; i < p->n_instructions; i++) {
            const ls__instruction *in = &p->instructions[i];
            ck_assert_int_eq(in->joins, in->side && i == last);
            if (!in->side) continue;
            ck_assert(last <= i || in->joined == last);
            last = in->joined;
            ck_assert_int_gt(last, i);
            for (int j = i + 1; j < last; j++) {
                if (p->instructions[j].skipped) continue;
                check_apart(p, in, &p->instructions[j]);
                n++;
            }
        }
        ck_assert_int_eq(last, p->n_instructions);
        ck_assert(p->joins_at_end);
        ck_assert_int_gt(n, N_WEIGHTS);
        ls_context_close(&r.ctx);
    }
}
END_TEST

/* A program without gradients of weights has no second stream, and no entry in the algorithm cache.
 */
START_TEST(nothing_to_overlap)
{
    run r = open_run(LS_PRECISION_F32, "side", false);
    ck_assert_int_eq(ls_net_freeze(r.net, "conv*"), LS_OK);
    ck_assert_int_eq(ls_net_freeze(r.net, "fc*"), LS_OK);
    for (int i = 0; i < 3; i++) (void)checked_step(&r);
    ck_assert_int_eq(count_side(&r), 0);
    ck_assert(!train_program(&r)->overlaps && !train_program(&r)->joins_at_end);
    ck_assert_int_eq(ls_net_unfreeze(r.net, "*"), LS_OK);
    for (int i = 0; i < 3; i++) (void)checked_step(&r);
    ck_assert_int_eq(count_side(&r), N_WEIGHTS);
    ls_context_close(&r.ctx);
    r = open_run(LS_PRECISION_F32, NULL, false);
    ck_assert_ptr_null(ls__selections_find(r.net->selector.used, text_of(LS_PRECISION_F32)));
    ls_context_close(&r.ctx);
}
END_TEST

/* ---- By time ---- */

/* No gradient is left of the timing. */
static void check_no_gradients(const run *r)
{
    enum { MAX_ELEMENTS = 1 << 13 };
    static float gradients[MAX_ELEMENTS];
    const int64_t n = r->net->blocks.parameter_elements;
    ck_assert_int_le(n, MAX_ELEMENTS);
    ck_assert_int_eq(r->ctx->device->backend->read(r->ctx->device, gradients,
                                                   r->net->blocks.gradients,
                                                   (size_t)n * sizeof(float)),
                     LS_OK);
    for (int64_t i = 0; i < n; i++) ck_assert_float_eq(gradients[i], 0);
}

/* A net that is built with benchmark on, and what it has chosen. */
static ls_step_digest check_timed(ls_precision with, const char *where, const char *reason)
{
    benchmark = LS_BENCHMARK_ON;
    run r = open_run(with, NULL, false);
    benchmark = LS_BENCHMARK_OFF;
    const ls__selection *choice = ls__selections_find(r.net->selector.used, text_of(with));
    ck_assert_ptr_nonnull(choice);
    ck_assert_str_eq(choice->kernel, where);
    ck_assert_msg(strncmp(choice->reason, reason, strlen(reason)) == 0, "%s", choice->reason);
    ck_assert_int_eq(count_side(&r), strcmp(where, "side") == 0 ? side_count(with) : 0);
    ck_assert_uint_eq(r.net->env.arena_bytes, train_program(&r)->arena_bytes);
    check_no_gradients(&r);
    const ls_step_digest digest = last_of_steps(&r);
    ls_context_close(&r.ctx);
    return digest;
}

START_TEST(choice_by_time)
{
    setenv("LOCKSTEP_EMULATED_LIBRARY", "1", 1);
    (void)check_timed(LS_PRECISION_BF16, "side", "timed ");
    const ls_step_digest side = check_timed(LS_PRECISION_F32, "side", "timed ");
    setenv("LOCKSTEP_EMULATED_FULL", "1", 1); /* one stream takes all of the device */
    const ls_step_digest plain = check_timed(LS_PRECISION_F32, "main", "timed ");
    check_equal(&side, &plain, "timed");
}
END_TEST

START_TEST(timing_has_a_budget)
{
    run r = open_run(LS_PRECISION_F32, "side", false);
    ls__program *p = train_program(&r);
    double main_ms, side_ms;
    ck_assert_int_eq(ls__time_overlap(r.net, p, 1, &main_ms, &side_ms), LS_OK);
    ck_assert(main_ms < 0 && side_ms < 0);
    ck_assert_int_eq(ls__time_overlap(r.net, p, 1000, &main_ms, &side_ms), LS_OK);
    ck_assert(side_ms > 0 && side_ms < main_ms);
    ls_context_close(&r.ctx);
}
END_TEST

/* Another context loads the selection from a file. */
START_TEST(selection_in_a_file)
{
    char path[64];
    snprintf(path, sizeof(path), "/tmp/lockstep_overlap_%d.json", (int)getpid());
    run r = open_run(LS_PRECISION_F32, "side", false);
    const ls__selection *used =
        ls__selections_find(r.net->selector.used, text_of(LS_PRECISION_F32));
    ck_assert_ptr_nonnull(used);
    ck_assert_str_eq(used->kernel, "side");
    ck_assert_int_eq(ls_algorithm_cache_save(r.ctx, path), LS_OK);
    ls_context_close(&r.ctx);
    ls_context *ctx = ls_context_open(&(ls_context_config){ .device = "cuda" });
    ck_assert_msg(ls_algorithm_cache_load(ctx, path) == LS_OK, "%s", ls_context_message(ctx));
    ck_assert_str_eq(ls__selections_find(ctx->selections, text_of(LS_PRECISION_F32))->kernel,
                     "side");
    char text[1 << 14] = "";
    FILE *file = fopen(path, "r+b");
    ck_assert(file && fread(text, 1, sizeof(text) - 1, file) > 0 && strstr(text, "\"side\""));
    ck_assert_int_eq(fseek(file, strstr(text, "side") - text, SEEK_SET), 0);
    ck_assert(fputc('S', file) == 'S' && fclose(file) == 0);
    ck_assert_int_eq(ls_algorithm_cache_load(ctx, path), LS_ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(ls_context_message(ctx), "is 'Side', expected 'side' or 'main'"));
    ls_context_close(&ctx);
    remove(path);
}
END_TEST

/* Which stream it was is no part of a run's identity: a run goes on in the other. */
START_TEST(streams_are_not_in_the_identity)
{
    char path[64];
    snprintf(path, sizeof(path), "/tmp/lockstep_overlap_%d.safetensors", (int)getpid());
    run r = open_run(LS_PRECISION_F32, "side", false);
    ls_training_state state = { .net = r.net, .optimizer = r.opt };
    (void)checked_step(&r);
    ck_assert_msg(ls_checkpoint_save(&state, path) == LS_OK, "%s", ls_context_message(r.ctx));
    const ls_step_digest wanted = checked_step(&r);
    ls_context_close(&r.ctx);
    for (int side = 0; side < 2; side++) {
        r = open_run(LS_PRECISION_F32, side ? "side" : "main", false);
        state = (ls_training_state){ .net = r.net, .optimizer = r.opt };
        ck_assert_msg(ls_checkpoint_load(&state, path) == LS_OK, "%s", ls_context_message(r.ctx));
        r.batch.step = 1;
        const ls_step_digest got = checked_step(&r);
        check_equal(&got, &wanted, "resumed");
        ck_assert_int_eq(count_side(&r), side ? N_WEIGHTS : 0);
        ls_context_close(&r.ctx);
    }
    remove(path);
}
END_TEST

/* ---- Failures ---- */

/* The first status that is not LS_OK of steps of which one call fails. */
static ls_status failing_steps(run *r, int n, int64_t call, bool sticky)
{
    emulated_fail_at(call, sticky);
    for (int i = 0; i < n; i++) {
        const ls_status status = step(r);
        if (status != LS_OK) return status;
    }
    return LS_OK;
}

/* Memory that was the net's does not change once it is someone else's. */
static void check_released_memory(run *r)
{
    enum { N_TENSORS = 400, ELEMENTS = 1024 };
    static float ones[ELEMENTS], got[ELEMENTS];
    ls_tensor *tensors[N_TENSORS];
    for (int i = 0; i < ELEMENTS; i++) ones[i] = 1;
    ls_optimizer_close(&r->opt);
    ls_net_close(&r->net);
    for (int i = 0; i < N_TENSORS; i++) {
        tensors[i] = ls_tensor_from_data(r->ctx, LS_F32, LS_SHAPE(ELEMENTS), ones);
        ck_assert_ptr_nonnull(tensors[i]);
    }
    ck_assert_int_eq(r->ctx->device->backend->wait(r->ctx->device), LS_OK);
    for (int i = 0; i < N_TENSORS; i++) {
        ck_assert_int_eq(ls_tensor_read(tensors[i], got, sizeof(got)), LS_OK);
        ck_assert_mem_eq(got, ones, sizeof(got));
    }
}

/* Steps that are recorded: the first runs plainly, the second is recorded, the third replayed. */
static void fail_every_call(bool plainly)
{
    const int n_steps = plainly ? 1 : 3;
    run working = open_run(LS_PRECISION_F32, "side", plainly);
    ck_assert_int_eq(failing_steps(&working, n_steps, 0, false), LS_OK);
    const int64_t n = emulated_count("emulate_calls");
    const ls_step_digest wanted = checked_step(&working);
    ls_context_close(&working.ctx);
    int n_survived = 0;
    for (int64_t i = 1; i <= n; i += cases_step())
        for (int sticky = 0; sticky < (plainly || i % 4 ? 1 : 2); sticky++) {
            run r = open_run(LS_PRECISION_F32, "side", plainly);
            const ls_status status = failing_steps(&r, n_steps, i, sticky);
            if (status == LS_OK) { /* the recording failed */
                ck_assert(!plainly && !sticky);
                ck_assert_msg(strstr(logged, "can't be captured") != NULL, "call %d", (int)i);
                emulated_fail_at(0, false);
                const ls_step_digest got = checked_step(&r);
                check_equal(&got, &wanted, "after a failed recording");
                n_survived++;
            } else {
                expect_error(r.ctx, status, "CUDA: ");
                if (!sticky) emulated_fail_at(0, false);
                if (!sticky && i % 2) check_released_memory(&r);
                for (int j = 0; j < 3 && r.net && !sticky; j++) (void)checked_step(&r);
            }
            emulated_fail_at(0, false);
            ls_context_close(&r.ctx);
            ck_assert_int_eq(emulated_count("emulate_held"), 0);
            ck_assert_int_eq(emulated_count("emulate_graphs"), 0);
        }
    ck_assert(plainly || n_survived * cases_step() > 20);
}

START_TEST(every_call_fails_in_turn)
{
    fail_every_call(false);
}
END_TEST

START_TEST(every_call_of_plain_steps_fails_in_turn)
{
    fail_every_call(true);
}
END_TEST

/* Some calls of a build that times: the net does without what failed, or is not built. */
START_TEST(calls_fail_while_timing)
{
    setenv("LOCKSTEP_EMULATED_LIBRARY", "1", 1);
    benchmark = LS_BENCHMARK_ON;
    run r = open_run(LS_PRECISION_F32, NULL, false);
    const int64_t n = emulated_count("emulate_calls");
    ls_context_close(&r.ctx);
    int n_built = 0;
    for (int64_t i = 20; i <= n; i += 163 * (cases_step() > 1 ? 2 : 1))
        for (int sticky = 0; sticky < 2; sticky++) {
            emulated_fail_at(i, sticky != 0);
            r = try_run(LS_PRECISION_F32, NULL, false);
            const ls_status status = ls_context_status(r.ctx);
            ck_assert(r.net || status != LS_OK);
            emulated_fail_at(0, false);
            for (int j = 0; j < 3 && status == LS_OK; j++) (void)checked_step(&r);
            n_built += status == LS_OK;
            ls_context_close(&r.ctx);
            ck_assert_int_eq(emulated_count("emulate_held"), 0);
            ck_assert_int_eq(emulated_count("emulate_graphs"), 0);
        }
    ck_assert_int_gt(n_built * (cases_step() > 1 ? 2 : 1), 5);
}
END_TEST

/* Profiles look at the ops one by one: they run in order, and the bits stay. */
START_TEST(profiles_run_in_order)
{
    run r = open_run(LS_PRECISION_F32, "side", false), plain;
    ls__net_profile(r.net);
    const ls_step_digest got = last_of_steps(&r);
    const ls__program *p = train_program(&r);
    for (int i = 0; i < p->n_calls; i++) ck_assert(!p->calls[i].side || p->calls[i].seconds > 0);
    ck_assert_int_eq(ls__net_is_captured(r.net), 0);
    plain = open_run(LS_PRECISION_F32, NULL, false);
    const ls_step_digest wanted = last_of_steps(&plain);
    check_equal(&got, &wanted, "profile");
    ls_context_close(&r.ctx);
    ls_context_close(&plain.ctx);
}
END_TEST

TEST_PROGRAM(cuda_overlap)
{
    if (getenv("LOCKSTEP_TEST_LIBRARIES"))
        return RUN_SUITE("cuda overlap, libraries", bits_of_recorded_steps, bits_of_plain_steps,
                         bits_in_bf16, memory_lives_until_the_join);
    return RUN_SUITE("cuda overlap", bits_of_recorded_steps, bits_of_plain_steps, bits_in_bf16,
                     bits_of_three_verbs, memory_lives_until_the_join, nothing_to_overlap,
                     choice_by_time, timing_has_a_budget, calls_fail_while_timing,
                     selection_in_a_file, streams_are_not_in_the_identity, every_call_fails_in_turn,
                     every_call_of_plain_steps_fails_in_turn, profiles_run_in_order);
}
