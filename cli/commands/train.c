/* train.c: 'lockstep train': opens a run, trains, and prints the results. */
#include "commands/train_text.h"
#include "runs/runs.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct train_session {
    cli_run run;     /* first: it is the user of the run's callbacks */
    int64_t n_steps; /* that were trained before */
    bool resumed;
} train_session;

/* The steps that are left, for the progress's estimate of the time that they take. */
static void open_progress(const ls_run *run, progress *bar)
{
    const ls_trainer_state at = ls_trainer_get_state(ls_run_trainer(run));
    const ls_loader *val = ls_run_validation_loader(run);
    const int64_t steps = ls_loader_step_count(ls_run_train_loader(run));
    const int64_t limits[] = { (int64_t)ls_run_number(run, "steps"),
                               (int64_t)ls_run_number(run, "stop-at") };
    int64_t last = (int64_t)ls_run_number(run, "epochs") * steps;
    for (int i = 0; i < 2; i++)
        if (limits[i] > 0 && limits[i] < last) last = limits[i];
    const int64_t epochs_left = last / steps - at.epoch;
    progress_open(bar, last > at.n_steps ? last - at.n_steps : 0,
                  val && epochs_left > 0 ? epochs_left * ls_loader_step_count(val) : 0);
}

static void begin(cli_run *r)
{
    train_session *session = (train_session *)r;
    r->report.epochs = (int64_t)ls_run_number(r->run, "epochs");
    session->n_steps = ls_trainer_get_state(ls_run_trainer(r->run)).n_steps;
    if (ls_context_rank(r->report.ctx) == 0) session_log_open(ls_run_dir(r->run));
    catch_signals();
    train_print_begin(r->run, session->resumed);
    open_progress(r->run, &r->report.progress);
}

static void print_bad_images(const run_report *report, const ls_run *run, ls_trainer_end end)
{
    enum { MAX_AFTER_ERROR = 5 }; /* that are listed below the error of the run's end */
    const int64_t max = end == LS_TRAINER_DATA_ERROR ? MAX_AFTER_ERROR : INT64_MAX;
    const ls_loader *val = ls_run_validation_loader(run);
    if (ls_run_number(run, "on-bad-image") == LS_BAD_IMAGE_FAIL) return;
    report_bad_images(ls_run_train_loader(run), report->train_data, max);
    if (val) report_bad_images(val, report->val_data, max);
}

/* Trains an opened run. *ends_together: the ranks end alike, with the same exit status. */
static int train(train_session *session, double begun, bool *ends_together)
{
    ls_run *run = session->run.run;
    ls_context *ctx = session->run.report.ctx;
    ls_trainer_end end;
    const ls_status status = ls_run_train(run, &end);
    if (!ls_run_trainer(run)) return print_error(ctx, LS_EXIT_RUNTIME);
    print_bad_images(&session->run.report, run, end);
    if (end == LS_TRAINER_DATA_ERROR || end == LS_TRAINER_NONFINITE)
        ls_context_clear_error(ctx); /* the report has printed it */
    else if (status != LS_OK)
        end = LS_TRAINER_ERROR;
    *ends_together = end != LS_TRAINER_ERROR;
    const bool is_complete =
        end == LS_TRAINER_DONE || end == LS_TRAINER_EARLY_STOP || end == LS_TRAINER_MAX_STEPS;
    if (is_complete && !print_is_quiet() &&
        ls_trainer_get_state(ls_run_trainer(run)).n_steps == session->n_steps)
        print_text(stdout, "%s was complete already: nothing was trained\n", ls_run_dir(run));
    ranks_end(ctx, *ends_together);
    const int exit_status = train_print_end(
        run, session->resumed, end, session->run.report.data_exit_status, clock_seconds() - begun);
    if (*ends_together) ranks_wait(ctx);
    return exit_status;
}

static int open_and_train(const cli_parsed *parsed, const char *out, const char *resume)
{
    const double begun = clock_seconds();
    train_session session = { .run = { .parsed = parsed, .on_start = begin },
                              .resumed = resume != NULL };
    bool ends_together = false;
    int exit_status = open_run(&session.run, out, resume, LS_RUN_WHOLE, false);
    if (exit_status == LS_EXIT_DONE) exit_status = train(&session, begun, &ends_together);
    if (exit_status != LS_EXIT_DONE && !ends_together)
        ls_context_abort(ls_run_context(session.run.run), exit_status);
    ls_run_close(&session.run.run);
    return exit_status;
}

static void begin_session(int argc, char *const *argv)
{
    ranks_begin();
    if (ranks_is_first()) session_log_begin(argc, argv);
}

static int run(const cli_parsed *parsed, void *values)
{
    const char *out = given_text(parsed, "out"), *resume = given_text(parsed, "resume");
    (void)values;
    if (resume && parsed->set.run_file)
        return fail_with(LS_EXIT_USAGE,
                         "--resume uses the options of its run: omit the config.json "
                         "of --config");
    if (resume && out)
        return fail_with(
            LS_EXIT_USAGE,
            "--out and --resume exclude each other: a resumed run stays in its folder");
    return open_and_train(parsed, out, resume);
}

const cli_command command_train = {
    .name = "train",
    .summary = "train a network on images",
    .arguments = "",
    .details =
        "RUN contains config.json, manifest.json (identity and sessions), metrics.jsonl, "
        "metrics.csv, events.out.tfevents.* (for TensorBoard), run_log.txt (digests of each step), "
        "report.html (with evaluation.json, the results of the last validation, "
        "first_batch.jpg and first_batch.json), log.txt (command lines and messages with their "
        "times), last.safetensors (the complete state, for --resume) "
        "and best.safetensors (the weights with the best validation --metric; of equal values "
        "those "
        "with the lower loss).\n"
        "With --resume RUN, only these options may differ from the run's: %s. "
        "--epochs N extends the run if the schedule "
        "is constant, step, multistep, exponential, plateau or cosine-restarts.\n"
        "--weights, --new-head and --freeze are for fine-tuning: see docs/fine-tuning.md.\n"
        "Exit status: 0 done, 1 failed, 2 wrong command line, 3 unreadable images or an unusable "
        "data folder, 4 the loss is not finite, 128+n stopped by signal n after saving (SIGINT, "
        "SIGTERM, SIGHUP; SIGQUIT ends the process without saving).",
    .settings = ls_run_settings,
    .reads_runs = true,
    .begin = begin_session,
    .end = session_log_close,
    .run = run,
};
