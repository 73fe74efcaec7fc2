/* graphs.h: the emulated device's captures and graphs, for its streams and for the driver's table.
 */
#ifndef LS_TEST_EMULATED_GRAPHS_H
#define LS_TEST_EMULATED_GRAPHS_H

#include "streams.h"
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whether this thread captures the stream; then what is queued there is appended to the graph. */
bool emulated_is_captured(const void *stream);
void *emulated_capture_append(void *stream, emulated_work_fn *work, size_t arg_bytes);

/* The position of an event that was recorded in a captured stream. */
typedef struct emulated_capture_point {
    uint64_t capture; /* 0: none */
    int node;         /* -1: before the first */
} emulated_capture_point;
emulated_capture_point emulated_capture_reached(const void *stream);
/* A stream waits for such an event, and is captured from then on. Counts a call. */
int emulated_capture_wait(void *stream, emulated_capture_point point);

/* Counts a call that queues work: 0, or why it fails. */
int emulated_enter(const void *stream);
/* 0, or the status of what must not be done by a thread that captures. */
int emulated_forbids(void);

/* These functions are slots of the driver's table. */
int emulated_capture_begin(void *stream);
int emulated_capture_end(void *stream, void **graph);
int emulated_graph_close(void *graph);
int emulated_replay_open(void *graph, void **replay);
int emulated_replay_launch(void *replay, void *stream);
int emulated_replay_close(void *replay);

#ifdef __cplusplus
}
#endif

#endif
