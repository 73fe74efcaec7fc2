/* error.c: errors of MPI's functions, with MPI's texts. */
#include "mpi/mpi_comm.h"

#include "base/error.h"
#include <stdio.h>

ls_status ls__mpi_check_alone(ls_context *ctx, int rank, int code, const char *what)
{
    if (code == MPI_SUCCESS) return LS_OK;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS)
        snprintf(text, sizeof(text), "error %d", code);
    return ls__fail(ctx, LS_ERR_IO, "communicator 'mpi': rank %d: %s: %s", rank, what, text);
}

ls_status ls__mpi_check(ls__mpi_comm *mpi, int code, const char *what)
{
    return ls__mpi_check_alone(mpi->comm.ctx, mpi->comm.rank, code, what);
}
