/* comm.c: what is the same for all providers: small messages to all ranks, and waits that end. */
#include "comm/comm.h"
#include "comm/plan.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/pause.h"
#include "base/text.h"
#include <string.h>

/* ---- Waiting ---- */

/* A rank that has not arrived may wait for another one itself, as in exchanges in two levels. Its
 * time limit ends within this time, too, unless the ranks began to wait further apart. */
enum { ROLL_CALL_SECONDS = 1 };

static void call_roll(ls__comm *comm)
{
    const double end = ls__now_seconds() + ROLL_CALL_SECONDS;
    int64_t n_left = 1;
    ls_status status = comm->provider->exchange_start(comm->roll_call);
    while (status == LS_OK && n_left > 0 && ls__now_seconds() < end) {
        nanosleep(&(struct timespec){ .tv_nsec = LS__MAX_SLEEP_NS }, NULL);
        status = comm->provider->exchange_test(comm->roll_call, &n_left);
    }
}

/* The ranks that have arrived in neither of two exchanges, as a list. Returns their number. */
static int list_missing(const ls__comm *comm, const ls__exchange *a, const ls__exchange *b,
                        char *buffer, size_t size)
{
    ls__text ranks = { buffer, size, 0 };
    int n = 0;
    for (int r = 0; r < comm->n_ranks; r++)
        if (!comm->provider->exchange_has_arrived(a, r) &&
            !comm->provider->exchange_has_arrived(b, r))
            ls__text_put(&ranks, n++ ? ", %d" : "%d", r);
    return n;
}

static ls_status fail_timeout(ls__comm *comm, const ls__exchange *exchange, const char *what)
{
    char ranks[512];
    const ls__exchange *roll = comm->roll_call ? comm->roll_call : exchange;
    if (comm->roll_call) call_roll(comm);
    int n = list_missing(comm, exchange, roll, ranks, sizeof ranks);
    if (n == 0) n = list_missing(comm, roll, roll, ranks, sizeof ranks);
    if (n == 0) n = list_missing(comm, exchange, exchange, ranks, sizeof ranks);
    if (n == 0)
        return ls__fail(comm->ctx, LS_ERR_TIMEOUT,
                        "%s: rank %d of %d: after %g seconds its messages have not been received",
                        what, comm->rank, comm->n_ranks, comm->timeout_seconds);
    return ls__fail(comm->ctx, LS_ERR_TIMEOUT,
                    "%s: rank %d of %d: after %g seconds %s %s %s not arrived", what, comm->rank,
                    comm->n_ranks, comm->timeout_seconds, n == 1 ? "rank" : "ranks", ranks,
                    n == 1 ? "has" : "have");
}

static ls_status fail_lost(ls__comm *comm, const char *what)
{
    return ls__fail(comm->ctx, LS_ERR_IO, "%s: the other ranks have ended, or do not answer", what);
}

/* Makes progress until nothing is left or `seconds` have passed; then *late is an exchange that is
 * not done. The pauses begin again when something arrives, because a rank that sleeps stops its
 * senders. */
static ls_status progress_for(double seconds, ls__progress_fn *progress, void *work,
                              const ls__exchange **late)
{
    const double end = ls__now_seconds() + seconds;
    int64_t n_before = -1;
    ls__pauses pauses = { 0 };
    for (*late = NULL;;) {
        /* The clock is read before the test, so that messages that arrived while the process was
         * stopped are not late. */
        const bool is_late = ls__now_seconds() > end;
        int64_t n_left = 0;
        const ls__exchange *running = NULL;
        LS_TRY(progress(work, &n_left, &running));
        if (n_left == 0) return LS_OK;
        if (is_late) {
            *late = running;
            return LS_OK;
        }
        if (n_left != n_before) pauses = (ls__pauses){ 0 };
        n_before = n_left;
        ls__pause(&pauses);
    }
}

ls_status ls__comm_wait_for(ls__comm *comm, ls__progress_fn *progress, void *work, const char *what)
{
    const ls__exchange *late;
    ls_status status = progress_for(comm->timeout_seconds, progress, work, &late);
    if (status == LS_OK && late) status = fail_timeout(comm, late, what);
    comm->is_lost |= status != LS_OK;
    return status;
}

/* One exchange and its communicator. */
typedef struct waiting {
    const ls__comm *comm;
    ls__exchange *exchange;
} waiting;

static ls_status test_exchange(void *work, int64_t *n_left, const ls__exchange **running)
{
    const waiting *w = work;
    *running = w->exchange;
    return w->comm->provider->exchange_test(w->exchange, n_left);
}

ls_status ls__comm_wait(ls__comm *comm, ls__exchange *exchange, const char *what)
{
    return ls__comm_wait_for(comm, test_exchange, &(waiting){ comm, exchange }, what);
}

/* ---- Samples ---- */

void ls__rank_samples(const ls_context *ctx, int64_t n, int64_t *begin, int64_t *end)
{
    const ls__comm *comm = ctx->comm;
    const int64_t shards = ctx->config.shards;
    *begin = 0;
    *end = n;
    if (!comm) return;
    const int64_t first = ls__rank_first_shard(shards, comm->rank, comm->n_ranks);
    const int64_t last = ls__rank_first_shard(shards, comm->rank + 1, comm->n_ranks);
    *begin = ls__shard_first_sample(n, first, shards);
    *end = ls__shard_first_sample(n, last, shards);
}

/* ---- Gathering ---- */

/* The message of a rank. All have one size, so that one exchange serves all calls. */
typedef struct slot {
    uint64_t call; /* a hash of `what` and `bytes`: differs if ranks are in different calls */
    unsigned char bytes[LS__GATHER_BYTES];
} slot;

static slot *rank_slot(const ls__comm *comm, int rank)
{
    return (slot *)comm->gathered + rank;
}

/* Opens an exchange of `bytes` of each rank to all others. Those of rank r are at memory + r bytes.
 */
static ls_status open_to_all(ls__comm *comm, unsigned char *memory, size_t bytes,
                             ls__exchange **out)
{
    ls_context *ctx = comm->ctx;
    const size_t n = (size_t)comm->n_ranks, messages_bytes = 2 * n * sizeof(ls__message);
    ls__message *sends = ls__alloc(ctx, messages_bytes);
    if (!sends) return ls__fail_memory(ctx, "communicator", messages_bytes);
    ls__message *receives = sends + n;
    int64_t n_others = 0;
    for (int r = 0; r < comm->n_ranks; r++) {
        if (r == comm->rank) continue;
        sends[n_others] = (ls__message){ r, memory + (size_t)comm->rank * bytes, bytes };
        receives[n_others++] = (ls__message){ r, memory + (size_t)r * bytes, bytes };
    }
    const ls_status status =
        comm->provider->exchange_open(comm, sends, n_others, receives, n_others, out);
    ls__free(ctx, sends);
    return status;
}

static ls_status open_gathering(ls__comm *comm)
{
    const size_t n = (size_t)comm->n_ranks, bytes = n * (sizeof(slot) + 1);
    if (!comm->gathered) comm->gathered = ls__zalloc(comm->ctx, bytes);
    if (!comm->gathered) return ls__fail_memory(comm->ctx, "communicator", bytes);
    unsigned char *roll = comm->gathered + n * sizeof(slot);
    if (!comm->roll_call) LS_TRY(open_to_all(comm, roll, 1, &comm->roll_call));
    return open_to_all(comm, comm->gathered, sizeof(slot), &comm->gathering);
}

ls_status ls__comm_gather(ls__comm *comm, const void *own, size_t bytes, void *all,
                          const char *what)
{
    if (bytes > LS__GATHER_BYTES)
        return ls__fail(comm->ctx, LS_ERR_INVALID,
                        "%s: %zu bytes of each rank, expected at most %d", what, bytes,
                        LS__GATHER_BYTES);
    if (comm->is_lost) return fail_lost(comm, what);
    if (!comm->gathering) LS_TRY(open_gathering(comm));
    const uint64_t call = ls__hash(what, strlen(what), bytes);
    rank_slot(comm, comm->rank)->call = call;
    memcpy(rank_slot(comm, comm->rank)->bytes, own, bytes);
    LS_TRY(comm->provider->exchange_start(comm->gathering));
    LS_TRY(ls__comm_wait(comm, comm->gathering, what));
    for (int r = 0; r < comm->n_ranks; r++) {
        if (rank_slot(comm, r)->call != call) {
            comm->is_lost = true;
            return ls__fail(comm->ctx, LS_ERR_MISMATCH,
                            "%s: rank %d is in another call, after an error of its own", what, r);
        }
        memcpy((unsigned char *)all + (size_t)r * bytes, rank_slot(comm, r)->bytes, bytes);
    }
    return LS_OK;
}

/* Gathers, so that other ranks find that this rank is in another call. *late: not all ranks have
 * gathered. */
static ls_status gather_late_ranks(ls__comm *comm, const char *what, const ls__exchange **late)
{
    enum { MAX_GATHER_SECONDS = 10 };
    if (!comm->gathering) LS_TRY(open_gathering(comm));
    rank_slot(comm, comm->rank)->call = ls__hash(what, strlen(what), 0);
    LS_TRY(comm->provider->exchange_start(comm->gathering));
    const double seconds = comm->timeout_seconds;
    return progress_for(seconds < MAX_GATHER_SECONDS ? seconds : MAX_GATHER_SECONDS, test_exchange,
                        &(waiting){ comm, comm->gathering }, late);
}

ls_status ls__comm_fail_wait(ls__comm *comm, const char *what)
{
    const ls__exchange *late;
    if (comm->is_lost) return fail_lost(comm, what);
    LS_TRY(gather_late_ranks(comm, what, &late));
    comm->is_lost = true;
    if (late) return fail_timeout(comm, late, what);
    return ls__fail(comm->ctx, LS_ERR_TIMEOUT,
                    "%s: rank %d of %d: after %g seconds messages between devices have not "
                    "arrived, although all ranks answer",
                    what, comm->rank, comm->n_ranks, comm->timeout_seconds);
}

/* Lost ranks are marked in ctx->comm alone, also for the communicator of a device. */
ls_status ls__comm_start(ls__comm *comm, ls__exchange *exchange, const char *what)
{
    if (comm->ctx->comm->is_lost) return fail_lost(comm, what);
    return comm->provider->exchange_start(exchange);
}

ls_status ls__comm_run(ls__comm *comm, ls__exchange *exchange, const char *what)
{
    LS_TRY(ls__comm_start(comm, exchange, what));
    return ls__comm_wait(comm, exchange, what);
}

ls_status ls__comm_exchange(ls__comm *comm, const ls__message *sends, int64_t n_sends,
                            const ls__message *receives, int64_t n_receives, const char *what)
{
    ls__exchange *exchange;
    LS_TRY(comm->provider->exchange_open(comm, sends, n_sends, receives, n_receives, &exchange));
    const ls_status status = ls__comm_run(comm, exchange, what);
    comm->provider->exchange_close(exchange);
    return status;
}

void ls__comm_close(ls__comm **comm)
{
    if (!comm || !*comm) return;
    ls__comm *c = *comm;
    c->provider->exchange_close(c->roll_call);
    c->provider->exchange_close(c->gathering);
    ls__free(c->ctx, c->gathered);
    c->provider->close(c);
    *comm = NULL;
}
