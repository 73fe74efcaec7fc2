/* open_run.h: a run's context and objects, for commands. */
#ifndef LS_CLI_RUNS_OPEN_RUN_H
#define LS_CLI_RUNS_OPEN_RUN_H

#include "options/run_settings.h"
#include "run/run_state.h"

/* Opens the context and the objects of a run, as ls__run_open_objects does. has_ranks: the
 * processes that mpirun started train together. On failure prints the reason. Returns the exit
 * status. The caller must call ls__run_release in any case. */
int open_run(ls_run *t, bool resumed, bool has_ranks);

#endif
