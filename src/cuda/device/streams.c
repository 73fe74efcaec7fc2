/* streams.c: streams of a CUDA device, their order, events, timers, uploads. */
#include "base/alloc.h"
#include "base/error.h"
#include "cuda/device/slots.h"
#include "cuda/nccl/ranks.h"

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

ls_status ls__cuda_finish_stream(ls__cuda *cuda, ls__cuda_stream stream, const char *what)
{
    LS_TRY(ls__nccl_wait(cuda, cuda->driver->stream_query, stream));
    return ls__cuda_check(cuda, cuda->driver->stream_wait(stream), what);
}

ls_status ls__cuda_finish_event(ls__cuda *cuda, ls__cuda_event event, const char *what)
{
    LS_TRY(ls__nccl_wait(cuda, cuda->driver->event_query, event));
    return ls__cuda_check(cuda, cuda->driver->event_wait(event), what);
}

ls_status ls__cuda_stream_wait(ls__device *device, ls__stream waiting, ls__stream awaited)
{
    ls__cuda *cuda = (ls__cuda *)device;
    const ls__cuda_driver *driver = ls__cuda_enter(device);
    const char *what = "order of streams";
    /* A queued wait keeps the mark as it is now: recording it again later changes nothing. */
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
        LS_TRY(ls__cuda_finish_stream(cuda, cuda->streams[i], what));
    return LS_OK;
}

struct ls__event {
    ls__cuda_event event;
};

ls_status ls__cuda_event_open(ls__device *device, ls__event **out)
{
    *out = ls__zalloc(device->ctx, sizeof(**out));
    if (!*out) return ls__fail_memory(device->ctx, "event", sizeof(**out));
    const ls_status status = ls__cuda_check(
        (ls__cuda *)device, ls__cuda_enter(device)->event_open(&(*out)->event), "event");
    if (status == LS_OK) return LS_OK;
    ls__free(device->ctx, *out);
    *out = NULL;
    return status;
}

ls_status ls__cuda_event_record(ls__device *device, ls__event *event)
{
    ls__cuda *cuda = (ls__cuda *)device;
    return ls__cuda_check(cuda, ls__cuda_enter(device)->event_record(event->event, cuda->stream),
                          "event");
}

ls_status ls__cuda_event_wait(ls__device *device, ls__event *event)
{
    (void)ls__cuda_enter(device);
    return ls__cuda_finish_event((ls__cuda *)device, event->event, "event");
}

void ls__cuda_event_close(ls__device *device, ls__event *event)
{
    if (!event) return;
    (void)ls__cuda_enter(device)->event_close(event->event);
    ls__free(device->ctx, event);
}

ls_status ls__cuda_timer_start(ls__device *device)
{
    ls__cuda *cuda = (ls__cuda *)device;
    const ls__cuda_driver *driver = ls__cuda_enter(device);
    for (int i = 0; i < 2; i++)
        if (!cuda->timer[i])
            LS_TRY(ls__cuda_check(cuda, driver->timer_open(&cuda->timer[i]), "timer"));
    return ls__cuda_check(cuda, driver->event_record(cuda->timer[0], cuda->stream), "timer");
}

ls_status ls__cuda_timer_stop(ls__device *device, double *ms)
{
    ls__cuda *cuda = (ls__cuda *)device;
    const ls__cuda_driver *driver = ls__cuda_enter(device);
    float elapsed = 0;
    *ms = 0;
    LS_TRY(ls__cuda_check(cuda, driver->event_record(cuda->timer[1], cuda->stream), "timer"));
    LS_TRY(ls__cuda_finish_event(cuda, cuda->timer[1], "timer"));
    const int status = driver->elapsed(&elapsed, cuda->timer[0], cuda->timer[1]);
    *ms = (double)elapsed;
    return ls__cuda_check(cuda, status, "timer");
}

static ls_status stream_upload(ls__cuda *cuda, void *memory, const void *host, size_t bytes,
                               const ls__event *after, const ls__event *done)
{
    const ls__cuda_driver *driver = cuda->driver;
    const ls__cuda_stream stream = cuda->streams[LS__STREAM_COPY];
    static const char what[] = "upload to the device";
    if (after) LS_TRY(ls__cuda_check(cuda, driver->stream_wait_event(stream, after->event), what));
    LS_TRY(ls__cuda_check(cuda, driver->copy(memory, host, bytes, stream), what));
    LS_TRY(ls__cuda_check(cuda, driver->event_record(done->event, stream), what));
    return ls__cuda_check(cuda, driver->stream_wait_event(cuda->stream, done->event), what);
}

ls_status ls__cuda_upload(ls__device *device, void *memory, const void *host, size_t bytes,
                          ls__event *after, ls__event *done)
{
    ls__cuda *cuda = (ls__cuda *)device;
    (void)ls__cuda_enter(device);
    const ls_status status = stream_upload(cuda, memory, host, bytes, after, done);
    /* The caller may reuse both memories after a failure, so a copy that was queued must end. */
    if (status != LS_OK)
        (void)ls__cuda_finish_stream(cuda, cuda->streams[LS__STREAM_COPY], "upload to the device");
    return status;
}
