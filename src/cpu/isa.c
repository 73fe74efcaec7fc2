/* isa.c: which of the instruction sets that our kernels are compiled for this machine has. */
#include "cpu/cpu.h"

ls__isa ls__isa_detect(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return LS__ISA_AVX512;
    if (avx2) return LS__ISA_AVX2;
#endif
    return LS__ISA_BASE;
}

const char *ls__isa_name(ls__isa isa)
{
    static const char *const names[] = { "baseline", "AVX2", "AVX-512" };
    return names[isa];
}
