/* narrow.h: f32 values rounded to fewer bits, as tensor cores read them. */
#ifndef LS_TEST_EMULATED_NARROW_H
#define LS_TEST_EMULATED_NARROW_H

#include "arith/half.h"

/* Rounds to the nearest value with this number of bits of mantissa, ties to even; 23 leaves it
 * unchanged. */
static inline float emulated_round(float value, int mantissa_bits)
{
    const uint32_t bits = ls__float_bits(value);
    if (mantissa_bits >= 23 || (bits & 0x7f800000u) == 0x7f800000u) return value;
    const uint32_t dropped = 23u - (uint32_t)mantissa_bits;
    const uint32_t rounded = bits + ((1u << (dropped - 1)) - 1) + (bits >> dropped & 1u);
    return ls__bits_float(rounded >> dropped << dropped);
}

#endif
