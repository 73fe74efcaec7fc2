/* test_sweep_calls.c: sweeps that a program makes by lockstep/sweep.h are those of the command. */
#include "command.h"

#include "../suite.h"
#include <lockstep/lockstep.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_TEXT                                                                                  \
    "trials = 2\n[train]\ndata-dir = data\nmodel = mlp\nimage-size = 8\nbatch-size = 8\n"          \
    "workers = 0\nthreads = 1\nepochs = 2\n[search]\nlr = log(0.001, 0.1)\nopt = sgd, adam\n"

typedef struct seen {
    int n_progress, n_failures, exit_status;
    ls_sweep_progress last;
    volatile sig_atomic_t *stop_after_first; /* set after the first result; NULL = not */
} seen;

static void on_progress(void *user, const ls_sweep_progress *progress)
{
    seen *s = user;
    s->n_progress++;
    s->last = *progress;
    if (s->stop_after_first && progress->done > 0) *s->stop_after_first = 1;
}

static void on_failure(void *user, const ls_sweep_failure *failure)
{
    seen *s = user;
    s->n_failures++;
    s->exit_status = failure->exit_status;
    ck_assert_str_eq(failure->log, "s/trial-000.log");
}

static ls_sweep *open_sweep(const char *dir, const char *const *settings, seen *s)
{
    return ls_sweep_open("a.sweep", dir,
                         &(ls_sweep_config){ .settings = settings,
                                             .program = LOCKSTEP_PROGRAM,
                                             .stop = s ? s->stop_after_first : NULL,
                                             .on_progress = s ? on_progress : NULL,
                                             .on_failure = s ? on_failure : NULL,
                                             .user = s });
}

static void expect_end(ls_sweep *sweep, ls_sweep_end expected)
{
    ls_sweep_end end;
    const ls_status status = ls_sweep_train(sweep, &end);
    ck_assert_msg(status == LS_OK, "%s", ls_context_message(ls_sweep_context(sweep)));
    ck_assert_int_eq(end, expected);
}

/* Closes the sweep, which has failed, also in running. */
static void fails_with(ls_sweep *sweep, ls_status status, const char *text)
{
    ls_context *ctx = ls_sweep_context(sweep);
    ls_sweep_end end;
    ck_assert_int_eq(ls_sweep_train(sweep, &end), status);
    ck_assert_int_eq(end, LS_SWEEP_ERROR);
    ck_assert_msg(strstr(ls_context_message(ctx), text) != NULL, "%s", ls_context_message(ctx));
    ls_sweep_close(&sweep);
    ck_assert_ptr_null(sweep);
}

static void begin(void)
{
    begin_folder();
    expect(0, "demo-data data --train 4 --val 2");
    write_text("a.sweep", FILE_TEXT);
}

START_TEST(the_sweep_of_the_command)
{
    begin();
    expect(0, "sweep a.sweep --trials 3 --out c");
    static const char *const settings[] = { "trials=3", "parallel=2", NULL };
    seen s = { 0 };
    ls_sweep *sweep = open_sweep("s", settings, &s);
    ck_assert(!exists("s") && !ls_sweep_exists("s"));
    expect_end(sweep, LS_SWEEP_DONE);
    ck_assert(ls_sweep_exists("s") && exists("s/report.html"));
    ck_assert(s.n_progress >= 3 && s.last.done == 3 && s.last.trial_count == 3);
    ck_assert_int_eq(system("cmp c/sweep.csv s/sweep.csv && cmp c/sweep.json s/sweep.json && cmp "
                            "c/trial-002/run_log.txt s/trial-002/run_log.txt"),
                     0);
    ck_assert_str_eq(ls_sweep_dir(sweep), "s");
    ck_assert_str_eq(ls_sweep_metric(sweep), "val_top1");
    ck_assert_int_eq(ls_sweep_epochs(sweep), 2);
    ck_assert_int_eq(ls_sweep_parameter_count(sweep), 2);
    ck_assert_str_eq(ls_sweep_parameter_name(sweep, 1), "opt");
    ck_assert_int_eq(ls_sweep_trial_count(sweep), 3);
    const int64_t best = ls_sweep_best_trial(sweep);
    ck_assert_int_ge(best, 0);
    const ls_sweep_trial *trial = ls_sweep_trial_at(sweep, best), *other;
    char text[LS_SWEEP_VALUE_SIZE], dir[64], option[64];
    ck_assert(trial && trial->trial == best && trial->epochs == 2 && !trial->error);
    for (int64_t i = 0; (other = ls_sweep_trial_at(sweep, i)); i++)
        ck_assert(other->metric <= trial->metric);
    ck_assert(trial->best_epoch >= 1 && !ls_sweep_trial_at(sweep, 3));
    ck_assert_str_eq(ls_sweep_trial_value(sweep, 3, 0, text), "");
    ls_sweep_trial_dir(sweep, best, dir, sizeof(dir));
    ck_assert(exists(dir));
    char *command = ls_sweep_trial_command(sweep, best);
    snprintf(option, sizeof(option), " train --data-dir=data ");
    ck_assert_ptr_nonnull(strstr(command, option));
    snprintf(option, sizeof(option), " --lr=%s --opt=", ls_sweep_trial_value(sweep, best, 0, text));
    ck_assert_ptr_nonnull(strstr(command, option));
    free(command);
    fails_with(sweep, LS_ERR_INVALID, "has run already");
    expect(0, "sweep a.sweep --trials 3 --out s"); /* complete */
    end_folder();
}
END_TEST

START_TEST(a_stopped_sweep_continues)
{
    begin();
    volatile sig_atomic_t stop = 0;
    seen s = { .stop_after_first = &stop };
    ls_sweep *sweep = open_sweep("s", NULL, &s);
    expect_end(sweep, LS_SWEEP_STOPPED);
    ck_assert(ls_sweep_trial_at(sweep, 0) && !ls_sweep_trial_at(sweep, 1));
    ls_sweep_close(&sweep);
    sweep = open_sweep("s", NULL, NULL);
    expect_end(sweep, LS_SWEEP_DONE);
    ls_sweep_close(&sweep);
    expect(0, "sweep a.sweep --out c");
    ck_assert_int_eq(system("cmp c/sweep.json s/sweep.json"), 0);

    static const char *const seed[] = { "seed=1", NULL };
    sweep = open_sweep("s", seed, NULL);
    ck_assert_int_eq(ls_sweep_train(sweep, NULL), LS_ERR_SETTING);
    ck_assert_str_eq(ls_context_hint(ls_sweep_context(sweep)),
                     "s/sweep.json: seed is 0 in the sweep, 1 now");
    fails_with(sweep, LS_ERR_SETTING, "the folder contains another sweep");
    write_text("data/train/star/another.png", "one more file");
    fails_with(open_sweep("s", NULL, NULL), LS_ERR_MISMATCH, "the images are not those");
    end_folder();
}
END_TEST

START_TEST(failed_trials)
{
    begin();
    seen s = { 0 };
    ls_sweep_config config = { .program = "false", .on_failure = on_failure, .user = &s };
    ls_sweep_end end;
    ls_sweep *sweep = ls_sweep_open("a.sweep", "s", &config);
    ck_assert_int_eq(ls_sweep_train(sweep, &end), LS_ERR_IO);
    ck_assert(end == LS_SWEEP_TRIAL_FAILED && s.n_failures == 1 && s.exit_status == 1);
    ck_assert_int_eq(ls_sweep_best_trial(sweep), -1);
    ls_sweep_close(&sweep);
    config.program = "./no-such-program";
    fails_with(ls_sweep_open("a.sweep", "t", &config), LS_ERR_IO,
               "trial 0: ./no-such-program could not be started: No such file");
    end_folder();
}
END_TEST

START_TEST(errors)
{
    static const struct {
        const char *file, *setting;
        ls_status status;
        const char *text;
    } cases[] = {
        { "trials = 2\n\nlr = 3\n", NULL, LS_ERR_SETTING, "a.sweep:3: unknown option 'lr'" },
        { FILE_TEXT "imgsz = 8\n", NULL, LS_ERR_SETTING,
          "a.sweep:13: unknown option 'imgsz' of 'lockstep train'; did you mean 'image-size'" },
        { FILE_TEXT, "trails=3", LS_ERR_SETTING, "setting 'trails'; did you mean 'trials'" },
        { FILE_TEXT, "trials=0", LS_ERR_SETTING, "--trials: expected an integer from 1 to 10000" },
        { FILE_TEXT, "eta=3", LS_ERR_SETTING, "a.sweep: 'eta' has no effect with method random" },
        { FILE_TEXT, "out=x", LS_ERR_SETTING, "--out is an option of the command" },
        { "trials = 2\n[train]\ndata-dir = none\n[search]\nlr = 1, 2\n", NULL, LS_ERR_DATA,
          "none: no such folder" },
    };
    begin();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *const settings[] = { cases[i].setting, NULL };
        write_text("a.sweep", cases[i].file);
        fails_with(open_sweep("s", settings, NULL), cases[i].status, cases[i].text);
    }
    ck_assert(!exists("s"));
    fails_with(ls_sweep_open("none", NULL, NULL), LS_ERR_SETTING, "none: No such file");
    fails_with(ls_sweep_open(NULL, NULL, NULL), LS_ERR_INVALID, "file is NULL");
    write_text("a.sweep", FILE_TEXT);
    fails_with(open_sweep("data", NULL, NULL), LS_ERR_SETTING, "contains no sweep");
    ck_assert_int_eq(ls_sweep_train(NULL, NULL), LS_ERR_MEMORY);
    ck_assert(!ls_sweep_context(NULL) && ls_sweep_trial_count(NULL) == 0);
    ck_assert_int_eq(ls_sweep_best_trial(NULL), -1);
    ck_assert_ptr_null(ls_sweep_trial_command(NULL, 0));
    ls_sweep_close(NULL);
    ck_assert_int_ge(ls_setting_find(ls_sweep_settings(), "method", strlen("method")), 0);
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    ck_assert_int_eq(ls_sweep_report_write(ctx, "data", NULL, NULL), LS_ERR_NOT_FOUND);
    ls_context_close(&ctx);
    end_folder();
}
END_TEST

TEST_PROGRAM(sweep_calls)
{
    return RUN_SUITE("sweep calls", the_sweep_of_the_command, a_stopped_sweep_continues,
                     failed_trials, errors);
}
