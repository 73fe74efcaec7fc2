/* repro.c: 'lockstep repro': whether the numbers of workers, threads and restarts change a result.
 * Each combination is trained by processes of its own, one after the other. */
#include "repro.h"
#include "folders.h"
#include "run/run_folder.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct repro_values {
    recipe recipe; /* first: the options of `lockstep train` are at their offsets in it */
    const char *workers, *threads;
    int64_t restarts;
} repro_values;

/* ---- Options: those of the experiment, then those of `lockstep train` that it leaves free ---- */

#define AT(member) offsetof(repro_values, member)

static const cli_option own_options[] = {
    { OPTION_HEADING, .help = "Experiment:" },
    { OPTION_TEXT, 'j', "workers", AT(workers),
      "data-loader thread counts to compare, one run each", "N,N,...", .fallback = "0,1,2,4,8" },
    { OPTION_TEXT, 0, "threads", AT(threads),
      "CPU thread counts to compare, each with each of --workers", "N,N,...",
      .fallback = "1,2,3,4" },
    { OPTION_INTEGER, 0, "restart", AT(restarts),
      "also train each combination with N stops, resumed with other thread counts", "N", 0,
      REPRO_MAX_RESTARTS, .fallback = "0" },
    { OPTION_INTEGER, 0, "steps", AT(recipe.steps), "steps of each run", "N", 1, 1e6,
      .fallback = "60" },
    { OPTION_TEXT, 0, "out", AT(recipe.out), "new folder for the experiment", "DIR",
      .note = "repro, or repro-2, repro-3, ..." },
    { .kind = OPTION_END },
};
enum { N_OWN = sizeof(own_options) / sizeof(own_options[0]) - 1 };

/* What the experiment decides. */
static bool is_taken(const cli_option *option)
{
    static const char *const names[] = { "workers", "threads",  "steps", "stop-at",     "out",
                                         "resume",  "patience", "force", "inject-fault" };
    for (size_t i = 0; option->name && i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(option->name, names[i]) == 0) return true;
    return false;
}

static void make_options(cli_option out[MAX_OPTIONS + 1])
{
    int n = N_OWN;
    memcpy(out, own_options, N_OWN * sizeof(*out));
    for (const cli_option *o = recipe_options; o->kind != OPTION_END && n < MAX_OPTIONS; o++)
        if (!is_taken(o)) out[n++] = *o;
    out[n] = (cli_option){ .kind = OPTION_END };
}

/* ---- The arguments of the child processes: each option that was given ---- */

static char *option_word(const char *name, const json_t *value)
{
    enum { SIZE = 64 };
    const char *text = json_string_value(value);
    const size_t size = SIZE + (text ? strlen(text) : 0);
    char *out = malloc(size);
    if (!out) return NULL;
    if (text)
        snprintf(out, size, "--%s=%s", name, text);
    else if (json_is_integer(value))
        snprintf(out, size, "--%s=%lld", name, (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(out, size, "--%s=%.15g", name, json_real_value(value));
    else
        snprintf(out, size, "--%s", name);
    return out;
}

static bool make_arguments(const cli_verb *verb, const cli_parsed *parsed, const repro_values *v,
                           char *out[MAX_OPTIONS + 1])
{
    json_t *values = options_to_json(verb, v);
    bool good = values != NULL;
    int n = 0;
    for (int i = N_OWN; good && verb->options[i].kind != OPTION_END; i++) {
        const char *name = verb->options[i].name;
        if (!name || !parsed->given[i]) continue;
        out[n] = option_word(name, json_object_get(values, name));
        good = out[n++] != NULL;
    }
    json_decref(values);
    return good;
}

/* ---- The runs ---- */

typedef struct axis {
    int n, values[REPRO_MAX_AXIS];
} axis;

/* "0,1,2" */
static bool read_axis(const cli_verb *verb, const char *name, const char *text, int min, int max,
                      axis *out)
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
            return fail_with(verb, false,
                             "--%s: expected at most %d different integers from %d to %d, such as "
                             "0,1,2; got '%s'",
                             name, REPRO_MAX_AXIS, min, max, text);
        out->values[out->n++] = (int)value;
        at = end;
        if (!*end) return true;
    }
}

/* The step at which a run is stopped: a random one of each of `restarts` equal parts. */
static int64_t stop_step(const repro_values *v, int run, int part)
{
    uint32_t dice[4];
    ls_random_words(
        (uint64_t)v->recipe.seed,
        &(ls_draw){ .stream = LS_RANDOM_USER, .layer = (uint32_t)part, .sample = (uint64_t)run },
        dice);
    const int64_t last = v->recipe.steps - 1;
    const int64_t begin = part * last / v->restarts, end = (part + 1) * last / v->restarts;
    return begin + 1 + (int64_t)ls_random_below(dice[0], dice[1], (uint32_t)(end - begin));
}

/* Each number of workers with each number of threads; then the same with restarts, each of which
 * resumes with the next numbers of both. With --seeding worker the number of workers is part of the
 * identity, so it stays. */
static void plan_runs(const repro_values *v, const axis *workers, const axis *threads, repro *r)
{
    const bool may_change = v->recipe.seeding != LS_SEED_BY_WORKER;
    for (int restarted = 0; restarted <= (v->restarts > 0); restarted++)
        for (int w = 0; w < workers->n; w++)
            for (int t = 0; t < threads->n; t++) {
                repro_run *run = &r->runs[r->n_runs];
                run->n_legs = restarted ? (int)v->restarts + 1 : 1;
                for (int i = 0; i < run->n_legs; i++)
                    run->legs[i] = (repro_leg){
                        .workers = workers->values[(w + (may_change ? i : 0)) % workers->n],
                        .threads = threads->values[(t + i) % threads->n],
                        .stop_at = i + 1 < run->n_legs ? stop_step(v, r->n_runs, i) : 0
                    };
                const int n = snprintf(run->name, sizeof(run->name), "w%d-t%d", workers->values[w],
                                       threads->values[t]);
                if (restarted)
                    snprintf(run->name + n, sizeof(run->name) - (size_t)n, "-r%lld",
                             (long long)v->restarts);
                r->n_runs++;
            }
}

/* ---- Checks ---- */

/* Prints why and returns the answer when the recipe cannot be run so. */
static int check_data(const repro *r, const recipe *train)
{
    ls_dataset *data;
    const int answer = folders_open_train(r->verb, r->ctx, train->data_dir, &data);
    if (answer != EXIT_DONE) return answer == EXIT_RUNTIME ? EXIT_NO_VERDICT : answer;
    const int64_t per_epoch = ls_dataset_count(data) / train->batch;
    ls_dataset_close(&data);
    if (per_epoch == 0 || per_epoch * train->epochs >= r->steps) return EXIT_DONE;
    return fail_with(r->verb, EXIT_USAGE,
                     "--steps %lld: %lld epochs of these images have %lld steps: use --epochs %lld "
                     "or fewer steps",
                     (long long)r->steps, (long long)train->epochs,
                     (long long)(per_epoch * train->epochs),
                     (long long)((r->steps + per_epoch - 1) / per_epoch));
}

static bool choose_folder(const cli_verb *verb, const char *given, char out[RUN_DIR_SIZE])
{
    struct stat there;
    if (given && strlen(given) >= RUN_DIR_SIZE)
        return fail_with(verb, false, "the folder's name is too long");
    snprintf(out, RUN_DIR_SIZE, "%s", given ? given : "repro");
    for (int i = 2; !given && lstat(out, &there) == 0; i++)
        snprintf(out, RUN_DIR_SIZE, "repro-%d", i);
    if (!given || lstat(out, &there) != 0) return true;
    return fail_with(verb, false, "%s exists already; expected a new folder for --out", out);
}

/* ---- The experiment ---- */

static void print_running(const repro *r, int i)
{
    char legs[REPRO_LEGS_SIZE];
    if (!isatty(STDERR_FILENO)) return;
    repro_legs_text(&r->runs[i], legs);
    fputs("\r\033[K", stderr);
    print_text(stderr, "run %d of %d: %s", i + 1, r->n_runs, legs);
    fflush(stderr);
}

static int experiment(repro *r)
{
    repro_print_head(r);
    int answer = EXIT_DONE;
    for (int i = 0; i < r->n_runs && answer == EXIT_DONE; i++) {
        print_running(r, i);
        answer = repro_train(r, &r->runs[i]);
        if (isatty(STDERR_FILENO)) fputs("\r\033[K", stderr);
        if (answer == EXIT_SIGNAL + repro_signal() && repro_signal())
            print_message(r->verb, "signal %d: stopped in run %d of %d; %s keeps the others",
                          repro_signal(), i + 1, r->n_runs, r->out);
        if (answer == EXIT_DONE) answer = repro_read(r, i);
        if (answer == EXIT_DONE) repro_print_run(r, i);
    }
    if (answer == EXIT_DONE) answer = repro_write_csv(r);
    if (answer == EXIT_DONE) answer = repro_draw(r);
    if (answer != EXIT_DONE) return answer;
    repro_print_verdict(r);
    if (fflush(stdout) != 0 || ferror(stdout)) return EXIT_NO_VERDICT;
    return r->n_results == 1 ? EXIT_DONE : EXIT_DIFFERENT;
}

/* With --benchmark alone the first run times kernels, and the other runs use its kernels. */
static bool add_algorithm_cache(const recipe *train, const char *out, char **arguments)
{
    if (!train->benchmark || train->algorithm_cache) return true;
    char path[RUN_DIR_SIZE + 16];
    snprintf(path, sizeof(path), "%s/kernels.json", out);
    json_t *text = json_string(path);
    while (*arguments) arguments++;
    *arguments = text ? option_word("algorithm-cache", text) : NULL;
    json_decref(text);
    return *arguments != NULL;
}

static int open_and_run(const cli_verb *verb, const cli_parsed *parsed, const repro_values *v,
                        const axis *workers, const axis *threads)
{
    char dir[RUN_DIR_SIZE], *arguments[MAX_OPTIONS + 2] = { NULL };
    if (!choose_folder(verb, v->recipe.out, dir)) return EXIT_USAGE;
    repro r = { .verb = verb,
                .ctx = ls_context_open(&(ls_context_config){ .threads = 1, .log = print_log }),
                .out = dir,
                .steps = v->recipe.steps,
                .batch = v->recipe.batch,
                .arguments = arguments };
    int answer = EXIT_DONE;
    const size_t most = (size_t)(2 * workers->n * threads->n);
    r.runs = calloc(most, sizeof(*r.runs));
    if (!r.runs || !make_arguments(verb, parsed, v, arguments) ||
        !add_algorithm_cache(&v->recipe, dir, arguments))
        answer = print_error(verb, NULL, EXIT_NO_VERDICT);
    if (answer == EXIT_DONE) answer = check_data(&r, &v->recipe);
    if (answer == EXIT_DONE && ls__run_folder_create(r.ctx, dir) != LS_OK)
        answer = print_error(verb, r.ctx, EXIT_NO_VERDICT);
    if (answer == EXIT_DONE) {
        plan_runs(v, workers, threads, &r);
        repro_catch_signals();
        answer = experiment(&r);
    }
    for (int i = 0; i < r.n_runs; i++) {
        free(r.runs[i].losses);
        free(r.runs[i].spans);
    }
    for (int i = 0; arguments[i]; i++) free(arguments[i]);
    free(r.runs);
    ls_context_close(&r.ctx);
    return answer;
}

static int run(const cli_verb *plain_verb, int argc, char **argv)
{
    cli_option options[MAX_OPTIONS + 1];
    make_options(options);
    cli_verb verb = *plain_verb;
    verb.options = options;
    repro_values v = { .workers = NULL };
    cli_parsed parsed;
    axis workers, threads;
    const parse_result result = options_parse(&verb, argc, argv, &v, &parsed);
    if (result != PARSE_OK) return result == PARSE_HELP ? EXIT_DONE : EXIT_USAGE;
    if (!v.recipe.data_dir) return fail_with(&verb, EXIT_USAGE, "--data-dir DIR is required");
    if (v.restarts >= v.recipe.steps)
        return fail_with(&verb, EXIT_USAGE, "--restart %lld: expected less than --steps %lld",
                         (long long)v.restarts, (long long)v.recipe.steps);
    if (!recipe_resolve(&verb, &parsed, &v.recipe) ||
        !read_axis(&verb, "workers", v.workers, 0, 256, &workers) ||
        !read_axis(&verb, "threads", v.threads, 1, 1024, &threads))
        return EXIT_USAGE;
    if (workers.n * threads.n == 1 && v.restarts == 0)
        return fail_with(&verb, EXIT_USAGE,
                         "--workers %s and --threads %s make one run; at least two are needed to "
                         "compare: give more numbers, or --restart 1",
                         v.workers, v.threads);
    return open_and_run(&verb, &parsed, &v, &workers, &threads);
}

const cli_verb verb_repro = {
    .name = "repro",
    .summary = "train with different thread counts, and compare all bits",
    .arguments = "",
    .details = "The other options are those of 'lockstep train' and apply to all runs. DIR "
               "receives repro.csv (a line per run), losses.csv (a line per step), repro.svg and a "
               "folder and a log per run.\n"
               "Exit status: 0 all runs have the same bits, 1 they differ, anything else: no "
               "verdict (2 wrong command line, 3 unusable images, 4 the loss is not finite, 5 "
               "another failure, 128+n stopped by signal n).\n",
    .options = own_options,
    .run = run,
};
