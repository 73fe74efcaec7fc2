/* launcher.h: what launchers of MPI programs (mpirun, srun) tell their processes by environment
 * variables, which every MPI library reads only from its own launchers. */
#ifndef LS_BACKEND_LAUNCHER_H
#define LS_BACKEND_LAUNCHER_H

typedef struct ls__launch {
    const char *variable; /* environment variable that counts the processes; NULL: no launcher
                           * started this one */
    long n_ranks;         /* 0 = unknown, perhaps more than one */
    long rank;            /* -1 = unknown; rank 0 is rank 0 of the communicator, too */
} ls__launch;

/* The innermost launcher as far as the environment shows it. Variables of a Slurm allocation
 * (SLURM_NTASKS) do not count, because each shell in it has them. */
ls__launch ls__launch_find(void);

#endif
