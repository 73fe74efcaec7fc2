/* hash.h: 128-bit digests. The hash of a word depends on its position, so words may be added in any
 * order by any thread.
 *
 * Each half of a digest is a sum over 64-bit words modulo 2^64. With k = key(position), lo and hi
 * the halves of (word + k), each modulo 2^32, and ka and kb the halves of k made odd:
 *
 *   half 0 += lo * hi                                    (NH; Black et al., UMAC, CRYPTO '99)
 *   half 1 += y.hi * kb + (y << 32)  where  y = lo * ka + (hi << 32)
 *
 * - One changed word always changes the digest: both steps of half 1 are bijections of the word.
 * - Each word has its own key, so exchanged words, or several changes, do not cancel. With random
 *   keys, half 0 of two given messages is equal with a probability of at most 2^-32, and typically
 *   2^-64; half 1 uses other halves of the keys.
 * - The last step mixes in the size, so messages of different sizes differ.
 *
 * The hash does not resist deliberate collisions. It takes five 32-bit multiplications per word,
 * so its speed is that of memory (cpu/ops/digest.c). */
#ifndef LS_BASE_HASH_H
#define LS_BASE_HASH_H

#include "base/nan_words.h"
#include "base/shared.h"
#include <stddef.h>
#include <stdint.h>

struct ls_digest; /* of lockstep/tensor.h */

typedef struct ls__digest_sum {
    uint64_t words[2];
} ls__digest_sum;

/* splitmix64's finaliser (Steele, Lea, Flood 2014): a bijection that mixes all bits. */
LS__SHARED uint64_t ls__mix64(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* The key of a position: a term of a Weyl sequence (golden ratio, pi) XOR the rotated product of
 * its halves. With the term alone, equidistant changes could cancel. */
#define LS__DIGEST_KEY_STEP  UINT64_C(0x9e3779b97f4a7c15)
#define LS__DIGEST_KEY_START UINT64_C(0x243f6a8885a308d3)

LS__SHARED void ls__digest_word(ls__digest_sum *sum, uint64_t word, uint64_t position)
{
    const uint64_t half = UINT64_C(0xffffffff);
    const uint64_t s = LS__DIGEST_KEY_START + position * LS__DIGEST_KEY_STEP;
    const uint64_t product = (s & half) * (s >> 32);
    const uint64_t key = s ^ (product << 32 | product >> 32);
    const uint64_t lo = (word + key) & half, hi = ((word >> 32) + (key >> 32)) & half;
    sum->words[0] += lo * hi;
    const uint64_t y = lo * ((key | 1) & half) + (hi << 32);
    sum->words[1] += (y >> 32) * (key >> 32 | 1) + (y << 32);
}

/* Adds the bytes at byte offset `offset` (a multiple of 8) of a message as little-endian words. A
 * last word of less than 8 bytes is padded with zeros, so it must be the end of the message. */
void ls__digest_bytes(ls__digest_sum *sum, const void *bytes, size_t size, uint64_t offset);
/* Adds elements as ls__digest_bytes adds bytes, with each NaN replaced by one. */
void ls__digest_elements(ls__digest_sum *sum, const void *elements, size_t size, uint64_t offset,
                         ls__nan_words of);

/* The digest, after all bytes: mixes the size of the message into the sum. */
struct ls_digest ls__digest_finish(const ls__digest_sum *sum, uint64_t size);

/* XXH3 of bytes, for keys and names. */
uint64_t ls__hash(const void *bytes, size_t size, uint64_t seed);

#endif
