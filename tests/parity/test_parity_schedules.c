/* test_parity_schedules.c: the rates of every schedule that PyTorch has as well
 * (tests/reference/schedules.py). */
#include "../suite.h"
#include "parity.h"
#include <math.h>
#include <stdio.h>

enum { EPOCHS = 20, STEPS = 4 };
static const double tolerance = 1e-6; /* the fixture is in f32; a rate spans several decades */

/* Compares all rates of a schedule: `each` steps of an epoch (1 or STEPS) are in the fixture. */
static void check(ls_context *ctx, const char *name, ls_schedule *schedule, int each,
                  const float *metrics)
{
    ls_tensor_file *file = ls_tensor_file_open(ctx, parity_path("schedules.safetensors"));
    ck_assert_msg(file && schedule, "%s: %s", name, ls_context_message(ctx));
    ls_tensor *tensor = parity_load(ctx, file, name);
    const float *rates = ls_tensor_data_const(tensor);
    ck_assert_int_ge(ls_tensor_count(tensor), EPOCHS * each);
    for (int64_t i = 0; i < ls_tensor_count(tensor); i++) {
        for (int64_t step = i % each; step < STEPS; step += each) {
            const double rate = ls_schedule_rate(schedule, i / each, step);
            const double wanted = (double)rates[i];
            ck_assert_msg(fabs(rate - wanted) <= tolerance * wanted,
                          "%s: epoch %lld, step %lld: %.9g, wanted %.9g", name,
                          (long long)(i / each), (long long)step, rate, wanted);
            if (each > 1) break;
        }
        if (metrics) ck_assert_int_eq(ls_schedule_report(schedule, (double)metrics[i]), LS_OK);
    }
}

START_TEST(schedules_by_epoch)
{
    ls_context *ctx = ls_context_open(NULL);
    check(ctx, "step_decay",
          ls_step_decay(ctx, &(ls_step_config){ .rate = 0.1,
                                                .every_epochs = 6,
                                                .gamma = 0.3,
                                                .steps_per_epoch = STEPS }),
          1, NULL);
    check(ctx, "multi_step",
          ls_multi_step(ctx, &(ls_multi_step_config){ .rate = 0.1,
                                                      .milestones = (const int[]){ 5, 9, 16 },
                                                      .n_milestones = 3,
                                                      .gamma = 0.2,
                                                      .steps_per_epoch = STEPS }),
          1, NULL);
    check(
        ctx, "exponential",
        ls_exponential(
            ctx, &(ls_exponential_config){ .rate = 0.1, .gamma = 0.85, .steps_per_epoch = STEPS }),
        1, NULL);
    check(ctx, "cosine_by_epoch",
          ls_cosine(ctx, &(ls_cosine_config){ .peak = 0.1,
                                              .floor = 1e-3,
                                              .epochs = EPOCHS,
                                              .steps_per_epoch = STEPS,
                                              .by_epoch = true }),
          1, NULL);
    check(ctx, "polynomial",
          ls_polynomial(ctx,
                        &(ls_polynomial_config){
                            .rate = 0.1, .power = 2, .epochs = EPOCHS, .steps_per_epoch = STEPS }),
          1, NULL);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(schedules_by_step)
{
    ls_context *ctx = ls_context_open(NULL);
    check(ctx, "cosine",
          ls_cosine(ctx,
                    &(ls_cosine_config){
                        .peak = 0.1, .floor = 1e-3, .epochs = EPOCHS, .steps_per_epoch = STEPS }),
          STEPS, NULL);
    check(
        ctx, "one_cycle",
        ls_one_cycle(
            ctx, &(ls_one_cycle_config){ .peak = 0.1, .epochs = EPOCHS, .steps_per_epoch = STEPS }),
        STEPS, NULL);
    check(ctx, "one_cycle_own",
          ls_one_cycle(ctx, &(ls_one_cycle_config){ .peak = 0.2,
                                                    .rise = 0.25,
                                                    .div = 10,
                                                    .final_div = 100,
                                                    .epochs = EPOCHS,
                                                    .steps_per_epoch = STEPS }),
          STEPS, NULL);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(schedules_with_warm_up)
{
    ls_context *ctx = ls_context_open(NULL);
    check(ctx, "constant_warm_up",
          ls_constant(ctx, &(ls_constant_config){ .rate = 0.1,
                                                  .steps_per_epoch = STEPS,
                                                  .warmup = { 2, 0.01f } }),
          STEPS, NULL);
    check(ctx, "cosine_warm_up",
          ls_cosine(ctx, &(ls_cosine_config){ .peak = 0.1,
                                              .epochs = EPOCHS,
                                              .warmup_epochs = 2,
                                              .steps_per_epoch = STEPS }),
          STEPS, NULL);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(plateau_listens_to_the_same_metrics)
{
    ls_context *ctx = ls_context_open(NULL);
    float metrics[60];
    parity_hashed("metrics", 60, 0.05f, 1, metrics);
    check(ctx, "plateau_min",
          ls_reduce_on_plateau(ctx, &(ls_plateau_config){ .rate = 0.1,
                                                          .gamma = 0.5,
                                                          .patience = 3,
                                                          .steps_per_epoch = STEPS }),
          1, metrics);
    check(ctx, "plateau_max",
          ls_reduce_on_plateau(ctx, &(ls_plateau_config){ .rate = 0.1,
                                                          .floor = 1e-3,
                                                          .gamma = 0.3,
                                                          .patience = 2,
                                                          .cooldown = 2,
                                                          .threshold = 1e-2,
                                                          .maximize = true,
                                                          .steps_per_epoch = STEPS }),
          1, metrics);
    ls_context_close(&ctx);
}
END_TEST

int main(void)
{
    return RUN_SUITE("schedules against PyTorch", schedules_by_epoch, schedules_by_step,
                     schedules_with_warm_up, plateau_listens_to_the_same_metrics);
}
