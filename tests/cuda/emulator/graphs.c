/* graphs.c: what is queued in a captured stream is kept, and queued again whenever the graph is
 * launched. What CUDA forbids to a thread that captures fails, and spoils the capture; two things
 * fail here that CUDA allows and the backend has no use for: copies of the host's memory, which
 * would be read when the graph is launched, and events. */
#include "graphs.h"
#include "driver.h"
#include "streams.h"
#include <stdlib.h>
#include <string.h>

enum {
    OUT_OF_MEMORY = 2,
    ILLEGAL_STATE = 401,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901
};

typedef struct node {
    struct node *next;
    emulated_work_fn *work;
    size_t arg_bytes;
    max_align_t arg[];
} node;

/* A graph, or what is launched of one. */
typedef struct list {
    node *first, **end;
} list;

static _Thread_local struct {
    void *stream; /* NULL: the thread captures nothing */
    list *graph;
    bool spoiled;
} capture;
static int64_t n_lists;

__attribute__((visibility("default"))) emulate_graphs_fn emulate_graphs;

int64_t emulate_graphs(void)
{
    return n_lists;
}

/* ---- Lists ---- */

static list *open_list(void)
{
    list *l = malloc(sizeof(*l));
    if (!l) return NULL;
    l->first = NULL;
    l->end = &l->first;
    n_lists++;
    return l;
}

static void close_list(list *l)
{
    for (node *n = l->first, *next; n; n = next) {
        next = n->next;
        free(n);
    }
    free(l);
    n_lists--;
}

static void *append(list *l, emulated_work_fn *work, size_t arg_bytes)
{
    node *n = calloc(1, sizeof(*n) + arg_bytes);
    if (!n) return NULL;
    n->work = work;
    n->arg_bytes = arg_bytes;
    *l->end = n;
    l->end = &n->next;
    return n->arg;
}

/* ---- Captures ---- */

bool emulated_is_captured(const void *stream)
{
    return stream == capture.stream;
}

void *emulated_capture_append(emulated_work_fn *work, size_t arg_bytes)
{
    return append(capture.graph, work, arg_bytes);
}

int emulated_enter(const void *stream)
{
    const int status = emulated_failure_status();
    if (!emulated_is_captured(stream)) return status;
    if (status != 0) capture.spoiled = true;
    return status == 0 && capture.spoiled ? CAPTURE_INVALIDATED : status;
}

int emulated_forbids(void)
{
    if (!capture.stream) return 0;
    capture.spoiled = true;
    return CAPTURE_UNSUPPORTED;
}

int emulated_capture_begin(void *stream)
{
    const int status = emulated_failure_status();
    if (status != 0) return status;
    if (capture.stream) return ILLEGAL_STATE;
    capture.graph = open_list();
    if (!capture.graph) return OUT_OF_MEMORY;
    capture.stream = stream;
    capture.spoiled = false;
    return 0;
}

int emulated_capture_end(void *stream, void **graph)
{
    int status = emulated_failure_status();
    if (!emulated_is_captured(stream)) return ILLEGAL_STATE;
    if (status == 0 && capture.spoiled) status = CAPTURE_INVALIDATED;
    if (status == 0)
        *graph = capture.graph;
    else
        close_list(capture.graph);
    capture.stream = NULL;
    return status;
}

/* ---- Graphs ---- */

int emulated_graph_close(void *graph)
{
    close_list(graph);
    return 0;
}

int emulated_replay_open(void *graph, void **replay)
{
    const int status = emulated_failure_status();
    if (status != 0) return status;
    list *copy = open_list();
    if (!copy) return OUT_OF_MEMORY;
    for (const node *n = ((const list *)graph)->first; n; n = n->next) {
        void *arg = append(copy, n->work, n->arg_bytes);
        if (!arg) {
            close_list(copy);
            return OUT_OF_MEMORY;
        }
        memcpy(arg, n->arg, n->arg_bytes);
    }
    *replay = copy;
    return 0;
}

int emulated_replay_launch(void *replay, void *stream)
{
    const int status = emulated_failure_status();
    if (status != 0) return status;
    if (emulated_is_captured(stream)) return emulated_forbids();
    for (const node *n = ((const list *)replay)->first; n; n = n->next) {
        void *arg = emulated_queue(stream, n->work, n->arg_bytes);
        if (!arg) return OUT_OF_MEMORY;
        memcpy(arg, n->arg, n->arg_bytes);
        emulated_streams_advance();
    }
    return 0;
}

int emulated_replay_close(void *replay)
{
    close_list(replay);
    return 0;
}
