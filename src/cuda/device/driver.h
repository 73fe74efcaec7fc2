/* driver.h: the CUDA functions that the backend calls, as a table. The tests replace the table by
 * an emulated device (tests/cuda/emulator), so they run the backend, and make each call fail,
 * without a GPU. A status is a cudaError_t; 0 is success. */
#ifndef LS_CUDA_DRIVER_H
#define LS_CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>

typedef void *ls__cuda_stream; /* cudaStream_t */
typedef void *ls__cuda_event;  /* cudaEvent_t */
typedef void *ls__cuda_graph;  /* cudaGraph_t */
typedef void *ls__cuda_replay; /* cudaGraphExec_t */

typedef struct ls__cuda_properties {
    char name[256];
    int major, minor; /* compute capability */
    int multiprocessors;
    size_t memory_bytes, second_level_cache_bytes;
    unsigned char uuid[16]; /* of the GPU: differs between the GPUs of all machines */
} ls__cuda_properties;

typedef struct ls__cuda_driver {
    /* "no CUDA-capable device is detected"; whether the process can't use CUDA any more after it.
     */
    const char *(*error_text)(int status);
    bool (*is_sticky)(int status);
    /* Clears the error of a library's failed launch, which the next launch would report. */
    void (*drop_error)(void);

    int (*count_devices)(int *count);
    /* Versions as 1000 * major + 10 * minor: the newest that the installed driver supports, and the
     * one of the build. */
    int (*driver_version)(int *version);
    int (*runtime_version)(int *version);
    /* "NVIDIA driver 580.65.06"; where that is not readable, "NVIDIA driver for CUDA 13.0". */
    void (*driver_text)(char *out, size_t size);
    int (*properties)(int device, ls__cuda_properties *out);
    /* Sets the device of this thread's calls below. */
    int (*set_device)(int device);

    int (*allocate)(void **memory, size_t bytes);
    int (*release)(void *memory);
    /* Pinned host memory, for asynchronous copies. */
    int (*host_allocate)(void **memory, size_t bytes);
    int (*host_release)(void *memory);
    int (*memory_info)(size_t *free_bytes, size_t *all_bytes);

    int (*stream_open)(ls__cuda_stream *stream); /* does not synchronize with the default stream */
    int (*stream_close)(ls__cuda_stream stream);
    int (*stream_wait)(ls__cuda_stream stream);
    /* Work queued in the stream from now on waits for the last event_record of the event. */
    int (*stream_wait_event)(ls__cuda_stream stream, ls__cuda_event event);

    int (*event_open)(ls__cuda_event *event); /* without times */
    int (*timer_open)(ls__cuda_event *event); /* an event with times */
    int (*event_close)(ls__cuda_event event);
    int (*event_record)(ls__cuda_event event, ls__cuda_stream stream);
    int (*event_wait)(ls__cuda_event event);
    /* Whether the work of the stream, or before the event, has ended. */
    int (*stream_query)(ls__cuda_stream stream, bool *ended);
    int (*event_query)(ls__cuda_event event, bool *ended);
    /* Milliseconds between two completed events with times. */
    int (*elapsed)(float *ms, ls__cuda_event from, ls__cuda_event to);

    /* Any direction. Pageable host memory has been read when the call returns. */
    int (*copy)(void *to, const void *from, size_t bytes, ls__cuda_stream stream);
    int (*fill)(void *memory, int byte, size_t bytes, ls__cuda_stream stream);

    /* This thread's work in the stream between the two is captured in a graph and not run. Other
     * threads and streams are not affected. capture_end ends the capture even if it fails. */
    int (*capture_begin)(ls__cuda_stream stream);
    int (*capture_end)(ls__cuda_stream stream, ls__cuda_graph *graph);
    int (*graph_close)(ls__cuda_graph graph);
    /* An executable graph. The graph may be closed after replay_open. */
    int (*replay_open)(ls__cuda_graph graph, ls__cuda_replay *replay);
    int (*replay_launch)(ls__cuda_replay replay, ls__cuda_stream stream);
    int (*replay_close)(ls__cuda_replay replay);

    /* Ranges of this thread in NVIDIA's profilers (NVTX). They cost almost nothing without a
     * profiler. */
    void (*range_push)(const char *name);
    void (*range_pop)(void);
} ls__cuda_driver;

/* The table is that of CUDA or of the emulator. */
extern const ls__cuda_driver ls__cuda_driver_table;

#endif
