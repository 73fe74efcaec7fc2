/* ranks.h: how ranks are started. */
#ifndef LS_RUN_RANKS_H
#define LS_RUN_RANKS_H

#include "backend/module.h"
#include <lockstep/context.h>

/* Whether a launcher started this process as rank 0, or as the only one. */
bool ls__ranks_is_first(void);

/* Whether this process can start ranks: mpirun is in PATH, and the module for Open MPI loads. Else
 * LS_ERR_UNSUPPORTED says which is missing. */
ls_status ls__ranks_find_launcher(ls_context *ctx);

#endif
