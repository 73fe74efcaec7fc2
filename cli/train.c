/* train.c: 'lockstep train': opens a run and its folder, trains, and prints the results. */
#include "report.h"
#include "run/json.h"
#include "run/run_folder.h"
#include "run_files.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "best", or "last" where the best weights are lost. */
static const char *best_weights(const cli_run *t)
{
    char path[RUN_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/best.safetensors", t->dir);
    return !ls_trainer_where(t->trainer).best_is_lost && file_exists(path) ? "best" : "last";
}

static int fail_taken(const cli_verb *verb, const char *dir)
{
    return fail_with(verb, EXIT_USAGE,
                     "%s holds a run already: continue it with --resume %s, or give another --out",
                     dir, dir);
}

/* Makes and locks the folder of a run. A run without a step is replaced by the new run. */
static int take_folder(cli_run *t, bool resumed)
{
    const bool again = !resumed && ls__run_folder_holds_run(t->dir);
    ls_status status = resumed || again ? LS_OK : ls__run_folder_create(t->ctx, t->dir);
    if (status == LS_OK) status = ls__run_folder_lock(t->ctx, t->dir);
    if (status != LS_OK) return print_error(t->verb, t->ctx, EXIT_RUNTIME);
    if (!again) return EXIT_DONE;
    if (!run_has_no_step(t->dir)) return fail_taken(t->verb, t->dir);
    char path[RUN_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/config.json", t->dir);
    if (remove(path) == 0) return EXIT_DONE; /* from here on the folder holds no run */
    return fail_with(t->verb, EXIT_RUNTIME, "%s: %s", path, strerror(errno));
}

static ls_trainer *open_trainer(const cli_run *t, run_report *report)
{
    const recipe *r = t->recipe;
    const bool ends_earlier = r->stop_at > 0 && (r->steps == 0 || r->stop_at < r->steps);
    const ls_trainer_config config = { .epochs = r->epochs,
                                       .max_steps = ends_earlier ? r->stop_at : r->steps,
                                       .patience = r->patience,
                                       .validation = t->val,
                                       .dir = t->dir,
                                       .resume = r->resume != NULL,
                                       .force = r->resume && r->force,
                                       .checkpoint_every = r->checkpoint_every,
                                       .keep_checkpoints = r->keep_checkpoints,
                                       .model = &t->info,
                                       .stop = &caught_signal,
                                       .on_event = report_event,
                                       .user = report };
    return ls_trainer_open(t->net, t->optimizer, t->schedule, t->train, &config);
}

/* Makes the folder with its config, or continues from its last checkpoint. */
static int open_run(cli_run *t, json_t *stored, run_report *report)
{
    int answer = take_folder(t, stored != NULL);
    if (answer == EXIT_DONE && stored) answer = run_manifest_check(t);
    if (answer != EXIT_DONE) return answer;
    t->trainer = open_trainer(t, report);
    if (!t->trainer) return print_error(t->verb, t->ctx, EXIT_RUNTIME);
    ls_status status = run_manifest_begin(t); /* only after the trainer is open */
    /* The first checkpoint stores the kernel selections, so that a run that is killed before its
     * next checkpoint resumes with them. A forced resume changes the identity, so it is saved too.
     */
    const bool saves = !stored || json_array_size(t->forced) > 0;
    if (status == LS_OK && saves) status = ls_trainer_save(t->trainer);
    if (status == LS_OK && stored) status = run_config_change(t, stored);
    if (status == LS_OK && !stored)
        status = run_config_write(t); /* from here on the folder holds a run */
    return status == LS_OK ? EXIT_DONE : print_error(t->verb, t->ctx, EXIT_RUNTIME);
}

static void print_begin(const cli_run *t)
{
    const recipe *r = t->recipe;
    const ls_trainer_state at = ls_trainer_where(t->trainer);
    const int64_t n_train = ls_dataset_count(t->train_data), n_left = n_train % r->batch;
    field_line data = begin_fields(stdout);
    print_field(&data, "data    %s", r->data_dir);
    print_field(&data, "%lld training images", (long long)n_train);
    print_field(&data, "%lld validation images",
                (long long)(t->val ? ls_dataset_count(t->val_data) : 0));
    print_field(&data, "%d classes", ls_dataset_class_count(t->train_data));
    end_fields(&data);
    field_line model = begin_fields(stdout);
    print_field(&model, "model   %s", r->model);
    print_field(&model, "%lld parameters", (long long)ls_net_parameter_elements(t->net));
    print_field(&model, "images of %lldx%lld", (long long)r->image_size, (long long)r->image_size);
    print_field(&model, "batch size %lld", (long long)r->batch);
    if (n_left > 0) print_field(&model, "%lld images left over in each epoch", (long long)n_left);
    end_fields(&model);
    field_line loss = begin_fields(stdout);
    if (r->label_smoothing > 0) {
        print_field(&loss, "loss    cross-entropy with label smoothing %g", r->label_smoothing);
        if (t->val) print_field(&loss, "also in validation");
        print_field(&loss, "'lockstep eval' leaves it out");
        end_fields(&loss);
    }
    print_text(stdout, "device  %s\n", ls_context_device(t->ctx));
    print_text(stdout, "run     %s", t->dir);
    if (at.epoch >= r->epochs)
        print_text(stdout, ": all %lld epoch%s are done", (long long)r->epochs, plural(r->epochs));
    else if (at.epoch > 0 || at.step > 0)
        print_text(stdout, ", continued at epoch %lld, step %lld", (long long)at.epoch + 1,
                   (long long)at.step);
    print_text(stdout, "\n");
    fflush(stdout);
}

/* Prints commands that use the weights. */
static void print_next(const cli_run *t)
{
    static const char *const precisions[] = { NULL, "tf32", "bf16", "f16" };
    const char *precision = precisions[t->recipe->precision];
    char weights[RUN_PATH_SIZE];
    snprintf(weights, sizeof(weights), "%s/%s.safetensors", t->dir, best_weights(t));
    if (t->val)
        print_command(stdout, "next", "eval", "--checkpoint", weights, "--data-dir",
                      t->recipe->data_dir, "--per-class", precision ? "--precision" : NULL,
                      precision, NULL);
    print_command(stdout, "next", "predict", "--checkpoint", weights,
                  precision ? "--precision" : "IMAGE...", precision, "IMAGE...", NULL);
}

/* The last line: how long it took, what was reached, and where the weights are. */
static void print_result(const cli_run *t, double seconds)
{
    char time[DURATION_SIZE];
    const ls_trainer_state at = ls_trainer_where(t->trainer);
    field_line line = begin_fields(stdout);
    duration(seconds, time);
    print_field(&line, "%s %s", t->recipe->resume ? "time since resume" : "total time", time);
    if (at.best_epoch > 0)
        print_field(&line, "best %s top-1 %.4f (epoch %lld)", t->val ? "val" : "train", at.best,
                    (long long)at.best_epoch);
    print_field(&line, "weights %s/%s.safetensors", t->dir, best_weights(t));
    end_fields(&line);
}

static void print_stopped(const cli_run *t, const ls_trainer_state *at)
{
    print_message(t->verb, "signal %d: saved at epoch %lld, step %lld", (int)caught_signal,
                  (long long)at->epoch + 1, (long long)at->step);
    print_command(stderr, "to continue", "train", "--resume", t->dir, NULL);
}

static void print_halted(const cli_run *t, const ls_trainer_state *at)
{
    const bool is_all = t->recipe->steps == at->n_steps;
    if (at->averages.n_images > 0)
        print_text(stdout, "epoch %lld, up to step %lld: train loss %.4f top-1 %.4f\n",
                   (long long)at->epoch + 1, (long long)at->step, at->averages.loss,
                   at->averages.top1);
    print_text(stdout, "%s after %lld step%s, as asked\n", is_all ? "ended" : "stopped",
               (long long)at->n_steps, plural(at->n_steps));
    print_command(stdout, is_all ? "for more steps" : "to continue", "train", "--resume", t->dir,
                  is_all ? "--steps" : NULL, "N", NULL);
}

static void print_bad_data(const cli_run *t, const ls_trainer_state *at, int answer)
{
    const bool stops = answer == EXIT_DATA && t->recipe->on_bad_image == LS_BAD_IMAGE_FAIL;
    print_message(t->verb, "saved at epoch %lld, step %lld", (long long)at->epoch + 1,
                  (long long)at->step);
    print_command(stderr, stops ? "to continue without unreadable images" : "to continue", "train",
                  "--resume", t->dir, stops ? "--on-bad-image" : NULL, "skip", NULL);
}

static void print_done(const cli_run *t, const ls_trainer_state *at, bool is_stale)
{
    if (is_stale)
        print_text(stdout, "ended after epoch %lld: no better top-1 since epoch %lld\n",
                   (long long)at->epoch, (long long)at->best_epoch);
    print_next(t);
    if (!is_stale && recipe_can_be_lengthened(t->recipe))
        print_command(stdout, "for more epochs", "train", "--resume", t->dir, "--epochs", "N",
                      NULL);
}

/* Returns the command's answer. seconds: since the command began. */
static int print_end(const cli_run *t, ls_trainer_end end, int data_answer, double seconds)
{
    const ls_trainer_state at = ls_trainer_where(t->trainer);
    switch (end) {
    case LS_TRAINER_DONE:
    case LS_TRAINER_STALE:
        print_done(t, &at, end == LS_TRAINER_STALE);
        print_result(t, seconds);
        return EXIT_DONE;
    case LS_TRAINER_HALTED:
        print_halted(t, &at);
        print_result(t, seconds);
        return EXIT_DONE;
    case LS_TRAINER_STOPPED: print_stopped(t, &at); return EXIT_SIGNAL + caught_signal;
    case LS_TRAINER_DATA_ERROR: print_bad_data(t, &at, data_answer); return data_answer;
    case LS_TRAINER_NONFINITE: return EXIT_NONFINITE;
    case LS_TRAINER_ERROR: break;
    }
    return print_error(t->verb, t->ctx, EXIT_RUNTIME);
}

/* The steps that are left, for the progress's estimate of the time that they take. */
static void open_progress(const cli_run *t, progress *bar)
{
    const recipe *r = t->recipe;
    const ls_trainer_state at = ls_trainer_where(t->trainer);
    const int64_t steps = ls_loader_step_count(t->train);
    int64_t last = r->epochs * steps;
    if (r->steps > 0 && r->steps < last) last = r->steps;
    if (r->stop_at > 0 && r->stop_at < last) last = r->stop_at;
    const int64_t epochs_left = last / steps - at.epoch;
    progress_open(bar, last > at.n_steps ? last - at.n_steps : 0,
                  t->val && epochs_left > 0 ? epochs_left * ls_loader_step_count(t->val) : 0);
}

static int train_run(cli_run *t, run_report *report, double begun)
{
    enum { MOST_AFTER_ERROR = 5 }; /* bad images that are listed below the error of the run's end */
    ls_trainer_end end;
    open_progress(t, &report->progress);
    ls_trainer_run(t->trainer, &end);
    if (t->recipe->on_bad_image != LS_BAD_IMAGE_FAIL) {
        const int64_t most = end == LS_TRAINER_DATA_ERROR ? MOST_AFTER_ERROR : INT64_MAX;
        report_bad_images(t->train, t->train_data, most);
        if (t->val) report_bad_images(t->val, t->val_data, most);
    }
    if (end == LS_TRAINER_DATA_ERROR || end == LS_TRAINER_NONFINITE)
        ls_context_clear_error(t->ctx); /* the report has printed it */
    if (end != LS_TRAINER_ERROR && run_manifest_save(t) != LS_OK) end = LS_TRAINER_ERROR;
    return print_end(t, end, report->data_answer, clock_seconds() - begun);
}

static int train(cli_run *t, json_t *stored)
{
    const double begun = clock_seconds();
    char last[RUN_PATH_SIZE];
    snprintf(last, sizeof(last), "%s/last.safetensors", t->dir);
    if (stored && !file_exists(last))
        return fail_with(t->verb, EXIT_RUNTIME, "%s: no such file; a run resumes from it", last);
    if (stored)
        t->changed = options_changed(t->verb, json_object_get(stored, "options"), t->recipe);
    if (stored && !t->changed) return print_error(t->verb, NULL, EXIT_RUNTIME);
    int answer = cli_run_open(t, stored != NULL);
    run_report report = { .verb = t->verb,
                          .ctx = t->ctx,
                          .train_data = t->train_data,
                          .val_data = t->val_data,
                          .dir = t->dir,
                          .epochs = t->recipe->epochs };
    if (answer == EXIT_DONE) answer = open_run(t, stored, &report);
    if (answer == EXIT_DONE) {
        catch_signals();
        print_begin(t);
        if (!stored) advise(t);
        answer = train_run(t, &report, begun);
    }
    cli_run_close(t);
    return answer;
}

/* ---- The command line ---- */

/* "run", "run-2", ...: the first that a new run can have. */
static void free_name(char out[RUN_DIR_SIZE])
{
    char name[LS__FILE_NAME_SIZE];
    snprintf(out, RUN_DIR_SIZE, "run");
    for (int i = 2; file_exists(out) && (!is_folder(out) || ls__run_folder_holds_run(out) ||
                                         ls__run_folder_find_foreign(out, name));
         i++)
        snprintf(out, RUN_DIR_SIZE, "run-%d", i);
}

/* Whether a new run can have the folder; else prints why not. */
static bool may_take(const cli_verb *verb, const char *dir)
{
    char name[LS__FILE_NAME_SIZE];
    if (ls__run_folder_holds_run(dir)) {
        if (run_has_no_step(dir)) return true;
        fail_taken(verb, dir);
        return false;
    }
    if (file_exists(dir) && !is_folder(dir))
        return fail_with(verb, false, "--out %s: not a folder", dir);
    if (!ls__run_folder_find_foreign(dir, name)) return true;
    return fail_with(verb, false,
                     "--out %s: the folder is not empty and holds no run (found '%s'); expected a "
                     "new or empty folder",
                     dir, name);
}

/* With --seeding worker the number of workers is part of the identity, which --force does not
 * change. */
static bool keeps_workers(const cli_verb *verb, const json_t *stored, const recipe *r)
{
    const int64_t workers = ls__json_get_integer(stored, "workers");
    if (r->seeding != LS_SEED_BY_WORKER || r->workers == workers) return true;
    return fail_with(verb, false,
                     "--workers %lld: the run has %lld, and seeds by worker (--seeding worker): "
                     "with another number it would be another run; omit --workers to resume",
                     (long long)r->workers, (long long)workers);
}

/* A run with --device auto resumes on its first device, because another one would give other bits.
 * Returns the device's name; NULL if the run does not have --device auto. */
static const char *keep_device(json_t *stored, recipe *r)
{
    const char *taken = run_config_settle_device(stored);
    const char *own =
        json_string_value(json_object_get(json_object_get(stored, "options"), "device"));
    if ((taken && is_device_auto(r->device)) || (own && is_same_device(r->device, own)))
        r->device = own;
    return taken;
}

/* The options' values and the folder; with --resume also what the run stored. */
static int read_options(const cli_verb *verb, int argc, char **argv, recipe *r,
                        char dir[RUN_DIR_SIZE], json_t **stored)
{
    cli_parsed parsed;
    const parse_result result = options_parse(verb, argc, argv, r, &parsed);
    if (result != PARSE_OK) return result == PARSE_HELP ? -1 : EXIT_USAGE;
    const char *named = r->resume ? r->resume : r->out;
    if (r->resume && r->out)
        return fail_with(
            verb, EXIT_USAGE,
            "--out and --resume exclude each other: a resumed run stays in its folder");
    if (named && strlen(named) >= RUN_DIR_SIZE)
        return fail_with(verb, EXIT_USAGE, "the name of the run's folder is too long");
    if (named)
        snprintf(dir, RUN_DIR_SIZE, "%s", named);
    else
        free_name(dir);

    if (r->resume) {
        if (!ls__run_folder_holds_run(dir))
            return fail_with(
                verb, EXIT_RUNTIME, "%s%s: no run was begun there; --out %s begins one", dir,
                is_folder(dir) ? "/config.json: no such file" : ": no such folder", dir);
        char path[RUN_PATH_SIZE];
        *stored = run_config_read(verb, dir, path);
        if (!*stored) return EXIT_RUNTIME;
        const json_t *options = json_object_get(*stored, "options");
        const char *taken = keep_device(*stored, r);
        if (!options_resume(verb, options, path, r, &parsed) || !keeps_workers(verb, options, r) ||
            !recipe_may_continue(verb, options, r))
            return EXIT_USAGE;
        if (taken)
            print_message(verb, "%s resumes on %s, the device that --device auto took", dir, taken);
        /* these apply to one session only */
        if (!options_given(verb, &parsed, "stop-at")) r->stop_at = 0;
        if (!options_given(verb, &parsed, "force")) r->force = false;
        if (!options_given(verb, &parsed, "inject-fault")) r->fault = NULL;
        if (ls_model_find(r->model)) return EXIT_DONE;
        return fail_with(verb, EXIT_USAGE,
                         "%s: option 'model': expected one of " MODEL_NAMES ", got '%s'", path,
                         r->model);
    }
    if (!r->data_dir) return fail_with(verb, EXIT_USAGE, "--data-dir DIR is required");
    if (!may_take(verb, dir)) return EXIT_USAGE;
    return recipe_resolve(verb, &parsed, r) ? EXIT_DONE : EXIT_USAGE;
}

static int run(const cli_verb *verb, int argc, char **argv)
{
    recipe r = { 0 };
    char dir[RUN_DIR_SIZE];
    json_t *stored = NULL;
    int answer = read_options(verb, argc, argv, &r, dir, &stored);
    if (answer == EXIT_DONE) {
        cli_run t = { .verb = verb, .recipe = &r, .dir = dir };
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
        "RUN holds config.json, manifest.json (identity and sessions), metrics.jsonl, metrics.csv, "
        "run_log.txt (digests of each step), last.safetensors (the complete state, for --resume) "
        "and best.safetensors (the weights with the best validation top-1).\n"
        "--resume RUN may change --on-bad-image, and --epochs N lengthens the run where the "
        "schedule is constant, step, exponential or plateau.\n"
        "Exit status: 0 done, 1 failed, 2 wrong command line, 3 unusable images or data folder, 4 "
        "the loss is not finite, 128+n stopped by signal n after saving (SIGINT, SIGTERM, SIGHUP; "
        "SIGQUIT ends the process without saving).\n",
    .options = recipe_options,
    .run = run,
};
