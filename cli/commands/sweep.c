/* sweep.c: 'lockstep sweep': a hyperparameter search over runs of `lockstep train`. */
#include "cli.h"
#include "terminal/progress.h"
#include <errno.h>
#include <limits.h>
#include <lockstep/sweep.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- Events ---- */

static void show_progress(void *user, const ls_sweep_progress *p)
{
    (void)user;
    if (print_is_quiet() || !isatty(STDERR_FILENO)) return;
    progress_erase();
    if (p->done < p->job_count)
        print_text(stderr, "trials %lld to %lld of %lld: %lld of %lld have trained",
                   (long long)p->first_trial, (long long)p->last_trial, (long long)p->trial_count,
                   (long long)p->done, (long long)p->job_count);
    fflush(stderr);
}

/* user: the exit status of the last trial that failed. */
static void print_failure(void *user, const ls_sweep_failure *failure)
{
    *(int *)user = failure->exit_status;
    print_message("trial %lld %s; %s ends with:", (long long)failure->trial, failure->how,
                  failure->log);
    fputs(failure->end, stderr);
}

/* ---- Results ---- */

/* Column 0 is the trial, then the options, the epochs, the metric and its epoch. Row -1 is the
 * head.
 */
enum { CELL_SIZE = 256 };
static const char *cell(const ls_sweep *s, int64_t row, int column, char out[CELL_SIZE])
{
    const int n = ls_sweep_parameter_count(s);
    const char *const heads[] = { "epochs", ls_sweep_metric(s), "best_epoch" };
    char value[LS_SWEEP_VALUE_SIZE];
    const ls_sweep_trial *t = ls_sweep_trial_at(s, row);
    if (column == 0)
        snprintf(out, CELL_SIZE, row < 0 ? "trial" : "%lld", (long long)row);
    else if (column <= n)
        snprintf(out, CELL_SIZE, "%s",
                 row < 0 ? ls_sweep_parameter_name(s, column - 1)
                         : ls_sweep_trial_value(s, row, column - 1, value));
    else if (!t)
        snprintf(out, CELL_SIZE, "%s", row < 0 ? heads[column - n - 1] : "-");
    else if (column == n + 1)
        snprintf(out, CELL_SIZE, "%lld", (long long)t->epochs);
    else if (isnan(t->metric))
        snprintf(out, CELL_SIZE, "-");
    else if (column == n + 2)
        snprintf(out, CELL_SIZE, "%.4f", t->metric);
    else
        snprintf(out, CELL_SIZE, "%lld", (long long)t->best_epoch);
    return out;
}

static bool print_table(const ls_sweep *s, int64_t best)
{
    const int n_columns = ls_sweep_parameter_count(s) + 4;
    int *widths = calloc((size_t)n_columns, sizeof(*widths));
    char text[CELL_SIZE];
    if (!widths) return false;
    for (int64_t i = -1; i < ls_sweep_trial_count(s); i++)
        for (int k = 0; k < n_columns; k++) widths[k] = max_columns(widths[k], cell(s, i, k, text));
    for (int64_t i = -1; i < ls_sweep_trial_count(s); i++) {
        for (int k = 0; k < n_columns; k++) {
            cell(s, i, k, text);
            print_text(stdout, "%*s%s", widths[k] - text_columns(text) + (k > 0 ? 2 : 0), "", text);
        }
        const ls_sweep_trial *t = ls_sweep_trial_at(s, i);
        const char *error = t ? t->error : NULL;
        print_text(stdout, "%s%s\n",
                   i >= 0 && i == best ? "  best"
                   : error             ? "  failed: "
                                       : "",
                   error ? error : "");
    }
    free(widths);
    return true;
}

static int print_best(const ls_sweep *s, int64_t best)
{
    char dir[PATH_MAX];
    const ls_sweep_trial *t = ls_sweep_trial_at(s, best);
    char *command = ls_sweep_trial_command(s, best);
    if (!command || !t) return print_error(NULL, LS_EXIT_RUNTIME);
    ls_sweep_trial_dir(s, best, dir, sizeof(dir));
    print_text(stdout, "\nbest: trial %lld, %s %.4f (epoch %lld), weights %s/best.safetensors",
               (long long)best, ls_sweep_metric(s), t->metric, (long long)t->best_epoch, dir);
    print_text(stdout, "; the table is in %s/sweep.csv\n", ls_sweep_dir(s));
    print_text(stdout, "the same run: %s\n", command);
    if (t->epochs < ls_sweep_epochs(s))
        print_command(stdout, "its other epochs", "train", "--resume", dir, NULL);
    free(command);
    return LS_EXIT_DONE;
}

static int print_results(const ls_sweep *s)
{
    const int64_t best = ls_sweep_best_trial(s);
    if (!print_table(s, best)) return print_error(NULL, LS_EXIT_RUNTIME);
    if (best >= 0) return print_best(s, best);
    return fail_with(LS_EXIT_NONFINITE,
                     "no trial has a result: each one failed, or its loss became "
                     "infinite or not a number");
}

/* ---- The command ---- */

/* The hint of an error about another sweep or other images has the differences, a line for each,
 * which are printed before it. */
static int print_run_error(ls_context *ctx)
{
    const ls_status status = ls_context_status(ctx);
    const char *hint = ls_context_hint(ctx);
    const bool by_data = status == LS_ERR_DATA || status == LS_ERR_MISMATCH;
    if (status != LS_ERR_SETTING && status != LS_ERR_MISMATCH)
        return print_error(ctx, by_data ? LS_EXIT_DATA : LS_EXIT_RUNTIME);
    while (*hint) {
        const int n = (int)strcspn(hint, "\n");
        print_message("%.*s", n, hint);
        hint += n + (hint[n] != '\0');
    }
    print_message("%s", ls_context_message(ctx));
    return by_data ? LS_EXIT_DATA : LS_EXIT_USAGE;
}

static int run_sweep(ls_sweep *s, const int *failed)
{
    ls_context *ctx = ls_sweep_context(s);
    ls_sweep_end end;
    if (!s || ls_context_status(ctx) != LS_OK) return print_error(ctx, LS_EXIT_DATA);
    catch_signals_for_children();
    const ls_status status = ls_sweep_train(s, &end);
    if (end == LS_SWEEP_TRIAL_FAILED) print_message("%s", ls_context_hint(ctx));
    if (caught_signal && end != LS_SWEEP_DONE)
        print_message("signal %d: stopped; the same command continues the sweep",
                      (int)caught_signal);
    if (end == LS_SWEEP_TRIAL_FAILED) return *failed;
    if (end == LS_SWEEP_STOPPED) return LS_EXIT_SIGNAL + caught_signal;
    return status == LS_OK ? print_results(s) : print_run_error(ctx);
}

static int run(const cli_parsed *parsed, void *values)
{
    (void)values;
    char program[PATH_MAX];
    int failed = LS_EXIT_RUNTIME;
    if (parsed->n_arguments != 1)
        return fail_with(LS_EXIT_USAGE,
                         "expected one FILE that describes the sweep; 'lockstep sweep "
                         "--help' shows an example");
    if (!realpath("/proc/self/exe", program))
        return fail_with(LS_EXIT_RUNTIME, "/proc/self/exe: %s", strerror(errno));
    char **settings = given_texts(&parsed->set);
    if (!settings) return print_error(NULL, LS_EXIT_RUNTIME);
    ls_sweep *s = ls_sweep_open(parsed->arguments[0], given_text(parsed, "out"),
                                &(ls_sweep_config){ .settings = (const char *const *)settings,
                                                    .program = program,
                                                    .program_name = program_invocation_name,
                                                    .log = print_log,
                                                    .stop = &caught_count,
                                                    .on_progress = show_progress,
                                                    .on_failure = print_failure,
                                                    .user = &failed });
    free_texts(settings);
    const int exit_status = run_sweep(s, &failed);
    ls_sweep_close(&s);
    return exit_status;
}

const cli_command command_sweep = {
    .name = "sweep",
    .summary = "search hyperparameters over runs of 'lockstep train'",
    .arguments = "FILE",
    .details =
        "FILE has three sections. Keys of the first one are the options above, which the command "
        "line overrides. [train] has options of 'lockstep train' for all trials, without the "
        "dashes; a switch is true or false. [search] has options with several values: a list 'a, "
        "b, c', or a range linear(LOW, HIGH), log(LOW, HIGH) or integer(LOW, HIGH). In a grid "
        "a range has a third number, the number of points.\n"
        "\n"
        "  method = halving\n"
        "  trials = 27\n"
        "  [train]\n"
        "  data-dir = photos\n"
        "  epochs = 27\n"
        "  [search]\n"
        "  lr = log(0.001, 1)\n"
        "  opt = sgd, adamw\n"
        "  lr-warmup-epochs = integer(0, 5)\n"
        "\n"
        "Each trial is a run in DIR/trial-NNN, with its output in DIR/trial-NNN.log. "
        "DIR/sweep.json "
        "has the results of all trials, DIR/sweep.csv the table. DIR/report.html, which is "
        "rewritten every few seconds and at the end, has charts of the trials and the importance "
        "of each option. "
        "After an interruption the same command continues. Neither interruptions nor --parallel "
        "change a result. With random and tpe, a larger --trials extends a sweep.\n"
        "Exit status: 0 done, 1 failed, 2 wrong file or command line, 3 unreadable or "
        "changed images, or an unusable data folder, 4 the loss of no trial is finite, 128+n "
        "stopped by signal n.",
    .settings = ls_sweep_settings,
    .run = run,
};
