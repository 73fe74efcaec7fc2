/* event_folder.h: the order of the event files of a folder. TensorBoard reads files in the order of
 * their names, and events in the order of their wall times; neither may fall where a clock does:
 * one that is corrected, or that of another machine on which the run resumes. */
#ifndef LS_IO_EVENT_FOLDER_H
#define LS_IO_EVENT_FOLDER_H

#include <stdint.h>

/* The times of events. Begins with all zero, or with the last time in a folder. */
typedef struct ls__event_clock {
    double last;    /* wall time of the last event: seconds since 1970 */
    double last_at; /* seconds of a monotonic clock at that event; 0 = in another process */
} ls__event_clock;

/* Returns the wall time of the next event: `wall`, or as long after the last event as the monotonic
 * clock says, where `wall` is before it. */
double ls__event_clock_next(ls__event_clock *clock, double wall, double monotonic);

/* Reads the event files in `dir`. Returns the number of seconds for the name of a new file, which
 * is sorted behind them: that of `wall`, or a larger one. *last: the last wall time in the files, 0
 * if there is none. Unreadable files and incomplete records are skipped. */
int64_t ls__event_folder_scan(const char *dir, double wall, double *last);

#endif
