/* local.h: a provider for tests, whose ranks are threads of one process. All copies are made under
 * one mutex, by the rank that starts its exchange later. */
#ifndef LS_TESTS_COMM_LOCAL_H
#define LS_TESTS_COMM_LOCAL_H

#include "comm/comm.h"

enum { LOCAL_MAX_RANKS = 64 };

typedef struct local_hub local_hub;

/* machines: of each rank, as in ls__comm; NULL = one machine. Thread-safe, unless it closes. */
local_hub *local_hub_open(int n_ranks, const int *machines);
/* All communicators are closed. */
void local_hub_close(local_hub **hub);

/* One call for each rank, with its own context. exchange_open, _start and _test return
 * LS_ERR_DEVICE after an abort, and LS_ERR_INVALID if a message is received with other bytes. */
ls_status local_comm_open(ls_context *ctx, local_hub *hub, int rank, double timeout_seconds,
                          ls__comm **out);

#endif
