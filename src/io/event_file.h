/* event_file.h: event files, which TensorBoard reads: TFRecord frames (length, masked CRC-32C,
 * data, masked CRC-32C) around protobuf messages `Event` of TensorFlow's event.proto and
 * summary.proto.
 *
 *     LS_TRY(ls__event_file_create(ctx, path, now, &file));
 *     ls__event_begin(file, now, step);
 *     ls__event_add_scalar(file, "loss", 0.5);
 *     LS_TRY(ls__event_commit(file));
 */
#ifndef LS_IO_EVENT_FILE_H
#define LS_IO_EVENT_FILE_H

#include <lockstep/context.h>

typedef struct ls__event_file ls__event_file;

/* Creates a file, which must not exist, and writes the event that begins it. Times are in seconds
 * since 1970. LS_ERR_IO names the path and the system's reason. */
ls_status ls__event_file_create(ls_context *ctx, const char *path, double wall_time,
                                ls__event_file **out);
void ls__event_file_close(ls__event_file **file);

/* Begins an event, which has a step. Later calls add to it. */
void ls__event_begin(ls__event_file *file, double wall_time, int64_t step);
/* The event begins a session, and has nothing else: readers drop the events of this step and of
 * later steps that they have read before. */
void ls__event_add_session_start(ls__event_file *file);
void ls__event_add_scalar(ls__event_file *file, const char *tag, double value);
/* pixels: [height][width][channels], 1 channel = grey, 3 = RGB. */
void ls__event_add_image(ls__event_file *file, const char *tag, int64_t height, int64_t width,
                         int64_t channels, const unsigned char *pixels);
/* Of the finite values, in 64 intervals of equal width from the smallest to the largest one. */
void ls__event_add_histogram(ls__event_file *file, const char *tag, int64_t n, const float *values);
/* Appends the event to the file. After a failure the file has its previous length. */
ls_status ls__event_commit(ls__event_file *file);

/* ---- The order of the event files of a folder ---- */

/* TensorBoard reads files in the order of their names, and events in the order of their wall times;
 * neither may fall where a clock does: one that is corrected, or that of another machine on which
 * the run resumes. */

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
