/* digest.c: base/hash.h's sums, a vector of words at a time; the value is the same on every
 * instruction set. */
#include "cpu/ops/digest.h"
#include "cpu/simd/compiler.h"
#include "cpu/simd/words.h"

#if defined(__AVX2__)
enum { WORDS = sizeof(ls__words) / 8 };

/* Adds the sums over whole vectors; returns the number of their bytes. */
static size_t add_vectors(ls__digest_sum *sum, const unsigned char *bytes, size_t size,
                          uint64_t position)
{
    uint64_t sums[2][WORDS], first[WORDS];
    for (uint64_t i = 0; i < WORDS; i++)
        first[i] = LS__DIGEST_KEY_START + (position + i) * LS__DIGEST_KEY_STEP;
    const ls__words step = LS__WORDS_BROADCAST(WORDS * LS__DIGEST_KEY_STEP);
    const ls__words odd = LS__WORDS_BROADCAST(UINT64_C(0x0000000100000001));
    const ls__words high_half = LS__WORDS_BROADCAST(UINT64_C(0xffffffff00000000));
    ls__words s = LS__WORDS_LOAD(first), sum0 = LS__WORDS_BROADCAST(0), sum1 = sum0;
    size_t at = 0;
    for (; at + sizeof(ls__words) <= size; at += sizeof(ls__words)) {
        const ls__words key =
            LS__WORDS_XOR(s, LS__WORDS_SWAP_HALVES(LS__WORDS_MULTIPLY_LOW(s, LS__WORDS_HIGH(s))));
        const ls__words multiplier = LS__WORDS_OR(key, odd);
        const ls__words x = LS__WORDS_ADD_HALVES(LS__WORDS_LOAD(bytes + at), key);
        const ls__words y =
            LS__WORDS_ADD(LS__WORDS_MULTIPLY_LOW(x, multiplier), LS__WORDS_AND(x, high_half));
        sum0 = LS__WORDS_ADD(sum0, LS__WORDS_MULTIPLY_LOW(x, LS__WORDS_HIGH(x)));
        sum1 = LS__WORDS_ADD(sum1, LS__WORDS_ADD(LS__WORDS_MULTIPLY_LOW(LS__WORDS_HIGH(y),
                                                                        LS__WORDS_HIGH(multiplier)),
                                                 LS__WORDS_LOW_UP(y)));
        s = LS__WORDS_ADD(s, step);
    }
    LS__WORDS_STORE(sums[0], sum0);
    LS__WORDS_STORE(sums[1], sum1);
    for (int which = 0; which < 2; which++)
        for (int i = 0; i < WORDS; i++) sum->words[which] += sums[which][i];
    return at;
}
#endif

void LS__ISA_NAME(ls__ops_digest)(ls__digest_sum *sum, const void *bytes, size_t size,
                                  uint64_t offset)
{
    size_t done = 0;
#if defined(__AVX2__)
    done = add_vectors(sum, bytes, size, offset / 8);
#endif
    ls__digest_bytes(sum, (const unsigned char *)bytes + done, size - done, offset + done);
}
