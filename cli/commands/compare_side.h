/* compare_side.h: a run's folder as one side of a comparison. */
#ifndef LS_CLI_COMMANDS_COMPARE_SIDE_H
#define LS_CLI_COMMANDS_COMPARE_SIDE_H

#include "run/compare.h"
#include "run/run_files.h"
#include "runs/open_run.h"

typedef struct compare_side {
    const char *dir;
    char run_log[LS__RUN_PATH_SIZE];
    json_t *config, *manifest;
    bool is_of_program; /* a trainer of a program: config is NULL, and no step can be replayed */

    /* What compare_side_open opens, as the run was at the step in question. */
    ls__run_settings settings;
    ls_run run;
    char restored_from[LS__RUN_PATH_SIZE]; /* the checkpoint, "" = the run's start */
} compare_side;

/* Reads config and manifest of the run in `dir`; of a program's, the identity in its checkpoint. On
 * failure prints the reason and returns false. */
bool compare_side_read(compare_side *side, const char *dir);

/* Opens the run with the execution settings that it had at the step, restored from the nearest
 * checkpoint at or before the step; data_dir: place of the dataset; NULL = as stored. Fills `out`
 * for ls__compare_runs. On failure prints the reason and returns false. */
bool compare_side_open(compare_side *side, int64_t step, const char *data_dir,
                       ls__compare_side *out);

/* Closes what compare_side_open has opened. */
void compare_side_leave(compare_side *side);
void compare_side_close(compare_side *side);

/* ---- compare_report.c: the result of replaying two runs, as JSON and as text ---- */

/* {"found": "op", "step", "epoch", "step_in_epoch", "reproduced": {"a", "b"}, "from": [file, file],
 * and, depending on "found", "learning_rates", "batch", "ops", "element"}. "step" is counted from 0
 * over the run, as in the run log; "epoch" and "step_in_epoch" from 1, as `train` shows them. NULL
 * without memory. */
json_t *compare_report(const compare_side runs[2], const ls__compare_side sides[2],
                       const ls__finding *finding);

/* Prints a report to stdout. */
void compare_print(const json_t *report);

#endif
