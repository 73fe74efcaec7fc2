/* registry.c: the backends by name. */
#include "backend/registry.h"

#include "base/context.h"
#include "base/error.h"
#include "comm/comm.h"
#include "backend/module.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

extern const ls__backend ls__cpu_backend; /* src/cpu */

static ls_status open_cpu(ls_context *ctx, int index, ls__device **out)
{
    if (index > 0)
        return ls__fail(ctx, LS_ERR_NOT_FOUND, "ls_context_open: the only cpu device is 0");
    return ls__cpu_backend.open(ctx, 0, out);
}

static ls_status load_cuda(ls_context *ctx, const ls__module **out)
{
    if (ctx->comm)
        return ls__fail(ctx, LS_ERR_UNSUPPORTED,
                        "device 'cuda' can't be used by %d ranks, expected device 'cpu'",
                        ctx->comm->n_ranks);
    return ls__module_load(ctx, "device", "cuda", out);
}

static ls_status open_cuda(ls_context *ctx, int index, ls__device **out)
{
    const ls__module *cuda;
    LS_TRY(load_cuda(ctx, &cuda));
    return cuda->backend->open(ctx, index, out);
}

/* Opens the fastest available device and logs why a faster one failed: a warning if there is a CUDA
 * module. */
static ls_status open_auto(ls_context *ctx, int index, ls__device **out)
{
    const ls__module *cuda;
    const bool has_module = load_cuda(ctx, &cuda) == LS_OK;
    if (has_module && cuda->backend->open(ctx, index, out) == LS_OK) return LS_OK;
    (has_module ? ls__warn : ls__inform)(
        ctx, LS_LOG_CONTEXT, "ls_context_open: device 'auto' is the cpu: %s", ctx->message);
    ctx->error = LS_OK;
    ctx->message[0] = '\0';
    return open_cpu(ctx, index, out);
}

static const struct {
    const char *name;
    ls_status (*open)(ls_context *ctx, int index, ls__device **out);
} backends[] = { { "cpu", open_cpu }, { "cuda", open_cuda }, { "auto", open_auto } };
enum { N_BACKENDS = sizeof(backends) / sizeof(backends[0]) };

/* The number after "cuda:"; 0 if there is none, -1 if it is not a number. */
static int read_index(const char *text)
{
    if (*text == '\0') return 0;
    char *end;
    if (*text != ':' || text[1] < '0' || text[1] > '9') return -1;
    const long index = strtol(text + 1, &end, 10);
    return *end == '\0' && index <= INT_MAX ? (int)index : -1;
}

ls_status ls__registry_open(ls_context *ctx, ls__device **out)
{
    *out = NULL;
    const char *name = ctx->config.device ? ctx->config.device : "cpu";
    const size_t length = strcspn(name, ":");
    for (int i = 0; i < N_BACKENDS; i++) {
        const int index = read_index(name + length);
        if (length == strlen(backends[i].name) && index >= 0 &&
            strncmp(name, backends[i].name, length) == 0)
            return backends[i].open(ctx, index, out);
    }
    return ls__fail(ctx, LS_ERR_NOT_FOUND,
                    "ls_context_open: there is no device '%.100s', there are cpu, cuda, cuda:1 and "
                    "so on, and auto",
                    name);
}
