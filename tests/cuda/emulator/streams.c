/* streams.c: the emulated device's streams: queues of work that the host's calls run, in an order
 * that CUDA allows. See driver.h for which. */
#include "streams.h"
#include "driver.h"
#include "graphs.h"
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    INVALID_HANDLE = 400,
    OUT_OF_MEMORY = 2,
    NOT_READY = 600,
    CAPTURED_EVENT = 907,
    ALWAYS = 256
};

/* The device's clock, which goes by what has run and not by the host's time. Streams run at the
 * same time. */
static double host_ms;               /* what the host has waited for is done */
static const double LAUNCH_MS = 0.1; /* of any work; so long that few runs time a kernel */
static const double COLD_MS = 1;     /* more, while the device is cold */
static int64_t n_cold;               /* work until it is not */

/* The position of a recorded event: a place in a stream. */
typedef struct mark {
    int n_users;
    bool done;
    double ms; /* the clock when it was done */
    struct emulated_stream *stream;
} mark;

typedef struct item {
    struct item *next;
    emulated_work_fn *work; /* NULL: the mark is set, or waited for */
    mark *mark;
    bool waits, uncounted;
    double from_ms; /* the host's time */
    max_align_t arg[];
} item;

typedef struct emulated_stream {
    struct emulated_stream *next;
    item *first, *last;
    double ms;          /* when all that has run in it was done */
    unsigned eagerness; /* of 256: how often it goes on while the host does something else */
} emulated_stream;

typedef struct emulated_event {
    bool has_times;
    mark *mark; /* NULL: not recorded, or in a captured stream */
    emulated_capture_point point;
} emulated_event;

static emulated_stream *streams;
static int64_t n_held;
static uint64_t seed;

/* xorshift64* */
static unsigned random_below(unsigned n)
{
    seed ^= seed >> 12;
    seed ^= seed << 25;
    seed ^= seed >> 27;
    return (unsigned)((seed * UINT64_C(2685821657736338717) >> 33) % n);
}

static void drop_mark(mark *m)
{
    if (m && --m->n_users == 0) free(m);
}

static bool run_until(const mark *m);

static void drop_first(emulated_stream *stream)
{
    item *i = stream->first;
    stream->first = i->next;
    if (!stream->first) stream->last = NULL;
    if (i->mark) i->mark->done = true; /* for streams that wait for it */
    drop_mark(i->mark);
    free(i);
}

static double later(double a, double b)
{
    return a > b ? a : b;
}

static double *running_ms;

double *emulated_clock(void)
{
    return running_ms;
}

double emulated_start_ms(void)
{
    return LAUNCH_MS + (n_cold > 0 && n_cold-- ? COLD_MS : 0);
}

/* Work that must be called again sets it. */
static bool work_is_pending;

__attribute__((visibility("default"))) emulate_pending_fn emulate_pending;

void emulate_pending(void)
{
    work_is_pending = true;
}

bool emulated_work_is_pending(void)
{
    return work_is_pending;
}

/* Whether the work is done. */
static bool run_work(emulated_stream *stream, item *i)
{
    running_ms = &stream->ms;
    work_is_pending = false;
    emulated_memory_open();
    i->work(i->arg);
    emulated_memory_close();
    return !work_is_pending;
}

/* False: what comes first waits for another process. */
static bool run_first(emulated_stream *stream)
{
    item *i = stream->first;
    if (i->waits && !run_until(i->mark)) return false;
    stream->ms = later(stream->ms, i->from_ms);
    if (i->work && !run_work(stream, i)) return false;
    stream->first = i->next;
    if (!stream->first) stream->last = NULL;
    if (i->work) {
        if (!i->uncounted) stream->ms += emulated_start_ms();
    } else if (i->waits) {
        stream->ms = later(stream->ms, i->mark->ms);
    } else {
        i->mark->done = true;
        i->mark->ms = stream->ms;
    }
    drop_mark(i->mark);
    free(i);
    return true;
}

static bool run_until(const mark *m)
{
    while (!m->done)
        if (!run_first(m->stream)) return false;
    return true;
}

void emulated_stream_finish(void *stream)
{
    const emulated_stream *s = stream;
    while (s->first)
        if (!run_first(stream)) sched_yield();
    host_ms = later(host_ms, s->ms);
}

static bool could_run(const emulated_stream *stream)
{
    return stream->first && (!stream->first->waits || stream->first->mark->done);
}

/* Work that is queued on a lost device is never done. */
static void finish_or_drop(emulated_stream *stream)
{
    while (stream->first && emulated_is_lost()) drop_first(stream);
    emulated_stream_finish(stream);
}

void emulated_streams_run(void)
{
    for (emulated_stream *s = streams; s; s = s->next) finish_or_drop(s);
}

bool emulated_stream_is_eager(const void *stream)
{
    const emulated_stream *s = stream;
    return s->eagerness == ALWAYS || random_below(ALWAYS) < s->eagerness;
}

void emulated_streams_advance(void)
{
    bool again = true;
    while (again) {
        again = false;
        for (emulated_stream *s = streams; s; s = s->next)
            if (could_run(s) && emulated_stream_is_eager(s)) again |= run_first(s);
    }
}

int64_t emulated_streams_held(void)
{
    return n_held;
}

__attribute__((visibility("default"))) emulate_queued_fn emulate_queued;

int64_t emulate_queued(void)
{
    int64_t n = 0;
    for (const emulated_stream *s = streams; s; s = s->next)
        for (const item *i = s->first; i; i = i->next) n++;
    return n;
}

static item *append(emulated_stream *stream, size_t arg_bytes)
{
    item *i = calloc(1, sizeof(*i) + arg_bytes);
    if (!i) return NULL;
    i->from_ms = host_ms;
    if (stream->last)
        stream->last->next = i;
    else
        stream->first = i;
    stream->last = i;
    return i;
}

void *emulated_queue(void *stream, emulated_work_fn *work, size_t arg_bytes)
{
    if (emulated_is_captured(stream)) return emulated_capture_append(stream, work, arg_bytes);
    item *i = append(stream, arg_bytes);
    if (!i) return NULL;
    i->work = work;
    return i->arg;
}

void *emulated_queue_uncounted(void *stream, emulated_work_fn *work, size_t arg_bytes)
{
    item *i = append(stream, arg_bytes);
    if (!i) return NULL;
    i->work = work;
    i->uncounted = true;
    return i->arg;
}

/* ---- The driver's functions ---- */

static unsigned choose_eagerness(void)
{
    static const unsigned choices[] = { 0, 32, 128, 224, ALWAYS };
    const char *order = getenv("LOCKSTEP_EMULATED_STREAMS");
    if (!order || strcmp(order, "late") == 0) return 0;
    if (strcmp(order, "now") == 0) return ALWAYS;
    if (!streams) seed = strtoull(order, NULL, 10) * UINT64_C(0x9e3779b97f4a7c15) + 1;
    return choices[random_below(sizeof(choices) / sizeof(choices[0]))];
}

int emulated_stream_open(void **stream)
{
    if (emulated_failure()) return OUT_OF_MEMORY;
    emulated_stream *s = calloc(1, sizeof(*s));
    if (!s) return OUT_OF_MEMORY;
    s->eagerness = choose_eagerness();
    const char *cold = getenv("LOCKSTEP_EMULATED_COLD");
    n_cold = cold ? atoi(cold) : 0;
    s->next = streams;
    streams = s;
    *stream = s;
    n_held++;
    return 0;
}

int emulated_stream_close(void *stream)
{
    finish_or_drop(stream);
    emulated_stream **at = &streams;
    while (*at != stream) at = &(*at)->next;
    *at = (*at)->next;
    free(stream);
    n_held--;
    return 0;
}

static int64_t n_waits;

__attribute__((visibility("default"))) emulate_waits_fn emulate_waits;

int64_t emulate_waits(void)
{
    return n_waits;
}

int emulated_stream_wait(void *stream)
{
    n_waits++;
    int status = emulated_failure_status();
    if (status == 0) status = emulated_forbids();
    if (status != 0) return status;
    emulated_stream_finish(stream);
    emulated_streams_advance();
    return 0;
}

int emulated_event_open(void **event)
{
    if (emulated_failure()) return OUT_OF_MEMORY;
    *event = calloc(1, sizeof(emulated_event));
    if (!*event) return OUT_OF_MEMORY;
    n_held++;
    return 0;
}

int emulated_timer_open(void **event)
{
    const int status = emulated_event_open(event);
    if (status == 0) ((emulated_event *)*event)->has_times = true;
    return status;
}

int emulated_elapsed(float *ms, void *from, void *to)
{
    const emulated_event *a = from, *b = to;
    const int status = emulated_failure_status();
    if (status != 0) return status;
    if (!a->has_times || !b->has_times || !a->mark || !b->mark) return INVALID_HANDLE;
    if (!a->mark->done || !b->mark->done) return NOT_READY;
    *ms = (float)(b->mark->ms - a->mark->ms);
    return 0;
}

static void run_spend(void *arg)
{
    *running_ms += *(const double *)arg;
}

int emulated_spend(void *stream, double ms)
{
    const int status = emulated_enter(stream);
    double *arg = status == 0 ? emulated_queue(stream, run_spend, sizeof(*arg)) : NULL;
    if (status != 0) return status;
    if (!arg) return OUT_OF_MEMORY;
    *arg = ms;
    emulated_streams_advance();
    return 0;
}

int emulated_event_close(void *event)
{
    drop_mark(((emulated_event *)event)->mark);
    free(event);
    n_held--;
    return 0;
}

static int record_captured(emulated_event *event, const void *stream)
{
    const int status = emulated_enter(stream);
    if (status != 0) return status;
    drop_mark(event->mark);
    event->mark = NULL;
    event->point = emulated_capture_reached(stream);
    return 0;
}

int emulated_event_record(void *event, void *stream)
{
    emulated_event *e = event;
    if (emulated_is_captured(stream)) return record_captured(e, stream);
    int status = emulated_failure_status();
    if (status == 0) status = emulated_forbids();
    if (status != 0) return status;
    mark *m = calloc(1, sizeof(*m));
    item *i = m ? append(stream, 0) : NULL;
    if (!i) {
        free(m);
        return OUT_OF_MEMORY;
    }
    *m = (mark){ .n_users = 2, .stream = stream };
    i->mark = m;
    drop_mark(e->mark);
    e->mark = m;
    e->point = (emulated_capture_point){ 0 };
    emulated_streams_advance();
    return 0;
}

int emulated_event_wait(void *event)
{
    int status = emulated_failure_status();
    if (status == 0) status = emulated_forbids();
    if (status != 0) return status;
    const emulated_event *e = event;
    if (e->point.capture) return CAPTURED_EVENT;
    if (e->mark) {
        while (!run_until(e->mark)) sched_yield();
        host_ms = later(host_ms, e->mark->ms);
    }
    emulated_streams_advance();
    return 0;
}

/* The device works while the host asks. */
int emulated_stream_query(void *stream, bool *ended)
{
    const emulated_stream *s = stream;
    const int status = emulated_failure_status();
    if (status != 0 || emulated_forbids() != 0) return status ? status : emulated_forbids();
    while (s->first && run_first(stream)) continue;
    *ended = !s->first;
    return 0;
}

int emulated_event_query(void *event, bool *ended)
{
    const emulated_event *e = event;
    const int status = emulated_failure_status();
    if (status != 0 || emulated_forbids() != 0) return status ? status : emulated_forbids();
    if (e->point.capture) return CAPTURED_EVENT;
    *ended = !e->mark || run_until(e->mark);
    return 0;
}

int emulated_stream_wait_event(void *stream, void *event)
{
    const emulated_event *e = event;
    if (e->point.capture) return emulated_capture_wait(stream, e->point);
    int status = emulated_failure_status();
    if (status == 0) status = emulated_forbids();
    if (status != 0) return status;
    if (!e->mark) return 0;
    item *i = append(stream, 0);
    if (!i) return OUT_OF_MEMORY;
    i->waits = true;
    i->mark = e->mark;
    e->mark->n_users++;
    emulated_streams_advance();
    return 0;
}
