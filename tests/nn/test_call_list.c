/* test_call_list.c: a step's call list is made once for its programs and its update. */
#include "nn/net/net_state.h"
#include "small_net.h"

enum { BATCH = 8, MAX_STEPS = 2 * LS__MAX_CALL_LISTS };

typedef struct stepper {
    ls_context *ctx;
    ls_net *net;
    ls_optimizer *opts[2];
    data batches[MAX_STEPS];
} stepper;

static stepper stepper_open(int shards, int64_t accumulate)
{
    stepper s = { .ctx = ls_context_open(&(ls_context_config){ .shards = shards }) };
    const ls_net_config config = small_config(BATCH);
    s.net = ls_net_build(s.ctx, small, NULL, &config);
    for (int i = 0; i < 2; i++)
        s.opts[i] = ls_sgd(s.net, &(ls_sgd_config){ .accumulate = accumulate });
    for (int i = 0; i < MAX_STEPS; i++) s.batches[i] = make_data(s.ctx, BATCH - i % BATCH, 8);
    expect_ok(s.ctx);
    return s;
}

static const ls__call_list *stepper_run(stepper *s, int batch, ls_optimizer *opt)
{
    ck_assert_int_eq(ls_net_step(s->net, opt, &s->batches[batch].batch, 0.01), LS_OK);
    return s->net->executor.list;
}

START_TEST(a_list_is_found_again)
{
    stepper s = stepper_open(1 + _i, 1);
    const ls__call_list *whole = stepper_run(&s, 0, s.opts[0]);
    ls__call *const *calls = whole->calls;
    const ls__call_list *other_update = stepper_run(&s, 0, s.opts[1]);
    const ls__call_list *other_batch = stepper_run(&s, 2, s.opts[0]);
    ck_assert_ptr_ne(whole, other_update);
    ck_assert_ptr_ne(whole, other_batch);
    ck_assert_ptr_ne(other_update, other_batch);
    ck_assert_int_eq(ls_net_evaluate(s.net, &s.batches[0].batch), LS_OK);
    const ls__call_list *evaluation = s.net->executor.list;
    ck_assert_ptr_eq(stepper_run(&s, 0, s.opts[0]), whole);
    ck_assert_ptr_eq(whole->calls, calls);
    ck_assert_ptr_eq(stepper_run(&s, 0, s.opts[1]), other_update);
    ck_assert_ptr_eq(stepper_run(&s, 2, s.opts[0]), other_batch);
    ck_assert_int_eq(ls_net_evaluate(s.net, &s.batches[0].batch), LS_OK);
    ck_assert_ptr_eq(s.net->executor.list, evaluation);
    ck_assert_int_lt(evaluation->n_calls, whole->n_calls);
    ls_context_close(&s.ctx);
}
END_TEST

START_TEST(batches_that_are_summed_have_a_list_of_their_own)
{
    stepper s = stepper_open(1, 2);
    const ls__call_list *summed = stepper_run(&s, 0, s.opts[0]);
    const ls__call_list *updated = stepper_run(&s, 0, s.opts[0]);
    ck_assert_ptr_ne(summed, updated);
    ck_assert_ptr_eq(stepper_run(&s, 0, s.opts[0]), summed);
    ck_assert_ptr_eq(stepper_run(&s, 0, s.opts[0]), updated);
    ls_context_close(&s.ctx);
}
END_TEST

/* The weights after steps over more shapes than there are lists, whose programs are dropped and
 * compiled again. */
static void weights_after(int max_plans, float *out, size_t bytes)
{
    ls_context *ctx = ls_context_open(NULL);
    ls_net_config config = small_config(BATCH);
    config.max_execution_plans = max_plans;
    ls_net *net = ls_net_build(ctx, small, NULL, &config);
    ls_optimizer *opt = ls_sgd(net, NULL);
    for (int i = 0; i < 3 * BATCH; i++) {
        data d = make_data(ctx, 1 + i % BATCH, 8);
        d.batch.step = i;
        ck_assert_int_eq(ls_net_step(net, opt, &d.batch, 0.01), LS_OK);
        if (i % 3 == 0) ck_assert_int_eq(ls_net_evaluate(net, &d.batch), LS_OK);
        ls_tensor_close(&d.images);
        ls_tensor_close(&d.labels);
    }
    ck_assert_int_eq(ls_tensor_read(ls_net_parameter(net, "fc.weight"), out, bytes), LS_OK);
    ls_context_close(&ctx);
}

START_TEST(dropped_programs_leave_no_list)
{
    float few[10 * 16], many[10 * 16];
    weights_after(1, few, sizeof few);
    weights_after(2 * BATCH, many, sizeof many);
    ck_assert_mem_eq(few, many, sizeof few);
}
END_TEST

TEST_PROGRAM(call_list)
{
    const int found = run_loop("call_list: found again", a_list_is_found_again, 2);
    return both(found, RUN_SUITE("call_list", batches_that_are_summed_have_a_list_of_their_own,
                                 dropped_programs_leave_no_list));
}
