/* repro_state.h: an experiment on reproducibility (lockstep/repro.h): one configuration, trained by
 * child processes with each number of workers, threads and ranks, in one go and with restarts. */
#ifndef LS_EXPERIMENT_REPRO_STATE_H
#define LS_EXPERIMENT_REPRO_STATE_H

#include "base/text.h"
#include "experiment/child.h"
#include "report/chart.h"
#include "report/command_line.h"
#include "run/run_state.h"
#include <lockstep/repro.h>

enum { LS__REPRO_MAX_AXIS = 32, LS__REPRO_LEGS_SIZE = 512, LS__REPRO_NAME_SIZE = 64 };
enum { LS__REPRO_MAX_RESTARTS = 16, LS__REPRO_PATH_SIZE = LS__RUN_DIR_SIZE + 192 };

typedef struct ls__repro_values {
    ls__run_settings settings; /* first: the settings of a run are at their offsets in it */
    const char *workers, *threads, *ranks;
    int64_t restarts;
} ls__repro_values;

/* What an ls_repro_run points to, and its row in the chart. */
typedef struct ls__repro_parts {
    char name[LS__REPRO_NAME_SIZE];
    ls_repro_leg legs[LS__REPRO_MAX_RESTARTS + 1];
    int64_t stops[LS__REPRO_MAX_RESTARTS];
    char legs_text[LS__REPRO_LEGS_SIZE];
    double *losses;
    int n_spans; /* of the first run of a result: which result it agrees with, in which steps */
    ls__chart_span *spans;
} ls__repro_parts;

struct ls_repro {
    ls_context *ctx; /* reads datasets and run logs; trains nothing */
    char dir[LS__RUN_DIR_SIZE];
    bool can_run; /* it is open, and has not run */
    char **texts; /* the settings as given, from which values and `given` are borrowed */
    ls_given given;
    ls__repro_values values;
    bool is_resolved; /* the values are those of the runs */
    char *program, *program_name;
    void (*on_run)(void *user, const ls_repro *repro, int i, bool has_trained);
    void *user;
    int64_t steps, batch, steps_per_epoch;
    bool has_ranks;        /* numbers of ranks are compared */
    ls__children children; /* one at a time */
    ls__child_failure failure;
    int exit_status; /* of ls_repro_exit_status */
    int n_runs, n_results;
    ls_repro_run *runs;     /* (n_runs) */
    ls__repro_parts *parts; /* (n_runs) */
};

/* ---- repro_plan.c ---- */

/* Appends "--NAME=VALUE" for each setting that was given. of_runs: those of the runs alone. */
void ls__repro_put_settings(const ls_repro *r, bool of_runs, ls__words *words);

/* Reads the axes, and makes the runs: each combination; then the same with restarts, each of which
 * resumes with the next numbers. LS_ERR_SETTING. */
ls_status ls__repro_plan(ls_repro *r);

/* ---- repro_train.c ---- */

/* Trains all legs of run i, one process after the other. Their output is in DIR/NAME.log. *stopped:
 * *stop is not 0. */
ls_status ls__repro_train(ls_repro *r, int i, bool *stopped);

/* ---- repro_result.c ---- */

/* Reads the results of run i, and finds an earlier run with the same run log. */
ls_status ls__repro_read(ls_repro *r, int i);
/* The first run of a result, and how many runs have it. */
const ls_repro_run *ls__repro_first_of(const ls_repro *r, int result);
int ls__repro_count(const ls_repro *r, int result);
/* DIR/repro.csv, a line per run, and DIR/losses.csv, a line per step. */
ls_status ls__repro_write_csv(const ls_repro *r);

/* ---- repro_page.c ---- */

/* DIR/report.html: the verdict, which runs agree, where the others diverge, and the environment;
 * and DIR/repro.svg. */
ls_status ls__repro_write_report(const ls_repro *r);

#endif
