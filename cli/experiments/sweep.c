/* sweep.c: 'lockstep sweep': a hyperparameter search over runs of `lockstep train`. */
#include "run/run_state.h"
#include "run/advice.h"
#include "experiments/sweep_history.h"
#include "experiments/child.h"
#include "checkpoint/identity.h"
#include "io/json.h"
#include "log/run_folder.h"
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Options ---- */

/* Options that other methods have are errors. */
static bool check_method(sweep_file *file, const cli_parsed *parsed, const sweep_values *v)
{
    enum {
        RANDOM = 1 << LS_SEARCH_RANDOM,
        HALVING = 1 << LS_SEARCH_HALVING,
        HYPERBAND = 1 << LS_SEARCH_HYPERBAND,
        TPE = 1 << LS_SEARCH_TPE
    };
    static const struct {
        const char *name;
        int methods;
    } uses[] = { { "trials", RANDOM | HALVING | TPE },
                 { "seed", RANDOM | HALVING | HYPERBAND | TPE },
                 { "min-epochs", HALVING | HYPERBAND },
                 { "eta", HALVING | HYPERBAND },
                 { "startup", TPE },
                 { "batch", TPE } };
    static const char *const names[] = { "random", "grid", "halving", "hyperband", "tpe" };
    for (size_t i = 0; i < sizeof(uses) / sizeof(uses[0]); i++)
        if (ls__given_sets(&parsed->set, uses[i].name) && !(uses[i].methods >> v->method & 1))
            return config_fail(sweep_file_at(file, uses[i].name),
                               "'%s' has no effect with method %s", uses[i].name, names[v->method]);
    if (!v->trials && uses[0].methods >> v->method & 1)
        return config_fail(sweep_file_at(file, "method"), "method %s requires 'trials = N'",
                           names[v->method]);
    return true;
}

/* ---- The search ---- */

/* It trains nothing. */
static ls_context *open_context(void)
{
    return ls_context_open(&(ls_context_config){ .threads = 1, .log = print_log });
}

/* Prints the error of ls_search_open, which names an option of the search. */
static int fail_search(sweep *s)
{
    const char *message = ls_plain_message(ls_context_message(s->ctx));
    const char *name = strncmp(message, "min_epochs ", 11) == 0 ? "min-epochs" : "method";
    for (int i = 0; i < s->file->n_searched; i++) {
        const char *option = s->file->searched[i].option->name;
        const size_t n = strlen(option);
        if (message[0] == '\'' && strncmp(message + 1, option, n) == 0 && message[n + 1] == '\'')
            name = option;
    }
    config_fail(sweep_file_at(s->file, name), "%s", message);
    ls_context_clear_error(s->ctx);
    return EXIT_USAGE;
}

static int open_search(sweep *s)
{
    sweep_settle_repeats(s);
    const sweep_values *v = s->values;
    ls_search_parameter parameters[SWEEP_MAX_PARAMETERS];
    for (int i = 0; i < s->file->n_searched; i++) parameters[i] = s->file->searched[i].search;
    s->search = ls_search_open(
        s->ctx, &(ls_search_config){ .method = (ls_search_method)v->method,
                                     .parameters = parameters,
                                     .parameter_count = s->file->n_searched,
                                     .trials = v->trials,
                                     .max_epochs = s->epochs,
                                     .min_epochs = v->min_epochs,
                                     .eta = v->eta,
                                     .startup = v->startup,
                                     .batch = v->batch,
                                     .maximize = !ls__run_metric_is_minimized(v->metric),
                                     .distinct = s->is_distinct,
                                     .seed = (uint64_t)v->seed });
    if (s->search) return EXIT_DONE;
    return ls_context_status(s->ctx) == LS_ERR_INVALID ? fail_search(s)
                                                       : print_error(s->ctx, EXIT_RUNTIME);
}

/* The images that all trials have. */
static int open_images(sweep *s, ls_run *run)
{
    const ls__run_settings *r = run->settings;
    if (ls__run_open_datasets(run) != LS_OK) return print_error(run->ctx, EXIT_DATA);
    ls__json_builder images = { json_object(), false };
    ls__json_put(&images, "train", ls__identity_data(run->ctx, run->train_data));
    ls__json_put(&images, "validation", ls__identity_data(run->ctx, run->val_data));
    s->images = ls__json_finish(&images);
    s->n_images = ls_dataset_sample_count(run->train_data);
    s->epochs = r->epochs;
    return s->images ? EXIT_DONE : print_error(run->ctx, EXIT_RUNTIME);
}

/* Prints warnings about options that all trials have, before the first trial of a new sweep. */
static void advise_trials(const sweep *s, const ls_run *run)
{
    static const char *const options[] = { "image-size", "resize", "alpha", "depth", "exif" };
    char path[LS__RUN_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/sweep.json", s->out);
    bool is_searched = false;
    for (int i = 0; i < s->file->n_searched; i++)
        for (size_t k = 0; k < sizeof(options) / sizeof(options[0]); k++)
            is_searched |= strcmp(s->file->searched[i].option->name, options[k]) == 0;
    if (!is_searched && !ls__path_exists(path)) ls__run_advise_images(run);
}

static int open_data(sweep *s)
{
    char **words = sweep_combination_words(s, 0);
    ls__run_settings r;
    int answer = words && sweep_parse_words(words, &r) ? EXIT_DONE : EXIT_USAGE;
    if (answer == EXIT_DONE && !r.data_dir)
        answer =
            fail_with(EXIT_USAGE, "%s: [train] requires 'data-dir = DIR'", s->file->lines.path);
    if (answer == EXIT_DONE) {
        ls_run run = { .settings = &r, .ctx = open_context() };
        answer = open_images(s, &run);
        if (answer == EXIT_DONE) advise_trials(s, &run);
        ls__run_release(&run);
    }
    sweep_free_words(words);
    return answer;
}

/* Whether a trial can have each combination of values, so that no wrong one stops the sweep later.
 */
static int check_combinations(const sweep *s)
{
    bool good = true;
    for (int64_t i = 0; good && i < sweep_combination_count(s); i++) {
        char **words = sweep_combination_words(s, i);
        ls__run_settings r;
        good = sweep_check_words(s, words, &r);
        sweep_free_words(words);
    }
    return good ? EXIT_DONE : EXIT_USAGE;
}

/* Prints that all combinations are done, if no other trial is possible. */
static void print_all_done(const sweep *s)
{
    const int64_t n = ls_search_trial_count(s->search);
    if (s->is_distinct && n < s->values->trials)
        print_note("all %lld combinations of [search] are done, so 'trials = %lld' has no others",
                   (long long)n, (long long)s->values->trials);
}

static int search(sweep *s)
{
    const ls_search_job *jobs;
    for (int64_t n;;) {
        if (ls_search_next(s->search, &jobs, &n) != LS_OK) return print_error(s->ctx, EXIT_RUNTIME);
        if (n == 0) return EXIT_DONE;
        const int answer = sweep_train(s, n, jobs);
        if (answer != EXIT_DONE) return answer;
        for (int64_t i = 0; i < n; i++) {
            const sweep_result *r = sweep_find(s, jobs[i].trial, jobs[i].epochs);
            if (ls_search_report(s->search, r->trial, r->has_failed ? NAN : r->value) != LS_OK)
                return print_error(s->ctx, EXIT_RUNTIME);
        }
    }
}

static int open_folder(sweep *s)
{
    char name[LS__FILE_NAME_SIZE], path[LS__RUN_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/sweep.json", s->out);
    if (ls__run_folder_holds_run(s->out) || ls__run_folder_is_of_program(s->out))
        return fail_with(EXIT_USAGE, "--out %s: contains a run; choose another folder", s->out);
    if (ls__is_folder(s->out) && !ls__path_exists(path) &&
        ls__run_folder_find_foreign(s->out, name))
        return fail_with(EXIT_USAGE,
                         "--out %s: the folder is not empty and contains no sweep (found '%s')",
                         s->out, name);
    if (ls__run_folder_create(s->ctx, s->out) != LS_OK ||
        ls__run_folder_lock(s->ctx, s->out, NULL) != LS_OK)
        return print_error(s->ctx, EXIT_RUNTIME);
    return sweep_read_results(s);
}

static int open_and_run(sweep_values *v, sweep_file *file)
{
    char program[PATH_MAX];
    if (!realpath("/proc/self/exe", program))
        return fail_with(EXIT_RUNTIME, "/proc/self/exe: %s", strerror(errno));
    sweep s = {
        .ctx = open_context(), .values = v, .file = file, .out = v->out, .program = program
    };
    int answer = open_data(&s);
    if (answer == EXIT_DONE) answer = check_combinations(&s);
    if (answer == EXIT_DONE && !sweep_settle_scale(&s)) answer = EXIT_USAGE;
    if (answer == EXIT_DONE) answer = open_search(&s);
    if (answer == EXIT_DONE) answer = open_folder(&s);
    if (answer == EXIT_DONE) {
        child_catch_signals();
        s.ignores_alpha = sweep_ignores_alpha(s.out, ls_search_trial_count(s.search));
        answer = search(&s);
        if (child_signal())
            print_message("signal %d: stopped; the same command continues the sweep",
                          child_signal());
    }
    if (s.definition) sweep_update_report(&s); /* whatever ended it */
    if (answer == EXIT_DONE) print_all_done(&s);
    if (answer == EXIT_DONE) answer = sweep_print_results(&s);
    json_decref(s.definition);
    json_decref(s.images);
    json_decref(s.forced);
    sweep_free_results(&s);
    ls_context_close(&s.ctx);
    return answer;
}

static int run(int argc, char **argv)
{
    sweep_values v = { 0 };
    sweep_file file = { 0 };
    cli_parsed parsed;
    const int ended = options_parse(&command_sweep, argc, argv, &v, &parsed);
    if (ended >= 0) return ended;
    if (parsed.n_arguments != 1)
        return fail_with(EXIT_USAGE, "expected one FILE that describes the sweep; 'lockstep sweep "
                                     "--help' shows an example");
    const char *path = parsed.arguments[0];
    int answer = EXIT_USAGE;
    if (sweep_file_read(path, &parsed, &v, &file) && check_method(&file, &parsed, &v) &&
        sweep_settle_metric(&parsed, &v, &file)) {
        if (strlen(v.out) < LS__RUN_DIR_SIZE)
            answer = open_and_run(&v, &file);
        else
            print_message("the folder's name is too long");
    }
    sweep_file_close(&file);
    return answer;
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
        "rewritten after each trial, has charts of the trials and the importance of each option. "
        "After an interruption the same command continues. Neither interruptions nor --parallel "
        "change a result. With random and tpe, a larger --trials extends a sweep.\n"
        "Exit status: 0 done, 1 failed, 2 wrong file or command line, 3 unreadable or "
        "changed images, or an unusable data folder, 4 the loss of no trial is finite, 128+n "
        "stopped by signal n.",
    .options = sweep_options,
    .run = run,
};
