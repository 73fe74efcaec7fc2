/* vector.h: vectors of the compiler's own kind (GCC and clang), for loops that the auto-vectoriser
 * does not keep in registers. Lane by lane the operations are those of scalars: same bits. Vectors
 * are f32, in memory they are elements. */
#ifndef LS_CPU_OPS_VECTOR_H
#define LS_CPU_OPS_VECTOR_H

#include "cpu/ops/element.h"
#if defined(__AVX2__)
#include "cpu/bf16.h"
#endif

#if defined(__AVX2__)
/* AVX-512 machines too: half the work per instruction, but blocks of 8 fit. */
enum { LS__LANES = 8 };
#else
enum { LS__LANES = 4 };
#endif
enum { LS__HALF_LANES = LS__LANES / 2 };

typedef float ls__vf __attribute__((vector_size(LS__LANES * 4)));
typedef int32_t ls__vi __attribute__((vector_size(LS__LANES * 4)));
typedef uint8_t ls__vb __attribute__((vector_size(LS__LANES)));
typedef float ls__vh __attribute__((vector_size(LS__HALF_LANES * 4)));
typedef double ls__vd __attribute__((vector_size(LS__HALF_LANES * 8)));

#if defined(LS__ELEMENT_BF16) && defined(__AVX2__)
LS__ALWAYS_INLINE ls__vf ls__load(const ls__element *from)
{
    return ls__load_bf16(from);
}

LS__ALWAYS_INLINE void ls__store(ls__element *to, ls__vf v)
{
    ls__store_bf16(to, v);
}
#elif defined(LS__ELEMENT_BF16)
LS__ALWAYS_INLINE ls__vf ls__load(const ls__element *from)
{
    ls__vf v;
    for (int i = 0; i < LS__LANES; i++) v[i] = ls__get(from[i]);
    return v;
}

LS__ALWAYS_INLINE void ls__store(ls__element *to, ls__vf v)
{
    for (int i = 0; i < LS__LANES; i++) to[i] = ls__put(v[i]);
}
#else
LS__ALWAYS_INLINE ls__vf ls__load(const ls__element *from)
{
    ls__vf v;
    memcpy(&v, from, sizeof v);
    return v;
}

LS__ALWAYS_INLINE void ls__store(ls__element *to, ls__vf v)
{
    memcpy(to, &v, sizeof v);
}
#endif

/* The first n lanes alone, 1 <= n <= LS__LANES; nothing beyond them is read or written, and loaded
 * lanes beyond them are 0. */
LS__ALWAYS_INLINE ls__vf ls__load_first(const ls__element *from, int n)
{
    if (n == LS__LANES) return ls__load(from);
#if defined(__AVX2__) && !defined(LS__ELEMENT_BF16)
    const ls__vi lane = { 0, 1, 2, 3, 4, 5, 6, 7 };
    return _mm256_maskload_ps(from, (__m256i)(lane < n));
#else
    ls__element all[LS__LANES] = { 0 };
    memcpy(all, from, (size_t)n * sizeof *from);
    return ls__load(all);
#endif
}

/* By halves, not masked: a masked store takes AMD's processors dozens of cycles. */
LS__ALWAYS_INLINE void ls__store_first(ls__element *to, ls__vf v, int n)
{
    if (n == LS__LANES) {
        ls__store(to, v);
        return;
    }
    ls__element all[LS__LANES];
    ls__store(all, v);
    int at = 0;
#if defined(__AVX2__)
    if (n & 4) {
        memcpy(to, all, 4 * sizeof *to);
        at = 4;
    }
#endif
    if (n & 2) {
        memcpy(to + at, all + at, 2 * sizeof *to);
        at += 2;
    }
    if (n & 1) to[at] = all[at];
}

/* LS__HALF_LANES elements as doubles, and back with rounding: to f32, then to the element. */
LS__ALWAYS_INLINE ls__vd ls__load_double(const ls__element *from)
{
    ls__vh v;
    for (int i = 0; i < LS__HALF_LANES; i++) v[i] = ls__get(from[i]);
    return __builtin_convertvector(v, ls__vd);
}

LS__ALWAYS_INLINE void ls__store_double(ls__element *to, ls__vd v)
{
    const ls__vh rounded = __builtin_convertvector(v, ls__vh);
    for (int i = 0; i < LS__HALF_LANES; i++) to[i] = ls__put(rounded[i]);
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

/* The same of the first n lanes alone, 1 <= n <= LS__LANES; through a register, not memory, which
 * would wait for the parts to be stored. */
LS__ALWAYS_INLINE ls__vi ls__load_first_bytes(const uint8_t *from, int n)
{
    if (n == LS__LANES) return ls__load_bytes(from);
    uint64_t bytes = 0;
    for (int i = n - 1; i >= 0; i--) bytes = bytes << 8 | from[i];
    uint8_t all[sizeof bytes];
    memcpy(all, &bytes, sizeof bytes);
    return ls__load_bytes(all);
}

LS__ALWAYS_INLINE void ls__store_first_bytes(uint8_t *to, ls__vi v, int n)
{
    if (n == LS__LANES) {
        ls__store_bytes(to, v);
        return;
    }
    uint8_t all[sizeof(uint64_t)] = { 0 };
    ls__store_bytes(all, v);
    uint64_t bytes;
    memcpy(&bytes, all, sizeof bytes);
    for (int i = 0; i < n; i++, bytes >>= 8) to[i] = (uint8_t)bytes;
}

/* a where mask's lanes are all ones, b where they are zero */
LS__ALWAYS_INLINE ls__vf ls__select(ls__vi mask, ls__vf a, ls__vf b)
{
    return (ls__vf)((mask & (ls__vi)a) | (~mask & (ls__vi)b));
}

#endif
