/* Wrong models and wrong calls of nets: clear errors, and nothing changes. */
#include "small_net.h"
#include <string.h>

/* ---- Misuse: every model here must fail with a message that says what and why ---- */

static ls_node *too_small(ls_graph *g, ls_node *x, const void *o)
{
    (void)o;
    return ls_linear(g, "fc",
                     ls_flatten(g, ls_conv2d(g, "big", x, 4, &(ls_conv2d_config){ .kernel = 11 })),
                     10, NULL);
}
static ls_node *bad_groups(ls_graph *g, ls_node *x, const void *o)
{
    (void)o;
    return ls_flatten(
        g, ls_conv2d(g, "grouped", x, 4, &(ls_conv2d_config){ .kernel = 1, .groups = 2 }));
}
static ls_node *bad_add(ls_graph *g, ls_node *x, const void *o)
{
    (void)o;
    ls_node *a = ls_conv2d(g, "a", x, 4, NULL), *b = ls_conv2d(g, "b", x, 5, NULL);
    return ls_linear(g, "fc", ls_flatten(g, ls_add(g, a, b)), 10, NULL);
}
static ls_node *bad_mul(ls_graph *g, ls_node *x, const void *o)
{
    (void)o;
    return ls_mul(g, x, ls_conv2d(g, "b", x, 5, NULL));
}
static ls_node *bad_concat(ls_graph *g, ls_node *x, const void *o)
{
    (void)o;
    ls_node *const parts[] = { x, ls_conv2d(g, "b", x, 5, &(ls_conv2d_config){ .stride = 2 }) };
    return ls_concat(g, 2, parts);
}
static ls_node *bad_concat_rank(ls_graph *g, ls_node *x, const void *o)
{
    (void)o;
    ls_node *const parts[] = { ls_flatten(g, x), x };
    return ls_concat(g, 2, parts);
}
static ls_node *concat_none(ls_graph *g, ls_node *x, const void *o)
{
    (void)o;
    return ls_concat(g, 0, &x);
}
static ls_node *concat_too_many(ls_graph *g, ls_node *x, const void *o)
{
    (void)o;
    ls_node *parts[LS_MAX_CONCAT_INPUTS + 1];
    for (int i = 0; i <= LS_MAX_CONCAT_INPUTS; i++) parts[i] = x;
    return ls_concat(g, LS_MAX_CONCAT_INPUTS + 1, parts);
}
static ls_node *bad_linear(ls_graph *g, ls_node *x, const void *o)
{
    (void)o;
    return ls_linear(g, "fc", x, 10, NULL);
}
static ls_node *bad_classes(ls_graph *g, ls_node *x, const void *o)
{
    (void)o;
    return ls_linear(g, "fc", ls_flatten(g, x), 7, NULL);
}
static ls_node *twice(ls_graph *g, ls_node *x, const void *o)
{
    (void)o;
    x = ls_conv2d(g, "same", x, 4, NULL);
    x = ls_conv2d(g, "same", x, 4, NULL);
    return ls_linear(g, "fc", ls_flatten(g, x), 10, NULL);
}
static ls_node *open_scope(ls_graph *g, ls_node *x, const void *o)
{
    (void)o;
    ls_scope_begin(g, "layer%d", 1);
    return ls_linear(g, "fc", ls_flatten(g, x), 10, NULL);
}
static ls_node *no_node(ls_graph *g, ls_node *x, const void *o)
{
    (void)g, (void)x, (void)o;
    return NULL;
}
static ls_node *bad_dropout(ls_graph *g, ls_node *x, const void *o)
{
    (void)o;
    return ls_linear(g, "fc", ls_flatten(g, ls_dropout(g, x, 1.0f)), 10, NULL);
}
static ls_node *bad_group_norm(ls_graph *g, ls_node *x, const void *o)
{
    (void)o;
    return ls_group_norm(g, "gn", x, 2, NULL);
}
static ls_node *no_groups(ls_graph *g, ls_node *x, const void *o)
{
    (void)o;
    return ls_group_norm(g, "gn", x, 0, NULL);
}
static ls_node *bad_layer_norm(ls_graph *g, ls_node *x, const void *o)
{
    (void)o;
    return ls_layer_norm(g, "ln", x, &(ls_layer_norm_config){ .epsilon = -1 });
}
static ls_node *bad_depth(ls_graph *g, ls_node *x, const void *o)
{
    (void)o;
    return ls_stochastic_depth(g, x, -0.5f, LS_STOCHASTIC_DEPTH_ROW);
}
static ls_node *bad_depth_mode(ls_graph *g, ls_node *x, const void *o)
{
    (void)o;
    return ls_stochastic_depth(g, x, 0.5f, (ls_stochastic_depth_mode)7);
}
static ls_node *bad_pool(ls_graph *g, ls_node *x, const void *o)
{
    (void)o;
    return ls_flatten(g, ls_max_pool(g, x, &(ls_pool_config){ .kernel = 2, .padding = 2 }));
}
static ls_node *too_wide(ls_graph *g, ls_node *x, const void *o)
{
    (void)o;
    return ls_linear(g, "wide", ls_flatten(g, x), INT64_C(1) << 61, NULL);
}
static ls_node *too_many(ls_graph *g, ls_node *x, const void *o)
{
    (void)o;
    ls_parameter(g, "a", LS_SHAPE(INT64_C(1) << 60), LS_PARAMETER_WEIGHT, LS_INIT_ZERO);
    ls_parameter(g, "b", LS_SHAPE(INT64_C(1) << 60), LS_PARAMETER_WEIGHT, LS_INIT_ZERO);
    return ls_linear(g, "fc", ls_flatten(g, x), 10, NULL);
}

static const struct misuse {
    ls_model_fn model;
    ls_status status;
    const char *parts[3];
} misuses[] = {
    { too_small, LS_ERR_SHAPE, { "conv2d 'big'", "height 8", "11" } },
    { bad_groups, LS_ERR_SHAPE, { "conv2d 'grouped'", "3 channels", "2 groups" } },
    { bad_add, LS_ERR_SHAPE, { "add", "[4,8,8,4]", "[4,8,8,5]" } },
    { bad_mul, LS_ERR_SHAPE, { "mul", "[4,8,8,3]", "[4,8,8,5]" } },
    { bad_concat, LS_ERR_SHAPE, { "concat", "[4,8,8,3]", "[4,4,4,5]" } },
    { bad_concat_rank, LS_ERR_SHAPE, { "concat", "[4,8,8,3]", "[N,H,W,C] or [N,C]" } },
    { concat_none, LS_ERR_INVALID, { "ls_concat: 0 nodes", "1 to 32", "" } },
    { concat_too_many, LS_ERR_INVALID, { "ls_concat: 33 nodes", "1 to 32", "" } },
    { bad_linear, LS_ERR_SHAPE, { "linear 'fc'", "[4,8,8,3]", "[N,I]" } },
    { bad_classes, LS_ERR_SHAPE, { "[4,7]", "K = 10", "cross-entropy" } },
    { twice, LS_ERR_INVALID, { "'same'", "'same.weight'", "already" } },
    { open_scope, LS_ERR_INVALID, { "layer1", "not ended", "" } },
    { no_node, LS_ERR_INVALID, { "returned NULL", "", "" } },
    { bad_dropout, LS_ERR_INVALID, { "dropout", "probability 1", "[0,1)" } },
    { bad_group_norm, LS_ERR_SHAPE, { "group_norm 'gn'", "2 groups", "3 channels" } },
    { no_groups, LS_ERR_INVALID, { "group_norm 'gn'", "at least 1 group", "got 0" } },
    { bad_layer_norm, LS_ERR_INVALID, { "layer_norm 'ln'", "epsilon", "-1" } },
    { bad_depth, LS_ERR_INVALID, { "stochastic_depth", "probability -0.5", "[0,1)" } },
    { bad_depth_mode, LS_ERR_INVALID, { "stochastic_depth", "mode 7", "row or batch" } },
    { bad_pool, LS_ERR_INVALID, { "max_pool", "padding 2", "half" } },
    { too_wide, LS_ERR_SHAPE, { "linear 'wide'", "[4,2305843009213693952]", "too many" } },
    { too_many, LS_ERR_MEMORY, { "'b'", "more than memory", "" } },
};

START_TEST(misuse_is_explained)
{
    const struct misuse *m = &misuses[_i];
    ls_context *ctx = ls_context_open(NULL);
    ls_net_config config = small_config(4);
    ck_assert_ptr_null(ls_net_build(ctx, m->model, NULL, &config));
    ck_assert_ptr_null(ls_net_build(ctx, small, NULL, &config)); /* refused: an error is kept */
    expect_error(ctx, m->status, m->parts[0], m->parts[1], m->parts[2]);
    ls_net *net = ls_net_build(ctx, small, NULL, &config); /* and works again */
    ck_assert_ptr_nonnull(net);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(wrong_calls_change_nothing)
{
    ls_context *ctx = ls_context_open(NULL);
    ls_net_config config = small_config(4);
    ls_net *net = ls_net_build(ctx, small, NULL, &config);
    data d = make_data(ctx, 4, 8);
    double loss;
    ck_assert_int_eq(ls_net_loss(net, &loss), LS_ERR_INVALID);
    expect_error(ctx, LS_ERR_INVALID, "not been run");
    ck_assert_int_eq(ls_net_forward(net, LS_MODE_TRAIN), LS_ERR_INVALID);
    expect_error(ctx, LS_ERR_INVALID, "'input' has not been fed");
    ck_assert_int_eq(ls_net_backward(net), LS_ERR_INVALID);
    expect_error(ctx, LS_ERR_INVALID, "ls_net_forward");
    ck_assert_int_eq(ls_net_feed(net, "nope", d.images), LS_ERR_NOT_FOUND);
    expect_error(ctx, LS_ERR_NOT_FOUND, "nope");
    ck_assert_int_eq(ls_net_feed(net, "input", d.labels), LS_ERR_SHAPE);
    expect_error(ctx, LS_ERR_SHAPE, "I32 [4]");
    ck_assert_int_eq(ls_net_step(net, NULL, NULL, 0.1), LS_ERR_INVALID);
    expect_error(ctx, LS_ERR_INVALID, "no batch");
    ls_tensor *more_channels = ls_tensor_open(ctx, LS_U8, LS_SHAPE(4, 8, 8, 7));
    const ls_batch wrong = { .images = more_channels, .labels = d.labels, .n = 4 };
    ck_assert_int_eq(ls_net_step(net, NULL, &wrong, 0.1), LS_ERR_SHAPE);
    expect_error(ctx, LS_ERR_SHAPE, "7 channels, the net was built for 3");
    ls_tensor_close(&more_channels);
    ck_assert_int_eq(ls_net_forward(net, LS_MODE_TRAIN),
                     LS_ERR_INVALID); /* nothing of it stayed fed */
    expect_error(ctx, LS_ERR_INVALID, "'input' has not been fed");
    ck_assert_int_eq(ls_net_step(NULL, NULL, &d.batch, 0.1), LS_ERR_EARLIER);
    ck_assert_int_eq(ls_net_step(net, NULL, &d.batch, 0.1), LS_OK);
    ck_assert_int_eq(ls_net_loss(net, NULL), LS_ERR_INVALID);
    expect_error(ctx, LS_ERR_INVALID, "loss is NULL");
    ck_assert_int_eq(ls_net_metric(net, "top1", NULL), LS_ERR_INVALID);
    expect_error(ctx, LS_ERR_INVALID, "value is NULL");
    ck_assert_ptr_null(ls_net_output(net, "nothing"));
    ck_assert_int_eq(ls_net_step(net, NULL, &d.batch, 0.1), LS_ERR_EARLIER); /* unread */
    expect_error(ctx, LS_ERR_NOT_FOUND, "nothing");
    ck_assert_int_eq(ls_net_step(net, NULL, &d.batch, 0.1), LS_OK);
    ls_context_close(&ctx);
}
END_TEST

/* Tensors, batches and optimizers of another context are refused; the error is kept where the net
 * is. */
START_TEST(contexts_do_not_mix)
{
    ls_context *ctx = ls_context_open(NULL), *other = ls_context_open(NULL);
    const ls_net_config config = small_config(4);
    ls_net *net = ls_net_build(ctx, small, NULL, &config);
    ls_optimizer *foreign = ls_sgd(ls_net_build(other, small, NULL, &config), NULL);
    const data ours = make_data(ctx, 4, 8), theirs = make_data(other, 4, 8);
    const ls_batch mixed = { .images = ours.images, .labels = theirs.labels, .n = 4 };
    const ls_batch *const batches[] = { &theirs.batch, &mixed };
    ls_step_digest digest;
    ck_assert_ptr_nonnull(foreign);

    ls_net_feed(net, "input", theirs.images);
    expect_error(ctx, LS_ERR_MISMATCH, "ls_net_feed: the tensor for input 'input' belongs to an");
    ls_net_feed(net, "label", theirs.labels);
    expect_error(ctx, LS_ERR_MISMATCH, "'label' belongs to another context");
    for (int i = 0; i < 2; i++) {
        ls_net_step(net, NULL, batches[i], 0.1);
        expect_error(ctx, LS_ERR_MISMATCH, "ls_net_step: the tensor for input");
        ls_net_evaluate(net, batches[i]);
        expect_error(ctx, LS_ERR_MISMATCH, "ls_net_evaluate: the tensor for input");
    }
    ls_net_step(net, foreign, &ours.batch, 0.1);
    expect_error(ctx, LS_ERR_MISMATCH, "ls_net_step: the optimizer belongs to another net");
    ck_assert_int_eq(ls_net_step(net, NULL, &ours.batch, 0.1), LS_OK);
    for (int i = 0; i < 2; i++) {
        ls_net_digest(net, batches[i], &digest);
        expect_error(ctx, LS_ERR_MISMATCH, "ls_net_digest: the batch belongs to another context");
    }
    ck_assert_int_eq(ls_net_digest(net, &ours.batch, &digest), LS_OK);
    ck_assert_int_eq(ls_context_status(other), LS_OK);
    ls_context_close(&ctx);
    ls_context_close(&other);
}
END_TEST

static int n_warnings;
static void count_warning(void *user, ls_log_level level, ls_log_category category,
                          const char *message)
{
    (void)category;
    (void)user;
    n_warnings += level == LS_LOG_WARNING && strstr(message, "batch_norm 'bn'") != NULL;
}

static ls_node *normed(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    return ls_linear(g, "fc", ls_batch_norm(g, "bn", ls_flatten(g, x), NULL), 10, NULL);
}

START_TEST(few_values_are_warned_of)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .log = count_warning });
    ls_net_config config = small_config(7);
    ck_assert_ptr_nonnull(ls_net_build(ctx, normed, NULL, &config));
    ck_assert_int_eq(n_warnings, 1);
    config = small_config(8);
    ck_assert_ptr_nonnull(ls_net_build(ctx, normed, NULL, &config));
    ck_assert_int_eq(n_warnings, 1);
    ls_context_close(&ctx);
}
END_TEST

TEST_PROGRAM(net_errors)
{
    Suite *suite = suite_create("net errors");
    TCase *c = tcase_create("net errors");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, misuse_is_explained, 0, (int)(sizeof misuses / sizeof *misuses));
    tcase_add_test(c, wrong_calls_change_nothing);
    tcase_add_test(c, contexts_do_not_mix);
    tcase_add_test(c, few_values_are_warned_of);
    suite_add_tcase(suite, c);
    return run_and_free(suite);
}
