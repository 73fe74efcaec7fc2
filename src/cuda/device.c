/* device.c: a CUDA device: opening, memory, copies, events; and the providers of its kernels. */
#include "base/alloc.h"
#include "base/context.h"
#include "base/error.h"
#include "cuda/cuda.h"
#include <stdio.h>
#include <string.h>

ls_status ls__cuda_check(ls__cuda *cuda, int status, const char *what)
{
    if (status == 0) return LS_OK;
    ls_context *ctx = cuda->device.ctx;
    const ls__cuda_driver *driver = cuda->driver;
    if (!driver->is_sticky(status))
        return ls__fail(ctx, LS_ERR_DEVICE, "%s: CUDA: %s", what, driver->error_text(status));
    /* It outweighs an error that waits, and stays. */
    if (!ctx->unusable) ctx->error = LS_OK;
    ctx->unusable = true;
    return ls__fail(ctx, LS_ERR_DEVICE,
                    "%s: CUDA: %s. It was seen here and may have been caused by what was queued "
                    "before. This process can't use the device any more",
                    what, driver->error_text(status));
}

/* ---- Opening ---- */

static ls_status check_driver(ls__cuda *cuda)
{
    ls_context *ctx = cuda->device.ctx;
    const ls__cuda_driver *driver = cuda->driver;
    int newest = 0, built = 0, count = 0;
    int status = driver->driver_version(&newest);
    if (status == 0) status = driver->runtime_version(&built);
    if (status == 0 && newest == 0)
        return ls__fail(ctx, LS_ERR_UNSUPPORTED, "device 'cuda': there is no NVIDIA driver");
    /* A driver runs programs of all minor versions of its major one. */
    if (status == 0 && newest / 1000 < built / 1000)
        return ls__fail(ctx, LS_ERR_UNSUPPORTED,
                        "device 'cuda': the NVIDIA driver is for CUDA %d.%d, this needs %d.%d",
                        newest / 1000, newest % 1000 / 10, built / 1000, built % 1000 / 10);
    if (status == 0) status = driver->count_devices(&count);
    if (status != 0)
        return ls__fail(ctx, LS_ERR_UNSUPPORTED, "device 'cuda': %s", driver->error_text(status));
    if (cuda->index >= count)
        return ls__fail(ctx, LS_ERR_NOT_FOUND, "device 'cuda:%d': there are %d", cuda->index,
                        count);
    return LS_OK;
}

static void describe(ls__cuda *cuda)
{
    const ls__cuda_properties *p = &cuda->properties;
    int version = 0;
    (void)cuda->driver->runtime_version(&version);
    ls__text libraries = { cuda->libraries, sizeof(cuda->libraries), 0 };
    ls__text_put(&libraries, "CUDA %d.%d", version / 1000, version % 1000 / 10);
    for (int i = 0; ls__cuda_providers[i]; i++) {
        const ls__cuda_provider *provider = ls__cuda_providers[i];
        const char *text = provider->library ? provider->library(cuda->states[i]) : NULL;
        if (text) ls__text_put(&libraries, ", %s", text);
    }
    ls__cuda_environment(&libraries);
    cuda->driver->driver_text(cuda->driver_text, sizeof(cuda->driver_text));
    ls__text processor = { cuda->processor, sizeof(cuda->processor), 0 };
    ls__text_put(&processor, "%s, sm_%d%d, %d multiprocessors", p->name, p->major, p->minor,
                 p->multiprocessors);
    /* The driver is a compiler then. */
    if (!ls__cuda_has_code(p->major, p->minor))
        ls__text_put(&processor, ", code from PTX by %s", cuda->driver_text);
    snprintf(cuda->description, sizeof(cuda->description), "cuda:%d, %s, %s", cuda->index,
             cuda->processor, cuda->libraries);
}

static void cuda_close(ls__device *device)
{
    ls__cuda *cuda = (ls__cuda *)device;
    if (!cuda) return;
    const ls__cuda_driver *driver = cuda->driver;
    (void)driver->set_device(cuda->index);
    if (cuda->copy_stream) (void)driver->stream_wait(cuda->copy_stream);
    if (cuda->stream) (void)driver->stream_wait(cuda->stream);
    for (int i = 0; ls__cuda_providers[i]; i++)
        if (cuda->states[i]) ls__cuda_providers[i]->close(cuda, cuda->states[i]);
    if (cuda->numbers) (void)driver->release(cuda->numbers);
    ls__cuda_streams_close(cuda);
    ls__free(cuda->device.ctx, cuda);
}

static ls_status open_parts(ls__cuda *cuda)
{
    const ls__cuda_driver *driver = cuda->driver;
    LS_TRY(check_driver(cuda));
    LS_TRY(ls__cuda_check(cuda, driver->set_device(cuda->index), "device 'cuda'"));
    LS_TRY(ls__cuda_check(cuda, driver->properties(cuda->index, &cuda->properties),
                          "device 'cuda': its properties"));
    LS_TRY(ls__cuda_streams_open(cuda));
    LS_TRY(ls__cuda_check(cuda, driver->allocate((void **)&cuda->numbers, sizeof(*cuda->numbers)),
                          "device 'cuda': memory"));
    for (int i = 0; ls__cuda_providers[i]; i++)
        if (ls__cuda_providers[i]->open)
            LS_TRY(ls__cuda_providers[i]->open(cuda, &cuda->states[i]));
    return LS_OK;
}

static ls_status cuda_open(ls_context *ctx, int index, ls__device **out)
{
    ls__cuda *cuda = ls__zalloc(ctx, sizeof(*cuda));
    if (!cuda) return ls__fail_memory(ctx, "device 'cuda'", sizeof(*cuda));
    cuda->device = (ls__device){ &ls__cuda_backend, ctx };
    cuda->driver = &ls__cuda_driver_table;
    cuda->index = index;
    const ls_status status = open_parts(cuda);
    if (status != LS_OK) {
        cuda_close(&cuda->device);
        return status;
    }
    describe(cuda);
    *out = &cuda->device;
    return LS_OK;
}

static const char *cuda_describe(const ls__device *device)
{
    return ((const ls__cuda *)device)->description;
}

static const char *cuda_libraries(const ls__device *device)
{
    return ((const ls__cuda *)device)->libraries;
}

static const char *cuda_processor(const ls__device *device)
{
    return ((const ls__cuda *)device)->processor;
}

static const char *cuda_driver_name(const ls__device *device)
{
    return ((const ls__cuda *)device)->driver_text;
}

/* None computes; one drives the device. */
static int cuda_threads(const ls__device *device)
{
    (void)device;
    return 1;
}

/* ---- Memory ---- */

static ls_status queue_copy(ls__device *device, void *to, const void *from, size_t bytes,
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

static ls_status cuda_read(ls__device *device, void *host, const void *memory, size_t bytes)
{
    LS_TRY(queue_copy(device, host, memory, bytes, "copy from the device"));
    return wait_for((ls__cuda *)device, "copy from the device");
}

static ls_status cuda_write(ls__device *device, void *memory, const void *host, size_t bytes)
{
    LS_TRY(queue_copy(device, memory, host, bytes, "copy to the device"));
    return wait_for((ls__cuda *)device, "copy to the device");
}

static ls_status cuda_download(ls__device *device, void *host, const void *memory, size_t bytes)
{
    return queue_copy(device, host, memory, bytes, "copy from the device");
}

static ls_status cuda_copy(ls__device *device, void *dst, const void *src, size_t bytes)
{
    return queue_copy(device, dst, src, bytes, "copy on the device");
}

static ls_status cuda_clear(ls__device *device, void *memory, size_t bytes)
{
    ls__cuda *cuda = (ls__cuda *)device;
    if (bytes == 0) return LS_OK;
    return ls__cuda_check(cuda, ls__cuda_enter(device)->fill(memory, 0, bytes, cuda->stream),
                          "clearing memory");
}

static ls_status cuda_cast(ls__device *device, ls_dtype to, void *dst, ls_dtype from,
                           const void *src, int64_t count)
{
    ls__cuda *cuda = (ls__cuda *)device;
    (void)ls__cuda_enter(device);
    return ls__cuda_check(cuda, ls__cuda_cast(to, dst, from, src, count, cuda->stream), "cast");
}

static ls_status cuda_digest(ls__device *device, const void *memory, size_t bytes, uint64_t offset,
                             ls__digest_sum *sum)
{
    ls__cuda *cuda = (ls__cuda *)device;
    if (bytes == 0) return LS_OK;
    (void)ls__cuda_enter(device);
    return ls__cuda_check(cuda, ls__cuda_digest(memory, bytes, offset, sum, cuda->stream),
                          "digest");
}

static ls_status cuda_gather(ls__device *device, float *out, const float *const *scalars, int n)
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
                                       .rate = step->rate };
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

/* ---- Kernels ---- */

/* N,H,W,C is the layout of all kernels. */
static int cuda_blocks(const ls__device *device, const ls_shape *shape, int64_t *out, int max)
{
    (void)device;
    if (max > 0) out[0] = shape->dims[3];
    return max > 0;
}

static int cuda_candidates(ls__device *device, const ls__op *op, ls__candidate *out, int max)
{
    ls__cuda *cuda = (ls__cuda *)device;
    int n = 0;
    for (int i = 0; ls__cuda_providers[i] && n < max; i++) {
        n += ls__cuda_providers[i]->candidates(cuda, cuda->states[i], op, out + n, max - n);
        /* What a provider could not say must not be answered by slower kernels. */
        if (ls__has_error(device->ctx)) return 0;
    }
    return n;
}

/* A kernel's name begins with its provider's: "cudnn engine 7". */
static ls_status cuda_kernel_open(ls__device *device, const ls__op *op, const char *name,
                                  ls__kernel **out)
{
    ls__cuda *cuda = (ls__cuda *)device;
    *out = NULL;
    (void)ls__cuda_enter(device);
    for (int i = 0; ls__cuda_providers[i]; i++) {
        const ls__cuda_provider *provider = ls__cuda_providers[i];
        const size_t length = strlen(provider->name);
        if (strncmp(name, provider->name, length) == 0 &&
            (name[length] == '\0' || name[length] == ' '))
            return provider->kernel_open(cuda, cuda->states[i], op, name, out);
    }
    return ls__fail(device->ctx, LS_ERR_NOT_FOUND, "%s: cuda has no kernel '%s'",
                    ls__op_name(op->kind), name);
}

static size_t cuda_scratch_bytes(const ls__device *device)
{
    (void)device;
    return 0;
}

static void cuda_begin(ls__device *device)
{
    (void)ls__cuda_enter(device);
}

static void cuda_end(ls__device *device)
{
    (void)device;
}

/* ---- Events ---- */

struct ls__event {
    ls__cuda_event event;
};

static ls_status cuda_event_open(ls__device *device, ls__event **out)
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

static ls_status cuda_event_record(ls__device *device, ls__event *event)
{
    ls__cuda *cuda = (ls__cuda *)device;
    return ls__cuda_check(cuda, ls__cuda_enter(device)->event_record(event->event, cuda->stream),
                          "event");
}

static ls_status cuda_event_wait(ls__device *device, ls__event *event)
{
    return ls__cuda_check((ls__cuda *)device, ls__cuda_enter(device)->event_wait(event->event),
                          "event");
}

static ls_status queue_upload(ls__cuda *cuda, void *memory, const void *host, size_t bytes,
                              const ls__event *after, const ls__event *done)
{
    const ls__cuda_driver *driver = cuda->driver;
    const ls__cuda_stream stream = cuda->copy_stream;
    static const char what[] = "upload to the device";
    if (after) LS_TRY(ls__cuda_check(cuda, driver->stream_wait_event(stream, after->event), what));
    LS_TRY(ls__cuda_check(cuda, driver->copy(memory, host, bytes, stream), what));
    LS_TRY(ls__cuda_check(cuda, driver->event_record(done->event, stream), what));
    return ls__cuda_check(cuda, driver->stream_wait_event(cuda->stream, done->event), what);
}

static ls_status cuda_upload(ls__device *device, void *memory, const void *host, size_t bytes,
                             ls__event *after, ls__event *done)
{
    ls__cuda *cuda = (ls__cuda *)device;
    const ls__cuda_driver *driver = ls__cuda_enter(device);
    const ls_status status = queue_upload(cuda, memory, host, bytes, after, done);
    /* Of a copy that nobody knows of neither memory could be used again. */
    if (status != LS_OK) (void)driver->stream_wait(cuda->copy_stream);
    return status;
}

static void cuda_event_close(ls__device *device, ls__event *event)
{
    if (!event) return;
    (void)ls__cuda_enter(device)->event_close(event->event);
    ls__free(device->ctx, event);
}

static void *cuda_stream(ls__device *device)
{
    return ((ls__cuda *)device)->stream;
}

static void cuda_range_push(ls__device *device, const char *name)
{
    ((ls__cuda *)device)->driver->range_push(name);
}

static void cuda_range_pop(ls__device *device)
{
    ((ls__cuda *)device)->driver->range_pop();
}

const ls__backend ls__cuda_backend = {
    .name = "cuda",
    .open = cuda_open,
    .close = cuda_close,
    .describe = cuda_describe,
    .threads = cuda_threads,
    .libraries = cuda_libraries,
    .processor = cuda_processor,
    .driver = cuda_driver_name,
    .segment_bytes = LS__CUDA_SEGMENT_BYTES,
    .allocate = ls__cuda_allocate,
    .release = ls__cuda_release,
    .host_allocate = ls__cuda_host_allocate,
    .host_release = ls__cuda_host_release,
    .free_bytes = ls__cuda_free_bytes,
    .host_memory = false,
    .precisions = LS__HAS_TF32 | LS__HAS_BF16 | LS__HAS_F16,
    .read = cuda_read,
    .write = cuda_write,
    .download = cuda_download,
    .upload = cuda_upload,
    .copy = cuda_copy,
    .clear = cuda_clear,
    .cast = cuda_cast,
    .digest = cuda_digest,
    .gather = cuda_gather,
    .blocks = cuda_blocks,
    .candidates = cuda_candidates,
    .lists_slowly = true,
    .kernel_open = cuda_kernel_open,
    .scratch_bytes = cuda_scratch_bytes,
    .begin = cuda_begin,
    .end = cuda_end,
    .event_open = cuda_event_open,
    .event_record = cuda_event_record,
    .event_wait = cuda_event_wait,
    .event_close = cuda_event_close,
    .stream_wait = ls__cuda_stream_wait,
    .wait = ls__cuda_wait,
    .recording_begin = ls__cuda_recording_begin,
    .recording_end = ls__cuda_recording_end,
    .recording_launch = ls__cuda_recording_launch,
    .recording_close = ls__cuda_recording_close,
    .range_push = cuda_range_push,
    .range_pop = cuda_range_pop,
    .stream = cuda_stream,
};
