/* launcher.c: what launchers of MPI programs tell their processes; see module.h. */
#include "backend/module.h"
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

/* Launchers that run inside others come first, because their processes have the variables of both.
 * A process of Open MPI without a launcher sets PMIX_RANK, too. */
static const struct {
    const char *variable, *rank; /* the number of processes, and this one's */
    bool is_rank;                /* one variable gives both */
    const char *mark;            /* another variable that must be set; may be NULL */
} variables[] = {
    { "WORLD_SIZE", "RANK", .mark = "TORCHELASTIC_RUN_ID" },   /* torchrun, which is refused */
    { "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", false }, /* Open MPI's mpirun */
    { "PMI_SIZE", "PMI_RANK", false }, /* mpiexec of MPICH and Intel MPI, srun --mpi=pmi2 */
    { "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", false }, /* srun, with any --mpi */
    { "PMIX_RANK", "PMIX_RANK", true },                /* prterun and others with PMIx */
};

/* -1 unless the text is a count. */
static long read_count(const char *text)
{
    char *end;
    if (!text || *text < '0' || *text > '9') return -1;
    errno = 0;
    const long n = strtol(text, &end, 10);
    return *end == '\0' && errno == 0 ? n : -1;
}

ls_launch ls__launch_find(void)
{
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        const char *mark = variables[i].mark;
        const long n = read_count(getenv(variables[i].variable));
        if (n < 0 || (mark && !getenv(mark))) continue;
        /* Rank 2 is one of at least three. */
        const long n_ranks = variables[i].is_rank && n > 0 ? n + 1 : n;
        return (ls_launch){ variables[i].variable, n_ranks, read_count(getenv(variables[i].rank)) };
    }
    return (ls_launch){ .rank = -1 };
}
