/* vector.h: vectors of the compiler's own kind (GCC and clang), for loops that the auto-vectoriser
 * does not keep in registers. Lane by lane the operations are those of scalars: same bits. */
#ifndef LS_CPU_NATIVE_VECTOR_H
#define LS_CPU_NATIVE_VECTOR_H

#include "cpu/native/native.h"
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__AVX2__)
enum {
    LS__LANES = 8
}; /* AVX-512 machines too: half the work per instruction, but blocks of 8 fit */
#else
enum { LS__LANES = 4 };
#endif
enum { LS__HALF_LANES = LS__LANES / 2 };

typedef float ls__vf __attribute__((vector_size(LS__LANES * 4)));
typedef int32_t ls__vi __attribute__((vector_size(LS__LANES * 4)));
typedef uint8_t ls__vb __attribute__((vector_size(LS__LANES)));
typedef float ls__vh __attribute__((vector_size(LS__HALF_LANES * 4)));
typedef double ls__vd __attribute__((vector_size(LS__HALF_LANES * 8)));

LS__ALWAYS_INLINE ls__vf ls__load(const float *from)
{
    ls__vf v;
    memcpy(&v, from, sizeof v);
    return v;
}

LS__ALWAYS_INLINE void ls__store(float *to, ls__vf v)
{
    memcpy(to, &v, sizeof v);
}

/* LS__HALF_LANES floats as doubles, and back with rounding. */
LS__ALWAYS_INLINE ls__vd ls__load_double(const float *from)
{
    ls__vh v;
    memcpy(&v, from, sizeof v);
    return __builtin_convertvector(v, ls__vd);
}

LS__ALWAYS_INLINE void ls__store_double(float *to, ls__vd v)
{
    const ls__vh rounded = __builtin_convertvector(v, ls__vh);
    memcpy(to, &rounded, sizeof rounded);
}

/* Bytes as 32-bit lanes, and back (lanes of 0 to 255). GCC 12 converts element by element where the
 * instruction is not named. */
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

/* a where mask's lanes are all ones, b where they are zero */
LS__ALWAYS_INLINE ls__vf ls__select(ls__vi mask, ls__vf a, ls__vf b)
{
    return (ls__vf)((mask & (ls__vi)a) | (~mask & (ls__vi)b));
}

#endif
