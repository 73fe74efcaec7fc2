/* test_freezing.c: runs that freeze and unfreeze parameters between steps, stopped and resumed. */
#include "../suite.h"
#include <lockstep/lockstep.h>
#include <string.h>

enum { N = 6, STEPS = 9 };

static ls_node *model(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    x = ls_relu(g, ls_batch_norm(g, "a.norm", ls_linear(g, "a.fc", x, 5, NULL), NULL));
    return ls_linear(g, "b", ls_relu(g, ls_linear(g, "c", x, 7, NULL)), 3, NULL);
}

typedef struct run {
    ls_context *ctx;
    ls_training_state state;
    ls_batch batch;
} run;

/* frozen: a pattern of what is frozen at first. */
static run open_run(const char *frozen)
{
    run r = { .ctx = ls_context_open(&(ls_context_config){ .threads = 1 }) };
    r.state.net = ls_net_build(
        r.ctx, model, NULL,
        &(ls_net_config){ .input = { .image = { LS_F32, LS_SHAPE(N, 4) }, .n_classes = 3 },
                          .loss = { LS_LOSS_CROSS_ENTROPY } });
    r.state.optimizer = ls_sgd(r.state.net, &(ls_sgd_config){ .momentum = 0.9f, .accumulate = 2 });
    ls_tensor *images = ls_tensor_open(r.ctx, LS_F32, LS_SHAPE(N, 4));
    ls_tensor_random_normal(images, 1, 0, 1);
    r.batch = (ls_batch){ .images = images, .labels = ls_tensor_open(r.ctx, LS_I32, LS_SHAPE(N)) };
    if (frozen) ls_net_freeze(r.state.net, frozen);
    expect_ok(r.ctx);
    return r;
}

/* From step 2 on "c.*" is frozen, from step 5 on nothing is but "b.bias". */
static void take_steps(run *r, int64_t end)
{
    for (; r->state.step < end; r->state.step++) {
        if (r->state.step == 2) ls_net_freeze(r->state.net, "c.*");
        if (r->state.step == 5) ls_net_unfreeze(r->state.net, "*");
        if (r->state.step == 5) ls_net_freeze(r->state.net, "b.bias");
        ck_assert_msg(ls_net_step(r->state.net, r->state.optimizer, &r->batch, 0.1) == LS_OK, "%s",
                      ls_context_message(r->ctx));
    }
}

static void expect_equal(const run *a, const run *b)
{
    for (int64_t i = 0; i < ls_net_parameter_count(a->state.net); i++) {
        const ls_parameter_info x = ls_net_parameter_at(a->state.net, i);
        const ls_parameter_info y = ls_net_parameter_at(b->state.net, i);
        ck_assert_msg(x.frozen == y.frozen &&
                          memcmp(ls_tensor_data_const(x.value), ls_tensor_data_const(y.value),
                                 ls_tensor_bytes(x.value)) == 0,
                      "%s differs", x.name);
    }
}

static const char *const beginnings[] = { NULL, "a.*" };

START_TEST(a_stop_at_any_step_changes_nothing)
{
    char *folder = new_folder();
    run whole = open_run(beginnings[_i / STEPS]), first = open_run(beginnings[_i / STEPS]),
        second = open_run(beginnings[_i / STEPS]);
    take_steps(&whole, STEPS);
    take_steps(&first, _i % STEPS);
    ck_assert_int_eq(ls_checkpoint_save(&first.state, path_in(folder, "a")), LS_OK);
    ck_assert_msg(ls_checkpoint_load(&second.state, path_in(folder, "a")) == LS_OK, "%s",
                  ls_context_message(second.ctx));
    expect_equal(&first, &second);
    take_steps(&second, STEPS);
    expect_equal(&whole, &second);
    ls_context_close(&whole.ctx);
    ls_context_close(&first.ctx);
    ls_context_close(&second.ctx);
    remove_folder(folder);
}
END_TEST

START_TEST(a_net_goes_back_to_what_was_frozen)
{
    char *folder = new_folder();
    run r = open_run("a.*"), whole = open_run("a.*");
    take_steps(&whole, STEPS);
    static const int64_t stops[] = { 1, 4, 7 };
    for (int i = 0; i < 3; i++) {
        take_steps(&r, stops[i]);
        ck_assert_int_eq(ls_checkpoint_save(&r.state, path_in(folder, "%d", i)), LS_OK);
    }
    for (int i = 2; i >= 0; i--) {
        ck_assert_int_eq(ls_checkpoint_load(&r.state, path_in(folder, "%d", i)), LS_OK);
        ck_assert_int_eq(r.state.step, stops[i]);
        take_steps(&r, STEPS);
        expect_equal(&whole, &r);
    }
    ls_context_close(&r.ctx);
    ls_context_close(&whole.ctx);
    remove_folder(folder);
}
END_TEST

START_TEST(another_beginning_is_another_run)
{
    char *folder = new_folder();
    run first = open_run("a.*"), other = open_run("b.*");
    take_steps(&first, 4);
    ck_assert_int_eq(ls_checkpoint_save(&first.state, path_in(folder, "a")), LS_OK);
    expect_failure(ls_checkpoint_load(&other.state, path_in(folder, "a")), other.ctx,
                   LS_ERR_MISMATCH, "model.frozen is [\"a.fc.weight\"");
    other.state.force = true;
    ck_assert_int_eq(ls_checkpoint_load(&other.state, path_in(folder, "a")), LS_OK);
    for (int64_t i = 0; i < ls_net_parameter_count(other.state.net); i++) {
        const ls_parameter_info p = ls_net_parameter_at(other.state.net, i);
        ck_assert_msg(p.frozen == (strncmp(p.name, "b.", 2) == 0), "%s", p.name);
    }
    ls_context_close(&first.ctx);
    ls_context_close(&other.ctx);
    remove_folder(folder);
}
END_TEST

TEST_PROGRAM(freezing)
{
    return both(run_loop("stops", a_stop_at_any_step_changes_nothing, 2 * STEPS),
                RUN_SUITE("freezing", a_net_goes_back_to_what_was_frozen,
                          another_beginning_is_another_run));
}
