/* mixed.h: vectors of bytes, 32-bit integers and doubles. */
#ifndef LS_CPU_SIMD_MIXED_H
#define LS_CPU_SIMD_MIXED_H

#include "cpu/simd/vector.h"

enum { LS__HALF_WIDTH = LS__WIDTH / 2 };

typedef int32_t ls__vi __attribute__((vector_size(LS__WIDTH * 4)));
typedef uint8_t ls__vb __attribute__((vector_size(LS__WIDTH)));
typedef float ls__vh __attribute__((vector_size(LS__HALF_WIDTH * 4)));
typedef double ls__vd __attribute__((vector_size(LS__HALF_WIDTH * 8)));

/* LS__HALF_WIDTH elements as doubles, and back with rounding: to f32, then to the element. */
LS__ALWAYS_INLINE ls__vd ls__load_double(const ls__element *from)
{
    ls__vh v;
    for (int i = 0; i < LS__HALF_WIDTH; i++) v[i] = ls__get(from[i]);
    return __builtin_convertvector(v, ls__vd);
}

LS__ALWAYS_INLINE void ls__store_double(ls__element *to, ls__vd v)
{
    const ls__vh rounded = __builtin_convertvector(v, ls__vh);
    for (int i = 0; i < LS__HALF_WIDTH; i++) to[i] = ls__put(rounded[i]);
}

/* Bytes as 32-bit integers, and back (values of 0 to 255). GCC 12 converts single elements unless
 * the instruction is given. */
LS__ALWAYS_INLINE ls__vi ls__load_bytes(const uint8_t *from)
{
#if defined(__AVX2__)
    return (ls__vi)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)from));
#else
    ls__vb bytes;
    memcpy(&bytes, from, sizeof bytes);
    return __builtin_convertvector(bytes, ls__vi);
#endif
}

LS__ALWAYS_INLINE void ls__store_bytes(uint8_t *to, ls__vi v)
{
#if defined(__AVX2__)
    const __m128i low = _mm256_castsi256_si128((__m256i)v);
    const __m128i words = _mm_packs_epi32(low, _mm256_extracti128_si256((__m256i)v, 1));
    _mm_storel_epi64((void *)to, _mm_packus_epi16(words, words));
#else
    const ls__vb bytes = __builtin_convertvector(v, ls__vb);
    memcpy(to, &bytes, sizeof bytes);
#endif
}

/* Loads only the first n bytes, 1 <= n <= LS__WIDTH. They are combined in a register, because a
 * load would wait for their stores. */
LS__ALWAYS_INLINE ls__vi ls__load_first_bytes(const uint8_t *from, int n)
{
    if (n == LS__WIDTH) return ls__load_bytes(from);
    uint64_t bytes = 0;
    for (int i = n - 1; i >= 0; i--) bytes = bytes << 8 | from[i];
    uint8_t all[sizeof bytes];
    memcpy(all, &bytes, sizeof bytes);
    return ls__load_bytes(all);
}

LS__ALWAYS_INLINE void ls__store_first_bytes(uint8_t *to, ls__vi v, int n)
{
    if (n == LS__WIDTH) {
        ls__store_bytes(to, v);
        return;
    }
    uint8_t all[sizeof(uint64_t)] = { 0 };
    ls__store_bytes(all, v);
    uint64_t bytes;
    memcpy(&bytes, all, sizeof bytes);
    for (int i = 0; i < n; i++, bytes >>= 8) to[i] = (uint8_t)bytes;
}

/* a where mask has all bits set, b where it is 0 */
LS__ALWAYS_INLINE ls__vf ls__select(ls__vi mask, ls__vf a, ls__vf b)
{
    return (ls__vf)((mask & (ls__vi)a) | (~mask & (ls__vi)b));
}

#endif
