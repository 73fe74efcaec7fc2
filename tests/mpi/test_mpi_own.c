/* Programs that call MPI themselves: contexts use it, and leave its end to the program. Runs as two
 * ranks. */
#include "ranks.h"

#include <mpi.h>
#include <string.h>

static ls_status open_and_close(const char *text)
{
    checked =
        ls_context_open(&(ls_context_config){ .communicator = "mpi", .shards = 2, .threads = 1 });
    const ls_status status = ls_context_status(checked);
    CHECK(strstr(ls_context_message(checked), text));
    CHECK(status != LS_OK || ls_context_rank_count(checked) == 2);
    close_ranks(&checked);
    return status;
}

int main(int argc, char **argv)
{
    int level, n = 0, one = 1;
    const bool single = argc > 1 && strcmp(argv[1], "single") == 0;
    CHECK(MPI_Init_thread(&argc, &argv, single ? MPI_THREAD_SINGLE : MPI_THREAD_FUNNELED, &level) ==
          MPI_SUCCESS);
    if (single) {
        CHECK(open_and_close("expected MPI_THREAD_FUNNELED") == LS_ERR_UNSUPPORTED);
    } else {
        for (int i = 0; i < 2; i++) CHECK(open_and_close("") == LS_OK);
        CHECK(MPI_Allreduce(&one, &n, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
        CHECK(n == 2);
    }
    CHECK(MPI_Finalize() == MPI_SUCCESS);
    CHECK(open_and_close("has called MPI_Finalize") == LS_ERR_UNSUPPORTED);
    printf("ok\n");
    return EXIT_SUCCESS;
}
