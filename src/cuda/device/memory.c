/* memory.c: a CUDA device's memory, which the core's pool divides, and what is queued besides ops:
 * copies, casts, digests. */
#include "cuda/device/slots.h"
#include "cuda/kernels/kernels.h"

void *ls__cuda_allocate(ls__device *device, size_t bytes)
{
    ls__cuda *cuda = (ls__cuda *)device;
    void *memory = NULL;
    const int status = ls__cuda_enter(device)->allocate(&memory, bytes);
    if (status == 0) return memory;
    /* A sticky error is kept. Without one the device is only full. */
    if (cuda->driver->is_sticky(status)) (void)ls__cuda_check(cuda, status, "device memory");
    return NULL;
}

void ls__cuda_release(ls__device *device, void *memory, size_t bytes)
{
    (void)bytes;
    (void)ls__cuda_enter(device)->release(memory);
}

void *ls__cuda_host_allocate(ls__device *device, size_t bytes)
{
    void *memory = NULL;
    return ls__cuda_enter(device)->host_allocate(&memory, bytes) == 0 ? memory : NULL;
}

void ls__cuda_host_release(ls__device *device, void *memory, size_t bytes)
{
    (void)bytes;
    (void)ls__cuda_enter(device)->host_release(memory);
}

size_t ls__cuda_free_bytes(ls__device *device)
{
    size_t free_bytes = 0, all_bytes = 0;
    return ls__cuda_enter(device)->memory_info(&free_bytes, &all_bytes) == 0 ? free_bytes : 0;
}

static ls_status checked_copy(ls__device *device, void *to, const void *from, size_t bytes,
                              const char *what)
{
    ls__cuda *cuda = (ls__cuda *)device;
    if (bytes == 0) return LS_OK;
    return ls__cuda_check(cuda, ls__cuda_enter(device)->copy(to, from, bytes, cuda->stream), what);
}

/* A copy of host memory that is not pinned waits for the stream, too. */
static ls_status copy_now(ls__device *device, void *to, const void *from, size_t bytes,
                          const char *what)
{
    ls__cuda *cuda = (ls__cuda *)device;
    (void)ls__cuda_enter(device);
    if (cuda->ranks) LS_TRY(ls__cuda_finish_stream(cuda, cuda->stream, what));
    LS_TRY(checked_copy(device, to, from, bytes, what));
    return ls__cuda_check(cuda, cuda->driver->stream_wait(cuda->stream), what);
}

ls_status ls__cuda_read(ls__device *device, void *host, const void *memory, size_t bytes)
{
    return copy_now(device, host, memory, bytes, "copy from the device");
}

ls_status ls__cuda_write(ls__device *device, void *memory, const void *host, size_t bytes)
{
    return copy_now(device, memory, host, bytes, "copy to the device");
}

ls_status ls__cuda_download(ls__device *device, void *host, const void *memory, size_t bytes)
{
    return checked_copy(device, host, memory, bytes, "copy from the device");
}

ls_status ls__cuda_copy(ls__device *device, void *dst, const void *src, size_t bytes)
{
    return checked_copy(device, dst, src, bytes, "copy on the device");
}

ls_status ls__cuda_clear(ls__device *device, void *memory, size_t bytes)
{
    ls__cuda *cuda = (ls__cuda *)device;
    if (bytes == 0) return LS_OK;
    return ls__cuda_check(cuda, ls__cuda_enter(device)->fill(memory, 0, bytes, cuda->stream),
                          "clearing memory");
}

ls_status ls__cuda_queue_cast(ls__device *device, ls_dtype to, void *dst, ls_dtype from,
                              const void *src, int64_t count)
{
    ls__cuda *cuda = (ls__cuda *)device;
    (void)ls__cuda_enter(device);
    return ls__cuda_check(cuda, ls__cuda_cast(to, dst, from, src, count, cuda->stream), "cast");
}

ls_status ls__cuda_queue_digest(ls__device *device, ls_dtype dtype, const void *memory,
                                size_t bytes, uint64_t offset, ls__digest_sum *sum)
{
    ls__cuda *cuda = (ls__cuda *)device;
    if (bytes == 0) return LS_OK;
    (void)ls__cuda_enter(device);
    return ls__cuda_check(cuda, ls__cuda_digest(dtype, memory, bytes, offset, sum, cuda->stream),
                          "digest");
}

ls_status ls__cuda_queue_gather(ls__device *device, float *out, const float *const *scalars, int n)
{
    ls__cuda *cuda = (ls__cuda *)device;
    (void)ls__cuda_enter(device);
    return ls__cuda_check(cuda, ls__cuda_gather(out, scalars, n, cuda->stream), "results");
}
