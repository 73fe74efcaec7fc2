/* sweep_train.c: the runs of a sweep's trials; see sweep.h. */
#include "terminal/progress.h"
#include "io/json.h"
#include "log/run_folder.h"
#include "experiments/sweep_history.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- A process ---- */

/* The steps of an epoch of the trial; -1 after an error, which is printed. */
static int64_t steps_per_epoch(const sweep *s, int64_t trial)
{
    char **words = sweep_trial_words(s, trial);
    ls__run_settings r;
    const int64_t steps = sweep_check_words(s, words, &r) ? s->n_images / r.batch : -1;
    sweep_free_words(words);
    return steps;
}

typedef struct job_process {
    pid_t pid; /* 0 = none */
    ls_search_job job;
    int64_t log_begin; /* bytes that the log had before */
} job_process;

enum { LOG_PATH_SIZE = LS__RUN_PATH_SIZE + 8 };
static void make_paths(const sweep *s, int64_t trial, char dir[LS__RUN_PATH_SIZE],
                       char log[LOG_PATH_SIZE])
{
    sweep_trial_dir(s->out, trial, dir);
    snprintf(log, LOG_PATH_SIZE, "%s.log", dir);
}

/* Waits while the process of a killed sweep still saves the run, or until a signal. */
static void wait_for_lock(const char *dir)
{
    char path[LS__RUN_PATH_SIZE + 8];
    snprintf(path, sizeof(path), "%s/.lock", dir);
    const int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return; /* a run that nobody trains */
    for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK && !caught_signal;
         i++) {
        if (i == 20) print_message("waiting for the process that trains %s", dir);
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
static bool has_other_bad_images(const char *dir, char *const *words)
{
    static const char name[] = "--on-bad-image=";
    const char *wanted = "fail";
    for (int i = 0; words[i]; i++)
        if (strncmp(words[i], name, sizeof(name) - 1) == 0) wanted = words[i] + sizeof(name) - 1;
    json_t *config = read_json(dir, "config.json");
    const char *had =
        json_string_value(json_object_get(json_object_get(config, "options"), "on-bad-image"));
    const bool same = !had || strcmp(had, wanted) == 0;
    json_decref(config);
    return !same;
}

/* Whether the run was begun with other images, which --force allowed to change. */
static bool has_other_images(const sweep *s, const char *dir)
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

/* Starts or resumes the run of a trial. Returns the exit status. */
static int start(sweep *s, const ls_search_job *job, job_process *out)
{
    static char train[] = "train", new_run[] = "--out", resume[] = "--resume";
    char dir[LS__RUN_PATH_SIZE], log[LOG_PATH_SIZE];
    char threads[LS__NUMBER_OPTION_SIZE], stop[LS__NUMBER_OPTION_SIZE];
    char *argv[LS__MAX_SETTINGS + 8] = { s->program, train };
    make_paths(s, job->trial, dir, log);
    wait_for_lock(dir);
    char **words = sweep_trial_words(s, job->trial);
    bool resumes = ls__run_folder_holds_run(dir);
    if (resumes && words && (has_other_images(s, dir) || has_other_bad_images(dir, words))) {
        print_note("trial %lld begins again, because its run has other images",
                   (long long)job->trial);
        ls__run_folder_remove(dir);
        resumes = false;
    }
    if (resumes) {
        sweep_free_words(words);
        words = sweep_resume_words(s);
    }
    const int64_t steps = steps_per_epoch(s, job->trial), parallel = s->values->parallel;
    if (!words || steps < 0) return sweep_free_words(words), EXIT_USAGE;
    int n = 2;
    argv[n++] = resumes ? resume : new_run;
    argv[n++] = dir;
    for (int i = 0; words[i]; i++) argv[n++] = words[i];
    if (!sweep_fixed_text(s->file,
                          "threads")) { /* 0: one per processor, also of a run that had fewer */
        const int64_t share = processor_count() / parallel;
        argv[n++] = ls__child_number_option("threads",
                                            parallel == 1 ? 0
                                            : share > 0   ? share
                                                          : 1,
                                            threads);
    }
    if (job->epochs < s->epochs)
        argv[n++] = ls__child_number_option("stop-at", job->epochs * steps, stop);
    struct stat before;
    *out = (job_process){ .job = *job, .log_begin = stat(log, &before) == 0 ? before.st_size : 0 };
    const int error = ls__child_start(&s->children, argv, log, &out->pid);
    sweep_free_words(words);
    if (!error) return EXIT_DONE;
    out->pid = 0;
    if (caught_signal) return EXIT_SIGNAL + caught_signal;
    return fail_with(EXIT_RUNTIME, "trial %lld: %s could not be started: %s", (long long)job->trial,
                     s->program, strerror(error));
}

static int add(sweep *s, const sweep_result *result)
{
    return sweep_add(s, result) ? sweep_save(s) : print_error(NULL, EXIT_RUNTIME);
}

/* Prints why a trial has failed. Returns the exit status, EXIT_DONE if the sweep continues. */
static int fail_trial(sweep *s, const job_process *process, const char *log, int status,
                      sweep_result *result)
{
    char name[32], error[LS__CHILD_ERROR_SIZE];
    ls__child_failure failure;
    snprintf(name, sizeof(name), "trial %lld", (long long)process->job.trial);
    ls__child_read_failure(log, status, &failure);
    print_child_failure(name, log, &failure);
    if (!s->values->on_failed_trial) {
        print_message(failure.exit_status == EXIT_DATA
                          ? "if images are repaired, the same command with --force continues the "
                            "sweep"
                          : "the same command continues the sweep");
        return failure.exit_status;
    }
    ls__child_read_error(log, process->log_begin, error);
    result->has_failed = true;
    result->error = strdup(*error ? error : "see the log");
    return result->error ? add(s, result) : print_error(NULL, EXIT_RUNTIME);
}

/* Adds the result of a process that has ended. is_stopping: another trial has stopped the sweep,
 * and so this process, too. Returns the exit status. */
static int finish(sweep *s, const job_process *process, int status, bool is_stopping)
{
    char dir[LS__RUN_PATH_SIZE], log[LOG_PATH_SIZE];
    make_paths(s, process->job.trial, dir, log);
    sweep_result result = { .trial = process->job.trial, .epochs = process->job.epochs };
    const int exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    result.has_failed = exit_status == EXIT_NONFINITE;
    if (exit_status == EXIT_DONE || result.has_failed) {
        const int answer = result.has_failed ? EXIT_DONE : sweep_read_metric(s, dir, &result);
        return answer == EXIT_DONE ? add(s, &result) : answer;
    }
    if (caught_signal) return EXIT_SIGNAL + caught_signal;
    return is_stopping ? EXIT_DONE : fail_trial(s, process, log, status, &result);
}

/* ---- A round ---- */

static void print_progress(const sweep *s, int64_t n, const ls_search_job *jobs)
{
    int64_t n_done = 0;
    if (print_is_quiet() || !isatty(STDERR_FILENO)) return;
    for (int64_t i = 0; i < n; i++) n_done += sweep_find(s, jobs[i].trial, jobs[i].epochs) != NULL;
    progress_erase();
    if (n_done < n)
        print_text(stderr, "trials %lld to %lld of %lld: %lld of %lld have trained",
                   (long long)jobs[0].trial, (long long)jobs[n - 1].trial,
                   (long long)ls_search_trial_count(s->search), (long long)n_done, (long long)n);
    fflush(stderr);
}

/* Waits until one of the processes ends. Returns the exit status. */
static int wait_for_one(sweep *s, job_process *running, bool is_stopping)
{
    pid_t pid;
    int status;
    const int error = ls__child_wait(&s->children, &pid, &status);
    if (error) return fail_with(EXIT_RUNTIME, "waiting for a trial: %s", strerror(error));
    for (int i = 0; i < LS__MAX_CHILDREN; i++) {
        if (running[i].pid != pid) continue;
        running[i].pid = 0;
        return finish(s, &running[i], status, is_stopping);
    }
    return EXIT_DONE;
}

static bool have_equal_values(const sweep *s, int64_t a, int64_t b)
{
    for (int i = 0; i < s->file->n_searched; i++)
        if (ls_search_value(s->search, a, i) != ls_search_value(s->search, b, i)) return false;
    return true;
}

/* The first earlier trial with the same values that has a result of these epochs, or will have it
 * at the end of the round; -1 if there is none. */
static int64_t find_equal(const sweep *s, int64_t n, const ls_search_job *jobs,
                          const ls_search_job *job)
{
    for (int64_t trial = 0; trial < job->trial; trial++) {
        if (!have_equal_values(s, trial, job->trial)) continue;
        bool has_result = sweep_find(s, trial, job->epochs) != NULL;
        for (int64_t i = 0; i < n; i++) has_result |= jobs[i].trial == trial;
        if (has_result) return trial;
    }
    return -1;
}

/* Adds the results of jobs that did not train, because an earlier trial has the same values.
 * Returns the exit status. */
static int copy_results(sweep *s, int64_t n, const ls_search_job *jobs)
{
    bool copies = false;
    for (int64_t i = 0; i < n; i++) {
        if (sweep_find(s, jobs[i].trial, jobs[i].epochs)) continue;
        const int64_t trial = find_equal(s, n, jobs, &jobs[i]);
        sweep_result result = *sweep_find(s, trial, jobs[i].epochs);
        result.trial = jobs[i].trial;
        if (result.error && !(result.error = strdup(result.error)))
            return print_error(NULL, EXIT_RUNTIME);
        if (!sweep_add(s, &result)) return print_error(NULL, EXIT_RUNTIME);
        print_note("trial %lld has the values of trial %lld, and its result",
                   (long long)jobs[i].trial, (long long)trial);
        copies = true;
    }
    return copies ? sweep_save(s) : EXIT_DONE;
}

int sweep_train(sweep *s, int64_t n, const ls_search_job *jobs)
{
    job_process running[LS__MAX_CHILDREN] = { 0 };
    int answer = EXIT_DONE, n_running = 0;
    for (int64_t i = 0; i < n; i++) /* before the first one trains */
        if (steps_per_epoch(s, jobs[i].trial) < 0) return EXIT_USAGE;
    for (int64_t next = 0;;) {
        while (answer == EXIT_DONE && next < n && n_running < s->values->parallel) {
            const ls_search_job *job = &jobs[next++];
            if (sweep_find(s, job->trial, job->epochs) || find_equal(s, n, jobs, job) >= 0)
                continue;
            int i = 0;
            while (running[i].pid > 0) i++;
            answer = start(s, job, &running[i]);
            n_running += answer == EXIT_DONE;
        }
        print_progress(s, n, jobs);
        if (n_running == 0) return answer == EXIT_DONE ? copy_results(s, n, jobs) : answer;
        const int ended = wait_for_one(s, running, answer != EXIT_DONE);
        n_running--;
        if (answer == EXIT_DONE) answer = ended;
        if (answer != EXIT_DONE) ls__children_stop(&s->children); /* they save and end */
    }
}
