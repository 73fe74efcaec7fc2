/* train.c: 'lockstep train': opens what a run is made of, and its folder. */
#include "folders.h"
#include "run/json.h"
#include "run/run_folder.h"
#include "trainer.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIR_SIZE = 4000, PATH_SIZE = DIR_SIZE + 64 };

static volatile sig_atomic_t caught_signal;

static void catch_signal(int number)
{
    caught_signal = number;
}

/* The first SIGINT or SIGTERM asks the loop to save and stop; a second one ends the process. */
static void catch_signals(void)
{
    struct sigaction action = { .sa_handler = catch_signal, .sa_flags = SA_RESETHAND | SA_RESTART };
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* ---- config.json ---- */

static json_t *class_list(const ls_dataset *dataset)
{
    json_t *list = json_array();
    for (int i = 0; i < ls_dataset_classes(dataset); i++)
        json_array_append_new(list, json_string(ls_dataset_class_name(dataset, i)));
    return list;
}

static json_t *describe_data(const trainer *t)
{
    return json_pack("{s:I, s:I, s:o}", "train_images", (json_int_t)ls_dataset_count(t->train_data),
                     "val_images", (json_int_t)(t->val ? ls_dataset_count(t->val_data) : 0),
                     "classes", class_list(t->train_data));
}

static ls_status write_config(const trainer *t)
{
    char path[PATH_SIZE];
    snprintf(path, sizeof(path), "%s/config.json", t->dir);
    json_t *config = json_pack("{s:s, s:o, s:o, s:s, s:I}", "lockstep", ls_version(), "options",
                               options_to_json(t->verb, t->recipe), "data", describe_data(t),
                               "device", ls_context_device(t->ctx), "parameters",
                               (json_int_t)ls_net_parameter_count(t->net));
    const ls_status status = ls__json_save(t->ctx, path, config);
    json_decref(config);
    return status;
}

/* The stored config of the run in `dir`; prints why when it cannot be had. */
static json_t *read_config(const cli_verb *verb, const char *dir, char path[PATH_SIZE])
{
    snprintf(path, PATH_SIZE, "%s/config.json", dir);
    json_error_t error;
    json_t *config = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (config && json_is_object(json_object_get(config, "options"))) return config;
    if (config)
        fprintf(stderr, "lockstep %s: %s: no options in it\n", verb->name, path);
    else
        fprintf(stderr, "lockstep %s: %s: line %d: %s\n", verb->name, path, error.line, error.text);
    json_decref(config);
    return NULL;
}

static bool same_data(const trainer *t, const json_t *config)
{
    json_t *now = describe_data(t);
    const bool same = json_equal(now, json_object_get(config, "data"));
    json_decref(now);
    if (!same)
        fprintf(stderr,
                "lockstep %s: %s: not the pictures that the run was begun with: their number or "
                "their classes differ (%s/config.json, 'data')\n",
                t->verb->name, t->recipe->data_dir, t->dir);
    return same;
}

/* ---- Opening ---- */

static int open_data(trainer *t, const char ***classes)
{
    const recipe *r = t->recipe;
    t->train_data = folders_open_train(t->verb, t->ctx, r->data_dir);
    if (!t->train_data) return EXIT_DATA;
    const int n_classes = ls_dataset_classes(t->train_data);
    *classes = calloc((size_t)n_classes, sizeof(**classes));
    if (!*classes) return print_error(t->verb, NULL, EXIT_RUNTIME);
    for (int i = 0; i < n_classes; i++) (*classes)[i] = ls_dataset_class_name(t->train_data, i);
    t->card.classes = *classes;
    t->card.options.n_classes = n_classes;
    if (!r->no_val) {
        t->val_data = folders_open_val(t->verb, t->ctx, r->data_dir, false, n_classes, *classes);
        if (!t->val_data) return EXIT_DATA;
    }

    if (ls_dataset_count(t->train_data) < r->batch) {
        fprintf(stderr,
                "lockstep %s: %s: %lld training pictures do not fill one batch of %lld: use -b "
                "%lld or less\n",
                t->verb->name, r->data_dir, (long long)ls_dataset_count(t->train_data),
                (long long)r->batch, (long long)ls_dataset_count(t->train_data));
        return EXIT_DATA;
    }
    const ls_loader_config train = recipe_train_loader(r), val = recipe_val_loader(r, &t->card);
    t->train = ls_loader_open(t->train_data, &train);
    if (t->val_data) t->val = ls_loader_open(t->val_data, &val);
    const bool good = t->train && (t->val || !t->val_data);
    return good ? EXIT_DONE : print_error(t->verb, t->ctx, EXIT_DATA);
}

/* Kernels that were chosen before: by the plan file, and by the run that goes on, which has the
 * last word. */
static int load_choices(trainer *t, bool resumed)
{
    const char *plan = t->recipe->plan;
    char last[PATH_SIZE];
    snprintf(last, sizeof(last), "%s/last.safetensors", t->dir);
    ls_status status = plan && file_exists(plan) ? ls_plan_load(t->ctx, plan) : LS_OK;
    if (status == LS_OK && resumed && file_exists(last))
        status = ls_checkpoint_load_plan(last, t->ctx);
    return status == LS_OK ? EXIT_DONE : print_error(t->verb, t->ctx, EXIT_RUNTIME);
}

static int save_choices(trainer *t)
{
    const char *plan = t->recipe->plan;
    const bool news = plan && ls_plan_timed(t->ctx) > 0;
    const bool good = !news || ls_plan_save(t->ctx, plan) == LS_OK;
    return good ? EXIT_DONE : print_error(t->verb, t->ctx, EXIT_RUNTIME);
}

static int open_net(trainer *t)
{
    const recipe *r = t->recipe;
    const ls_net_config config = { .input = ls_loader_spec(t->train),
                                   .loss = { LS_CROSS_ENTROPY,
                                             .label_smoothing = (float)r->label_smoothing } };
    t->net = ls_net_build(t->ctx, t->card.model->function, &t->card.options, &config);
    t->optimizer = recipe_open_optimizer(r, t->net);
    t->schedule = recipe_open_schedule(r, t->ctx, ls_loader_steps(t->train));
    const bool good = t->net && t->optimizer && t->schedule;
    return good ? EXIT_DONE : print_error(t->verb, t->ctx, EXIT_RUNTIME);
}

/* Makes the folder with its config, or continues from what it holds. */
static int open_run(trainer *t, const json_t *stored)
{
    char last[PATH_SIZE];
    snprintf(last, sizeof(last), "%s/last.safetensors", t->dir);
    if (stored && !same_data(t, stored)) return EXIT_DATA;
    if (stored && file_exists(last) && !trainer_resume(t)) return EXIT_RUNTIME;
    ls_status status = stored ? LS_OK : ls__run_folder_create(t->ctx, t->dir);
    if (status == LS_OK && !stored) status = write_config(t);
    if (status == LS_OK) status = ls__metrics_open(t->ctx, t->dir, t->epoch, &t->metrics);
    return status == LS_OK ? EXIT_DONE : print_error(t->verb, t->ctx, EXIT_RUNTIME);
}

static void tell_begin(const trainer *t)
{
    const recipe *r = t->recipe;
    printf("data    %s: %lld pictures to train on, %lld to validate, %d classes\n", r->data_dir,
           (long long)ls_dataset_count(t->train_data),
           (long long)(t->val ? ls_dataset_count(t->val_data) : 0),
           ls_dataset_classes(t->train_data));
    printf("model   %s, %lld parameters, pictures of %lldx%lld, batches of %lld\n", r->model,
           (long long)ls_net_parameter_count(t->net), (long long)r->image_size,
           (long long)r->image_size, (long long)r->batch);
    printf("device  %s\n", ls_context_device(t->ctx));
    printf("run     %s", t->dir);
    if (t->epoch > 0 || t->step > 0)
        printf(", continued at epoch %lld, step %lld", (long long)t->epoch + 1, (long long)t->step);
    printf("\n");
    fflush(stdout);
}

static void tell_end(const trainer *t, outcome end)
{
    if (end == OUTCOME_STOPPED)
        fprintf(stderr,
                "lockstep %s: signal %d: saved at epoch %lld, step %lld; 'lockstep train --resume "
                "%s' continues\n",
                t->verb->name, (int)caught_signal, (long long)t->epoch + 1, (long long)t->step,
                t->dir);
    if (end != OUTCOME_DONE) return;
    printf("best %s top-1 %.4f\n", t->val ? "validation" : "training", t->best);
    if (t->val)
        printf("next: lockstep eval --checkpoint %s/best.safetensors --data-dir %s --per-class\n",
               t->dir, t->recipe->data_dir);
    printf("next: lockstep predict --checkpoint %s/best.safetensors IMAGE...\n", t->dir);
}

static int train(trainer *t, const json_t *stored)
{
    const recipe *r = t->recipe;
    const char **classes = NULL;
    t->ctx = ls_context_open(
        &(ls_context_config){ .device = r->device,
                              .seed = (uint64_t)r->seed,
                              .threads = (int)r->threads,
                              .deterministic = (ls_deterministic)r->deterministic,
                              .benchmark = r->benchmark ? LS_BENCHMARK_ON : LS_BENCHMARK_OFF,
                              .log = print_log });
    int answer =
        ls_context_status(t->ctx) == LS_OK ? EXIT_DONE : print_error(t->verb, t->ctx, EXIT_RUNTIME);
    if (answer == EXIT_DONE) answer = open_data(t, &classes);
    if (answer == EXIT_DONE) answer = load_choices(t, stored != NULL);
    if (answer == EXIT_DONE) answer = open_net(t);
    if (answer == EXIT_DONE) answer = save_choices(t);
    if (answer == EXIT_DONE) answer = open_run(t, stored);
    if (answer == EXIT_DONE) {
        tell_begin(t);
        catch_signals();
        const outcome end = trainer_run(t);
        tell_end(t, end);
        answer = outcome_answer(t->verb, t->ctx, end, caught_signal);
    }
    ls__metrics_close(&t->metrics);
    ls_context_close(&t->ctx);
    free(classes);
    return answer;
}

/* ---- The command line ---- */

/* "run", "run-2", ...: the first that holds no run. */
static void free_name(char out[DIR_SIZE])
{
    snprintf(out, DIR_SIZE, "run");
    for (int i = 2; ls__run_folder_holds_run(out); i++) snprintf(out, DIR_SIZE, "run-%d", i);
}

/* The options' values and the folder; with --resume also what the run stored. */
static int read_options(const cli_verb *verb, int argc, char **argv, recipe *r, char dir[DIR_SIZE],
                        json_t **stored)
{
    cli_parsed parsed;
    const parse_result result = options_parse(verb, argc, argv, r, &parsed);
    if (result != PARSE_OK) return result == PARSE_HELP ? -1 : EXIT_USAGE;
    const char *named = r->resume ? r->resume : r->out;
    if (r->resume && r->out) {
        fprintf(stderr,
                "lockstep %s: --out and --resume exclude each other: a resumed run stays in its "
                "folder\n",
                verb->name);
        return EXIT_USAGE;
    }
    if (named && strlen(named) >= DIR_SIZE) {
        fprintf(stderr, "lockstep %s: the run's folder has too long a name\n", verb->name);
        return EXIT_USAGE;
    }
    if (named)
        snprintf(dir, DIR_SIZE, "%s", named);
    else
        free_name(dir);

    if (r->resume) {
        char path[PATH_SIZE];
        *stored = read_config(verb, dir, path);
        if (!*stored) return EXIT_RUNTIME;
        if (!options_resume(verb, json_object_get(*stored, "options"), path, r, &parsed))
            return EXIT_USAGE;
        return find_model(verb, r->model) ? EXIT_DONE : EXIT_USAGE;
    }
    if (!r->data_dir) {
        fprintf(stderr, "lockstep %s: --data-dir DIR is needed\n", verb->name);
        return EXIT_USAGE;
    }
    if (ls__run_folder_holds_run(dir)) {
        fprintf(stderr,
                "lockstep %s: %s holds a run already: continue it with --resume %s, or give "
                "another --out\n",
                verb->name, dir, dir);
        return EXIT_USAGE;
    }
    return recipe_resolve(verb, &parsed, r) ? EXIT_DONE : EXIT_USAGE;
}

static int run(const cli_verb *verb, int argc, char **argv)
{
    recipe r = { 0 };
    char dir[DIR_SIZE];
    json_t *stored = NULL;
    int answer = read_options(verb, argc, argv, &r, dir, &stored);
    if (answer == EXIT_DONE) {
        trainer t = { .verb = verb,
                      .recipe = &r,
                      .dir = dir,
                      .signal = &caught_signal,
                      .card = recipe_card(&r),
                      .best = -1 };
        answer = train(&t, stored);
    }
    json_decref(stored);
    return answer < 0 ? EXIT_DONE : answer;
}

const cli_verb verb_train = {
    .name = "train",
    .summary = "train a network on a folder of images",
    .arguments = "",
    .details =
        "RUN holds config.json, metrics.jsonl, metrics.csv, last.safetensors (everything, for\n"
        "--resume) and best.safetensors (the weights with the best validation top-1).\n"
        "Exit status: 0 done, 1 failed, 2 wrong command line, 3 unusable pictures, 4 the loss is "
        "not\n"
        "finite, 128+n stopped by signal n after saving.\n",
    .options = recipe_options,
    .run = run,
};
