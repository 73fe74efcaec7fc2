/* communicator.h: opens the communicator of a context, and divides the processors of a machine
 * among its ranks. */
#ifndef LS_BACKEND_COMMUNICATOR_H
#define LS_BACKEND_COMMUNICATOR_H

#include "base/context.h"

/* Opens the communicator that ctx->config.communicator names, as ctx->comm: NULL for one process.
 * Checks the number of shards, and sets the default of ctx->config.threads for several ranks. To be
 * called before the device is opened. */
ls_status ls__communicator_open(ls_context *ctx);

#endif
