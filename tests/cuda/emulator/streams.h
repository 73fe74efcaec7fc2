/* streams.h: the emulated device's streams, for the driver's table and for launches. */
#ifndef LS_TEST_EMULATED_STREAMS_H
#define LS_TEST_EMULATED_STREAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Appends work(arg) to a stream. Gives room for its arg, to be filled before the call of
 * emulated_streams_advance that belongs to each addition; NULL without memory. The device's memory
 * is open while it runs. */
typedef void emulated_work_fn(void *arg);
void *emulated_queue(void *stream, emulated_work_fn *work, size_t arg_bytes);

/* Whether the work that has just run has to go on later. */
bool emulated_work_is_pending(void);

/* Whether a stream does something now that it could do later, see driver.h. */
bool emulated_stream_is_eager(const void *stream);
/* The clock of the stream whose work runs, and what starting work costs; for work of
 * emulated_queue_uncounted, which starts other work. */
void *emulated_queue_uncounted(void *stream, emulated_work_fn *work, size_t arg_bytes);
double *emulated_clock(void);
double emulated_start_ms(void);
/* Lets streams go on, as far as they are in the mood to. */
void emulated_streams_advance(void);
/* Runs all that is queued in a stream, and what that waits for; or in any stream, unless the device
 * is lost. */
void emulated_stream_finish(void *stream);
void emulated_streams_run(void);
/* Work that does nothing but take the device's time. */
int emulated_spend(void *stream, double ms);
/* How many streams and events are open. */
int64_t emulated_streams_held(void);

/* These functions are slots of the driver's table. */
int emulated_stream_open(void **stream);
int emulated_stream_close(void *stream);
int emulated_stream_wait(void *stream);
int emulated_stream_wait_event(void *stream, void *event);
int emulated_event_open(void **event);
int emulated_timer_open(void **event);
int emulated_event_close(void *event);
int emulated_event_record(void *event, void *stream);
int emulated_event_wait(void *event);
int emulated_stream_query(void *stream, bool *ended);
int emulated_event_query(void *event, bool *ended);
int emulated_elapsed(float *ms, void *from, void *to);

#ifdef __cplusplus
}
#endif

#endif
