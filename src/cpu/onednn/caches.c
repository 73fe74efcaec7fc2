/* caches.c: the processor's caches. */
#include "base/text.h"
#include "cpu/onednn/onednn.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* Bytes of the i-th cache in CPUID's order, 0 for an instruction cache; -1 at the end. Intel's leaf
 * 4 and AMD's 0x8000001d have the same format ("Deterministic Cache Parameters", Intel SDM
 * volume 2A; "Cache Properties", AMD APM volume 3). */
static int64_t cache_bytes(unsigned i)
{
#if defined(__x86_64__)
    static const unsigned leaves[] = { 4, 0x8000001d };
    for (int l = 0; l < 2; l++) {
        unsigned a, b, c, d;
        if (!__get_cpuid_count(leaves[l], i, &a, &b, &c, &d) || (a & 31) == 0) continue;
        const int64_t ways = (b >> 22) + 1, partitions = (b >> 12 & 1023) + 1;
        const int64_t line = (b & 4095) + 1, sets = (int64_t)c + 1;
        return (a & 31) == 2 ? 0 : ways * partitions * line * sets;
    }
#endif
    (void)i;
    return -1;
}

void ls__cache_text(char *text, size_t size)
{
    enum { MAX_CACHES = 8 };
    ls__text out = { text, size, 0 };
    ls__text_put(&out, "caches");
    int n = 0;
    int64_t bytes;
    for (unsigned i = 0; i < MAX_CACHES && (bytes = cache_bytes(i)) >= 0; i++)
        if (bytes > 0) ls__text_put(&out, "%s %lld KiB", n++ ? "," : "", (long long)bytes / 1024);
    if (n == 0) ls__text_put(&out, " unknown");
}
