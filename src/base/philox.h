/* philox.h: Philox4x32-10 (Salmon et al., SC'11) and the counters of draws, for CPU and GPU
 * kernels. */
#ifndef LS_BASE_PHILOX_H
#define LS_BASE_PHILOX_H

#include "base/hash.h"
#include "base/strict_math.h"
#include <lockstep/random.h>

/* Philox's input for a draw of sample 0. The sample is in the lowest bits of the counter, so that
 * of sample s is (low + s, high). */
typedef struct ls__philox_input {
    uint64_t low, high; /* counter: words 0, 1 and 2, 3 */
    uint32_t key[2];
} ls__philox_input;

LS__SHARED void ls__philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        /* multipliers and Weyl constants: the paper's table 2 and section 3.2 */
        const uint64_t a = (uint64_t)0xD2511F53u * c0;
        const uint64_t b = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

LS__SHARED uint64_t ls__low_bits(uint64_t value, int n_bits)
{
    return value & ((UINT64_C(1) << n_bits) - 1);
}

LS__SHARED ls__philox_input ls__random_input(uint64_t seed, const ls_draw *draw)
{
    /* a bijection of the seed that removes patterns between neighbouring seeds; with the constant
     * (digits of pi), seed 0 does not become key 0 */
    const uint64_t mixed = ls__mix64(seed ^ UINT64_C(0x243f6a8885a308d3));
    /* 40 + 8 + 16 and 36 + 20 + 8 bits: each draw has its own counter */
    ls__philox_input input;
    input.low = ls__low_bits(draw->sample, 40) | ls__low_bits(draw->block, 8) << 40 |
                ls__low_bits(draw->layer, 16) << 48;
    input.high = ls__low_bits(draw->step, 36) | ls__low_bits(draw->epoch, 20) << 36 |
                 ls__low_bits((uint64_t)draw->stream, 8) << 56;
    input.key[0] = (uint32_t)mixed;
    input.key[1] = (uint32_t)(mixed >> 32);
    return input;
}

/* The four words of a draw. */
LS__SHARED void ls__philox_sample(const ls__philox_input *input, uint64_t sample, uint32_t out[4])
{
    const uint64_t low = input->low + sample;
    const uint32_t counter[4] = { (uint32_t)low, (uint32_t)(low >> 32), (uint32_t)input->high,
                                  (uint32_t)(input->high >> 32) };
    ls__philox4x32(counter, input->key, out);
}

/* A word as a float in [0,1). */
LS__SHARED float ls__word_uniform(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

#endif
