/* repro_train.c: the processes that train the legs of a run; see repro_state.h. */
#include "experiment/repro_state.h"

#include "base/error.h"
#include <stdio.h>
#include <sys/wait.h>

/* An exit status of `lockstep train` (docs/training.md). */
static ls_status status_of(int exit_status)
{
    enum { USAGE = 2, DATA = 3, NONFINITE = 4 };
    return exit_status == USAGE       ? LS_ERR_SETTING
           : exit_status == DATA      ? LS_ERR_DATA
           : exit_status == NONFINITE ? LS_ERR_NONFINITE
                                      : LS_ERR_IO;
}

static ls_status fail_process(ls_repro *r, const ls_repro_run *run, const char *log, int status)
{
    ls__child_read_failure(log, status, &r->failure);
    r->exit_status = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
    return ls__fail(r->ctx, status_of(r->exit_status), "run %s %s; %s ends with:", run->name,
                    r->failure.how, log);
}

/* Appends the settings of the runs. With --benchmark alone the first run times kernels, and the
 * other runs use its kernels. */
static void put_settings(const ls_repro *r, ls__words *words)
{
    const ls__run_settings *train = &r->values.settings;
    ls__repro_put_settings(r, true, words);
    if (train->benchmark && !train->algorithm_cache)
        ls__words_put(words, "--algorithm-cache=%s/kernels.json", r->dir);
    ls__words_put(words, "--steps=%lld", (long long)r->steps);
}

/* The command that trains leg i, in several ranks if there are any. */
static ls__words leg_command(const ls_repro *r, const ls_repro_run *run, int i)
{
    const ls_repro_leg *leg = &run->legs[i];
    ls__words words = { 0 };
    if (leg->ranks > 1) {
        ls__words_put(&words, "mpirun");
        ls__words_put(&words, "-n");
        ls__words_put(&words, "%d", leg->ranks);
        ls__words_put(&words, "--bind-to");
        ls__words_put(&words, "none");
        ls__words_put(&words, "--oversubscribe");
    }
    ls__words_put(&words, "%s", r->program);
    ls__words_put(&words, "train");
    ls__words_put(&words, i == 0 ? "--out" : "--resume");
    ls__words_put(&words, "%s/%s", r->dir, run->name);
    if (i == 0) put_settings(r, &words);
    ls__words_put(&words, "--workers=%d", leg->workers);
    ls__words_put(&words, "--threads=%d", leg->threads);
    if (i + 1 < run->leg_count) ls__words_put(&words, "--stop-at=%lld", (long long)run->stops[i]);
    return words;
}

static ls_status train_leg(ls_repro *r, const ls_repro_run *run, const ls__words *words,
                           bool *stopped)
{
    char log[LS__REPRO_PATH_SIZE];
    const volatile sig_atomic_t *const stop = r->children.stop;
    int child, status = 0;
    if (words->failed) return ls__fail_memory(r->ctx, "settings", 0);
    snprintf(log, sizeof(log), "%s/%s.log", r->dir, run->name);
    int error = ls__child_start(&r->children, words->items, log, &child);
    if (!error) error = ls__child_wait(&r->children, &child, &status);
    *stopped = stop && *stop;
    if (*stopped) return LS_OK;
    if (error)
        return ls__fail_errno(r->ctx, error, "run %s: %s could not be started or waited for",
                              run->name, words->items[0]);
    return status == 0 ? LS_OK : fail_process(r, run, log, status);
}

ls_status ls__repro_train(ls_repro *r, int i, bool *stopped)
{
    const ls_repro_run *run = &r->runs[i];
    ls_status status = LS_OK;
    *stopped = false;
    for (int k = 0; k < run->leg_count && status == LS_OK && !*stopped; k++) {
        ls__words words = leg_command(r, run, k);
        status = train_leg(r, run, &words, stopped);
        ls__words_free(&words);
    }
    return status;
}
