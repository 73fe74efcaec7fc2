/* memory.c: a CUDA device's memory, which the core's pool keeps, and the order of its streams. */
#include "cuda/device/device.h"

const ls__cuda_driver *ls__cuda_enter(ls__device *device)
{
    const ls__cuda *cuda = (const ls__cuda *)device;
    (void)cuda->driver->set_device(cuda->index); /* it was there when the context was opened */
    return cuda->driver;
}

void *ls__cuda_allocate(ls__device *device, size_t bytes)
{
    ls__cuda *cuda = (ls__cuda *)device;
    void *memory = NULL;
    const int status = ls__cuda_enter(device)->allocate(&memory, bytes);
    if (status == 0) return memory;
    /* A lost device is not one that is full. */
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

ls_status ls__cuda_streams_open(ls__cuda *cuda)
{
    const ls__cuda_driver *driver = cuda->driver;
    for (int i = 0; i < LS__N_STREAMS; i++) {
        LS_TRY(ls__cuda_check(cuda, driver->stream_open(&cuda->streams[i]),
                              "device 'cuda': a stream"));
        LS_TRY(
            ls__cuda_check(cuda, driver->event_open(&cuda->marks[i]), "device 'cuda': an event"));
    }
    cuda->stream = cuda->streams[LS__STREAM_COMPUTE];
    return LS_OK;
}

void ls__cuda_streams_close(ls__cuda *cuda)
{
    const ls__cuda_driver *driver = cuda->driver;
    for (int i = 0; i < 2; i++)
        if (cuda->timer[i]) (void)driver->event_close(cuda->timer[i]);
    for (int i = 0; i < LS__N_STREAMS; i++) {
        if (cuda->marks[i]) (void)driver->event_close(cuda->marks[i]);
        if (cuda->streams[i]) (void)driver->stream_close(cuda->streams[i]);
    }
}

ls_status ls__cuda_stream_wait(ls__device *device, ls__stream waiting, ls__stream awaited)
{
    ls__cuda *cuda = (ls__cuda *)device;
    const ls__cuda_driver *driver = ls__cuda_enter(device);
    const char *what = "order of streams";
    /* A wait is for what its event says now: marking again later changes nothing. */
    LS_TRY(ls__cuda_check(cuda, driver->event_record(cuda->marks[awaited], cuda->streams[awaited]),
                          what));
    return ls__cuda_check(
        cuda, driver->stream_wait_event(cuda->streams[waiting], cuda->marks[awaited]), what);
}

void ls__cuda_launch_in(ls__device *device, ls__stream stream)
{
    ls__cuda *cuda = (ls__cuda *)device;
    cuda->stream = cuda->streams[stream];
}

ls_status ls__cuda_wait(ls__device *device)
{
    ls__cuda *cuda = (ls__cuda *)device;
    const ls__cuda_driver *driver = ls__cuda_enter(device);
    const char *what = "waiting for the device";
    driver->drop_error();
    for (int i = LS__N_STREAMS - 1; i >= 0; i--)
        LS_TRY(ls__cuda_check(cuda, driver->stream_wait(cuda->streams[i]), what));
    return LS_OK;
}
