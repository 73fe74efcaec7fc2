/* driver.c: the table of CUDA's functions. The runtime is linked statically. It loads the driver at
 * the first call, which fails without a driver. */
#include "cuda/device/driver.h"
#include "base/text.h"
#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <string.h>

static const char *error_text(int status)
{
    return cudaGetErrorString((cudaError_t)status);
}

/* Errors that destroy the CUDA context. */
static bool is_sticky(int status)
{
    switch ((cudaError_t)status) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorECCUncorrectable:
    case cudaErrorUnknown: return true;
    default: return false;
    }
}

static void drop_error(void)
{
    (void)cudaGetLastError();
}

/* Clears the error that a failed call leaves for cudaGetLastError, because launches call that. */
static int taken(cudaError_t status)
{
    if (status != cudaSuccess) (void)cudaGetLastError();
    return status;
}

/* X(name, parameters, call): the functions of the table that are one call of CUDA's. */
#define FUNCTIONS(X)                                                                               \
    X(count_devices, (int *count), cudaGetDeviceCount(count))                                      \
    X(driver_version, (int *version), cudaDriverGetVersion(version))                               \
    X(runtime_version, (int *version), cudaRuntimeGetVersion(version))                             \
    X(set_device, (int device), cudaSetDevice(device))                                             \
    X(allocate, (void **memory, size_t bytes), cudaMalloc(memory, bytes))                          \
    X(release, (void *memory), cudaFree(memory))                                                   \
    X(host_allocate, (void **memory, size_t bytes),                                                \
      cudaHostAlloc(memory, bytes, cudaHostAllocDefault))                                          \
    X(host_release, (void *memory), cudaFreeHost(memory))                                          \
    X(memory_info, (size_t * free_bytes, size_t * all_bytes),                                      \
      cudaMemGetInfo(free_bytes, all_bytes))                                                       \
    X(stream_open, (ls__cuda_stream * stream),                                                     \
      cudaStreamCreateWithFlags((cudaStream_t *)stream, cudaStreamNonBlocking))                    \
    X(stream_close, (ls__cuda_stream stream), cudaStreamDestroy(stream))                           \
    X(stream_wait, (ls__cuda_stream stream), cudaStreamSynchronize(stream))                        \
    X(stream_wait_event, (ls__cuda_stream stream, ls__cuda_event event),                           \
      cudaStreamWaitEvent(stream, event, 0))                                                       \
    X(event_open, (ls__cuda_event * event),                                                        \
      cudaEventCreateWithFlags((cudaEvent_t *)event,                                               \
                               cudaEventDisableTiming | cudaEventBlockingSync))                    \
    X(timer_open, (ls__cuda_event * event),                                                        \
      cudaEventCreateWithFlags((cudaEvent_t *)event, cudaEventBlockingSync))                       \
    X(event_close, (ls__cuda_event event), cudaEventDestroy(event))                                \
    X(event_record, (ls__cuda_event event, ls__cuda_stream stream),                                \
      cudaEventRecord(event, stream))                                                              \
    X(event_wait, (ls__cuda_event event), cudaEventSynchronize(event))                             \
    X(elapsed, (float *ms, ls__cuda_event from, ls__cuda_event to),                                \
      cudaEventElapsedTime(ms, from, to))                                                          \
    X(copy, (void *to, const void *from, size_t bytes, ls__cuda_stream stream),                    \
      cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream))                                 \
    X(fill, (void *memory, int byte, size_t bytes, ls__cuda_stream stream),                        \
      cudaMemsetAsync(memory, byte, bytes, stream))                                                \
    X(capture_begin, (ls__cuda_stream stream),                                                     \
      cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal))                            \
    X(capture_end, (ls__cuda_stream stream, ls__cuda_graph * graph),                               \
      cudaStreamEndCapture(stream, (cudaGraph_t *)graph))                                          \
    X(graph_close, (ls__cuda_graph graph), cudaGraphDestroy(graph))                                \
    X(replay_open, (ls__cuda_graph graph, ls__cuda_replay * replay),                               \
      cudaGraphInstantiate((cudaGraphExec_t *)replay, graph, 0))                                   \
    X(replay_launch, (ls__cuda_replay replay, ls__cuda_stream stream),                             \
      cudaGraphLaunch(replay, stream))                                                             \
    X(replay_close, (ls__cuda_replay replay), cudaGraphExecDestroy(replay))

#define DEFINE(name, parameters, call)                                                             \
    static int name parameters                                                                     \
    {                                                                                              \
        return taken(call);                                                                        \
    }
FUNCTIONS(DEFINE)
#undef DEFINE

/* The version is the first word of digits and dots in a line like
 * "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 07:06:13 UTC 2025". */
static void driver_text(char *out, size_t size)
{
    char line[256] = "";
    int version = 0;
    FILE *file = fopen("/proc/driver/nvidia/version", "r");
    if (file) {
        if (!fgets(line, sizeof(line), file)) line[0] = '\0';
        fclose(file);
    }
    for (const char *word = line; *word; word += strcspn(word, " ")) {
        word += strspn(word, " ");
        const size_t length = strspn(word, "0123456789.");
        if (length < 3 || !memchr(word, '.', length) || word[length] != ' ') continue;
        snprintf(out, size, "NVIDIA driver %.*s", (int)length, word);
        return;
    }
    (void)driver_version(&version);
    snprintf(out, size, "NVIDIA driver for CUDA %d.%d", version / 1000, version % 1000 / 10);
}

static int properties(int device, ls__cuda_properties *out)
{
    struct cudaDeviceProp p;
    const int status = taken(cudaGetDeviceProperties(&p, device));
    if (status != 0) return status;
    *out = (ls__cuda_properties){ .major = p.major,
                                  .minor = p.minor,
                                  .multiprocessors = p.multiProcessorCount,
                                  .memory_bytes = p.totalGlobalMem,
                                  .second_level_cache_bytes = (size_t)p.l2CacheSize };
    snprintf(out->name, sizeof(out->name), "%.*s", LS__CUT(p.name, 255));
    memcpy(out->uuid, p.uuid.bytes, sizeof(out->uuid));
    return 0;
}

static int ended_of(cudaError_t status, bool *ended)
{
    *ended = status != cudaErrorNotReady;
    return *ended ? taken(status) : cudaSuccess;
}

static int stream_query(ls__cuda_stream stream, bool *ended)
{
    return ended_of(cudaStreamQuery(stream), ended);
}

static int event_query(ls__cuda_event event, bool *ended)
{
    return ended_of(cudaEventQuery(event), ended);
}

static void range_push(const char *name)
{
    (void)nvtxRangePushA(name);
}

static void range_pop(void)
{
    (void)nvtxRangePop();
}

#define SLOT(name, parameters, call) .name = name,
const ls__cuda_driver ls__cuda_driver_table = { .error_text = error_text,
                                                .is_sticky = is_sticky,
                                                .drop_error = drop_error,
                                                .driver_text = driver_text,
                                                .properties = properties,
                                                .stream_query = stream_query,
                                                .event_query = event_query,
                                                .range_push = range_push,
                                                .range_pop = range_pop,
                                                FUNCTIONS(SLOT) };
