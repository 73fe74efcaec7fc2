/* digest.h: digests computed with the machine's instruction set. */
#ifndef LS_CPU_OPS_DIGEST_H
#define LS_CPU_OPS_DIGEST_H

#include "base/hash.h"
#include "cpu/cpu.h"

/* Adds the digest of elements to *sum as ls__digest_elements does; isa must be the machine's. */
void ls__ops_digest(ls__isa isa, ls__digest_sum *sum, const void *elements, size_t size,
                    uint64_t offset, ls__nan_words of);

/* One per instruction set. */
void ls__ops_digest_plain(ls__digest_sum *sum, const void *elements, size_t size, uint64_t offset,
                          ls__nan_words of);
void ls__ops_digest_avx2(ls__digest_sum *sum, const void *elements, size_t size, uint64_t offset,
                         ls__nan_words of);
void ls__ops_digest_avx512(ls__digest_sum *sum, const void *elements, size_t size, uint64_t offset,
                           ls__nan_words of);

#endif
