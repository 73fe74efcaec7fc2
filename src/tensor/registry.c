/* registry.c: the backends by name. */
#include "tensor/registry.h"

#include "base/context.h"
#include "base/error.h"
#include <string.h>

extern const ls__backend ls__cpu_backend; /* src/cpu */

/* Fastest first: "auto" takes the first one. */
static const ls__backend *const backends[] = { &ls__cpu_backend };
enum { N_BACKENDS = sizeof(backends) / sizeof(backends[0]) };

ls_status ls__registry_open(ls_context *ctx, ls__device **out)
{
    *out = NULL;
    const char *name = ctx->config.device ? ctx->config.device : "cpu";
    if (strcmp(name, "auto") == 0) return backends[0]->open(ctx, 0, out);
    for (int i = 0; i < N_BACKENDS; i++) {
        if (strcmp(name, backends[i]->name) == 0) return backends[i]->open(ctx, 0, out);
    }
    if (strcmp(name, "cuda") == 0) {
        return ls__fail(ctx, LS_ERR_UNSUPPORTED,
                        "ls_context_open: device 'cuda': this build has no CUDA backend, only cpu");
    }
    char known[256] = "auto";
    for (int i = 0; i < N_BACKENDS; i++) {
        strncat(known, ", ", sizeof(known) - strlen(known) - 1);
        strncat(known, backends[i]->name, sizeof(known) - strlen(known) - 1);
    }
    return ls__fail(ctx, LS_ERR_NOT_FOUND,
                    "ls_context_open: there is no device '%.100s', there are %s", name, known);
}
