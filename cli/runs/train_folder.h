/* train_folder.h: the folder of a run of `lockstep train`. */
#ifndef LS_CLI_RUNS_TRAIN_FOLDER_H
#define LS_CLI_RUNS_TRAIN_FOLDER_H

#include "runs/run.h"

/* Whether a new run can have the folder of --out; else prints why not. */
bool train_folder_may_take(const char *dir);

/* Makes and locks the run's folder; all ranks call it. dir: its name, which t->dir points to. If it
 * is empty, the run gets a new folder: run, or run-2, run-3 and so on. A run without a step is
 * replaced by the new run. *made: the folder did not exist, in rank 0. On failure prints the
 * reason. Returns the exit status. */
int train_folder_take(const cli_run *t, bool resumed, char dir[RUN_DIR_SIZE], bool *made);

#endif
