/* lr_find.c: 'lockstep lr-find': a learning rate range test, before a run. */
#include "terminal/events.h"
#include "run/advice.h"
#include "runs/open_run.h"
#include "log/run_folder.h"
#include <math.h>
#include <string.h>
#include <unistd.h>

typedef struct lr_find_values {
    ls__run_settings
        settings; /* first: the options of `lockstep train` are at their offsets in it */
    double start_lr, end_lr, smoothing;
} lr_find_values;

/* ---- Options: those of the test, then those of `lockstep train` that a step depends on ---- */

#define AT(member) offsetof(lr_find_values, member)

static const ls__setting own_options[] = {
    { LS__SETTING_HEADING, .help = "Test:" },
    { LS__SETTING_INTEGER, 0, "steps", AT(settings.steps), "number of updates of the weights", "N",
      10, 1e6, .fallback = "100", .session = true, .usual = true },
    { LS__SETTING_NUMBER, 0, "start-lr", AT(start_lr), "learning rate of the first update", "X",
      1e-12, 1e3, .fallback = "1e-6", .usual = true },
    { LS__SETTING_NUMBER, 0, "end-lr", AT(end_lr), "learning rate of the last update", "X", 1e-12,
      1e3, .fallback = "10", .usual = true },
    { LS__SETTING_NUMBER, 0, "smoothing", AT(smoothing),
      "decay of the exponential moving average of the loss; 0 = no smoothing", "D", 0, 0.999,
      .fallback = "0.9", .usual = true },
    { LS__SETTING_TEXT, 0, "out", AT(settings.out),
      "folder for lr_find.csv and lr_find.svg, which are replaced", "DIR",
      .note = "lr-find, or lr-find-2, lr-find-3, ...", .session = true, .usual = true },
    { .kind = LS__SETTING_END },
};

static bool acts_here(const ls__setting *option)
{
    return !option->whole_run;
}

static void make_options(ls__setting out[LS__MAX_SETTINGS + 1])
{
    select_run_settings(own_options, acts_here, out);
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
    enum { MAX_WORDS = 2 * LS__MAX_SETTINGS + 6, NAME_SIZE = 40 };
    char names[LS__MAX_SETTINGS][NAME_SIZE], number[32];
    const char *words[MAX_WORDS] = { "train" };
    int n = 1;
    if (parsed->config) {
        words[n++] = "--config";
        words[n++] = parsed->config;
    }
    for (int i = 0; parsed->set.table[i].kind != LS__SETTING_END; i++) {
        const ls__setting *o = &parsed->set.table[i];
        if (!parsed->set.text[i] || parsed->set.in_file[i] ||
            ls__setting_find(own_options, o->name, strlen(o->name)) >= 0)
            continue;
        const bool is_switch = o->kind == LS__SETTING_SWITCH,
                   off = strcmp(parsed->set.text[i], "false") == 0;
        snprintf(names[i], NAME_SIZE, "--%s%s", o->name, is_switch && off ? "=false" : "");
        words[n++] = names[i];
        if (!is_switch) words[n++] = parsed->set.text[i];
    }
    snprintf(number, sizeof(number), "%.3g", lr);
    words[n++] = "--lr";
    words[n++] = number;
    words[n] = NULL;
    print_command_words(stdout, "next", words);
}

static int print_result(ls_run *t, const cli_parsed *parsed, ls_lr_curve *curve)
{
    const char *dir = t->dir;
    const ls_lr_suggestion s = ls_lr_curve_suggestion(curve);
    print_points(curve);
    print_reason(curve, t->settings->steps);
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

static int find(ls_run *t, const lr_find_values *v, const cli_parsed *parsed)
{
    run_report report = { .ctx = t->ctx, .train_data = t->train_data };
    progress_open(&report.progress, t->settings->steps * ls__run_batches_per_update(t->settings),
                  0);
    const ls_lr_find_config config = { .min_lr = v->start_lr,
                                       .max_lr = v->end_lr,
                                       .steps = t->settings->steps,
                                       .smoothing = v->smoothing > 0 ? v->smoothing : LS_ZERO,
                                       .stop = &caught_signal,
                                       .on_event = report_event,
                                       .user = &report };
    ls_lr_curve *curve = ls_lr_find(t->net, t->optimizer, t->train, &config);
    if (t->settings->on_bad_image != LS_BAD_IMAGE_FAIL)
        report_bad_images(t->train, t->train_data, INT64_MAX);
    if (curve) return print_result(t, parsed, curve);
    return ls_loader_status(t->train) != LS_OK ? print_loader_error(t->ctx, "batch")
                                               : print_error(t->ctx, EXIT_RUNTIME);
}

/* Makes the folder before the test: the one of --out, or a new one, so that tests that are started
 * together have folders of their own. */
static int open_folder(ls_run *t)
{
    static const char name[] = "lr-find";
    int number;
    if (t->settings->out && ls__run_folder_create(t->ctx, t->dir) == LS_OK) return EXIT_DONE;
    if (t->settings->out || ls__run_folder_create_new(t->ctx, name, &number) != LS_OK)
        return print_error(t->ctx, EXIT_RUNTIME);
    ls__run_folder_name(name, number, t->dir, sizeof(t->dir));
    return EXIT_DONE;
}

static int run(int argc, char **argv)
{
    ls__setting options[LS__MAX_SETTINGS + 1];
    make_options(options);
    cli_command command = command_lr_find;
    command.options = options;
    lr_find_values v = { .settings.epochs = 1 };
    cli_parsed parsed;
    const int ended = options_parse(&command, argc, argv, &v, &parsed);
    if (ended >= 0) return ended;
    if (!v.settings.data_dir) return fail_with(EXIT_USAGE, "--data-dir DIR is required");
    if (v.start_lr >= v.end_lr)
        return fail_with(EXIT_USAGE, "--start-lr %g is not below --end-lr %g", v.start_lr,
                         v.end_lr);
    const char *out = v.settings.out;
    if (out && strlen(out) >= LS__RUN_DIR_SIZE)
        return fail_with(EXIT_USAGE, "--out: the folder's name is too long");
    if (out && (ls__run_folder_holds_run(out) || ls__run_folder_is_of_program(out)))
        return fail_with(EXIT_USAGE, "--out %s: contains a run; choose another folder", out);
    const int resolved = resolve_run_settings(&parsed, &v.settings);
    if (resolved != EXIT_DONE) return resolved;
    ls_run t = { .settings = &v.settings, .only_trains = true };
    if (out) strcpy(t.dir, out);
    int exit_status = open_run(&t, false, false);
    if (exit_status == EXIT_DONE) exit_status = open_folder(&t);
    catch_signals();
    if (exit_status == EXIT_DONE) ls__run_advise_images(&t);
    if (exit_status == EXIT_DONE) exit_status = find(&t, &v, &parsed);
    if (exit_status != EXIT_DONE && !out && *t.dir) (void)rmdir(t.dir); /* if nothing was written */
    ls__run_release(&t);
    return exit_status;
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
    .run_options = ls__run_settings_table,
    .run = run,
};
