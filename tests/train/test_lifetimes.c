/* test_lifetimes.c: objects that are closed before those that use them, objects that are NULL, and
 * a loader that two calls want at once. */
#include "../checkpoint/checkpoint_support.h"
#include "../suite.h"
#include <stdio.h>
#include <string.h>

/* ---- Closing ---- */

/* Every order of closing works: an object remains until those that use it are closed. */
START_TEST(parents_may_be_closed_first)
{
    run r = open_good_run(&usual);
    ls_training_state *s = &r.state;
    ls_trainer *trainer =
        ls_trainer_open(s->net, s->optimizer, s->schedule, s->loader,
                        &(ls_trainer_config){ .epochs = 2, .validation = s->validation });
    expect_ok(r.ctx);
    ls_net_close(&s->net);
    ls_optimizer_close(&s->optimizer);
    ls_schedule_close(&s->schedule);
    ls_loader_close(&s->loader);
    ls_loader_close(&s->validation);
    ck_assert_int_eq(ls_trainer_run(trainer, NULL), LS_OK);
    ls_trainer_close(&trainer);
    ck_assert_int_eq(ls_context_status(r.ctx), LS_OK);
    ls_context_close(&r.ctx);

    r = open_good_run(&usual); /* the net before its optimizer alone */
    ls_net_close(&r.state.net);
    ck_assert_int_eq(ls_optimizer_step(r.state.optimizer, 0.1), LS_ERR_INVALID);
    expect_error(r.ctx, LS_ERR_INVALID, "no gradients");
    ls_optimizer_close(&r.state.optimizer);
    ls_context_close(&r.ctx);

    r = open_good_run(&usual); /* closed, used, and left to the context */
    ls_net_close(&r.state.net);
    ls_context_close(&r.ctx);
}
END_TEST

static ls_trainer *closed_trainer;
static run closed_run;

static ls_status close_all(void *user, const ls_event *e)
{
    (void)user;
    (void)e;
    ls_trainer_close(&closed_trainer);
    ls_net_close(&closed_run.state.net);
    ls_optimizer_close(&closed_run.state.optimizer);
    ls_loader_close(&closed_run.state.loader);
    return LS_OK;
}

START_TEST(a_callback_may_close)
{
    ls_averages averages;
    closed_run = open_good_run(&usual);
    ls_training_state *s = &closed_run.state;
    closed_trainer = ls_trainer_open(s->net, s->optimizer, s->schedule, s->loader,
                                     &(ls_trainer_config){ .epochs = 2, .on_event = close_all });
    ck_assert_int_eq(ls_trainer_run(closed_trainer, NULL), LS_OK);
    ls_context_close(&closed_run.ctx);

    closed_run = open_good_run(&usual);
    closed_trainer = ls_trainer_open(
        s->net, s->optimizer, s->schedule, s->loader,
        &(ls_trainer_config){ .epochs = 2, .dir = path_of("saved"), .on_event = close_all });
    expect_ok(closed_run.ctx);
    ck_assert_int_eq(ls_trainer_save(closed_trainer), LS_OK);
    ck_assert_ptr_null(closed_trainer);
    ls_context_close(&closed_run.ctx);

    closed_run = open_good_run(&usual);
    const ls_evaluate_config config = { .on_event = close_all };
    ck_assert_int_eq(ls_evaluate(s->net, s->loader, &config, &averages), LS_OK);
    ck_assert_int_eq(averages.n_images, N_SAMPLES);
    ls_context_close(&closed_run.ctx);

    closed_run = open_good_run(&usual);
    ls_lr_curve *curve = ls_lr_find(s->net, s->optimizer, s->loader,
                                    &(ls_lr_find_config){ .steps = 10, .on_event = close_all });
    expect_ok(closed_run.ctx);
    ck_assert_ptr_nonnull(curve);
    ls_context_close(&closed_run.ctx);
}
END_TEST

/* ---- NULL ---- */

START_TEST(an_object_that_is_null_is_named)
{
    run r = open_good_run(&usual);
    const ls_training_state *s = &r.state;
    const ls_trainer_config config = { .epochs = 1 };
    ls_averages averages;
    ls_batch batch = { 0 };
    ls_trainer_open(NULL, s->optimizer, s->schedule, s->loader, &config);
    expect_error(r.ctx, LS_ERR_INVALID, "ls_trainer_open: net is NULL");
    ls_trainer_open(s->net, NULL, s->schedule, s->loader, &config);
    expect_error(r.ctx, LS_ERR_INVALID, "ls_trainer_open: optimizer is NULL");
    ls_trainer_open(s->net, s->optimizer, NULL, s->loader, &config);
    expect_error(r.ctx, LS_ERR_INVALID, "ls_trainer_open: schedule is NULL");
    ls_trainer_open(s->net, s->optimizer, s->schedule, NULL, &config);
    expect_error(r.ctx, LS_ERR_INVALID, "ls_trainer_open: loader is NULL");
    expect_failure(ls_evaluate(s->net, NULL, NULL, &averages), r.ctx, LS_ERR_INVALID,
                   "ls_evaluate: loader is NULL");
    expect_failure(ls_evaluate(NULL, s->loader, NULL, &averages), r.ctx, LS_ERR_INVALID,
                   "ls_evaluate: net is NULL");
    ls_lr_find(s->net, NULL, s->loader, NULL);
    expect_error(r.ctx, LS_ERR_INVALID, "ls_lr_find: optimizer is NULL");
    expect_failure(ls_net_step(NULL, s->optimizer, &batch, 0.1), r.ctx, LS_ERR_INVALID,
                   "ls_net_step: net is NULL");
    /* the result of an earlier failure keeps that error */
    ck_assert_ptr_null(ls_net_parameter(s->net, "none"));
    ck_assert_ptr_null(ls_trainer_open(s->net, NULL, s->schedule, s->loader, &config));
    expect_error(r.ctx, LS_ERR_NOT_FOUND, "no parameter or buffer 'none'");
    ls_context_close(&r.ctx);
}
END_TEST

/* ---- Loaders ---- */

typedef struct intruder {
    run *r;
    ls_trainer *trainer;
    int kind;
} intruder;

static const char *const calls[] = { "ls_evaluate",    "ls_loader_start", "ls_loader_start_at",
                                     "ls_loader_next", "ls_lr_find",      "ls_trainer_run" };
enum { N_CALLS = sizeof(calls) / sizeof(calls[0]) };

/* Uses the loader of the run within a step. Does not return the error, which stays kept. */
static ls_status intrude(void *user, const ls_event *e)
{
    const intruder *i = user;
    const ls_training_state *s = &i->r->state;
    ls_averages averages;
    ls_batch batch;
    if (e->kind != LS_EVENT_STEP || e->step != 2) return LS_OK;
    switch (i->kind) {
    case 0: ls_evaluate(s->net, s->loader, NULL, &averages); break;
    case 1: ls_loader_start(s->loader, 1); break;
    case 2: ls_loader_start_at(s->loader, 0, 1); break;
    case 3: ls_loader_next(s->loader, &batch); break;
    case 4: ls_lr_find(s->net, s->optimizer, s->loader, NULL); break;
    default: ls_trainer_run(i->trainer, NULL);
    }
    return LS_OK;
}

START_TEST(a_loader_in_use_is_refused)
{
    for (int pass = 0; pass < 2; pass++) { /* of ls_trainer_run, of ls_evaluate */
        run r = open_good_run(&usual);
        const ls_training_state *s = &r.state;
        intruder i = { &r, NULL, _i };
        ls_averages averages;
        i.trainer =
            ls_trainer_open(s->net, s->optimizer, s->schedule, s->loader,
                            &(ls_trainer_config){ .epochs = 1, .on_event = intrude, .user = &i });
        const ls_evaluate_config config = { .on_event = intrude, .user = &i };
        const char *const user = pass == 0 ? "ls_trainer_run runs" : "ls_evaluate runs";
        const ls_status status = pass == 0 ? ls_trainer_run(i.trainer, NULL)
                                           : ls_evaluate(s->net, s->loader, &config, &averages);
        ck_assert_int_eq(status, LS_ERR_INVALID);
        expect_error(r.ctx, LS_ERR_INVALID, calls[_i], user, "another loader");
        /* afterwards the loader is free */
        ck_assert_int_eq(ls_evaluate(s->net, s->loader, NULL, &averages), LS_OK);
        ls_context_close(&r.ctx);
    }
}
END_TEST

/* A program's own loop learns that its epoch was cut, unless it was complete or begins again. */
START_TEST(a_cut_epoch_is_an_error)
{
    run r = open_good_run(&usual);
    const ls_training_state *s = &r.state;
    ls_averages averages;
    ls_batch batch;
    for (int64_t at = 1; at <= STEPS; at++) {
        ls_loader_start(s->loader, 3);
        for (int64_t i = 0; i < at; i++) ck_assert(ls_loader_next(s->loader, &batch));
        ck_assert_int_eq(ls_evaluate(s->net, s->loader, NULL, &averages), LS_OK);
        ck_assert(!ls_loader_next(s->loader, &batch));
        if (at < STEPS) {
            char where[64];
            snprintf(where, sizeof(where), "at step %d of 6 of epoch 3", (int)at);
            ck_assert_int_eq(ls_loader_status(s->loader), LS_ERR_INVALID);
            expect_error(r.ctx, LS_ERR_INVALID, "ls_loader_next: ls_evaluate used", where);
        } else {
            ck_assert_int_eq(ls_loader_status(s->loader), LS_OK);
        }
    }
    ls_loader_start(s->loader, 0);
    ck_assert(ls_loader_next(s->loader, &batch));
    ck_assert_int_eq(ls_evaluate(s->net, s->loader, NULL, &averages), LS_OK);
    ck_assert_int_eq(ls_loader_start(s->loader, 1), LS_OK); /* a loop that was left */
    ck_assert(ls_loader_next(s->loader, &batch));
    ls_context_close(&r.ctx);
}
END_TEST

/* ---- Class names ---- */

static int first_label(void *user, int64_t sample)
{
    (void)user;
    return (int)(sample % 3);
}

static ls_status load_grey(void *user, int64_t sample, ls_image_writer *out)
{
    (void)user;
    uint8_t *pixels = ls_image_writer_reserve(out, SIDE, SIDE);
    if (pixels) memset(pixels, (int)sample, (size_t)SIDE * SIDE * 3);
    return LS_OK;
}

static void one_target(void *user, int64_t sample, float *out)
{
    (void)user;
    out[0] = (float)sample;
}

static ls_loader *open_named(ls_context *ctx, const char *const *names, bool targets)
{
    const ls_dataset_callbacks callbacks = { .sample_count = 12,
                                             .n_classes = targets ? 0 : 3,
                                             .label = targets ? NULL : first_label,
                                             .classes = targets ? NULL : names,
                                             .target = targets ? one_target : NULL,
                                             .n_targets = targets,
                                             .target_names = targets ? names : NULL,
                                             .load = load_grey };
    return ls_loader_open(ls_dataset_from_callbacks(ctx, &callbacks),
                          &(ls_loader_config){ .batch_size = 4 });
}

START_TEST(validation_has_the_names_of_training)
{
    static const char *const abc[] = { "a", "b", "c" }, *const abd[] = { "a", "b", "d" },
                             *const acb[] = { "a", "c", "b" }, *const b[] = { "b" };
    static const int n_outputs[] = { 3, 1 };
    static const struct {
        bool targets;
        const char *const *training, *const *validation;
        ls_status status;
        const char *said;
    } cases[] = {
        { false, abc, abc, LS_OK, "" },
        { false, abc, abd, LS_ERR_MISMATCH, "class 2 is 'd' in validation, 'c' in training" },
        { false, abc, acb, LS_ERR_MISMATCH, "class 1 is 'c' in validation, 'b' in training" },
        { false, abc, NULL, LS_OK, "" }, /* a program that gives no names */
        { false, NULL, abc, LS_OK, "" },
        { true, abc, abc, LS_OK, "" },
        { true, abc, b, LS_ERR_MISMATCH, "target 0 is 'b' in validation, 'a' in training" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ls_context *ctx = ls_context_open(NULL);
        ls_loader *l = open_named(ctx, cases[i].training, cases[i].targets);
        ls_loader *v = open_named(ctx, cases[i].validation, cases[i].targets);
        ls_net *net = ls_net_build(
            ctx, model, &n_outputs[cases[i].targets],
            &(ls_net_config){ .input = ls_loader_input_spec(l),
                              .loss = { cases[i].targets ? LS_LOSS_MSE : LS_LOSS_CROSS_ENTROPY } });
        ls_schedule *schedule =
            ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_CONSTANT, .lr = 0.1 });
        const ls_trainer *trainer =
            ls_trainer_open(net, ls_sgd(net, NULL), schedule, l,
                            &(ls_trainer_config){ .epochs = 1, .validation = v });
        ck_assert_int_eq(trainer != NULL, cases[i].status == LS_OK);
        expect_error(ctx, cases[i].status, cases[i].said);
        ls_context_close(&ctx);
    }
}
END_TEST

TEST_PROGRAM(lifetimes)
{
    begin_runs();
    const int loaders = run_loop("loaders in use", a_loader_in_use_is_refused, N_CALLS);
    const int others = RUN_SUITE("lifetimes", parents_may_be_closed_first, a_callback_may_close,
                                 an_object_that_is_null_is_named, a_cut_epoch_is_an_error,
                                 validation_has_the_names_of_training);
    return end_runs(both(loaders, others));
}
