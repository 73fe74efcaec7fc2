/* repro.h: experiments on reproducibility. One configuration is trained with each number of workers
 * of the data loader, compute threads and ranks, in one go and with restarts, and the results are
 * compared bit by bit, as the command 'lockstep repro' does.
 *
 *     const char *const settings[] = { "data-dir=photos", "workers=0,4", "threads=1,2", NULL };
 *     ls_repro *repro = ls_repro_open("repro", &(ls_repro_config){ .settings = settings });
 *     ls_repro_verdict verdict;
 *     if (ls_repro_train(repro, &verdict) != LS_OK)
 *         fprintf(stderr, "%s\n", ls_context_message(ls_repro_context(repro)));
 *     ls_repro_close(&repro);
 *
 * Each run is trained by processes of its own, one after the other: the library starts 'lockstep
 * train' by fork and exec, with mpirun for several ranks, and waits for it. The program must
 * neither ignore SIGCHLD nor wait for children that it did not start. */
#ifndef LOCKSTEP_REPRO_H
#define LOCKSTEP_REPRO_H

#include <lockstep/run.h>
#include <lockstep/run_log.h>

LS_BEGIN_DECLARATIONS

/* ---- Settings ---- */

/* The table of the settings of an experiment: workers, threads and ranks, each a list "0,1,2" of
 * numbers that are combined; restart; steps; then the settings of a run (ls_run_settings) but
 * those that the experiment sets or that have no effect in it: stop-at, patience, force,
 * inject-fault. */
LS_API const ls_setting *ls_repro_settings(void);

/* ---- Runs ---- */

/* The steps that one process trains. */
typedef struct ls_repro_leg {
    int workers, threads, ranks;
} ls_repro_leg;

/* One run. All pointers are valid as long as the experiment. */
typedef struct ls_repro_run {
    const char *name; /* "w2-t4", "w2-t4-n2-r1": its folder in the experiment's, beside NAME.log */
    int leg_count;
    const ls_repro_leg *legs; /* (leg_count) */
    const int64_t *stops;     /* (leg_count - 1): the steps after which all legs but the last end */
    const char *legs_text; /* "0x1 @20 4x3": workers x threads, then x ranks if they are compared,
                              and the step after which the run was resumed with others */

    /* Once it has trained; losses is NULL before. */
    const double *losses;     /* of each step */
    ls_digest weights;        /* after the last step */
    double images_per_second; /* in training; 0 = not known */
    int result; /* runs with equal run logs have the same number, from 0 in order of appearance; -1
                   before */
    ls_run_log_difference divergence; /* against the first run; step -1 = none */
} ls_repro_run;

/* ---- Experiments ---- */

typedef struct ls_repro ls_repro;

typedef enum ls_repro_verdict {
    LS_REPRO_ERROR,     /* no verdict, because of an error */
    LS_REPRO_STOPPED,   /* no verdict, because *stop was not 0 */
    LS_REPRO_IDENTICAL, /* all runs, in all steps */
    LS_REPRO_DIFFERENT
} ls_repro_verdict;

typedef struct ls_repro_config {
    const char *const *settings; /* "name=value", as in ls_run_config; ends with NULL; copied */
    const char *program;         /* the lockstep command, a path or a name that is found by PATH;
                                    NULL = "lockstep" */
    const char *program_name;    /* its name in commands for users; copied; NULL = `program` */
    ls_log_fn log;               /* as in ls_context_config */
    void *log_user;
    /* If *stop is not 0, the process that trains is sent SIGTERM, on which it saves, and the
     * experiment ends. SIGTERM is sent again if *stop changes to another value. May be NULL. */
    const volatile sig_atomic_t *stop;
    /* Called before run i trains, and, with has_trained, when its results were compared with those
     * of the runs before it; may be NULL. Must not close the experiment. */
    void (*on_run)(void *user, const ls_repro *repro, int i, bool has_trained);
    void *user;
    LS_RESERVED(8);
} ls_repro_config;

/* Opens an experiment: reads the settings, of which data-dir is required, and the dataset, and
 * plans the runs. Writes nothing yet. dir: the experiment's folder, which must be new; NULL or "" =
 * repro, or repro-2, repro-3 and so on. Returns NULL only if memory is short. After another error
 * the context of the experiment has it, and the experiment can only be closed:
 *
 *   LS_ERR_SETTING      a setting that is unknown, out of its range, without an effect beside the
 *                       others, or does not fit the images; numbers that give only one run; a
 *                       folder that exists
 *   LS_ERR_UNSUPPORTED  ranks without Open MPI
 *   LS_ERR_DATA         images that can't be read
 *   LS_ERR_MEMORY, LS_ERR_DEVICE, LS_ERR_TIMEOUT   those of ls_context_open and ls_dataset_open */
LS_API ls_repro *ls_repro_open(const char *dir, const ls_repro_config *config);

/* Makes the folder, trains all runs, compares them, and writes report.html, repro.csv (a line per
 * run), losses.csv (a line per step) and repro.svg. verdict may be NULL. After an error and after
 * *stop the folder keeps the runs that were trained. A process that trains is sent SIGTERM if the
 * calling thread ends. Errors:
 *
 *   LS_ERR_SETTING, LS_ERR_DATA, LS_ERR_NONFINITE   a process failed, with an exit status that says
 *                                                   so
 *   LS_ERR_IO, LS_ERR_NOT_FOUND   a file that can't be written or read; a process that can't be
 *                                 started, or failed for another reason
 *   LS_ERR_MISMATCH               a run log with another number of steps
 *   LS_ERR_INVALID                a second call
 *   LS_ERR_MEMORY                 also for NULL */
LS_API ls_status ls_repro_train(ls_repro *repro, ls_repro_verdict *verdict);

/* Closes the experiment with its context. */
LS_API void ls_repro_close(ls_repro **repro);

/* ---- What an experiment has. `repro` may be NULL. ---- */

/* Keeps the error and the warnings. */
LS_API ls_context *ls_repro_context(const ls_repro *repro);
/* The folder; "" before a folder without a given name is made. */
LS_API const char *ls_repro_dir(const ls_repro *repro);
LS_API int64_t ls_repro_step_count(const ls_repro *repro); /* of each run */
LS_API int ls_repro_run_count(const ls_repro *repro);
/* The i-th run; NULL if there is none. Valid as long as the experiment. */
LS_API const ls_repro_run *ls_repro_run_at(const ls_repro *repro, int i);
/* Of the runs that have trained. */
LS_API int ls_repro_result_count(const ls_repro *repro);
/* The i-th setting that the setting "recipe" has set: its name, and its value, "" for a switch.
 * False past the last one. */
LS_API bool ls_repro_preset_at(const ls_repro *repro, int i, const char **name, const char **value);

/* How the process ended whose failure ended ls_repro_train: its exit status, or -n for signal n; 0
 * = no process failed. */
LS_API int ls_repro_exit_status(const ls_repro *repro);
/* The last lines of its output, as they are; "" if no process failed. */
LS_API const char *ls_repro_output_end(const ls_repro *repro);

LS_END_DECLARATIONS

#endif
