/* context.c: opening and closing a context: configuration, device, memory pool. */
#include "base/alloc.h"
#include "base/context.h"
#include "base/error.h"
#include "base/isa.h"
#include "comm/comm.h"
#include "backend/algorithm_cache.h"
#include "backend/pool.h"
#include "backend/registry.h"
#include <unistd.h>

static ls_status check_version(ls_context *ctx, int version)
{
    if (version / 100 == LS_VERSION_NUMBER / 100 && version <= LS_VERSION_NUMBER) return LS_OK;
    return ls__fail(ctx, LS_ERR_UNSUPPORTED,
                    "ls_context_open: the program was compiled with headers of Lockstep %d.%d.%d, "
                    "the library is %s; expected a library of %d.%d that is not older",
                    version / 10000, version / 100 % 100, version % 100, LS_VERSION,
                    version / 10000, version / 100 % 100);
}

static ls_status check_context_config(ls_context *ctx, const ls_context_config *config)
{
    const ls_allocator *allocator = config->allocator;
    if (allocator && (!allocator->allocate || !allocator->release))
        return ls__fail(ctx, LS_ERR_INVALID,
                        "ls_context_open: allocator: allocate and release are both required");
    const struct {
        const char *name;
        int64_t value, max;
        const char *expected;
    } numbers[] = { { "deterministic", (int)config->deterministic, LS_DETERMINISTIC_OFF,
                      "LS_DETERMINISTIC_STRICT, _WARN or _OFF" },
                    { "arithmetic", (int)config->arithmetic, LS_ARITHMETIC_NATIVE,
                      "LS_ARITHMETIC_PORTABLE or _NATIVE" },
                    { "benchmark", (int)config->benchmark, LS_BENCHMARK_ON,
                      "LS_BENCHMARK_OFF or _ON" },
                    { "threads", config->threads, 1024, "1 to 1024, or 0 for all processors" },
                    { "shards", config->shards, 65536, "1 to 65536, or 0 for 1" },
                    { "audit_every", config->audit_every, INT64_MAX, "a number of steps, or 0" } };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].value < 0 || numbers[i].value > numbers[i].max)
            return ls__fail(ctx, LS_ERR_INVALID, "ls_context_open: %s is %lld, expected %s",
                            numbers[i].name, (long long)numbers[i].value, numbers[i].expected);
    if (config->audit_every > 0 && config->sync_batch_norm)
        return ls__fail(ctx, LS_ERR_UNSUPPORTED,
                        "ls_context_open: audit_every with sync_batch_norm, whose shards can't be "
                        "computed one by one");
    if (!(config->communication_timeout_seconds >= 0))
        return ls__fail(ctx, LS_ERR_INVALID,
                        "ls_context_open: communication_timeout_seconds is %g, expected more than "
                        "0, or 0 for 600",
                        config->communication_timeout_seconds);
    return LS_OK;
}

ls_context *(ls_context_open)(const ls_context_config *config)
{
    return ls_context_open_for(LS_VERSION_NUMBER, config);
}

ls_context *ls_context_open_for(int version, const ls_context_config *config)
{
    const ls_context_config defaults = { 0 };
    if (!config) config = &defaults;
    const bool has_allocator =
        config->allocator && config->allocator->allocate && config->allocator->release;
    const ls_allocator allocator = has_allocator ? *config->allocator : ls__default_allocator;

    ls_context *ctx = allocator.allocate(allocator.user, sizeof(*ctx), LS__ALIGNMENT);
    if (!ctx) return NULL;
    *ctx = (ls_context){ .allocator = allocator, .config = *config, .process = getpid() };
    ctx->config.allocator = &ctx->allocator;
    if (config->shards == 0) ctx->config.shards = 1;

    ls_status status = check_version(ctx, version);
    if (status == LS_OK) status = check_context_config(ctx, config);
    if (status == LS_OK) status = ls__communicator_open(ctx);
    if (status == LS_OK) status = ls__isa_check(ctx);
    if (status == LS_OK) status = ls__registry_open(ctx, &ctx->device);
    if (!ctx->device_comm) ctx->device_comm = ctx->comm;
    if (status == LS_OK && config->nvtx && !ctx->device->backend->range_push)
        status = ls__fail(ctx, LS_ERR_UNSUPPORTED,
                          "ls_context_open: nvtx: device %s has no ranges for profilers",
                          ctx->device->backend->name);
    if (status == LS_OK)
        status = ls__pool_open(ctx, ctx->device, LS__POOL_DEVICE, config->memory_limit_bytes,
                               &ctx->pool);
    if (status == LS_OK)
        status = ls__pool_open(ctx, ctx->device, LS__POOL_HOST, 0, &ctx->host_pool);
    if (status == LS_OK) status = ls__selections_open(ctx, &ctx->selections);
    ctx->unusable = status != LS_OK;
    ctx->is_remote = ctx->comm || (ctx->device && !ctx->device->backend->host_memory);
    /* The user's texts may be freed after this call. */
    ctx->config.device = ctx->device ? ctx->device->backend->name : NULL;
    ctx->config.communicator = ctx->comm ? ctx->comm->provider->name : NULL;
    return ctx;
}

void ls_context_close(ls_context **ctx)
{
    if (!ctx || !*ctx) return;
    ls_context *c = *ctx;
    *ctx = NULL;
    while (c->last_owned) ls__close_last_owned(c);
    if (c->is_remote && ls__is_forked(c)) return; /* the memory is the GPU's, or MPI's */
    /* This must precede the release of device memory, which waits for the device without a time
     * limit. */
    if (c->device_comm != c->comm) ls__comm_close(&c->device_comm);
    ls__selections_close(&c->selections);
    ls__pool_close(&c->host_pool);
    ls__pool_close(&c->pool);
    if (c->device) c->device->backend->close(c->device);
    ls__comm_close(&c->comm);
    ls__forget_warnings(c);
    const ls_allocator allocator = c->allocator;
    allocator.release(allocator.user, c);
}

ls_memory_stats ls_context_memory(const ls_context *ctx)
{
    return ctx && ctx->pool ? ls__pool_stats(ctx->pool) : (ls_memory_stats){ 0 };
}

ls_status ls_context_trim(ls_context *ctx)
{
    LS__ENTER(ctx);
    LS_TRY(ctx->device->backend->wait(ctx->device));
    LS_TRY(ls__pool_trim(ctx->pool));
    return ls__pool_trim(ctx->host_pool);
}

const char *ls_context_device(const ls_context *ctx)
{
    return ctx && ctx->device ? ctx->device->backend->describe(ctx->device) : "";
}

int ls_context_thread_count(const ls_context *ctx)
{
    return ctx && ctx->device ? ctx->device->backend->threads(ctx->device) : 0;
}

int ls_context_rank(const ls_context *ctx)
{
    return ctx && ctx->comm ? ctx->comm->rank : 0;
}

int ls_context_rank_count(const ls_context *ctx)
{
    return ctx && ctx->comm ? ctx->comm->n_ranks : 1;
}
