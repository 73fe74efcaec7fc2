/* element.h: the type of activations in memory. A file that includes it is compiled once per type:
 * f32, and with LS__ELEMENT_BF16 defined bf16. Arithmetic is f32 in both; a bf16 result is rounded
 * once, when it is stored. */
#ifndef LS_CPU_SIMD_ELEMENT_H
#define LS_CPU_SIMD_ELEMENT_H

#include "arith/half.h"
#include "cpu/simd/compiler.h"

#if defined(LS__ELEMENT_BF16)
#define LS__ELEMENT_NAME(name) LS__ISA_NAME(LS__PASTE(name, _bf16))
typedef uint16_t ls__element;
static const ls_dtype ls__element_type = LS_BF16;

LS__ALWAYS_INLINE float ls__get(ls__element value)
{
    return ls__bf16_to_f32(value);
}

LS__ALWAYS_INLINE ls__element ls__put(float value)
{
    return ls__f32_to_bf16(value);
}
#else
#define LS__ELEMENT_NAME(name) LS__ISA_NAME(name)
typedef float ls__element;
static const ls_dtype ls__element_type = LS_F32;

LS__ALWAYS_INLINE float ls__get(ls__element value)
{
    return value;
}

LS__ALWAYS_INLINE ls__element ls__put(float value)
{
    return value;
}
#endif

#endif
