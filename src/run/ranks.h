/* ranks.h: what the ranks of a context do together, and how they are started. */
#ifndef LS_RUN_RANKS_H
#define LS_RUN_RANKS_H

#include "backend/launcher.h"
#include "comm/agree.h"
#include <lockstep/context.h>

enum { LS__MAX_RANKS = 64 };

/* The numbers of all ranks, in their order; with one rank, its own. All ranks call it. */
ls_status ls__ranks_gather(ls_context *ctx, int own, int all[LS__MAX_RANKS]);

/* Whether this process can start ranks: mpirun is in PATH, and the module for Open MPI loads. Else
 * LS_ERR_UNSUPPORTED says which is missing. */
ls_status ls__ranks_find_launcher(ls_context *ctx);

/* On how many machines the ranks run. */
int ls__ranks_machine_count(const ls_context *ctx);

/* Ends all ranks with this exit status, if there are several. ctx may be NULL. */
void ls__ranks_abort(ls_context *ctx, int exit_status);

#endif
