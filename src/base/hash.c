/* hash.c: digests of bytes by position, and XXH3 for keys and names. */
#include "base/hash.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

void ls__digest_bytes(ls__digest_sum *sum, const void *bytes, size_t size, uint64_t offset)
{
    const unsigned char *at = bytes;
    const size_t n_words = size / 8;
    uint64_t position = offset / 8;
    for (size_t i = 0; i < n_words; i++, at += 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        ls__digest_word(sum, word, position++);
    }
    if (size % 8) {
        uint64_t word = 0;
        memcpy(&word, at, size % 8);
        ls__digest_word(sum, word, position);
    }
}

uint64_t ls__hash(const void *bytes, size_t size, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes, size, seed);
}
