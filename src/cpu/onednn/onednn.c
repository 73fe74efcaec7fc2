/* onednn.c: the provider of oneDNN's kernels. */
#include "cpu/onednn/onednn.h"
#include "base/alloc.h"
#include "base/error.h"

#include <stdlib.h>

typedef struct family {
    int (*candidates)(ls__cpu *cpu, const ls__op *op, ls__candidate *out, int max);
    ls_status (*kernel_open)(ls__cpu *cpu, const ls__op *op, const char *name, ls__kernel **out);
} family;

static const family conv = { ls__onednn_conv_candidates, ls__onednn_conv_open };
static const family linear = { ls__onednn_linear_candidates, ls__onednn_linear_open };

static const family *const families[LS__N_OPS] = {
    [LS__OP_CONV2D] = &conv,
    [LS__OP_CONV2D_BACKWARD_DATA] = &conv,
    [LS__OP_CONV2D_BACKWARD_WEIGHTS] = &conv,
    [LS__OP_LINEAR] = &linear,
    [LS__OP_LINEAR_BACKWARD_DATA] = &linear,
    [LS__OP_LINEAR_BACKWARD_WEIGHTS] = &linear,
};

/* What a call into oneDNN finds at least. The largest need measured is 16.3 MiB, the kernels of all
 * its matrix products, which its first dnnl_sgemm makes (2.6.3, AVX-512); a convolution's kernels
 * take 2.5 MiB. */
enum { HEADROOM_BYTES = 48 << 20 };
enum { THREAD_BYTES = 16 << 10 };

static ls_status fail_starved(ls_context *ctx, const char *what)
{
    return ls__fail(ctx, LS_ERR_MEMORY,
                    "%s: out of memory: oneDNN needs up to %d MiB of free address space, which the "
                    "process cannot have",
                    what, HEADROOM_BYTES >> 20);
}

static ls_status lend(ls_context *ctx, ls__onednn *onednn, const char *what)
{
    return ls__headroom_lend(&onednn->headroom) ? LS_OK : fail_starved(ctx, what);
}

ls_status ls__onednn_check_memory(const ls__cpu *cpu, const ls__kernel *kernel, bool *has_run)
{
    ls_context *ctx = cpu->device.ctx;
    if (cpu->onednn->starved) return fail_starved(ctx, kernel->name);
    if (!*has_run) LS_TRY(lend(ctx, cpu->onednn, kernel->name));
    *has_run = true;
    return LS_OK;
}

ls_status ls__onednn_open(ls_context *ctx, int n_threads, ls__onednn **out)
{
    *out = ls__zalloc(ctx, sizeof **out);
    if (!*out) return ls__fail_memory(ctx, "oneDNN", sizeof **out);
    (*out)->headroom.bytes = HEADROOM_BYTES;
    (*out)->has_bf16 = ls__dnn_has_bf16();
    ls_status status = lend(ctx, *out, "oneDNN");
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
    /* OpenMP allocates its state of this thread, some 200 bytes, and ends the process where it
     * cannot. What is freed here is what it gets. */
    void *volatile memory = malloc(THREAD_BYTES); /* or the compiler drops the pair */
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
    (void)ls__headroom_hold(&onednn->headroom); /* else the next one to lend it tries again */
}

static bool lacks_type(const ls__cpu *cpu, const ls__op *op)
{
    return ls__onednn_is_bf16(op) && !cpu->onednn->has_bf16;
}

static int candidates(ls__cpu *cpu, const ls__op *op, ls__candidate *out, int max)
{
    const family *f = families[op->kind];
    if (!f || lacks_type(cpu, op)) return 0;
    if (lend(cpu->device.ctx, cpu->onednn, ls__op_name(op->kind)) != LS_OK) return 0;
    const int before = ls__dnn_one_thread();
    const int n = f->candidates(cpu, op, out, max);
    ls__dnn_restore_threads(before);
    (void)ls__headroom_hold(&cpu->onednn->headroom);
    return n;
}

static ls_status kernel_open(ls__cpu *cpu, const ls__op *op, const char *name, ls__kernel **out)
{
    const family *f = families[op->kind];
    *out = NULL;
    if (!f)
        return ls__fail(cpu->device.ctx, LS_ERR_UNSUPPORTED, "%s: oneDNN has no kernel",
                        ls__op_name(op->kind));
    if (lacks_type(cpu, op))
        return ls__fail(cpu->device.ctx, LS_ERR_UNSUPPORTED,
                        "%s: no kernel '%s': this processor does not multiply bf16",
                        ls__op_name(op->kind), name);
    LS_TRY(lend(cpu->device.ctx, cpu->onednn, ls__op_name(op->kind)));
    const int before = ls__dnn_one_thread();
    const ls_status status = f->kernel_open(cpu, op, name, out);
    ls__dnn_restore_threads(before);
    (void)ls__headroom_hold(&cpu->onednn->headroom);
    return status;
}

static const bool bf16_kinds[LS__N_OPS] = {
    [LS__OP_CONV2D] = true,
    [LS__OP_CONV2D_BACKWARD_DATA] = true,
    [LS__OP_CONV2D_BACKWARD_WEIGHTS] = true,
    [LS__OP_LINEAR] = true,
    [LS__OP_LINEAR_BACKWARD_DATA] = true,
    [LS__OP_LINEAR_BACKWARD_WEIGHTS] = true,
};

const ls__cpu_provider ls__onednn_provider = { "onednn", candidates, kernel_open, bf16_kinds };
