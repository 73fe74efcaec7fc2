/* test_schedule.c: warm-up, limits, state and misuse of schedules. Rates are compared with
 * PyTorch's in tests/parity. */
#include "../suite.h"
#include "optim/schedule.h"
#include <lockstep/lockstep.h>
#include <math.h>
#include <string.h>

static ls_context *ctx;

static void expect_invalid(const void *result, const char *part)
{
    ck_assert_ptr_null(result);
    expect_error(ctx, LS_ERR_INVALID, part);
}

static void expect_rate(const ls_schedule *s, int64_t epoch, int64_t step, double wanted)
{
    const double lr = ls_schedule_lr(s, epoch, step);
    ck_assert_msg(fabs(lr - wanted) <= 1e-12 * wanted, "epoch %lld, step %lld: %.17g, wanted %.17g",
                  (long long)epoch, (long long)step, lr, wanted);
}

START_TEST(warm_up_rises_step_by_step)
{
    ctx = ls_context_open(NULL);
    ls_schedule *s = ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_STEP,
                                                                  .lr = 0.5,
                                                                  .step_size = 2,
                                                                  .steps_per_epoch = 10,
                                                                  .warmup_epochs = 2,
                                                                  .warmup_start = 0.2 });
    ck_assert_msg(s, "%s", ls_context_message(ctx));
    for (int i = 0; i < 20; i++) expect_rate(s, i / 10, i % 10, 0.5 * (0.2 + 0.8 * i / 20));
    /* its own clock starts at epoch 2: it drops 2 epochs later */
    expect_rate(s, 2, 0, 0.5);
    expect_rate(s, 3, 9, 0.5);
    expect_rate(s, 4, 0, 0.05);

    s = ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_CONSTANT,
                                                     .lr = 1,
                                                     .steps_per_epoch = 4,
                                                     .warmup_epochs = 1,
                                                     .warmup_start = LS_ZERO });
    ck_assert(ls_schedule_lr(s, 0, 0) == 0);
    expect_rate(s, 0, 1, 0.25);
    s = ls_schedule_open(
        ctx, &(ls_schedule_config){
                 .kind = LS_SCHEDULE_CONSTANT, .lr = 1, .steps_per_epoch = 4, .warmup_epochs = 1 });
    expect_rate(s, 0, 0, 0.01);

    /* the cosine's epochs count the warm-up: min_lr is reached when they are over */
    s = ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_COSINE,
                                                     .lr = 1,
                                                     .min_lr = 0.125,
                                                     .epochs = 5,
                                                     .warmup_epochs = 1,
                                                     .steps_per_epoch = 3 });
    expect_rate(s, 1, 0, 1);
    expect_rate(s, 3, 0, 0.5625);
    ck_assert_double_gt(ls_schedule_lr(s, 4, 2), 0.125);
    expect_rate(s, 5, 0, 0.125);
    expect_rate(s, 50, 2, 0.125);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(any_time_has_a_rate)
{
    ctx = ls_context_open(NULL);
    const int64_t max = INT64_MAX;
    ls_schedule *all[] = {
        ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_CONSTANT,
                                                     .lr = 1,
                                                     .steps_per_epoch = INT64_C(1) << 40,
                                                     .warmup_epochs = 1 << 20,
                                                     .warmup_start = 0.5 }),
        ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_MULTI_STEP, .lr = 1 }),
        ls_schedule_open(
            ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_EXPONENTIAL, .lr = 1, .gamma = 0.5 }),
        ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_COSINE,
                                                     .lr = 1,
                                                     .epochs = 1 << 20,
                                                     .steps_per_epoch = INT64_C(1) << 40 }),
        ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_ONE_CYCLE,
                                                     .lr = 1,
                                                     .epochs = 1,
                                                     .steps_per_epoch = 1 }),
        ls_schedule_open(
            ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_POLYNOMIAL, .lr = 1, .epochs = 1 }),
        ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_COSINE_RESTARTS,
                                                     .lr = 1,
                                                     .t_0 = 1 << 20,
                                                     .t_mult = 2,
                                                     .steps_per_epoch = INT64_C(1) << 40 }),
        ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_COSINE_RESTARTS,
                                                     .lr = 1,
                                                     .t_0 = 1,
                                                     .by_epoch = true }),
        ls_schedule_open(ctx,
                         &(ls_schedule_config){ .kind = LS_SCHEDULE_REDUCE_ON_PLATEAU, .lr = 1 }),
    };
    static const int64_t times[] = { INT64_MIN, -1, 0, 1, 1 << 20, INT64_C(1) << 40, INT64_MAX };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        ck_assert_msg(all[i], "%s", ls_context_message(ctx));
        for (int e = 0; e < 7; e++)
            for (int t = 0; t < 7; t++) {
                const double lr = ls_schedule_lr(all[i], times[e], times[t]);
                ck_assert_msg(lr >= 0 && lr <= 1, "schedule %zu: %g", i, lr);
            }
    }
    ck_assert(ls_schedule_lr(NULL, max, max) == 0);
    ls_schedule_close(&all[0]);
    ck_assert_ptr_null(all[0]);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(milestones_are_copied)
{
    ctx = ls_context_open(NULL);
    int milestones[] = { 1, 3 };
    ls_schedule *s = ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_MULTI_STEP,
                                                                  .lr = 1,
                                                                  .milestones = milestones,
                                                                  .n_milestones = 2,
                                                                  .gamma = 0.5 });
    milestones[0] = milestones[1] = 0;
    expect_rate(s, 0, 99, 1);
    expect_rate(s, 1, 0, 0.5);
    expect_rate(s, 3, 0, 0.25);
    ls_context_close(&ctx);
}
END_TEST

/* Counts its calls in `user`. */
static double inverse_square_root(int64_t epoch, int64_t step, void *user)
{
    ++*(int *)user;
    return 1 / sqrt((double)(1 + 10 * epoch + step));
}

START_TEST(a_function_gives_a_factor)
{
    int n_calls = 0;
    char settings[] = "inverse square root";
    ctx = ls_context_open(NULL);
    ls_schedule_config config = { .kind = LS_SCHEDULE_CUSTOM,
                                  .lr = 0.5,
                                  .steps_per_epoch = 10,
                                  .warmup_epochs = 1,
                                  .warmup_start = LS_ZERO,
                                  .factor = inverse_square_root,
                                  .user = &n_calls,
                                  .settings = settings };
    ls_schedule *s = ls_schedule_open(ctx, &config);
    *settings = 'I';
    ck_assert_str_eq(s->config.settings, "inverse square root");
    expect_rate(s, 0, 5, 0.25);
    expect_rate(s, 1, 0, 0.5);
    expect_rate(s, 1, 3, 0.25);
    expect_rate(s, 9, 0, 0.5 / 9);
    ck_assert_int_eq(n_calls, 4);
    config.warmup_epochs = config.steps_per_epoch = 0;
    config.warmup_start = 0;
    s = ls_schedule_open(ctx, &config);
    expect_rate(s, 0, 3, 0.25);
    expect_rate(s, 2, 4, 0.1);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(functions_without_effect_are_refused)
{
    int n = 0;
    ctx = ls_context_open(NULL);
    ls_schedule_config config = { .kind = LS_SCHEDULE_CUSTOM, .lr = 1, .settings = "a" };
    expect_invalid(ls_schedule_open(ctx, &config), "the function factor is required");
    config.factor = inverse_square_root;
    config.settings = "";
    expect_invalid(ls_schedule_open(ctx, &config), "the text of settings is required");
    config = (ls_schedule_config){ .kind = LS_SCHEDULE_CONSTANT, .lr = 1, .user = &n };
    expect_invalid(ls_schedule_open(ctx, &config), "user or settings is set");
    ls_context_close(&ctx);
}
END_TEST

START_TEST(state_travels)
{
    ctx = ls_context_open(NULL);
    const ls_schedule_config config = { .kind = LS_SCHEDULE_REDUCE_ON_PLATEAU,
                                        .lr = 1,
                                        .min_lr = 0.01,
                                        .gamma = 0.5,
                                        .patience = 1,
                                        .cooldown = 1 };
    ls_schedule *a = ls_schedule_open(ctx, &config), *b = ls_schedule_open(ctx, &config);
    ls_schedule *deaf =
        ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_CONSTANT, .lr = 1 });
    for (int i = 0; i < 40; i++) {
        double state[LS_SCHEDULE_STATE_SIZE];
        ls_schedule_get_state(a, state);
        ck_assert_int_eq(ls_schedule_set_state(b, state), LS_OK);
        const double metric = i % 9 == 4 ? 1.0 / (i + 1) : 1;
        ck_assert_int_eq(ls_schedule_report(a, metric), LS_OK);
        ck_assert_int_eq(ls_schedule_report(b, metric), LS_OK);
        ck_assert_int_eq(ls_schedule_report(deaf, metric), LS_OK);
        ck_assert(ls_schedule_lr(a, i, 0) == ls_schedule_lr(b, i, 0));
    }
    ck_assert_double_lt(ls_schedule_lr(a, 40, 0), 0.1);
    for (int i = 0; i < 200; i++) ls_schedule_report(a, 1);
    ck_assert(ls_schedule_lr(a, 0, 0) == 0.01);
    ck_assert(ls_schedule_lr(deaf, 0, 0) == 1);

    static const double wrong[][LS_SCHEDULE_STATE_SIZE] = { { 2, 0, 0, 0 },   { -1, 0, 0, 0 },
                                                            { NAN, 0, 0, 0 }, { 1, NAN, 0, 0 },
                                                            { 1, 0, -1, 0 },  { 1, 0, 0, NAN } };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ck_assert_int_eq(ls_schedule_set_state(b, wrong[i]), LS_ERR_INVALID);
        expect_invalid(NULL, "ls_schedule_set_state: state[");
    }
    ck_assert_int_eq(ls_schedule_report(NULL, 1), LS_ERR_EARLIER);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(wrong_configs_are_refused)
{
    ctx = ls_context_open(NULL);
    ck_assert_ptr_null(
        ls_schedule_open(NULL, &(ls_schedule_config){ .kind = LS_SCHEDULE_CONSTANT, .lr = 1 }));
    expect_invalid(ls_schedule_open(ctx, NULL), "ls_schedule_open: config is NULL");
    expect_invalid(
        ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_CONSTANT, .lr = -0.1 }),
        "ls_schedule_open: constant: lr is -0.1, expected a number above 0");
    expect_invalid(
        ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_CONSTANT, .lr = NAN }),
        "lr is nan");
    expect_invalid(
        ls_schedule_open(
            ctx,
            &(ls_schedule_config){ .kind = LS_SCHEDULE_CONSTANT, .lr = 1, .warmup_epochs = 1 }),
        "steps_per_epoch is required, because the learning rate changes from step to step while");
    expect_invalid(ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_CONSTANT,
                                                                .lr = 1,
                                                                .warmup_start = 0.1 }),
                   "warmup_start is 0.1, but there is no warm-up epoch");
    expect_invalid(ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_CONSTANT,
                                                                .lr = 1,
                                                                .steps_per_epoch = 1,
                                                                .warmup_epochs = 1,
                                                                .warmup_start = 1.5 }),
                   "warmup_start is 1.5");
    expect_invalid(ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_CONSTANT,
                                                                .lr = 1,
                                                                .steps_per_epoch = -1 }),
                   "steps_per_epoch is -1");
    expect_invalid(
        ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_STEP, .lr = 1 }),
        "ls_schedule_open: step: step_size is 0, expected 1 to 2^20");
    expect_invalid(ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_STEP,
                                                                .lr = 1,
                                                                .step_size = 1,
                                                                .gamma = -1 }),
                   "gamma is -1");
    expect_invalid(ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_MULTI_STEP,
                                                                .lr = 1,
                                                                .n_milestones = 2 }),
                   "milestones is NULL");
    expect_invalid(ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_MULTI_STEP,
                                                                .lr = 1,
                                                                .milestones = (const int[]){ 3, 3 },
                                                                .n_milestones = 2 }),
                   "milestone 1 is epoch 3, expected one after epoch 3");
    expect_invalid(
        ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_EXPONENTIAL, .lr = 1 }),
        "gamma is 0");
    expect_invalid(
        ls_schedule_open(ctx,
                         &(ls_schedule_config){ .kind = LS_SCHEDULE_COSINE, .lr = 1, .epochs = 3 }),
        "ls_schedule_open: cosine: steps_per_epoch is required");
    expect_invalid(ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_COSINE,
                                                                .lr = 1,
                                                                .epochs = 3,
                                                                .warmup_epochs = 3,
                                                                .steps_per_epoch = 1 }),
                   "warmup_epochs is 3, expected fewer than 3");
    expect_invalid(ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_COSINE,
                                                                .lr = 1,
                                                                .min_lr = 2,
                                                                .epochs = 3,
                                                                .steps_per_epoch = 1 }),
                   "min_lr is 2, above the learning rate 1");
    expect_invalid(ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_COSINE_RESTARTS,
                                                                .lr = 1,
                                                                .steps_per_epoch = 1 }),
                   "cosine_restarts: t_0 is 0, expected 1 to 2^20");
    expect_invalid(ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_COSINE_RESTARTS,
                                                                .lr = 1,
                                                                .t_0 = 2,
                                                                .t_mult = -2,
                                                                .steps_per_epoch = 1 }),
                   "t_mult is -2");
    expect_invalid(
        ls_schedule_open(
            ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_COSINE_RESTARTS, .lr = 1, .t_0 = 2 }),
        "cosine_restarts: steps_per_epoch is required");
    expect_invalid(
        ls_schedule_open(
            ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_POLYNOMIAL, .lr = 1, .epochs = -5 }),
        "epochs is -5");
    expect_invalid(ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_POLYNOMIAL,
                                                                .lr = 1,
                                                                .epochs = 5,
                                                                .power = -1 }),
                   "power is -1");
    expect_invalid(
        ls_schedule_open(
            ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_ONE_CYCLE, .lr = 1, .epochs = 1 }),
        "ls_schedule_open: one_cycle: steps_per_epoch is required");
    expect_invalid(ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_ONE_CYCLE,
                                                                .lr = 1,
                                                                .epochs = 1,
                                                                .pct_start = 1.5,
                                                                .steps_per_epoch = 1 }),
                   "pct_start is 1.5, expected above 0 and at most 1");
    expect_invalid(
        ls_schedule_open(
            ctx,
            &(ls_schedule_config){ .kind = LS_SCHEDULE_REDUCE_ON_PLATEAU, .lr = 1, .gamma = 1 }),
        "gamma is 1, expected above 0 and below 1");
    expect_invalid(
        ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_REDUCE_ON_PLATEAU,
                                                     .lr = 1,
                                                     .patience = -2 }),
        "patience is -2");
    ls_context_close(&ctx);
}
END_TEST

START_TEST(fields_without_effect_are_refused)
{
    ctx = ls_context_open(NULL);
    const struct {
        ls_schedule_config config;
        const char *text;
    } wrong[] = {
        { { LS_SCHEDULE_CONSTANT, 1, .gamma = 0.5 }, "constant: gamma is 0.5, but has no effect" },
        { { LS_SCHEDULE_CONSTANT, 1, .gamma = LS_ZERO }, "constant: gamma is -0, but has no" },
        { { LS_SCHEDULE_CONSTANT, 1, .epochs = 3 }, "constant: epochs is 3, but has no effect" },
        { { LS_SCHEDULE_CONSTANT, 1, .t_0 = 3 }, "constant: t_0 is 3, but has no effect" },
        { { LS_SCHEDULE_STEP, 1, .step_size = 2, .by_epoch = true }, "step: by_epoch is 1, but" },
        { { LS_SCHEDULE_ONE_CYCLE, 1, 4, 2, .epochs = 3 }, "one_cycle: warmup_epochs is 2, but" },
        { { LS_SCHEDULE_EXPONENTIAL, 1, .gamma = 0.9, .n_milestones = 1 }, "n_milestones is 1" },
        { { (ls_schedule_kind)10, 1 }, "there is no kind 10" },
        { { (ls_schedule_kind)-1, 1 }, "there is no kind -1" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        expect_invalid(ls_schedule_open(ctx, &wrong[i].config), wrong[i].text);
    ls_context_close(&ctx);
}
END_TEST

/* LS_ZERO_INT and LS_ZERO set a field to zero; a field that can't be zero refuses them. */
START_TEST(zero_is_not_the_default)
{
    ctx = ls_context_open(NULL);
    const double threshold[] = { 0, LS_ZERO };
    for (int i = 0; i < 2; i++) {
        ls_schedule *s =
            ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_REDUCE_ON_PLATEAU,
                                                         .lr = 1,
                                                         .patience = LS_ZERO_INT,
                                                         .threshold = threshold[i] });
        ck_assert_int_eq(ls_schedule_report(s, 1), LS_OK);
        ck_assert_int_eq(ls_schedule_report(s, 1 - 1e-5), LS_OK);
        expect_rate(s, 2, 0, i ? 1 : 0.1);
    }
    expect_invalid(ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_STEP,
                                                                .lr = 1,
                                                                .step_size = 1,
                                                                .gamma = LS_ZERO }),
                   "gamma is 0, expected a number above 0");
    ls_context_close(&ctx);
}
END_TEST

START_TEST(settings_must_be_finite)
{
    ctx = ls_context_open(NULL);
    static const double wrong[] = { NAN, INFINITY, -INFINITY };
    static const char *const names[] = { "nan,", "inf,", "-inf," };
    for (int i = 0; i < 3; i++) {
        const double x = wrong[i];
        expect_invalid(ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_STEP,
                                                                    .lr = 1,
                                                                    .step_size = 1,
                                                                    .gamma = x }),
                       names[i]);
        expect_invalid(
            ls_schedule_open(
                ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_MULTI_STEP, .lr = 1, .gamma = x }),
            names[i]);
        expect_invalid(
            ls_schedule_open(
                ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_EXPONENTIAL, .lr = 1, .gamma = x }),
            names[i]);
        const ls_schedule_config cosine[] = {
            { .kind = LS_SCHEDULE_COSINE, .lr = x, .epochs = 2, .steps_per_epoch = 1 },
            { .kind = LS_SCHEDULE_COSINE, .lr = 1, .min_lr = x, .epochs = 2, .steps_per_epoch = 1 },
            { .kind = LS_SCHEDULE_COSINE,
              .lr = 1,
              .epochs = 2,
              .warmup_epochs = 1,
              .warmup_start = x,
              .steps_per_epoch = 1 }
        };
        for (int j = 0; j < 3; j++) expect_invalid(ls_schedule_open(ctx, &cosine[j]), names[i]);
        expect_invalid(ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_POLYNOMIAL,
                                                                    .lr = 1,
                                                                    .power = x,
                                                                    .epochs = 2 }),
                       names[i]);
        const ls_schedule_config cycle[] = {
            { LS_SCHEDULE_ONE_CYCLE, .lr = 1, .pct_start = x, .epochs = 1, .steps_per_epoch = 1 },
            { LS_SCHEDULE_ONE_CYCLE, .lr = 1, .div_factor = x, .epochs = 1, .steps_per_epoch = 1 },
            { LS_SCHEDULE_ONE_CYCLE, .lr = 1, .final_div_factor = x, .epochs = 1,
              .steps_per_epoch = 1 }
        };
        for (int j = 0; j < 3; j++) expect_invalid(ls_schedule_open(ctx, &cycle[j]), names[i]);
        expect_invalid(
            ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_REDUCE_ON_PLATEAU,
                                                         .lr = 1,
                                                         .gamma = x }),
            names[i]);
        expect_invalid(
            ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_REDUCE_ON_PLATEAU,
                                                         .lr = 1,
                                                         .threshold = x }),
            names[i]);
    }
    ls_context_close(&ctx);
}
END_TEST

TEST_PROGRAM(schedule)
{
    return RUN_SUITE("schedules", warm_up_rises_step_by_step, any_time_has_a_rate,
                     milestones_are_copied, a_function_gives_a_factor,
                     functions_without_effect_are_refused, state_travels, wrong_configs_are_refused,
                     fields_without_effect_are_refused, zero_is_not_the_default,
                     settings_must_be_finite);
}
