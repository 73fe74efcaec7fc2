/* test_loss_scale.c: training in f16: updates whose gradients overflow are not done and halve the
 * loss scale, others double it now and then, and it changes nothing else: weights are those of a
 * run whose scale fitted from the start, bit by bit. */
#include "../suite.h"
#include <lockstep/lockstep.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N = 8, SIDE = 6, CLASSES = 3, PORTRAIT = 8192 };

static ls_node *model(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    x = ls_conv2d(g, "conv", x, 8, &(ls_conv2d_config){ .kernel = 3, .padding = 1 });
    x = ls_relu(g, ls_batch_norm(g, "norm", x, NULL));
    return ls_linear(g, "fc", ls_global_avg_pool(g, x), CLASSES, NULL);
}

typedef enum which { SGD, CLIPPED_SGD, ADAM, ADAMW, N_KINDS } which;

typedef struct setting {
    ls_context *ctx;
    ls_net *net;
    ls_optimizer *opt;
    ls_batch batch;
} setting;

static ls_optimizer *open_optimizer(ls_net *net, which kind)
{
    switch (kind) {
    case SGD: return ls_sgd(net, &(ls_sgd_config){ .momentum = 0.9f, .dampening = 0.5f });
    case CLIPPED_SGD: return ls_sgd(net, &(ls_sgd_config){ .momentum = 0.9f, .clip_norm = 0.1f });
    case ADAM: return ls_adam(net, &(ls_adam_config){ .weight_decay = 0.01f });
    default: return ls_adamw(net, &(ls_adam_config){ .clip_norm = 0.1f });
    }
}

static setting open_setting(which kind, ls_precision precision, ls_loss_scale_config scale)
{
    static const ls_shape shape = { 4, { N, SIDE, SIDE, 3 } };
    setting s = { .ctx = ls_context_open(&(ls_context_config){ .seed = 2, .threads = 1 }) };
    s.net = ls_net_build(s.ctx, model, NULL,
                         &(ls_net_config){ .input = { .image = { LS_F32, shape } },
                                           .loss = { LS_LOSS_CROSS_ENTROPY },
                                           .precision = precision,
                                           .loss_scale = scale });
    s.opt = open_optimizer(s.net, kind);
    ls_tensor *images = ls_tensor_open(s.ctx, LS_F32, shape);
    ls_tensor *labels = ls_tensor_open(s.ctx, LS_I32, LS_SHAPE(N));
    ls_tensor_random_normal(images, 1, 0, 1);
    ck_assert_msg(ls_context_status(s.ctx) == LS_OK, "%s", ls_context_message(s.ctx));
    for (int i = 0; i < N; i++) ((int32_t *)ls_tensor_data(labels))[i] = i % CLASSES;
    s.batch = (ls_batch){ .images = images, .labels = labels, .n = N };
    return s;
}

/* Makes a step by one call, or by one call per phase. */
static void take_step(setting *s, bool in_pieces)
{
    if (in_pieces) {
        ls_net_feed(s->net, "input", s->batch.images);
        ls_net_feed(s->net, "label", s->batch.labels);
        ls_net_forward(s->net, LS_MODE_TRAIN);
        ls_net_backward(s->net);
        ls_optimizer_step(s->opt, 0.01);
    } else {
        ls_net_step(s->net, s->opt, &s->batch, 0.01);
    }
    ck_assert_msg(ls_context_status(s->ctx) == LS_OK, "%s", ls_context_message(s->ctx));
}

static void expect_scale(setting *s, double scale, int64_t skipped)
{
    double got_scale;
    int64_t got_skipped;
    ck_assert_int_eq(ls_net_loss_scale(s->net, &got_scale, &got_skipped), LS_OK);
    ck_assert_double_eq(got_scale, scale);
    ck_assert_int_eq(got_skipped, skipped);
}

static double gradient_norm(setting *s)
{
    double norm;
    ck_assert_int_eq(ls_optimizer_gradient_norm(s->opt, &norm), LS_OK);
    return norm;
}

/* Parameters and the optimizer's states, bit by bit, as text. */
static void portray(const setting *s, char out[PORTRAIT])
{
    char *at = out, hex[LS_DIGEST_TEXT_SIZE];
    ls_digest digest;
    for (int64_t i = 0; i < ls_net_parameter_count(s->net); i++) {
        const ls_parameter_info parameter = ls_net_parameter_at(s->net, i);
        if (parameter.kind == LS_PARAMETER_BUFFER) continue;
        for (int j = -1; j < ls_optimizer_state_count(s->opt); j++) {
            const ls_tensor *tensor =
                j < 0 ? parameter.value : ls_optimizer_state(s->opt, j, parameter.name);
            ck_assert_int_eq(ls_tensor_digest(tensor, &digest), LS_OK);
            at += sprintf(at, "%s %d %s\n", parameter.name, j, ls_digest_text(digest, hex));
        }
    }
    ck_assert(at < out + PORTRAIT);
}

/* A scale that overflows at first comes down to one that fits, and the run from there on is that of
 * the fitting scale: moments, bias corrections, the first update of a momentum. */
START_TEST(skipped_updates_leave_no_trace)
{
    static char before[PORTRAIT], after[PORTRAIT], fitting[PORTRAIT];
    const bool in_pieces = _i % 2;
    setting s = open_setting((which)(_i / 2), LS_PRECISION_F16,
                             (ls_loss_scale_config){ .initial = 0x1p24f });
    double scale = 0x1p24;
    int64_t skipped = 0;
    for (;; skipped++, scale /= 2) {
        expect_scale(&s, scale, skipped);
        portray(&s, before);
        take_step(&s, in_pieces);
        portray(&s, after);
        if (strcmp(before, after) != 0) break;
        ck_assert(!isfinite(gradient_norm(&s)));
        ck_assert_int_lt(skipped, 20);
    }
    ck_assert_int_gt(skipped, 1);
    expect_scale(&s, scale, skipped);
    ck_assert(isfinite(gradient_norm(&s)));
    for (int i = 0; i < 4; i++) take_step(&s, in_pieces);
    ck_assert_int_eq(ls_optimizer_step_count(s.opt), skipped + 5);
    portray(&s, after);

    setting other = open_setting((which)(_i / 2), LS_PRECISION_F16,
                                 (ls_loss_scale_config){ .initial = (float)scale });
    for (int i = 0; i < 5; i++) take_step(&other, in_pieces);
    expect_scale(&other, scale, 0);
    portray(&other, fitting);
    ck_assert_str_eq(after, fitting);
    ls_context_close(&s.ctx);
    ls_context_close(&other.ctx);
}
END_TEST

/* Updates that were skipped before an optimizer was opened do not count as its own. */
START_TEST(later_optimizers_begin_anew)
{
    static char late[PORTRAIT], early[PORTRAIT];
    for (int set_steps = 0; set_steps < 2; set_steps++) {
        setting s =
            open_setting(ADAM, LS_PRECISION_F16, (ls_loss_scale_config){ .initial = 0x1p24f });
        double scale;
        int64_t before = -1, skipped = 0;
        while (skipped > before) { /* until one was done, at rate 0 */
            before = skipped;
            ck_assert_int_eq(ls_net_step(s.net, s.opt, &s.batch, 0), LS_OK);
            ls_net_loss_scale(s.net, &scale, &skipped);
        }
        ck_assert_int_gt(skipped, 1);
        if (set_steps) {
            for (int j = 0; j < 2; j++)
                for (int64_t i = 0; i < ls_net_parameter_count(s.net); i++)
                    if (ls_net_parameter_at(s.net, i).kind != LS_PARAMETER_BUFFER)
                        ls_tensor_fill(
                            ls_optimizer_state(s.opt, j, ls_net_parameter_at(s.net, i).name), 0);
            ck_assert_int_eq(ls_optimizer_set_step_count(s.opt, 0), LS_OK);
        } else {
            ls_optimizer_close(&s.opt);
            s.opt = open_optimizer(s.net, ADAM);
        }
        ck_assert_int_eq(ls_optimizer_step_count(s.opt), 0);
        setting fresh =
            open_setting(ADAM, LS_PRECISION_F16, (ls_loss_scale_config){ .initial = (float)scale });
        for (int i = 0; i < 3; i++) {
            take_step(&s, false);
            take_step(&fresh, false);
        }
        ck_assert_int_eq(ls_optimizer_step_count(s.opt), 3);
        portray(&s, late);
        portray(&fresh, early);
        ck_assert_str_eq(late, early);
        ls_context_close(&s.ctx);
        ls_context_close(&fresh.ctx);
    }
}
END_TEST

/* More may have been skipped than the second of two optimizers has begun. */
START_TEST(optimizers_that_take_turns)
{
    setting s = open_setting(ADAM, LS_PRECISION_F16, (ls_loss_scale_config){ .initial = 0x1p24f });
    ls_optimizer *second = open_optimizer(s.net, ADAM);
    int64_t before = -1, skipped = 0;
    while (skipped > before) {
        before = skipped;
        take_step(&s, false);
        ls_net_loss_scale(s.net, NULL, &skipped);
    }
    ck_assert_int_gt(skipped, 1);
    ck_assert_int_eq(ls_net_step(s.net, second, &s.batch, 0.01), LS_OK);
    for (int64_t i = 0; i < ls_net_parameter_count(s.net); i++) {
        const ls_tensor *tensor = ls_net_parameter_at(s.net, i).value;
        const float *values = ls_tensor_data_const(tensor);
        for (int64_t j = 0; j < ls_tensor_element_count(tensor); j++)
            ck_assert(isfinite(values[j]));
    }
    ls_context_close(&s.ctx);
}
END_TEST

START_TEST(the_scale_grows)
{
    setting s = open_setting(SGD, LS_PRECISION_F16, (ls_loss_scale_config){ 64, 3 });
    for (int i = 0; i < 7; i++) {
        expect_scale(&s, i < 3 ? 64 : i < 6 ? 128 : 256, 0);
        take_step(&s, i % 2);
    }
    ls_context_close(&s.ctx);
    s = open_setting(SGD, LS_PRECISION_F16, (ls_loss_scale_config){ 0 });
    expect_scale(&s, 65536, 0);
    ls_context_close(&s.ctx);
}
END_TEST

/* However many batches in a row are useless, the scale stays one that a good batch can be trained
 * with. */
START_TEST(the_scale_has_a_floor)
{
    setting s = open_setting(SGD, LS_PRECISION_F16, (ls_loss_scale_config){ 1 });
    float *pixel = ls_tensor_data((ls_tensor *)s.batch.images);
    const float value = *pixel;
    *pixel = NAN;
    for (int i = 0; i < 160; i++) take_step(&s, false);
    expect_scale(&s, 0x1p-24, 160);
    *pixel = value;
    take_step(&s, false);
    expect_scale(&s, 0x1p-24, 160);
    for (int64_t i = 0; i < ls_net_parameter_count(s.net); i++) {
        const ls_parameter_info parameter = ls_net_parameter_at(s.net, i);
        const float *x = ls_tensor_data(parameter.value);
        for (int64_t j = 0;
             parameter.kind != LS_PARAMETER_BUFFER && j < ls_tensor_element_count(parameter.value);
             j++)
            ck_assert_msg(isfinite(x[j]), "%s[%lld] is %g", parameter.name, (long long)j,
                          (double)x[j]);
    }
    ls_context_close(&s.ctx);
}
END_TEST

/* Averages that differ from the weights stay as they are. */
START_TEST(a_skipped_update_leaves_the_averages)
{
    static char before[PORTRAIT], after[PORTRAIT];
    setting s = open_setting(SGD, LS_PRECISION_F16, (ls_loss_scale_config){ 256 });
    ls_optimizer_close(&s.opt);
    s.opt = ls_sgd(s.net, &(ls_sgd_config){ .ema_decay = 0.5f });
    for (int i = 0; i < 2; i++) take_step(&s, false);
    expect_scale(&s, 256, 0);
    ls_optimizer_swap_ema(s.opt);
    portray(&s, before);
    ls_optimizer_swap_ema(s.opt);
    portray(&s, after);
    ck_assert_str_ne(after, before);
    *(float *)ls_tensor_data((ls_tensor *)s.batch.images) = NAN;
    take_step(&s, false);
    expect_scale(&s, 128, 1);
    ls_optimizer_swap_ema(s.opt);
    portray(&s, after);
    ck_assert_str_eq(after, before);
    ls_context_close(&s.ctx);
}
END_TEST

/* The norm is that of the gradients without the scale, which those of entries carry. */
START_TEST(norms_are_unscaled)
{
    setting s = open_setting(CLIPPED_SGD, LS_PRECISION_F16, (ls_loss_scale_config){ 256 });
    setting full = open_setting(CLIPPED_SGD, LS_PRECISION_F32, (ls_loss_scale_config){ 0 });
    take_step(&s, true);
    take_step(&full, true);
    const double norm = gradient_norm(&s), wanted = gradient_norm(&full);
    ck_assert_msg(fabs(norm - wanted) <= 2e-3 * wanted, "%g, f32 %g", norm, wanted);
    double squares = 0;
    for (int64_t i = 0; i < ls_net_parameter_count(s.net); i++) {
        const ls_tensor *gradient = ls_net_parameter_at(s.net, i).gradient;
        const float *g = gradient ? ls_tensor_data_const(gradient) : NULL;
        for (int64_t j = 0; g && j < ls_tensor_element_count(gradient); j++)
            squares += (double)g[j] * (double)g[j];
    }
    ck_assert_msg(fabs(sqrt(squares) / 256 - norm) <= 1e-6 * norm, "%g, norm %g",
                  sqrt(squares) / 256, norm);
    ls_context_close(&s.ctx);
    ls_context_close(&full.ctx);
}
END_TEST

/* ---- Misuse ---- */

START_TEST(misuse)
{
    static const struct {
        ls_precision precision;
        ls_loss_scale_config scale;
        bool inference;
        ls_status status;
        const char *part;
    } cases[] = {
        { (ls_precision)4, { 0 }, false, LS_ERR_INVALID, "config.precision is 4" },
        { LS_PRECISION_TF32, { 0 }, false, LS_ERR_UNSUPPORTED, "tf32, which device cpu" },
        { LS_PRECISION_F32, { 1024 }, false, LS_ERR_INVALID, "loss_scale is set; f32 has none" },
        { LS_PRECISION_BF16, { 0, 5 }, false, LS_ERR_INVALID, "loss_scale is set; bf16 has none" },
        { LS_PRECISION_F16, { 4 }, true, LS_ERR_INVALID, "loss_scale is set; inference has none" },
        { LS_PRECISION_F16, { 3 }, false, LS_ERR_INVALID, "initial is 3, expected a power of two" },
        { LS_PRECISION_F16, { 0.5f }, false, LS_ERR_INVALID, "initial is 0.5, expected" },
        { LS_PRECISION_F16,
          { 0x1p25f },
          false,
          LS_ERR_INVALID,
          "initial is 3.35544e+07, expected" },
        { LS_PRECISION_F16, { -2 }, false, LS_ERR_INVALID, "initial is -2, expected" },
        { LS_PRECISION_F16, { NAN }, false, LS_ERR_INVALID, "initial is nan, expected" },
        { LS_PRECISION_F16, { 0, -1 }, false, LS_ERR_INVALID, "growth_interval is -1, expected" },
        { LS_PRECISION_F16, { 0, 1 << 25 }, false, LS_ERR_INVALID, "growth_interval is 33554432" },
    };
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ls_net_config config = { .input = { .image = { LS_F32, LS_SHAPE(N, SIDE, SIDE, 3) } },
                                 .loss = { LS_LOSS_CROSS_ENTROPY },
                                 .precision = cases[i].precision,
                                 .loss_scale = cases[i].scale,
                                 .inference = cases[i].inference };
        ck_assert_ptr_null(ls_net_build(ctx, model, NULL, &config));
        expect_error(ctx, cases[i].status, cases[i].part);
    }
    ls_context_close(&ctx);
}
END_TEST

START_TEST(nets_without_a_scale)
{
    double scale;
    for (int inference = 0; inference < 2; inference++) {
        ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
        ls_net *net = ls_net_build(
            ctx, model, NULL,
            &(ls_net_config){ .input = { .image = { LS_F32, LS_SHAPE(N, 6, 6, 3) } },
                              .loss = { LS_LOSS_CROSS_ENTROPY },
                              .precision = inference ? LS_PRECISION_F16 : LS_PRECISION_BF16,
                              .inference = inference });
        ck_assert_ptr_nonnull(net);
        ck_assert_int_eq(ls_net_loss_scale(net, &scale, NULL), LS_ERR_UNSUPPORTED);
        ck_assert_int_eq(ls_net_loss_scale(net, &scale, NULL), LS_ERR_EARLIER);
        ls_context_close(&ctx);
    }
    ck_assert_int_eq(ls_net_loss_scale(NULL, &scale, NULL), LS_ERR_EARLIER);
}
END_TEST

TEST_PROGRAM(loss_scale)
{
    const int skips = run_loop("skipped updates", skipped_updates_leave_no_trace, 2 * N_KINDS);
    return both(skips, RUN_SUITE("loss scale", later_optimizers_begin_anew,
                                 optimizers_that_take_turns, the_scale_grows, the_scale_has_a_floor,
                                 a_skipped_update_leaves_the_averages, norms_are_unscaled, misuse,
                                 nets_without_a_scale));
}
