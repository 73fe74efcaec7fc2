/* exchange.c: exchanges as persistent requests of MPI, which are made once and started each time.
 */
#include "mpi/mpi_comm.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include <assert.h>
#include <limits.h>
#include <string.h>

enum {
    /* A message is sent as requests of this size. Open MPI has three fragments of a request under
     * way, of 32 KiB each in shared memory, and sends more when both ranks call it: with one
     * request per message two ranks that sleep while they wait add 45 MB in 440 ms, with these in
     * 27 ms (bench_exchange, on busy cores). Smaller messages may arrive before they are
     * received, in memory of MPI's. */
    MAX_REQUEST_BYTES = 256 << 10,
    /* Messages of a cancelled exchange that a live rank still sends arrive within this time. */
    CANCEL_SECONDS = 1
};

/* A request's message, or a part of it. */
typedef struct part {
    int rank; /* the other one */
    int bytes;
} part;

typedef struct copy {
    const void *from;
    void *to;
    size_t bytes;
} copy;

struct ls__exchange {
    ls__mpi_comm *mpi;
    int n_requests, n_sends; /* sends come first */
    int n_active;            /* requests that were started and are not complete */
    MPI_Request *requests;
    part *parts;          /* [n_requests] */
    MPI_Status *statuses; /* [n_requests]: of those that a test completes */
    int *indices;         /* [n_requests]: their numbers */
    int *n_missing;       /* [n_ranks]: receives that are not complete */
    copy *copies;         /* to the own rank */
    int64_t n_copies;
};

/* ---- Planning ---- */

static size_t requests_of(const ls__message *message)
{
    return (message->bytes - 1) / MAX_REQUEST_BYTES + 1;
}

/* Counts requests of messages to or from other ranks, and messages to or from the own one. False if
 * there are more than MPI can count. */
static bool count_messages(const ls__comm *comm, const ls__message *messages, int64_t n,
                           int *n_requests, int64_t *n_own)
{
    for (int64_t i = 0; i < n; i++) {
        assert(messages[i].bytes > 0 && messages[i].rank >= 0 && messages[i].rank < comm->n_ranks);
        if (messages[i].rank == comm->rank) {
            (*n_own)++;
            continue;
        }
        const size_t n_more = requests_of(&messages[i]);
        if (n_more > (size_t)(INT_MAX - *n_requests)) return false;
        *n_requests += (int)n_more;
    }
    return true;
}

static ls_status exchange_allocate(ls__exchange *e)
{
    ls_context *ctx = e->mpi->comm.ctx;
    const size_t n = (size_t)e->n_requests, n_ranks = (size_t)e->mpi->comm.n_ranks;
    e->requests = ls__alloc(ctx, n * sizeof(*e->requests));
    e->statuses = ls__alloc(ctx, n * sizeof(*e->statuses));
    e->indices = ls__alloc(ctx, n * sizeof(*e->indices));
    e->parts = ls__alloc(ctx, n * sizeof(*e->parts));
    e->n_missing = ls__zalloc(ctx, n_ranks * sizeof(*e->n_missing));
    e->copies = ls__alloc(ctx, (size_t)e->n_copies * sizeof(*e->copies));
    if (!e->requests || !e->statuses || !e->indices || !e->parts || !e->n_missing || !e->copies)
        return ls__fail_memory(ctx, "communicator 'mpi': an exchange", 0);
    for (int i = 0; i < e->n_requests; i++) e->requests[i] = MPI_REQUEST_NULL;
    return LS_OK;
}

/* The tag of a message counts the messages that were planned before it between the two ranks, in
 * this direction. Both count alike, so running exchanges do not take each other's messages. A tag
 * comes again after max_tag messages, 2^31 in Open MPI. */
static int next_tag(const ls__mpi_comm *mpi, int *n_planned)
{
    const int tag = *n_planned;
    *n_planned = tag == mpi->max_tag ? 0 : tag + 1;
    return tag;
}

/* Requests of the messages to or from other ranks, from request `first` on. */
static ls_status make_requests(ls__exchange *e, bool sending, const ls__message *messages,
                               int64_t n, int first)
{
    ls__mpi_comm *mpi = e->mpi;
    int *n_planned = sending ? mpi->n_sends : mpi->n_receives;
    int r = first;
    for (int64_t i = 0; i < n; i++) {
        const ls__message *m = &messages[i];
        if (m->rank == mpi->comm.rank) continue;
        for (size_t at = 0; at < m->bytes; at += MAX_REQUEST_BYTES, r++) {
            void *data = (unsigned char *)m->data + at;
            const size_t left = m->bytes - at;
            const int bytes = left < MAX_REQUEST_BYTES ? (int)left : MAX_REQUEST_BYTES;
            const int tag = next_tag(mpi, &n_planned[m->rank]);
            e->parts[r] = (part){ m->rank, bytes };
            MPI_Request *request = &e->requests[r];
            const int code =
                sending ? MPI_Send_init(data, bytes, MPI_BYTE, m->rank, tag, mpi->ranks, request)
                        : MPI_Recv_init(data, bytes, MPI_BYTE, m->rank, tag, mpi->ranks, request);
            LS_TRY(ls__mpi_check(mpi, code, sending ? "MPI_Send_init" : "MPI_Recv_init"));
        }
    }
    return LS_OK;
}

/* Pairs the sends and the receives of the own rank. */
static ls_status plan_copies(ls__exchange *e, const ls__message *sends, int64_t n_sends,
                             const ls__message *receives)
{
    const int own = e->mpi->comm.rank;
    int64_t n = 0, r = 0;
    for (int64_t s = 0; s < n_sends; s++) {
        if (sends[s].rank != own) continue;
        while (receives[r].rank != own) r++;
        if (sends[s].bytes != receives[r].bytes)
            return ls__fail(e->mpi->comm.ctx, LS_ERR_INVALID,
                            "communicator 'mpi': rank %d sends %zu bytes to itself and receives "
                            "%zu",
                            own, sends[s].bytes, receives[r].bytes);
        e->copies[n++] = (copy){ sends[s].data, receives[r].data, sends[s].bytes };
        r++;
    }
    return LS_OK;
}

ls_status ls__mpi_exchange_open(ls__comm *comm, const ls__message *sends, int64_t n_sends,
                                const ls__message *receives, int64_t n_receives, ls__exchange **out)
{
    ls__exchange *e = ls__zalloc(comm->ctx, sizeof(*e));
    if (!e) return ls__fail_memory(comm->ctx, "communicator 'mpi': an exchange", sizeof(*e));
    e->mpi = (ls__mpi_comm *)comm;
    int n_receive_requests = 0;
    int64_t n_own_receives = 0;
    ls_status status = LS_OK;
    if (!count_messages(comm, sends, n_sends, &e->n_sends, &e->n_copies) ||
        !count_messages(comm, receives, n_receives, &n_receive_requests, &n_own_receives) ||
        n_receive_requests > INT_MAX - e->n_sends)
        status = ls__fail(comm->ctx, LS_ERR_UNSUPPORTED,
                          "communicator 'mpi': an exchange of more than %d messages", INT_MAX);
    if (status == LS_OK && e->n_copies != n_own_receives)
        status = ls__fail(comm->ctx, LS_ERR_INVALID,
                          "communicator 'mpi': rank %d sends %lld messages to itself and receives "
                          "%lld",
                          comm->rank, (long long)e->n_copies, (long long)n_own_receives);
    if (status == LS_OK) {
        e->n_requests = e->n_sends + n_receive_requests;
        status = exchange_allocate(e);
    }
    if (status == LS_OK) status = plan_copies(e, sends, n_sends, receives);
    if (status == LS_OK) status = make_requests(e, true, sends, n_sends, 0);
    if (status == LS_OK) status = make_requests(e, false, receives, n_receives, e->n_sends);
    if (status != LS_OK) {
        ls__mpi_exchange_close(e);
        return status;
    }
    *out = e;
    return LS_OK;
}

/* ---- Running ---- */

ls_status ls__mpi_exchange_start(ls__exchange *e)
{
    assert(e->n_active == 0);
    for (int64_t i = 0; i < e->n_copies; i++)
        memcpy(e->copies[i].to, e->copies[i].from, e->copies[i].bytes);
    memset(e->n_missing, 0, (size_t)e->mpi->comm.n_ranks * sizeof(*e->n_missing));
    for (int r = e->n_sends; r < e->n_requests; r++) e->n_missing[e->parts[r].rank]++;
    if (e->n_requests == 0) return LS_OK;
    LS_TRY(ls__mpi_check(e->mpi, MPI_Startall(e->n_requests, e->requests), "MPI_Startall"));
    e->n_active = e->n_requests;
    return LS_OK;
}

/* A receive succeeds with fewer bytes, too. */
static ls_status check_received(ls__exchange *e, const MPI_Status *status, const part *expected)
{
    int bytes = 0;
    LS_TRY(ls__mpi_check(e->mpi, MPI_Get_count(status, MPI_BYTE, &bytes), "MPI_Get_count"));
    if (bytes == expected->bytes) return LS_OK;
    return ls__fail(e->mpi->comm.ctx, LS_ERR_MISMATCH,
                    "communicator 'mpi': rank %d of %d: %d bytes from rank %d, expected %d",
                    e->mpi->comm.rank, e->mpi->comm.n_ranks, bytes, expected->rank,
                    expected->bytes);
}

ls_status ls__mpi_exchange_test(ls__exchange *e, int64_t *n_left)
{
    *n_left = e->n_active;
    if (e->n_active == 0) return LS_OK;
    int n = 0;
    const int code = MPI_Testsome(e->n_requests, e->requests, &n, e->indices, e->statuses);
    if (code != MPI_ERR_IN_STATUS) LS_TRY(ls__mpi_check(e->mpi, code, "MPI_Testsome"));
    for (int i = 0; i < n; i++) {
        const int r = e->indices[i];
        const bool sent = r < e->n_sends;
        e->n_active--;
        if (code == MPI_ERR_IN_STATUS)
            LS_TRY(ls__mpi_check(e->mpi, e->statuses[i].MPI_ERROR, sent ? "a send" : "a receive"));
        if (sent) continue;
        LS_TRY(check_received(e, &e->statuses[i], &e->parts[r]));
        e->n_missing[e->parts[r].rank]--;
    }
    *n_left = e->n_active;
    return LS_OK;
}

bool ls__mpi_exchange_has_arrived(const ls__exchange *e, int rank)
{
    return e->n_missing[rank] == 0;
}

/* ---- Closing ---- */

/* Sends can't be cancelled in Open MPI, nor can a receive whose message is arriving. MPI may read
 * or write the memory of those that remain after the time limit, until the process ends. */
static void cancel(ls__exchange *e)
{
    for (int r = e->n_sends; r < e->n_requests; r++)
        if (e->requests[r] != MPI_REQUEST_NULL) (void)MPI_Cancel(&e->requests[r]);
    const double end = ls__now_seconds() + CANCEL_SECONDS;
    int complete = 0;
    while (!complete && ls__now_seconds() < end)
        if (MPI_Testall(e->n_requests, e->requests, &complete, e->statuses) != MPI_SUCCESS) break;
}

void ls__mpi_exchange_close(ls__exchange *e)
{
    if (!e) return;
    const ls_context *ctx = e->mpi->comm.ctx;
    if (e->n_active > 0) cancel(e);
    for (int r = 0; e->requests && r < e->n_requests; r++)
        if (e->requests[r] != MPI_REQUEST_NULL) (void)MPI_Request_free(&e->requests[r]);
    ls__free(ctx, e->requests);
    ls__free(ctx, e->parts);
    ls__free(ctx, e->statuses);
    ls__free(ctx, e->indices);
    ls__free(ctx, e->n_missing);
    ls__free(ctx, e->copies);
    ls__free(ctx, e);
}
