/* ops.c: the provider of our own kernels. */
#include "cpu/ops/ops.h"
#include "base/alloc.h"
#include "base/error.h"
#include "cpu/ops/digest.h"
#include <stdio.h>

#if defined(__x86_64__)
#define FAMILY(name)                                                                               \
    {                                                                                              \
        ls__ops_##name##_base, ls__ops_##name##_avx2, ls__ops_##name##_avx512                      \
    }
#else
#define FAMILY(name)                                                                               \
    {                                                                                              \
        ls__ops_##name##_base                                                                      \
    }
#endif
static const ls__ops_plan *const families[][LS__ISA_AVX512 + 1] = {
    FAMILY(layout),    FAMILY(layout_bf16), FAMILY(norm),
    FAMILY(norm_bf16), FAMILY(activation),  FAMILY(activation_bf16),
    FAMILY(cast),      FAMILY(pool),        FAMILY(pool_bf16),
    FAMILY(loss),      FAMILY(optimizer),
};
enum { N_FAMILIES = sizeof families / sizeof families[0] };

typedef void (*digest_fn)(ls__digest_sum *sum, const void *bytes, size_t size, uint64_t offset);

void ls__ops_digest(ls__isa isa, ls__digest_sum *sum, const void *bytes, size_t size,
                    uint64_t offset)
{
    static const digest_fn digests[] = {
        ls__ops_digest_base,
#if defined(__x86_64__)
        ls__ops_digest_avx2,
        ls__ops_digest_avx512,
#endif
    };
    digests[isa](sum, bytes, size, offset);
}

/* The estimate of a kernel's time: its data stream from memory, as LS__TASK_ELEMENTS supposes too.
 * It only ranks blocks and reorders, because the other candidates are the reference's. */
static const double BYTES_PER_MS = 20e6, STAGE_MS = 0.003;

static bool plan(ls__ops_kernel *k)
{
    for (int i = 0; i < N_FAMILIES; i++) {
        const ls__ops_plan family_plan = families[i][k->cpu->isa][k->op.kind];
        if (family_plan && family_plan(k)) return true;
    }
    return false;
}

static int ops_candidates(ls__cpu *cpu, const ls__op *op, ls__candidate *out, int max)
{
    ls__ops_kernel k = { .cpu = cpu, .op = *op };
    if (max < 1 || !plan(&k)) return 0;
    *out = (ls__candidate){ .name = "own",
                            .deterministic = true,
                            .cost_ms = k.bytes / BYTES_PER_MS + k.n_stages * STAGE_MS };
    return 1;
}

static void run_task(void *arg, int64_t task, int thread)
{
    (void)thread;
    const ls__ops_kernel *k = arg;
    k->stages[k->stage].run(k, task);
}

static ls_status ops_run(ls__kernel *kernel, void *const *buffers, void *workspace,
                         const ls__step *step)
{
    ls__ops_kernel *k = (ls__ops_kernel *)kernel;
    k->buffers = buffers;
    k->workspace = workspace;
    k->step = step;
    for (k->stage = 0; k->stage < k->n_stages; k->stage++)
        ls__threads_run(k->cpu->threads, k->stages[k->stage].n_tasks, run_task, k);
    return LS_OK;
}

static void ops_close(ls__kernel *kernel)
{
    ls__free(((ls__ops_kernel *)kernel)->cpu->device.ctx, kernel);
}

static ls_status ops_open(ls__cpu *cpu, const ls__op *op, const char *name, ls__kernel **out)
{
    ls_context *ctx = cpu->device.ctx;
    ls__ops_kernel *k = ls__zalloc(ctx, sizeof *k);
    if (!k) return ls__fail_memory(ctx, ls__op_name(op->kind), sizeof *k);
    k->cpu = cpu;
    k->op = *op;
    if (!plan(k)) {
        ls__free(ctx, k);
        return ls__fail(ctx, LS_ERR_UNSUPPORTED, "%s: no own kernel for these layouts",
                        ls__op_name(op->kind));
    }
    snprintf(k->kernel.name, sizeof k->kernel.name, "%s", name);
    k->kernel.run = ops_run;
    k->kernel.close = ops_close;
    *out = &k->kernel;
    return LS_OK;
}

static const bool bf16_kinds[LS__N_OPS] = {
    [LS__OP_REORDER] = true,
    [LS__OP_NORMALIZE] = true,
    [LS__OP_BATCH_NORM] = true,
    [LS__OP_BATCH_NORM_EVAL] = true,
    [LS__OP_BATCH_NORM_BACKWARD] = true,
    [LS__OP_NORM_APPLY] = true,
    [LS__OP_RELU] = true,
    [LS__OP_RELU_BACKWARD] = true,
    [LS__OP_SIGMOID] = true,
    [LS__OP_SIGMOID_BACKWARD] = true,
    [LS__OP_ADD] = true,
    [LS__OP_MUL] = true,
    [LS__OP_CONCAT] = true,
    [LS__OP_CONCAT_BACKWARD] = true,
    [LS__OP_PAD_CHANNELS] = true,
    [LS__OP_PAD_CHANNELS_BACKWARD] = true,
    [LS__OP_MAX_POOL] = true,
    [LS__OP_MAX_POOL_BACKWARD] = true,
    [LS__OP_AVG_POOL] = true,
    [LS__OP_AVG_POOL_BACKWARD] = true,
    [LS__OP_GLOBAL_AVG_POOL] = true,
    [LS__OP_GLOBAL_AVG_POOL_BACKWARD] = true,
    [LS__OP_DROPOUT] = true,
    [LS__OP_DROPOUT_BACKWARD] = true,
};

const ls__cpu_provider ls__ops_provider = { "own", ops_candidates, ops_open, bf16_kinds };
