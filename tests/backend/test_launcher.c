/* The launcher, as environment variables show it. */
#include "backend/module.h"

#include "../suite.h"
#include <string.h>

static const char *const variables[] = {
    "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "PMIX_RANK",  "SLURM_NTASKS",
    "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID",         "WORLD_SIZE", "RANK",
    "TORCHELASTIC_RUN_ID"
};
enum { N_VARIABLES = sizeof(variables) / sizeof(variables[0]) };

START_TEST(launchers)
{
    static const struct {
        const char *values[N_VARIABLES];
        const char *variable;
        long n_ranks, rank;
    } cases[] = {
        { { NULL }, NULL, 0, -1 },
        { { "4", NULL, NULL, NULL, NULL, "3", "1", "2" }, "OMPI_COMM_WORLD_SIZE", 4, 3 },
        { { "1" }, "OMPI_COMM_WORLD_SIZE", 1, -1 },
        { { "1", "2", "3", "1" }, "OMPI_COMM_WORLD_SIZE", 1, -1 }, /* mpirun inside the others */
        { { NULL, "2", NULL, NULL, NULL, NULL, "1", "0" }, "PMI_SIZE", 2, 1 },
        { { NULL, NULL, "3", NULL, NULL, NULL, NULL, "2" }, "SLURM_STEP_NUM_TASKS", 3, 2 },
        { { NULL, NULL, "2", "1" }, "SLURM_STEP_NUM_TASKS", 2, -1 },
        { { NULL, NULL, NULL, "0" }, "PMIX_RANK", 0, 0 },
        { { NULL, NULL, NULL, "2" }, "PMIX_RANK", 3, 2 },
        { { NULL, NULL, NULL, NULL, "8" }, NULL, 0, -1 }, /* a shell of salloc */
        { { [8] = "4", "3", "none" }, "WORLD_SIZE", 4, 3 },
        { { "2", [8] = "4", "3", "none" }, "WORLD_SIZE", 4, 3 }, /* torchrun inside mpirun */
        { { [8] = "4", "3" }, NULL, 0, -1 },
        { { "", "-2", "2x", "99999999999999999999" }, NULL, 0, -1 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (int v = 0; v < N_VARIABLES; v++)
            if (cases[i].values[v])
                setenv(variables[v], cases[i].values[v], 1);
            else
                unsetenv(variables[v]);
        const ls_launch launch = ls__launch_find();
        ck_assert_pstr_eq(launch.variable, cases[i].variable);
        ck_assert_int_eq(launch.n_ranks, cases[i].n_ranks);
        ck_assert_int_eq(launch.rank, cases[i].rank);
    }
}
END_TEST

TEST_PROGRAM(launcher)
{
    return RUN_SUITE("launcher", launchers);
}
