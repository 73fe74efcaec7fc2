/* test_parity_schedules.c: the rates of every schedule that PyTorch has as well
 * (tests/reference/schedules.py). */
#include "../suite.h"
#include "parity.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { EPOCHS = 20, STEPS = 4, MAX_RATES = 100, MAX_NAME = 64 };
/* PyTorch takes most rates from the one before, up to 80 times with a rounding of 1e-16 each; where
 * a cosine ends near 0 they count for more. */
static const double tolerance = 1e-12;

/* The fixture's rates of that name. */
static int read_rates(const char *wanted, double out[MAX_RATES])
{
    FILE *file = fopen(parity_path("schedules.txt"), "r");
    ck_assert_ptr_nonnull(file);
    char name[MAX_NAME];
    int n = -1;
    while (n < 0 && fscanf(file, "%63s", name) == 1) {
        double lr;
        int n_here = 0;
        for (; n_here < MAX_RATES && fscanf(file, "%lf", &lr) == 1; n_here++) out[n_here] = lr;
        if (strcmp(name, wanted) == 0) n = n_here;
    }
    fclose(file);
    ck_assert_msg(n > 0, "no '%s' among the fixtures", wanted);
    return n;
}

/* Compares all rates of a schedule: the fixture has one for each step of an epoch, or one for all
 * of them. */
static void check(ls_context *ctx, const char *name, ls_schedule *schedule, bool by_step,
                  const float *metrics)
{
    ck_assert_msg(schedule, "%s: %s", name, ls_context_message(ctx));
    double rates[MAX_RATES];
    const int n = read_rates(name, rates), n_epochs = by_step ? n / STEPS : n;
    ck_assert_int_ge(n_epochs, EPOCHS);
    for (int epoch = 0; epoch < n_epochs; epoch++) {
        for (int step = 0; step < STEPS; step++) {
            const double lr = ls_schedule_lr(schedule, epoch, step);
            const double wanted = rates[by_step ? epoch * STEPS + step : epoch];
            ck_assert_msg(fabs(lr - wanted) <= tolerance * wanted,
                          "%s: epoch %d, step %d: %.17g, wanted %.17g", name, epoch, step, lr,
                          wanted);
        }
        if (metrics) ck_assert_int_eq(ls_schedule_report(schedule, (double)metrics[epoch]), LS_OK);
    }
}

START_TEST(schedules_by_epoch)
{
    ls_context *ctx = ls_context_open(NULL);
    check(ctx, "step_decay",
          ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_STEP,
                                                       .lr = 0.1,
                                                       .step_size = 6,
                                                       .gamma = 0.3,
                                                       .steps_per_epoch = STEPS }),
          false, NULL);
    check(ctx, "multi_step",
          ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_MULTI_STEP,
                                                       .lr = 0.1,
                                                       .milestones = (const int[]){ 5, 9, 16 },
                                                       .n_milestones = 3,
                                                       .gamma = 0.2,
                                                       .steps_per_epoch = STEPS }),
          false, NULL);
    check(ctx, "exponential",
          ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_EXPONENTIAL,
                                                       .lr = 0.1,
                                                       .gamma = 0.85,
                                                       .steps_per_epoch = STEPS }),
          false, NULL);
    check(ctx, "cosine_by_epoch",
          ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_COSINE,
                                                       .lr = 0.1,
                                                       .min_lr = 1e-3,
                                                       .epochs = EPOCHS,
                                                       .steps_per_epoch = STEPS,
                                                       .by_epoch = true }),
          false, NULL);
    check(ctx, "cosine_restarts_by_epoch",
          ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_COSINE_RESTARTS,
                                                       .lr = 0.1,
                                                       .t_0 = 6,
                                                       .by_epoch = true }),
          false, NULL);
    check(ctx, "polynomial",
          ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_POLYNOMIAL,
                                                       .lr = 0.1,
                                                       .power = 2,
                                                       .epochs = EPOCHS,
                                                       .steps_per_epoch = STEPS }),
          false, NULL);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(schedules_by_step)
{
    ls_context *ctx = ls_context_open(NULL);
    check(ctx, "cosine",
          ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_COSINE,
                                                       .lr = 0.1,
                                                       .min_lr = 1e-3,
                                                       .epochs = EPOCHS,
                                                       .steps_per_epoch = STEPS }),
          true, NULL);
    check(ctx, "cosine_restarts",
          ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_COSINE_RESTARTS,
                                                       .lr = 0.1,
                                                       .min_lr = 1e-3,
                                                       .t_0 = 3,
                                                       .t_mult = 2,
                                                       .steps_per_epoch = STEPS }),
          true, NULL);
    check(ctx, "one_cycle",
          ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_ONE_CYCLE,
                                                       .lr = 0.1,
                                                       .epochs = EPOCHS,
                                                       .steps_per_epoch = STEPS }),
          true, NULL);
    check(ctx, "one_cycle_own",
          ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_ONE_CYCLE,
                                                       .lr = 0.2,
                                                       .pct_start = 0.25,
                                                       .div_factor = 10,
                                                       .final_div_factor = 100,
                                                       .epochs = EPOCHS,
                                                       .steps_per_epoch = STEPS }),
          true, NULL);
    check(ctx, "one_cycle_steep",
          ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_ONE_CYCLE,
                                                       .lr = 0.2,
                                                       .pct_start = 0.005,
                                                       .epochs = EPOCHS,
                                                       .steps_per_epoch = STEPS }),
          true, NULL);
    check(ctx, "one_cycle_rising",
          ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_ONE_CYCLE,
                                                       .lr = 0.2,
                                                       .pct_start = 0.99,
                                                       .epochs = EPOCHS,
                                                       .steps_per_epoch = STEPS }),
          true, NULL);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(schedules_with_warm_up)
{
    ls_context *ctx = ls_context_open(NULL);
    check(ctx, "constant_warm_up",
          ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_CONSTANT,
                                                       .lr = 0.1,
                                                       .steps_per_epoch = STEPS,
                                                       .warmup_epochs = 2,
                                                       .warmup_start = 0.01 }),
          true, NULL);
    check(ctx, "cosine_warm_up",
          ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_COSINE,
                                                       .lr = 0.1,
                                                       .epochs = EPOCHS,
                                                       .warmup_epochs = 2,
                                                       .steps_per_epoch = STEPS }),
          true, NULL);
    check(ctx, "cosine_restarts_warm_up",
          ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_COSINE_RESTARTS,
                                                       .lr = 0.1,
                                                       .t_0 = 1,
                                                       .t_mult = 3,
                                                       .steps_per_epoch = STEPS,
                                                       .warmup_epochs = 2 }),
          true, NULL);
    check(ctx, "step_warm_up",
          ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_STEP,
                                                       .lr = 0.1,
                                                       .step_size = 5,
                                                       .steps_per_epoch = STEPS,
                                                       .warmup_epochs = 2 }),
          true, NULL);
    check(ctx, "polynomial_warm_up",
          ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_POLYNOMIAL,
                                                       .lr = 0.1,
                                                       .power = 0.9,
                                                       .epochs = EPOCHS,
                                                       .steps_per_epoch = STEPS,
                                                       .warmup_epochs = 2 }),
          true, NULL);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(plateau_listens_to_the_same_metrics)
{
    ls_context *ctx = ls_context_open(NULL);
    float metrics[60];
    parity_hashed("metrics", 60, 0.05f, 1, metrics);
    check(ctx, "plateau_min",
          ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_REDUCE_ON_PLATEAU,
                                                       .lr = 0.1,
                                                       .gamma = 0.5,
                                                       .patience = 3,
                                                       .steps_per_epoch = STEPS }),
          false, metrics);
    check(ctx, "plateau_max",
          ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_REDUCE_ON_PLATEAU,
                                                       .lr = 0.1,
                                                       .min_lr = 1e-3,
                                                       .gamma = 0.3,
                                                       .patience = 2,
                                                       .cooldown = 2,
                                                       .threshold = 1e-2,
                                                       .maximize = true,
                                                       .steps_per_epoch = STEPS }),
          false, metrics);
    float negative[60];
    for (int i = 0; i < 60; i++) negative[i] = -metrics[i];
    metrics[0] = metrics[9] = INFINITY;
    metrics[1] = metrics[7] = metrics[8] = NAN;
    check(ctx, "plateau_infinite",
          ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_REDUCE_ON_PLATEAU,
                                                       .lr = 0.1,
                                                       .gamma = 0.5,
                                                       .patience = LS_ZERO_INT }),
          false, metrics);
    check(ctx, "plateau_negative",
          ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_REDUCE_ON_PLATEAU,
                                                       .lr = 0.1,
                                                       .gamma = 0.7,
                                                       .patience = 1 }),
          false, negative);
    ls_context_close(&ctx);
}
END_TEST

TEST_PROGRAM(parity_schedules)
{
    return RUN_SUITE("schedules against PyTorch", schedules_by_epoch, schedules_by_step,
                     schedules_with_warm_up, plateau_listens_to_the_same_metrics);
}
