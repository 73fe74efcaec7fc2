/* work.c: what is queued in a CUDA device's streams beside kernels: copies, casts, digests, the
 * step's numbers; and events. */
#include "base/alloc.h"
#include "base/error.h"
#include "cuda/device/device.h"
#include <string.h>

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
    return ls__cuda_check((ls__cuda *)device, ls__cuda_enter(device)->event_wait(event->event),
                          "event");
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
    int status = driver->event_record(cuda->timer[1], cuda->stream);
    if (status == 0) status = driver->event_wait(cuda->timer[1]);
    if (status == 0) status = driver->elapsed(&elapsed, cuda->timer[0], cuda->timer[1]);
    *ms = (double)elapsed;
    return ls__cuda_check(cuda, status, "timer");
}

static ls_status copy(ls__device *device, void *to, const void *from, size_t bytes,
                      const char *what)
{
    ls__cuda *cuda = (ls__cuda *)device;
    if (bytes == 0) return LS_OK;
    return ls__cuda_check(cuda, ls__cuda_enter(device)->copy(to, from, bytes, cuda->stream), what);
}

static ls_status wait_for(ls__cuda *cuda, const char *what)
{
    return ls__cuda_check(cuda, cuda->driver->stream_wait(cuda->stream), what);
}

ls_status ls__cuda_read(ls__device *device, void *host, const void *memory, size_t bytes)
{
    LS_TRY(copy(device, host, memory, bytes, "copy from the device"));
    return wait_for((ls__cuda *)device, "copy from the device");
}

ls_status ls__cuda_write(ls__device *device, void *memory, const void *host, size_t bytes)
{
    LS_TRY(copy(device, memory, host, bytes, "copy to the device"));
    return wait_for((ls__cuda *)device, "copy to the device");
}

ls_status ls__cuda_queue_download(ls__device *device, void *host, const void *memory, size_t bytes)
{
    return copy(device, host, memory, bytes, "copy from the device");
}

static ls_status upload(ls__cuda *cuda, void *memory, const void *host, size_t bytes,
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

ls_status ls__cuda_queue_upload(ls__device *device, void *memory, const void *host, size_t bytes,
                                ls__event *after, ls__event *done)
{
    ls__cuda *cuda = (ls__cuda *)device;
    const ls__cuda_driver *driver = ls__cuda_enter(device);
    const ls_status status = upload(cuda, memory, host, bytes, after, done);
    /* Of a copy that nobody knows of neither memory could be used again. */
    if (status != LS_OK) (void)driver->stream_wait(cuda->streams[LS__STREAM_COPY]);
    return status;
}

ls_status ls__cuda_queue_copy(ls__device *device, void *dst, const void *src, size_t bytes)
{
    return copy(device, dst, src, bytes, "copy on the device");
}

ls_status ls__cuda_queue_clear(ls__device *device, void *memory, size_t bytes)
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

ls_status ls__cuda_queue_digest(ls__device *device, const void *memory, size_t bytes,
                                uint64_t offset, ls__digest_sum *sum)
{
    ls__cuda *cuda = (ls__cuda *)device;
    if (bytes == 0) return LS_OK;
    (void)ls__cuda_enter(device);
    return ls__cuda_check(cuda, ls__cuda_digest(memory, bytes, offset, sum, cuda->stream),
                          "digest");
}

ls_status ls__cuda_queue_gather(ls__device *device, float *out, const float *const *scalars, int n)
{
    ls__cuda *cuda = (ls__cuda *)device;
    (void)ls__cuda_enter(device);
    return ls__cuda_check(cuda, ls__cuda_gather(out, scalars, n, cuda->stream), "results");
}

ls_status ls__cuda_set_numbers(ls__cuda *cuda, const ls__step *step)
{
    const ls__cuda_numbers numbers = { .seed = step->seed,
                                       .epoch = step->epoch,
                                       .step = step->step,
                                       .optimizer_step = step->optimizer_step,
                                       .lr = step->lr };
    cuda->numbers_used = true;
    if (cuda->numbers_known && memcmp(&numbers, &cuda->known, sizeof(numbers)) == 0) return LS_OK;
    LS_TRY(ls__cuda_refuse_recording(cuda, "numbers of the step"));
    cuda->known = numbers;
    cuda->numbers_known = false;
    LS_TRY(ls__cuda_check(cuda, ls__cuda_store_numbers(cuda->numbers, &numbers, cuda->stream),
                          "numbers of the step"));
    cuda->numbers_known = true;
    return LS_OK;
}
