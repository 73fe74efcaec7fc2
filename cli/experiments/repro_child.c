/* repro_child.c: the processes that train the legs of a run; see repro.h. */
#include "experiments/repro.h"
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

static int answer_of(const repro_run *run, const char *log, int status)
{
    if (caught_signal) return EXIT_SIGNAL + caught_signal;
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_DONE) return EXIT_DONE;
    char name[sizeof(run->name) + 4];
    snprintf(name, sizeof(name), "run %s", run->name);
    ls__child_failure failure;
    ls__child_read_failure(log, status, &failure);
    print_child_failure(name, log, &failure);
    return failure.exit_status == EXIT_RUNTIME || WIFSIGNALED(status) ? EXIT_NO_VERDICT
                                                                      : failure.exit_status;
}

enum { MAX_WORDS = 2 * LS__MAX_SETTINGS + 24 };

/* The words that start this program, in several ranks if there are any. Returns their number. */
static int launch_words(const repro_leg *leg, char *program, char n_ranks[LS__NUMBER_OPTION_SIZE],
                        char **argv)
{
    static char mpirun[] = "mpirun", count[] = "-n", bind_to[] = "--bind-to", none[] = "none",
                oversubscribe[] = "--oversubscribe", train[] = "train";
    int n = 0;
    if (leg->ranks > 1) {
        snprintf(n_ranks, LS__NUMBER_OPTION_SIZE, "%d", leg->ranks);
        char *const words[] = { mpirun, count, n_ranks, bind_to, none, oversubscribe };
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) argv[n++] = words[i];
    }
    argv[n++] = program;
    argv[n++] = train;
    return n;
}

/* Runs it to its end, unless a signal has come before. Returns 0 or an errno. */
static int run_process(repro *r, char **argv, const char *log, int *status)
{
    pid_t pid;
    const int error = ls__child_start(&r->children, argv, log, &pid);
    return error ? error : ls__child_wait(&r->children, &pid, status);
}

int repro_train(repro *r, const repro_run *run)
{
    char dir[REPRO_PATH_SIZE + 80], log[REPRO_PATH_SIZE + 80];
    snprintf(dir, sizeof(dir), "%s/%s", r->out, run->name);
    snprintf(log, sizeof(log), "%s/%s.log", r->out, run->name);
    int answer = EXIT_DONE;
    for (int i = 0; i < run->n_legs && answer == EXIT_DONE; i++) {
        const repro_leg *leg = &run->legs[i];
        char out[] = "--out", resume[] = "--resume";
        char steps[LS__NUMBER_OPTION_SIZE], workers[LS__NUMBER_OPTION_SIZE],
            threads[LS__NUMBER_OPTION_SIZE];
        char stop[LS__NUMBER_OPTION_SIZE], ranks[LS__NUMBER_OPTION_SIZE],
            *argv[MAX_WORDS + 1] = { NULL };
        int n = launch_words(leg, r->program, ranks, argv), status = 0;
        argv[n++] = i == 0 ? out : resume;
        argv[n++] = dir;
        for (int k = 0; i == 0 && r->arguments[k]; k++) argv[n++] = r->arguments[k];
        if (i == 0) argv[n++] = ls__child_number_option("steps", r->steps, steps);
        argv[n++] = ls__child_number_option("workers", leg->workers, workers);
        argv[n++] = ls__child_number_option("threads", leg->threads, threads);
        if (i + 1 < run->n_legs)
            argv[n++] = ls__child_number_option("stop-at", run->stops[i], stop);
        const int error = run_process(r, argv, log, &status);
        if (error && !caught_signal)
            return fail_with(EXIT_NO_VERDICT, "run %s: %s could not be started or waited for: %s",
                             run->name, argv[0], strerror(error));
        answer = answer_of(run, log, status);
    }
    return answer;
}
