/* ops.c: the provider of our own kernels. */
#include "cpu/ops/ops.h"
#include "base/alloc.h"
#include "base/error.h"
#include "cpu/ops/digest.h"
#include <stdio.h>

#if defined(__x86_64__)
#define FAMILY(name) { ls__ops_##name##_plain, ls__ops_##name##_avx2, ls__ops_##name##_avx512 },
#else
#define FAMILY(name) { ls__ops_##name##_plain },
#endif
static const ls__ops_prepare *const families[][LS__ISA_AVX512 + 1] = { LS__OPS_FAMILIES(FAMILY) };
enum { N_FAMILIES = sizeof families / sizeof families[0] };

void ls__ops_digest(ls__isa isa, ls__digest_sum *sum, const void *elements, size_t size,
                    uint64_t offset, ls__nan_words of)
{
    static void (*const digests[])(ls__digest_sum *, const void *, size_t, uint64_t,
                                   ls__nan_words) = {
        ls__ops_digest_plain,
#if defined(__x86_64__)
        ls__ops_digest_avx2,
        ls__ops_digest_avx512,
#endif
    };
    digests[isa](sum, elements, size, offset, of);
}

/* The estimate of a kernel's time: its operands stream from memory once, as LS__TASK_ELEMENTS
 * assumes. It ranks no kernels, because an op of cpu/ops has no other. */
static const double BYTES_PER_MS = 20e6, PHASE_MS = 0.003;

static bool prepare(ls__ops_kernel *k)
{
    for (int i = 0; i < N_FAMILIES; i++) {
        const ls__ops_prepare family_prepare = families[i][k->cpu->isa][k->op.kind];
        if (family_prepare && family_prepare(k)) return true;
    }
    return false;
}

static int ops_candidates(ls__cpu *cpu, const ls__op *op, ls__candidate *out, int max)
{
    ls__ops_kernel k = { .cpu = cpu, .op = *op };
    if (max < 1 || !prepare(&k)) return 0;
    *out = (ls__candidate){ .name = "own",
                            .deterministic = true,
                            .cost_ms = ls__op_bytes(op) / BYTES_PER_MS + k.n_phases * PHASE_MS };
    return 1;
}

static void ops_run_task(void *arg, int64_t task, int thread)
{
    (void)thread;
    const ls__ops_kernel *k = arg;
    k->phases[k->phase].run(k, task);
}

static ls_status ops_run(ls__kernel *kernel, void *const *buffers, void *workspace,
                         const ls__step *step)
{
    ls__ops_kernel *k = (ls__ops_kernel *)kernel;
    k->buffers = buffers;
    k->workspace = workspace;
    k->step = step;
    for (k->phase = 0; k->phase < k->n_phases; k->phase++)
        ls__threads_run(k->cpu->threads, k->phases[k->phase].n_tasks, ops_run_task, k);
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
    if (!prepare(k)) {
        ls__free(ctx, k);
        return ls__fail(ctx, LS_ERR_UNSUPPORTED, "%s: no own kernel for these types",
                        ls__op_name(op->kind));
    }
    snprintf(k->kernel.name, sizeof k->kernel.name, "%s", name);
    k->kernel.run = ops_run;
    k->kernel.close = ops_close;
    *out = &k->kernel;
    return LS_OK;
}

/* Every kind: a family's prepare function checks the types itself. */
#define TAKES_BF16(...) true,
static const bool bf16_kinds[LS__N_OPS] = { LS__OP_LIST(TAKES_BF16) };

const ls__cpu_provider ls__ops_provider = { "own", ops_candidates, ops_open, bf16_kinds };
