/* runs.h: runs of commands: opened from options, in several ranks, with log.txt. */
#ifndef LS_CLI_RUNS_RUNS_H
#define LS_CLI_RUNS_RUNS_H

#include "terminal/events.h"

/* ---- A run, opened from a command's options, with the lines that precede it: open_run.c ---- */

typedef struct cli_run {
    run_report report; /* first: it is the user of report_event */
    const cli_parsed *parsed;
    bool one_process, resumes; /* of open_run */
    ls_run *run;
    void (*on_start)(struct cli_run *r); /* the folder and the trainer are open; may be NULL */
} cli_run;

/* Opens a new run in `dir`, or that in the folder `resume`, from the options. out->parsed and
 * out->on_start must be set. one_process: without ranks. On failure prints the reason. Returns the
 * exit status. The caller must call ls_run_close in any case. */
int open_run(cli_run *out, const char *dir, const char *resume, ls_run_extent extent,
             bool one_process);

/* ---- `lockstep train` in several ranks, started by mpirun or srun: ranks.c. Rank 0 writes the
 * run's folder and prints; the others print errors that concern them alone. ---- */

/* Reads the rank from the launcher's environment variables, and mutes ranks other than 0. Call it
 * before anything is printed. */
void ranks_begin(void);
/* Prints an error and returns false if a launcher started several processes, for commands that do
 * not train in ranks. */
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

/* ---- log.txt in the folder of a run: session_log.c: the command line, the lines and the messages
 * of `lockstep train`, each after its time (UTC). Resumed runs append to it. ---- */

/* Keeps lines in memory from here on. argv: the options of `lockstep train`. */
void session_log_begin(int argc, char *const *argv);
/* Writes them, and later ones as they are printed, to DIR/log.txt. A failure is a warning. */
void session_log_open(const char *dir);
/* Without a log it does nothing. */
void session_log_close(void);

#endif
