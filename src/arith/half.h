/* half.h: conversion of bf16 and f16 (IEEE 754 binary16) to and from f32 by integer operations,
 * rounded to nearest even. A NaN becomes a NaN of the same sign. */
#ifndef LS_ARITH_HALF_H
#define LS_ARITH_HALF_H

#include "base/shared.h"

LS__SHARED uint32_t ls__float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

LS__SHARED float ls__bits_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

LS__SHARED float ls__bf16_to_f32(uint16_t bits)
{
    return ls__bits_float((uint32_t)bits << 16);
}

LS__SHARED uint16_t ls__f32_to_bf16(float value)
{
    const uint32_t bits = ls__float_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u); /* quiet NaN */
    /* adds 0x7fff, or 0x8000 if the upper half is odd; a carry correctly increases the exponent, up
     * to infinity */
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

LS__SHARED float ls__f16_to_f32(uint16_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
    const uint32_t magnitude = bits & 0x7fffu;
    if (magnitude > 0x7c00u) /* quiet NaN, like the processor's instructions */
        return ls__bits_float(sign | 0x7fc00000u | (magnitude & 0x3ffu) << 13);
    if (magnitude == 0x7c00u) return ls__bits_float(sign | 0x7f800000u);
    if (magnitude >= 0x400u)
        return ls__bits_float(sign | ((magnitude << 13) + ((127u - 15u) << 23)));
    const float subnormal = (float)magnitude * 0x1p-24f; /* exact */
    return sign ? -subnormal : subnormal;
}

LS__SHARED uint16_t ls__f32_to_f16(float value)
{
    const uint32_t bits = ls__float_bits(value);
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x1ffu)); /* quiet NaN */
    }
    if (magnitude >= 0x477ff000u) return sign | 0x7c00u; /* from 65520 on: infinity */
    if (magnitude >= 0x38800000u) {                      /* from 2^-14 on: normal */
        const uint32_t rebased = magnitude - ((127u - 15u) << 23);
        return (uint16_t)(sign | (rebased + 0xfffu + (rebased >> 13 & 1u)) >> 13);
    }
    if (magnitude < 0x33000000u) return sign; /* below 2^-25: zero */
    /* subnormal: the mantissa, with its leading one, in units of 2^-24 */
    const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    const uint32_t shift = 126u - (magnitude >> 23); /* 14 to 24 */
    const uint32_t half = 1u << (shift - 1);
    const uint32_t kept = mantissa >> shift, rest = mantissa & ((1u << shift) - 1);
    return (uint16_t)(sign | (kept + (rest > half || (rest == half && (kept & 1u)))));
}

enum { LS__BF16_INFINITY = 0x7f80, LS__F16_INFINITY = 0x7c00 };

/* The next larger number of the type with this infinity; infinity and NaN are unchanged. */
LS__SHARED uint16_t ls__next_half(uint16_t bits, uint16_t infinity)
{
    const uint16_t magnitude = bits & 0x7fffu;
    if (magnitude > infinity || bits == infinity) return bits;
    if (magnitude == 0) return 1;
    return (uint16_t)(bits & 0x8000u ? bits - 1 : bits + 1);
}

#endif
