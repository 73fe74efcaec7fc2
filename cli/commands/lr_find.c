/* lr_find.c: 'lockstep lr-find': a learning rate range test, before a run. */
#include "terminal/events.h"
#include "runs/run.h"
#include "log/run_folder.h"
#include <math.h>
#include <string.h>
#include <unistd.h>

typedef struct lr_find_values {
    recipe recipe; /* first: the options of `lockstep train` are at their offsets in it */
    double start_lr, end_lr, smoothing;
} lr_find_values;

/* ---- Options: those of the test, then those of `lockstep train` that a step depends on ---- */

#define AT(member) offsetof(lr_find_values, member)

static const cli_option own_options[] = {
    { OPTION_HEADING, .help = "Test:" },
    { OPTION_INTEGER, 0, "steps", AT(recipe.steps), "number of updates of the weights", "N", 10,
      1e6, .fallback = "100", .session = true, .usual = true },
    { OPTION_NUMBER, 0, "start-lr", AT(start_lr), "learning rate of the first update", "X", 1e-12,
      1e3, .fallback = "1e-6", .usual = true },
    { OPTION_NUMBER, 0, "end-lr", AT(end_lr), "learning rate of the last update", "X", 1e-12, 1e3,
      .fallback = "10", .usual = true },
    { OPTION_NUMBER, 0, "smoothing", AT(smoothing),
      "decay of the exponential moving average of the loss; 0 = no smoothing", "D", 0, 0.999,
      .fallback = "0.9", .usual = true },
    { OPTION_TEXT, 0, "out", AT(recipe.out),
      "folder for lr_find.csv and lr_find.svg, which are replaced", "DIR",
      .note = "lr-find, or lr-find-2, lr-find-3, ...", .session = true, .usual = true },
    { .kind = OPTION_END },
};

static bool acts_here(const cli_option *option)
{
    return !option->whole_run;
}

static void make_options(cli_option out[MAX_OPTIONS + 1])
{
    recipe_select_options(own_options, acts_here, out);
}

/* ---- The result ---- */

static void print_points(const ls_lr_curve *curve)
{
    enum { N_ROWS = 12 };
    const int64_t n = ls_lr_curve_point_count(curve), rows = n < N_ROWS ? n : N_ROWS;
    print_text(stdout, "%10s  %10s  %13s\n", "lr", "loss", "smoothed loss");
    for (int64_t i = 0; i < rows; i++) {
        const ls_lr_point p = ls_lr_curve_point_at(curve, rows > 1 ? i * (n - 1) / (rows - 1) : 0);
        print_text(stdout, "%10.3g  %10.4g  %13.4g\n", p.lr, p.loss, p.smoothed_loss);
    }
}

static void print_reason(const ls_lr_curve *curve, int64_t steps)
{
    static const char *const reasons[] = {
        [LS_LR_FIND_DONE] = "all are done",
        [LS_LR_FIND_DIVERGED] = "the smoothed loss exceeded 4 times its minimum",
        [LS_LR_FIND_NONFINITE] = "the next loss is not finite",
        [LS_LR_FIND_INTERRUPTED] = "interrupted",
    };
    print_text(stdout, "ended after %lld of %lld steps: %s\n",
               (long long)ls_lr_curve_point_count(curve), (long long)steps,
               reasons[ls_lr_curve_end(curve)]);
}

/* The command that trains with this learning rate and the options that were given. */
static void print_train_command(const cli_parsed *parsed, double lr)
{
    enum { MAX_WORDS = 2 * MAX_OPTIONS + 6, NAME_SIZE = 40 };
    char names[MAX_OPTIONS][NAME_SIZE], number[32];
    const char *words[MAX_WORDS] = { "train" };
    int n = 1;
    if (parsed->config) {
        words[n++] = "--config";
        words[n++] = parsed->config;
    }
    for (int i = 0; parsed->options[i].kind != OPTION_END; i++) {
        const cli_option *o = &parsed->options[i];
        if (!parsed->given[i] || parsed->in_file[i] ||
            option_find(own_options, o->name, strlen(o->name)) >= 0)
            continue;
        const bool is_switch = o->kind == OPTION_SWITCH,
                   off = strcmp(parsed->given[i], "false") == 0;
        snprintf(names[i], NAME_SIZE, "--%s%s", o->name, is_switch && off ? "=false" : "");
        words[n++] = names[i];
        if (!is_switch) words[n++] = parsed->given[i];
    }
    snprintf(number, sizeof(number), "%.3g", lr);
    words[n++] = "--lr";
    words[n++] = number;
    words[n] = NULL;
    print_command_words(stdout, "next", words);
}

static int print_result(cli_run *t, const cli_parsed *parsed, ls_lr_curve *curve)
{
    const char *dir = t->dir;
    const ls_lr_suggestion s = ls_lr_curve_suggestion(curve);
    print_points(curve);
    print_reason(curve, t->recipe->steps);
    const bool interrupted = ls_lr_curve_end(curve) == LS_LR_FIND_INTERRUPTED;
    if (interrupted && ls_lr_curve_point_count(curve) == 0) return EXIT_SIGNAL + caught_signal;
    if (ls_lr_curve_save(curve, dir) != LS_OK) return print_error(t->ctx, EXIT_RUNTIME);
    print_text(stdout, "files   %s/lr_find.csv, %s/lr_find.svg\n", dir, dir);
    if (interrupted) return EXIT_SIGNAL + caught_signal;
    if (s.fall == 0)
        return fail_with(EXIT_RUNTIME, "no suggestion, because the loss did not fall; try other "
                                       "values of --start-lr and --end-lr, or more --steps");
    if (s.steepest == 0)
        return fail_with(EXIT_RUNTIME,
                         "no suggestion, because the fall of the loss is within its noise: %.1f "
                         "standard errors, expected at least %d; use a larger --batch-size, more "
                         "--steps, or more images",
                         floor(s.fall * 10) / 10, (int)LS_LR_FIND_MIN_FALL);
    print_text(stdout, "steepest descent of the loss at lr %.3g\n", s.steepest);
    print_text(stdout, "minimum of the loss / 10 at lr %.3g\n", s.tenth_of_min);
    print_train_command(parsed, s.steepest);
    return EXIT_DONE;
}

/* ---- The test ---- */

static int find(cli_run *t, const lr_find_values *v, const cli_parsed *parsed)
{
    run_report report = { .ctx = t->ctx, .train_data = t->train_data };
    progress_open(&report.progress, t->recipe->steps * recipe_batches_per_update(t->recipe), 0);
    const ls_lr_find_config config = { .min_lr = v->start_lr,
                                       .max_lr = v->end_lr,
                                       .steps = t->recipe->steps,
                                       .smoothing = v->smoothing > 0 ? v->smoothing : LS_ZERO,
                                       .stop = &caught_signal,
                                       .on_event = report_event,
                                       .user = &report };
    ls_lr_curve *curve = ls_lr_find(t->net, t->optimizer, t->train, &config);
    if (t->recipe->on_bad_image != LS_BAD_IMAGE_FAIL)
        report_bad_images(t->train, t->train_data, INT64_MAX);
    if (curve) return print_result(t, parsed, curve);
    return ls_loader_status(t->train) != LS_OK ? print_loader_error(t->ctx, "batch")
                                               : print_error(t->ctx, EXIT_RUNTIME);
}

/* Makes the folder before the test: the one of --out, or a new one, so that tests that are started
 * together have folders of their own. */
static int open_folder(cli_run *t, char dir[RUN_DIR_SIZE])
{
    static const char name[] = "lr-find";
    int number;
    if (t->recipe->out && ls__run_folder_create(t->ctx, dir) == LS_OK) return EXIT_DONE;
    if (t->recipe->out || ls__run_folder_create_new(t->ctx, name, &number) != LS_OK)
        return print_error(t->ctx, EXIT_RUNTIME);
    ls__run_folder_name(name, number, dir, RUN_DIR_SIZE);
    return EXIT_DONE;
}

static int run(int argc, char **argv)
{
    cli_option options[MAX_OPTIONS + 1];
    make_options(options);
    cli_command command = command_lr_find;
    command.options = options;
    lr_find_values v = { .recipe.epochs = 1 };
    cli_parsed parsed;
    const int ended = options_parse(&command, argc, argv, &v, &parsed);
    if (ended >= 0) return ended;
    if (!v.recipe.data_dir) return fail_with(EXIT_USAGE, "--data-dir DIR is required");
    if (v.start_lr >= v.end_lr)
        return fail_with(EXIT_USAGE, "--start-lr %g is not below --end-lr %g", v.start_lr,
                         v.end_lr);
    char dir[RUN_DIR_SIZE] = "";
    if (v.recipe.out && strlen(v.recipe.out) >= RUN_DIR_SIZE)
        return fail_with(EXIT_USAGE, "--out: the folder's name is too long");
    if (v.recipe.out) strcpy(dir, v.recipe.out);
    if (v.recipe.out && (ls__run_folder_holds_run(dir) || ls__run_folder_is_of_program(dir)))
        return fail_with(EXIT_USAGE, "--out %s: contains a run; choose another folder",
                         v.recipe.out);
    if (!recipe_resolve(&parsed, &v.recipe)) return EXIT_USAGE;
    cli_run t = { .recipe = &v.recipe, .dir = dir, .only_trains = true };
    int answer = cli_run_open(&t, false);
    if (answer == EXIT_DONE) answer = open_folder(&t, dir);
    catch_signals();
    if (answer == EXIT_DONE) advise_images(&t);
    if (answer == EXIT_DONE) answer = find(&t, &v, &parsed);
    if (answer != EXIT_DONE && !v.recipe.out && *dir) (void)rmdir(dir); /* if nothing was written */
    cli_run_close(&t);
    return answer;
}

const cli_command command_lr_find = {
    .name = "lr-find",
    .summary = "find a learning rate for 'lockstep train' by a range test",
    .arguments = "",
    .details =
        "Trains for some steps, with a learning rate that grows by the same factor in each step, "
        "and records the loss before each of them. The test ends early if the smoothed loss "
        "exceeds 4 times its minimum, or the loss is not finite. The first suggestion is the "
        "learning rate at which the smoothed loss falls fastest, the second a tenth of that of its "
        "minimum. Give the options that the run will have. The result is the same for any number "
        "of threads and workers. The weights are not saved.",
    .options = own_options,
    .make_options = make_options,
    .run_options = recipe_options,
    .run = run,
};
