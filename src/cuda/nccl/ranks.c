/* ranks.c: see ranks.h. NCCL's communicator is nonblocking, because one that is blocked can't be
 * aborted. So each of its calls only begins, and `settle` waits with a clock until it has ended.
 *
 * Exchanges have a stream of their own. Each waits for COMPUTE's work before it by an event, and
 * COMPUTE waits for the exchange's event. In a capture the stream becomes a branch of the graph. */
#include "cuda/nccl/ranks.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/pause.h"
#include "base/text.h"
#include "cuda/nccl/library.h"
#include <stdio.h>
#include <string.h>

typedef struct ls__nccl_comm {
    ls__comm comm; /* first */
    ls__cuda *cuda;
    const ls__nccl *nccl;
    void *handle;           /* ncclComm_t; NULL: not connected, or aborted */
    ls__cuda_stream stream; /* of exchanges */
    ls__cuda_event begun;   /* COMPUTE's work before an exchange */
} ls__nccl_comm;

struct ls__exchange {
    ls__nccl_comm *ranks;
    ls__cuda_event done;
    bool is_running;                         /* started, and COMPUTE does not wait for it yet */
    int64_t n_sends, n_receives, n_messages; /* sends come first */
    ls__message messages[];
};

/* ---- Errors ---- */

static void name_step(const ls__cuda *cuda, char *out, size_t size)
{
    snprintf(out, size, "epoch %lld, step %lld", (long long)cuda->step.epoch,
             (long long)cuda->step.step);
}

/* Ends what NCCL runs on the device. Its messages do not arrive. */
static void abort_exchanges(ls__nccl_comm *ranks)
{
    if (ranks->handle) (void)ranks->nccl->comm_abort(ranks->handle);
    ranks->handle = NULL;
    ranks->comm.is_lost = true;
}

static ls_status nccl_fail(ls__nccl_comm *ranks, int result, const char *what)
{
    ls_context *ctx = ranks->comm.ctx;
    const char *last = ranks->nccl->get_last_error(ranks->handle);
    const bool has_last = last && last[0];
    ls__fail(ctx, LS_ERR_IO, "NCCL: rank %d of %d: %s: %s%s%.*s", ranks->comm.rank,
             ranks->comm.n_ranks, what, ranks->nccl->get_error_string(result), has_last ? ": " : "",
             LS__CUT(has_last ? last : "", 300));
    abort_exchanges(ranks);
    ctx->comm->is_lost = true;
    return LS_ERR_IO;
}

/* Aborts last, because other ranks that wait report that as the reason. */
static ls_status fail_late(ls__nccl_comm *ranks, const char *what)
{
    const ls_status status = ls__comm_fail_wait(ranks->comm.ctx->comm, what);
    abort_exchanges(ranks);
    return status;
}

/* Messages of ranks that have given up arrive within this time, or never. */
static double seconds_to_wait(const ls__nccl_comm *ranks)
{
    enum { LOST_SECONDS = 1 };
    const ls__comm *host = ranks->comm.ctx->comm;
    return host->is_lost ? LOST_SECONDS : ranks->comm.timeout_seconds;
}

/* Waits until NCCL has done what a call has begun. */
static ls_status settle(ls__nccl_comm *ranks, int result, const char *what)
{
    const double end = ls__now_seconds() + seconds_to_wait(ranks);
    ls__pauses pauses = { 0 };
    while (result == LS__NCCL_IN_PROGRESS) {
        const bool is_late = ls__now_seconds() > end;
        const int status = ranks->nccl->comm_get_async_error(ranks->handle, &result);
        if (status != LS__NCCL_SUCCESS) result = status;
        if (result != LS__NCCL_IN_PROGRESS) break;
        if (is_late) return fail_late(ranks, what);
        ls__pause(&pauses);
    }
    return result == LS__NCCL_SUCCESS ? LS_OK : nccl_fail(ranks, result, what);
}

ls_status ls__nccl_wait(ls__cuda *cuda, int (*query)(void *awaited, bool *ended), void *awaited)
{
    ls__nccl_comm *ranks = cuda->ranks;
    if (!ranks || !ranks->handle) return LS_OK;
    char step[64];
    const double end = ls__now_seconds() + seconds_to_wait(ranks);
    ls__pauses pauses = { 0 };
    for (;;) {
        /* The clock is read before the test, so that work that ended while the process was stopped
         * is not late. */
        const bool is_late = ls__now_seconds() > end;
        bool ended = false;
        int result = LS__NCCL_SUCCESS;
        if (query(awaited, &ended) != 0 || ended) return LS_OK; /* the wait returns the error */
        name_step(cuda, step, sizeof(step));
        const int status = ranks->nccl->comm_get_async_error(ranks->handle, &result);
        if (status != LS__NCCL_SUCCESS) result = status;
        if (result != LS__NCCL_SUCCESS) return nccl_fail(ranks, result, step);
        if (is_late) return fail_late(ranks, step);
        ls__pause(&pauses);
    }
}

/* ---- Exchanges ---- */

/* n-th message to the own rank -> n-th message from it. */
static ls_status check_own(const ls__nccl_comm *ranks, const ls__message *sends, int64_t n_sends,
                           const ls__message *receives, int64_t n_receives)
{
    const int own = ranks->comm.rank;
    int64_t r = 0;
    for (int64_t s = 0; s < n_sends; s++) {
        if (sends[s].rank != own) continue;
        while (r < n_receives && receives[r].rank != own) r++;
        if (r == n_receives || sends[s].bytes != receives[r].bytes)
            return ls__fail(ranks->comm.ctx, LS_ERR_INVALID,
                            "NCCL: rank %d sends %zu bytes to itself and receives %zu", own,
                            sends[s].bytes, r < n_receives ? receives[r].bytes : 0);
        r++;
    }
    return LS_OK;
}

static void exchange_close(ls__exchange *e)
{
    if (!e) return;
    const ls__cuda_driver *driver = ls__cuda_enter(&e->ranks->cuda->device);
    if (e->is_running) abort_exchanges(e->ranks);
    if (e->done) (void)driver->event_close(e->done);
    ls__free(e->ranks->comm.ctx, e);
}

static ls_status exchange_open(ls__comm *comm, const ls__message *sends, int64_t n_sends,
                               const ls__message *receives, int64_t n_receives, ls__exchange **out)
{
    ls__nccl_comm *ranks = (ls__nccl_comm *)comm;
    const size_t n = (size_t)(n_sends + n_receives);
    const size_t bytes = sizeof(ls__exchange) + n * sizeof(ls__message);
    LS_TRY(check_own(ranks, sends, n_sends, receives, n_receives));
    ls__exchange *e = ls__zalloc(comm->ctx, bytes);
    if (!e) return ls__fail_memory(comm->ctx, "NCCL: an exchange", bytes);
    e->ranks = ranks;
    e->n_sends = n_sends;
    e->n_messages = n_sends + n_receives;
    memcpy(e->messages, sends, (size_t)n_sends * sizeof(ls__message));
    memcpy(e->messages + n_sends, receives, (size_t)n_receives * sizeof(ls__message));
    const ls_status status = ls__cuda_check(
        ranks->cuda, ls__cuda_enter(&ranks->cuda->device)->event_open(&e->done), "NCCL: an event");
    if (status != LS_OK)
        exchange_close(e);
    else
        *out = e;
    return status;
}

/* Messages of the own rank, which NCCL would send through a buffer. */
static int queue_copies(const ls__exchange *e)
{
    const ls__nccl_comm *ranks = e->ranks;
    const int own = ranks->comm.rank;
    const ls__message *r = e->messages + e->n_sends;
    int status = 0;
    for (int64_t i = 0; i < e->n_sends && status == 0; i++) {
        const ls__message *s = &e->messages[i];
        if (s->rank != own) continue;
        while (r->rank != own) r++;
        status = ranks->cuda->driver->copy(r->data, s->data, s->bytes, ranks->stream);
        r++;
    }
    return status;
}

/* All messages in one group, so that they move at the same time, whatever their order. */
static int queue_messages(const ls__exchange *e)
{
    const ls__nccl_comm *ranks = e->ranks;
    const ls__nccl *nccl = ranks->nccl;
    int result = nccl->group_start();
    if (result != LS__NCCL_SUCCESS) return result;
    for (int64_t i = 0; i < e->n_messages && result == LS__NCCL_SUCCESS; i++) {
        const ls__message *m = &e->messages[i];
        if (m->rank == ranks->comm.rank) continue;
        result = i < e->n_sends ? nccl->send(m->data, m->bytes, LS__NCCL_BYTE, m->rank,
                                             ranks->handle, ranks->stream)
                                : nccl->recv(m->data, m->bytes, LS__NCCL_BYTE, m->rank,
                                             ranks->handle, ranks->stream);
        if (result == LS__NCCL_IN_PROGRESS) result = LS__NCCL_SUCCESS; /* group_end begins it */
    }
    const int ended = nccl->group_end();
    return result == LS__NCCL_SUCCESS ? ended : result;
}

static ls_status exchange_start(ls__exchange *e)
{
    static const char what[] = "NCCL: an exchange";
    ls__nccl_comm *ranks = e->ranks;
    ls__cuda *cuda = ranks->cuda;
    const ls__cuda_driver *driver = ls__cuda_enter(&cuda->device);
    if (!ranks->handle)
        return ls__fail(ranks->comm.ctx, LS_ERR_IO, "NCCL: rank %d of %d has been disconnected",
                        ranks->comm.rank, ranks->comm.n_ranks);
    LS_TRY(ls__cuda_check(cuda, driver->event_record(ranks->begun, cuda->stream), what));
    LS_TRY(ls__cuda_check(cuda, driver->stream_wait_event(ranks->stream, ranks->begun), what));
    e->is_running = true;
    LS_TRY(ls__cuda_check(cuda, queue_copies(e), what));
    LS_TRY(settle(ranks, queue_messages(e), "an exchange"));
    return ls__cuda_check(cuda, driver->event_record(e->done, ranks->stream), what);
}

static ls_status exchange_test(ls__exchange *e, int64_t *n_left)
{
    ls__cuda *cuda = e->ranks->cuda;
    *n_left = 0;
    if (!e->is_running) return LS_OK;
    const ls__cuda_driver *driver = ls__cuda_enter(&cuda->device);
    LS_TRY(ls__cuda_check(cuda, driver->stream_wait_event(cuda->stream, e->done),
                          "NCCL: an exchange"));
    e->is_running = false;
    return LS_OK;
}

static bool exchange_has_arrived(const ls__exchange *e, int rank)
{
    (void)e;
    (void)rank;
    return true; /* for COMPUTE's later work */
}

/* ---- The communicator ---- */

static void comm_abort(ls__comm *comm, int exit_status)
{
    abort_exchanges((ls__nccl_comm *)comm);
    comm->ctx->comm->provider->abort(comm->ctx->comm, exit_status);
}

/* All ranks end their communicator at the same time, so that no buffer is freed that another one
 * still reads; after a failure each ends it alone. */
static void disconnect(ls__nccl_comm *ranks)
{
    ls__cuda *cuda = ranks->cuda;
    if (!ranks->handle) return;
    if (ls__has_error(ranks->comm.ctx) || ranks->comm.ctx->comm->is_lost ||
        ls__nccl_wait(cuda, cuda->driver->stream_query, ranks->stream) != LS_OK ||
        settle(ranks, ranks->nccl->comm_finalize(ranks->handle), "ncclCommFinalize") != LS_OK) {
        abort_exchanges(ranks);
        return;
    }
    (void)ranks->nccl->comm_destroy(ranks->handle);
    ranks->handle = NULL;
}

static void comm_close(ls__comm *comm)
{
    ls__nccl_comm *ranks = (ls__nccl_comm *)comm;
    ls__cuda *cuda = ranks->cuda;
    const ls__cuda_driver *driver = ls__cuda_enter(&cuda->device);
    disconnect(ranks);
    cuda->ranks = NULL;
    if (ranks->begun) (void)driver->event_close(ranks->begun);
    if (ranks->stream) (void)driver->stream_wait(ranks->stream);
    if (ranks->stream) (void)driver->stream_close(ranks->stream);
    ls__free(comm->ctx, ranks);
}

static const ls__comm_provider provider = { .name = "nccl",
                                            .exchange_open = exchange_open,
                                            .exchange_start = exchange_start,
                                            .exchange_test = exchange_test,
                                            .exchange_has_arrived = exchange_has_arrived,
                                            .exchange_close = exchange_close,
                                            .abort = comm_abort,
                                            .close = comm_close };

ls_status ls__nccl_prepare(ls__cuda *cuda, int n_devices)
{
    ls_context *ctx = cuda->device.ctx;
    const ls__comm *comm = ctx->comm;
    char text[512];
    const ls__nccl *nccl = ls__nccl_load(text, sizeof(text));
    if (!nccl)
        return ls__fail(ctx, LS_ERR_UNSUPPORTED, "device 'cuda': %d ranks require NCCL: %s",
                        comm->n_ranks, text);
    cuda->index = (comm->rank - comm->machines[comm->rank]) % n_devices;
    ls__inform(ctx, LS_LOG_CONTEXT, "device 'cuda': rank %d of %d: GPU %d of %d, NCCL %d.%d.%d: %s",
               comm->rank, comm->n_ranks, cuda->index, n_devices, nccl->version / 10000,
               nccl->version / 100 % 100, nccl->version % 100, text);
    return LS_OK;
}

/* The message that ranks send each other by the host's communicator. */
typedef struct introduction {
    unsigned char gpu[16];
    int nccl_version;
    ls__nccl_id id; /* rank 0's */
} introduction;

static ls_status check_introductions(const ls__nccl_comm *ranks, const introduction *all)
{
    const ls__comm *comm = &ranks->comm;
    for (int r = 0; r < comm->n_ranks; r++) {
        if (all[r].nccl_version != all[0].nccl_version)
            return ls__fail(comm->ctx, LS_ERR_MISMATCH,
                            "NCCL: rank %d has version %d, rank 0 has %d: expected the same", r,
                            all[r].nccl_version, all[0].nccl_version);
        for (int q = 0; q < r; q++)
            if (memcmp(all[q].gpu, all[r].gpu, sizeof(all[r].gpu)) == 0)
                return ls__fail(comm->ctx, LS_ERR_UNSUPPORTED,
                                "device 'cuda': ranks %d and %d of %d have the same GPU, expected "
                                "at least as many visible GPUs as ranks on a machine",
                                q, r, comm->n_ranks);
    }
    return LS_OK;
}

static ls_status connect(ls__nccl_comm *ranks)
{
    ls__comm *comm = &ranks->comm;
    const size_t bytes = (size_t)comm->n_ranks * sizeof(introduction);
    introduction own = { .nccl_version = ranks->nccl->version };
    introduction *all = ls__alloc(comm->ctx, bytes);
    if (!all) return ls__fail_memory(comm->ctx, "NCCL", bytes);
    memcpy(own.gpu, ranks->cuda->properties.uuid, sizeof(own.gpu));
    int result = LS__NCCL_SUCCESS;
    if (comm->rank == 0) result = ranks->nccl->get_unique_id(&own.id);
    ls_status status =
        result == LS__NCCL_SUCCESS ? LS_OK : nccl_fail(ranks, result, "ncclGetUniqueId");
    if (status == LS_OK)
        status = ls__comm_gather(comm->ctx->comm, &own, sizeof(own), all, "device 'cuda'");
    if (status == LS_OK) status = check_introductions(ranks, all);
    if (status == LS_OK) {
        ls__nccl_config config = LS__NCCL_CONFIG;
        config.blocking = 0;
        result = ranks->nccl->comm_init_rank_config(&ranks->handle, comm->n_ranks, all[0].id,
                                                    comm->rank, &config);
        status = settle(ranks, result, "ncclCommInitRankConfig");
    }
    ls__free(comm->ctx, all);
    return status;
}

static ls_status nccl_open_ranks(ls__nccl_comm *ranks)
{
    ls__cuda *cuda = ranks->cuda;
    const ls__cuda_driver *driver = ls__cuda_enter(&cuda->device);
    LS_TRY(ls__cuda_check(cuda, driver->stream_open(&ranks->stream), "NCCL: a stream"));
    LS_TRY(ls__cuda_check(cuda, driver->event_open(&ranks->begun), "NCCL: an event"));
    return connect(ranks);
}

ls_status ls__nccl_open(ls__device *device, ls__comm **out)
{
    ls_context *ctx = device->ctx;
    ls__cuda *cuda = (ls__cuda *)device;
    char text[512];
    ls__nccl_comm *ranks = ls__zalloc(ctx, sizeof(*ranks));
    if (!ranks) return ls__fail_memory(ctx, "NCCL", sizeof(*ranks));
    ranks->comm = *ctx->comm;
    ranks->comm.provider = &provider;
    ranks->comm.gathering = ranks->comm.roll_call = NULL; /* the host's */
    ranks->comm.gathered = NULL;
    ranks->cuda = cuda;
    ranks->nccl = ls__nccl_load(text, sizeof(text)); /* it was loaded before */
    cuda->ranks = ranks;
    const ls_status status = nccl_open_ranks(ranks);
    if (status == LS_OK)
        *out = &ranks->comm;
    else
        comm_close(&ranks->comm);
    return status;
}
