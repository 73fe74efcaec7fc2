/* element.h: elements of f32, bf16 or f16 memory. */
#ifndef LS_TEST_ELEMENT_H
#define LS_TEST_ELEMENT_H

#include "arith/half.h"
#include <lockstep/tensor.h>

static inline float load_element(ls_dtype dtype, const void *memory, int64_t i)
{
    if (dtype == LS_F32) return ((const float *)memory)[i];
    const uint16_t bits = ((const uint16_t *)memory)[i];
    return dtype == LS_BF16 ? ls__bf16_to_f32(bits) : ls__f16_to_f32(bits);
}

static inline void store_element(ls_dtype dtype, void *memory, int64_t i, float value)
{
    if (dtype == LS_F32)
        ((float *)memory)[i] = value;
    else
        ((uint16_t *)memory)[i] = dtype == LS_BF16 ? ls__f32_to_bf16(value) : ls__f32_to_f16(value);
}

#endif
