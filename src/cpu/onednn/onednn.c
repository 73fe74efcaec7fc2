/* onednn.c: oneDNN's state on a device: its threads and the headroom for its allocations. */
#include "cpu/onednn/onednn.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/own_kernels.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    /* Free memory for a call of oneDNN. A convolution's kernels take up to 2.5 MiB (2.6.3). */
    HEADROOM_BYTES = 16 << 20,
    THREAD_BYTES = 16 << 10
};

static ls_status fail_starved(ls_context *ctx, const char *what)
{
    return ls__fail(ctx, LS_ERR_MEMORY,
                    "%s: out of memory: oneDNN needs up to %d MiB of free address space, which the "
                    "process cannot have",
                    what, HEADROOM_BYTES >> 20);
}

ls_status ls__onednn_lend(ls_context *ctx, ls__onednn *onednn, const char *what)
{
    return ls__headroom_lend(&onednn->headroom) ? LS_OK : fail_starved(ctx, what);
}

ls_status ls__onednn_check_memory(const ls__cpu *cpu, const ls__kernel *kernel, bool *has_run)
{
    ls_context *ctx = cpu->device.ctx;
    if (cpu->onednn->starved) return fail_starved(ctx, kernel->name);
    if (!*has_run) LS_TRY(ls__onednn_lend(ctx, cpu->onednn, kernel->name));
    *has_run = true;
    return LS_OK;
}

static void fill_texts(ls__onednn *onednn)
{
    char version[16], isa[32], caches[64];
    ls__dnn_version(version, sizeof version);
    ls__dnn_isa(isa, sizeof isa);
    ls__cache_text(caches, sizeof caches);
    snprintf(onednn->libraries, sizeof onednn->libraries, "oneDNN %s, own kernels %d.%d", version,
             LS__OWN_KERNELS, LS__NATIVE_KERNELS);
    snprintf(onednn->processor, sizeof onednn->processor, "oneDNN %s, %s", isa, caches);
}

const char *ls__onednn_libraries(const ls__onednn *onednn)
{
    return onednn->libraries;
}

const char *ls__onednn_processor(const ls__onednn *onednn)
{
    return onednn->processor;
}

ls_status ls__onednn_open(ls_context *ctx, int n_threads, ls__onednn **out)
{
    *out = NULL;
    if (ls__isa_is_limited() || !ls__dnn_has_bf16()) return LS_OK;
    LS_TRY(ls__dnn_check(ctx));
    *out = ls__zalloc(ctx, sizeof **out);
    if (!*out) return ls__fail_memory(ctx, "oneDNN", sizeof **out);
    (*out)->headroom.bytes = HEADROOM_BYTES;
    fill_texts(*out);
    ls_status status = ls__onednn_lend(ctx, *out, "oneDNN");
    if (status == LS_OK) status = ls__dnn_open(ctx, n_threads, &(*out)->dnn);
    if (status == LS_OK && !ls__headroom_hold(&(*out)->headroom))
        status = fail_starved(ctx, "oneDNN");
    if (status != LS_OK) ls__onednn_close(ctx, out);
    return status;
}

void ls__onednn_close(ls_context *ctx, ls__onednn **onednn)
{
    if (*onednn) {
        ls__dnn_close(&(*onednn)->dnn);
        ls__headroom_close(&(*onednn)->headroom);
    }
    ls__free(ctx, *onednn);
    *onednn = NULL;
}

bool ls__onednn_thread_start(void)
{
    /* OpenMP allocates some 200 bytes for this thread and ends the process if it cannot. It gets
     * the memory that is freed here. volatile: else the compiler removes malloc and free. */
    void *volatile memory = malloc(THREAD_BYTES);
    if (!memory) return false;
    free(memory);
    ls__dnn_one_thread();
    return true;
}

void ls__onednn_begin(ls__onednn *onednn)
{
    onednn->starved = !ls__headroom_lend(&onednn->headroom);
    onednn->caller_threads = onednn->starved ? 1 : ls__dnn_one_thread();
}

void ls__onednn_end(ls__onednn *onednn)
{
    ls__dnn_restore_threads(onednn->caller_threads);
    onednn->starved = false;
    (void)ls__headroom_hold(&onednn->headroom); /* if it fails, the next lend tries again */
}
