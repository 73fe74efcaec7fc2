/* nccl.c: a stand-in for NCCL on the emulated device: libnccl.so.2, found through LD_LIBRARY_PATH.
 * The ranks are processes of one machine, and bytes move through sockets when a stream runs a
 * group. It checks what NCCL requires:
 *
 *   - a send meets a receive of the same size, in the order of their calls;
 *   - both are captured at the same time, replayed from that capture, or not captured;
 *   - sends and receives are in groups: alone, two ranks that both send first wait for ever;
 *   - a communicator that is nonblocking is asked for its state before it is used again. What a
 *     call has begun happens in ncclCommGetAsyncError, so work that is queued before it is too
 *     early;
 *   - a communicator is finalized before it is destroyed, and not used afterwards.
 *
 * A device runs only while its host calls CUDA. So a host that waits for the others' hosts must not
 * be needed by a host that waits for its own device in the same step.
 *
 * LOCKSTEP_EMULATED_NCCL_VERSION=21705: its version. LOCKSTEP_EMULATED_NCCL=stall:7 lets the
 * process's 7th group wait for ever, before it has moved anything; error:7 reports an error. */
#include "driver.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    SUCCESS = 0,
    CUDA_ERROR = 1,
    SYSTEM_ERROR = 2,
    INTERNAL_ERROR = 3,
    INVALID_ARGUMENT = 4,
    INVALID_USAGE = 5,
    REMOTE_ERROR = 6,
    IN_PROGRESS = 7,
    MAX_RANKS = 16,
    MAX_MESSAGES = 4096,
    INT8 = 0
};

/* Declares and begins an exported function. */
#define NCCL_API(type, name, parameters)                                                           \
    __attribute__((visibility("default"))) type name parameters;                                   \
    type name parameters

typedef struct id {
    char text[128];
} id;

typedef struct config {
    size_t size;
    unsigned magic, version;
    int blocking;
} config;

/* The header that precedes a message's bytes. */
typedef struct header {
    uint64_t number; /* among the messages of its direction between two ranks, as they are queued */
    uint64_t bytes, is_captured;
} header;
static const uint64_t FAREWELL = UINT64_MAX;

typedef enum state { CONNECTING, READY, QUEUEING, FINALIZING, FINALIZED, ENDED } state;

typedef struct message {
    int rank, sends;
    unsigned char *data;
    uint64_t done; /* bytes of header and data that have moved */
    header expected, found;
} message;

/* Work of a stream; lies there, or in a graph. */
typedef struct group {
    struct comm *comm;
    int n, stalls, fails;
    message messages[];
} group;

/* Never freed: streams may have groups of it. */
typedef struct comm {
    state state;
    int rank, n_ranks, listener, error;
    int sockets[MAX_RANKS], greeted[MAX_RANKS], left[MAX_RANKS];
    uint64_t n_sends[MAX_RANKS], n_receives[MAX_RANKS];
    char name[128];
} comm;

static char last_error[256];
static int depth, n_groups;
static comm *grouped;
static void *grouped_stream;
static int n_pending;
static message pending[MAX_MESSAGES];

static int fail(int result, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int fail(int result, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(last_error, sizeof(last_error), format, args);
    va_end(args);
    return result;
}

/* ---- The library ---- */

NCCL_API(int, ncclGetVersion, (int *version))
{
    const char *set = getenv("LOCKSTEP_EMULATED_NCCL_VERSION");
    *version = set ? atoi(set) : 22703;
    return SUCCESS;
}

NCCL_API(const char *, ncclGetErrorString, (int result))
{
    static const char *const texts[] = { "no error",       "unhandled cuda error", "system error",
                                         "internal error", "invalid argument",     "invalid usage",
                                         "remote error",   "in progress" };
    return texts[result];
}

NCCL_API(const char *, ncclGetLastError, (void *c))
{
    (void)c;
    return last_error;
}

NCCL_API(int, ncclGetUniqueId, (id * out))
{
    static int n;
    *out = (id){ "" };
    snprintf(out->text, sizeof(out->text), "lockstep nccl %ld %d", (long)getpid(), n++);
    return SUCCESS;
}

/* ---- The emulator's functions ---- */

static emulate_queue_fn *queue;
static emulate_is_captured_fn *is_captured;
static emulate_pending_fn *wait_for_others;

static bool find(void *module, const char *name, void *function, size_t size)
{
    void *symbol = module ? dlsym(module, name) : NULL;
    memcpy(function, &symbol, size); /* ISO C has no cast to a function pointer */
    return symbol != NULL;
}

static bool find_emulator(void)
{
    char path[4096];
    const char *folder = getenv("LOCKSTEP_MODULES");
    snprintf(path, sizeof(path), "%s/liblockstep_cuda.so", folder ? folder : ".");
    void *module = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    return find(module, "emulate_queue", &queue, sizeof(queue)) &&
           find(module, "emulate_is_captured", &is_captured, sizeof(is_captured)) &&
           find(module, "emulate_pending", &wait_for_others, sizeof(wait_for_others));
}

/* ---- Connecting: each rank connects to the lower ones ---- */

static struct sockaddr_un address_of(const comm *c, int rank, socklen_t *length)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX }; /* abstract: begins with a zero */
    snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "%.80s %d", c->name, rank);
    *length = sizeof(address);
    return address;
}

NCCL_API(int, ncclCommInitRankConfig,
         (comm * *out, int n_ranks, id name, int rank, const config *wanted))
{
    if (!wanted || wanted->magic != 0xcafebeef || wanted->version < 21800 || wanted->blocking != 0)
        return fail(INVALID_ARGUMENT, "not the configuration of a nonblocking communicator");
    if (!find_emulator()) return fail(CUDA_ERROR, "there is no emulated device");
    if (n_ranks > MAX_RANKS || rank < 0 || rank >= n_ranks)
        return fail(INVALID_ARGUMENT, "rank %d of %d", rank, n_ranks);
    comm *c = calloc(1, sizeof(*c));
    socklen_t length;
    c->rank = rank;
    c->n_ranks = n_ranks;
    snprintf(c->name, sizeof(c->name), "%s", name.text);
    for (int r = 0; r < MAX_RANKS; r++) c->sockets[r] = -1;
    c->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const struct sockaddr_un address = address_of(c, rank, &length);
    if (bind(c->listener, (const struct sockaddr *)&address, length) != 0 ||
        listen(c->listener, MAX_RANKS) != 0)
        return fail(SYSTEM_ERROR, "%s", strerror(errno));
    *out = c;
    return IN_PROGRESS;
}

static void connect_lower(comm *c)
{
    for (int r = 0; r < c->rank; r++) {
        socklen_t length;
        const struct sockaddr_un address = address_of(c, r, &length);
        if (c->sockets[r] >= 0) continue;
        const int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(s, (const struct sockaddr *)&address, length) != 0) {
            close(s); /* it does not listen yet */
            continue;
        }
        if (send(s, &c->rank, sizeof(c->rank), MSG_NOSIGNAL) == (ssize_t)sizeof(c->rank))
            c->sockets[r] = s;
    }
}

static void accept_higher(comm *c)
{
    int s, rank = -1;
    while ((s = accept4(c->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        if (recv(s, &rank, sizeof(rank), MSG_WAITALL) == (ssize_t)sizeof(rank) && rank > c->rank &&
            rank < c->n_ranks)
            c->sockets[rank] = s;
        else
            close(s);
    }
}

static void go_on_connecting(comm *c)
{
    connect_lower(c);
    accept_higher(c);
    for (int r = 0; r < c->n_ranks; r++)
        if (r != c->rank && c->sockets[r] < 0) return;
    c->state = READY;
}

/* ---- Moving bytes ---- */

/* Moves some of the bytes from `done` on of a header and what follows. False: the other rank has
 * ended. */
static bool move_some(comm *c, message *m)
{
    const uint64_t size = sizeof(header);
    for (;;) {
        header *h = m->sends ? &m->expected : &m->found;
        const bool in_header = m->done < size;
        const uint64_t left = in_header ? size - m->done : size + m->expected.bytes - m->done;
        unsigned char *at = in_header ? (unsigned char *)h + m->done : m->data + (m->done - size);
        if (left == 0) return true;
        const ssize_t n = m->sends
                              ? send(c->sockets[m->rank], at, left, MSG_NOSIGNAL | MSG_DONTWAIT)
                              : recv(c->sockets[m->rank], at, left, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return true;
        if (n <= 0) return false;
        m->done += (uint64_t)n;
        if (!m->sends && m->done == size && memcmp(h, &m->expected, size) != 0) {
            c->error =
                fail(INVALID_USAGE,
                     "rank %d expects message %llu of rank %d, %llu bytes%s, and receives "
                     "message %llu, %llu bytes%s",
                     c->rank, (unsigned long long)m->expected.number, m->rank,
                     (unsigned long long)m->expected.bytes,
                     m->expected.is_captured ? ", captured" : "", (unsigned long long)h->number,
                     (unsigned long long)h->bytes, h->is_captured ? ", captured" : "");
            return true;
        }
    }
}

static bool is_done(const message *m)
{
    return m->done == sizeof(header) + m->expected.bytes;
}

static void move_messages(group *g)
{
    bool is_busy[2][MAX_RANKS] = { { false } }; /* messages to and from a rank move in order */
    for (int i = 0; i < g->n && g->comm->error == SUCCESS; i++) {
        message *m = &g->messages[i];
        if (is_done(m) || is_busy[m->sends][m->rank]) continue;
        if (!move_some(g->comm, m))
            g->comm->error = fail(REMOTE_ERROR, "rank %d has ended", m->rank);
        is_busy[m->sends][m->rank] = !is_done(m);
    }
}

/* ---- Work of streams ---- */

/* The kernel of a group runs until all has moved, or until an abort. */
static void run_group(void *arg)
{
    group *g = arg;
    bool is_over = true;
    if (g->comm->state == ENDED) return;
    if (g->fails && g->comm->error == SUCCESS) g->comm->error = fail(REMOTE_ERROR, "emulated");
    if (!g->stalls) move_messages(g);
    for (int i = 0; i < g->n; i++) is_over &= is_done(&g->messages[i]);
    if (!is_over || g->comm->error != SUCCESS) {
        wait_for_others();
        return;
    }
    for (int i = 0; i < g->n; i++) g->messages[i].done = 0; /* for the next launch of a graph */
}

/* ---- Groups ---- */

static int usable(const comm *c)
{
    if (!c || c->state == ENDED) return fail(INVALID_ARGUMENT, "no communicator");
    if (c->error != SUCCESS) return c->error;
    return c->state == READY ? SUCCESS : fail(INVALID_USAGE, "in progress, or finalized");
}

NCCL_API(int, ncclGroupStart, (void))
{
    depth++;
    return SUCCESS;
}

static int add(void *data, size_t count, int type, int rank, comm *c, void *stream, bool sends)
{
    const int status = usable(c);
    if (status != SUCCESS) return status;
    if (depth == 0) return fail(INVALID_USAGE, "a send or a receive outside of a group");
    if (type != INT8 || count == 0 || rank < 0 || rank >= c->n_ranks || rank == c->rank)
        return fail(INVALID_ARGUMENT, "%zu elements of type %d, rank %d", count, type, rank);
    if (n_pending == MAX_MESSAGES || (n_pending > 0 && (grouped != c || grouped_stream != stream)))
        return fail(INVALID_USAGE, "a group of several streams, or with too many messages");
    grouped = c;
    grouped_stream = stream;
    pending[n_pending++] =
        (message){ .rank = rank, .sends = sends, .data = data, .expected = { .bytes = count } };
    return SUCCESS;
}

NCCL_API(int, ncclSend, (const void *data, size_t count, int type, int rank, comm *c, void *stream))
{
    return add((void *)(uintptr_t)data, count, type, rank, c, stream, true);
}

NCCL_API(int, ncclRecv, (void *data, size_t count, int type, int rank, comm *c, void *stream))
{
    return add(data, count, type, rank, c, stream, false);
}

NCCL_API(int, ncclGroupEnd, (void))
{
    if (depth == 0) return fail(INVALID_USAGE, "ncclGroupEnd without ncclGroupStart");
    if (--depth > 0 || n_pending == 0) return SUCCESS;
    grouped->state = QUEUEING;
    return IN_PROGRESS;
}

/* Whether a variable like "stall:7" is for this group. */
static bool is_chosen(const char *what)
{
    const char *set = getenv("LOCKSTEP_EMULATED_NCCL");
    const size_t length = strlen(what);
    return set && strncmp(set, what, length) == 0 && atoi(set + length) == n_groups;
}

static int queue_group(comm *c)
{
    const size_t bytes = sizeof(group) + (size_t)n_pending * sizeof(message);
    group *g = calloc(1, bytes);
    n_groups++;
    *g = (group){ c, n_pending, is_chosen("stall:"), is_chosen("error:") };
    for (int i = 0; i < n_pending; i++) {
        message *m = &pending[i];
        m->expected.number = (m->sends ? c->n_sends : c->n_receives)[m->rank]++;
        m->expected.is_captured = is_captured(grouped_stream);
        g->messages[i] = *m;
    }
    n_pending = 0;
    const int status = queue(grouped_stream, run_group, g, bytes);
    free(g);
    return status == 0 ? SUCCESS : fail(CUDA_ERROR, "CUDA error %d", status);
}

/* ---- The end ---- */

NCCL_API(int, ncclCommFinalize, (comm * c))
{
    const int status = usable(c);
    if (status != SUCCESS) return status;
    c->state = FINALIZING;
    return IN_PROGRESS;
}

/* All ranks say farewell, and wait for the others'. */
static void go_on_finalizing(comm *c)
{
    bool is_over = true;
    for (int r = 0; r < c->n_ranks; r++) {
        header h = { FAREWELL, 0, 0 };
        if (r == c->rank) continue;
        if (!c->greeted[r])
            c->greeted[r] = send(c->sockets[r], &h, sizeof(h), MSG_NOSIGNAL) == (ssize_t)sizeof(h);
        if (!c->left[r]) {
            const ssize_t n = recv(c->sockets[r], &h, sizeof(h), MSG_DONTWAIT);
            c->left[r] = n == (ssize_t)sizeof(h) && h.number == FAREWELL;
            if (n >= 0 && !c->left[r]) c->error = fail(REMOTE_ERROR, "rank %d: no farewell", r);
        }
        is_over &= c->left[r] && c->greeted[r];
    }
    if (is_over) c->state = FINALIZED;
}

NCCL_API(int, ncclCommGetAsyncError, (comm * c, int *result))
{
    if (!c || c->state == ENDED) return fail(INVALID_ARGUMENT, "no communicator");
    if (c->state == CONNECTING) go_on_connecting(c);
    if (c->state == FINALIZING) go_on_finalizing(c);
    if (c->state == QUEUEING) {
        c->state = READY;
        const int status = queue_group(c);
        if (status != SUCCESS) c->error = status;
    }
    *result = c->error != SUCCESS                                ? c->error
              : c->state == CONNECTING || c->state == FINALIZING ? IN_PROGRESS
                                                                 : SUCCESS;
    return SUCCESS;
}

static int end(comm *c)
{
    for (int r = 0; r < c->n_ranks; r++)
        if (c->sockets[r] >= 0) close(c->sockets[r]);
    close(c->listener);
    c->state = ENDED;
    return SUCCESS;
}

NCCL_API(int, ncclCommDestroy, (comm * c))
{
    if (!c || c->state != FINALIZED) return fail(INVALID_USAGE, "it is not finalized");
    return end(c);
}

NCCL_API(int, ncclCommAbort, (comm * c))
{
    if (!c || c->state == ENDED) return fail(INVALID_ARGUMENT, "no communicator");
    return end(c);
}
