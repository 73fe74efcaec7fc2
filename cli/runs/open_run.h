/* open_run.h: the run of a command: opened from its options, with the lines that precede it. */
#ifndef LS_CLI_RUNS_OPEN_RUN_H
#define LS_CLI_RUNS_OPEN_RUN_H

#include "terminal/events.h"

typedef struct cli_run {
    run_report report; /* first: it is the user of report_event */
    const cli_parsed *parsed;
    bool one_process, resumes; /* of open_run */
    bool is_settled;           /* its settings have their values */
    ls_run *run;
    void (*on_start)(struct cli_run *r); /* the folder and the trainer are open; may be NULL */
} cli_run;

/* Opens a new run in `dir`, or that in the folder `resume`, from the options. out->parsed and
 * out->on_start must be set. one_process: without ranks. On failure prints the reason. Returns the
 * exit status. The caller must call ls_run_close in any case. */
int open_run(cli_run *out, const char *dir, const char *resume, ls_run_extent extent,
             bool one_process);

#endif
