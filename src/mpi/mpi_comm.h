/* mpi_comm.h: the communicator of MPI, inside its module. */
#ifndef LS_MPI_MPI_COMM_H
#define LS_MPI_MPI_COMM_H

#include "comm/comm.h"
#include <mpi.h>

typedef struct ls__mpi_comm {
    ls__comm comm;  /* must be first */
    MPI_Comm ranks; /* in the order of comm.rank */
    int max_tag;
    int *n_sends, *n_receives; /* [n_ranks]: messages planned so far, to and from each rank */
} ls__mpi_comm;

/* LS_OK, or an error with MPI's text for `code`. `what` names the call: "MPI_Startall". */
ls_status ls__mpi_check(ls__mpi_comm *mpi, int code, const char *what);
/* Checks a code of MPI before there is a communicator. */
ls_status ls__mpi_check_alone(ls_context *ctx, int rank, int code, const char *what);

/* Slots of the provider's table. */
ls_status ls__mpi_exchange_open(ls__comm *comm, const ls__message *sends, int64_t n_sends,
                                const ls__message *receives, int64_t n_receives,
                                ls__exchange **out);
ls_status ls__mpi_exchange_start(ls__exchange *exchange);
ls_status ls__mpi_exchange_test(ls__exchange *exchange, int64_t *n_left);
bool ls__mpi_exchange_has_arrived(const ls__exchange *exchange, int rank);
void ls__mpi_exchange_close(ls__exchange *exchange);

#endif
