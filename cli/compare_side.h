/* compare_side.h: a run's folder as one side of a comparison. */
#ifndef LS_CLI_COMPARE_SIDE_H
#define LS_CLI_COMPARE_SIDE_H

#include "run/compare.h"
#include "run_files.h"

typedef struct compare_side {
    const cli_verb *verb;
    const char *dir;
    char record[RUN_PATH_SIZE];
    json_t *config, *manifest;

    /* What compare_side_open opens, as the run was at the step in question. */
    recipe recipe;
    cli_run run;
    char begun_from[RUN_PATH_SIZE]; /* the checkpoint, "" = the run's start */
} compare_side;

/* Reads config and manifest of the run in `dir`. On failure prints the reason and returns false. */
bool compare_side_read(compare_side *side, const cli_verb *verb, const char *dir);

/* Opens the run with the executors that it had at the step, restored from the nearest checkpoint at
 * or before the step; data_dir: place of the dataset; NULL = as stored. Fills `out` for
 * ls__compare_runs. On failure prints the reason and returns false. */
bool compare_side_open(compare_side *side, int64_t step, const char *data_dir,
                       ls__compare_side *out);

/* How many steps had been done when a checkpoint was written, from its metadata and the number of
 * steps in an epoch; -1 = they cannot be read. file may be NULL. */
int64_t compare_side_steps_done(const ls_tensor_file *file, int64_t steps);

/* Closes what compare_side_open has opened. */
void compare_side_leave(compare_side *side);
void compare_side_close(compare_side *side);

#endif
