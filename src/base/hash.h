/* hash.h: digests of 128 bits, position-aware and order-free: any thread may add any part.
 *
 * Each of two lanes is a sum over 64-bit words modulo 2^64. With k = key(position) and both halves
 * of x = word + k taken modulo 2^32 (lo, hi; ka, kb are the key's halves made odd):
 *
 *   lane 0 += lo * hi                                    (NH; Black et al., UMAC, CRYPTO '99)
 *   lane 1 += y.hi * kb + (y << 32)  where  y = lo * ka + (hi << 32)
 *
 * - One changed word is seen for sure: both steps of lane 1 are bijections of the word (an odd
 *   factor of one half, the other half added).
 * - Words that change places, and several changes that might make up for each other, meet products
 *   with unlike keys. For random keys two given messages agree in NH's lane with a probability of
 *   at most 2^-32, which only pairs of changes in one half of a word reach, and 2^-64 typically;
 *   lane 1 multiplies the changes by other halves of the keys.
 * - Two messages of different size differ in the last step, which mixes the size in.
 *
 * This is no protection against someone who looks for collisions. It takes five multiplications of
 * 32 by 32 bits per word, so it keeps up with memory (cpu/ops/digest.c). */
#ifndef LS_BASE_HASH_H
#define LS_BASE_HASH_H

#include "base/shared.h"

typedef struct ls__digest_sum {
    uint64_t lanes[2];
} ls__digest_sum;

/* splitmix64's finaliser (Steele, Lea, Flood 2014): a bijection that mixes all bits. */
LS__SHARED uint64_t ls__mix64(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* The key of a position: a Weyl sequence, from the golden ratio and pi, whose halves' product is
 * folded over it, since a plain sequence would let equidistant changes make up for each other. */
#define LS__DIGEST_KEY_STEP  UINT64_C(0x9e3779b97f4a7c15)
#define LS__DIGEST_KEY_START UINT64_C(0x243f6a8885a308d3)

LS__SHARED void ls__digest_word(ls__digest_sum *sum, uint64_t word, uint64_t position)
{
    const uint64_t half = UINT64_C(0xffffffff);
    const uint64_t s = LS__DIGEST_KEY_START + position * LS__DIGEST_KEY_STEP;
    const uint64_t product = (s & half) * (s >> 32);
    const uint64_t key = s ^ (product << 32 | product >> 32);
    const uint64_t lo = (word + key) & half, hi = ((word >> 32) + (key >> 32)) & half;
    sum->lanes[0] += lo * hi;
    const uint64_t y = lo * ((key | 1) & half) + (hi << 32);
    sum->lanes[1] += (y >> 32) * (key >> 32 | 1) + (y << 32);
}

/* Adds bytes that stand at byte offset `offset` (a multiple of 8) of the whole, as little-endian
 * words; a rest of under 8 bytes is padded with zeros, so it must be the whole's end. */
void ls__digest_bytes(ls__digest_sum *sum, const void *bytes, size_t size, uint64_t offset);

/* The last step, once all parts are in: mixes the whole's size in. */
void ls__digest_finish(ls__digest_sum *sum, uint64_t size);

/* XXH3 of bytes, for keys and names. */
uint64_t ls__hash(const void *bytes, size_t size, uint64_t seed);

#endif
