/* isa.c: see isa.h. */
#include "base/isa.h"

#include "base/error.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

static const char VARIABLE[] = "LOCKSTEP_MAX_ISA";

enum { N_ISAS = LS__ISA_AVX512 + 1, VALUE_SIZE = 64 };

static const struct {
    const char *name, *value;
} isas[N_ISAS] = { { "plain", "plain" }, { "AVX2", "avx2" }, { "AVX-512", "avx512" } };

/* The processor's instruction set and its limit, which are read once per process. */
static struct {
    ls__isa isa, limit;
    bool has_limit;
    char unknown[VALUE_SIZE]; /* a value that is no limit */
} detected;

#if defined(__x86_64__)
/* clang 14's __builtin_cpu_supports does not support the name. */
static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

static ls__isa processor_isa(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return LS__ISA_AVX512;
    if (avx2) return LS__ISA_AVX2;
#endif
    return LS__ISA_PLAIN;
}

static void detect(void)
{
    const char *value = secure_getenv(VARIABLE);
    detected.isa = processor_isa();
    if (!value || !value[0]) return;
    for (int i = 0; i < N_ISAS; i++) {
        if (strcmp(value, isas[i].value) != 0) continue;
        detected.limit = (ls__isa)i;
        detected.has_limit = true;
    }
    if (!detected.has_limit)
        snprintf(detected.unknown, VALUE_SIZE, "%s", value);
    else if (detected.isa > detected.limit)
        detected.isa = detected.limit;
}

static void detect_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, detect);
}

ls__isa ls__isa_detect(void)
{
    detect_once();
    return detected.isa;
}

const char *ls__isa_name(ls__isa isa)
{
    return isas[isa].name;
}

bool ls__isa_multiplies_bf16(void)
{
#if defined(__x86_64__)
    enum { FEATURES = 7, MORE = 1, AVX512_BF16 = 1 << 5 }; /* the leaf, its part, the bit */
    unsigned a, b, c, d;
    return ls__isa_detect() == LS__ISA_AVX512 && !detected.has_limit &&
           __get_cpuid_count(FEATURES, MORE, &a, &b, &c, &d) && (a & AVX512_BF16);
#else
    return false;
#endif
}

bool ls__isa_is_limited(void)
{
    detect_once();
    return detected.has_limit;
}

ls_status ls__isa_check(ls_context *ctx)
{
    detect_once();
    if (!detected.unknown[0]) return LS_OK;
    return ls__fail(ctx, LS_ERR_INVALID,
                    "ls_context_open: the environment variable %s is '%s', expected %s, %s or %s",
                    VARIABLE, detected.unknown, isas[0].value, isas[1].value, isas[2].value);
}
