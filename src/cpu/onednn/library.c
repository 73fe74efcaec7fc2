/* library.c: oneDNN's version, its threads, its instruction set. */
#include "base/error.h"
#include "base/isa.h"
#include "cpu/onednn/api.h"
#include "cpu/onednn/openmp.h"
#include "cpu/onednn/primitive.h"
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

int ls__dnn_one_thread(void)
{
    const int before = omp_get_max_threads();
    if (before != 1) omp_set_num_threads(1);
    return before;
}

void ls__dnn_restore_threads(int n_threads)
{
    if (n_threads != 1) omp_set_num_threads(n_threads);
}

void ls__dnn_version(char *text, size_t size)
{
    const dnnl_version_t *v = dnnl_version();
    snprintf(text, size, "%d.%d.%d", v->major, v->minor, v->patch);
}

#if defined(__x86_64__)
/* `limit`, or less if ONEDNN_MAX_CPU_ISA allows less: dnnl_set_max_cpu_isa overrides it. Of a set
 * beside the chain SSE4.1, AVX, AVX2, AVX-512 what AVX-512 has in common with it is allowed. */
static dnnl_cpu_isa_t environment_limit(dnnl_cpu_isa_t limit)
{
    static const struct {
        const char *value;
        dnnl_cpu_isa_t isa;
    } values[] = { { "SSE41", dnnl_cpu_isa_sse41 },         { "AVX", dnnl_cpu_isa_avx },
                   { "AVX2", dnnl_cpu_isa_avx2 },           { "AVX2_VNNI", dnnl_cpu_isa_avx2 },
                   { "AVX2_VNNI_2", dnnl_cpu_isa_avx2 },    { "AVX512_MIC", dnnl_cpu_isa_avx2 },
                   { "AVX512_MIC_4OPS", dnnl_cpu_isa_avx2 } };
    const char *set = getenv("ONEDNN_MAX_CPU_ISA");
    if (!set) set = getenv("DNNL_MAX_CPU_ISA");
    for (size_t i = 0; set && i < sizeof values / sizeof values[0]; i++)
        if (strcasecmp(set, values[i].value) == 0 && values[i].isa < limit) return values[i].isa;
    return limit;
}

ls_status ls__dnn_limit_isa(ls_context *ctx)
{
    static const dnnl_cpu_isa_t limits[] = { [LS__ISA_PLAIN] = dnnl_cpu_isa_sse41, /* its least */
                                             [LS__ISA_AVX2] = dnnl_cpu_isa_avx2,
                                             [LS__ISA_AVX512] = dnnl_cpu_isa_avx512_core };
    ls__isa limit;
    if (!ls__isa_limit(&limit)) return LS_OK;
    if (dnnl_set_max_cpu_isa(environment_limit(limits[limit])) == dnnl_success) return LS_OK;
    /* The limit was set before, by Lockstep or the program, to any value. */
    const unsigned more = (unsigned)dnnl_get_effective_cpu_isa() & ~(unsigned)limits[limit];
    return more == 0
               ? LS_OK
               : ls__fail(ctx, LS_ERR_UNSUPPORTED,
                          "LOCKSTEP_MAX_ISA: oneDNN can't be limited, because the program has "
                          "used it before; expected ONEDNN_MAX_CPU_ISA, too");
}
#else
/* oneDNN's kernels for other processors have no such limits. */
ls_status ls__dnn_limit_isa(ls_context *ctx)
{
    (void)ctx;
    return LS_OK;
}
#endif

void ls__dnn_isa(char *text, size_t size)
{
    static const struct {
        dnnl_cpu_isa_t isa;
        const char *name;
    } names[] = { { dnnl_cpu_isa_sse41, "SSE4.1" },
                  { dnnl_cpu_isa_avx, "AVX" },
                  { dnnl_cpu_isa_avx2, "AVX2" },
                  { dnnl_cpu_isa_avx2_vnni, "AVX2 VNNI" },
                  { dnnl_cpu_isa_avx512_core, "AVX-512" },
                  { dnnl_cpu_isa_avx512_core_vnni, "AVX-512 VNNI" },
                  { dnnl_cpu_isa_avx512_core_bf16, "AVX-512 BF16" },
                  { dnnl_cpu_isa_avx512_core_amx, "AVX-512 AMX" } };
    const dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    snprintf(text, size, "ISA 0x%x", (unsigned)isa);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].isa == isa) snprintf(text, size, "%s", names[i].name);
}

bool ls__dnn_has_bf16(void)
{
    /* an instruction set has the bits of all that it includes */
    const unsigned isa = (unsigned)dnnl_get_effective_cpu_isa();
    return (isa & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16;
}

/* A build of oneDNN over another thread pool ignores the calls above: it would split the work by
 * its own number of threads. */
ls_status ls__dnn_check(ls_context *ctx)
{
    const dnnl_version_t *v = dnnl_version();
    if (v->major != DNNL_VERSION_MAJOR)
        return ls__fail(ctx, LS_ERR_UNSUPPORTED, "oneDNN: got version %d.%d.%d, expected %d.x",
                        v->major, v->minor, v->patch, DNNL_VERSION_MAJOR);
    if (v->cpu_runtime != DNNL_RUNTIME_OMP && v->cpu_runtime != DNNL_RUNTIME_SEQ)
        return ls__fail(ctx, LS_ERR_UNSUPPORTED,
                        "oneDNN %d.%d.%d: got threads of kind %u, expected OpenMP or none",
                        v->major, v->minor, v->patch, v->cpu_runtime);
    return LS_OK;
}
