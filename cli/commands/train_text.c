/* train_text.c: see train_text.h. */
#include "commands/train_text.h"
#include "terminal/progress.h"
#include <stdio.h>
#include <string.h>

enum { PATH_SIZE = 4096 + 32 };

static int64_t integer_of(const ls_run *run, const char *name)
{
    return (int64_t)ls_run_number(run, name);
}

static bool is_on(const ls_run *run, const char *name)
{
    return ls_run_number(run, name) > 0;
}

/* Whether a setting has this word of its choices. */
static bool has_word(ls_run *run, const char *name, const char *word)
{
    const char *text = ls_run_text(run, name);
    return text && strcmp(text, word) == 0;
}

/* Whether samples have targets, and so no accuracy. */
static bool has_targets(ls_run *run)
{
    return !has_word(run, "loss", "cross-entropy");
}

/* ---- The beginning ---- */

/* Images in a folder or list with an unusual name, such as images for tests, which select the best
 * weights here, are named. */
static void print_count(field_line *line, int64_t n, const char *what, const char *name,
                        const char *const *usual)
{
    bool is_usual = !*name;
    for (; *usual; usual++) is_usual |= strcmp(name, *usual) == 0;
    if (is_usual)
        print_field(line, "%lld %s images", (long long)n, what);
    else
        print_field(line, "%lld %s images in '%s'", (long long)n, what, name);
}

static void print_data(ls_run *run)
{
    static const char *const usual_train[] = { "train", "train.csv", NULL };
    static const char *const usual_val[] = { "val", "valid", "validation", "val.csv", NULL };
    const ls_dataset *train = ls_run_train_dataset(run), *val = ls_run_validation_dataset(run);
    const int n_targets = ls_dataset_target_count(train);
    field_line line = begin_fields(stdout);
    print_field(&line, "data    %s", ls_run_text(run, "data-dir"));
    print_count(&line, ls_dataset_sample_count(train), "training",
                ls_run_split_name(run, LS_SPLIT_TRAIN), usual_train);
    print_count(&line, val ? ls_dataset_sample_count(val) : 0, "validation",
                ls_run_split_name(run, LS_SPLIT_VALIDATION), usual_val);
    if (has_targets(run))
        print_field(&line, "%d %s%s", n_targets, has_word(run, "loss", "bce") ? "label" : "target",
                    plural(n_targets));
    else
        print_field(&line, "%d classes", ls_dataset_class_count(train));
    if (has_word(run, "sampler", "balanced")) print_field(&line, "drawn equally often");
    end_fields(&line);
}

static void print_model(ls_run *run)
{
    const int64_t batch = integer_of(run, "batch-size"), shards = integer_of(run, "shards");
    const int64_t accumulate = integer_of(run, "accumulate");
    const int64_t n_left = ls_dataset_sample_count(ls_run_train_dataset(run)) % batch;
    const ls_input_spec input = ls_loader_input_spec(ls_run_train_loader(run));
    const char *resized = has_word(run, "resize", "pad")       ? ", padded"
                          : has_word(run, "resize", "stretch") ? ", stretched"
                                                               : "";
    field_line line = begin_fields(stdout);
    print_field(&line, "model   %s", ls_run_text(run, "model"));
    print_field(&line, "%lld parameters",
                (long long)ls_net_parameter_element_count(ls_run_net(run)));
    print_field(&line, "images of %lldx%lld%s", (long long)input.image.shape.dims[1],
                (long long)input.image.shape.dims[2], resized);
    print_field(&line, "batch size %lld", (long long)batch);
    if (shards > 1)
        print_field(&line, "in %lld shards%s", (long long)shards,
                    is_on(run, "sync-batch-norm") ? " with synchronised batch norms" : "");
    if (accumulate > 1) print_field(&line, "one update per %lld batches", (long long)accumulate);
    if (n_left > 0)
        print_field(&line, "last %lld images of each epoch dropped (incomplete batch)",
                    (long long)n_left);
    end_fields(&line);
}

/* Where it is not the plain cross-entropy. */
static void print_loss(ls_run *run)
{
    const double smoothing = ls_run_number(run, "label-smoothing");
    const bool is_balanced = has_word(run, "class-weights", "balanced");
    if (has_targets(run))
        print_text(stdout, "loss    %s\n",
                   has_word(run, "loss", "bce") ? "binary cross-entropy" : "mean squared error");
    if (smoothing == 0 && !is_balanced) return;
    field_line line = begin_fields(stdout);
    if (smoothing > 0)
        print_field(&line, "loss    cross-entropy with label smoothing %g", smoothing);
    else
        print_field(&line, "loss    cross-entropy");
    if (is_balanced) print_field(&line, "balanced class weights");
    print_field(&line, ls_run_validation_loader(run)
                           ? "validation uses it, too; 'lockstep eval' does not"
                           : "'lockstep eval' does not use it");
    end_fields(&line);
}

static void print_mixing(const ls_run *run)
{
    const double mixup = ls_run_number(run, "mixup-alpha");
    const double cutmix = ls_run_number(run, "cutmix-alpha");
    if (mixup == 0 && cutmix == 0) return;
    field_line line = begin_fields(stdout);
    print_field(&line, "mixing  in training only");
    if (mixup > 0) print_field(&line, "mixup %g", mixup);
    if (cutmix > 0) print_field(&line, "cutmix %g", cutmix);
    print_field(&line, "train top-1 counts the class with the larger share of an image");
    end_fields(&line);
}

/* The file of --weights, and what was read and left out there. */
static void print_weights(ls_run *run)
{
    const ls_weight_report *report = ls_run_weight_report(run);
    if (!ls_run_text(run, "weights")) return;
    field_line line = begin_fields(stdout);
    print_field(&line, "weights %s", ls_run_text(run, "weights"));
    const char *key = ls_weight_report_key(report), *prefix = ls_weight_report_prefix(report);
    if (*key) print_field(&line, "key '%s'", key);
    if (*prefix) print_field(&line, "without the prefix '%s' of the names", prefix);
    if (ls_weight_report_classes_reordered(report))
        print_field(&line, "last layer in the order of these classes");
    if (is_on(run, "new-head")) print_field(&line, "new last layer");
    end_fields(&line);
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

static void print_place(ls_run *run, bool resumed)
{
    const ls_context *ctx = ls_run_context(run);
    const ls_trainer_state at = ls_trainer_get_state(ls_run_trainer(run));
    const int64_t epochs = integer_of(run, "epochs");
    const int n_ranks = ls_context_rank_count(ctx), n_machines = ls_context_machine_count(ctx);
    print_text(stdout, "device  %s\n", ls_context_device(ctx));
    if (n_ranks > 1)
        print_text(stdout, "ranks   %d on %d machine%s\n", n_ranks, n_machines, plural(n_machines));
    print_text(stdout, "run     %s", ls_run_dir(run));
    if (at.epoch >= epochs)
        print_text(stdout, ": all %lld epoch%s are done", (long long)epochs, plural(epochs));
    else if (at.epoch > 0 || at.step > 0)
        print_text(stdout, ", resumed at epoch %lld, step %lld", (long long)at.epoch + 1,
                   (long long)at.step);
    else if (resumed)
        print_text(stdout, ", from the beginning, because no step was saved");
    print_text(stdout, "\n");
}

void train_print_begin(ls_run *run, bool resumed)
{
    if (print_is_quiet()) return;
    print_data(run);
    print_model(run);
    if (is_on(run, "lr-per-256"))
        print_text(stdout, "lr      %g (%g per 256 images)\n", ls_run_number(run, "lr"),
                   ls_run_number(run, "lr-per-256"));
    print_loss(run);
    if (!has_targets(run) && !has_word(run, "metric", "top1"))
        print_text(stdout, "metric  %s; it decides which weights are the best\n",
                   ls_run_text(run, "metric"));
    if (is_on(run, "model-ema"))
        print_text(stdout, "ema     decay %g; validation and the best weights use the averages\n",
                   ls_run_number(run, "model-ema"));
    print_mixing(run);
    print_weights(run);
    if (ls_run_text(run, "freeze"))
        print_text(stdout, "frozen  %lld of the parameters\n",
                   (long long)count_frozen(ls_run_net(run)));
    print_place(run, resumed);
    fflush(stdout);
}

/* ---- The end ---- */

/* The metric's name in texts. */
static const char *metric_text(ls_run *run)
{
    return has_targets(run)                  ? "loss"
           : has_word(run, "metric", "top1") ? "top-1"
                                             : ls_run_text(run, "metric");
}

/* "best", or "last" where the best weights are lost. */
static const char *best_weights(const ls_run *run)
{
    char path[PATH_SIZE];
    snprintf(path, sizeof(path), "%s/best.safetensors", ls_run_dir(run));
    const bool is_lost = ls_trainer_get_state(ls_run_trainer(run)).best_is_lost;
    return !is_lost && path_exists(path) ? "best" : "last";
}

/* The last line: how long it took, what was reached, and where the weights are. */
static void print_result(ls_run *run, bool resumed, double seconds)
{
    char time[DURATION_SIZE], best[LOSS_SIZE];
    const ls_trainer_state at = ls_trainer_get_state(ls_run_trainer(run));
    field_line line = begin_fields(stdout);
    duration(seconds, time);
    print_field(&line, "%s %s", resumed ? "time since resume" : "total time", time);
    if (at.best_epoch > 0)
        print_field(&line, "best %s %s %s (epoch %lld)",
                    ls_run_validation_loader(run) ? "val" : "train", metric_text(run),
                    loss_text(at.best, has_targets(run), best), (long long)at.best_epoch);
    print_field(&line, "weights %s/%s.safetensors", ls_run_dir(run), best_weights(run));
    end_fields(&line);
}

/* After --steps or --stop-at. */
static void print_halted(ls_run *run, const ls_trainer_state *at)
{
    const bool is_all = integer_of(run, "steps") == at->n_steps, by_loss = has_targets(run);
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
    print_command(stdout, is_all ? "for more steps" : "to continue", "train", "--resume",
                  ls_run_dir(run), is_all ? "--steps" : NULL, "N", NULL);
}

/* The command that evaluates the weights on the same images. */
static void print_eval(ls_run *run, const char *weights, const char *precision)
{
    enum { MAX_WORDS = 24 };
    const char *words[MAX_WORDS] = { "eval", "--checkpoint", weights, "--data-dir",
                                     ls_run_text(run, "data-dir") };
    /* Checkpoints store how the images are opened. */
    const char *const others[][2] = { { "--image-root", ls_run_text(run, "image-root") },
                                      { "--on-bad-image",
                                        has_word(run, "on-bad-image", "fail") ? NULL : "skip" },
                                      { "--precision", precision } };
    int n = 5;
    words[n++] = "--per-class";
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (!others[i][1]) continue;
        words[n++] = others[i][0];
        words[n++] = others[i][1];
    }
    print_command_words(stdout, "next", words);
}

/* With commands that use the weights. */
static void print_done(ls_run *run, const ls_trainer_state *at, bool is_early_stop)
{
    const char *precision =
        has_word(run, "precision", "f32") ? NULL : ls_run_text(run, "precision");
    char weights[PATH_SIZE];
    if (print_is_quiet()) return;
    if (is_early_stop)
        print_text(stdout, "ended after epoch %lld: no better %s since epoch %lld\n",
                   (long long)at->epoch, metric_text(run), (long long)at->best_epoch);
    snprintf(weights, sizeof(weights), "%s/%s.safetensors", ls_run_dir(run), best_weights(run));
    if (ls_run_validation_loader(run)) print_eval(run, weights, precision);
    print_command(stdout, "next", "predict", "--checkpoint", weights,
                  precision ? "--precision" : "IMAGE...", precision, "IMAGE...", NULL);
    if (!is_early_stop && ls_run_can_be_extended(run))
        print_command(stdout, "for more epochs", "train", "--resume", ls_run_dir(run), "--epochs",
                      "N", NULL);
}

int train_print_end(ls_run *run, bool resumed, ls_trainer_end end, int data_exit_status,
                    double seconds)
{
    const ls_trainer_state at = ls_trainer_get_state(ls_run_trainer(run));
    const long long epoch = at.epoch + 1, step = at.step;
    const char *dir = ls_run_dir(run);
    const bool bad_image =
        data_exit_status == LS_EXIT_DATA && has_word(run, "on-bad-image", "fail");
    switch (end) {
    case LS_TRAINER_DONE:
    case LS_TRAINER_EARLY_STOP:
        print_done(run, &at, end == LS_TRAINER_EARLY_STOP);
        print_result(run, resumed, seconds);
        return LS_EXIT_DONE;
    case LS_TRAINER_MAX_STEPS:
        print_halted(run, &at);
        print_result(run, resumed, seconds);
        return LS_EXIT_DONE;
    case LS_TRAINER_INTERRUPTED:
        print_message("signal %d: saved at epoch %lld, step %lld", (int)caught_signal, epoch, step);
        print_command(stderr, "to continue", "train", "--resume", dir, NULL);
        return LS_EXIT_SIGNAL + caught_signal;
    case LS_TRAINER_DATA_ERROR:
        print_message("saved at epoch %lld, step %lld", epoch, step);
        print_command(stderr, bad_image ? "to continue without unreadable images" : "to continue",
                      "train", "--resume", dir, bad_image ? "--on-bad-image" : NULL, "skip", NULL);
        return data_exit_status;
    case LS_TRAINER_NONFINITE: return LS_EXIT_NONFINITE;
    case LS_TRAINER_ERROR: break;
    }
    return print_error(ls_run_context(run), LS_EXIT_RUNTIME);
}
