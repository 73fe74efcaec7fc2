/* events.h: prints the events of a run or an evaluation. */
#ifndef LS_CLI_TERMINAL_EVENTS_H
#define LS_CLI_TERMINAL_EVENTS_H

#include "cli.h"
#include "terminal/progress.h"

/* Of print_loader_error's `pass`, and of the progress's title. */
enum { TITLE_SIZE = 64 };

typedef struct run_report {
    ls_context *ctx;
    const ls_dataset *train_data, *val_data;
    const char *dir; /* the run's folder */
    int64_t epochs;  /* of the run; 0 = `lockstep eval` */
    progress progress;
    char title[TITLE_SIZE];
    int data_exit_status; /* after LS_EVENT_DATA_ERROR: the command's exit status */
} run_report;

/* The ls_event_fn of a report. */
ls_status report_event(void *user, const ls_event *event);

/* Shows how many of n images are done; user is a progress. Returns false after a signal. */
bool report_count(void *user, int64_t n_done, int64_t n);

/* On stderr, the images that were replaced by others, at most `max` of them. */
void report_bad_images(const ls_loader *loader, const ls_dataset *dataset, int64_t max);

#endif
