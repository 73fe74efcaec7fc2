/* test_fuse_norm.c: batch norms fused with the convolutions around them. The backend's lists are
 * bent so that the reference kernels for the fused ops are offered; the results must stay
 * those of the unfused net, up to rounding. */
#include "../reference_kernels/reference_kernels.h"
#include "../suite.h"
#include "bottlenecks.h"
#include "base/context.h"
#include "base/error.h"
#include "cpu/emulated.h"
#include "nn/net/net_state.h"
#include "backend/backend.h"
#include <lockstep/lockstep.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 10 };

/* ---- A backend with fused kernels ---- */

static const ls__backend *real;
static ls__backend bent;
static struct {
    bool missing[LS__N_OPS]; /* not offered */
    bool refused[LS__N_OPS]; /* offered, and can't be made */
    bool random[LS__N_OPS];  /* not deterministic */
    double cost_ms;          /* of every fused kernel */
    int64_t n_listed;        /* fused ops asked for */
    bool scarce; /* the first kernel for each fused convolution asks for more memory than there is,
                    as where others hold it while kernels are timed */
    int n_scarce;
    char scarce_ops[32][LS__OP_TEXT_SIZE];
} offer;

static bool is_first(const ls__op *op)
{
    char text[LS__OP_TEXT_SIZE];
    if (op->kind != LS__OP_CONV2D_STATISTICS && op->kind != LS__OP_NORM_CONV2D_STATISTICS)
        return false;
    ls__op_text(op, text, sizeof text);
    for (int i = 0; i < offer.n_scarce; i++)
        if (strcmp(offer.scarce_ops[i], text) == 0) return false;
    ck_assert_int_lt(offer.n_scarce, 32);
    strcpy(offer.scarce_ops[offer.n_scarce++], text);
    return true;
}

static int bent_candidates(ls__device *device, const ls__op *op, ls__candidate *out, int max)
{
    if (!ls__op_is_optional(op->kind)) return real->candidates(device, op, out, max);
    offer.n_listed++;
    if (offer.missing[op->kind]) return 0;
    *out = (ls__candidate){ .deterministic = !offer.random[op->kind], .cost_ms = offer.cost_ms };
    snprintf(out->name, sizeof out->name, "%sreference",
             ls__needs_emulation(op) ? "emulated " : "");
    return 1;
}

static ls_status bent_open(ls__device *device, const ls__op *op, const char *name, ls__kernel **out)
{
    if (offer.refused[op->kind])
        return ls__fail(device->ctx, LS_ERR_UNSUPPORTED, "%s: refused", ls__op_name(op->kind));
    LS_TRY(real->kernel_open(device, op, name, out));
    if (offer.scarce && is_first(op)) {
        (*out)->workspace_bytes = SIZE_MAX / 2;
        (*out)->unproven = true; /* nor can it be tried */
    }
    return LS_OK;
}

/* Another context with nothing special about its fused kernels. */
static ls_context *open_context(bool fused)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .seed = 3, .threads = 2 });
    ck_assert_ptr_nonnull(ctx);
    offer_reference_kernels(ctx); /* of all ops */
    memset(&offer, 0, sizeof offer);
    if (!fused) return ctx;
    real = ctx->device->backend;
    bent = *real;
    bent.candidates = bent_candidates;
    bent.kernel_open = bent_open;
    ctx->device->backend = &bent;
    return ctx;
}

static void close_context(ls_context **ctx)
{
    if ((*ctx)->device->backend == &bent) (*ctx)->device->backend = real;
    ls_context_close(ctx);
}

/* ---- Models ---- */

/* All that stands in the way: a bias, other readers of the activation, no ReLU, ReLU6, an addition,
 * dropout between, a named output, a convolution without a norm after it, one with two. */
static ls_node *obstacles(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    x = ls_batch_norm(g, "biased.bn",
                      ls_conv2d(g, "biased", x, 8,
                                &(ls_conv2d_config){ .kernel = 3, .padding = 1, .bias = true }),
                      NULL);
    x = ls_relu(g, x);
    ls_node *y = ls_relu(g, conv_norm(g, 0, x, 8, &kernel3)); /* read twice */
    x = ls_add(g, conv_norm(g, 1, y, 8, &kernel3), y);
    x = conv_norm(g, 2, x, 8, &kernel3); /* no ReLU */
    x = ls_dropout(g, ls_relu(g, conv_norm(g, 3, x, 8, &kernel3)), 0.25f);
    x = ls_relu(
        g, conv_norm(g, 4, x, 8, &(ls_conv2d_config){ .kernel = 3, .padding = 1, .groups = 2 }));
    ls_output(g, "map", x);
    x = ls_relu6(g, conv_norm(g, 7, x, 8, &kernel3));
    x = ls_relu(g, conv_norm(g, 5, x, 8, &kernel3));
    x = ls_conv2d(g, "bare", x, 8, &kernel3);
    x = ls_relu(g, ls_add(g, conv_norm(g, 6, x, 8, &kernel3), x)); /* read once */
    x = ls_conv2d(g, "two", x, 8, &kernel3);
    x = ls_add(g, ls_relu(g, ls_batch_norm(g, "two.bn1", x, NULL)),
               ls_batch_norm(g, "two.bn2", x, NULL));
    return ls_linear(g, "fc", ls_global_avg_pool(g, x), BOTTLENECK_CLASSES, NULL);
}

static ls_net *build(ls_context *ctx, ls_model_fn model, ls_precision precision)
{
    return ls_net_build(ctx, model, NULL,
                        &(ls_net_config){ .input = { .image = bottleneck_images },
                                          .loss = { LS_LOSS_CROSS_ENTROPY },
                                          .precision = precision,
                                          .recompute = LS_RECOMPUTE_NONE });
}

/* How many instructions of that kind the train program has. */
static int count(const ls_net *net, ls__op_kind kind)
{
    int n = 0;
    for (int i = 0; i < net->cache.n_programs; i++) {
        const ls__program *p = net->cache.programs[i];
        for (int j = 0; j < p->n_instructions && p->gradients; j++)
            n += !p->instructions[j].custom && p->instructions[j].op.kind == kind;
    }
    return n;
}

typedef struct counts {
    int statistics, application, finalize, apply, weights, data, backward_apply, whole;
} counts;

static counts count_all(const ls_net *net)
{
    return (counts){ count(net, LS__OP_CONV2D_STATISTICS),
                     count(net, LS__OP_NORM_CONV2D_STATISTICS),
                     count(net, LS__OP_NORM_FINALIZE),
                     count(net, LS__OP_NORM_APPLY),
                     count(net, LS__OP_NORM_CONV2D_BACKWARD_WEIGHTS),
                     count(net, LS__OP_NORM_CONV2D_BACKWARD_DATA),
                     count(net, LS__OP_NORM_BACKWARD_APPLY),
                     count(net, LS__OP_BATCH_NORM) };
}

static void check_counts(const ls_net *net, counts wanted)
{
    const counts got = count_all(net);
    ck_assert_msg(memcmp(&got, &wanted, sizeof got) == 0,
                  "statistics %d, application %d, finalize %d, apply %d, weights %d, data %d, "
                  "backward apply %d, whole %d",
                  got.statistics, got.application, got.finalize, got.apply, got.weights, got.data,
                  got.backward_apply, got.whole);
}

/* Memory is planned for nothing that no instruction touches. */
static void check_memory(const ls_net *net)
{
    for (int i = 0; i < net->cache.n_programs; i++) {
        const ls__program *p = net->cache.programs[i];
        for (int v = 0; v < p->n_values; v++) {
            bool touched = p->values[v].place != LS__PLACE_ARENA;
            for (int j = 0; j < p->n_instructions; j++) {
                touched |= p->instructions[j].workspace == v;
                for (int k = 0; k < p->instructions[j].op.n_operands; k++)
                    touched |= p->instructions[j].operands[k] == v;
            }
            ck_assert_msg(touched || p->values[v].bytes == 0, "value %d of program %d", v, i);
        }
    }
}

/* ---- A run ---- */

typedef struct run {
    ls_context *ctx;
    ls_net *net;
    ls_optimizer *opt;
    ls_batch batch;
} run;

static run open_run(ls_model_fn model, ls_precision precision, bool fused)
{
    run r = { .ctx = open_context(fused) };
    r.batch = bottleneck_batch(r.ctx);
    r.net = build(r.ctx, model, precision);
    r.opt = ls_sgd(r.net, &(ls_sgd_config){ .momentum = 0.9f, .weight_decay = 1e-4f });
    ck_assert_msg(ls_context_status(r.ctx) == LS_OK, "%s", ls_context_message(r.ctx));
    return r;
}

static double take_step(run *r)
{
    double loss = 0;
    const ls_status status = ls_net_step(r->net, r->opt, &r->batch, 1e-3);
    ck_assert_msg(status == LS_OK, "%s", ls_context_message(r->ctx));
    ck_assert_int_eq(ls_net_loss(r->net, &loss), LS_OK);
    r->batch.step++;
    return loss;
}

/* Largest |a - b| over largest |b|. */
static double distance(const ls_tensor *a, const ls_tensor *b)
{
    const float *x = ls_tensor_data_const(a), *y = ls_tensor_data_const(b);
    double error = 0, largest = 1e-2;
    for (int64_t i = 0; i < ls_tensor_element_count(a); i++) {
        error = fmax(error, fabs((double)x[i] - (double)y[i]));
        largest = fmax(largest, fabs((double)y[i]));
    }
    return error / largest;
}

static void compare(run *a, run *b, double values, double gradients)
{
    for (int64_t i = 0; i < ls_net_parameter_count(b->net); i++) {
        const ls_parameter_info x = ls_net_parameter_at(a->net, i),
                                y = ls_net_parameter_at(b->net, i);
        ck_assert_msg(distance(x.value, y.value) <= values, "%s: %.3g", y.name,
                      distance(x.value, y.value));
        if (y.gradient)
            ck_assert_msg(distance(x.gradient, y.gradient) <= gradients, "gradient of %s: %.3g",
                          y.name, distance(x.gradient, y.gradient));
    }
}

/* Relative. Of gradients in the first step, and in later ones, where a value near 0 may go to
 * ReLU's other side in one of the nets: they have few. */
typedef struct tolerances {
    double loss, values, first_gradients, gradients;
} tolerances;
static const tolerances full = { 1e-5, 1e-4, 2e-5, 1e-3 };
/* f16 rounds by 5e-4, and sends enough values to the other side to make later gradients others. */
static const tolerances half = { 2e-3, 5e-3, 2e-2, INFINITY };
/* bf16 rounds by eight times as much: in this small net the first gradients differ from f32's by up
 * to 0.33 without any fusion. test_cuda_fuse.c compares the first steps' values. */
static const tolerances brain = { 1.6e-2, INFINITY, INFINITY, INFINITY };

static void check_model(ls_model_fn model, ls_precision precision, const tolerances *max_errors,
                        counts wanted)
{
    run fused = open_run(model, precision, true);
    check_counts(fused.net, wanted);
    check_memory(fused.net);
    run apart = open_run(model, precision, false);
    ck_assert_int_eq(count_all(apart.net).finalize, 0);
    for (int i = 0; i < STEPS; i++) {
        const double a = take_step(&fused), b = take_step(&apart);
        ck_assert_msg(fabs(a - b) <= max_errors->loss * fabs(b), "step %d: loss %.9g, unfused %.9g",
                      i, a, b);
        compare(&fused, &apart, max_errors->values,
                i == 0 ? max_errors->first_gradients : max_errors->gradients);
    }
    ck_assert_int_eq(ls_net_evaluate(fused.net, &fused.batch), LS_OK);
    ck_assert_int_eq(ls_net_evaluate(apart.net, &apart.batch), LS_OK);
    double a, b;
    ck_assert_int_eq(ls_net_loss(fused.net, &a), LS_OK);
    ck_assert_int_eq(ls_net_loss(apart.net, &b), LS_OK);
    ck_assert_double_eq_tol(a, b, 10 * max_errors->loss);
    close_context(&apart.ctx);
    close_context(&fused.ctx);
}

/* Counts are those of the bottlenecks. */
static const counts all_fused = { .statistics = 4,
                                  .application = 4,
                                  .finalize = 8,
                                  .apply = 4,
                                  .weights = 4,
                                  .data = 4,
                                  .backward_apply = 4 };

START_TEST(bottlenecks_stay_the_same)
{
    check_model(bottlenecks, LS_PRECISION_F32, &full, all_fused);
}
END_TEST

START_TEST(bottlenecks_of_16_bits)
{
    check_model(bottlenecks, LS_PRECISION_F16, &half, all_fused);
    check_model(bottlenecks, LS_PRECISION_BF16, &brain, all_fused);
}
END_TEST

START_TEST(obstacles_are_seen)
{
    check_model(
        obstacles, LS_PRECISION_F32, &full,
        (counts){ .statistics = 9, .application = 0, .finalize = 10, .apply = 10, .whole = 1 });
}
END_TEST

/* ---- Frozen parameters ---- */

START_TEST(frozen_parameters)
{
    static const char *const patterns[] = { "2.*", "1.conv*", "0.*", "*.bn.*", "*" };
    run fused = open_run(bottlenecks, LS_PRECISION_F32, true), apart;
    const int64_t n_before = offer.n_listed;
    ck_assert_int_gt(n_before, 0);
    apart = open_run(bottlenecks, LS_PRECISION_F32, false);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        run *both[2] = { &fused, &apart };
        for (int j = 0; j < 2; j++) {
            ck_assert_int_eq(ls_net_freeze(both[j]->net, patterns[i]), LS_OK);
            take_step(both[j]);
            ck_assert_int_eq(ls_net_unfreeze(both[j]->net, patterns[i]), LS_OK);
        }
        compare(&fused, &apart, full.values, full.gradients);
    }
    take_step(&fused);
    ck_assert_int_eq(count_all(fused.net).application, 4);
    close_context(&apart.ctx);
    close_context(&fused.ctx);
}
END_TEST

/* ---- Choosing ---- */

/* Each op of a fusion is missing, not deterministic, or refused in turn. */
START_TEST(fusions_need_all_of_their_ops)
{
    static const ls__op_kind first[] = { LS__OP_CONV2D_STATISTICS, LS__OP_NORM_FINALIZE,
                                         LS__OP_NORM_APPLY },
                             second[] = { LS__OP_NORM_CONV2D_STATISTICS,
                                          LS__OP_NORM_CONV2D_BACKWARD_WEIGHTS,
                                          LS__OP_NORM_CONV2D_BACKWARD_DATA,
                                          LS__OP_NORM_BACKWARD_APPLY };
    for (int i = 0; i < 7; i++) {
        for (int how = 0; how < 3; how++) {
            const ls__op_kind kind = i < 3 ? first[i] : second[i - 3];
            ls_context *ctx = open_context(true);
            bool *const lists[] = { offer.missing, offer.random, offer.refused };
            lists[how][kind] = true;
            ls_net *net = build(ctx, bottlenecks, LS_PRECISION_F32);
            ck_assert_msg(net != NULL, "%s", ls_context_message(ctx));
            const counts got = count_all(net);
            ck_assert_int_eq(got.finalize, i < 3 ? 0 : 8);
            ck_assert_int_eq(got.application, 0);
            ck_assert_int_eq(got.whole, i < 3 ? 8 : 0);
            close_context(&ctx);
        }
    }
    /* Kernels that are not deterministic are used if determinism is off. */
    ls_context *ctx = open_context(true);
    memset(offer.random, true, sizeof offer.random);
    ctx->config.deterministic = LS_DETERMINISTIC_OFF;
    ls_net *net = build(ctx, bottlenecks, LS_PRECISION_F32);
    ck_assert_ptr_nonnull(net);
    ck_assert_int_eq(count_all(net).application, 4);
    close_context(&ctx);
}
END_TEST

START_TEST(fusions_must_not_cost_more)
{
    ls_context *ctx = open_context(true);
    offer.cost_ms = 1e3;
    ls_net *net = build(ctx, bottlenecks, LS_PRECISION_F32);
    ck_assert_ptr_nonnull(net);
    ck_assert_int_eq(count_all(net).whole, 8);
    close_context(&ctx);
}
END_TEST

/* How many fusions stand in a net's list as taken, or as not taken. */
static int count_choices(const ls_net *net, const char *kernel)
{
    int n = 0;
    for (int i = 0; i < net->selector.used->n; i++) {
        const ls__selection *c = net->selector.used->items[i];
        n += strstr(c->op, " fusion") != NULL && strcmp(c->kernel, kernel) == 0;
    }
    return n;
}

static void check_choices(const ls_net *net, bool taken)
{
    ck_assert_int_ge(count_choices(net, taken ? "fused" : "unfused"), taken ? 8 : 5);
    ck_assert_int_eq(count_choices(net, taken ? "unfused" : "fused"), 0);
}

/* Fusions are choices: they stand in the net's list, and a plan file has the last word. */
START_TEST(plans_decide)
{
    char path[] = "/tmp/lockstep-fuse-XXXXXX.safetensors";
    const int file = mkstemps(path, (int)strlen(".safetensors"));
    ck_assert_int_ge(file, 0);
    close(file);
    for (int taken = 0; taken < 2; taken++) {
        /* A context that would do the one writes a plan, one that would do the other reads it. */
        run r = open_run(bottlenecks, LS_PRECISION_F32, true);
        ls_context *ctx = r.ctx;
        offer.cost_ms = taken ? 0 : 1e3;
        ls_net *net = build(ctx, bottlenecks, LS_PRECISION_F32);
        ck_assert_ptr_nonnull(net);
        check_choices(net, taken);
        ls_training_state state = { .net = net, .optimizer = ls_sgd(net, NULL), .step = 1 };
        ck_assert_msg(ls_checkpoint_save(&state, path) == LS_OK, "%s", ls_context_message(ctx));
        close_context(&ctx);

        ctx = open_context(true);
        offer.cost_ms = taken ? 1e3 : 0;
        ck_assert_msg(ls_checkpoint_load_algorithms(ctx, path) == LS_OK, "%s",
                      ls_context_message(ctx));
        net = build(ctx, bottlenecks, LS_PRECISION_F32);
        ck_assert_ptr_nonnull(net);
        const counts got = count_all(net);
        ck_assert_int_eq(got.whole, taken ? 0 : 8);
        ck_assert_int_eq(got.application, taken ? 4 : 0);
        check_choices(net, taken);
        if (!taken) ck_assert_int_eq(offer.n_listed, 0); /* nobody asks for what is not taken */
        close_context(&ctx);
    }
    /* The last plan says fused. Where an op of it has no kernel any more, the net is unfused. */
    ls_context *ctx = open_context(true);
    offer.missing[LS__OP_NORM_CONV2D_BACKWARD_DATA] = true;
    ck_assert_int_eq(ls_checkpoint_load_algorithms(ctx, path), LS_OK);
    ls_net *net = build(ctx, bottlenecks, LS_PRECISION_F32);
    ck_assert_msg(net != NULL, "%s", ls_context_message(ctx));
    ck_assert_int_eq(count_all(net).finalize, 8);
    ck_assert_int_eq(count_all(net).application, 0);
    close_context(&ctx);
    remove(path);
}
END_TEST

/* ---- By time ---- */

/* How many fusions a table has, all with reasons that begin so. */
static int count_reasons(const ls__selections *selections, const char *reason)
{
    int n = 0;
    for (int i = 0; i < selections->n; i++) {
        const ls__selection *c = selections->items[i];
        if (strstr(c->op, " fusion") == NULL) continue;
        ck_assert_msg(strncmp(c->reason, reason, strlen(reason)) == 0, "%s: %s (%s)", c->op,
                      c->kernel, c->reason);
        n++;
    }
    return n;
}

/* What there was no memory to time says nothing about the fusion: it goes by the estimates, as if
 * nothing was timed, and no table of timed choices has it. */
START_TEST(no_memory_decides_nothing)
{
    for (int i = 0; i < 3; i++) {
        const bool scarce = i > 0, taken = i == 1;
        ls_context *ctx = open_context(true);
        ctx->config.benchmark = LS_BENCHMARK_ON;
        offer.cost_ms = taken ? 0 : 1e3;
        offer.scarce = scarce;
        ls_net *net = ls_net_build(ctx, bottlenecks, NULL,
                                   &(ls_net_config){ .input = { .image = bottleneck_images },
                                                     .loss = { LS_LOSS_CROSS_ENTROPY },
                                                     .steps = 1000000000 });
        ck_assert_msg(net != NULL, "%s", ls_context_message(ctx));
        if (scarce) {
            ck_assert_int_ge(offer.n_scarce, 5);
            ck_assert_int_eq(count_reasons(ctx->selections, "none"), 0);
            ck_assert_int_ge(count_reasons(net->selector.used, "heuristic"), 5);
            check_choices(net, taken);
        } else {
            ck_assert_int_ge(count_reasons(ctx->selections, "timed "), 5);
        }
        close_context(&ctx);
    }
}
END_TEST

TEST_PROGRAM(fuse_norm)
{
    return RUN_SUITE("fuse norm", bottlenecks_stay_the_same, bottlenecks_of_16_bits,
                     obstacles_are_seen, frozen_parameters, fusions_need_all_of_their_ops,
                     fusions_must_not_cost_more, plans_decide, no_memory_decides_nothing);
}
