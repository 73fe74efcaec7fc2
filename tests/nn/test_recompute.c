/* test_recompute.c: which values are computed again in backward, that this takes less memory, and
 * that it changes no bit. */
#include "../suite.h"
#include "nn/net/net_state.h"
#include <lockstep/lockstep.h>
#include <string.h>

enum { BATCH = 4, SIDE = 12, LARGE_SIDE = 96, CLASSES = 4, STEPS = 3, LONG_CHAIN = 16 };
static const ls_spec images = { LS_U8, { 4, { BATCH, SIDE, SIDE, 3 } } };
static const ls_conv2d_config kernel3 = { .kernel = 3, .padding = 1 },
                              by2 = { .kernel = 3, .padding = 1, .stride = 2 },
                              shortcut_by2 = { .stride = 2 };

/* ---- Models ---- */

static ls_node *conv_norm(ls_graph *g, ls_node *x, int64_t channels, const ls_conv2d_config *config)
{
    x = ls_conv2d(g, "conv", x, channels, config);
    return ls_batch_norm(g, "bn", x, NULL);
}

static ls_node *scoped(ls_graph *g, const char *scope, int i, ls_node *x, int64_t channels,
                       const ls_conv2d_config *config)
{
    ls_scope_begin(g, "%s%d", scope, i);
    x = conv_norm(g, x, channels, config);
    ls_scope_end(g);
    return x;
}

static ls_node *block(ls_graph *g, int i, ls_node *x, int64_t channels, bool first)
{
    ls_node *y = ls_relu6(g, scoped(g, "a", i, x, channels, first ? &by2 : &kernel3));
    y = scoped(g, "b", i, y, channels, &kernel3);
    ls_node *skip = first ? scoped(g, "skip", i, x, channels, &shortcut_by2) : x;
    return ls_relu(g, ls_add(g, y, skip));
}

/* A stem, a pool, two stages of `options` blocks; odd channels. */
static ls_node *residual(ls_graph *g, ls_node *x, const void *options)
{
    const int n_blocks = *(const int *)options;
    x = ls_relu(g, scoped(g, "stem", 0, x, 9, &kernel3));
    x = ls_max_pool(g, x, &(ls_pool_config){ .kernel = 2 });
    for (int i = 0; i < 2 * n_blocks; i++) x = block(g, i, x, i < n_blocks ? 9 : 16, i == n_blocks);
    return ls_linear(g, "fc", ls_global_avg_pool(g, x), CLASSES, NULL);
}

static ls_status half_forward(const ls_custom_op_call *call)
{
    const float *x = call->inputs[0];
    float *y = call->output;
    for (int64_t i = 0; i < ls_shape_element_count(&call->output_spec.shape); i++)
        y[i] = 0.5f * x[i];
    return LS_OK;
}

static ls_status half_backward(const ls_custom_op_call *call)
{
    const float *dy = call->output_gradient;
    float *dx = call->input_gradients[0];
    for (int64_t i = 0; i < ls_shape_element_count(&call->output_spec.shape); i++)
        dx[i] = 0.5f * dy[i];
    return LS_OK;
}

/* What has to be kept: a named output, what is drawn, a user's op, ReLU of what nobody else reads.
 */
static ls_node *mixed(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    x = ls_output(g, "named", ls_relu(g, scoped(g, "c", 0, x, 8, &kernel3)));
    x = ls_dropout(g, ls_relu(g, scoped(g, "c", 1, x, 8, &kernel3)), 0.25f);
    x = ls_relu(g, ls_conv2d(g, "bare", x, 8, &kernel3));
    x = ls_avg_pool(g, ls_relu(g, scoped(g, "c", 2, x, 8, &kernel3)),
                    &(ls_pool_config){ .kernel = 2 });
    x = ls_pad_channels(g, x, 12);
    x = ls_custom_op(g, "half", 1, &x,
                     &(ls_custom_op_config){ .kind = "half",
                                             .output = { LS_F32, ls_node_shape(x) },
                                             .forward = half_forward,
                                             .backward = half_backward });
    x = ls_relu(g, ls_batch_norm(g, "last.bn", x, NULL));
    return ls_linear(g, "fc", ls_flatten(g, x), CLASSES, NULL);
}

/* ---- Runs ---- */

typedef struct run {
    ls_context *ctx;
    ls_net *net;
    ls_optimizer *opt;
    ls_batch batch;
} run;

/* Opens a run with a limit of device memory; 0 = none. net and opt are NULL if memory was too
 * short; the error is then kept. */
static run open_limited(ls_model_fn model, const void *options, ls_precision precision,
                        ls_recompute recompute, int threads, int64_t side, size_t limit_bytes)
{
    static uint8_t pixels[BATCH * LARGE_SIDE * LARGE_SIDE * 3];
    const ls_spec spec = { LS_U8, { 4, { BATCH, side, side, 3 } } };
    for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)(i * 2654435761u >> 13);
    run r = { .ctx = ls_context_open(&(ls_context_config){
                  .seed = 4, .threads = threads, .memory_limit_bytes = limit_bytes }) };
    r.net = ls_net_build(r.ctx, model, options,
                         &(ls_net_config){ .input = { .image = spec },
                                           .loss = { LS_LOSS_CROSS_ENTROPY },
                                           .precision = precision,
                                           .recompute = recompute });
    r.opt = ls_sgd(r.net, &(ls_sgd_config){ .momentum = 0.9f });
    r.batch = (ls_batch){ .images = ls_tensor_from_data(r.ctx, LS_U8, spec.shape, pixels),
                          .labels = ls_tensor_from_data(r.ctx, LS_I32, LS_SHAPE(BATCH),
                                                        (const int32_t[BATCH]){ 1, 3, 0, 2 }),
                          .n = BATCH };
    return r;
}

static run open_run(ls_model_fn model, const void *options, ls_precision precision,
                    ls_recompute recompute, int threads)
{
    run r = open_limited(model, options, precision, recompute, threads, SIDE, 0);
    ck_assert_msg(ls_context_status(r.ctx) == LS_OK, "%s", ls_context_message(r.ctx));
    return r;
}

static const ls__program *train_program(const ls_net *net)
{
    for (int i = 0; i < net->cache.n_programs; i++)
        if (net->cache.programs[i]->gradients) return net->cache.programs[i];
    ck_abort_msg("no train program");
    return NULL;
}

/* How many instructions of that kind compute something again. */
static int count_again(const run *r, ls__op_kind kind)
{
    const ls__program *p = train_program(r->net);
    int n = 0;
    for (int i = 0; i < p->n_instructions; i++) {
        const ls__instruction *in = &p->instructions[i];
        n += in->again && in->op.kind == kind;
        if (in->again) ck_assert(i >= p->n_forward && in->backward && !in->custom);
    }
    return n;
}

static void take_steps(run *r, int n)
{
    for (int i = 0; i < n; i++, r->batch.step++)
        ck_assert_msg(ls_net_step(r->net, r->opt, &r->batch, 0.05) == LS_OK, "%s",
                      ls_context_message(r->ctx));
}

static void check_equal(run *a, run *b)
{
    for (int64_t i = 0; i < ls_net_parameter_count(a->net); i++) {
        const ls_parameter_info x = ls_net_parameter_at(a->net, i),
                                y = ls_net_parameter_at(b->net, i);
        ls_digest values[2], gradients[2];
        ck_assert_int_eq(ls_tensor_digest(x.value, &values[0]), LS_OK);
        ck_assert_int_eq(ls_tensor_digest(y.value, &values[1]), LS_OK);
        ck_assert_msg(ls_digest_equal(values[0], values[1]), "%s has other bits", x.name);
        if (!x.gradient) continue;
        ck_assert_int_eq(ls_tensor_digest(x.gradient, &gradients[0]), LS_OK);
        ck_assert_int_eq(ls_tensor_digest(y.gradient, &gradients[1]), LS_OK);
        ck_assert_msg(ls_digest_equal(gradients[0], gradients[1]), "gradient of %s", x.name);
    }
}

static size_t arena_bytes(const run *r)
{
    return ls_net_memory_usage(r->net).arena_bytes;
}

/* ---- Tests ---- */

static void check_model(ls_model_fn model, const void *options, ls_precision precision)
{
    run kept = open_run(model, options, precision, LS_RECOMPUTE_NONE, 1);
    run again = open_run(model, options, precision, LS_RECOMPUTE_CHEAP, 2);
    ck_assert_int_eq(count_again(&kept, LS__OP_NORM_APPLY), 0);
    ck_assert_int_gt(count_again(&again, LS__OP_NORM_APPLY), 0);
    take_steps(&kept, STEPS);
    take_steps(&again, STEPS);
    check_equal(&kept, &again);
    if (precision ==
        LS_PRECISION_F32) /* elsewhere the casts' workspaces fill a small net's arena */
        ck_assert_msg(arena_bytes(&again) < arena_bytes(&kept), "%zu bytes, all kept %zu",
                      arena_bytes(&again), arena_bytes(&kept));
    ls_context_close(&again.ctx);
    ls_context_close(&kept.ctx);
}

static const ls_precision precisions[] = { LS_PRECISION_F32, LS_PRECISION_BF16, LS_PRECISION_F16 };
enum { N_PRECISIONS = sizeof precisions / sizeof precisions[0] };

START_TEST(bits_stay)
{
    check_model(residual, &(int){ 3 }, precisions[_i]);
    check_model(mixed, NULL, precisions[_i]);
}
END_TEST

START_TEST(what_is_computed_again)
{
    run r = open_run(residual, &(int){ 2 }, LS_PRECISION_F32, LS_RECOMPUTE_CHEAP, 1);
    /* All ten norms' results, and some of a chain's once more. */
    ck_assert_int_ge(count_again(&r, LS__OP_NORM_APPLY), 10);
    ck_assert_int_le(count_again(&r, LS__OP_NORM_APPLY), 20);
    ck_assert_int_ge(count_again(&r, LS__OP_NORMALIZE), 1);
    ck_assert_int_ge(count_again(&r, LS__OP_MAX_POOL), 1);
    ck_assert_int_ge(count_again(&r, LS__OP_CONV2D), 1); /* the stem, and no other */
    const ls__program *p = train_program(r.net);
    for (int i = 0; i < p->n_instructions; i++) {
        const ls__instruction *in = &p->instructions[i];
        if (in->again && in->op.kind == LS__OP_CONV2D)
            ck_assert_str_eq(in->node->name, "stem0.conv");
    }
    char text[16384];
    ck_assert_int_gt(ls_net_describe(r.net, text, sizeof text), 0);
    ck_assert(strstr(text, "norm_apply own (recomputed)"));
    ls_context_close(&r.ctx);
}
END_TEST

static void check_same_program(const ls__program *a, const ls__program *b)
{
    ck_assert_int_eq(a->n_instructions, b->n_instructions);
    for (int i = 0; i < a->n_instructions; i++) {
        ck_assert_int_eq(a->instructions[i].op.kind, b->instructions[i].op.kind);
        ck_assert_int_eq(a->instructions[i].skipped, b->instructions[i].skipped);
    }
    for (int v = 0; v < a->n_values; v++)
        ck_assert_uint_eq(a->values[v].offset, b->values[v].offset);
    ck_assert_uint_eq(a->arena_bytes, b->arena_bytes);
}

/* AUTO equals NONE if memory suffices for all values, however large the program. */
START_TEST(auto_keeps_what_fits)
{
    run kept = open_run(residual, &(int){ 2 }, LS_PRECISION_F32, LS_RECOMPUTE_NONE, 1);
    run r = open_run(residual, &(int){ 2 }, LS_PRECISION_F32, LS_RECOMPUTE_AUTO, 1);
    check_same_program(train_program(kept.net), train_program(r.net));
    char text[16384];
    ck_assert_int_gt(ls_net_describe(r.net, text, sizeof text), 0);
    ck_assert_ptr_nonnull(strstr(text, "recomputed: nothing\n"));
    ls_context_close(&r.ctx);
    ls_context_close(&kept.ctx);
}
END_TEST

/* The less memory, the more is recomputed, convolutions last; no bit follows the limit. Descends
 * from a limit under which everything is kept to one under which the net cannot be built. */
START_TEST(auto_follows_the_limit)
{
    run kept =
        open_limited(residual, &(int){ 2 }, LS_PRECISION_F32, LS_RECOMPUTE_NONE, 1, LARGE_SIDE, 0);
    take_steps(&kept, 1);
    const size_t used = ls_context_memory(kept.ctx).peak_bytes;
    int n_of_level[LS__RECOMPUTED_CONVS + 1] = { 0 }, level = LS__RECOMPUTED_NOTHING;
    for (size_t limit = 2 * used;; limit -= limit / 32) {
        run r = open_limited(residual, &(int){ 2 }, LS_PRECISION_F32, LS_RECOMPUTE_AUTO, 2,
                             LARGE_SIDE, limit);
        const ls_status status = ls_context_status(r.ctx);
        ck_assert(status == LS_OK || status == LS_ERR_MEMORY);
        if (status == LS_OK) {
            const ls__program *p = train_program(r.net);
            ck_assert_int_ge(p->recomputed, level);
            level = (int)p->recomputed;
            n_of_level[level]++;
            ck_assert((level == LS__RECOMPUTED_CONVS) == (count_again(&r, LS__OP_CONV2D) > 0));
            ck_assert((level > LS__RECOMPUTED_NOTHING) == (count_again(&r, LS__OP_NORM_APPLY) > 0));
            ck_assert_uint_eq(p->kept_bytes, arena_bytes(&kept));
            take_steps(&r, 1);
            check_equal(&kept, &r);
        }
        ls_context_close(&r.ctx);
        if (status != LS_OK) break;
    }
    for (int i = 0; i <= LS__RECOMPUTED_CONVS; i++) ck_assert_int_gt(n_of_level[i], 0);
    ls_context_close(&kept.ctx);
}
END_TEST

START_TEST(what_is_kept)
{
    run r = open_run(mixed, NULL, LS_PRECISION_F32, LS_RECOMPUTE_CHEAP, 1);
    const ls__program *p = train_program(r.net);
    ck_assert_int_ge(count_again(&r, LS__OP_NORM_APPLY), 3); /* c1, c2, last; c0 is named */
    ck_assert_int_eq(count_again(&r, LS__OP_RELU), 0);
    ck_assert_int_eq(count_again(&r, LS__OP_DROPOUT), 0);
    for (int i = 0; i < p->n_instructions; i++)
        if (p->instructions[i].again) ck_assert_str_ne(p->instructions[i].node->name, "c0.bn");
    take_steps(&r, 1);
    ck_assert_ptr_nonnull(ls_net_output(r.net, "named"));
    ls_context_close(&r.ctx);
}
END_TEST

/* Where the second stage begins, both readers' weights are made before their gradients of what they
 * read, which is larger than what comes in. */
START_TEST(gradients_wait)
{
    run r = open_run(residual, &(int){ 1 }, LS_PRECISION_F32, LS_RECOMPUTE_NONE, 1);
    const ls__program *p = train_program(r.net);
    int weights[2] = { -1, -1 }, data[2] = { -1, -1 };
    for (int i = 0; i < p->n_instructions; i++) {
        const ls__instruction *in = &p->instructions[i];
        const bool main_path = strcmp(in->node->name, "a1.conv") == 0;
        if (!main_path && strcmp(in->node->name, "skip1.conv") != 0) continue;
        if (in->op.kind == LS__OP_CONV2D_BACKWARD_WEIGHTS) weights[main_path] = i;
        if (in->op.kind == LS__OP_CONV2D_BACKWARD_DATA) data[main_path] = i;
    }
    for (int i = 0; i < 2; i++) {
        ck_assert_int_ge(weights[i], 0);
        for (int j = 0; j < 2; j++) ck_assert_int_gt(data[i], weights[j]);
    }
    ls_context_close(&r.ctx);
}
END_TEST

/* However long a chain, it takes at most twice its time, and little of it is held at once. */
START_TEST(chains_are_bounded)
{
    run kept = open_run(residual, &(int){ LONG_CHAIN }, LS_PRECISION_F32, LS_RECOMPUTE_NONE, 1);
    run r = open_run(residual, &(int){ LONG_CHAIN }, LS_PRECISION_F32, LS_RECOMPUTE_CHEAP, 1);
    const int n_norms = 4 * LONG_CHAIN + 2;
    ck_assert_int_le(count_again(&r, LS__OP_NORM_APPLY), 2 * n_norms);
    ck_assert_msg(arena_bytes(&r) < 2 * arena_bytes(&kept) / 3, "%zu bytes, all kept %zu",
                  arena_bytes(&r), arena_bytes(&kept));
    take_steps(&kept, 1);
    take_steps(&r, 1);
    check_equal(&kept, &r);
    ls_context_close(&r.ctx);
    ls_context_close(&kept.ctx);
}
END_TEST

/* Programs without a backward pass have nothing to compute again; frozen norms keep nothing. */
START_TEST(frozen_and_evaluated)
{
    run kept = open_run(residual, &(int){ 2 }, LS_PRECISION_F32, LS_RECOMPUTE_NONE, 1);
    run r = open_run(residual, &(int){ 2 }, LS_PRECISION_F32, LS_RECOMPUTE_CHEAP, 1);
    static const char *const patterns[] = { "stem0.*", "a1.*", "b*.bn.*", "*.conv.*", "*.bn.*" };
    run *const both[2] = { &kept, &r };
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        for (int j = 0; j < 2; j++) {
            ck_assert_int_eq(ls_net_freeze(both[j]->net, patterns[i]), LS_OK);
            take_steps(both[j], 1);
            ck_assert_int_eq(ls_net_unfreeze(both[j]->net, patterns[i]), LS_OK);
        }
        check_equal(&kept, &r);
    }
    for (int j = 0; j < 2; j++)
        ck_assert_int_eq(ls_net_evaluate(both[j]->net, &both[j]->batch), LS_OK);
    for (int i = 0; i < r.net->cache.n_programs; i++) {
        const ls__program *p = r.net->cache.programs[i];
        for (int k = 0; k < p->n_instructions && !p->gradients; k++)
            ck_assert(!p->instructions[k].again);
    }
    ls_context_close(&r.ctx);
    ls_context_close(&kept.ctx);
}
END_TEST

START_TEST(misuse)
{
    ls_context *ctx = ls_context_open(NULL);
    ck_assert_ptr_null(ls_net_build(ctx, residual, &(int){ 1 },
                                    &(ls_net_config){ .input = { .image = images },
                                                      .loss = { LS_LOSS_CROSS_ENTROPY },
                                                      .recompute = (ls_recompute)7 }));
    expect_error(ctx, LS_ERR_INVALID, "config.recompute is 7");
    ls_context_close(&ctx);
}
END_TEST

TEST_PROGRAM(recompute)
{
    const int kinds = run_loop("recompute in each precision", bits_stay, N_PRECISIONS);
    return both(kinds, RUN_SUITE("recompute", what_is_computed_again, auto_keeps_what_fits,
                                 auto_follows_the_limit, what_is_kept, gradients_wait,
                                 chains_are_bounded, frozen_and_evaluated, misuse));
}
