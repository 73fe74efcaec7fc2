/* repro.h: the experiment of `lockstep repro`: one training configuration, run by child processes
 * with each number of workers, threads and ranks, in one go and with restarts. */
#ifndef LS_CLI_EXPERIMENTS_REPRO_H
#define LS_CLI_EXPERIMENTS_REPRO_H

#include "experiment/child.h"
#include "runs/open_run.h"
#include "report/chart.h"
#include "report/html.h"

enum { REPRO_MAX_AXIS = 32, REPRO_MAX_RESTARTS = 16 };
enum { REPRO_PATH_SIZE = LS__RUN_DIR_SIZE + 64, REPRO_LEGS_SIZE = 512 };

/* Exit statuses of this command. Those of failed child processes are passed on. */
enum { EXIT_DIFFERENT = 1, EXIT_NO_VERDICT = 5 };

/* The steps of a run that one process trains. */
typedef struct repro_leg {
    int workers, threads, ranks;
} repro_leg;

typedef struct repro_run {
    char name[64]; /* "w2-t4", "w2-t4-n2-r1": its folder in the experiment's */
    int n_legs;
    repro_leg legs[REPRO_MAX_RESTARTS + 1];
    int64_t stops[REPRO_MAX_RESTARTS]; /* the steps after which all legs but the last end */
    char legs_text[REPRO_LEGS_SIZE];   /* "0x1 @20 4x3": workers x threads, then x ranks if they are
                                          compared, and the step after which the run was resumed
                                          with others */

    double *losses;    /* of each step */
    ls_digest weights; /* after the last one */
    double seconds;    /* of training */
    int result;        /* runs with equal run logs have the same number, in order of appearance */
    ls_run_log_difference divergence; /* against the first run; step -1 = none */
    int n_spans; /* of the first run of a result: which result it agrees with, in which steps */
    ls__chart_span *spans;
} repro_run;

typedef struct repro {
    ls_context *ctx; /* reads run logs; trains nothing */
    const char *out; /* the experiment's folder */
    int64_t steps, batch, steps_per_epoch;
    char **arguments;      /* of `lockstep train`, without those of each run; ends with NULL */
    char **command;        /* words that repeat the experiment; ends with NULL */
    bool has_ranks;        /* numbers of ranks are compared */
    char *program;         /* path of this program */
    ls__children children; /* one at a time */
    int n_runs, n_results;
    repro_run *runs;
} repro;

/* ---- repro_child.c ---- */

/* Trains all legs of a run, one process after the other. Their output is in OUT/NAME.log. Returns
 * EXIT_DONE, or prints what failed and returns the exit status. */
int repro_train(repro *r, const repro_run *run);

/* ---- repro_result.c ---- */

/* The first run of a result, and the number of its runs. */
const repro_run *repro_first_of(const repro *r, int result);
int repro_count(const repro *r, int result);

/* What differs at the step of its divergence: "batch, loss". */
enum { REPRO_DIFFERENCES_SIZE = 64 };
void repro_differences(const repro_run *run, const char *between, char out[REPRO_DIFFERENCES_SIZE]);

/* Reads the results of run i, and finds an earlier run with the same run log. */
int repro_read(repro *r, int i);
void repro_print_head(const repro *r);
void repro_print_run(const repro *r, int i);
void repro_print_verdict(const repro *r);
/* OUT/repro.csv, a line per run, and OUT/losses.csv, a line per step. */
int repro_write_csv(const repro *r);

/* ---- repro_chart.c ---- */

/* "A", "B", ..., "Z", "AA", ...: the name of a result. */
/* "2 workers, 1 thread, 4 ranks"; returns out. */
enum { REPRO_LEG_SIZE = 80 };
const char *repro_leg_text(const repro *r, const repro_leg *leg, char out[REPRO_LEG_SIZE]);
enum { REPRO_LETTERS_SIZE = 8 };
const char *repro_letters(int result, char out[REPRO_LETTERS_SIZE]);

/* OUT/repro.svg: a row per run with a colour per result, above the losses of each result. */
int repro_plot(const repro *r);
/* The same into a page, which has the legend: the rows have the letters of their results. */
int repro_put_plot(const repro *r, ls__html *html, const char *class, int width);

/* ---- repro_report.c ---- */

/* OUT/report.html: the verdict, which runs agree, where the others diverge, and the environment. */
int repro_write_report(const repro *r);

#endif
