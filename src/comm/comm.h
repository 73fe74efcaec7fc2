/* comm.h: ranks, the processes that compute the shards of a run together, and the contract of a
 * provider that moves bytes between them. Providers add nothing: all sums are Lockstep's own, in
 * the order of plan.h. */
#ifndef LS_COMM_COMM_H
#define LS_COMM_COMM_H

#include "base/context.h"

typedef struct ls__comm ls__comm;
typedef struct ls__exchange ls__exchange;

/* The n-th message from one rank to another is the n-th one that the other one receives from it.
 * What a rank sends to itself is copied. */
typedef struct ls__message {
    int rank;     /* the other one, or the own */
    void *data;   /* memory that does not move until the exchange is closed */
    size_t bytes; /* > 0 */
} ls__message;

/* Functions of a provider. Each rank calls them from one thread at a time. After an error only
 * exchange_close, abort and close may follow.
 *
 * A device's provider (ls__backend.comm_open) moves device memory, and only queues work, which may
 * be captured: exchange_start queues the exchange after the present work of COMPUTE, and after
 * earlier exchanges; the first exchange_test after it makes later work of COMPUTE wait for the
 * exchange, and reports that it is done. */
typedef struct ls__comm_provider {
    const char *name; /* "mpi" */
    /* Plans an exchange; moves nothing. All ranks open and close their exchanges in the same
     * order. */
    ls_status (*exchange_open)(ls__comm *comm, const ls__message *sends, int64_t n_sends,
                               const ls__message *receives, int64_t n_receives, ls__exchange **out);
    /* Begins an exchange that is not running. Its sends may not be written, its receives not be
     * read, until it is done. */
    ls_status (*exchange_start)(ls__exchange *exchange);
    /* Makes progress, without waiting. Other exchanges make progress, too. *n_left: messages, or
     * parts of them, that are not complete; 0 = the exchange is done. */
    ls_status (*exchange_test)(ls__exchange *exchange, int64_t *n_left);
    /* Whether all messages from a rank have arrived, in the running exchange; true if it has
     * none. */
    bool (*exchange_has_arrived)(const ls__exchange *exchange, int rank);
    /* NULL: nothing. A running exchange is cancelled. */
    void (*exchange_close)(ls__exchange *exchange);
    /* Ends all ranks with this exit status, or at least this one. May return before it ends. */
    void (*abort)(ls__comm *comm, int exit_status);
    /* Frees the communicator and its machines. */
    void (*close)(ls__comm *comm);
} ls__comm_provider;

struct ls__comm {
    const ls__comm_provider *provider;
    ls_context *ctx;
    int rank, n_ranks;
    int *machines; /* of each rank: the lowest rank on the same machine; the provider's */
    double timeout_seconds;
    int64_t bucket_elements; /* of the gradients that are exchanged together; 0 = the default */
    bool is_lost;            /* a wait has failed, or a rank has given up: none may be waited for */
    ls__exchange *gathering; /* of ls__comm_gather, opened by the first call */
    ls__exchange *roll_call; /* a byte of each rank to all: after a time-out, by those that live */
    unsigned char *gathered;
};

static inline bool ls__is_first_rank(const ls_context *ctx)
{
    return !ctx->comm || ctx->comm->rank == 0;
}

/* The samples [*begin, *end) of a training batch of n that this rank computes. */
void ls__rank_samples(const ls_context *ctx, int64_t n, int64_t *begin, int64_t *end);

enum { LS__GATHER_BYTES = 4096 };

/* Each rank gets the bytes of all ranks, in the order of ranks. All ranks call it with the same
 * `bytes`, at most LS__GATHER_BYTES. `what` names the wait in errors: "step 17". */
ls_status ls__comm_gather(ls__comm *comm, const void *own, size_t bytes, void *all,
                          const char *what);

/* Waits until the exchange is done. After timeout_seconds: LS_ERR_TIMEOUT with `what` and the ranks
 * whose messages have not arrived, without those that wait for others. */
ls_status ls__comm_wait(ls__comm *comm, ls__exchange *exchange, const char *what);
/* Waits for work that includes several exchanges: calls `progress` until *n_left is 0. *n_left is a
 * number that changes with each progress; *running is an exchange that is not done. */
typedef ls_status ls__progress_fn(void *work, int64_t *n_left, const ls__exchange **running);
ls_status ls__comm_wait_for(ls__comm *comm, ls__progress_fn *progress, void *work,
                            const char *what);

/* Begins an exchange, unless ranks are lost. */
ls_status ls__comm_start(ls__comm *comm, ls__exchange *exchange, const char *what);
/* Begins an exchange, and waits until it is done. */
ls_status ls__comm_run(ls__comm *comm, ls__exchange *exchange, const char *what);
/* Opens an exchange, runs it as ls__comm_run does, and closes it. */
ls_status ls__comm_exchange(ls__comm *comm, const ls__message *sends, int64_t n_sends,
                            const ls__message *receives, int64_t n_receives, const char *what);

/* Reports a wait on a device that has not ended in timeout_seconds: LS_ERR_TIMEOUT with `what` and
 * the ranks that do not answer on the host either. The ranks are lost. */
ls_status ls__comm_fail_wait(ls__comm *comm, const char *what);

/* NULL: nothing. All other exchanges are closed already. */
void ls__comm_close(ls__comm **comm);

#endif
