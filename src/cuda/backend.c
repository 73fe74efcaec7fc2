/* device.c: a CUDA device: opening it, and the providers of its kernels. */
#include "base/alloc.h"
#include "base/context.h"
#include "base/error.h"
#include "base/own_kernels.h"
#include "cuda/device/device.h"
#include <stdio.h>
#include <stdlib.h>
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

/* Code runs on GPUs of its major version, from its minor version on; the newest code is there as
 * PTX too, of which drivers make code for GPUs of later major versions. */
static ls_status check_code(const ls__cuda *cuda)
{
    enum { MOST_MAJOR = 99, MOST_MINOR = 9 };
    const ls__cuda_properties *p = &cuda->properties;
    char text[256] = "";
    ls__text list = { text, sizeof(text), 0 };
    int newest = 0;
    for (int major = 1; major <= MOST_MAJOR; major++) {
        int minor = 0;
        while (minor <= MOST_MINOR && !ls__cuda_has_code(major, minor)) minor++;
        if (minor > MOST_MINOR) continue;
        ls__text_put(&list, "%ssm_%d%d", newest ? ", " : "", major, minor);
        newest = major;
    }
    if (p->major > newest || ls__cuda_has_code(p->major, p->minor)) return LS_OK;
    return ls__fail(cuda->device.ctx, LS_ERR_UNSUPPORTED,
                    "device 'cuda': the GPU is sm_%d%d, the module has code for %s and later",
                    p->major, p->minor, text);
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
        if (cuda->left_out[i])
            ls__text_put(&libraries, ", no %s", provider->title);
        else if (provider->library)
            ls__text_put(&libraries, ", %s", provider->library(cuda->states[i]));
    }
    ls__text_put(&libraries, ", own kernels %d.%d", LS__OWN_KERNELS, LS__CUDA_KERNELS);
    ls__cuda_environment(&libraries);
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
    for (int i = LS__N_STREAMS - 1; i >= 0; i--)
        if (cuda->streams[i]) (void)driver->stream_wait(cuda->streams[i]);
    for (int i = 0; ls__cuda_providers[i]; i++)
        if (cuda->states[i]) ls__cuda_providers[i]->close(cuda, cuda->states[i]);
    if (cuda->numbers) (void)driver->release(cuda->numbers);
    ls__cuda_streams_close(cuda);
    ls__free(cuda->device.ctx, cuda);
}

/* Loads the providers' libraries. Those that can't be loaded, or are not wanted, are left out, and
 * kernels of our own run instead. */
static ls_status load_libraries(ls__cuda *cuda)
{
    static const char variable[] = "LOCKSTEP_CUDA_LIBRARIES";
    ls_context *ctx = cuda->device.ctx;
    const char *set = getenv(variable);
    const bool unwanted = set && strcmp(set, "none") == 0;
    if (set && set[0] && !unwanted)
        return ls__fail(ctx, LS_ERR_INVALID, "%s is '%.100s', expected 'none' or nothing", variable,
                        set);
    for (int i = 0; ls__cuda_providers[i]; i++) {
        const ls__cuda_provider *provider = ls__cuda_providers[i];
        char text[512];
        if (!provider->load) continue;
        cuda->left_out[i] = unwanted || !provider->load(text, sizeof(text));
        if (unwanted)
            ls__inform(ctx, "device 'cuda': %s is left out: %s is none", provider->title, variable);
        else if (cuda->left_out[i])
            ls__warn(ctx,
                     "device 'cuda': %s can't be used, slow kernels of our own run instead: %s",
                     provider->title, text);
        else
            ls__inform(ctx, "device 'cuda': %s is loaded from %s", provider->title, text);
    }
    return LS_OK;
}

/* Adds to an error that a provider's library has just kept what may be done about it. */
static ls_status add_advice(ls__cuda *cuda, const ls__cuda_provider *provider, ls_status status)
{
    ls_context *ctx = cuda->device.ctx;
    char reason[LS__MESSAGE_SIZE];
    if (status == LS_OK || status == LS_ERR_MEMORY || !provider->title || ctx->unusable)
        return status;
    memcpy(reason, ctx->message, sizeof(reason));
    ctx->error = LS_OK;
    return ls__fail(ctx, status,
                    "device 'cuda': %.700s (%s; LOCKSTEP_CUDA_LIBRARIES=none computes without %s, "
                    "slowly)",
                    reason, cuda->driver_text, provider->title);
}

static ls_status open_parts(ls__cuda *cuda)
{
    const ls__cuda_driver *driver = cuda->driver;
    LS_TRY(check_driver(cuda));
    LS_TRY(ls__cuda_check(cuda, driver->set_device(cuda->index), "device 'cuda'"));
    LS_TRY(ls__cuda_check(cuda, driver->properties(cuda->index, &cuda->properties),
                          "device 'cuda': its properties"));
    LS_TRY(check_code(cuda));
    driver->driver_text(cuda->driver_text, sizeof(cuda->driver_text));
    LS_TRY(ls__cuda_streams_open(cuda));
    LS_TRY(ls__cuda_check(cuda, driver->allocate((void **)&cuda->numbers, sizeof(*cuda->numbers)),
                          "device 'cuda': memory"));
    LS_TRY(load_libraries(cuda));
    for (int i = 0; ls__cuda_providers[i]; i++)
        if (ls__cuda_providers[i]->open && !cuda->left_out[i])
            LS_TRY(add_advice(cuda, ls__cuda_providers[i],
                              ls__cuda_providers[i]->open(cuda, &cuda->states[i])));
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

/* ---- Kernels ---- */

/* Our own kernels gain nothing by more channels. */
static int64_t cuda_channel_multiple(const ls__device *device)
{
    const ls__cuda *cuda = (const ls__cuda *)device;
    int64_t multiple = 0;
    for (int i = 0; ls__cuda_providers[i]; i++)
        if (!cuda->left_out[i] && ls__cuda_providers[i]->channel_multiple > multiple)
            multiple = ls__cuda_providers[i]->channel_multiple;
    return multiple;
}

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
    (void)ls__cuda_enter(device);
    for (int i = 0; ls__cuda_providers[i] && n < max; i++) {
        if (cuda->left_out[i]) continue;
        n += ls__cuda_providers[i]->candidates(cuda, cuda->states[i], op, out + n, max - n);
        /* What a provider could not say must not be answered by slower kernels. */
        if (ls__has_error(device->ctx)) {
            (void)add_advice(cuda, ls__cuda_providers[i], device->ctx->error);
            return 0;
        }
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
        if (!cuda->left_out[i] && strncmp(name, provider->name, length) == 0 &&
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
    .alignment = LS__CUDA_ALIGNMENT,
    .allocate = ls__cuda_allocate,
    .release = ls__cuda_release,
    .host_allocate = ls__cuda_host_allocate,
    .host_release = ls__cuda_host_release,
    .free_bytes = ls__cuda_free_bytes,
    .host_memory = false,
    .precisions = LS__HAS_TF32 | LS__HAS_BF16 | LS__HAS_F16,
    .channel_multiple = cuda_channel_multiple,
    .read = ls__cuda_read,
    .write = ls__cuda_write,
    .download = ls__cuda_queue_download,
    .upload = ls__cuda_queue_upload,
    .copy = ls__cuda_queue_copy,
    .clear = ls__cuda_queue_clear,
    .cast = ls__cuda_queue_cast,
    .digest = ls__cuda_queue_digest,
    .gather = ls__cuda_queue_gather,
    .blocks = cuda_blocks,
    .candidates = cuda_candidates,
    .lists_slowly = true,
    .kernel_open = cuda_kernel_open,
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
    .capture_begin = ls__cuda_recording_begin,
    .capture_end = ls__cuda_recording_end,
    .captured_launch = ls__cuda_recording_launch,
    .captured_close = ls__cuda_recording_close,
    .range_push = cuda_range_push,
    .range_pop = cuda_range_pop,
    .stream = cuda_stream,
};
