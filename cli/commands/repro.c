/* repro.c: 'lockstep repro': whether the numbers of workers, threads, ranks and restarts change a
 * result. */
#include "cli.h"
#include "options/setting_texts.h"
#include "terminal/progress.h"
#include <errno.h>
#include <limits.h>
#include <lockstep/repro.h>
#include <stdlib.h>
#include <unistd.h>

/* Exit statuses of this command. Those of failed child processes are passed on. */
enum { EXIT_DIFFERENT = 1, EXIT_NO_VERDICT = 5 };

/* ---- The table ---- */

/* Whether numbers of ranks are compared. */
static bool has_ranks(const ls_repro *r)
{
    for (int i = 0; i < ls_repro_run_count(r); i++)
        if (ls_repro_run_at(r, i)->legs[0].ranks > 1) return true;
    return false;
}

static const char *legs_title(const ls_repro *r)
{
    return has_ranks(r) ? "workers x threads x ranks" : "workers x threads";
}

static int legs_width(const ls_repro *r)
{
    size_t width = strlen(legs_title(r));
    for (int i = 0; i < ls_repro_run_count(r); i++) {
        const size_t length = strlen(ls_repro_run_at(r, i)->legs_text);
        if (length > width) width = length;
    }
    return (int)width;
}

/* "2 workers, 1 thread, 4 ranks" */
static void print_leg(const ls_repro *r, const ls_repro_leg *leg)
{
    print_text(stdout, "%d worker%s, %d thread%s", leg->workers, plural(leg->workers), leg->threads,
               plural(leg->threads));
    if (has_ranks(r)) print_text(stdout, ", %d rank%s", leg->ranks, plural(leg->ranks));
}

/* Explains the notation by the last run, which has restarts if any run has. */
static void print_example(const ls_repro *r)
{
    const ls_repro_run *run = ls_repro_run_at(r, ls_repro_run_count(r) - 1);
    const int first = (int)strcspn(run->legs_text, " ");
    print_text(stdout, "'%.*s': ", first, run->legs_text);
    print_leg(r, &run->legs[0]);
    if (run->leg_count > 1) {
        const char *stop = run->legs_text + first + 1, *next = strchr(stop, ' ');
        const int length = (int)(next + 1 - stop) + (int)strcspn(next + 1, " ");
        print_text(stdout, "; '%.*s': interrupted after %lld step%s, resumed with ", length, stop,
                   (long long)run->stops[0], plural(run->stops[0]));
        print_leg(r, &run->legs[1]);
    }
    print_text(stdout, "\n\n");
}

static void print_head(const ls_repro *r)
{
    const int64_t n_steps = ls_repro_step_count(r);
    print_text(stdout, "%d runs of %lld step%s in %s\n", ls_repro_run_count(r), (long long)n_steps,
               plural(n_steps), ls_repro_dir(r));
    print_example(r);
    print_text(stdout, "%-*s  %10s  %-32s  %8s  same result as\n", legs_width(r), legs_title(r),
               "last loss", "digest of the weights", "images/s");
    fflush(stdout);
}

static const ls_repro_run *first_of(const ls_repro *r, int result)
{
    int i = 0;
    while (ls_repro_run_at(r, i)->result != result) i++;
    return ls_repro_run_at(r, i);
}

static void print_run(const ls_repro *r, const ls_repro_run *run)
{
    char digest[LS_DIGEST_TEXT_SIZE];
    print_text(stdout, "%-*s  %10.6f  %s  %8.1f  %s\n", legs_width(r), run->legs_text,
               run->losses[ls_repro_step_count(r) - 1], ls_digest_text(run->weights, digest),
               run->images_per_second, first_of(r, run->result)->legs_text);
    fflush(stdout);
}

static void print_running(const ls_repro *r, int i)
{
    if (print_is_quiet() || !isatty(STDERR_FILENO)) return;
    progress_erase();
    print_text(stderr, "run %d of %d: %s", i + 1, ls_repro_run_count(r),
               ls_repro_run_at(r, i)->legs_text);
    fflush(stderr);
}

/* Sets *user, the index of the run that trains. */
static void show_run(void *user, const ls_repro *r, int i, bool has_trained)
{
    *(int *)user = i;
    if (has_trained) {
        if (isatty(STDERR_FILENO)) progress_erase();
        print_run(r, ls_repro_run_at(r, i));
    } else {
        if (i == 0) print_head(r);
        print_running(r, i);
    }
}

/* ---- The verdict ---- */

static void print_result(const ls_repro *r, int result)
{
    enum { MAX_LISTED = 100 };
    const ls_repro_run *first = first_of(r, result);
    int n = 0;
    for (int i = 0; i < ls_repro_run_count(r); i++) n += ls_repro_run_at(r, i)->result == result;
    print_text(stdout, "  %d run%s:", n, plural(n));
    for (int i = 0, listed = 0; i < ls_repro_run_count(r) && listed < MAX_LISTED; i++)
        if (ls_repro_run_at(r, i)->result == result)
            print_text(stdout, "%s %s", listed++ ? "," : "", ls_repro_run_at(r, i)->legs_text);
    if (n > MAX_LISTED) print_text(stdout, ", +%d", n - MAX_LISTED);
    if (result > 0) {
        const char *fields[LS_RUN_LOG_FIELDS];
        const int n_fields = ls_run_log_fields(&first->divergence, fields);
        print_text(stdout, "; differ%s from %s from step %lld on: ", n == 1 ? "s" : "",
                   ls_repro_run_at(r, 0)->legs_text, (long long)first->divergence.step);
        for (int i = 0; i < n_fields; i++) print_text(stdout, "%s%s", i ? ", " : "", fields[i]);
    }
    print_text(stdout, "\n");
}

static void print_verdict(const ls_repro *r)
{
    const int64_t n_steps = ls_repro_step_count(r);
    if (ls_repro_result_count(r) == 1) {
        print_text(stdout, "\nOne result: all %d runs are bit-identical in all %lld step%s.\n",
                   ls_repro_run_count(r), (long long)n_steps, plural(n_steps));
    } else {
        print_text(stdout, "\n%d results: the runs differ.\n", ls_repro_result_count(r));
        for (int k = 0; k < ls_repro_result_count(r); k++) print_result(r, k);
    }
    print_text(
        stdout,
        "%s/report.html, repro.csv, losses.csv and repro.svg contain the results; each run has a "
        "folder there\n",
        ls_repro_dir(r));
}

/* ---- The experiment ---- */

/* Prints what --recipe has set. */
static void print_preset(const ls_repro *r, const char *recipe)
{
    const char *name, *value;
    const bool is_resolved =
        ls_context_status(ls_repro_context(r)) == LS_OK || ls_repro_preset_at(r, 0, &name, &value);
    if (!recipe || !is_resolved || print_is_quiet()) return;
    field_line line = begin_fields(stdout);
    print_field(&line, "recipe  %s", recipe);
    for (int i = 0; ls_repro_preset_at(r, i, &name, &value); i++)
        print_field(&line, "--%s%s%s", name, *value ? " " : "", value);
    end_fields(&line);
}

/* Prints the error. Returns the exit status. */
static int print_failure(const ls_repro *r)
{
    ls_context *ctx = ls_repro_context(r);
    int exit_status = ls_repro_exit_status(r);
    if (exit_status != 0) {
        print_message("%s", ls_context_message(ctx));
        fputs(ls_repro_output_end(r), stderr);
        return exit_status < 0 || exit_status == EXIT_RUNTIME ? EXIT_NO_VERDICT : exit_status;
    }
    const bool of_data = ls_context_status(ctx) == LS_ERR_DATA;
    exit_status = print_error(ctx, of_data ? EXIT_DATA : EXIT_NO_VERDICT);
    return exit_status == EXIT_RUNTIME ? EXIT_NO_VERDICT : exit_status;
}

static int run_experiment(ls_repro *r, const int *running)
{
    ls_repro_verdict verdict;
    catch_signals_for_children();
    const ls_status status = ls_repro_train(r, &verdict);
    if (isatty(STDERR_FILENO)) progress_erase();
    if (status != LS_OK) return print_failure(r);
    if (verdict == LS_REPRO_STOPPED) {
        print_message("signal %d: stopped in run %d of %d; %s contains the completed runs",
                      (int)caught_signal, *running + 1, ls_repro_run_count(r), ls_repro_dir(r));
        return EXIT_SIGNAL + caught_signal;
    }
    print_verdict(r);
    if (print_finish() != 0) return EXIT_NO_VERDICT; /* main prints the error */
    return verdict == LS_REPRO_IDENTICAL ? EXIT_DONE : EXIT_DIFFERENT;
}

static int open_and_run(const cli_parsed *parsed, char *const *settings)
{
    char program[PATH_MAX];
    int running = 0;
    if (!realpath("/proc/self/exe", program))
        return fail_with(EXIT_NO_VERDICT, "/proc/self/exe: %s", strerror(errno));
    ls_repro *r = ls_repro_open(given_text(parsed, "out"),
                                &(ls_repro_config){ .settings = (const char *const *)settings,
                                                    .program = program,
                                                    .program_name = program_invocation_name,
                                                    .log = print_log,
                                                    .stop = &caught_count,
                                                    .on_run = show_run,
                                                    .user = &running });
    if (!r) return print_error(NULL, EXIT_NO_VERDICT);
    print_preset(r, given_text(parsed, "recipe"));
    const int exit_status = ls_context_status(ls_repro_context(r)) == LS_OK
                                ? run_experiment(r, &running)
                                : print_failure(r);
    ls_repro_close(&r);
    return exit_status;
}

static int run(int argc, char **argv)
{
    cli_parsed parsed;
    const int ended = options_parse(&command_repro, argc, argv, NULL, &parsed);
    if (ended >= 0) return ended;
    char **settings = setting_texts_make(&parsed.set);
    if (!settings) return print_error(NULL, EXIT_NO_VERDICT);
    const int exit_status = open_and_run(&parsed, settings);
    setting_texts_free(settings);
    return exit_status;
}

static const ls_setting own_options[] = { { .kind = LS_SETTING_END } };

const cli_command command_repro = {
    .name = "repro",
    .summary = "train with different numbers of workers, threads and ranks, and compare the "
               "results bit by bit",
    .arguments = "",
    .details = "The other options of 'lockstep train' apply to all runs; --resume, --stop-at, "
               "--patience, --force and --inject-fault are not accepted. DIR (--out) contains "
               "report.html, repro.csv (a line per run), losses.csv (a line per step), repro.svg, "
               "and a folder and a log per run.\n"
               "Exit status: 0 all runs are bit-identical, 1 they differ, anything else: no "
               "verdict (2 wrong command line, 3 unreadable images or an unusable data folder, 4 "
               "the loss is not finite, 5 another failure, 128+n stopped by signal n).",
    .options = own_options,
    .settings = ls_repro_settings,
    .run = run,
};
