/* test_misuse.c: wrong labels, batches, names and threads: each is an error that names what is
 * wrong, and changes nothing. */
#include "../suite.h"
#include <lockstep/lockstep.h>
#include <pthread.h>
#include <string.h>

enum { N = 2, SIDE = 4, CLASSES = 10 };

static ls_node *model(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    x = ls_conv2d(g, "conv", x, 4, &(ls_conv2d_config){ .kernel = 3 });
    x = ls_relu(g, ls_batch_norm(g, "bn", x, NULL));
    return ls_linear(g, "fc", ls_global_avg_pool(g, x), CLASSES, NULL);
}

typedef struct setup {
    ls_context *ctx;
    ls_net *net;
    ls_optimizer *opt;
    ls_tensor *images, *labels;
    ls_batch batch;
} setup;

static setup open_setup(ls_model_fn fn)
{
    setup s = { .ctx = ls_context_open(&(ls_context_config){ .threads = 2 }) };
    const ls_net_config config = { .input = { .image = { LS_U8, LS_SHAPE(N, SIDE, SIDE, 3) },
                                              .n_classes = CLASSES },
                                   .loss = { LS_LOSS_CROSS_ENTROPY } };
    s.net = ls_net_build(s.ctx, fn, NULL, &config);
    s.opt = ls_sgd(s.net, &(ls_sgd_config){ .momentum = 0.9f });
    s.images = ls_tensor_open(s.ctx, LS_U8, LS_SHAPE(N, SIDE, SIDE, 3));
    s.labels = ls_tensor_open(s.ctx, LS_I32, LS_SHAPE(N));
    ck_assert_int_eq(ls_tensor_fill(s.images, 77), LS_OK);
    s.batch = (ls_batch){ .images = s.images, .labels = s.labels, .n = N };
    return s;
}

static ls_digest weights_of(ls_net *net)
{
    ls_digest sum = { { 0, 0 } };
    for (int64_t i = 0; i < ls_net_parameter_count(net); i++) {
        ls_digest one;
        ck_assert_int_eq(ls_tensor_digest(ls_net_parameter_at(net, i).value, &one), LS_OK);
        for (int k = 0; k < 2; k++) sum.words[k] = sum.words[k] * 31 + one.words[k];
    }
    return sum;
}

static void set_labels(setup *s, int32_t first, int32_t second)
{
    ck_assert_int_eq(ls_tensor_write(s->labels, (int32_t[]){ first, second }, 8), LS_OK);
}

/* ---- Names ---- */

typedef struct odd_names {
    const char *scope, *layer, *metric;
} odd_names;

static ls_node *oddly_named(ls_graph *g, ls_node *x, const void *options)
{
    const odd_names *names = options;
    if (names->scope) ls_scope_begin(g, "%s", names->scope);
    ls_node *y = ls_linear(g, names->layer, ls_flatten(g, x), CLASSES, NULL);
    if (names->scope) ls_scope_end(g);
    if (names->metric) ls_output(g, names->metric, y);
    return y;
}

/* A checkpoint of a net with such a name could not be saved. */
START_TEST(names_are_utf8)
{
    static const struct {
        odd_names names;
        const char *said; /* NULL = good */
    } cases[] = {
        { { NULL, "fc", NULL }, NULL },
        { { NULL, "\xc3\xa9tage", NULL }, NULL },
        { { NULL, "\xf0\x9f\x98\x80", NULL }, NULL },
        { { NULL, "\xff\xfe", NULL }, "the name, with those of its scopes," },
        { { NULL, "a\xc3", NULL }, "the name, with those of its scopes," },
        { { NULL, "\xc0\xaf", NULL },
          "the name, with those of its scopes," }, /* an overlong form */
        { { NULL, "\xed\xa0\x80", NULL }, "the name, with those of its scopes," }, /* a surrogate */
        { { NULL, "\xf4\x90\x80\x80", NULL },
          "the name, with those of its scopes," }, /* beyond U+10FFFF */
        { { "\x80", "fc", NULL }, "the name, with those of its scopes," },
        { { NULL, "fc", "\xe2\x82" }, "ls_output: the name, with those of its scopes," },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
        const ls_net_config config = { .input = { .image = { LS_U8, LS_SHAPE(N, SIDE, SIDE, 3) },
                                                  .n_classes = CLASSES },
                                       .loss = { LS_LOSS_CROSS_ENTROPY } };
        ls_net *net = ls_net_build(ctx, oddly_named, &cases[i].names, &config);
        ck_assert_int_eq(net != NULL, !cases[i].said);
        if (cases[i].said) expect_error(ctx, LS_ERR_INVALID, cases[i].said, "is not UTF-8");
        ls_context_close(&ctx);
    }
}
END_TEST

START_TEST(labels_must_be_classes)
{
    static const struct {
        int32_t label;
        const char *text;
    } bad[] = {
        { 10, "input 'label': label 1 of 2, counted from 0, is 10; expected 0 to 9, or -1" },
        { -2, "label 1 of 2, counted from 0, is -2" },
        { INT32_MAX, "is 2147483647;" },
        { INT32_MIN, "is -2147483648;" },
    };
    setup s = open_setup(model);
    const ls_digest before = weights_of(s.net);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        set_labels(&s, 3, bad[i].label);
        ck_assert_int_eq(ls_net_step(s.net, s.opt, &s.batch, 0), LS_ERR_INVALID);
        expect_error(s.ctx, LS_ERR_INVALID, bad[i].text);
        ck_assert_int_eq(ls_net_evaluate(s.net, &s.batch), LS_ERR_INVALID);
        expect_error(s.ctx, LS_ERR_INVALID, bad[i].text);
        ck_assert_int_eq(ls_net_feed(s.net, "input", s.images), LS_OK);
        ck_assert_int_eq(ls_net_feed(s.net, "label", s.labels), LS_OK);
        ck_assert_int_eq(ls_net_forward(s.net, LS_MODE_TRAIN), LS_ERR_INVALID);
        expect_error(s.ctx, LS_ERR_INVALID, bad[i].text);
    }
    ck_assert(ls_digest_equal(before, weights_of(s.net)));
    double loss = 1;
    set_labels(&s, -1, -1);
    ck_assert_int_eq(ls_net_step(s.net, s.opt, &s.batch, 0.1), LS_OK);
    ck_assert_int_eq(ls_net_loss(s.net, &loss), LS_OK);
    ck_assert_double_eq(loss, 0);
    set_labels(&s, 0, CLASSES - 1);
    ck_assert_int_eq(ls_net_step(s.net, s.opt, &s.batch, 0.1), LS_OK);
    ls_context_close(&s.ctx);
}
END_TEST

START_TEST(a_batch_is_as_long_as_its_tensors)
{
    setup s = open_setup(model);
    const ls_digest before = weights_of(s.net);
    s.batch.n = 5;
    ck_assert_int_eq(ls_net_step(s.net, s.opt, &s.batch, 0.1), LS_ERR_SHAPE);
    expect_error(s.ctx, LS_ERR_SHAPE, "ls_net_step: the batch's n is 5, its tensor has 2 images");
    ck_assert_int_eq(ls_net_evaluate(s.net, &s.batch), LS_ERR_SHAPE);
    expect_error(s.ctx, LS_ERR_SHAPE, "ls_net_evaluate: the batch's n is 5");
    ck_assert(ls_digest_equal(before, weights_of(s.net)));
    s.batch.n = 0;
    ck_assert_int_eq(ls_net_step(s.net, s.opt, &s.batch, 0.1), LS_OK);
    ls_context_close(&s.ctx);
}
END_TEST

START_TEST(wrong_names_name_the_nearest)
{
    setup s = open_setup(model);
    ck_assert_ptr_null(ls_net_parameter(s.net, "fc.wieght"));
    expect_error(s.ctx, LS_ERR_NOT_FOUND,
                 "no parameter or buffer 'fc.wieght'; it has 7 parameters and buffers, the "
                 "nearest: 'fc.weight', 'bn.weight', '");
    ck_assert_int_eq(ls_net_freeze(s.net, "conv1.*"), LS_ERR_NOT_FOUND);
    expect_error(s.ctx, LS_ERR_NOT_FOUND, "it has 5 parameters, the nearest: 'conv.weight'");
    ck_assert_int_eq(ls_net_feed(s.net, "labels", s.labels), LS_ERR_NOT_FOUND);
    expect_error(s.ctx, LS_ERR_NOT_FOUND, "no input 'labels'; it has 2 inputs: 'label', 'input'");
    ck_assert_ptr_null(ls_optimizer_state(s.opt, 0, "fc.wieght"));
    expect_error(s.ctx, LS_ERR_NOT_FOUND, "it has 5 parameters, the nearest: 'fc.weight'");
    ck_assert_int_eq(ls_net_step(s.net, s.opt, &s.batch, 0.1), LS_OK);
    ck_assert_ptr_null(ls_net_output(s.net, "logits"));
    expect_error(s.ctx, LS_ERR_NOT_FOUND, "no output 'logits'; it has 1 outputs: 'output'");
    ls_context_close(&s.ctx);
}
END_TEST

/* ---- An op whose callback does what a test sets here. ---- */

static ls_status (*act)(void);
static setup shared;

static ls_status copy_and_act(const ls_custom_op_call *call)
{
    memcpy(call->output, call->inputs[0],
           (size_t)ls_shape_element_count(&call->output_spec.shape) * sizeof(float));
    return act ? act() : LS_OK;
}

static ls_status copy_back(const ls_custom_op_call *call)
{
    memcpy(call->input_gradients[0], call->output_gradient,
           (size_t)ls_shape_element_count(&call->output_spec.shape) * sizeof(float));
    return LS_OK;
}

static ls_node *acting_model(ls_graph *g, ls_node *x, const void *options)
{
    x = model(g, x, options);
    const ls_custom_op_config config = { .kind = "copy",
                                         .output = { LS_F32, ls_node_shape(x) },
                                         .forward = copy_and_act,
                                         .backward = copy_back };
    return ls_custom_op(g, "mine", 1, &x, &config);
}

static ls_status refuse(void)
{
    return LS_ERR_DATA;
}

START_TEST(an_op_is_named_once)
{
    setup s = open_setup(acting_model);
    act = refuse;
    ck_assert_int_eq(ls_net_step(s.net, s.opt, &s.batch, 0.1), LS_ERR_DATA);
    ck_assert_str_eq(ls_context_message(s.ctx),
                     "copy 'mine': its forward callback returned 'unusable data'");
    expect_error(s.ctx, LS_ERR_DATA, "");
    ls_context_close(&s.ctx);
}
END_TEST

static ls_node *unnamed_kind_model(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    return ls_custom_op(g, "mine", 1, &x,
                        &(ls_custom_op_config){ .kind = "", .forward = copy_and_act });
}

START_TEST(a_custom_op_has_a_kind)
{
    ls_context *ctx = ls_context_open(NULL);
    const ls_net_config config = { .input = { .image = { LS_U8, LS_SHAPE(N, SIDE, SIDE, 3) } },
                                   .inference = true };
    ck_assert_ptr_null(ls_net_build(ctx, unnamed_kind_model, NULL, &config));
    expect_error(ctx, LS_ERR_INVALID, "a name, config.kind and config.forward are required");
    ls_context_close(&ctx);
}
END_TEST

static void *step_beside(void *status)
{
    *(ls_status *)status = ls_net_step(shared.net, shared.opt, &shared.batch, 0.1);
    return NULL;
}

static ls_status other_status;

static ls_status step_from_another_thread(void)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, step_beside, &other_status), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    return LS_OK;
}

START_TEST(two_threads_on_one_net_are_found_out)
{
    shared = open_setup(acting_model);
    act = step_from_another_thread;
    (void)ls_net_step(shared.net, shared.opt, &shared.batch, 0.1);
    ck_assert_int_eq(other_status, LS_ERR_INVALID);
    expect_error(shared.ctx, LS_ERR_INVALID,
                 "ls_net_step: another call is running on this net, in another thread");
    act = NULL;
    ck_assert_int_eq(ls_net_step(shared.net, shared.opt, &shared.batch, 0.1), LS_OK);
    ls_context_close(&shared.ctx);
}
END_TEST

START_TEST(feeds_that_another_thread_took_are_explained)
{
    shared = open_setup(model);
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, step_beside, &other_status), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(other_status, LS_OK);
    ck_assert_int_eq(ls_net_forward(shared.net, LS_MODE_TRAIN), LS_ERR_INVALID);
    expect_error(shared.ctx, LS_ERR_INVALID, "has not been fed since another thread ran this net");
    ls_context_close(&shared.ctx);
}
END_TEST

START_TEST(a_null_net_is_mentioned)
{
    const ls_status status = ls_net_step(NULL, NULL, NULL, 0.1);
    ck_assert_int_eq(status, LS_ERR_EARLIER);
    ck_assert_ptr_nonnull(strstr(ls_status_text(status), "NULL"));
}
END_TEST

TEST_PROGRAM(misuse)
{
    return RUN_SUITE("misuse", names_are_utf8, labels_must_be_classes,
                     a_batch_is_as_long_as_its_tensors, wrong_names_name_the_nearest,
                     an_op_is_named_once, a_custom_op_has_a_kind,
                     two_threads_on_one_net_are_found_out,
                     feeds_that_another_thread_took_are_explained, a_null_net_is_mentioned);
}
