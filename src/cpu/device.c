/* device.c: the CPU backend's table: the device, its threads and scratch memory, and the providers
 * of its kernels. */
#include "cpu/cpu.h"
#include "base/alloc.h"
#include "base/available.h"
#include "base/context.h"
#include "base/error.h"
#include "base/own_kernels.h"
#include "cpu/memory.h"
#include "cpu/conv/depthwise/depthwise.h"
#include "cpu/conv/small_channels/small_channels.h"
#include "cpu/emulated.h"
#include "cpu/conv/implicit_gemm/implicit_gemm.h"
#include "cpu/conv/winograd/winograd.h"
#include "cpu/onednn/onednn.h"
#include <stdio.h>
#include <string.h>

/* Best first. */
static const ls__cpu_provider *const providers[] = {
    &ls__winograd_provider,  &ls__small_channels_provider, &ls__implicit_gemm_provider,
    &ls__depthwise_provider, &ls__onednn_provider,         &ls__ops_provider,
    &ls__emulated_provider,
};
enum { N_PROVIDERS = sizeof providers / sizeof providers[0] };

/* The emulated provider serves all ops that no other provider does; those serve f32 operands, and
 * the ops of bf16_kinds. */
static bool serves(const ls__cpu *cpu, const ls__cpu_provider *provider, const ls__op *op)
{
    if (provider == &ls__onednn_provider && !cpu->onednn) return false;
    if (!ls__needs_emulation(op)) return provider != &ls__emulated_provider;
    if (provider == &ls__emulated_provider) return true;
    for (int i = 0; i < op->n_operands; i++)
        if (op->operands[i].dtype == LS_F16) return false;
    return provider->bf16_kinds && provider->bf16_kinds[op->kind];
}

/* Tasks run in the caller's thread and in the pool's threads, which must all round alike. */
static bool start_thread(void)
{
    return fesetenv(FE_DFL_ENV) == 0;
}

static bool start_native_thread(void)
{
    return start_thread() && ls__onednn_thread_start();
}

static void cpu_close(ls__device *device)
{
    ls__cpu *cpu = (ls__cpu *)device;
    if (!cpu) return;
    ls_context *ctx = cpu->device.ctx;
    ls__threads_close(&cpu->threads);
    ls__onednn_close(ctx, &cpu->onednn);
    if (cpu->scratch)
        for (int i = 0; i < cpu->n_threads; i++) ls__free(ctx, cpu->scratch[i]);
    ls__free(ctx, cpu->scratch);
    ls__free(ctx, cpu);
}

static void cpu_fill_texts(ls__cpu *cpu)
{
    snprintf(cpu->libraries, sizeof cpu->libraries, "own kernels %d", LS__OWN_KERNELS);
    snprintf(cpu->description, sizeof cpu->description, "cpu, %d thread%s, %s, %s", cpu->n_threads,
             cpu->n_threads == 1 ? "" : "s", ls__isa_name(cpu->isa),
             cpu->onednn ? ls__onednn_libraries(cpu->onednn) : cpu->libraries);
}

/* Timing would make results depend on the machine. Device "auto" may have been meant for a GPU. */
static ls_status check_benchmark(ls_context *ctx)
{
    if (ctx->config.benchmark == LS_BENCHMARK_OFF) return LS_OK;
    ctx->config.benchmark = LS_BENCHMARK_OFF;
    if (ctx->config.device && strcmp(ctx->config.device, "auto") == 0) return LS_OK;
    return ls__fail(ctx, LS_ERR_INVALID,
                    "ls_context_open: benchmark is on, but portable arithmetic selects the kernels "
                    "of a CPU by their shapes; expected arithmetic native");
}

static ls_status cpu_open(ls_context *ctx, int index, ls__device **out)
{
    *out = NULL;
    if (index != 0)
        return ls__fail(ctx, LS_ERR_INVALID, "cpu: got device number %d, there is only 0", index);
    ls__cpu *cpu = ls__zalloc(ctx, sizeof *cpu);
    if (!cpu) return ls__fail_memory(ctx, "cpu", sizeof *cpu);
    cpu->device = (ls__device){ .backend = &ls__cpu_backend, .ctx = ctx };
    cpu->n_threads = ctx->config.threads > 0 ? ctx->config.threads : ls__available_processors();
    cpu->isa = ls__isa_detect();
    const bool portable = ctx->config.arithmetic == LS_ARITHMETIC_PORTABLE;
    ls_status status =
        portable ? check_benchmark(ctx) : ls__onednn_open(ctx, cpu->n_threads, &cpu->onednn);
    if (status != LS_OK) goto fail;
    cpu_fill_texts(cpu);

    const size_t list_bytes = (size_t)cpu->n_threads * sizeof *cpu->scratch;
    cpu->scratch = ls__zalloc(ctx, list_bytes);
    if (!cpu->scratch) {
        status = ls__fail_memory(ctx, "cpu", list_bytes);
        goto fail;
    }
    status = ls__threads_open(ctx, cpu->n_threads, cpu->onednn ? start_native_thread : start_thread,
                              &cpu->threads);
    if (status != LS_OK) goto fail;
    *out = &cpu->device;
    return LS_OK;
fail:
    cpu_close(&cpu->device);
    return status;
}

static const char *cpu_describe(const ls__device *device)
{
    return ((const ls__cpu *)device)->description;
}

static int cpu_threads(const ls__device *device)
{
    return ((const ls__cpu *)device)->n_threads;
}

/* oneDNN has no kernels but in bf16. */
static const ls__onednn *onednn_of(const ls__device *device, ls_dtype activations)
{
    return activations == LS_BF16 ? ((const ls__cpu *)device)->onednn : NULL;
}

static const char *cpu_libraries(const ls__device *device, ls_dtype activations)
{
    const ls__onednn *onednn = onednn_of(device, activations);
    return onednn ? ls__onednn_libraries(onednn) : ((const ls__cpu *)device)->libraries;
}

static const char *cpu_processor(const ls__device *device, ls_dtype activations)
{
    const ls__onednn *onednn = onednn_of(device, activations);
    return onednn ? ls__onednn_processor(onednn) : "";
}

static bool cpu_emulates(const ls__device *device, ls_dtype dtype)
{
    return dtype == LS_F16 || !((const ls__cpu *)device)->onednn;
}

static const char *cpu_faster_bf16(const ls__device *device)
{
    const bool portable = device->ctx->config.arithmetic == LS_ARITHMETIC_PORTABLE;
    const bool has_native = ls__onednn_provider.kernel_open != NULL;
    return portable && has_native && ls__isa_multiplies_bf16()
               ? "; arithmetic native is faster on this processor"
               : "";
}

static size_t cpu_scratch_bytes(const ls__device *device)
{
    const ls__cpu *cpu = (const ls__cpu *)device;
    return cpu->scratch_bytes * (size_t)cpu->n_threads;
}

static int cpu_candidates(ls__device *device, const ls__op *op, ls__candidate *out, int max)
{
    ls__cpu *cpu = (ls__cpu *)device;
    int n = 0;
    for (int i = 0; i < N_PROVIDERS && n < max; i++)
        if (serves(cpu, providers[i], op)) n += providers[i]->candidates(cpu, op, out + n, max - n);
    return n;
}

/* A kernel's name begins with its provider's: "onednn jit:avx512_core_amx_bf16". */
static ls_status cpu_kernel_open(ls__device *device, const ls__op *op, const char *name,
                                 ls__kernel **out)
{
    *out = NULL;
    for (int i = 0; i < N_PROVIDERS; i++) {
        const size_t length = strlen(providers[i]->name);
        if (strncmp(name, providers[i]->name, length) == 0 &&
            (name[length] == '\0' || name[length] == ' ') &&
            serves((ls__cpu *)device, providers[i], op))
            return providers[i]->kernel_open((ls__cpu *)device, op, name, out);
    }
    return ls__fail(device->ctx, LS_ERR_NOT_FOUND, "%s: the cpu has no kernel '%s'",
                    ls__op_name(op->kind), name);
}

/* The caller may have set another rounding mode, or flush-to-zero, for its own arithmetic. */
static void cpu_begin(ls__device *device)
{
    ls__cpu *cpu = (ls__cpu *)device;
    fegetenv(&cpu->caller_environment);
    fesetenv(FE_DFL_ENV);
    if (cpu->onednn) ls__onednn_begin(cpu->onednn);
}

static void cpu_end(ls__device *device)
{
    ls__cpu *cpu = (ls__cpu *)device;
    if (cpu->onednn) ls__onednn_end(cpu->onednn);
    fesetenv(&cpu->caller_environment);
}

/* All work has finished when its call returns, so an event has no state. */
static ls_status cpu_event_open(ls__device *device, ls__event **out)
{
    *out = ls__alloc(device->ctx, 1);
    return *out ? LS_OK : ls__fail_memory(device->ctx, "cpu: event", 1);
}

static ls_status cpu_event_done(ls__device *device, ls__event *event)
{
    (void)device;
    (void)event;
    return LS_OK;
}

static ls_status cpu_upload(ls__device *device, void *memory, const void *host, size_t bytes,
                            ls__event *after, ls__event *done)
{
    (void)after;
    (void)done;
    return ls__cpu_copy(device, memory, host, bytes);
}

static ls_status cpu_gather(ls__device *device, float *out, const float *const *scalars, int n)
{
    (void)device;
    for (int i = 0; i < n; i++) out[i] = *scalars[i];
    return LS_OK;
}

static void cpu_event_close(ls__device *device, ls__event *event)
{
    ls__free(device->ctx, event);
}

static ls_status cpu_stream_wait(ls__device *device, ls__stream waiting, ls__stream awaited)
{
    (void)device;
    (void)waiting;
    (void)awaited;
    return LS_OK;
}

static ls_status cpu_wait(ls__device *device)
{
    (void)device;
    return LS_OK;
}

static void *cpu_stream(ls__device *device)
{
    (void)device;
    return NULL;
}

const ls__backend ls__cpu_backend = {
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .describe = cpu_describe,
    .threads = cpu_threads,
    .libraries = cpu_libraries,
    .processor = cpu_processor,
    .alignment = LS__ALIGNMENT,
    .allocate = ls__cpu_allocate,
    .release = ls__cpu_release,
    .host_allocate = ls__cpu_allocate,
    .host_release = ls__cpu_release,
    .free_bytes = ls__cpu_free_bytes,
    .host_memory = true,
    .precisions = LS__HAS_BF16 | LS__HAS_F16,
    .emulates = cpu_emulates,
    .faster_bf16 = cpu_faster_bf16,
    .read = ls__cpu_copy,
    .write = ls__cpu_copy,
    .download = ls__cpu_copy,
    .upload = cpu_upload,
    .copy = ls__cpu_copy,
    .clear = ls__cpu_clear,
    .cast = ls__cpu_cast,
    .digest = ls__cpu_digest,
    .gather = cpu_gather,
    .candidates = cpu_candidates,
    .kernel_open = cpu_kernel_open,
    .scratch_bytes = cpu_scratch_bytes,
    .begin = cpu_begin,
    .end = cpu_end,
    .event_open = cpu_event_open,
    .event_record = cpu_event_done,
    .event_wait = cpu_event_done,
    .event_close = cpu_event_close,
    .stream_wait = cpu_stream_wait,
    .wait = cpu_wait,
    .stream = cpu_stream,
};
