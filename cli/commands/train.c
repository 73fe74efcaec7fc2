/* train.c: 'lockstep train': opens a run and its folder, trains, and prints the results. */
#include "terminal/events.h"
#include "log/run_folder.h"
#include "run/folders.h"
#include "run/folders_idx.h"
#include "run/ranks.h"
#include "run/run_files.h"
#include "run/advice.h"
#include "runs/open_run.h"
#include "runs/ranks.h"
#include "runs/session_log.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "best", or "last" where the best weights are lost. */
static const char *best_weights(const ls_run *t)
{
    char path[LS__RUN_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/best.safetensors", t->dir);
    return !ls_trainer_get_state(t->trainer).best_is_lost && ls__path_exists(path) ? "best"
                                                                                   : "last";
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
static void print_loss(const ls_run *t)
{
    const ls__run_settings *r = t->settings;
    if (r->loss != LS__LOSS_CROSS_ENTROPY)
        print_text(stdout, "loss    %s\n",
                   r->loss == LS__LOSS_BCE ? "binary cross-entropy" : "mean squared error");
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
static void print_weights(const ls_run *t)
{
    field_line line = begin_fields(stdout);
    print_field(&line, "weights %s", t->settings->weights);
    const char *key = ls_weight_report_key(t->weights);
    const char *prefix = ls_weight_report_prefix(t->weights);
    if (*key) print_field(&line, "key '%s'", key);
    if (*prefix) print_field(&line, "without the prefix '%s' of the names", prefix);
    if (ls_weight_report_classes_reordered(t->weights))
        print_field(&line, "last layer in the order of these classes");
    if (t->settings->new_head) print_field(&line, "new last layer");
    end_fields(&line);
}

/* Whether the validation images are in a folder or list with an unusual name, such as images for
 * tests, which select the best weights here. */
static bool has_unusual_validation(const ls_run *t, char name[LS__FOLDER_NAME_SIZE])
{
    static const char *const usual[] = { "val", "valid", "validation", "val.csv" };
    const ls__run_settings *r = t->settings;
    if (!t->val || r->val_split > 0 || ls__folders_has_idx(r->data_dir)) return false;
    if (!ls__folders_has_val(r->data_dir, name)) return ls__folders_has_test(r->data_dir, name);
    for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
        if (strcmp(name, usual[i]) == 0) return false;
    return true;
}

static void print_begin(const ls_run *t)
{
    if (print_is_quiet()) return;
    const ls__run_settings *r = t->settings;
    const ls_trainer_state at = ls_trainer_get_state(t->trainer);
    const int64_t n_train = ls_dataset_sample_count(t->train_data), n_left = n_train % r->batch;
    field_line data = begin_fields(stdout);
    print_field(&data, "data    %s", r->data_dir);
    char train[LS__FOLDER_NAME_SIZE];
    const bool is_usual = !ls__folders_has_train(r->data_dir, train) ||
                          strcmp(train, "train") == 0 || strcmp(train, "train.csv") == 0;
    if (is_usual)
        print_field(&data, "%lld training images", (long long)n_train);
    else
        print_field(&data, "%lld training images in '%s'", (long long)n_train, train);
    const long long n_val = t->val ? ls_dataset_sample_count(t->val_data) : 0;
    char val[LS__FOLDER_NAME_SIZE];
    if (has_unusual_validation(t, val))
        print_field(&data, "%lld validation images in '%s'", n_val, val);
    else
        print_field(&data, "%lld validation images", n_val);
    if (r->loss == LS__LOSS_CROSS_ENTROPY)
        print_field(&data, "%d classes", ls_dataset_class_count(t->train_data));
    else
        print_field(&data, "%d %s%s", ls_dataset_target_count(t->train_data),
                    r->loss == LS__LOSS_BCE ? "label" : "target",
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
    if (ls__run_chosen_metric(r))
        print_text(stdout, "metric  %s; it decides which weights are the best\n",
                   ls__run_chosen_metric(r));
    if (r->ema_decay > 0)
        print_text(stdout, "ema     decay %g; validation and the best weights use the averages\n",
                   r->ema_decay);
    if (ls__run_mixes(r)) {
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
static const char *metric_text(const ls_run *t)
{
    const ls__run_metric_kind metric = ls__run_metric(t->settings);
    return metric == LS__METRIC_TOP1 ? "top-1" : ls__run_metric_name(metric);
}

/* The last line: how long it took, what was reached, and where the weights are. */
static void print_result(const ls_run *t, double seconds)
{
    char time[DURATION_SIZE], best[LOSS_SIZE];
    const ls_trainer_state at = ls_trainer_get_state(t->trainer);
    field_line line = begin_fields(stdout);
    duration(seconds, time);
    print_field(&line, "%s %s", t->settings->resume ? "time since resume" : "total time", time);
    const bool by_loss = t->settings->loss != LS__LOSS_CROSS_ENTROPY;
    if (at.best_epoch > 0)
        print_field(&line, "best %s %s %s (epoch %lld)", t->val ? "val" : "train", metric_text(t),
                    loss_text(at.best, by_loss, best), (long long)at.best_epoch);
    print_field(&line, "weights %s/%s.safetensors", t->dir, best_weights(t));
    end_fields(&line);
}

/* After --steps or --stop-at. */
static void print_halted(const ls_run *t, const ls_trainer_state *at)
{
    const bool is_all = t->settings->steps == at->n_steps;
    const bool by_loss = t->settings->loss != LS__LOSS_CROSS_ENTROPY;
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
static void print_eval(const ls_run *t, const char *weights, const char *precision)
{
    enum { MAX_WORDS = 24 };
    const ls__run_settings *r = t->settings;
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
static void print_done(const ls_run *t, const ls_trainer_state *at, bool is_early_stop)
{
    static const char *const precisions[] = { NULL, "tf32", "bf16", "f16" };
    const char *precision = precisions[t->settings->precision];
    char weights[LS__RUN_PATH_SIZE];
    if (print_is_quiet()) return;
    if (is_early_stop)
        print_text(stdout, "ended after epoch %lld: no better %s since epoch %lld\n",
                   (long long)at->epoch, metric_text(t), (long long)at->best_epoch);
    snprintf(weights, sizeof(weights), "%s/%s.safetensors", t->dir, best_weights(t));
    if (t->val) print_eval(t, weights, precision);
    print_command(stdout, "next", "predict", "--checkpoint", weights,
                  precision ? "--precision" : "IMAGE...", precision, "IMAGE...", NULL);
    if (!is_early_stop && ls__run_can_be_extended(t->settings))
        print_command(stdout, "for more epochs", "train", "--resume", t->dir, "--epochs", "N",
                      NULL);
}

/* Returns the exit status. seconds: since the command started. */
static int print_end(const ls_run *t, ls_trainer_end end, int data_answer, double seconds)
{
    const ls_trainer_state at = ls_trainer_get_state(t->trainer);
    const long long epoch = at.epoch + 1, step = at.step;
    const bool bad_image =
        data_answer == EXIT_DATA && t->settings->on_bad_image == LS_BAD_IMAGE_FAIL;
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
static void open_progress(const ls_run *t, progress *bar)
{
    const ls__run_settings *r = t->settings;
    const ls_trainer_state at = ls_trainer_get_state(t->trainer);
    const int64_t steps = ls_loader_step_count(t->train);
    int64_t last = r->epochs * steps;
    if (r->steps > 0 && r->steps < last) last = r->steps;
    if (r->stop_at > 0 && r->stop_at < last) last = r->stop_at;
    const int64_t epochs_left = last / steps - at.epoch;
    progress_open(bar, last > at.n_steps ? last - at.n_steps : 0,
                  t->val && epochs_left > 0 ? epochs_left * ls_loader_step_count(t->val) : 0);
}

/* ends_together: the ranks end alike, with the same exit status. */
static int train_run(ls_run *t, run_report *report, double begun, bool *ends_together)
{
    enum { MOST_AFTER_ERROR = 5 }; /* bad images that are listed below the error of the run's end */
    ls_trainer_end end;
    const int64_t n_steps = ls_trainer_get_state(t->trainer).n_steps;
    open_progress(t, &report->progress);
    ls_trainer_run(t->trainer, &end);
    if (t->settings->on_bad_image != LS_BAD_IMAGE_FAIL) {
        const int64_t most = end == LS_TRAINER_DATA_ERROR ? MOST_AFTER_ERROR : INT64_MAX;
        report_bad_images(t->train, t->train_data, most);
        if (t->val) report_bad_images(t->val, t->val_data, most);
    }
    if (end == LS_TRAINER_DATA_ERROR || end == LS_TRAINER_NONFINITE)
        ls_context_clear_error(t->ctx); /* the report has printed it */
    if (end != LS_TRAINER_ERROR && ls__run_manifest_save(t) != LS_OK) end = LS_TRAINER_ERROR;
    *ends_together = end != LS_TRAINER_ERROR;
    const bool is_complete =
        end == LS_TRAINER_DONE || end == LS_TRAINER_EARLY_STOP || end == LS_TRAINER_MAX_STEPS;
    if (is_complete && ls_trainer_get_state(t->trainer).n_steps == n_steps && !print_is_quiet())
        print_text(stdout, "%s was complete already: nothing was trained\n", t->dir);
    ranks_end(t->ctx, *ends_together);
    const int answer = print_end(t, end, report->data_answer, clock_seconds() - begun);
    if (*ends_together) ranks_wait(t->ctx);
    return answer;
}

static int train(ls_run *t)
{
    const double begun = clock_seconds();
    const bool resumed = t->stored != NULL;
    char last[LS__RUN_PATH_SIZE];
    bool ends_together = false;
    snprintf(last, sizeof(last), "%s/last.safetensors", t->dir);
    if (resumed && !ls__path_exists(last))
        return fail_with(EXIT_RUNTIME, "%s: no such file; it is required for --resume", last);
    int exit_status = open_run(t, resumed, true);
    run_report report = { .ctx = t->ctx,
                          .train_data = t->train_data,
                          .val_data = t->val_data,
                          .dir = t->dir,
                          .epochs = t->settings->epochs };
    t->stop = &caught_signal;
    t->on_event = report_event;
    t->user = &report;
    if (exit_status == EXIT_DONE && ls__run_start(t) != LS_OK)
        exit_status = print_error(t->ctx, EXIT_RUNTIME);
    if (exit_status == EXIT_DONE) {
        if (ls_context_rank(t->ctx) == 0) session_log_open(t->dir);
        catch_signals();
        print_begin(t);
        if (!resumed) ls__run_advise(t);
        exit_status = train_run(t, &report, begun, &ends_together);
    }
    if (exit_status != EXIT_DONE && !ends_together) ls__ranks_abort(t->ctx, exit_status);
    return exit_status;
}

/* ---- The command line ---- */

static int fail_no_run(const char *dir)
{
    char path[LS__RUN_PATH_SIZE];
    if (ls__run_folder_is_of_program(dir))
        return fail_with(EXIT_RUNTIME,
                         "%s: a run of another program, whose net this command can't build; that "
                         "program can resume it",
                         dir);
    snprintf(path, sizeof(path), "%s/config.json", dir);
    if (!ls__path_exists(path) && errno != ENOENT && errno != ENOTDIR)
        return fail_with(EXIT_RUNTIME, "%s: %s", path, strerror(errno));
    const char *what = ls__is_folder(dir) ? "/config.json: no such file" : ": no such folder";
    if (!ranks_is_first())
        return fail_with(EXIT_RUNTIME, "%s%s; all ranks read the run's folder", dir, what);
    return fail_with(EXIT_RUNTIME, "%s%s; --out %s starts a run there", dir, what, dir);
}

/* Reads what a run that resumes has stored. Returns the exit status. */
static int read_stored(const cli_parsed *parsed, ls__run_settings *r, ls_run *t)
{
    char *slash = ls__is_file(t->dir) ? strrchr(t->dir, '/') : NULL;
    if (slash) *slash = '\0'; /* of a checkpoint in the folder */
    if (!ls__run_folder_holds_run(t->dir)) return fail_no_run(t->dir);
    ls_context *ctx = open_error_context();
    ls__run_read_stored(t, ctx, &parsed->set, r);
    const int exit_status = close_error_context(ctx);
    if (exit_status != EXIT_DONE) return exit_status;
    if (!ranks_check_run(r->shards, true, r->seeding == LS_SEED_BY_WORKER)) return EXIT_USAGE;
    return EXIT_DONE;
}

/* Prints why a new run can't have the folder of --out. Returns the exit status. */
static int check_out(const char *dir)
{
    ls_context *ctx = open_error_context();
    ls__run_folder_may_take(ctx, dir);
    return close_error_context(ctx);
}

/* The options' values and the run's folder. Returns the exit status, or -1 after --help. */
static int read_options(int argc, char **argv, ls__run_settings *r, ls_run *t)
{
    cli_parsed parsed;
    const int ended = options_parse(&command_train, argc, argv, r, &parsed);
    if (ended >= 0) return ended == EXIT_DONE ? -1 : ended;
    if (r->resume && parsed.set.from_run)
        return fail_with(EXIT_USAGE,
                         "--resume uses the options of its run: omit the config.json of --config");
    const char *named = r->resume ? r->resume : r->out;
    if (r->resume && r->out)
        return fail_with(
            EXIT_USAGE, "--out and --resume exclude each other: a resumed run stays in its folder");
    if (named && strlen(named) >= LS__RUN_DIR_SIZE)
        return fail_with(EXIT_USAGE, "the name of the run's folder is too long");
    if (named) strcpy(t->dir, named); /* "": a new name, when it is made */
    if (r->resume) return read_stored(&parsed, r, t);
    if (!r->data_dir) return fail_with(EXIT_USAGE, "--data-dir DIR is required");
    int exit_status = r->out && ranks_is_first() ? check_out(t->dir) : EXIT_DONE;
    if (exit_status != EXIT_DONE) return exit_status;
    exit_status = resolve_run_settings(&parsed, r);
    if (exit_status != EXIT_DONE && parsed.set.from_run)
        print_message("options that the command line does not have are those of %s", parsed.config);
    if (exit_status != EXIT_DONE) return exit_status;
    t->computed = ls__settings_computed(&parsed.set);
    if (!t->computed) return print_error(NULL, EXIT_RUNTIME);
    return ranks_check_run(r->shards, false, r->seeding == LS_SEED_BY_WORKER) ? EXIT_DONE
                                                                              : EXIT_USAGE;
}

static int run(int argc, char **argv)
{
    ls__run_settings r = { 0 };
    ls_run t = { .settings = &r };
    ranks_begin();
    if (ranks_is_first()) session_log_begin(argc, argv);
    int exit_status = read_options(argc, argv, &r, &t);
    if (exit_status == EXIT_DONE) exit_status = train(&t);
    ls__run_release(&t);
    session_log_close();
    return exit_status < 0 ? EXIT_DONE : exit_status;
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
    .options = ls__run_settings_table,
    .run_options = ls__run_settings_table,
    .run = run,
};
