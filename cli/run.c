/* run.c: opens the objects of a run from its options. */
#include "folders.h"
#include "run.h"
#include "run/algorithm_cache_file.h"
#include "run/compare.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int open_data(cli_run *t)
{
    const recipe *r = t->recipe;
    int answer = folders_open_train(t->verb, t->ctx, r->data_dir, &t->train_data);
    if (answer != EXIT_DONE) {
        if (r->resume && !file_exists(r->data_dir))
            print_message(t->verb,
                          "the run had its images there; --data-dir DIR names another place");
        return answer;
    }
    const int n_classes = ls_dataset_class_count(t->train_data);
    t->classes = calloc((size_t)n_classes, sizeof(*t->classes));
    if (!t->classes) return print_error(t->verb, NULL, EXIT_RUNTIME);
    for (int i = 0; i < n_classes; i++) t->classes[i] = ls_dataset_class_name(t->train_data, i);
    t->info.classes = t->classes;
    t->info.options.n_classes = n_classes;
    if (!r->no_val)
        answer = folders_open_val(t->verb, t->ctx, r->data_dir, false, n_classes, t->classes,
                                  &t->val_data);
    if (answer != EXIT_DONE) return answer;
    if (ls_dataset_count(t->train_data) < r->batch)
        return fail_with(
            t->verb, EXIT_DATA,
            "%s: %lld training images do not fill one batch of %lld: use -b %lld or less",
            r->data_dir, (long long)ls_dataset_count(t->train_data), (long long)r->batch,
            (long long)ls_dataset_count(t->train_data));
    const ls_loader_config train = recipe_train_loader(r), val = recipe_val_loader(r, &t->info);
    ls_digest digest;
    for (int i = 0; i < (r->digest_contents ? 2 : 0); i++) {
        ls_dataset *data = i ? t->val_data : t->train_data;
        if (data && ls_dataset_digest(data, true, &digest) != LS_OK)
            return print_error(t->verb, t->ctx, EXIT_RUNTIME);
    }
    t->train = ls_loader_open(t->train_data, &train);
    if (t->val_data) t->val = ls_loader_open(t->val_data, &val);
    const bool good = t->train && (t->val || !t->val_data);
    return good ? EXIT_DONE : print_error(t->verb, t->ctx, EXIT_DATA);
}

/* With --force, kernels of another machine are ignored with a warning; others are selected. */
static ls_status forgive_mismatch(cli_run *t, ls_status status)
{
    if (status != LS_ERR_MISMATCH || !t->recipe->force) return status;
    print_warning(t->verb, "%s", plain_message(ls_context_message(t->ctx)));
    ls_context_clear_error(t->ctx);
    return LS_OK;
}

/* Fails before anything is timed if the algorithm cache can't be written. A file that exists but is
 * read-only gives a warning only. */
static ls_status check_cache_path(cli_run *t, const char *path)
{
    const ls_status status = ls__algorithm_cache_check_path(t->ctx, path);
    if (status == LS_OK || !file_exists(path)) return status;
    print_warning(t->verb, "what is timed is not kept: %s",
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
    const int answer = print_error(t->verb, t->ctx, EXIT_RUNTIME);
    if (status == LS_ERR_MISMATCH && strcmp(t->verb->name, "train") == 0)
        print_message(t->verb, "--force continues anyway, with other kernels");
    return answer;
}

static int save_kernels(cli_run *t)
{
    const char *path = t->recipe->algorithm_cache;
    const bool news = t->writes_algorithm_cache && ls_algorithm_cache_timed_count(t->ctx) > 0;
    if (t->writes_algorithm_cache && t->recipe->benchmark && !news && !file_exists(path))
        print_warning(t->verb, "--algorithm-cache %s is not written: no kernel was timed", path);
    const bool good = !news || ls_algorithm_cache_save(t->ctx, path) == LS_OK;
    return good ? EXIT_DONE : print_error(t->verb, t->ctx, EXIT_RUNTIME);
}

/* Steps are counted over the whole run, from 0, as in the run log. */
static bool set_fault(cli_run *t)
{
    long long step, op, element;
    int length = 0;
    const char *text = t->recipe->fault;
    if (sscanf(text, "%lld:%lld:%lld%n", &step, &op, &element, &length) != 3 || text[length] ||
        step < 0 || op < 0 || element < 0)
        return fail_with(t->verb, false,
                         "--inject-fault '%s': expected STEP:OP:ELEMENT, such as 40:7:0", text);
    const int64_t steps = ls_loader_step_count(t->train);
    if (step / steps >= t->recipe->epochs)
        return fail_with(t->verb, false, "--inject-fault '%s': the run has steps 0 to %lld", text,
                         (long long)(steps * t->recipe->epochs - 1));
    ls__net_set_fault(t->net, &(ls__fault){ step / steps, step % steps, op, element });
    return true;
}

static int open_net(cli_run *t)
{
    const recipe *r = t->recipe;
    const int64_t steps = r->epochs * ls_loader_step_count(t->train);
    const ls_net_config config = { .input = ls_loader_spec(t->train),
                                   .steps = r->steps && r->steps < steps ? r->steps : steps,
                                   .precision = (ls_precision)r->precision,
                                   .loss = { LS_CROSS_ENTROPY,
                                             .label_smoothing = (float)r->label_smoothing } };
    t->net = ls_net_build(t->ctx, t->info.model->function, &t->info.options, &config);
    t->optimizer = recipe_open_optimizer(r, t->net);
    t->schedule = recipe_open_schedule(r, t->ctx, ls_loader_step_count(t->train));
    const bool good = t->net && t->optimizer && t->schedule;
    if (good && r->fault && !set_fault(t)) return EXIT_USAGE;
    return good ? EXIT_DONE : print_error(t->verb, t->ctx, EXIT_RUNTIME);
}

ls_training_state cli_run_state(const cli_run *t)
{
    return (ls_training_state){ .net = t->net,
                                .optimizer = t->optimizer,
                                .schedule = t->schedule,
                                .loader = t->train,
                                .validation = t->val };
}

int cli_run_open(cli_run *t, bool resumed)
{
    const recipe *r = t->recipe;
    t->info = recipe_model(r);
    t->ctx = ls_context_open(
        &(ls_context_config){ .device = r->device,
                              .seed = (uint64_t)r->seed,
                              .threads = (int)r->threads,
                              .deterministic = (ls_deterministic)r->deterministic,
                              .benchmark = r->benchmark ? LS_BENCHMARK_ON : LS_BENCHMARK_OFF,
                              .nvtx = r->nvtx,
                              .log = print_log });
    int answer =
        ls_context_status(t->ctx) == LS_OK ? EXIT_DONE : print_error(t->verb, t->ctx, EXIT_RUNTIME);
    if (answer == EXIT_DONE) answer = open_data(t);
    if (answer == EXIT_DONE) answer = load_kernels(t, resumed);
    if (answer == EXIT_DONE) answer = open_net(t);
    if (answer == EXIT_DONE) answer = save_kernels(t);
    return answer;
}

void cli_run_close(cli_run *t)
{
    json_decref(t->manifest);
    json_decref(t->forced);
    json_decref(t->changed);
    ls_context_close(&t->ctx);
    free(t->classes);
    t->classes = NULL;
}
