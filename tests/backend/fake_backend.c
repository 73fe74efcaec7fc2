/* fake_backend.c: see fake_backend.h. */
#include "fake_backend.h"

#include "base/alloc.h"
#include "base/error.h"
#include "backend/pool.h"

#include <string.h>

static void invert(void *dst, const void *src, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        ((unsigned char *)dst)[i] = (unsigned char)~((const unsigned char *)src)[i];
    }
}

/* Counts a call and fails when its turn has come. */
static ls_status count_call(ls__device *device)
{
    fake_device *fake = (fake_device *)device;
    if (++fake->n_calls != fake->fail_at) return LS_OK;
    return ls__fail(device->ctx, LS_ERR_DEVICE, "fake device: call %d failed", (int)fake->n_calls);
}

static void fake_close(ls__device *device)
{
    fake_device *fake = (fake_device *)device;
    fake->cpu->backend->close(fake->cpu);
    ls__free(device->ctx, fake);
}

static const char *fake_describe(const ls__device *device)
{
    (void)device;
    return "fake";
}

static const char *fake_libraries(const ls__device *device, ls_dtype activations)
{
    (void)activations;
    return fake_describe(device);
}

static int fake_threads(const ls__device *device)
{
    (void)device;
    return 1;
}

static void *fake_allocate(ls__device *device, size_t bytes)
{
    fake_device *fake = (fake_device *)device;
    if (bytes > fake->capacity_bytes - fake->taken_bytes) return NULL;
    void *memory = ls__alloc(device->ctx, bytes);
    if (!memory) return NULL;
    memset(memory, 0xe7, bytes); /* fresh memory holds anything */
    fake->taken_bytes += bytes;
    fake->n_blocks++;
    return memory;
}

static void fake_release(ls__device *device, void *memory, size_t bytes)
{
    fake_device *fake = (fake_device *)device;
    fake->taken_bytes -= bytes;
    fake->n_blocks--;
    ls__free(device->ctx, memory);
}

static void *fake_host_allocate(ls__device *device, size_t bytes)
{
    void *memory = ls__alloc(device->ctx, bytes);
    if (memory) ((fake_device *)device)->n_host_blocks++;
    return memory;
}

static void fake_host_release(ls__device *device, void *memory, size_t bytes)
{
    (void)bytes;
    ((fake_device *)device)->n_host_blocks--;
    ls__free(device->ctx, memory);
}

static size_t fake_free_bytes(ls__device *device)
{
    const fake_device *fake = (const fake_device *)device;
    return fake->capacity_bytes - fake->taken_bytes;
}

static ls_status fake_read(ls__device *device, void *host, const void *memory, size_t bytes)
{
    invert(host, memory, bytes);
    return count_call(device);
}

static ls_status fake_write(ls__device *device, void *memory, const void *host, size_t bytes)
{
    invert(memory, host, bytes);
    return count_call(device);
}

static ls_status fake_copy(ls__device *device, void *dst, const void *src, size_t bytes)
{
    memcpy(dst, src, bytes);
    return count_call(device);
}

static ls_status fake_clear(ls__device *device, void *memory, size_t bytes)
{
    memset(memory, 0xff, bytes);
    return count_call(device);
}

static ls_status fake_cast(ls__device *device, ls_dtype to, void *dst, ls_dtype from,
                           const void *src, int64_t count)
{
    fake_device *fake = (fake_device *)device;
    const size_t from_bytes = (size_t)count * ls_dtype_bytes(from);
    const size_t to_bytes = (size_t)count * ls_dtype_bytes(to);
    void *plain = ls__alloc(device->ctx, from_bytes);
    if (!plain) return ls__fail_memory(device->ctx, "fake device", from_bytes);
    invert(plain, src, from_bytes);
    const ls_status status = fake->cpu->backend->cast(fake->cpu, to, dst, from, plain, count);
    invert(dst, dst, to_bytes);
    ls__free(device->ctx, plain);
    return status == LS_OK ? count_call(device) : status;
}

/* Everything has finished when its call returns, so events have nothing to remember. */
static ls_status fake_event_open(ls__device *device, ls__event **out)
{
    *out = ls__zalloc(device->ctx, 1);
    return *out ? LS_OK : ls__fail_memory(device->ctx, "fake device: event", 1);
}

static ls_status fake_event_record(ls__device *device, ls__event *event)
{
    (void)event;
    return count_call(device);
}

static void fake_event_close(ls__device *device, ls__event *event)
{
    ls__free(device->ctx, event);
}

static ls_status fake_upload(ls__device *device, void *memory, const void *host, size_t bytes,
                             ls__event *after, ls__event *done)
{
    (void)after;
    (void)done;
    return fake_write(device, memory, host, bytes);
}

static ls_status fake_digest(ls__device *device, ls_dtype dtype, const void *memory, size_t bytes,
                             uint64_t offset, ls__digest_sum *sum)
{
    fake_device *fake = (fake_device *)device;
    void *plain = ls__alloc(device->ctx, bytes);
    if (!plain) return ls__fail_memory(device->ctx, "fake device", bytes);
    invert(plain, memory, bytes);
    invert(sum, sum, sizeof(*sum));
    const ls_status status =
        fake->cpu->backend->digest(fake->cpu, dtype, plain, bytes, offset, sum);
    invert(sum, sum, sizeof(*sum));
    ls__free(device->ctx, plain);
    return status == LS_OK ? count_call(device) : status;
}

static ls_status fake_stream_wait(ls__device *device, ls__stream waiting, ls__stream awaited)
{
    fake_device *fake = (fake_device *)device;
    LS_TRY(count_call(device));
    fake->n_waits++;
    fake->waited[waiting][awaited] = fake->now;
    return LS_OK;
}

static ls_status fake_wait(ls__device *device)
{
    (void)device;
    return LS_OK;
}

/* The slots of a backend that eager tensors use. */
static const ls__backend fake_backend = {
    .name = "fake",
    .close = fake_close,
    .describe = fake_describe,
    .threads = fake_threads,
    .libraries = fake_libraries,
    .processor = fake_libraries,
    .allocate = fake_allocate,
    .release = fake_release,
    .host_allocate = fake_host_allocate,
    .host_release = fake_host_release,
    .free_bytes = fake_free_bytes,
    .host_memory = false,
    .read = fake_read,
    .write = fake_write,
    .download = fake_read,
    .upload = fake_upload,
    .copy = fake_copy,
    .clear = fake_clear,
    .cast = fake_cast,
    .digest = fake_digest,
    .stream_wait = fake_stream_wait,
    .event_open = fake_event_open,
    .event_record = fake_event_record,
    .event_wait = fake_event_record,
    .event_close = fake_event_close,
    .wait = fake_wait,
};

ls_context *fake_context_open(const ls_context_config *config)
{
    ls_context *ctx = ls_context_open(config);
    if (!ctx || ls__has_error(ctx)) return ctx;
    fake_device *fake = ls__zalloc(ctx, sizeof(*fake));
    if (!fake) {
        ls__fail_memory(ctx, "fake device", sizeof(*fake));
        return ctx;
    }
    fake->table = fake_backend;
    fake->device = (ls__device){ .backend = &fake->table, .ctx = ctx };
    fake->capacity_bytes = (size_t)1 << 30;
    fake->cpu = ctx->device;
    ctx->device = &fake->device;
    ls__pool_close(&ctx->pool);
    ls__pool_close(&ctx->host_pool);
    ls__pool_open(ctx, ctx->device, LS__POOL_DEVICE, ctx->config.memory_limit_bytes, &ctx->pool);
    ls__pool_open(ctx, ctx->device, LS__POOL_HOST, 0, &ctx->host_pool);
    if (!ctx->pool || !ctx->host_pool) ctx->unusable = true; /* its error waits */
    return ctx;
}

fake_device *fake_device_of(ls_context *ctx)
{
    return (fake_device *)ctx->device;
}
