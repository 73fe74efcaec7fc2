/* run.c: opens the objects of a run from its options. */
#include "runs/folders.h"
#include "runs/ranks.h"
#include "runs/run.h"
#include "checkpoint/algorithm_cache_file.h"
#include "run/compare.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cli_run_open_train_data(ls_context *ctx, const recipe *r, ls_dataset **train, ls_dataset **val)
{
    char name[FOLDER_NAME_SIZE];
    const bool dir_itself = r->val_split > 0 || r->no_val;
    const int answer = folders_open_train(ctx, r->data_dir, &r->data, dir_itself, train);
    if (answer != EXIT_DONE || r->val_split == 0) return answer;
    if (folders_has_val(r->data_dir, name))
        return fail_with(EXIT_DATA,
                         "%s: already has validation images, in '%s', which --val-split would not "
                         "use; omit --val-split to validate on them, or rename '%s'",
                         r->data_dir, name, name);
    ls_dataset *all = *train;
    const ls_status status =
        ls_dataset_split(all, r->val_split, (uint64_t)r->val_split_seed, train, val);
    ls_dataset_close(&all);
    return status == LS_OK ? EXIT_DONE : print_error(ctx, EXIT_DATA);
}

/* Whether the samples have what the loss reads; else prints what they have. */
static bool fits_loss(const recipe *r, const ls_dataset *data)
{
    const int n = ls_dataset_target_count(data);
    if (r->loss == LOSS_CROSS_ENTROPY)
        return n == 0 || fail_with(false,
                                   "%s: has several labels or numbers for each image; --loss bce "
                                   "is for labels, --loss mse for numbers",
                                   r->data_dir);
    const bool bce = r->loss == LOSS_BCE, labels = ls_dataset_targets_are_labels(data);
    if (n == 0 || (labels && !bce))
        return fail_with(
            false, "--loss %s: expected a CSV file with %s; %s has %s for each image%s",
            bce ? "bce" : "mse",
            bce ? "a column 'labels'" : "a column 'target' or columns 'target_...'", r->data_dir,
            labels ? "several labels" : "one class", labels ? ", for --loss bce" : "");
    for (int64_t i = 0; bce && i < ls_dataset_sample_count(data); i++)
        for (int k = 0; k < n; k++) {
            const double target = (double)ls_dataset_targets(data, i)[k];
            if (!(target >= 0 && target <= 1))
                return fail_with(false,
                                 "--loss bce: '%s' of %s is %g, expected 0 to 1; --loss mse takes "
                                 "any numbers",
                                 ls_dataset_target_name(data, k), ls_dataset_sample_path(data, i),
                                 target);
        }
    return true;
}

/* The names of the model's outputs. */
static bool list_outputs(cli_run *t)
{
    const int n_targets = ls_dataset_target_count(t->train_data);
    const int n = n_targets > 0 ? n_targets : ls_dataset_class_count(t->train_data);
    t->classes = calloc((size_t)n, sizeof(*t->classes));
    for (int i = 0; t->classes && i < n; i++)
        t->classes[i] = n_targets > 0 ? ls_dataset_target_name(t->train_data, i)
                                      : ls_dataset_class_name(t->train_data, i);
    t->info.classes = t->classes;
    t->info.options.n_classes = n;
    return t->classes != NULL;
}

/* Classes without validation images are possible, but hardly intended. */
static void warn_missing_classes(const cli_run *t)
{
    int64_t n_missing = 0;
    const char *missing = NULL;
    const int n_classes = ls_dataset_class_count(t->val_data);
    int64_t *counts = n_classes > 0 ? calloc((size_t)n_classes, sizeof(*counts)) : NULL;
    const bool counted = counts && ls_dataset_class_sizes(t->val_data, counts) == LS_OK;
    for (int i = 0; counted && i < n_classes; i++)
        if (counts[i] == 0 && n_missing++ == 0) missing = t->classes[i];
    free(counts);
    if (n_missing > 0)
        print_warning(
            "%s: no validation images of %lld of %d classes, such as '%s': the validation "
            "accuracy does not cover them",
            t->recipe->data_dir, (long long)n_missing, n_classes, missing);
}

/* Patients in training and validation data are possible, but hardly intended. False without memory.
 */
static bool warn_shared_groups(const cli_run *t)
{
    ls_shared_groups shared;
    if (ls_dataset_shared_groups(t->train_data, t->val_data, &shared) != LS_OK) return false;
    if (shared.n_groups > 0)
        print_warning("%s: %lld of %lld validation images are of groups that have training "
                      "images, too, such as '%s': the validation accuracy is too high; 'lockstep "
                      "check' lists the groups",
                      t->recipe->data_dir, (long long)shared.n_samples,
                      (long long)ls_dataset_sample_count(t->val_data), shared.example);
    return true;
}

int cli_run_open_datasets(cli_run *t)
{
    const recipe *r = t->recipe;
    char name[FOLDER_NAME_SIZE];
    int answer = cli_run_open_train_data(t->ctx, r, &t->train_data, &t->val_data);
    if (answer != EXIT_DONE) {
        if (r->resume && !file_exists(r->data_dir))
            print_message(
                "the run's dataset is no longer there; if it was moved, use --data-dir DIR");
        return answer;
    }
    if (!fits_loss(r, t->train_data)) return EXIT_USAGE;
    if (!list_outputs(t)) return print_error(NULL, EXIT_RUNTIME);
    if (!r->no_val && r->val_split == 0 && !t->only_trains)
        answer = folders_open_val(t->ctx, r->data_dir, &r->data, false,
                                  (int)t->info.options.n_classes, t->classes, &t->val_data);
    if (answer != EXIT_DONE) return answer;
    if (t->val_data && r->val_split == 0 &&
        !folders_check_kinds(r->data_dir, t->train_data, t->val_data))
        return EXIT_DATA;
    if (t->val_data && !fits_loss(r, t->val_data)) return EXIT_USAGE;
    if (t->val_data && r->val_split == 0 && !r->resume) {
        warn_missing_classes(t);
        if (!warn_shared_groups(t)) return print_error(t->ctx, EXIT_RUNTIME);
    }
    if (r->val_split > 0 && !r->resume && folders_has_test(r->data_dir, name))
        print_note("%s: --val-split takes the validation images from the training images; '%s' "
                   "is not used",
                   r->data_dir, name);
    if (!r->resume && !check_missing(t)) return EXIT_DATA;
    ls_digest digest; /* computed now, and kept by the dataset */
    if (r->digest_contents &&
        (ls_dataset_digest(t->train_data, true, &digest) != LS_OK ||
         (t->val_data && ls_dataset_digest(t->val_data, true, &digest) != LS_OK)))
        return print_error(t->ctx, EXIT_RUNTIME);
    return EXIT_DONE;
}

static int open_loaders(cli_run *t)
{
    const recipe *r = t->recipe;
    if (ls_dataset_sample_count(t->train_data) < r->batch)
        return fail_with(
            EXIT_DATA,
            "%s: %lld training images do not fill one batch of %lld: use -b %lld or less",
            r->data_dir, (long long)ls_dataset_sample_count(t->train_data), (long long)r->batch,
            (long long)ls_dataset_sample_count(t->train_data));
    ls_loader_config config = recipe_train_loader(r);
    t->train = ls_loader_open(t->train_data, &config);
    const ls_input_spec input = ls_loader_input_spec(t->train);
    t->info.channels = (int)input.image.shape.dims[3];
    memcpy(t->info.mean, input.mean, sizeof(t->info.mean));
    memcpy(t->info.std, input.std, sizeof(t->info.std));
    config = recipe_val_loader(r, &t->info);
    if (t->val_data) t->val = ls_loader_open(t->val_data, &config);
    const bool good = t->train && (t->val || !t->val_data);
    return good ? EXIT_DONE : print_error(t->ctx, EXIT_DATA);
}

/* With --force, kernels of another machine are ignored with a warning; others are selected. */
static ls_status forgive_mismatch(cli_run *t, ls_status status)
{
    if (status != LS_ERR_MISMATCH || !t->recipe->force) return status;
    print_warning("%s", plain_message(ls_context_message(t->ctx)));
    ls_context_clear_error(t->ctx);
    return LS_OK;
}

/* Fails before anything is timed if the algorithm cache can't be written. A file that exists but is
 * read-only gives a warning only. */
static ls_status check_cache_path(cli_run *t, const char *path)
{
    const ls_status status = ls__algorithm_cache_check_path(t->ctx, path);
    if (status == LS_OK || !file_exists(path)) return status;
    print_warning("timed kernel selections will not be saved: %s",
                  plain_message(ls_context_message(t->ctx)));
    ls_context_clear_error(t->ctx);
    t->writes_algorithm_cache = false;
    return LS_OK;
}

/* Loads kernel selections: a new run's from its algorithm cache file, a resumed run's from its
 * checkpoint alone. */
static int load_kernels(cli_run *t, bool resumed)
{
    const char *path = t->recipe->algorithm_cache;
    char last[RUN_PATH_SIZE];
    snprintf(last, sizeof(last), "%s/last.safetensors", t->dir);
    ls_status status = LS_OK;
    if (resumed && file_exists(last)) status = ls_checkpoint_load_algorithms(t->ctx, last);
    if (!resumed && path && file_exists(path)) status = ls_algorithm_cache_load(t->ctx, path);
    t->writes_algorithm_cache = !resumed && path && status == LS_OK;
    status = forgive_mismatch(t, status);
    if (t->writes_algorithm_cache && t->recipe->benchmark) status = check_cache_path(t, path);
    if (status == LS_OK) return EXIT_DONE;
    const int answer = print_error(t->ctx, EXIT_RUNTIME);
    if (status == LS_ERR_MISMATCH && strcmp(command_name, "train") == 0)
        print_message("--force ignores these kernels and selects new ones");
    return answer;
}

static int save_kernels(cli_run *t)
{
    const char *path = t->recipe->algorithm_cache;
    const bool news = ls_context_rank(t->ctx) == 0 && t->writes_algorithm_cache &&
                      ls_algorithm_cache_timed_count(t->ctx) > 0;
    if (t->writes_algorithm_cache && t->recipe->benchmark && !news && !file_exists(path))
        print_warning("--algorithm-cache %s is not written: no kernel was timed", path);
    const bool good = !news || ls_algorithm_cache_save(t->ctx, path) == LS_OK;
    return good ? EXIT_DONE : print_error(t->ctx, EXIT_RUNTIME);
}

/* "7", the number of an op, or "KIND@NAME#N": the number N, 0 if it is left out, among the ops of
 * this kind and name. */
static bool read_op(char *text, ls__injected_fault *out)
{
    char *number = text, *end;
    if (strchr(text, '@')) {
        number = strchr(text, '#');
        if (number) *number++ = '\0';
        snprintf(out->among, sizeof(out->among), "%s", text);
        if (!number) return true;
    }
    out->op = strtoll(number, &end, 10);
    return end > number && *end == '\0' && out->op >= 0;
}

/* Steps are counted over the whole run, from 0, as in the run log. */
static bool set_fault(cli_run *t)
{
    long long step, element;
    int length = 0;
    char op[LS__CALL_TEXT_SIZE];
    ls__injected_fault fault = { 0 };
    const char *text = t->recipe->fault;
    if (sscanf(text, "%lld:%191[^:]:%lld%n", &step, op, &element, &length) != 3 || text[length] ||
        step < 0 || element < 0 || !read_op(op, &fault))
        return fail_with(false,
                         "--inject-fault '%s': expected STEP:OP:ELEMENT, such as 40:7:0 or "
                         "40:linear@fc:0",
                         text);
    const int64_t steps = ls_loader_step_count(t->train);
    if (step / steps >= t->recipe->epochs)
        return fail_with(false, "--inject-fault '%s': the run has steps 0 to %lld", text,
                         (long long)(steps * t->recipe->epochs - 1));
    fault.epoch = step / steps;
    fault.step = step % steps;
    fault.element = element;
    ls__net_set_injected_fault(t->net, &fault);
    return true;
}

void print_weights_hint(const ls_weight_report *report, const char *new_head)
{
    static const ls_weight_state states[] = { LS_WEIGHT_MISMATCHED, LS_WEIGHT_MISSING };
    bool only_head = ls_weight_report_count(report, LS_WEIGHT_UNEXPECTED) == 0;
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; i < ls_weight_report_count(report, states[k]); i++) {
            const ls_weight_info info = ls_weight_report_at(report, states[k], i);
            only_head = only_head && info.head;
            if (k == 0 && strcmp(info.name, "conv1.weight") == 0)
                print_message("the first layer differs: --stem large has a 7x7 convolution, "
                              "--stem small a 3x3 convolution");
        }
    if (only_head)
        print_message("only the last layer differs: %s trains a new one for these classes",
                      new_head);
    else
        print_message("--model, --stem, --image-size and --grey must be those of the weights");
}

/* A new last layer that is frozen keeps its random values. */
static void warn_frozen_head(const cli_run *t, const ls_weight_report *report)
{
    const int64_t n = ls_weight_report_count(report, LS_WEIGHT_NEW_HEAD);
    int64_t n_frozen = 0;
    for (int64_t i = 0; i < n; i++) {
        const char *name = ls_weight_report_at(report, LS_WEIGHT_NEW_HEAD, i).name;
        for (int64_t k = 0; k < ls_net_parameter_count(t->net); k++) {
            const ls_parameter_info parameter = ls_net_parameter_at(t->net, k);
            n_frozen += parameter.frozen && strcmp(parameter.name, name) == 0;
        }
    }
    if (n_frozen > 0)
        print_warning("--freeze '%s' freezes the new last layer, which keeps random values: "
                      "--new-head is for a layer that is trained",
                      t->recipe->freeze);
}

int cli_run_load_weights(cli_run *t)
{
    const recipe *r = t->recipe;
    const ls_load_weights_config config = { .new_head = r->new_head,
                                            .key = r->weights_key,
                                            .classes = t->info.classes,
                                            .n_classes = t->info.options.n_classes };
    char path[WEIGHTS_PATH_SIZE];
    const ls_status status =
        ls_net_load_weights(t->net, weights_of(r->weights, path), &config, &t->weights);
    if (status == LS_OK) {
        if (r->freeze) warn_frozen_head(t, t->weights);
        return EXIT_DONE;
    }
    print_error(t->ctx, EXIT_RUNTIME);
    if (t->weights) print_weights_hint(t->weights, "--new-head");
    if (status == LS_ERR_MISMATCH && !t->weights)
        print_message("--weights-key KEY names the weights in a file");
    return EXIT_RUNTIME;
}

/* After the error of an option was printed: on resume its value is not from the command line. */
static int fail_option(const cli_run *t, bool resumed)
{
    if (resumed) print_message("this is the value in %s/config.json", t->dir);
    return resumed ? EXIT_RUNTIME : EXIT_USAGE;
}

/* The net's or optimizer's error about an option's value. Other errors, such as too little memory,
 * are not the option's. */
static int fail_refused(const cli_run *t, const char *option, bool resumed)
{
    const ls_status status = ls_context_status(t->ctx);
    if (status != LS_ERR_INVALID && status != LS_ERR_NOT_FOUND)
        return print_error(t->ctx, EXIT_RUNTIME);
    print_message("--%s: %s", option, plain_message(ls_context_message(t->ctx)));
    ls_context_clear_error(t->ctx);
    return fail_option(t, resumed);
}

/* Whether some parameter is trained. */
static bool trains(const ls_net *net)
{
    for (int64_t i = 0; i < ls_net_parameter_count(net); i++) {
        const ls_parameter_info parameter = ls_net_parameter_at(net, i);
        if (!parameter.frozen && parameter.kind != LS_PARAMETER_BUFFER) return true;
    }
    return false;
}

/* Freezes the parameters of all patterns. On failure prints the reason. Returns the exit status. */
static int freeze(cli_run *t, bool resumed)
{
    enum { MAX_PATTERN = 256 };
    char pattern[MAX_PATTERN];
    for (const char *at = t->recipe->freeze; at;) {
        const size_t n = strcspn(at, ",");
        if (n == 0) {
            print_message("--freeze: expected PATTERN,..., got an empty pattern in '%s'",
                          t->recipe->freeze);
            return fail_option(t, resumed);
        }
        if (n >= MAX_PATTERN) {
            print_message("--freeze: expected patterns of less than %d characters",
                          (int)MAX_PATTERN);
            return fail_option(t, resumed);
        }
        snprintf(pattern, sizeof(pattern), "%.*s", (int)n, at);
        if (ls_net_freeze(t->net, pattern) != LS_OK) return fail_refused(t, "freeze", resumed);
        at = at[n] ? at + n + 1 : NULL;
    }
    if (trains(t->net)) return EXIT_DONE;
    print_message("--freeze '%s': freezes all parameters, so nothing is trained",
                  t->recipe->freeze);
    return fail_option(t, resumed);
}

/* The model of the options. On failure prints the reason, and the option that it may be due to. */
static int build_net(cli_run *t, const ls_net_config *config)
{
    const ls_model *model = t->info.model;
    t->net = ls_net_build(t->ctx, model->function, &t->info.options, config);
    if (t->net) return EXIT_DONE;
    const ls_status status = ls_context_status(t->ctx);
    const int answer = print_error(t->ctx, EXIT_RUNTIME);
    if (status == LS_ERR_SHAPE || status == LS_ERR_UNSUPPORTED)
        print_message("--image-size is %lldx%lld; the usual size of --model %s is %lld",
                      (long long)t->recipe->image_size.height,
                      (long long)t->recipe->image_size.width, model->name,
                      (long long)model->image_size);
    return answer;
}

static int open_net(cli_run *t, bool resumed)
{
    const recipe *r = t->recipe;
    const int64_t steps = r->epochs * ls_loader_step_count(t->train);
    float *weights = NULL;
    if (r->class_weights) {
        weights = calloc((size_t)t->info.options.n_classes, sizeof(*weights));
        if (!weights) return print_error(NULL, EXIT_RUNTIME);
        ls_dataset_balanced_weights(t->train_data, weights); /* the net's constructor fails, too */
    }
    const ls_net_config config = {
        .input = ls_loader_input_spec(t->train),
        .steps = r->steps && r->steps < steps ? r->steps : steps,
        .precision = (ls_precision)r->precision,
        .loss = { recipe_loss(r), .label_smoothing = (float)r->label_smoothing,
                  .class_weights = weights, .soft_targets = recipe_mixes(r) }
    };
    int answer = build_net(t, &config);
    free(weights);
    if (answer == EXIT_DONE && r->freeze) answer = freeze(t, resumed);
    if (answer == EXIT_DONE && !resumed && r->weights) answer = cli_run_load_weights(t);
    if (answer != EXIT_DONE) return answer;
    t->optimizer = recipe_open_optimizer(r, t->net);
    if (!t->optimizer && ls_context_status(t->ctx) == LS_OK) return fail_option(t, resumed);
    if (!t->optimizer && r->groups) return fail_refused(t, "param-groups", resumed);
    t->schedule = recipe_open_schedule(r, t->ctx, ls_loader_step_count(t->train));
    if (ls_context_status(t->ctx) != LS_OK) return print_error(t->ctx, EXIT_RUNTIME);
    return r->fault && !set_fault(t) ? EXIT_USAGE : EXIT_DONE;
}

ls_training_state cli_run_state(const cli_run *t)
{
    return (ls_training_state){ .net = t->net,
                                .optimizer = t->optimizer,
                                .schedule = t->schedule,
                                .loader = t->train,
                                .validation = t->val,
                                .metric = recipe_metric_name(t->recipe) };
}

int cli_run_open(cli_run *t, bool resumed)
{
    const recipe *r = t->recipe;
    t->info = recipe_model(r);
    if (t->has_ranks) ranks_connect(r->rank_timeout);
    t->ctx = ls_context_open(
        &(ls_context_config){ .device = r->device,
                              .seed = (uint64_t)r->seed,
                              .shards = (int)r->shards,
                              .sync_batch_norm = r->sync_batch_norm,
                              .threads = (int)r->threads,
                              .communicator = t->has_ranks ? "auto" : NULL,
                              .communication_timeout_seconds = r->rank_timeout,
                              .partition_optimizer = r->partition_optimizer,
                              .audit_every = r->audit_every,
                              .deterministic = (ls_deterministic)r->deterministic,
                              .benchmark = r->benchmark ? LS_BENCHMARK_ON : LS_BENCHMARK_OFF,
                              .nvtx = r->nvtx,
                              .log = print_log });
    if (t->has_ranks) ranks_connected();
    if (ls_context_status(t->ctx) == LS_OK && t->has_ranks)
        ranks_check_options(t->ctx, recipe_options, r);
    if (ls_context_status(t->ctx) != LS_OK) return print_error(t->ctx, EXIT_RUNTIME);
    int answer = cli_run_open_datasets(t);
    if (answer == EXIT_DONE) answer = open_loaders(t);
    if (answer == EXIT_DONE) answer = load_kernels(t, resumed);
    if (answer == EXIT_DONE) answer = open_net(t, resumed);
    if (answer == EXIT_DONE) answer = save_kernels(t);
    return answer;
}

void cli_run_close(cli_run *t)
{
    json_decref(t->manifest);
    json_decref(t->forced);
    json_decref(t->changed);
    ls_weight_report_close(&t->weights);
    ls_context_close(&t->ctx);
    free(t->classes);
    t->classes = NULL;
}
