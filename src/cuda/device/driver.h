/* driver.h: the CUDA functions that the backend calls, as a table. Memory, streams and errors go
 * through it, so that all of the backend but its libraries can be built, run and made to fail
 * without a GPU (tests/cuda/emulator). Statuses are cudaError_t's numbers, 0 is success. */
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
} ls__cuda_properties;

typedef struct ls__cuda_driver {
    /* "no CUDA-capable device is detected"; whether the process can't go on using CUDA after it. */
    const char *(*error_text)(int status);
    bool (*is_sticky)(int status);
    /* Forgets an error that a library's failed launch left for the next launch to report. */
    void (*drop_error)(void);

    int (*count_devices)(int *count);
    /* Versions as 1000 * major + 10 * minor: the newest that the installed driver can run, and the
     * one that this was built with. */
    int (*driver_version)(int *version);
    int (*runtime_version)(int *version);
    /* "NVIDIA driver 580.65.06", as exactly as can be had. */
    void (*driver_text)(char *out, size_t size);
    int (*properties)(int device, ls__cuda_properties *out);
    /* Calls below go to this device; a thread's own setting. */
    int (*set_device)(int device);

    int (*allocate)(void **memory, size_t bytes);
    int (*release)(void *memory);
    /* Pinned host memory, that the device copies from and to by itself. */
    int (*host_allocate)(void **memory, size_t bytes);
    int (*host_release)(void *memory);
    int (*memory_info)(size_t *free_bytes, size_t *all_bytes);

    int (*stream_open)(ls__cuda_stream *stream); /* waits for no other stream */
    int (*stream_close)(ls__cuda_stream stream);
    int (*stream_wait)(ls__cuda_stream stream);
    /* What is queued in the stream from now on waits for what the event was last recorded after. */
    int (*stream_wait_event)(ls__cuda_stream stream, ls__cuda_event event);

    int (*event_open)(ls__cuda_event *event); /* without times */
    int (*timer_open)(ls__cuda_event *event); /* an event with times */
    int (*event_close)(ls__cuda_event event);
    int (*event_record)(ls__cuda_event event, ls__cuda_stream stream);
    int (*event_wait)(ls__cuda_event event);
    /* Milliseconds between two events with times, both of which have been waited for. */
    int (*elapsed)(float *ms, ls__cuda_event from, ls__cuda_event to);

    /* Any direction. Host memory that is not pinned has been read when the call returns. */
    int (*copy)(void *to, const void *from, size_t bytes, ls__cuda_stream stream);
    int (*fill)(void *memory, int byte, size_t bytes, ls__cuda_stream stream);

    /* Between the two what this thread sends to the stream becomes a graph and is not run; other
     * threads and streams go on. capture_end ends it whatever it answers. */
    int (*capture_begin)(ls__cuda_stream stream);
    int (*capture_end)(ls__cuda_stream stream, ls__cuda_graph *graph);
    int (*graph_close)(ls__cuda_graph graph);
    /* A graph made ready to run; needs the graph no more. */
    int (*replay_open)(ls__cuda_graph graph, ls__cuda_replay *replay);
    int (*replay_launch)(ls__cuda_replay replay, ls__cuda_stream stream);
    int (*replay_close)(ls__cuda_replay replay);

    /* Ranges of this thread's in NVIDIA's profilers (NVTX). Without a profiler they cost next to
     * nothing. */
    void (*range_push)(const char *name);
    void (*range_pop)(void);
} ls__cuda_driver;

/* The build's: CUDA's own, or the emulator's. */
extern const ls__cuda_driver ls__cuda_driver_table;

#endif
