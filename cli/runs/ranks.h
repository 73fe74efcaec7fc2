/* ranks.h: `lockstep train` in several ranks, started by mpirun or srun. Rank 0 writes the run's
 * folder and prints; the others print errors that concern them alone. */
#ifndef LS_CLI_RUNS_RANKS_H
#define LS_CLI_RUNS_RANKS_H

#include "options/options.h"
#include <lockstep/context.h>
#include <stdbool.h>

/* Reads the rank from the launcher's environment variables, and mutes ranks other than 0. Call it
 * before anything is printed. */
void ranks_begin(void);
/* For commands that do not train in ranks: prints an error and returns false if a launcher started
 * several processes. */
bool ranks_check_single(void);
/* Ends this process, after a message, unless ranks_connected is called within so many seconds:
 * nothing else limits the time that MPI waits for a rank that is stopped while it starts. Call both
 * in one thread. */
void ranks_connect(double seconds);
void ranks_connected(void);
/* Whether this process is rank 0, or the only one. */
bool ranks_is_first(void);
/* Call it before the end of a run is printed. Mutes ranks other than 0 if all ranks end alike
 * (`together`), or the error is another rank's. Ranks that caught no signal take over that of the
 * first one that did, for the exit status. */
void ranks_end(ls_context *ctx, bool together);
/* Call it after the end of a run that all ranks end alike. They exit only after rank 0 has printed,
 * because mpirun ends the other processes at the first exit status that is not 0. */
void ranks_wait(ls_context *ctx);

#endif
