/* graphs.c: what is queued in captured streams becomes the nodes of a graph, whose work is queued
 * again whenever the graph is launched. The nodes of one stream run in order, those of two streams
 * in any order that events leave open: which of them comes first goes by the launching stream's
 * eagerness, see driver.h. Where that is "late", other streams than the first run when something
 * waits for them, and where it is "now", as soon as they can. By the device's clock its streams run
 * at the same time, unless LOCKSTEP_EMULATED_FULL says that one takes all of the device.
 *
 * What CUDA forbids to a thread that captures fails, and spoils the capture; two things fail here
 * that CUDA allows and the backend has no use for: copies of the host's memory, which would be read
 * when the graph is launched, and events of streams that are not captured. */
#include "graphs.h"
#include "driver.h"
#include "streams.h"
#include <stdlib.h>
#include <string.h>

enum {
    OUT_OF_MEMORY = 2,
    ILLEGAL_STATE = 401,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    CAPTURE_UNJOINED = 904,
    CAPTURED_EVENT = 907,
    MAX_STREAMS = 4
};

/* Work of a stream, or a wait. */
typedef struct node {
    int stream, previous; /* the stream's node before it, -1: none */
    int awaited;          /* a node of another stream, -1: none */
    bool done;            /* in the launch under way */
    double end_ms;        /* in the last one that has run */
    emulated_work_fn *work;
    size_t arg_bytes;
    max_align_t arg[];
} node;

/* A graph, or what is launched of one: nodes in the order of their capture. */
typedef struct list {
    node **nodes;
    int n, capacity;
    int n_streams; /* 0 is the one where the capture began */
    double start_ms;
} list;

static _Thread_local struct {
    void *streams[MAX_STREAMS]; /* of the list; none: the thread captures nothing */
    int last[MAX_STREAMS];      /* node, -1: none */
    list *graph;
    uint64_t number;
    bool spoiled;
} capture;
static uint64_t n_captures;
static int64_t n_lists;

__attribute__((visibility("default"))) emulate_graphs_fn emulate_graphs;

int64_t emulate_graphs(void)
{
    return n_lists;
}

static int64_t n_beside;

__attribute__((visibility("default"))) emulate_beside_fn emulate_beside;

int64_t emulate_beside(void)
{
    return n_beside;
}

/* ---- Lists ---- */

static list *open_list(void)
{
    list *l = calloc(1, sizeof(*l));
    if (l) n_lists++;
    return l;
}

static void close_list(list *l)
{
    for (int i = 0; i < l->n; i++) free(l->nodes[i]);
    free(l->nodes);
    free(l);
    n_lists--;
}

static node *append(list *l, size_t arg_bytes)
{
    if (l->n == l->capacity) {
        const int capacity = 2 * l->capacity + 64;
        node **nodes = realloc(l->nodes, (size_t)capacity * sizeof(node *));
        if (!nodes) return NULL;
        l->nodes = nodes;
        l->capacity = capacity;
    }
    node *n = calloc(1, sizeof(*n) + arg_bytes);
    if (!n) return NULL;
    n->arg_bytes = arg_bytes;
    return l->nodes[l->n++] = n;
}

/* ---- Captures ---- */

/* The stream's number in the capture, -1: it is not captured. */
static int find(const void *stream)
{
    for (int i = 0; capture.graph && i < capture.graph->n_streams; i++)
        if (capture.streams[i] == stream) return i;
    return -1;
}

bool emulated_is_captured(const void *stream)
{
    return find(stream) >= 0;
}

static node *capture_node(int stream, int awaited, size_t arg_bytes)
{
    node *n = append(capture.graph, arg_bytes);
    if (!n) return NULL;
    n->stream = stream;
    n->previous = capture.last[stream];
    n->awaited = awaited;
    capture.last[stream] = capture.graph->n - 1;
    return n;
}

void *emulated_capture_append(void *stream, emulated_work_fn *work, size_t arg_bytes)
{
    node *n = capture_node(find(stream), -1, arg_bytes);
    if (!n) return NULL;
    n->work = work;
    return n->arg;
}

emulated_capture_point emulated_capture_reached(const void *stream)
{
    return (emulated_capture_point){ capture.number, capture.last[find(stream)] };
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
    if (!capture.graph) return 0;
    capture.spoiled = true;
    return CAPTURE_UNSUPPORTED;
}

__attribute__((visibility("default"))) emulate_is_captured_fn emulate_is_captured;
__attribute__((visibility("default"))) emulate_queue_fn emulate_queue;

bool emulate_is_captured(const void *stream)
{
    return emulated_is_captured(stream);
}

int emulate_queue(void *stream, void (*work)(void *arg), const void *arg, size_t bytes)
{
    const int status = emulated_enter(stream);
    if (status != 0) return status;
    void *memory = emulated_queue(stream, work, bytes);
    if (!memory) return OUT_OF_MEMORY;
    memcpy(memory, arg, bytes);
    emulated_streams_advance();
    return 0;
}

int emulated_capture_wait(void *stream, emulated_capture_point point)
{
    const int status = emulated_failure_status();
    if (!capture.graph || point.capture != capture.number) {
        (void)emulated_forbids();
        return status ? status : CAPTURED_EVENT;
    }
    if (status != 0) capture.spoiled = true;
    if (capture.spoiled) return status ? status : CAPTURE_INVALIDATED;
    int at = find(stream);
    if (at < 0) {
        if (capture.graph->n_streams == MAX_STREAMS) return emulated_forbids();
        at = capture.graph->n_streams++;
        capture.streams[at] = stream;
        capture.last[at] = -1;
    }
    return capture_node(at, point.node, 0) ? 0 : OUT_OF_MEMORY;
}

int emulated_capture_begin(void *stream)
{
    const int status = emulated_failure_status();
    if (status != 0) return status;
    if (capture.graph) return ILLEGAL_STATE;
    capture.graph = open_list();
    if (!capture.graph) return OUT_OF_MEMORY;
    capture.graph->n_streams = 1;
    capture.streams[0] = stream;
    capture.last[0] = -1;
    capture.number = ++n_captures;
    capture.spoiled = false;
    return 0;
}

/* Whether the first stream comes after all that the others did. */
static bool is_joined(const list *l)
{
    bool *reached = calloc((size_t)l->n + 1, sizeof(*reached)), joined = reached != NULL;
    for (int i = l->n - 1; i >= 0 && joined; i--) {
        const node *n = l->nodes[i];
        joined = reached[i] || n->stream == 0;
        if (n->previous >= 0) reached[n->previous] = true;
        if (n->awaited >= 0) reached[n->awaited] = true;
    }
    free(reached);
    return joined;
}

static int64_t count_beside(const list *l)
{
    int64_t n = 0;
    for (int i = 0; i < l->n; i++) n += l->nodes[i]->stream != 0 && l->nodes[i]->work;
    return n;
}

int emulated_capture_end(void *stream, void **graph)
{
    int status = emulated_failure_status();
    if (find(stream) != 0) return ILLEGAL_STATE;
    if (status == 0 && capture.spoiled) status = CAPTURE_INVALIDATED;
    if (status == 0 && !is_joined(capture.graph)) status = CAPTURE_UNJOINED;
    if (status == 0) {
        *graph = capture.graph;
        n_beside = count_beside(capture.graph);
    } else {
        close_list(capture.graph);
    }
    capture.graph = NULL;
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
    const list *from = graph;
    list *copy = open_list();
    if (!copy) return OUT_OF_MEMORY;
    copy->n_streams = from->n_streams;
    for (int i = 0; i < from->n; i++) {
        node *n = append(copy, from->nodes[i]->arg_bytes);
        if (!n) {
            close_list(copy);
            return OUT_OF_MEMORY;
        }
        memcpy(n, from->nodes[i], sizeof(*n) + n->arg_bytes);
    }
    *replay = copy;
    return 0;
}

/* The stream's first node that has not run, -1 when that waits, or when there is none. */
static int ready(const list *l, int stream, int *from)
{
    while (*from < l->n && (l->nodes[*from]->stream != stream || l->nodes[*from]->done)) ++*from;
    if (*from == l->n) return -1;
    const node *n = l->nodes[*from];
    return n->awaited < 0 || l->nodes[n->awaited]->done ? *from : -1;
}

/* The node that runs next in one of the orders that the graph allows; -1 at the end. */
static int choose(const list *l, int from[MAX_STREAMS], const void *stream)
{
    const int first = ready(l, 0, &from[0]);
    int other = -1;
    for (int s = 1; s < l->n_streams && other < 0; s++) other = ready(l, s, &from[s]);
    return first >= 0 && (other < 0 || !emulated_stream_is_eager(stream)) ? first : other;
}

/* A node's work, once the device's clock says when it starts. */
typedef struct job {
    list *l;
    int node; /* -1: the launch's beginning */
} job;

static double later(double a, double b)
{
    return a > b ? a : b;
}

static void run_job(void *arg)
{
    const job *j = arg;
    double *clock = emulated_clock();
    const double all_ms = *clock;
    if (j->node < 0) {
        j->l->start_ms = all_ms;
        return;
    }
    node *n = j->l->nodes[j->node];
    double start = j->l->start_ms;
    if (n->previous >= 0) start = later(start, j->l->nodes[n->previous]->end_ms);
    if (n->awaited >= 0) start = later(start, j->l->nodes[n->awaited]->end_ms);
    *clock = getenv("LOCKSTEP_EMULATED_FULL") ? all_ms : start;
    if (n->work) {
        n->work(n->arg);
        if (emulated_work_is_pending()) {
            *clock = all_ms;
            return;
        }
        *clock += emulated_start_ms();
    }
    n->end_ms = *clock;
    *clock = later(all_ms, n->end_ms);
}

static bool queue_job(void *stream, list *l, int at)
{
    job *j = emulated_queue_uncounted(stream, run_job, sizeof(*j));
    if (!j) return false;
    *j = (job){ l, at };
    emulated_streams_advance();
    return true;
}

int emulated_replay_launch(void *replay, void *stream)
{
    const int status = emulated_failure_status();
    if (status != 0) return status;
    if (emulated_is_captured(stream)) return emulated_forbids();
    list *l = replay;
    int from[MAX_STREAMS] = { 0 };
    if (!queue_job(stream, l, -1)) return OUT_OF_MEMORY;
    for (int i = 0; i < l->n; i++) l->nodes[i]->done = false;
    for (int i = choose(l, from, stream); i >= 0; i = choose(l, from, stream)) {
        l->nodes[i]->done = true;
        if (!queue_job(stream, l, i)) return OUT_OF_MEMORY;
    }
    return 0;
}

int emulated_replay_close(void *replay)
{
    emulated_streams_run(); /* jobs refer to it */
    close_list(replay);
    return 0;
}
