/* digest.c: base/hash.h's sums, a vector of words at a time; the value is the same on every
 * instruction set. */
#include "cpu/ops/digest.h"
#include "cpu/simd/compiler.h"
#include "cpu/simd/words.h"

#if defined(__AVX2__)
enum { WORDS = sizeof(ls__words) / 8 };

/* Adds the sums over n vectors. Returns the largest elements of element_bytes each, without their
 * signs, doubled; element_bytes = 0: nothing. */
LS__ALWAYS_INLINE ls__words add_vectors(ls__digest_sum *sum, const unsigned char *bytes, size_t n,
                                        uint64_t position, int element_bytes)
{
    uint64_t sums[3][WORDS], first[WORDS];
    for (uint64_t i = 0; i < WORDS; i++)
        first[i] = LS__DIGEST_KEY_START + (position + i) * LS__DIGEST_KEY_STEP;
    const ls__words step = LS__WORDS_BROADCAST(WORDS * LS__DIGEST_KEY_STEP);
    const ls__words odd = LS__WORDS_BROADCAST(UINT64_C(0x0000000100000001));
    ls__words s = LS__WORDS_LOAD(first), largest = LS__WORDS_BROADCAST(0);
    ls__words sum0 = largest, sum1 = largest, sum_low = largest;
    for (size_t i = 0; i < n; i++) {
        const ls__words word = LS__WORDS_LOAD(bytes + i * sizeof(ls__words));
        const ls__words key =
            LS__WORDS_XOR(s, LS__WORDS_SWAP_HALVES(LS__WORDS_MULTIPLY_LOW(s, LS__WORDS_HIGH(s))));
        const ls__words multiplier = LS__WORDS_OR(key, odd);
        const ls__words x = LS__WORDS_ADD_HALVES(word, key), x_high = LS__WORDS_HIGH(x);
        /* y without x's high half, which is added to y's high half below; the low halves agree */
        const ls__words y = LS__WORDS_MULTIPLY_LOW(x, multiplier);
        const ls__words y_high = LS__WORDS_ADD_HALVES(LS__WORDS_HIGH(y), x_high);
        sum0 = LS__WORDS_ADD(sum0, LS__WORDS_MULTIPLY_LOW(x, x_high));
        sum1 = LS__WORDS_ADD(sum1, LS__WORDS_MULTIPLY_LOW(y_high, LS__WORDS_HIGH(multiplier)));
        sum_low = LS__WORDS_ADD(sum_low, y);
        s = LS__WORDS_ADD(s, step);
        if (element_bytes == 4)
            largest = LS__WORDS_MAX_HALVES(largest, LS__WORDS_ADD_HALVES(word, word));
        else if (element_bytes == 2)
            largest = LS__WORDS_MAX_QUARTERS(largest, LS__WORDS_ADD_QUARTERS(word, word));
    }
    LS__WORDS_STORE(sums[0], sum0);
    LS__WORDS_STORE(sums[1], sum1);
    LS__WORDS_STORE(sums[2], sum_low);
    for (int i = 0; i < WORDS; i++) {
        sum->words[0] += sums[0][i];
        sum->words[1] += sums[1][i] + (sums[2][i] << 32);
    }
    return largest;
}

/* Blocks in which a NaN is found are added again, so they are small: 8 KiB stay in a cache. */
enum { BLOCK = 8192 / sizeof(ls__words) };

/* Adds the sums over n vectors of elements of element_bytes each. */
LS__ALWAYS_INLINE void add_blocks(ls__digest_sum *sum, const unsigned char *bytes, size_t n,
                                  uint64_t offset, int element_bytes, ls__nan_words of)
{
    for (size_t begin = 0; begin < n; begin += BLOCK) {
        const size_t block = n - begin < BLOCK ? n - begin : BLOCK;
        const size_t at = begin * sizeof(ls__words);
        ls__digest_sum added = *sum;
        uint64_t largest[WORDS], nans = 0;
        LS__WORDS_STORE(largest,
                        add_vectors(&added, bytes + at, block, (offset + at) / 8, element_bytes));
        for (int i = 0; i < WORDS; i++) nans |= ls__find_nans(largest[i] >> 1, of);
        if (nans == 0)
            *sum = added;
        else
            ls__digest_elements(sum, bytes + at, block * sizeof(ls__words), offset + at, of);
    }
}
#endif

void LS__ISA_NAME(ls__ops_digest)(ls__digest_sum *sum, const void *elements, size_t size,
                                  uint64_t offset, ls__nan_words of)
{
    const unsigned char *bytes = elements;
    size_t done = 0;
#if defined(__AVX2__)
    const size_t n = size / sizeof(ls__words);
    done = n * sizeof(ls__words);
    if (of.element_bytes == 4)
        add_blocks(sum, bytes, n, offset, 4, of);
    else if (of.element_bytes == 2)
        add_blocks(sum, bytes, n, offset, 2, of);
    else
        add_vectors(sum, bytes, n, offset / 8, 0);
#endif
    ls__digest_elements(sum, bytes + done, size - done, offset + done, of);
}
