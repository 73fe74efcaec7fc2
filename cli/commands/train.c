/* train.c: 'lockstep train': opens a run and its folder, trains, and prints the results. */
#include "terminal/events.h"
#include "runs/folders.h"
#include "runs/ranks.h"
#include "io/json.h"
#include "run/ranks.h"
#include "log/run_folder.h"
#include "runs/run_files.h"
#include "runs/session_log.h"
#include "runs/train_folder.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "best", or "last" where the best weights are lost. */
static const char *best_weights(const cli_run *t)
{
    char path[RUN_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/best.safetensors", t->dir);
    return !ls_trainer_get_state(t->trainer).best_is_lost && file_exists(path) ? "best" : "last";
}

static ls_trainer *open_trainer(const cli_run *t, run_report *report)
{
    const recipe *r = t->recipe;
    const bool ends_earlier = r->stop_at > 0 && (r->steps == 0 || r->stop_at < r->steps);
    const ls_trainer_config config = { .epochs = r->epochs,
                                       .max_steps = ends_earlier ? r->stop_at : r->steps,
                                       .metric = recipe_metric_name(r),
                                       .patience = r->patience,
                                       .validation = t->val,
                                       .dir = t->dir,
                                       .resume = r->resume != NULL,
                                       .force = r->resume && r->force,
                                       .checkpoint_every = r->checkpoint_every,
                                       .keep_checkpoints = r->keep_checkpoints,
                                       .no_report = r->no_report,
                                       .model = &t->info,
                                       .tensorboard = (ls_tensorboard)r->tensorboard,
                                       .log_every = r->log_every,
                                       .stop = &caught_signal,
                                       .on_event = report_event,
                                       .user = report };
    return ls_trainer_open(t->net, t->optimizer, t->schedule, t->train, &config);
}

/* Opens the trainer in the folder, which then contains the run. */
static int begin_run(cli_run *t, json_t *stored, run_report *report)
{
    t->trainer = open_trainer(t, report);
    if (!t->trainer) return print_error(t->ctx, EXIT_RUNTIME);
    ls_status status = run_manifest_begin(t); /* only after the trainer is open */
    /* The first checkpoint stores the kernel selections, so that a run that is killed before its
     * next checkpoint resumes with them. A forced resume changes the identity, so it is saved too.
     */
    const bool saves = !stored || json_array_size(t->forced) > 0;
    if (status == LS_OK && saves) status = ls_trainer_save(t->trainer);
    if (status == LS_OK && stored) status = run_config_change(t, stored);
    if (status == LS_OK && !stored)
        status = run_config_write(t); /* from here on the folder contains a run */
    return status == LS_OK ? EXIT_DONE : print_error(t->ctx, EXIT_RUNTIME);
}

/* Makes the folder with its config, or resumes from its last checkpoint. A start that fails leaves
 * no new folder, and changes no file of a run. */
static int open_run(cli_run *t, json_t *stored, char dir[RUN_DIR_SIZE], run_report *report)
{
    int all[LS__MAX_RANKS];
    bool made = false;
    /* Only if no rank has failed yet: it ends rank 0. */
    if (ls__ranks_gather(t->ctx, 0, all) != LS_OK) return print_error(t->ctx, EXIT_RUNTIME);
    int answer = train_folder_take(t, stored != NULL, dir, &made);
    if (answer == EXIT_DONE && stored) answer = run_manifest_check(t);
    if (answer == EXIT_DONE) answer = begin_run(t, stored, report);
    if (answer == EXIT_DONE && ls_context_rank(t->ctx) == 0) session_log_open(t->dir);
    if (answer != EXIT_DONE && made) ls__run_folder_remove(t->dir);
    return answer;
}

static int64_t count_frozen(const ls_net *net)
{
    int64_t n = 0;
    for (int64_t i = 0; i < ls_net_parameter_count(net); i++) {
        const ls_parameter_info parameter = ls_net_parameter_at(net, i);
        if (parameter.frozen) n += ls_tensor_element_count(parameter.value);
    }
    return n;
}

/* Where it is not the plain cross-entropy. */
static void print_loss(const cli_run *t)
{
    const recipe *r = t->recipe;
    if (r->loss != LOSS_CROSS_ENTROPY)
        print_text(stdout, "loss    %s\n",
                   r->loss == LOSS_BCE ? "binary cross-entropy" : "mean squared error");
    if (r->label_smoothing == 0 && !r->class_weights) return;
    field_line loss = begin_fields(stdout);
    if (r->label_smoothing > 0)
        print_field(&loss, "loss    cross-entropy with label smoothing %g", r->label_smoothing);
    else
        print_field(&loss, "loss    cross-entropy");
    if (r->class_weights) print_field(&loss, "balanced class weights");
    print_field(&loss, t->val ? "validation uses it, too; 'lockstep eval' does not"
                              : "'lockstep eval' does not use it");
    end_fields(&loss);
}

/* The file of --weights, and what was read and left out there. */
static void print_weights(const cli_run *t)
{
    field_line line = begin_fields(stdout);
    print_field(&line, "weights %s", t->recipe->weights);
    const char *key = ls_weight_report_key(t->weights);
    const char *prefix = ls_weight_report_prefix(t->weights);
    if (*key) print_field(&line, "key '%s'", key);
    if (*prefix) print_field(&line, "without the prefix '%s' of the names", prefix);
    if (ls_weight_report_classes_reordered(t->weights))
        print_field(&line, "last layer in the order of these classes");
    if (t->recipe->new_head) print_field(&line, "new last layer");
    end_fields(&line);
}

static void print_begin(const cli_run *t)
{
    if (print_is_quiet()) return;
    const recipe *r = t->recipe;
    const ls_trainer_state at = ls_trainer_get_state(t->trainer);
    const int64_t n_train = ls_dataset_sample_count(t->train_data), n_left = n_train % r->batch;
    field_line data = begin_fields(stdout);
    print_field(&data, "data    %s", r->data_dir);
    char train[FOLDER_NAME_SIZE];
    const bool is_usual = !folders_has_train(r->data_dir, train) || strcmp(train, "train") == 0 ||
                          strcmp(train, "train.csv") == 0;
    if (is_usual)
        print_field(&data, "%lld training images", (long long)n_train);
    else
        print_field(&data, "%lld training images in '%s'", (long long)n_train, train);
    const long long n_val = t->val ? ls_dataset_sample_count(t->val_data) : 0;
    char test[FOLDER_NAME_SIZE]; /* images for tests, which select the best weights here */
    const bool is_test = t->val && r->val_split == 0 && !folders_has_idx(r->data_dir) &&
                         !folders_has_val(r->data_dir, test) && folders_has_test(r->data_dir, test);
    if (is_test)
        print_field(&data, "%lld validation images in '%s'", n_val, test);
    else
        print_field(&data, "%lld validation images", n_val);
    if (r->loss == LOSS_CROSS_ENTROPY)
        print_field(&data, "%d classes", ls_dataset_class_count(t->train_data));
    else
        print_field(&data, "%d %s%s", ls_dataset_target_count(t->train_data),
                    r->loss == LOSS_BCE ? "label" : "target",
                    plural(ls_dataset_target_count(t->train_data)));
    if (r->sampler == LS_SAMPLER_BALANCED) print_field(&data, "drawn equally often");
    end_fields(&data);
    field_line model = begin_fields(stdout);
    print_field(&model, "model   %s", r->model);
    print_field(&model, "%lld parameters", (long long)ls_net_parameter_element_count(t->net));
    static const char *const modes[] = { "", ", padded", ", stretched" };
    print_field(&model, "images of %lldx%lld%s", (long long)r->image_size.height,
                (long long)r->image_size.width, modes[r->resize_mode]);
    print_field(&model, "batch size %lld", (long long)r->batch);
    if (r->shards > 1)
        print_field(&model, "in %lld shards%s", (long long)r->shards,
                    r->sync_batch_norm ? " with synchronised batch norms" : "");
    if (r->accumulate > 1)
        print_field(&model, "one update per %lld batches", (long long)r->accumulate);
    if (n_left > 0)
        print_field(&model, "last %lld images of each epoch dropped (incomplete batch)",
                    (long long)n_left);
    end_fields(&model);
    if (r->lr_per_256 > 0)
        print_text(stdout, "lr      %g (%g per 256 images)\n", r->lr, r->lr_per_256);
    print_loss(t);
    if (recipe_metric_name(r))
        print_text(stdout, "metric  %s; it decides which weights are the best\n",
                   recipe_metric_name(r));
    if (r->ema_decay > 0)
        print_text(stdout, "ema     decay %g; validation and the best weights use the averages\n",
                   r->ema_decay);
    if (recipe_mixes(r)) {
        field_line mixing = begin_fields(stdout);
        print_field(&mixing, "mixing  in training only");
        if (r->mixup_alpha > 0) print_field(&mixing, "mixup %g", r->mixup_alpha);
        if (r->cutmix_alpha > 0) print_field(&mixing, "cutmix %g", r->cutmix_alpha);
        print_field(&mixing, "train top-1 counts the class with the larger share of an image");
        end_fields(&mixing);
    }
    if (r->weights) print_weights(t);
    if (r->freeze)
        print_text(stdout, "frozen  %lld of the parameters\n", (long long)count_frozen(t->net));
    print_text(stdout, "device  %s\n", ls_context_device(t->ctx));
    const int n_ranks = ls_context_rank_count(t->ctx), n_machines = ls__ranks_machine_count(t->ctx);
    if (n_ranks > 1)
        print_text(stdout, "ranks   %d on %d machine%s\n", n_ranks, n_machines, plural(n_machines));
    print_text(stdout, "run     %s", t->dir);
    if (at.epoch >= r->epochs)
        print_text(stdout, ": all %lld epoch%s are done", (long long)r->epochs, plural(r->epochs));
    else if (at.epoch > 0 || at.step > 0)
        print_text(stdout, ", resumed at epoch %lld, step %lld", (long long)at.epoch + 1,
                   (long long)at.step);
    print_text(stdout, "\n");
    fflush(stdout);
}

/* The metric's name in texts. */
static const char *metric_text(const cli_run *t)
{
    const cli_metric metric = recipe_metric(t->recipe);
    return metric == METRIC_TOP1 ? "top-1" : metric_name(metric);
}

/* The last line: how long it took, what was reached, and where the weights are. */
static void print_result(const cli_run *t, double seconds)
{
    char time[DURATION_SIZE], best[LOSS_SIZE];
    const ls_trainer_state at = ls_trainer_get_state(t->trainer);
    field_line line = begin_fields(stdout);
    duration(seconds, time);
    print_field(&line, "%s %s", t->recipe->resume ? "time since resume" : "total time", time);
    const bool by_loss = t->recipe->loss != LOSS_CROSS_ENTROPY;
    if (at.best_epoch > 0)
        print_field(&line, "best %s %s %s (epoch %lld)", t->val ? "val" : "train", metric_text(t),
                    loss_text(at.best, by_loss, best), (long long)at.best_epoch);
    print_field(&line, "weights %s/%s.safetensors", t->dir, best_weights(t));
    end_fields(&line);
}

/* After --steps or --stop-at. */
static void print_halted(const cli_run *t, const ls_trainer_state *at)
{
    const bool is_all = t->recipe->steps == at->n_steps;
    const bool by_loss = t->recipe->loss != LOSS_CROSS_ENTROPY;
    char loss[LOSS_SIZE];
    if (print_is_quiet()) return;
    if (at->averages.n_images > 0) {
        print_text(stdout, "epoch %lld, up to step %lld: train loss %s", (long long)at->epoch + 1,
                   (long long)at->step, loss_text(at->averages.loss, by_loss, loss));
        if (!by_loss) print_text(stdout, " top-1 %.4f", at->averages.top1);
        print_text(stdout, "\n");
    }
    print_text(stdout, "%s after %lld step%s (%s)\n", is_all ? "ended" : "stopped",
               (long long)at->n_steps, plural(at->n_steps), is_all ? "--steps" : "--stop-at");
    print_command(stdout, is_all ? "for more steps" : "to continue", "train", "--resume", t->dir,
                  is_all ? "--steps" : NULL, "N", NULL);
}

/* The command that evaluates the weights on the same images. */
static void print_eval(const cli_run *t, const char *weights, const char *precision)
{
    enum { MAX_WORDS = 24 };
    const recipe *r = t->recipe;
    const char *words[MAX_WORDS] = { "eval", "--checkpoint", weights, "--data-dir", r->data_dir };
    const ls_tensor_file *file = ls_tensor_file_open(t->ctx, weights);
    /* Weights that a version before saved do not have it. */
    const bool stores_opening = file && ls_tensor_file_metadata(file, "opened_by");
    ls_context_clear_error(t->ctx);
    int n = 5;
    const struct {
        const char *option, *value;
    } all[] = { { "--csv-columns", stores_opening ? NULL : r->data.csv_columns },
                { "--image-root", r->data.image_root },
                { "--label-pattern", stores_opening ? NULL : r->data.label_pattern },
                { "--group-column", stores_opening ? NULL : r->data.group_column },
                { "--on-bad-image", r->on_bad_image != LS_BAD_IMAGE_FAIL ? "skip" : NULL },
                { "--precision", precision } };
    words[n++] = "--per-class";
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (!all[i].value) continue;
        words[n++] = all[i].option;
        words[n++] = all[i].value;
    }
    print_command_words(stdout, "next", words);
}

/* With commands that use the weights. */
static void print_done(const cli_run *t, const ls_trainer_state *at, bool is_early_stop)
{
    static const char *const precisions[] = { NULL, "tf32", "bf16", "f16" };
    const char *precision = precisions[t->recipe->precision];
    char weights[RUN_PATH_SIZE];
    if (print_is_quiet()) return;
    if (is_early_stop)
        print_text(stdout, "ended after epoch %lld: no better %s since epoch %lld\n",
                   (long long)at->epoch, metric_text(t), (long long)at->best_epoch);
    snprintf(weights, sizeof(weights), "%s/%s.safetensors", t->dir, best_weights(t));
    if (t->val) print_eval(t, weights, precision);
    print_command(stdout, "next", "predict", "--checkpoint", weights,
                  precision ? "--precision" : "IMAGE...", precision, "IMAGE...", NULL);
    if (!is_early_stop && recipe_can_be_extended(t->recipe))
        print_command(stdout, "for more epochs", "train", "--resume", t->dir, "--epochs", "N",
                      NULL);
}

/* Returns the exit status. seconds: since the command started. */
static int print_end(const cli_run *t, ls_trainer_end end, int data_answer, double seconds)
{
    const ls_trainer_state at = ls_trainer_get_state(t->trainer);
    const long long epoch = at.epoch + 1, step = at.step;
    const bool bad_image = data_answer == EXIT_DATA && t->recipe->on_bad_image == LS_BAD_IMAGE_FAIL;
    switch (end) {
    case LS_TRAINER_DONE:
    case LS_TRAINER_EARLY_STOP:
        print_done(t, &at, end == LS_TRAINER_EARLY_STOP);
        print_result(t, seconds);
        return EXIT_DONE;
    case LS_TRAINER_MAX_STEPS:
        print_halted(t, &at);
        print_result(t, seconds);
        return EXIT_DONE;
    case LS_TRAINER_INTERRUPTED:
        print_message("signal %d: saved at epoch %lld, step %lld", (int)caught_signal, epoch, step);
        print_command(stderr, "to continue", "train", "--resume", t->dir, NULL);
        return EXIT_SIGNAL + caught_signal;
    case LS_TRAINER_DATA_ERROR:
        print_message("saved at epoch %lld, step %lld", epoch, step);
        print_command(stderr, bad_image ? "to continue without unreadable images" : "to continue",
                      "train", "--resume", t->dir, bad_image ? "--on-bad-image" : NULL, "skip",
                      NULL);
        return data_answer;
    case LS_TRAINER_NONFINITE: return EXIT_NONFINITE;
    case LS_TRAINER_ERROR: break;
    }
    return print_error(t->ctx, EXIT_RUNTIME);
}

/* The steps that are left, for the progress's estimate of the time that they take. */
static void open_progress(const cli_run *t, progress *bar)
{
    const recipe *r = t->recipe;
    const ls_trainer_state at = ls_trainer_get_state(t->trainer);
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
    const int64_t n_steps = ls_trainer_get_state(t->trainer).n_steps;
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
    t->ends_together = end != LS_TRAINER_ERROR;
    const bool is_complete =
        end == LS_TRAINER_DONE || end == LS_TRAINER_EARLY_STOP || end == LS_TRAINER_MAX_STEPS;
    if (is_complete && ls_trainer_get_state(t->trainer).n_steps == n_steps && !print_is_quiet())
        print_text(stdout, "%s was complete already: nothing was trained\n", t->dir);
    ranks_end(t->ctx, t->ends_together);
    const int answer = print_end(t, end, report->data_answer, clock_seconds() - begun);
    if (t->ends_together) ranks_wait(t->ctx);
    return answer;
}

static int train(cli_run *t, json_t *stored, char dir[RUN_DIR_SIZE])
{
    const double begun = clock_seconds();
    char last[RUN_PATH_SIZE];
    snprintf(last, sizeof(last), "%s/last.safetensors", t->dir);
    if (stored && !file_exists(last))
        return fail_with(EXIT_RUNTIME, "%s: no such file; it is required for --resume", last);
    if (stored)
        t->changed = options_changed(recipe_options, json_object_get(stored, "options"), t->recipe);
    if (stored && !t->changed) return print_error(NULL, EXIT_RUNTIME);
    int answer = cli_run_open(t, stored != NULL);
    run_report report = { .ctx = t->ctx,
                          .train_data = t->train_data,
                          .val_data = t->val_data,
                          .dir = t->dir,
                          .epochs = t->recipe->epochs };
    if (answer == EXIT_DONE) answer = open_run(t, stored, dir, &report);
    if (answer == EXIT_DONE) {
        catch_signals();
        print_begin(t);
        if (!stored) advise(t);
        answer = train_run(t, &report, begun);
    }
    if (answer != EXIT_DONE && !t->ends_together) ls__ranks_abort(t->ctx, answer);
    cli_run_close(t);
    return answer;
}

/* ---- The command line ---- */

/* With --seeding worker the number of workers is part of the identity, which --force does not
 * change. */
static bool keeps_workers(const json_t *stored, const recipe *r)
{
    const int64_t workers = ls__json_get_integer(stored, "workers");
    if (r->seeding != LS_SEED_BY_WORKER || r->workers == workers) return true;
    return fail_with(false,
                     "--workers %lld: the run has %lld workers, and with --seeding worker its "
                     "result depends on that number; omit --workers",
                     (long long)r->workers, (long long)workers);
}

/* A run with --device auto resumes on its first device, because another device gives bitwise
 * different results. Returns the device's name; NULL if the run does not have --device auto. */
static const char *keep_device(json_t *stored, recipe *r)
{
    const char *taken = run_config_settle_device(stored);
    const char *own =
        json_string_value(json_object_get(json_object_get(stored, "options"), "device"));
    if ((taken && is_device_auto(r->device)) || (own && is_same_device(r->device, own)))
        r->device = own;
    return taken;
}

static int fail_no_run(const char *dir)
{
    char path[RUN_PATH_SIZE];
    if (ls__run_folder_is_of_program(dir))
        return fail_with(EXIT_RUNTIME,
                         "%s: a run of another program, whose net this command can't build; that "
                         "program can resume it",
                         dir);
    snprintf(path, sizeof(path), "%s/config.json", dir);
    if (!file_exists(path) && errno != ENOENT && errno != ENOTDIR)
        return fail_with(EXIT_RUNTIME, "%s: %s", path, strerror(errno));
    const char *what = is_folder(dir) ? "/config.json: no such file" : ": no such folder";
    if (!ranks_is_first())
        return fail_with(EXIT_RUNTIME, "%s%s; all ranks read the run's folder", dir, what);
    return fail_with(EXIT_RUNTIME, "%s%s; --out %s starts a run there", dir, what, dir);
}

/* The options' values and the folder; with --resume also what the run stored, else what
 * options_computed gives. */
static int read_options(int argc, char **argv, recipe *r, char dir[RUN_DIR_SIZE], json_t **stored,
                        json_t **computed)
{
    cli_parsed parsed;
    const int ended = options_parse(&command_train, argc, argv, r, &parsed);
    if (ended >= 0) return ended == EXIT_DONE ? -1 : ended;
    if (r->resume && parsed.from_run)
        return fail_with(EXIT_USAGE,
                         "--resume uses the options of its run: omit the config.json of --config");
    const char *named = r->resume ? r->resume : r->out;
    if (r->resume && r->out)
        return fail_with(
            EXIT_USAGE, "--out and --resume exclude each other: a resumed run stays in its folder");
    if (named && strlen(named) >= RUN_DIR_SIZE)
        return fail_with(EXIT_USAGE, "the name of the run's folder is too long");
    snprintf(dir, RUN_DIR_SIZE, "%s", named ? named : ""); /* "": a new name, when it is made */

    if (r->resume) {
        char *slash = is_file(dir) ? strrchr(dir, '/') : NULL;
        if (slash) *slash = '\0'; /* of a checkpoint in the folder */
        if (!ls__run_folder_holds_run(dir)) return fail_no_run(dir);
        char path[RUN_PATH_SIZE];
        *stored = run_config_read(dir, path);
        if (!*stored) return EXIT_RUNTIME;
        const json_t *options = json_object_get(*stored, "options");
        const char *taken = keep_device(*stored, r);
        if (!options_resume(&parsed, options, path, r) || !keeps_workers(options, r) ||
            !recipe_may_resume(options, r, dir) ||
            !ranks_check_run(r->shards, true, r->seeding == LS_SEED_BY_WORKER))
            return EXIT_USAGE;
        if (taken)
            print_note("%s resumes on %s, the device that --device auto selected", dir, taken);
        const ls_model *model = ls_model_find(r->model);
        if (!model) {
            char models[OPTION_TEXT_SIZE];
            list_models(models, sizeof(models));
            return fail_with(EXIT_USAGE, "%s: option 'model': expected one of %s, got '%s'", path,
                             models, r->model);
        }
        /* The run of a version without the option has the model's, and ignores alpha. */
        if (!json_object_get(options, "dropout")) r->dropout = fmax(model->dropout, 0);
        if (!json_object_get(options, "alpha")) r->alpha = LS_ALPHA_IGNORE;
        return EXIT_DONE;
    }
    if (!r->data_dir) return fail_with(EXIT_USAGE, "--data-dir DIR is required");
    if (r->out && ranks_is_first() && !train_folder_may_take(dir)) return EXIT_USAGE;
    if (!recipe_resolve(&parsed, r)) {
        if (parsed.from_run)
            print_message("options that the command line does not have are those of %s",
                          parsed.config);
        return EXIT_USAGE;
    }
    *computed = options_computed(&parsed);
    if (!*computed) return print_error(NULL, EXIT_RUNTIME);
    return ranks_check_run(r->shards, false, r->seeding == LS_SEED_BY_WORKER) ? EXIT_DONE
                                                                              : EXIT_USAGE;
}

static int run(int argc, char **argv)
{
    recipe r = { 0 };
    char dir[RUN_DIR_SIZE];
    ranks_begin();
    if (ranks_is_first()) session_log_begin(argc, argv);
    json_t *stored = NULL, *computed = NULL;
    int answer = read_options(argc, argv, &r, dir, &stored, &computed);
    if (answer == EXIT_DONE) {
        cli_run t = { .recipe = &r, .dir = dir, .has_ranks = true, .computed = computed };
        answer = train(&t, stored, dir);
    }
    json_decref(computed);
    json_decref(stored);
    session_log_close();
    return answer < 0 ? EXIT_DONE : answer;
}

const cli_command command_train = {
    .name = "train",
    .summary = "train a network on images",
    .arguments = "",
    .details =
        "RUN contains config.json, manifest.json (identity and sessions), metrics.jsonl, "
        "metrics.csv, events.out.tfevents.* (for TensorBoard), run_log.txt (digests of each step), "
        "report.html (with evaluation.json, the results of the last validation, "
        "first_batch.jpg and first_batch.json), log.txt (command lines and messages with their "
        "times), last.safetensors (the complete state, for --resume) "
        "and best.safetensors (the weights with the best validation --metric; of equal values "
        "those "
        "with the lower loss).\n"
        "With --resume RUN, only these options may differ from the run's: --data-dir, "
        "--image-root, --workers, --threads, --rank-timeout, --partition-optimizer, --audit-every, "
        "--steps, --stop-at, "
        "--checkpoint-every, "
        "--keep-checkpoints, --no-report, --tensorboard, --log-every, --nvtx, --force, "
        "--inject-fault, --on-bad-image and --epochs. --epochs N extends the run if the schedule "
        "is constant, step, multistep, exponential, plateau or cosine-restarts.\n"
        "--weights, --new-head and --freeze are for fine-tuning: see docs/fine-tuning.md.\n"
        "Exit status: 0 done, 1 failed, 2 wrong command line, 3 unreadable images or an unusable "
        "data folder, 4 the loss is not finite, 128+n stopped by signal n after saving (SIGINT, "
        "SIGTERM, SIGHUP; SIGQUIT ends the process without saving).",
    .options = recipe_options,
    .run_options = recipe_options,
    .run = run,
};
