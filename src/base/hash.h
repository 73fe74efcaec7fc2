/* hash.h: digests. Position-aware and order-free: any thread may add any part. Each of two 64-bit
 * lanes is the sum over 64-bit words of mix(word, position) modulo 2^64. */
#ifndef LS_BASE_HASH_H
#define LS_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

typedef struct ls__digest_sum {
    uint64_t lanes[2];
} ls__digest_sum;

/* splitmix64's finaliser (Steele, Lea, Flood 2014): a bijection that mixes all bits. */
static inline uint64_t ls__mix64(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static inline void ls__digest_word(ls__digest_sum *sum, uint64_t word, uint64_t position)
{
    const uint64_t a =
        ls__mix64(word ^ (position * UINT64_C(0x9e3779b97f4a7c15) + UINT64_C(0x243f6a8885a308d3)));
    sum->lanes[0] += a;
    sum->lanes[1] += ls__mix64(a ^ UINT64_C(0x13198a2e03707344));
}

/* Adds bytes that stand at byte offset `offset` (a multiple of 8) of the whole; a rest of under 8
 * bytes is padded with zeros, so it must be the whole's end. */
void ls__digest_bytes(ls__digest_sum *sum, const void *bytes, size_t size, uint64_t offset);

/* XXH3 of bytes, for keys and names. */
uint64_t ls__hash(const void *bytes, size_t size, uint64_t seed);

#endif
