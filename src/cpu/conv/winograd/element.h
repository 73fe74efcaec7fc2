/* element.h: the type of activations, weights and bias in memory: f32, or with LS__WINO_BF16
 * defined bf16. Vectors are f32 always. */
#ifndef LS_CPU_CONV_WINOGRAD_ELEMENT_H
#define LS_CPU_CONV_WINOGRAD_ELEMENT_H

#include "cpu/conv/implicit_gemm/vector.h"

#if defined(LS__WINO_BF16)
#include "cpu/bf16.h"

typedef uint16_t element;

#if LS__GEMM_LANES == 8
LS__ALWAYS_INLINE vec get(const element *from)
{
    return ls__load_bf16(from);
}

LS__ALWAYS_INLINE void put(element *to, vec v)
{
    ls__store_bf16(to, v);
}
#elif defined(__AVX512F__)
LS__ALWAYS_INLINE vec get(const element *from)
{
    return ls__load_16_bf16(from);
}

LS__ALWAYS_INLINE void put(element *to, vec v)
{
    ls__store_16_bf16(to, v);
}
#else
LS__ALWAYS_INLINE vec get(const element *from)
{
    return (vec){ ls__load_bf16(from), ls__load_bf16(from + 8) };
}

LS__ALWAYS_INLINE void put(element *to, vec v)
{
    ls__store_bf16(to, v.low);
    ls__store_bf16(to + 8, v.high);
}
#endif
#else
typedef float element;

LS__ALWAYS_INLINE vec get(const element *from)
{
    return load(from);
}

LS__ALWAYS_INLINE void put(element *to, vec v)
{
    store(to, v);
}
#endif

/* The first n lanes (at most all of them), the others 0; and such a store. */
LS__ALWAYS_INLINE vec get_part(const element *from, int64_t n)
{
    if (n >= LANES) return get(from);
    element lanes[LANES] = { 0 };
    memcpy(lanes, from, (size_t)n * sizeof *from);
    return get(lanes);
}

LS__ALWAYS_INLINE void put_part(element *to, vec v, int64_t n)
{
    if (n >= LANES) {
        put(to, v);
        return;
    }
    element lanes[LANES];
    put(lanes, v);
    memcpy(to, lanes, (size_t)n * sizeof *to);
}

#endif
