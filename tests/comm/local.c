/* local.c: see local.h. */
#include "local.h"

#include "base/alloc.h"
#include "base/error.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct local_message {
    ls__message message;
    bool done; /* in the running exchange */
} local_message;

/* The mutex of the hub guards all fields that change, and the list of each rank. */
struct ls__exchange {
    ls__comm *comm;
    ls__exchange *next;
    int64_t number; /* the same on all ranks */
    int64_t n_sends, n_receives, n_pending;
    local_message *sends, *receives;
    bool running;
};

typedef struct local_comm {
    ls__comm base;
    local_hub *hub;
    int64_t n_opened;
} local_comm;

struct local_hub {
    pthread_mutex_t mutex;
    int n_ranks, *machines;
    ls__exchange *exchanges[LOCAL_MAX_RANKS]; /* of each rank */
    int aborting_rank, exit_status;           /* -1: none */
};

static local_hub *lock(const ls__comm *comm)
{
    local_hub *hub = ((const local_comm *)comm)->hub;
    pthread_mutex_lock(&hub->mutex);
    return hub;
}

/* Unlocks, and reports an abort. */
static ls_status unlock(local_hub *hub, ls__comm *comm)
{
    const int aborting = hub->aborting_rank, exit_status = hub->exit_status;
    pthread_mutex_unlock(&hub->mutex);
    if (aborting < 0) return LS_OK;
    return ls__fail(comm->ctx, LS_ERR_DEVICE, "rank %d of %d: rank %d aborted with exit status %d",
                    comm->rank, comm->n_ranks, aborting, exit_status);
}

/* ---- Messages ---- */

/* The n-th message to or from this rank, and NULL for none. */
static local_message *find_message(local_message *list, int64_t n_list, int rank, int64_t n)
{
    for (int64_t i = 0; i < n_list; i++)
        if (list[i].message.rank == rank && n-- == 0) return &list[i];
    return NULL;
}

static ls__exchange *find_exchange(local_hub *hub, int rank, int64_t number)
{
    ls__exchange *x = hub->exchanges[rank];
    while (x && x->number != number) x = x->next;
    return x && x->running ? x : NULL;
}

/* Copies all messages from one running exchange to the other that are not done. */
static bool copy_messages(ls__exchange *from, ls__exchange *to)
{
    for (int64_t n = 0;; n++) {
        local_message *s = find_message(from->sends, from->n_sends, to->comm->rank, n);
        local_message *r = find_message(to->receives, to->n_receives, from->comm->rank, n);
        if (!s || !r) return !s && !r;
        if (s->done || r->done) continue;
        if (s->message.bytes != r->message.bytes) return false;
        memcpy(r->message.data, s->message.data, s->message.bytes);
        s->done = r->done = true;
        from->n_pending--;
        to->n_pending--;
    }
}

static bool copy_all(local_hub *hub, ls__exchange *x)
{
    const int own = x->comm->rank;
    bool same = true;
    for (int r = 0; r < hub->n_ranks; r++) {
        ls__exchange *other = find_exchange(hub, r, x->number);
        if (!other) continue;
        same = copy_messages(x, other) && same;
        if (r != own) same = copy_messages(other, x) && same;
    }
    return same;
}

/* ---- The provider ---- */

static local_message *copy_list(ls_context *ctx, const ls__message *list, int64_t n)
{
    local_message *copy = ls__zalloc(ctx, (size_t)n * sizeof *copy);
    if (!copy) ls__fail_memory(ctx, "exchange", (size_t)n * sizeof *copy);
    for (int64_t i = 0; copy && i < n; i++) copy[i].message = list[i];
    return copy;
}

static void free_exchange(ls_context *ctx, ls__exchange *x)
{
    ls__free(ctx, x->sends);
    ls__free(ctx, x->receives);
    ls__free(ctx, x);
}

static void exchange_close(ls__exchange *x)
{
    if (!x) return;
    local_hub *hub = lock(x->comm);
    ls__exchange **link = &hub->exchanges[x->comm->rank];
    while (*link != x) link = &(*link)->next;
    *link = x->next;
    pthread_mutex_unlock(&hub->mutex);
    free_exchange(x->comm->ctx, x);
}

static ls_status exchange_open(ls__comm *comm, const ls__message *sends, int64_t n_sends,
                               const ls__message *receives, int64_t n_receives, ls__exchange **out)
{
    ls__exchange *x = ls__zalloc(comm->ctx, sizeof *x);
    if (!x) return ls__fail_memory(comm->ctx, "exchange", sizeof *x);
    x->comm = comm;
    x->n_sends = n_sends;
    x->n_receives = n_receives;
    x->sends = copy_list(comm->ctx, sends, n_sends);
    if (x->sends) x->receives = copy_list(comm->ctx, receives, n_receives);
    if (!x->receives) {
        free_exchange(comm->ctx, x);
        return LS_ERR_MEMORY;
    }
    local_hub *hub = lock(comm);
    x->number = ((local_comm *)comm)->n_opened++;
    x->next = hub->exchanges[comm->rank];
    hub->exchanges[comm->rank] = x;
    const ls_status status = unlock(hub, comm);
    if (status == LS_OK)
        *out = x;
    else
        exchange_close(x);
    return status;
}

static ls_status exchange_start(ls__exchange *x)
{
    ls__comm *comm = x->comm;
    local_hub *hub = lock(comm);
    const bool was_running = x->running;
    bool same = true;
    if (!was_running) {
        x->running = true;
        x->n_pending = x->n_sends + x->n_receives;
        for (int64_t i = 0; i < x->n_sends; i++) x->sends[i].done = false;
        for (int64_t i = 0; i < x->n_receives; i++) x->receives[i].done = false;
        same = copy_all(hub, x);
    }
    LS_TRY(unlock(hub, comm));
    if (was_running)
        return ls__fail(comm->ctx, LS_ERR_INVALID, "rank %d: exchange %lld is running already",
                        comm->rank, (long long)x->number);
    if (!same)
        return ls__fail(comm->ctx, LS_ERR_INVALID,
                        "rank %d: exchange %lld: sends and receives differ in number or bytes",
                        comm->rank, (long long)x->number);
    return LS_OK;
}

static ls_status exchange_test(ls__exchange *x, int64_t *n_left)
{
    local_hub *hub = lock(x->comm);
    *n_left = x->n_pending;
    if (*n_left == 0) x->running = false;
    return unlock(hub, x->comm);
}

static bool exchange_has_arrived(const ls__exchange *x, int rank)
{
    local_hub *hub = lock(x->comm);
    bool has_arrived = true;
    for (int64_t i = 0; i < x->n_receives; i++)
        if (x->receives[i].message.rank == rank && !x->receives[i].done) has_arrived = false;
    pthread_mutex_unlock(&hub->mutex);
    return has_arrived;
}

static void abort_ranks(ls__comm *comm, int exit_status)
{
    local_hub *hub = lock(comm);
    if (hub->aborting_rank < 0) {
        hub->aborting_rank = comm->rank;
        hub->exit_status = exit_status;
    }
    pthread_mutex_unlock(&hub->mutex);
}

static void close_comm(ls__comm *comm)
{
    ls__free(comm->ctx, comm->machines);
    ls__free(comm->ctx, comm);
}

static const ls__comm_provider provider = { .name = "local",
                                            .exchange_open = exchange_open,
                                            .exchange_start = exchange_start,
                                            .exchange_test = exchange_test,
                                            .exchange_has_arrived = exchange_has_arrived,
                                            .exchange_close = exchange_close,
                                            .abort = abort_ranks,
                                            .close = close_comm };

/* ---- Opening ---- */

local_hub *local_hub_open(int n_ranks, const int *machines)
{
    local_hub *hub = calloc(1, sizeof *hub);
    hub->n_ranks = n_ranks;
    hub->aborting_rank = -1;
    hub->machines = calloc((size_t)n_ranks, sizeof *hub->machines);
    for (int r = 0; machines && r < n_ranks; r++) hub->machines[r] = machines[r];
    pthread_mutex_init(&hub->mutex, NULL);
    return hub;
}

void local_hub_close(local_hub **hub)
{
    pthread_mutex_destroy(&(*hub)->mutex);
    free((*hub)->machines);
    free(*hub);
    *hub = NULL;
}

ls_status local_comm_open(ls_context *ctx, local_hub *hub, int rank, double timeout_seconds,
                          ls__comm **out)
{
    const size_t machines_bytes = (size_t)hub->n_ranks * sizeof *hub->machines;
    local_comm *c = ls__zalloc(ctx, sizeof *c);
    if (!c) return ls__fail_memory(ctx, "communicator", sizeof *c);
    c->hub = hub;
    c->base = (ls__comm){ .provider = &provider,
                          .ctx = ctx,
                          .rank = rank,
                          .n_ranks = hub->n_ranks,
                          .machines = ls__alloc(ctx, machines_bytes),
                          .timeout_seconds = timeout_seconds };
    if (!c->base.machines) {
        ls__free(ctx, c);
        return ls__fail_memory(ctx, "communicator", machines_bytes);
    }
    memcpy(c->base.machines, hub->machines, machines_bytes);
    *out = &c->base;
    return LS_OK;
}
