/* registry.h: opens a backend by name; only this file names backends. */
#ifndef LS_BACKEND_REGISTRY_H
#define LS_BACKEND_REGISTRY_H

#include "backend/backend.h"

/* Opens the device that ctx->config.device names: "cpu" (or NULL), "cuda", "cuda:1", "auto". An
 * unknown name is an error that lists the known ones. */
ls_status ls__registry_open(ls_context *ctx, ls__device **out);

#endif
