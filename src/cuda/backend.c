/* backend.c: the module's entry point, the table of the backend's functions, opening a device. */
#include "base/alloc.h"
#include "base/error.h"
#include "base/context.h"
#include "base/own_kernels.h"
#include "backend/module_host.h"
#include "cuda/device/slots.h"
#include "cuda/kernels/kernels.h"
#include "cuda/nccl/ranks.h"
#include "cuda/providers.h"
#include <stdio.h>

enum { SEGMENT_BYTES = 2 << 20 /* the driver maps memory in units of 2 MiB */ };

static ls_status check_driver(ls__cuda *cuda)
{
    ls_context *ctx = cuda->device.ctx;
    const ls__cuda_driver *driver = cuda->driver;
    int newest = 0, built = 0, count = 0;
    int status = driver->driver_version(&newest);
    if (status == 0) status = driver->runtime_version(&built);
    if (status == 0 && newest == 0)
        return ls__fail(ctx, LS_ERR_UNSUPPORTED, "device 'cuda': there is no NVIDIA driver");
    /* A driver runs programs of every minor version of its major version. */
    if (status == 0 && newest / 1000 < built / 1000)
        return ls__fail(ctx, LS_ERR_UNSUPPORTED,
                        "device 'cuda': the NVIDIA driver is for CUDA %d.%d, this needs %d.%d",
                        newest / 1000, newest % 1000 / 10, built / 1000, built % 1000 / 10);
    if (status == 0) status = driver->count_devices(&count);
    if (status != 0)
        return ls__fail(ctx, LS_ERR_UNSUPPORTED, "device 'cuda': %s", driver->error_text(status));
    if (ctx->comm) LS_TRY(ls__nccl_prepare(cuda, count));
    if (cuda->index >= count)
        return ls__fail(ctx, LS_ERR_NOT_FOUND, "device 'cuda:%d': there are %d", cuda->index,
                        count);
    return LS_OK;
}

/* Code runs on GPUs of its major version, from its minor version on. The module also has PTX of the
 * newest code, which drivers compile for GPUs of later major versions. */
static ls_status check_code(const ls__cuda *cuda)
{
    enum { MAX_MAJOR = 99, MAX_MINOR = 9 };
    const ls__cuda_properties *p = &cuda->properties;
    char text[256] = "";
    ls__text list = { text, sizeof(text), 0 };
    int newest = 0;
    for (int major = 1; major <= MAX_MAJOR; major++) {
        int minor = 0;
        while (minor <= MAX_MINOR && !ls__cuda_has_code(major, minor)) minor++;
        if (minor > MAX_MINOR) continue;
        ls__text_put(&list, "%ssm_%d%d", newest ? ", " : "", major, minor);
        newest = major;
    }
    if (p->major > newest || ls__cuda_has_code(p->major, p->minor)) return LS_OK;
    return ls__fail(cuda->device.ctx, LS_ERR_UNSUPPORTED,
                    "device 'cuda': the GPU is sm_%d%d, the module has code for %s and later",
                    p->major, p->minor, text);
}

static void cuda_fill_texts(ls__cuda *cuda)
{
    const ls__cuda_properties *p = &cuda->properties;
    int version = 0;
    (void)cuda->driver->runtime_version(&version);
    ls__text libraries = { cuda->libraries, sizeof(cuda->libraries), 0 };
    ls__text_put(&libraries, "CUDA %d.%d", version / 1000, version % 1000 / 10);
    ls__cuda_providers_describe(cuda, &libraries);
    ls__text_put(&libraries, ", own kernels %d.%d", LS__OWN_KERNELS, LS__CUDA_KERNELS);
    ls__cuda_environment(&libraries);
    ls__text processor = { cuda->processor, sizeof(cuda->processor), 0 };
    ls__text_put(&processor, "%s, sm_%d%d, %d multiprocessors", p->name, p->major, p->minor,
                 p->multiprocessors);
    /* The driver then compiles the PTX. */
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
    for (int i = LS__N_STREAMS - 1; i >= 0; i--)
        if (cuda->streams[i]) (void)driver->stream_wait(cuda->streams[i]);
    ls__cuda_providers_close(cuda);
    if (cuda->device_step) (void)driver->release(cuda->device_step);
    ls__cuda_streams_close(cuda);
    ls__free(cuda->device.ctx, cuda);
}

static ls_status open_device(ls__cuda *cuda)
{
    const ls__cuda_driver *driver = cuda->driver;
    LS_TRY(check_driver(cuda));
    LS_TRY(ls__cuda_check(cuda, driver->set_device(cuda->index), "device 'cuda'"));
    LS_TRY(ls__cuda_check(cuda, driver->properties(cuda->index, &cuda->properties),
                          "device 'cuda': its properties"));
    LS_TRY(check_code(cuda));
    driver->driver_text(cuda->driver_text, sizeof(cuda->driver_text));
    LS_TRY(ls__cuda_streams_open(cuda));
    LS_TRY(ls__cuda_check(cuda,
                          driver->allocate((void **)&cuda->device_step, sizeof(*cuda->device_step)),
                          "device 'cuda': memory"));
    return ls__cuda_providers_open(cuda);
}

static const ls__backend backend;

static ls_status cuda_open(ls_context *ctx, int index, ls__device **out)
{
    ls__cuda *cuda = ls__zalloc(ctx, sizeof(*cuda));
    if (!cuda) return ls__fail_memory(ctx, "device 'cuda'", sizeof(*cuda));
    cuda->device = (ls__device){ &backend, ctx };
    cuda->driver = &ls__cuda_driver_table;
    cuda->index = index;
    const ls_status status = open_device(cuda);
    if (status != LS_OK) {
        cuda_close(&cuda->device);
        return status;
    }
    cuda_fill_texts(cuda);
    *out = &cuda->device;
    return LS_OK;
}

static const char *cuda_describe(const ls__device *device)
{
    return ((const ls__cuda *)device)->description;
}

static const char *cuda_libraries(const ls__device *device, ls_dtype activations)
{
    (void)activations;
    return ((const ls__cuda *)device)->libraries;
}

static const char *cuda_processor(const ls__device *device, ls_dtype activations)
{
    (void)activations;
    return ((const ls__cuda *)device)->processor;
}

static const char *cuda_driver_name(const ls__device *device)
{
    return ((const ls__cuda *)device)->driver_text;
}

/* One thread queues the work; none computes. */
static int cuda_threads(const ls__device *device)
{
    (void)device;
    return 1;
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

static const ls__backend backend = {
    .name = "cuda",
    .open = cuda_open,
    .close = cuda_close,
    .describe = cuda_describe,
    .threads = cuda_threads,
    .libraries = cuda_libraries,
    .processor = cuda_processor,
    .driver = cuda_driver_name,
    .segment_bytes = SEGMENT_BYTES,
    .alignment = LS__CUDA_ALIGNMENT,
    .allocate = ls__cuda_allocate,
    .release = ls__cuda_release,
    .host_allocate = ls__cuda_host_allocate,
    .host_release = ls__cuda_host_release,
    .free_bytes = ls__cuda_free_bytes,
    .host_memory = false,
    .precisions = LS__HAS_TF32 | LS__HAS_BF16 | LS__HAS_F16,
    .channel_multiple = ls__cuda_channel_multiple,
    .read = ls__cuda_read,
    .write = ls__cuda_write,
    .download = ls__cuda_download,
    .upload = ls__cuda_upload,
    .copy = ls__cuda_copy,
    .clear = ls__cuda_clear,
    .cast = ls__cuda_queue_cast,
    .digest = ls__cuda_queue_digest,
    .gather = ls__cuda_queue_gather,
    .candidates = ls__cuda_candidates,
    .lists_slowly = true,
    .kernel_open = ls__cuda_kernel_open,
    .scratch_bytes = cuda_scratch_bytes,
    .begin = cuda_begin,
    .end = cuda_end,
    .event_open = ls__cuda_event_open,
    .event_record = ls__cuda_event_record,
    .event_wait = ls__cuda_event_wait,
    .event_close = ls__cuda_event_close,
    .stream_wait = ls__cuda_stream_wait,
    .launch_in = ls__cuda_launch_in,
    .wait = ls__cuda_wait,
    .timer_start = ls__cuda_timer_start,
    .timer_stop = ls__cuda_timer_stop,
    .capture_begin = ls__cuda_capture_begin,
    .capture_end = ls__cuda_capture_end,
    .captured_launch = ls__cuda_captured_launch,
    .captured_close = ls__cuda_captured_close,
    .range_push = cuda_range_push,
    .range_pop = cuda_range_pop,
    .comm_open = ls__nccl_open,
    .stream = cuda_stream,
};

LS__MODULE_EXPORT ls__module_open_fn ls__module_open;

const ls__module *ls__module_open(const ls__host *host)
{
    static const ls__module module = { .version = LS__MODULE_VERSION,
                                       .lockstep = LS_VERSION,
                                       .backend = &backend };
    if (host->version == LS__MODULE_VERSION) ls__module_set_host(host);
    return &module;
}
