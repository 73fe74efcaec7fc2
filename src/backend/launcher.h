/* launcher.h: what launchers of MPI programs (mpirun, srun) tell their processes by environment
 * variables, which every MPI library reads only from its own launchers. */
#ifndef LS_BACKEND_LAUNCHER_H
#define LS_BACKEND_LAUNCHER_H

#include <lockstep/context.h>

/* ls_launch_find, also for modules, which have their own copy. */
ls_launch ls__launch_find(void);

#endif
