/* sweep.h: hyperparameter search over runs, as the command 'lockstep sweep' does it: the trials are
 * runs of 'lockstep train' in child processes, and a sweep continues after an interruption.
 *
 *     ls_sweep *sweep = ls_sweep_open("lr.sweep", NULL, NULL);
 *     if (ls_sweep_train(sweep, NULL) != LS_OK)
 *         fprintf(stderr, "%s\n", ls_context_message(ls_sweep_context(sweep)));
 *     ls_sweep_close(&sweep);
 *
 * search.h is the search alone, without processes and files. */
#ifndef LOCKSTEP_SWEEP_H
#define LOCKSTEP_SWEEP_H

#include <lockstep/run.h>
#include <signal.h>

LS_BEGIN_DECLARATIONS

/* The table of the settings of a sweep, the options of 'lockstep sweep', which are also the keys of
 * a file's first section. */
LS_API const ls_setting *ls_sweep_settings(void);

/* How far a round of the search has come. Rounds of random and grid search have all trials. */
typedef struct ls_sweep_progress {
    int64_t first_trial, last_trial; /* of the round, from 0 */
    int64_t trial_count;             /* of the sweep */
    int64_t done, job_count;         /* jobs of the round that have a result, and all of them */
} ls_sweep_progress;

/* How the process of a trial ended that has failed. Texts are valid during the call. */
typedef struct ls_sweep_failure {
    int64_t trial;
    const char *how; /* "failed with status 3", "was ended by signal 9" */
    const char *log; /* the path of its output */
    const char *end; /* the last lines of its output */
    int exit_status; /* as that of the command; 128 + n after signal n */
} ls_sweep_failure;

typedef struct ls_sweep_config {
    const char *const *settings; /* "trials=20": they take precedence over the first section of the
                                    file; ends with NULL; NULL = none. Copied */
    const char *program;      /* the command whose 'train' trains the trials, found by PATH; copied;
                                 NULL = "lockstep" */
    const char *program_name; /* its name in commands for users; copied; NULL = `program` */
    ls_log_fn log;            /* as in ls_context_config */
    void *log_user;
    /* If *stop is not 0, the trials save and end, and so does the sweep. Each further change of
     * *stop is passed on to the trials as another signal. May be NULL. */
    const volatile sig_atomic_t *stop;
    void (*on_progress)(void *user, const ls_sweep_progress *progress); /* may be NULL */
    void (*on_failure)(void *user, const ls_sweep_failure *failure);    /* may be NULL */
    void *user;
    LS_RESERVED(8);
} ls_sweep_config;

typedef struct ls_sweep ls_sweep;

/* Reads the file of a sweep (docs/sweep.md) and the settings, opens the images, and checks all
 * combinations of values. Writes nothing yet. dir: the sweep's folder, new or to be continued; NULL
 * or "" = the key `out` of the file, or "sweep". config NULL = all defaults. Returns NULL only if
 * memory is short. After another error the context of the sweep has it, and the sweep can only be
 * closed:
 *
 *   LS_ERR_SETTING   a file that can't be read, and a setting that is unknown, out of its range or
 *                    does not fit the others, with the file's line: "lr.sweep:3: ..."
 *   others           those of ls_context_open and of the images */
LS_API ls_sweep *ls_sweep_open(const char *file, const char *dir, const ls_sweep_config *config);

typedef enum ls_sweep_end {
    LS_SWEEP_ERROR,       /* the context has the error */
    LS_SWEEP_DONE,        /* each trial has a result */
    LS_SWEEP_STOPPED,     /* *stop was not 0; the same sweep continues */
    LS_SWEEP_TRIAL_FAILED /* a trial failed, and the setting on-failed-trial is "stop" */
} ls_sweep_end;

/* Makes, or locks and reads the sweep's folder, and trains all trials that have no result. Writes
 * sweep.json after each result, report.html every few seconds and at the end, and sweep.csv when it
 * is done. A report that can't be written is a warning. The trials are child processes of the
 * caller, which must not ignore SIGCHLD; if the calling thread ends, they save and end. Can be
 * called once. end: how it ended; may be NULL. LS_OK for LS_SWEEP_DONE, also if no trial has a
 * metric, and for LS_SWEEP_STOPPED. Errors:
 *
 *   the context's    if the sweep was not opened; LS_ERR_MEMORY for NULL
 *   LS_ERR_INVALID   a second call; a folder that another process has locked
 *   LS_ERR_SETTING   a folder that holds something else; another sweep, with the differences as the
 *                    hint, a line for each
 *   LS_ERR_MISMATCH  the images are not those that the folder's trials have trained on; the hint is
 *                    as above
 *   LS_ERR_FORMAT    a damaged sweep.json
 *   LS_ERR_DATA      LS_SWEEP_TRIAL_FAILED because of the images (exit status 3)
 *   LS_ERR_IO        LS_SWEEP_TRIAL_FAILED otherwise; a file that can't be written, or a process
 *                    that can't be started */
LS_API ls_status ls_sweep_train(ls_sweep *sweep, ls_sweep_end *end);

/* Closes the sweep and its context. */
LS_API void ls_sweep_close(ls_sweep **sweep);

/* ---- What it found. Counts are 0 and texts "" for NULL and before there is something. ---- */

/* Keeps the error and the warnings. NULL for NULL. */
LS_API ls_context *ls_sweep_context(const ls_sweep *sweep);
/* The sweep's folder. Texts are valid as long as the sweep. */
LS_API const char *ls_sweep_dir(const ls_sweep *sweep);
/* "val_top1": the metric that trials are compared by, as metrics.jsonl names it. */
LS_API const char *ls_sweep_metric(const ls_sweep *sweep);
/* The epochs of a complete trial. */
LS_API int64_t ls_sweep_epochs(const ls_sweep *sweep);
/* The options of [search]. */
LS_API int ls_sweep_parameter_count(const ls_sweep *sweep);
LS_API const char *ls_sweep_parameter_name(const ls_sweep *sweep, int i);

typedef struct ls_sweep_trial {
    int64_t trial;      /* from 0 */
    int64_t epochs;     /* that it has trained */
    double metric;      /* the best one of its epochs; NaN = it has failed */
    int64_t best_epoch; /* of that metric, from 1; 0 = it has failed */
    const char *error;  /* why it could not train; NULL: it could, or its loss was not finite */
    LS_RESERVED(4);
} ls_sweep_trial;

LS_API int64_t ls_sweep_trial_count(const ls_sweep *sweep);
/* The result of a trial after its last job; NULL if it has none. Valid while the sweep does not
 * train. */
LS_API const ls_sweep_trial *ls_sweep_trial_at(const ls_sweep *sweep, int64_t trial);
/* The value of a parameter in a trial, as the file would have it: the text of a list, or `out` with
 * a number; "" for a trial that has not begun. */
enum { LS_SWEEP_VALUE_SIZE = 32 };
LS_API const char *ls_sweep_trial_value(const ls_sweep *sweep, int64_t trial, int parameter,
                                        char out[LS_SWEEP_VALUE_SIZE]);
/* The trial with the best metric, of equal ones the first; -1 if none has a metric. The weights of
 * its best epoch are DIR/best.safetensors of ls_sweep_trial_dir. */
LS_API int64_t ls_sweep_best_trial(const ls_sweep *sweep);
/* The folder of a trial's run, which may be missing, because a trial with the values of an earlier
 * one is not trained. Returns the length, as snprintf. */
LS_API int ls_sweep_trial_dir(const ls_sweep *sweep, int64_t trial, char *out, size_t size);
/* The command that trains the same run, "lockstep train --lr=0.1 ...", quoted for a shell. The
 * caller frees it by free(). NULL without memory, and for a trial that has not begun. */
LS_API char *ls_sweep_trial_command(const ls_sweep *sweep, int64_t trial);

/* ---- The report ---- */

/* Whether the folder is that of a sweep: it has sweep.json. */
LS_API bool ls_sweep_exists(const char *dir);
/* Writes the report of the sweep in `dir`: its best trial, all trials as parallel coordinates,
 * curves and a table, and the importance of the parameters. path NULL = DIR/report.html.
 * program_name: as in ls_sweep_config. The trials may be training. LS_ERR_FORMAT for a damaged
 * sweep.json; LS_ERR_IO; LS_ERR_MEMORY. */
LS_API ls_status ls_sweep_report_write(ls_context *ctx, const char *dir, const char *path,
                                       const char *program_name);

LS_END_DECLARATIONS

#endif
