/* repro_train.c: the processes that train the legs of a run; see repro_state.h. */
#include "experiment/repro_state.h"

#include "base/alloc.h"
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

enum { MAX_WORDS = LS_MAX_SETTINGS + 24 };

/* The words of a command line; those that are made for it are in `texts`. */
typedef struct command {
    char *words[MAX_WORDS + 1]; /* ends with NULL */
    int n_words, n_texts;
    char *texts[LS_MAX_SETTINGS + 1];
} command;

static void add_word(command *c, const char *word)
{
    c->words[c->n_words++] = (char *)word; /* execvp changes none */
}

static ls_status add_setting(ls_context *ctx, command *c, const char *name, const char *value)
{
    char *text = ls__format(ctx, "--%s%s%s", name, *value ? "=" : "", value);
    if (!text) return ls__fail_memory(ctx, "settings", 0);
    c->texts[c->n_texts++] = text;
    add_word(c, text);
    return LS_OK;
}

/* The settings of a run that were given. With --benchmark alone the first run times kernels, and
 * the other runs use its kernels. */
static ls_status add_settings(const ls_repro *r, command *c)
{
    const ls_setting *table = r->given.table;
    for (int i = ls__repro_own_setting_count(); table[i].kind != LS_SETTING_END; i++)
        if (r->given.text[i]) LS_TRY(add_setting(r->ctx, c, table[i].name, r->given.text[i]));
    const ls__run_settings *train = &r->values.settings;
    if (!train->benchmark || train->algorithm_cache) return LS_OK;
    char path[LS__REPRO_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/kernels.json", r->dir);
    return add_setting(r->ctx, c, "algorithm-cache", path);
}

/* The words that start the program, in several ranks if there are any. */
static void add_launch(const ls_repro *r, command *c, const ls_repro_leg *leg,
                       char n_ranks[LS__NUMBER_OPTION_SIZE])
{
    if (leg->ranks > 1) {
        snprintf(n_ranks, LS__NUMBER_OPTION_SIZE, "%d", leg->ranks);
        const char *const words[] = { "mpirun",    "-n",   n_ranks,
                                      "--bind-to", "none", "--oversubscribe" };
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) add_word(c, words[i]);
    }
    add_word(c, r->program);
    add_word(c, "train");
}

static ls_status train_leg(ls_repro *r, const ls_repro_run *run, int i, command *c, bool *stopped)
{
    char dir[LS__REPRO_PATH_SIZE], log[LS__REPRO_PATH_SIZE], n_ranks[LS__NUMBER_OPTION_SIZE];
    char steps[LS__NUMBER_OPTION_SIZE], workers[LS__NUMBER_OPTION_SIZE],
        threads[LS__NUMBER_OPTION_SIZE], stop[LS__NUMBER_OPTION_SIZE];
    const ls_repro_leg *leg = &run->legs[i];
    const volatile sig_atomic_t *const stop_flag = r->children.stop;
    snprintf(dir, sizeof(dir), "%s/%s", r->dir, run->name);
    snprintf(log, sizeof(log), "%s/%s.log", r->dir, run->name);
    add_launch(r, c, leg, n_ranks);
    add_word(c, i == 0 ? "--out" : "--resume");
    add_word(c, dir);
    if (i == 0) LS_TRY(add_settings(r, c));
    if (i == 0) add_word(c, ls__child_number_option("steps", r->steps, steps));
    add_word(c, ls__child_number_option("workers", leg->workers, workers));
    add_word(c, ls__child_number_option("threads", leg->threads, threads));
    if (i + 1 < run->leg_count)
        add_word(c, ls__child_number_option("stop-at", run->stops[i], stop));
    pid_t pid;
    int status = 0;
    int error = ls__child_start(&r->children, c->words, log, &pid);
    if (!error) error = ls__child_wait(&r->children, &pid, &status);
    *stopped = stop_flag && *stop_flag;
    if (*stopped) return LS_OK;
    if (error)
        return ls__fail_errno(r->ctx, error, "run %s: %s could not be started or waited for",
                              run->name, c->words[0]);
    return status == 0 ? LS_OK : fail_process(r, run, log, status);
}

ls_status ls__repro_train(ls_repro *r, int i, bool *stopped)
{
    const ls_repro_run *run = &r->runs[i];
    ls_status status = LS_OK;
    *stopped = false;
    for (int k = 0; k < run->leg_count && status == LS_OK && !*stopped; k++) {
        command c = { .n_words = 0 };
        status = train_leg(r, run, k, &c, stopped);
        for (int t = 0; t < c.n_texts; t++) ls__free(r->ctx, c.texts[t]);
    }
    return status;
}
