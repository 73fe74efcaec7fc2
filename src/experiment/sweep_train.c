/* sweep_train.c: the runs of a sweep's trials; see sweep.h. */
#include "base/available.h"
#include "base/error.h"
#include "experiment/sweep.h"
#include "io/json.h"
#include "log/run_folder.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static bool is_stopped(const ls_sweep *s)
{
    return s->config.stop && *s->config.stop;
}

/* ---- A process ---- */

typedef struct job_process {
    ls_search_job job;
    int64_t log_begin; /* bytes that the log had before */
} job_process;

enum { LOG_PATH_SIZE = LS__RUN_PATH_SIZE + 8 };
static void make_paths(const ls_sweep *s, int64_t trial, char dir[LS__RUN_PATH_SIZE],
                       char log[LOG_PATH_SIZE])
{
    ls__sweep_trial_dir(s->values.out, trial, dir, LS__RUN_PATH_SIZE);
    snprintf(log, LOG_PATH_SIZE, "%s.log", dir);
}

/* Waits while the process of a killed sweep still saves the run, or until the sweep is stopped. */
static void wait_for_lock(const ls_sweep *s, const char *dir)
{
    char path[LS__RUN_PATH_SIZE + 8];
    snprintf(path, sizeof(path), "%s/.lock", dir);
    const int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return; /* a run that nobody trains */
    for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK && !is_stopped(s);
         i++) {
        if (i == 20) ls__note(s->ctx, LS_LOG_RUN, "waiting for the process that trains %s", dir);
        nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
    }
    close(fd);
}

/* NULL if it can't be read, which the trial reports. */
static json_t *read_json(const char *dir, const char *name)
{
    char path[LS__RUN_PATH_SIZE + 16], reason[LS__JSON_REASON_SIZE];
    json_t *json = NULL;
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return ls__json_read(path, &json, reason) == LS_OK ? json : NULL;
}

/* Whether 'lockstep train --resume' has changed --on-bad-image, and so the images of later steps.
 */
static bool has_other_bad_images(const char *dir, const ls__run_settings *r)
{
    static const char name[] = "on-bad-image";
    json_t *config = read_json(dir, "config.json");
    const char *had = ls__json_get_string(json_object_get(config, "options"), name);
    const char *choices =
        ls__run_settings_table[ls_setting_find(ls__run_settings_table, name, strlen(name))].value;
    const bool differs = had && ls__setting_choice(choices, had) != r->on_bad_image;
    json_decref(config);
    return differs;
}

/* Whether the run was begun with other images, which --force allowed to change. */
static bool has_other_images(const ls_sweep *s, const char *dir)
{
    json_t *manifest = read_json(dir, "manifest.json");
    if (!manifest) return false;
    const json_t *identity = json_object_get(manifest, "identity");
    const json_t *validation = json_object_get(identity, "validation");
    const bool same =
        json_equal(json_object_get(identity, "data"), json_object_get(s->images, "train")) &&
        json_equal(json_object_get(validation, "data"), json_object_get(s->images, "validation"));
    json_decref(manifest);
    return !same;
}

/* Whether the run of the trial can be resumed. Removes one that must begin again. */
static bool can_resume(const ls_sweep *s, int64_t trial, const char *dir, const ls__run_settings *r)
{
    if (!ls__run_folder_holds_run(dir)) return false;
    if (!has_other_images(s, dir) && !has_other_bad_images(dir, r)) return true;
    ls__note(s->ctx, LS_LOG_RUN, "trial %lld begins again, because its run has other images",
             (long long)trial);
    ls__run_folder_remove(dir);
    return false;
}

/* The threads of a trial that [train] does not give: 0, one per processor, also for a run that had
 * fewer, or its share of them. */
static int64_t thread_share(const ls_sweep *s)
{
    const int64_t share = ls__available_processors() / s->values.parallel;
    return s->values.parallel == 1 ? 0 : share > 0 ? share : 1;
}

/* Starts or resumes the run of a trial. *n_running does not change if the sweep is stopped
 * meanwhile. */
static ls_status start(ls_sweep *s, const ls_search_job *job, job_process *running, int *n_running)
{
    char dir[LS__RUN_PATH_SIZE], log[LOG_PATH_SIZE];
    ls__words words = { 0 };
    ls__run_settings r;
    struct stat before;
    make_paths(s, job->trial, dir, log);
    wait_for_lock(s, dir);
    LS_TRY(ls__sweep_check_settings(s, LS__SWEEP_TRIAL, job->trial, &r));
    const bool resumes = can_resume(s, job->trial, dir, &r);
    ls__words_put(&words, "%s", s->program);
    ls__words_put(&words, "train");
    ls__words_put(&words, resumes ? "--resume" : "--out");
    ls__words_put(&words, "%s", dir);
    ls__sweep_put_settings(s, resumes ? LS__SWEEP_EXECUTION : LS__SWEEP_TRIAL, job->trial, "--",
                           &words);
    if (!ls__sweep_fixed_text(&s->file, "threads"))
        ls__words_put(&words, "--threads=%lld", (long long)thread_share(s));
    if (job->epochs < s->epochs)
        ls__words_put(&words, "--stop-at=%lld", (long long)(job->epochs * (s->n_images / r.batch)));
    const int64_t log_begin = stat(log, &before) == 0 ? before.st_size : 0;
    int child;
    const int error =
        words.failed ? ENOMEM : ls__child_start(&s->children, words.items, log, &child);
    ls__words_free(&words);
    if (error == 0) {
        running[child] = (job_process){ *job, log_begin };
        ++*n_running;
    }
    if (error == 0 || is_stopped(s)) return LS_OK;
    char reason[LS__ERRNO_TEXT_SIZE];
    return ls__fail(s->ctx, LS_ERR_IO, "trial %lld: %s could not be started: %s",
                    (long long)job->trial, s->program,
                    ls__errno_text(error, reason, sizeof(reason)));
}

static ls_status add(ls_sweep *s, const ls_sweep_trial *result)
{
    LS_TRY(ls__sweep_add(s->ctx, &s->results, result));
    return ls__sweep_save(s);
}

/* A trial that failed stops the sweep, or is ranked last. */
static ls_status fail_trial(ls_sweep *s, const job_process *process, const char *log, int status,
                            ls_sweep_trial *result, ls_sweep_end *end)
{
    char error[LS__CHILD_ERROR_SIZE];
    ls__child_failure failure;
    const long long trial = process->job.trial;
    ls__child_read_failure(log, status, &failure);
    ls__child_read_error(log, process->log_begin, error);
    if (s->config.on_failure)
        s->config.on_failure(s->config.user,
                             &(ls_sweep_failure){ .trial = trial,
                                                  .how = failure.how,
                                                  .log = log,
                                                  .end = failure.tail,
                                                  .exit_status = failure.exit_status });
    if (!s->values.on_failed_trial) {
        const bool by_data = failure.exit_status == LS_EXIT_DATA;
        *end = LS_SWEEP_TRIAL_FAILED;
        ls__fail(s->ctx, by_data ? LS_ERR_DATA : LS_ERR_IO, "trial %lld %s: %s", trial, failure.how,
                 *error ? error : log);
        ls__error_hint(s->ctx, by_data ? "if images are repaired, the same command with --force "
                                         "continues the sweep"
                                       : "the same command continues the sweep");
        return ls_context_status(s->ctx);
    }
    result->error = strdup(*error ? error : "see the log");
    return result->error ? add(s, result) : ls__fail_memory(s->ctx, log, 0);
}

/* Adds the result of a process that has ended. is_ending: another trial has stopped the sweep, and
 * so this process, too. */
static ls_status finish(ls_sweep *s, const job_process *process, int status, bool is_ending,
                        ls_sweep_end *end)
{
    char dir[LS__RUN_PATH_SIZE], log[LOG_PATH_SIZE];
    make_paths(s, process->job.trial, dir, log);
    ls_sweep_trial result = { .trial = process->job.trial,
                              .epochs = process->job.epochs,
                              .metric = NAN };
    const int exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (exit_status == LS_EXIT_DONE) LS_TRY(ls__sweep_read_metric(s, dir, &result));
    if (exit_status == LS_EXIT_DONE || exit_status == LS_EXIT_NONFINITE) return add(s, &result);
    if (is_ending) return LS_OK;
    if (!is_stopped(s)) return fail_trial(s, process, log, status, &result, end);
    *end = LS_SWEEP_STOPPED;
    return LS_OK;
}

/* ---- A round ---- */

static void report_progress(const ls_sweep *s, int64_t n, const ls_search_job *jobs)
{
    ls_sweep_progress p = { .first_trial = jobs[0].trial,
                            .last_trial = jobs[n - 1].trial,
                            .trial_count = ls_search_trial_count(s->search),
                            .job_count = n };
    if (!s->config.on_progress) return;
    for (int64_t i = 0; i < n; i++)
        p.done += ls__sweep_find(s, jobs[i].trial, jobs[i].epochs) != NULL;
    s->config.on_progress(s->config.user, &p);
}

/* Waits until one of the processes ends. */
static ls_status wait_for_one(ls_sweep *s, const job_process *running, bool is_ending,
                              ls_sweep_end *end)
{
    int child, status;
    const int error = ls__child_wait(&s->children, &child, &status);
    if (error) return ls__fail_errno(s->ctx, error, "waiting for a trial");
    return finish(s, &running[child], status, is_ending, end);
}

static bool have_equal_values(const ls_sweep *s, int64_t a, int64_t b)
{
    for (int i = 0; i < s->file.n_searched; i++)
        if (ls_search_value(s->search, a, i) != ls_search_value(s->search, b, i)) return false;
    return true;
}

/* The first earlier trial with the same values that has a result of these epochs, or will have it
 * at the end of the round; -1 if there is none. */
static int64_t find_equal(const ls_sweep *s, int64_t n, const ls_search_job *jobs,
                          const ls_search_job *job)
{
    for (int64_t trial = 0; trial < job->trial; trial++) {
        if (!have_equal_values(s, trial, job->trial)) continue;
        bool has_result = ls__sweep_find(s, trial, job->epochs) != NULL;
        for (int64_t i = 0; i < n; i++) has_result |= jobs[i].trial == trial;
        if (has_result) return trial;
    }
    return -1;
}

/* Adds the results of jobs that did not train, because an earlier trial has the same values. */
static ls_status copy_results(ls_sweep *s, int64_t n, const ls_search_job *jobs)
{
    bool copies = false;
    for (int64_t i = 0; i < n; i++) {
        if (ls__sweep_find(s, jobs[i].trial, jobs[i].epochs)) continue;
        const int64_t trial = find_equal(s, n, jobs, &jobs[i]);
        ls_sweep_trial result = *ls__sweep_find(s, trial, jobs[i].epochs);
        result.trial = jobs[i].trial;
        if (result.error && !(result.error = strdup(result.error)))
            return ls__fail_memory(s->ctx, "sweep", 0);
        LS_TRY(ls__sweep_add(s->ctx, &s->results, &result));
        ls__note(s->ctx, LS_LOG_RUN, "trial %lld has the values of trial %lld, and its result",
                 (long long)jobs[i].trial, (long long)trial);
        copies = true;
    }
    return copies ? ls__sweep_save(s) : LS_OK;
}

ls_status ls__sweep_train(ls_sweep *s, int64_t n, const ls_search_job *jobs, ls_sweep_end *end)
{
    job_process running[LS__MAX_CHILDREN]; /* by child */
    ls_status status = LS_OK;
    ls__run_settings r;
    int n_running = 0;
    for (int64_t i = 0; i < n; i++) /* before the first one trains */
        LS_TRY(ls__sweep_check_settings(s, LS__SWEEP_TRIAL, jobs[i].trial, &r));
    for (int64_t next = 0;;) {
        while (status == LS_OK && *end == LS_SWEEP_DONE && next < n &&
               n_running < s->values.parallel) {
            const ls_search_job *job = &jobs[next++];
            if (ls__sweep_find(s, job->trial, job->epochs) || find_equal(s, n, jobs, job) >= 0)
                continue;
            const int n_before = n_running;
            status = start(s, job, running, &n_running);
            if (status == LS_OK && n_running == n_before) *end = LS_SWEEP_STOPPED;
        }
        report_progress(s, n, jobs);
        if (n_running == 0) break;
        const ls_status ended = wait_for_one(s, running, status != LS_OK, end);
        n_running--;
        if (status == LS_OK) status = ended;
        if (status != LS_OK) ls__children_stop(&s->children); /* they save and end */
    }
    return status == LS_OK && *end == LS_SWEEP_DONE ? copy_results(s, n, jobs) : status;
}
