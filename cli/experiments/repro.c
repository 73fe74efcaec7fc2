/* repro.c: 'lockstep repro': whether the numbers of workers, threads, ranks and restarts change a
 * result. Each combination is trained by processes of its own, one after the other. */
#include "terminal/progress.h"
#include "experiments/repro.h"
#include "run/ranks.h"
#include "log/run_folder.h"
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct repro_values {
    ls__run_settings
        settings; /* first: the options of `lockstep train` are at their offsets in it */
    const char *workers, *threads, *ranks;
    int64_t restarts;
} repro_values;

/* ---- Options: those of the experiment, then the others of `lockstep train` ---- */

#define AT(member) offsetof(repro_values, member)

static const ls__setting own_options[] = {
    { LS__SETTING_HEADING, .help = "Experiment:" },
    { LS__SETTING_TEXT, 'j', "workers", AT(workers), "numbers of data-loader workers to compare",
      "N,N,...", .fallback = "0,1,2,4,8", .usual = true },
    { LS__SETTING_TEXT, 0, "threads", AT(threads),
      "numbers of compute threads to compare, in all combinations with --workers", "N,N,...",
      .fallback = "1,2,3,4", .usual = true },
    { LS__SETTING_TEXT, 0, "ranks", AT(ranks),
      "numbers of ranks to compare, in all combinations; processes that mpirun starts, at most as "
      "many as --shards",
      "N,N,...", .fallback = "1", .usual = true },
    { LS__SETTING_INTEGER, 0, "restart", AT(restarts),
      "train each combination once more, interrupted N times and resumed with other numbers of "
      "workers, threads and ranks",
      "N", 0, REPRO_MAX_RESTARTS, .fallback = "0", .usual = true },
    { LS__SETTING_INTEGER, 0, "steps", AT(settings.steps), "steps of each run", "N", 1, 1e6,
      .fallback = "60", .usual = true },
    { LS__SETTING_TEXT, 0, "out", AT(settings.out), "new folder for the experiment", "DIR",
      .note = "repro, or repro-2, repro-3, ...", .usual = true },
    { .kind = LS__SETTING_END },
};
enum { N_OWN = sizeof(own_options) / sizeof(own_options[0]) - 1 };

/* Options of `lockstep train` that the experiment sets or that have no effect in it. */
static bool is_taken(const ls__setting *option)
{
    static const char *const names[] = { "workers", "threads",  "steps", "stop-at",     "out",
                                         "resume",  "patience", "force", "inject-fault" };
    for (size_t i = 0; option->name && i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(option->name, names[i]) == 0) return true;
    return false;
}

static void make_options(ls__setting out[LS__MAX_SETTINGS + 1])
{
    int n = N_OWN;
    memcpy(out, own_options, N_OWN * sizeof(*out));
    for (const ls__setting *o = ls__run_settings_table;
         o->kind != LS__SETTING_END && n < LS__MAX_SETTINGS; o++)
        if (!is_taken(o)) out[n++] = *o;
    out[n] = (ls__setting){ .kind = LS__SETTING_END };
}

/* ---- The arguments of the child processes, and the command: each option that was given ---- */

/* Of the options from the first-th on. The name of the folder is left out. */
static bool make_arguments(const cli_parsed *parsed, int first, char *out[LS__MAX_SETTINGS + 1])
{
    int n = 0;
    for (int i = first; parsed->set.table[i].kind != LS__SETTING_END; i++) {
        const char *value = parsed->set.text[i];
        if (!value || strcmp(parsed->set.table[i].name, "out") == 0) continue;
        if (asprintf(&out[n], "--%s%s%s", parsed->set.table[i].name, *value ? "=" : "", value) <
            0) {
            out[n] = NULL;
            return false;
        }
        n++;
    }
    return true;
}

/* ---- The runs ---- */

typedef struct axis {
    int n, values[REPRO_MAX_AXIS];
} axis;

/* "0,1,2" */
static bool read_axis(const char *name, const char *text, int min, int max, axis *out)
{
    out->n = 0;
    for (const char *at = text;; at++) {
        char *end;
        errno = 0;
        const long value = strtol(at, &end, 10);
        bool good = end != at && !isspace((unsigned char)*at) && (!*end || *end == ',') && !errno &&
                    value >= min && value <= max;
        for (int i = 0; i < out->n; i++) good = good && out->values[i] != value;
        if (!good || out->n == REPRO_MAX_AXIS)
            return fail_with(false,
                             "--%s: expected at most %d different integers from %d to %d, such as "
                             "0,1,2; got '%s'",
                             name, REPRO_MAX_AXIS, min, max, text);
        out->values[out->n++] = (int)value;
        at = end;
        if (!*end) return true;
    }
}

/* The step at which a run is stopped: a random one of the k-th of `restarts` equal intervals. */
static int64_t stop_step(const repro_values *v, int run, int k)
{
    uint32_t words[4];
    ls_random_words(
        (uint64_t)v->settings.seed,
        &(ls_draw){ .stream = LS_RANDOM_USER, .layer = (uint32_t)k, .sample = (uint64_t)run },
        words);
    const int64_t last = v->settings.steps - 1;
    const int64_t begin = k * last / v->restarts, end = (k + 1) * last / v->restarts;
    return begin + 1 + (int64_t)ls_random_below(words[0], words[1], (uint32_t)(end - begin));
}

static void add_leg(const repro *r, repro_run *run, repro_leg leg, int64_t stop_at)
{
    const size_t n = strlen(run->legs_text), size = sizeof(run->legs_text) - n;
    char stop[32] = "", ranks[16] = "";
    if (stop_at) snprintf(stop, sizeof(stop), " @%lld", (long long)stop_at);
    if (r->has_ranks) snprintf(ranks, sizeof(ranks), "x%d", leg.ranks);
    snprintf(run->legs_text + n, size, "%s%dx%d%s%s", n ? " " : "", leg.workers, leg.threads, ranks,
             stop);
    if (stop_at) run->stops[run->n_legs] = stop_at;
    run->legs[run->n_legs++] = leg;
}

/* The axes of the experiment. */
typedef struct axes {
    axis workers, threads, ranks;
} axes;

static int count_combinations(const axes *a)
{
    return a->workers.n * a->threads.n * a->ranks.n;
}

/* The values of combination i, k places further on each axis. With --seeding worker the number of
 * workers is part of the identity, so it stays. */
static repro_leg combination(const axes *a, int i, int k, bool keeps_workers)
{
    const int w = i / (a->threads.n * a->ranks.n), t = i / a->ranks.n % a->threads.n;
    return (repro_leg){ a->workers.values[(w + (keeps_workers ? 0 : k)) % a->workers.n],
                        a->threads.values[(t + k) % a->threads.n],
                        a->ranks.values[(i + k) % a->ranks.n] };
}

/* Each combination; then the same with restarts, each of which resumes with the next numbers. */
static void plan_runs(const repro_values *v, const axes *a, repro *r)
{
    const bool keeps_workers = v->settings.seeding == LS_SEED_BY_WORKER;
    const int n_once = count_combinations(a);
    for (int i = 0; i < (v->restarts > 0 ? 2 : 1) * n_once; i++, r->n_runs++) {
        repro_run *run = &r->runs[i];
        const int restarts = i < n_once ? 0 : (int)v->restarts;
        for (int k = 0; k <= restarts; k++)
            add_leg(r, run, combination(a, i % n_once, k, keeps_workers),
                    k < restarts ? stop_step(v, i, k) : 0);
        const repro_leg *first = &run->legs[0];
        char ranks[16] = "", restart[16] = "";
        if (r->has_ranks) snprintf(ranks, sizeof(ranks), "-n%d", first->ranks);
        if (restarts) snprintf(restart, sizeof(restart), "-r%d", restarts);
        snprintf(run->name, sizeof(run->name), "w%d-t%d%s%s", first->workers, first->threads, ranks,
                 restart);
    }
}

/* ---- Checks ---- */

/* Prints why the experiment can't be run so, and returns the exit status. */
static int check_data(repro *r, const ls__run_settings *train)
{
    ls_dataset *data, *val = NULL;
    if (ls__run_open_train_data(r->ctx, train, &data, &val) != LS_OK) {
        const int exit_status = print_error(r->ctx, EXIT_DATA);
        return exit_status == EXIT_RUNTIME ? EXIT_NO_VERDICT : exit_status;
    }
    const int64_t per_epoch = ls_dataset_sample_count(data) / train->batch;
    r->steps_per_epoch = per_epoch;
    ls_dataset_close(&data);
    ls_dataset_close(&val);
    if (per_epoch == 0 || per_epoch * train->epochs >= r->steps) return EXIT_DONE;
    return fail_with(EXIT_USAGE,
                     "--steps %lld: %lld epochs of these images have %lld steps: use --epochs %lld "
                     "or fewer steps",
                     (long long)r->steps, (long long)train->epochs,
                     (long long)(per_epoch * train->epochs),
                     (long long)((r->steps + per_epoch - 1) / per_epoch));
}

static bool check_folder(const char *given)
{
    struct stat there;
    if (given && strlen(given) >= LS__RUN_DIR_SIZE)
        return fail_with(false, "the folder's name is too long");
    if (!given || lstat(given, &there) != 0) return true;
    return fail_with(false, "%s exists already; expected a new folder for --out", given);
}

/* Makes the folder; without a given name repro, or repro-2, repro-3 and so on. */
static int make_folder(const repro *r, const char *given, char out[LS__RUN_DIR_SIZE])
{
    static const char name[] = "repro";
    int number = 1;
    const ls_status status =
        ls__run_folder_create_new(r->ctx, given ? given : name, given ? NULL : &number);
    ls__run_folder_name(given ? given : name, number, out, LS__RUN_DIR_SIZE);
    return status == LS_OK ? EXIT_DONE : print_error(r->ctx, EXIT_NO_VERDICT);
}

/* ---- The experiment ---- */

static void print_running(const repro *r, int i)
{
    if (print_is_quiet() || !isatty(STDERR_FILENO)) return;
    progress_erase();
    print_text(stderr, "run %d of %d: %s", i + 1, r->n_runs, r->runs[i].legs_text);
    fflush(stderr);
}

static int experiment(repro *r)
{
    repro_print_head(r);
    int answer = EXIT_DONE;
    for (int i = 0; i < r->n_runs && answer == EXIT_DONE; i++) {
        print_running(r, i);
        answer = repro_train(r, &r->runs[i]);
        if (isatty(STDERR_FILENO)) progress_erase();
        if (answer == EXIT_SIGNAL + caught_signal && caught_signal)
            print_message("signal %d: stopped in run %d of %d; %s contains the completed runs",
                          (int)caught_signal, i + 1, r->n_runs, r->out);
        if (answer == EXIT_DONE) answer = repro_read(r, i);
        if (answer == EXIT_DONE) repro_print_run(r, i);
    }
    if (answer == EXIT_DONE) answer = repro_write_csv(r);
    if (answer == EXIT_DONE) answer = repro_plot(r);
    if (answer == EXIT_DONE) answer = repro_write_report(r);
    if (answer != EXIT_DONE) return answer;
    repro_print_verdict(r);
    if (print_finish() != 0) return EXIT_NO_VERDICT; /* main prints the error */
    return r->n_results == 1 ? EXIT_DONE : EXIT_DIFFERENT;
}

/* With --benchmark alone the first run times kernels, and the other runs use its kernels. */
static bool add_algorithm_cache(const ls__run_settings *train, const char *out, char **arguments)
{
    if (!train->benchmark || train->algorithm_cache) return true;
    while (*arguments) arguments++;
    if (asprintf(arguments, "--algorithm-cache=%s/kernels.json", out) >= 0) return true;
    *arguments = NULL;
    return false;
}

static int open_and_run(const cli_parsed *parsed, const repro_values *v, const axes *a)
{
    char dir[LS__RUN_DIR_SIZE], *arguments[LS__MAX_SETTINGS + 2] = { NULL };
    char repro_word[] = "repro", *command_words[LS__MAX_SETTINGS + 2] = { repro_word };
    if (!check_folder(v->settings.out)) return EXIT_USAGE;
    char program[PATH_MAX];
    if (!realpath("/proc/self/exe", program))
        return fail_with(EXIT_NO_VERDICT, "/proc/self/exe: %s", strerror(errno));
    repro r = { .ctx = ls_context_open(&(ls_context_config){ .threads = 1, .log = print_log }),
                .out = dir,
                .steps = v->settings.steps,
                .batch = v->settings.batch,
                .arguments = arguments,
                .command = command_words,
                .program = program,
                .has_ranks = a->ranks.n > 1 || a->ranks.values[0] > 1 };
    int answer = EXIT_DONE;
    const size_t most = (size_t)(2 * count_combinations(a));
    r.runs = calloc(most, sizeof(*r.runs));
    if (!r.runs || !make_arguments(parsed, 0, command_words + 1) ||
        !make_arguments(parsed, N_OWN, arguments))
        answer = print_error(NULL, EXIT_NO_VERDICT);
    if (answer == EXIT_DONE && r.has_ranks && ls__ranks_find_launcher(r.ctx) != LS_OK)
        answer = print_error(r.ctx, EXIT_NO_VERDICT);
    if (answer == EXIT_DONE) answer = check_data(&r, &v->settings);
    if (answer == EXIT_DONE) answer = make_folder(&r, v->settings.out, dir);
    if (answer == EXIT_DONE && !add_algorithm_cache(&v->settings, dir, arguments))
        answer = print_error(NULL, EXIT_NO_VERDICT);
    if (answer == EXIT_DONE) {
        plan_runs(v, a, &r);
        catch_signals_for_children();
        r.children.stop = &caught_count;
        answer = experiment(&r);
    }
    for (int i = 0; i < r.n_runs; i++) {
        free(r.runs[i].losses);
        free(r.runs[i].spans);
    }
    for (int i = 0; arguments[i]; i++) free(arguments[i]);
    for (int i = 1; command_words[i]; i++) free(command_words[i]);
    free(r.runs);
    ls_context_close(&r.ctx);
    return answer;
}

static int run(int argc, char **argv)
{
    ls__setting options[LS__MAX_SETTINGS + 1];
    make_options(options);
    cli_command command = command_repro;
    command.options = options;
    repro_values v = { .workers = NULL };
    cli_parsed parsed;
    axes a;
    const int ended = options_parse(&command, argc, argv, &v, &parsed);
    if (ended >= 0) return ended;
    if (!v.settings.data_dir) return fail_with(EXIT_USAGE, "--data-dir DIR is required");
    if (v.restarts >= v.settings.steps)
        return fail_with(EXIT_USAGE, "--restart %lld: expected less than --steps %lld",
                         (long long)v.restarts, (long long)v.settings.steps);
    if (resolve_run_settings(&parsed, &v.settings) != EXIT_DONE ||
        !read_axis("workers", v.workers, 0, 256, &a.workers) ||
        !read_axis("threads", v.threads, 1, 1024, &a.threads) ||
        !read_axis("ranks", v.ranks, 1, 64, &a.ranks))
        return EXIT_USAGE;
    for (int i = 0; i < a.ranks.n; i++)
        if (a.ranks.values[i] > v.settings.shards)
            return fail_with(EXIT_USAGE, "--ranks %s: %d ranks require --shards %d or more",
                             v.ranks, a.ranks.values[i], a.ranks.values[i]);
    if (count_combinations(&a) == 1 && v.restarts == 0)
        return fail_with(
            EXIT_USAGE,
            "--workers %s, --threads %s and --ranks %s give only one run; a comparison "
            "requires two: give more numbers, or --restart 1",
            v.workers, v.threads, v.ranks);
    return open_and_run(&parsed, &v, &a);
}

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
    .make_options = make_options,
    .run = run,
};
