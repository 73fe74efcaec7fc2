/* run_open.c: opens the objects of a run from its settings; see run_state.h. */
#include "base/context.h"
#include "base/error.h"
#include "base/path.h"
#include "checkpoint/algorithm_cache_file.h"
#include "checkpoint/model_info.h"
#include "run/compare.h"
#include "run/folders.h"
#include "run/run_state.h"
#include <lockstep/algorithm_cache.h>
#include <lockstep/text.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* With --force, kernels of another machine are ignored with a warning; others are selected. */
static ls_status forgive_mismatch(ls_run *t, ls_status status)
{
    if (status != LS_ERR_MISMATCH || !t->settings->force) return status;
    ls__warn(t->ctx, LS_LOG_RUN, "%s", ls_plain_message(ls_context_message(t->ctx)));
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
             ls_plain_message(ls_context_message(t->ctx)));
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
    if (status == LS_ERR_MISMATCH && resumed == (t->stored != NULL) && t->extent == LS_RUN_WHOLE)
        ls__run_settings_hint_mismatch(t->ctx, t->settings, t->changed,
                                       "--force ignores these kernels and selects new ones");
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
    const bool found = ls_run_find_weights(r->weights, path, sizeof(path));
    const ls_status status =
        ls_net_load_weights(t->net, found ? path : r->weights, &config, &t->weights);
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
             is_complete ? "" : ": ", ls_plain_message(ls_context_message(t->ctx)));
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
        ls__error_hint(t->ctx, "--image-size is %lldx%lld; the usual size of %s %s is %lld",
                       (long long)t->settings->image_size.height,
                       (long long)t->settings->image_size.width, t->model ? "the model" : "--model",
                       model->name, (long long)model->image_size);
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
                                .threads = (int)r->threads,
                                .communication_timeout_seconds = r->rank_timeout,
                                .deterministic = (ls_deterministic)r->deterministic,
                                .arithmetic = (ls_arithmetic)r->arithmetic,
                                .benchmark = r->benchmark ? LS_BENCHMARK_ON : LS_BENCHMARK_OFF,
                                LS__CONTEXT_SETTINGS(LS__SETTING_COPY) };
}

/* The images and their loaders. */
static ls_status open_data(ls_run *t)
{
    LS_TRY(ls__run_open_datasets(t));
    return t->extent == LS_RUN_IMAGES ? LS_OK : ls__run_open_loaders(t);
}

ls_status ls__run_open_objects(ls_run *t, bool resumed)
{
    const ls__run_settings *r = t->settings;
    t->info = ls__run_model_info(r, t->model ? t->model : ls_model_find(r->model));
    LS_TRY(ls_context_status(t->ctx));
    const ls_status status = open_data(t);
    t->failed_in_data = status != LS_OK;
    LS_TRY(status);
    if (t->extent == LS_RUN_IMAGES) return LS_OK;
    LS_TRY(load_kernels(t, resumed));
    LS_TRY(open_net(t, resumed));
    LS_TRY(open_optimizer(t, resumed));
    if (r->fault) LS_TRY(set_fault(t));
    return save_kernels(t);
}

void ls__run_release(ls_run *t)
{
    json_decref(t->computed);
    json_decref(t->manifest);
    json_decref(t->forced);
    json_decref(t->changed);
    json_decref(t->stored);
    ls_weight_report_close(&t->weights);
    ls_context_close(&t->ctx);
    free(t->classes);
    t->classes = NULL;
}
