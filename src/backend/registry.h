/* registry.h: opens the device and the communicator that a context names. Only registry.c names
 * backends, only communicator.c communicators. */
#ifndef LS_BACKEND_REGISTRY_H
#define LS_BACKEND_REGISTRY_H

#include "backend/backend.h"

/* Opens the device that ctx->config.device names: "cpu" (or NULL), "cuda", "cuda:1", "auto". An
 * unknown name is an error that lists the known ones. */
ls_status ls__registry_open(ls_context *ctx, ls__device **out);

/* Opens the communicator that ctx->config.communicator names, as ctx->comm: NULL for one process.
 * Checks the number of shards, divides the processors of a machine among its ranks, and so sets the
 * default of ctx->config.threads for several ranks. To be called before the device is opened. */
ls_status ls__communicator_open(ls_context *ctx);

#endif
