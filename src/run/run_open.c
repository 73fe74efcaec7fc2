/* run_open.c: opens the objects of a run from its settings; see run_state.h. */
#include "base/context.h"
#include "base/error.h"
#include "base/paths.h"
#include "checkpoint/algorithm_cache_file.h"
#include "run/compare.h"
#include "run/folders.h"
#include "run/run_state.h"
#include <lockstep/algorithm_cache.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ls_status ls__run_open_train_data(ls_context *ctx, const ls__run_settings *r, ls_dataset **train,
                                  ls_dataset **val)
{
    char name[LS__FOLDER_NAME_SIZE];
    const bool dir_itself = r->val_split > 0 || r->no_val;
    *train = ls__folders_open_train(ctx, r->data_dir, &r->data, dir_itself);
    if (!*train || r->val_split == 0) return ls_context_status(ctx);
    if (ls__folders_has_val(r->data_dir, name))
        return ls__fail(ctx, LS_ERR_DATA,
                        "%s: already has validation images, in '%s', which --val-split would not "
                        "use; omit --val-split to validate on them, or rename '%s'",
                        r->data_dir, name, name);
    ls_dataset *all = *train;
    const ls_status status =
        ls_dataset_split(all, r->val_split, (uint64_t)r->val_split_seed, train, val);
    ls_dataset_close(&all);
    return status;
}

/* LS_ERR_SETTING unless the samples have what the loss reads. */
static ls_status fits_loss(ls_context *ctx, const ls__run_settings *r, const ls_dataset *data)
{
    const int n = ls_dataset_target_count(data);
    if (r->loss == LS__LOSS_CROSS_ENTROPY)
        return n == 0 ? LS_OK
                      : ls__fail(ctx, LS_ERR_SETTING,
                                 "%s: has several labels or numbers for each image; --loss bce is "
                                 "for labels, --loss mse for numbers",
                                 r->data_dir);
    const bool bce = r->loss == LS__LOSS_BCE, labels = ls_dataset_targets_are_labels(data);
    if (n == 0 || (labels && !bce))
        return ls__fail(ctx, LS_ERR_SETTING,
                        "--loss %s: expected a CSV file with %s; %s has %s for each image%s",
                        bce ? "bce" : "mse",
                        bce ? "a column 'labels'" : "a column 'target' or columns 'target_...'",
                        r->data_dir, labels ? "several labels" : "one class",
                        labels ? ", for --loss bce" : "");
    for (int64_t i = 0; bce && i < ls_dataset_sample_count(data); i++)
        for (int k = 0; k < n; k++) {
            const double target = (double)ls_dataset_targets(data, i)[k];
            if (!(target >= 0 && target <= 1))
                return ls__fail(ctx, LS_ERR_SETTING,
                                "--loss bce: '%s' of %s is %g, expected 0 to 1; --loss mse takes "
                                "any numbers",
                                ls_dataset_target_name(data, k), ls_dataset_sample_path(data, i),
                                target);
        }
    return LS_OK;
}

/* The names of the model's outputs. */
static ls_status list_outputs(ls_run *t)
{
    const int n_targets = ls_dataset_target_count(t->train_data);
    const int n = n_targets > 0 ? n_targets : ls_dataset_class_count(t->train_data);
    t->classes = calloc((size_t)n, sizeof(*t->classes));
    for (int i = 0; t->classes && i < n; i++)
        t->classes[i] = n_targets > 0 ? ls_dataset_target_name(t->train_data, i)
                                      : ls_dataset_class_name(t->train_data, i);
    t->info.classes = t->classes;
    t->info.options.n_classes = n;
    return t->classes ? LS_OK : ls__fail_memory(t->ctx, "classes", 0);
}

/* Classes without validation images are possible, but hardly intended. */
static void warn_missing_classes(const ls_run *t)
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
        ls__warn(t->ctx, LS_LOG_DATA,
                 "%s: no validation images of %lld of %d classes, such as '%s': the validation "
                 "accuracy does not cover them",
                 t->settings->data_dir, (long long)n_missing, n_classes, missing);
}

/* Patients in training and validation data are possible, but hardly intended. */
static ls_status warn_shared_groups(const ls_run *t)
{
    ls_shared_groups shared;
    LS_TRY(ls_dataset_shared_groups(t->train_data, t->val_data, &shared));
    if (shared.n_groups > 0)
        ls__warn(t->ctx, LS_LOG_DATA,
                 "%s: %lld of %lld validation images are of groups that have training images, too, "
                 "such as '%s': the validation accuracy is too high; 'lockstep check' with the "
                 "same options lists the groups",
                 t->settings->data_dir, (long long)shared.n_samples,
                 (long long)ls_dataset_sample_count(t->val_data), shared.example);
    return LS_OK;
}

ls_status ls__run_check_missing(const ls_run *t)
{
    const ls__run_settings *r = t->settings;
    const bool skips = r->on_bad_image != LS_BAD_IMAGE_FAIL;
    if (!ls__folders_has_csv(r->data_dir)) return LS_OK;
    LS_TRY(ls__data_check_missing(t->ctx, r->data_dir, t->train_data, "training", skips));
    return t->val_data
               ? ls__data_check_missing(t->ctx, r->data_dir, t->val_data, "validation", skips)
               : LS_OK;
}

/* The given validation images, with warnings about them. */
static ls_status open_validation(ls_run *t)
{
    const ls__run_settings *r = t->settings;
    t->val_data = ls__folders_open_val(t->ctx, r->data_dir, &r->data, false,
                                       (int)t->info.options.n_classes, t->classes);
    LS_TRY(ls_context_status(t->ctx));
    LS_TRY(ls__folders_check_kinds(t->ctx, r->data_dir, t->train_data, t->val_data));
    LS_TRY(fits_loss(t->ctx, r, t->val_data));
    if (r->resume) return LS_OK;
    warn_missing_classes(t);
    return warn_shared_groups(t);
}

ls_status ls__run_open_datasets(ls_run *t)
{
    const ls__run_settings *r = t->settings;
    char name[LS__FOLDER_NAME_SIZE];
    if (ls__run_open_train_data(t->ctx, r, &t->train_data, &t->val_data) != LS_OK) {
        if (r->resume && !ls__path_exists(r->data_dir))
            ls__error_hint(t->ctx, "the run's dataset is no longer there; if it was moved, use "
                                   "--data-dir DIR");
        return ls_context_status(t->ctx);
    }
    LS_TRY(fits_loss(t->ctx, r, t->train_data));
    LS_TRY(list_outputs(t));
    if (!r->no_val && r->val_split == 0 && !t->only_trains) LS_TRY(open_validation(t));
    if (r->val_split > 0 && !r->resume && ls__folders_has_test(r->data_dir, name))
        ls__note(t->ctx, LS_LOG_DATA,
                 "%s: --val-split takes the validation images from the training images; '%s' is "
                 "not used",
                 r->data_dir, name);
    if (!r->resume) LS_TRY(ls__run_check_missing(t));
    ls_digest digest; /* computed now, and kept by the dataset */
    if (r->digest_contents) LS_TRY(ls_dataset_digest(t->train_data, true, &digest));
    return r->digest_contents && t->val_data ? ls_dataset_digest(t->val_data, true, &digest)
                                             : LS_OK;
}

static ls_status open_loaders(ls_run *t)
{
    const ls__run_settings *r = t->settings;
    const long long n = ls_dataset_sample_count(t->train_data);
    if (n < r->batch)
        return ls__fail(
            t->ctx, LS_ERR_DATA,
            "%s: %lld training images do not fill one batch of %lld: use -b %lld or less",
            r->data_dir, n, (long long)r->batch, n);
    ls_loader_config config = ls__run_train_loader(r);
    t->train = ls_loader_open(t->train_data, &config);
    const ls_input_spec input = ls_loader_input_spec(t->train);
    t->info.channels = (int)input.image.shape.dims[3];
    memcpy(t->info.mean, input.mean, sizeof(t->info.mean));
    memcpy(t->info.std, input.std, sizeof(t->info.std));
    config = ls__run_val_loader(r, &t->info);
    if (t->val_data) t->val = ls_loader_open(t->val_data, &config);
    return ls_context_status(t->ctx);
}

/* The message of the context's error without the name of the call that it begins with. */
static const char *plain_message(const ls_context *ctx)
{
    const char *message = ls_context_message(ctx);
    const size_t n = strspn(message, "abcdefghijklmnopqrstuvwxyz_0123456789");
    const bool names_call = strncmp(message, "ls_", 3) == 0 && strncmp(message + n, ": ", 2) == 0;
    return message + (names_call ? n + 2 : 0);
}

/* With --force, kernels of another machine are ignored with a warning; others are selected. */
static ls_status forgive_mismatch(ls_run *t, ls_status status)
{
    if (status != LS_ERR_MISMATCH || !t->settings->force) return status;
    ls__warn(t->ctx, LS_LOG_RUN, "%s", plain_message(t->ctx));
    ls_context_clear_error(t->ctx);
    return LS_OK;
}

/* Fails before anything is timed if the algorithm cache can't be written. A file that exists but is
 * read-only gives a warning only. */
static ls_status check_cache_path(ls_run *t, const char *path)
{
    const ls_status status = ls__algorithm_cache_check_path(t->ctx, path);
    if (status == LS_OK || !ls__path_exists(path)) return status;
    ls__warn(t->ctx, LS_LOG_RUN, "timed kernel selections will not be saved: %s",
             plain_message(t->ctx));
    ls_context_clear_error(t->ctx);
    t->writes_algorithm_cache = false;
    return LS_OK;
}

/* Loads kernel selections: a new run's from its algorithm cache file, a resumed run's from its
 * checkpoint alone. */
static ls_status load_kernels(ls_run *t, bool resumed)
{
    const char *path = t->settings->algorithm_cache;
    char last[LS__RUN_PATH_SIZE];
    snprintf(last, sizeof(last), "%s/last.safetensors", t->dir);
    ls_status status = LS_OK;
    if (resumed && ls__path_exists(last)) status = ls_checkpoint_load_algorithms(t->ctx, last);
    if (!resumed && path && ls__path_exists(path)) status = ls_algorithm_cache_load(t->ctx, path);
    t->writes_algorithm_cache = !resumed && path && status == LS_OK;
    status = forgive_mismatch(t, status);
    if (t->writes_algorithm_cache && t->settings->benchmark) status = check_cache_path(t, path);
    if (status == LS_ERR_MISMATCH && !t->only_trains)
        ls__error_hint(t->ctx, "--force ignores these kernels and selects new ones");
    return status;
}

static ls_status save_kernels(ls_run *t)
{
    const char *path = t->settings->algorithm_cache;
    const bool news = ls_context_rank(t->ctx) == 0 && t->writes_algorithm_cache &&
                      ls_algorithm_cache_timed_count(t->ctx) > 0;
    if (t->writes_algorithm_cache && t->settings->benchmark && !news && !ls__path_exists(path))
        ls__warn(t->ctx, LS_LOG_RUN, "--algorithm-cache %s is not written: no kernel was timed",
                 path);
    return news ? ls_algorithm_cache_save(t->ctx, path) : LS_OK;
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
static ls_status set_fault(ls_run *t)
{
    long long step, element;
    int length = 0;
    char op[LS__CALL_TEXT_SIZE];
    ls__injected_fault fault = { 0 };
    const char *text = t->settings->fault;
    if (sscanf(text, "%lld:%191[^:]:%lld%n", &step, op, &element, &length) != 3 || text[length] ||
        step < 0 || element < 0 || !read_op(op, &fault))
        return ls__fail(t->ctx, LS_ERR_SETTING,
                        "--inject-fault '%s': expected STEP:OP:ELEMENT, such as 40:7:0 or "
                        "40:linear@fc:0",
                        text);
    const int64_t steps = ls_loader_step_count(t->train);
    if (step / steps >= t->settings->epochs)
        return ls__fail(t->ctx, LS_ERR_SETTING, "--inject-fault '%s': the run has steps 0 to %lld",
                        text, (long long)(steps * t->settings->epochs - 1));
    fault.epoch = step / steps;
    fault.step = step % steps;
    fault.element = element;
    ls__net_set_injected_fault(t->net, &fault);
    return LS_OK;
}

void ls__hint_weights(ls_context *ctx, const ls_weight_report *report, const char *new_head)
{
    static const ls_weight_state states[] = { LS_WEIGHT_MISMATCHED, LS_WEIGHT_MISSING };
    bool only_head = ls_weight_report_count(report, LS_WEIGHT_UNEXPECTED) == 0, stem = false;
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; i < ls_weight_report_count(report, states[k]); i++) {
            const ls_weight_info info = ls_weight_report_at(report, states[k], i);
            only_head = only_head && info.head;
            stem = stem || (k == 0 && strcmp(info.name, "conv1.weight") == 0);
        }
    if (only_head)
        ls__error_hint(ctx, "only the last layer differs: %s trains a new one for these classes",
                       new_head);
    else
        ls__error_hint(ctx,
                       "%s--model, --stem, --image-size and --grey must be those of the weights",
                       stem ? "the first layer differs: --stem large has a 7x7 convolution, "
                              "--stem small a 3x3 convolution; "
                            : "");
}

/* A new last layer that is frozen keeps its random values. */
static void warn_frozen_head(const ls_run *t, const ls_weight_report *report)
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
        ls__warn(t->ctx, LS_LOG_RUN,
                 "--freeze '%s' freezes the new last layer, which keeps random values: --new-head "
                 "is for a layer that is trained",
                 t->settings->freeze);
}

ls_status ls__run_load_weights(ls_run *t)
{
    const ls__run_settings *r = t->settings;
    const ls_load_weights_config config = { .new_head = r->new_head,
                                            .key = r->weights_key,
                                            .classes = t->info.classes,
                                            .n_classes = t->info.options.n_classes };
    char path[LS__PATH_SIZE];
    const ls_status status =
        ls_net_load_weights(t->net, ls__weights_of(r->weights, path), &config, &t->weights);
    if (status == LS_OK && r->freeze) warn_frozen_head(t, t->weights);
    if (status != LS_OK && t->weights) ls__hint_weights(t->ctx, t->weights, "--new-head");
    if (status == LS_ERR_MISMATCH && !t->weights)
        ls__error_hint(t->ctx, "--weights-key KEY names the weights in a file");
    return status;
}

/* A setting whose value is unusable; on resume it is not that of the user. */
static ls_status fail_setting(const ls_run *t, bool resumed, const char *format, ...)
    LS_PRINTF(3, 4);
static ls_status fail_setting(const ls_run *t, bool resumed, const char *format, ...)
{
    const ls_status status = resumed ? LS_ERR_INVALID : LS_ERR_SETTING;
    va_list args;
    va_start(args, format);
    ls__fail_v(t->ctx, status, format, args);
    va_end(args);
    if (resumed) ls__error_hint(t->ctx, "this is the value in %s/config.json", t->dir);
    return status;
}

/* The net's or optimizer's error about a setting's value. Other errors, such as too little memory,
 * are not the setting's. */
static ls_status fail_refused(const ls_run *t, const char *name, bool resumed)
{
    const ls_status status = ls_context_status(t->ctx);
    const bool is_complete = status == LS_ERR_SETTING; /* the message names the setting */
    char message[LS__MESSAGE_SIZE];
    if (status != LS_ERR_INVALID && status != LS_ERR_NOT_FOUND && !is_complete) return status;
    snprintf(message, sizeof(message), "%s%s%s%s", is_complete ? "" : "--", is_complete ? "" : name,
             is_complete ? "" : ": ", plain_message(t->ctx));
    ls_context_clear_error(t->ctx);
    return fail_setting(t, resumed, "%s", message);
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

/* Freezes the parameters of all patterns. */
static ls_status freeze(ls_run *t, bool resumed)
{
    enum { MAX_PATTERN = 256 };
    char pattern[MAX_PATTERN];
    for (const char *at = t->settings->freeze; at;) {
        const size_t n = strcspn(at, ",");
        if (n == 0)
            return fail_setting(t, resumed,
                                "--freeze: expected PATTERN,..., got an empty pattern in '%s'",
                                t->settings->freeze);
        if (n >= MAX_PATTERN)
            return fail_setting(t, resumed,
                                "--freeze: expected patterns of less than %d characters",
                                (int)MAX_PATTERN);
        snprintf(pattern, sizeof(pattern), "%.*s", (int)n, at);
        if (ls_net_freeze(t->net, pattern) != LS_OK) return fail_refused(t, "freeze", resumed);
        at = at[n] ? at + n + 1 : NULL;
    }
    return trains(t->net) ? LS_OK
                          : fail_setting(t, resumed,
                                         "--freeze '%s': freezes all parameters, so nothing is "
                                         "trained",
                                         t->settings->freeze);
}

/* The model of the settings. On failure adds the setting that it may be due to. */
static ls_status build_net(ls_run *t, const ls_net_config *config)
{
    const ls_model *model = t->info.model;
    t->net = ls_net_build(t->ctx, model->function, &t->info.options, config);
    const ls_status status = ls_context_status(t->ctx);
    if (status == LS_ERR_SHAPE || status == LS_ERR_UNSUPPORTED)
        ls__error_hint(t->ctx, "--image-size is %lldx%lld; the usual size of --model %s is %lld",
                       (long long)t->settings->image_size.height,
                       (long long)t->settings->image_size.width, model->name,
                       (long long)model->image_size);
    return status;
}

static ls_status open_net(ls_run *t, bool resumed)
{
    const ls__run_settings *r = t->settings;
    const int64_t steps = r->epochs * ls_loader_step_count(t->train);
    float *weights = NULL;
    if (r->class_weights) {
        weights = calloc((size_t)t->info.options.n_classes, sizeof(*weights));
        if (!weights) return ls__fail_memory(t->ctx, "class weights", 0);
        ls_dataset_balanced_weights(t->train_data, weights); /* the net's constructor fails, too */
    }
    const ls_net_config config = {
        .input = ls_loader_input_spec(t->train),
        .steps = r->steps && r->steps < steps ? r->steps : steps,
        .precision = (ls_precision)r->precision,
        .loss = { ls__run_loss(r), .label_smoothing = (float)r->label_smoothing,
                  .class_weights = weights, .soft_targets = ls__run_mixes(r) }
    };
    const ls_status built = build_net(t, &config);
    free(weights);
    LS_TRY(built);
    if (r->freeze) LS_TRY(freeze(t, resumed));
    return !resumed && r->weights ? ls__run_load_weights(t) : LS_OK;
}

static ls_status open_optimizer(ls_run *t, bool resumed)
{
    const ls__run_settings *r = t->settings;
    t->optimizer = ls__run_open_optimizer(r, t->net);
    if (!t->optimizer && r->groups) return fail_refused(t, "param-groups", resumed);
    t->schedule = ls__run_open_schedule(r, t->ctx, ls_loader_step_count(t->train));
    return ls_context_status(t->ctx);
}

ls_training_state ls__run_state(const ls_run *t)
{
    return (ls_training_state){ .net = t->net,
                                .optimizer = t->optimizer,
                                .schedule = t->schedule,
                                .loader = t->train,
                                .validation = t->val,
                                .metric = ls__run_chosen_metric(t->settings) };
}

ls_context_config ls__run_context_config(const ls__run_settings *r)
{
    return (ls_context_config){ .device = r->device,
                                .seed = (uint64_t)r->seed,
                                .shards = (int)r->shards,
                                .sync_batch_norm = r->sync_batch_norm,
                                .threads = (int)r->threads,
                                .communication_timeout_seconds = r->rank_timeout,
                                .partition_optimizer = r->partition_optimizer,
                                .audit_every = r->audit_every,
                                .deterministic = (ls_deterministic)r->deterministic,
                                .benchmark = r->benchmark ? LS_BENCHMARK_ON : LS_BENCHMARK_OFF,
                                .nvtx = r->nvtx };
}

/* The images and their loaders. */
static ls_status open_data(ls_run *t)
{
    LS_TRY(ls__run_open_datasets(t));
    return open_loaders(t);
}

ls_status ls__run_open(ls_run *t, bool resumed)
{
    const ls__run_settings *r = t->settings;
    t->info = ls__run_model_info(r, t->model ? t->model : ls_model_find(r->model));
    LS_TRY(ls_context_status(t->ctx));
    const ls_status status = open_data(t);
    t->failed_in_data = status != LS_OK;
    LS_TRY(status);
    LS_TRY(load_kernels(t, resumed));
    LS_TRY(open_net(t, resumed));
    LS_TRY(open_optimizer(t, resumed));
    if (r->fault) LS_TRY(set_fault(t));
    return save_kernels(t);
}

void ls__run_release(ls_run *t)
{
    json_decref(t->manifest);
    json_decref(t->forced);
    json_decref(t->changed);
    json_decref(t->stored);
    ls_weight_report_close(&t->weights);
    ls_context_close(&t->ctx);
    free(t->classes);
    t->classes = NULL;
}
