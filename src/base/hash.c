/* hash.c: digests of bytes, and XXH3. */
#include "base/hash.h"

#include <lockstep/tensor.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static uint64_t load_word(const unsigned char *at, size_t n)
{
    uint64_t word = 0;
    for (size_t i = 0; i < n; i++) word |= (uint64_t)at[i] << 8 * i;
    return word;
}

void ls__digest_bytes(ls__digest_sum *sum, const void *bytes, size_t size, uint64_t offset)
{
    const unsigned char *at = bytes;
    uint64_t position = offset / 8;
    for (size_t i = 0; i < size / 8; i++, at += 8)
        ls__digest_word(sum, load_word(at, 8), position++);
    if (size % 8) ls__digest_word(sum, load_word(at, size % 8), position);
}

void ls__digest_elements(ls__digest_sum *sum, const void *elements, size_t size, uint64_t offset,
                         ls__nan_words of)
{
    if (of.element_bytes == 0) {
        ls__digest_bytes(sum, elements, size, offset);
        return;
    }
    const unsigned char *at = elements;
    uint64_t position = offset / 8;
    for (size_t i = 0; i < size / 8; i++, at += 8)
        ls__digest_word(sum, ls__replace_nans(load_word(at, 8), of), position++);
    if (size % 8) ls__digest_word(sum, ls__replace_nans(load_word(at, size % 8), of), position);
}

ls_digest ls__digest_finish(const ls__digest_sum *sum, uint64_t size)
{
    ls_digest out;
    for (int i = 0; i < 2; i++)
        out.words[i] = ls__mix64(sum->words[i] + ls__mix64(2 * size + (uint64_t)i));
    return out;
}

uint64_t ls__hash(const void *bytes, size_t size, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes, size, seed);
}
