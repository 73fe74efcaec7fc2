/* lr_find.c: 'lockstep lr-find': a learning rate range test, before a run. */
#include "runs/runs.h"
#include <math.h>
#include <string.h>
#include <unistd.h>

typedef struct lr_find_values {
    int64_t steps;
    double start_lr, end_lr, smoothing;
    const char *out;
} lr_find_values;

/* ---- Options: those of the test, then those of `lockstep train` that a step depends on ---- */

#define AT(member) offsetof(lr_find_values, member)

static const ls_setting own_options[] = {
    { LS_SETTING_HEADING, .help = "Test:" },
    { LS_SETTING_INTEGER, 0, "steps", AT(steps), "number of updates of the weights", "N", 10, 1e6,
      .fallback = "100", .usual = true },
    { LS_SETTING_NUMBER, 0, "start-lr", AT(start_lr), "learning rate of the first update", "X",
      1e-12, 1e3, .fallback = "1e-6", .usual = true },
    { LS_SETTING_NUMBER, 0, "end-lr", AT(end_lr), "learning rate of the last update", "X", 1e-12,
      1e3, .fallback = "10", .usual = true },
    { LS_SETTING_NUMBER, 0, "smoothing", AT(smoothing),
      "decay of the exponential moving average of the loss; 0 = no smoothing", "D", 0, 0.999,
      .fallback = "0.9", .usual = true },
    { LS_SETTING_TEXT, 0, "out", AT(out),
      "folder for lr_find.csv and lr_find.svg, which are replaced", "DIR",
      .note = "lr-find, or lr-find-2, lr-find-3, ...", .usual = true },
    { .kind = LS_SETTING_END },
};

static bool acts_here(const ls_setting *option)
{
    return !option->whole_run;
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
    enum { MAX_WORDS = 2 * LS_MAX_SETTINGS + 6, NAME_SIZE = 40 };
    char names[LS_MAX_SETTINGS][NAME_SIZE], number[32];
    const char *words[MAX_WORDS] = { "train" };
    int n = 1;
    if (parsed->config) {
        words[n++] = "--config";
        words[n++] = parsed->config;
    }
    for (int i = 0; parsed->set.table[i].kind != LS_SETTING_END; i++) {
        const ls_setting *o = &parsed->set.table[i];
        if (!parsed->set.text[i] || parsed->set.in_file[i] ||
            ls_setting_find(own_options, o->name, strlen(o->name)) >= 0)
            continue;
        const bool is_switch = o->kind == LS_SETTING_SWITCH,
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

static int print_result(const cli_run *r, const lr_find_values *v, ls_lr_curve *curve)
{
    const char *dir = ls_run_dir(r->run);
    const ls_lr_suggestion s = ls_lr_curve_suggestion(curve);
    print_points(curve);
    print_reason(curve, v->steps);
    const bool interrupted = ls_lr_curve_end(curve) == LS_LR_FIND_INTERRUPTED;
    if (interrupted && ls_lr_curve_point_count(curve) == 0) return LS_EXIT_SIGNAL + caught_signal;
    if (ls_lr_curve_save(curve, dir) != LS_OK) return print_error(r->report.ctx, LS_EXIT_RUNTIME);
    print_text(stdout, "files   %s/lr_find.csv, %s/lr_find.svg\n", dir, dir);
    if (interrupted) return LS_EXIT_SIGNAL + caught_signal;
    if (s.fall == 0)
        return fail_with(LS_EXIT_RUNTIME, "no suggestion, because the loss did not fall; try other "
                                          "values of --start-lr and --end-lr, or more --steps");
    if (s.steepest == 0)
        return fail_with(LS_EXIT_RUNTIME,
                         "no suggestion, because the fall of the loss is within its noise: %.1f "
                         "standard errors, expected at least %d; use a larger --batch-size, more "
                         "--steps, or more images",
                         floor(s.fall * 10) / 10, (int)LS_LR_FIND_MIN_FALL);
    print_text(stdout, "steepest descent of the loss at lr %.3g\n", s.steepest);
    print_text(stdout, "minimum of the loss / 10 at lr %.3g\n", s.tenth_of_min);
    print_train_command(r->parsed, s.steepest);
    return LS_EXIT_DONE;
}

/* ---- The test ---- */

static int find(cli_run *r, const lr_find_values *v)
{
    const ls_run *run = r->run;
    ls_loader *loader = ls_run_train_loader(run);
    progress_open(&r->report.progress, v->steps * (int64_t)ls_run_number(run, "accumulate"), 0);
    const ls_lr_find_config config = { .min_lr = v->start_lr,
                                       .max_lr = v->end_lr,
                                       .steps = v->steps,
                                       .smoothing = v->smoothing > 0 ? v->smoothing : LS_ZERO,
                                       .stop = &caught_signal,
                                       .on_event = report_event,
                                       .user = &r->report };
    ls_lr_curve *curve = ls_run_find_lr(r->run, &config);
    if (ls_run_number(run, "on-bad-image") != LS_BAD_IMAGE_FAIL)
        report_bad_images(loader, ls_run_train_dataset(run), INT64_MAX);
    if (curve) return print_result(r, v, curve);
    const ls_status status = ls_loader_status(loader);
    const bool failed_in_data = status != LS_OK && status != LS_ERR_EARLIER;
    return failed_in_data ? print_loader_error(r->report.ctx, "batch")
                          : print_error(r->report.ctx, LS_EXIT_RUNTIME);
}

static int run(const cli_parsed *parsed, void *values)
{
    lr_find_values *v = values;
    if (v->start_lr >= v->end_lr)
        return fail_with(LS_EXIT_USAGE, "--start-lr %g is not below --end-lr %g", v->start_lr,
                         v->end_lr);
    cli_run r = { .parsed = parsed };
    int exit_status = open_run(&r, v->out, NULL, LS_RUN_TRAINING, true);
    catch_signals();
    if (exit_status == LS_EXIT_DONE) exit_status = find(&r, v);
    if (exit_status != LS_EXIT_DONE && !v->out && *ls_run_dir(r.run))
        (void)rmdir(ls_run_dir(r.run)); /* if nothing was written */
    ls_run_close(&r.run);
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
    .values_bytes = sizeof(lr_find_values),
    .options = own_options,
    .settings = ls_run_settings,
    .selects = acts_here,
    .reads_runs = true,
    .run = run,
};
