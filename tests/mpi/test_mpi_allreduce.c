/* A control of the comparisons between numbers of ranks: sums by MPI_Allreduce differ between 1 and
 * 3 ranks, and from those of comm/plan.h. Runs as 3 ranks. */
#include "ranks.h"

#include "../comm/sums.h"
#include <mpi.h>

enum { SHARDS = 8, COUNT = 1 << 16 };

/* The plain sums of shards [begin, end). */
static void add_shards(int begin, int end, float sums[COUNT])
{
    for (int i = 0; i < COUNT; i++) {
        sums[i] = shard_value(begin, i, 0);
        for (int shard = begin + 1; shard < end; shard++) sums[i] += shard_value(shard, i, 0);
    }
}

int main(int argc, char **argv)
{
    static float of_one[COUNT], of_ranks[COUNT];
    bool present[SHARDS];
    int n_ranks, rank, n_from_one = 0, n_from_plan = 0;
    fill_present(0, SHARDS, present);
    CHECK(MPI_Init(&argc, &argv) == MPI_SUCCESS);
    CHECK(MPI_Comm_size(MPI_COMM_WORLD, &n_ranks) == MPI_SUCCESS && n_ranks == 3);
    CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &rank) == MPI_SUCCESS);
    add_shards(0, SHARDS, of_one);
    add_shards((int)ls__rank_first_shard(SHARDS, rank, n_ranks),
               (int)ls__rank_first_shard(SHARDS, rank + 1, n_ranks), of_ranks);
    CHECK(MPI_Allreduce(MPI_IN_PLACE, of_ranks, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) ==
          MPI_SUCCESS);
    for (int i = 0; i < COUNT; i++) {
        n_from_one += of_ranks[i] != of_one[i];
        n_from_plan += of_ranks[i] != sum_by_definition(present, SHARDS, i, 0);
    }
    CHECK(n_from_one > 0 && n_from_plan > 0);
    CHECK(MPI_Finalize() == MPI_SUCCESS);
    printf("of %d sums %d differ from those of 1 rank, %d from the plan's\n", (int)COUNT,
           n_from_one, n_from_plan);
    return EXIT_SUCCESS;
}
