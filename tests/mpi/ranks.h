/* ranks.h: checks of programs that run as several ranks: a failed check ends all of them. */
#ifndef LS_TESTS_MPI_RANKS_H
#define LS_TESTS_MPI_RANKS_H

#include "base/context.h"
#include "comm/comm.h"
#include <stdio.h>
#include <stdlib.h>

static ls_context *checked; /* the open one */

static inline void fail_check(const char *file, int line, const char *text)
{
    fprintf(stderr, "rank %d: %s:%d: %s: %s\n", ls_context_rank(checked), file, line, text,
            ls_context_message(checked));
    if (checked && checked->comm) checked->comm->provider->abort(checked->comm, EXIT_FAILURE);
    _Exit(EXIT_FAILURE);
}
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) fail_check(__FILE__, __LINE__, #condition);                              \
    } while (0)

static inline ls_context *open_ranks(void)
{
    checked = ls_context_open(&(ls_context_config){
        .communicator = "mpi", .shards = 8, .threads = 1, .communication_timeout_seconds = 100 });
    CHECK(ls_context_status(checked) == LS_OK);
    return checked;
}

static inline void close_ranks(ls_context **ctx)
{
    ls_context_close(ctx);
    checked = NULL;
}

static inline void wait_for(ls__exchange *e)
{
    CHECK(ls__comm_wait(checked->comm, e, "test") == LS_OK);
}

#endif
