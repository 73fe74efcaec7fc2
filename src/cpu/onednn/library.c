/* library.c: oneDNN's version, its threads, its instruction set. */
#include "base/error.h"
#include "cpu/onednn/api.h"
#include "cpu/onednn/openmp.h"
#include "cpu/onednn/primitive.h"
#include <stdio.h>

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

void ls__dnn_isa(char *text, size_t size)
{
    static const struct {
        dnnl_cpu_isa_t isa;
        const char *name;
    } names[] = { { dnnl_cpu_isa_avx512_core_bf16, "AVX-512 BF16" },
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
