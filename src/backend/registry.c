/* registry.c: the backends by name. */
#include "backend/registry.h"

#include "base/context.h"
#include "base/error.h"
#include "base/text.h"
#include "comm/agree.h"
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

static ls_status load_cuda(ls_context *ctx, int index, ls__device **out, bool *has_module)
{
    const ls__module *cuda;
    if (ctx->comm && strchr(ctx->config.device, ':'))
        return ls__fail(ctx, LS_ERR_UNSUPPORTED,
                        "device '%.*s' can't be used by %d ranks, expected 'cuda' or 'auto': "
                        "each rank of a machine has its own GPU",
                        LS__CUT(ctx->config.device, 100), ctx->comm->n_ranks);
    LS_TRY(ls__module_load(ctx, "device", "cuda", &cuda));
    *has_module = true;
    return cuda->backend->open(ctx, index, out);
}

/* All ranks open and connect their devices, or all return an error. */
static ls_status connect_cuda(ls_context *ctx, int index, ls__device **out, bool *has_module)
{
    ls_status status = load_cuda(ctx, index, out, has_module);
    if (!ctx->comm) return status;
    status = ls__ranks_agree(ctx, NULL);
    if (status == LS_OK) {
        (void)(*out)->backend->comm_open(*out, &ctx->device_comm);
        status = ls__ranks_agree(ctx, NULL);
    }
    if (status == LS_OK) return status;
    ls__comm_close(&ctx->device_comm);
    if (*out) (*out)->backend->close(*out);
    *out = NULL;
    return status;
}

static ls_status open_cuda(ls_context *ctx, int index, ls__device **out)
{
    bool has_module = false;
    return connect_cuda(ctx, index, out, &has_module);
}

/* Opens the fastest available device and logs why a faster one failed: a warning of rank 0 if there
 * is a CUDA module. */
static ls_status open_auto(ls_context *ctx, int index, ls__device **out)
{
    bool has_module = false;
    const ls_status status = connect_cuda(ctx, index, out, &has_module);
    if (status == LS_OK || (ctx->comm && ctx->comm->is_lost)) return status;
    const bool warns = has_module && ls__is_first_rank(ctx);
    (warns ? ls__warn : ls__inform)(ctx, LS_LOG_CONTEXT,
                                    "ls_context_open: device 'auto' is the cpu: %s", ctx->message);
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
static int read_device_index(const char *text)
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
        const int index = read_device_index(name + length);
        if (length == strlen(backends[i].name) && index >= 0 &&
            strncmp(name, backends[i].name, length) == 0)
            return backends[i].open(ctx, index, out);
    }
    return ls__fail(ctx, LS_ERR_NOT_FOUND,
                    "ls_context_open: there is no device '%.*s', there are cpu, cuda, cuda:1 and "
                    "so on, and auto",
                    LS__CUT(name, 100));
}
