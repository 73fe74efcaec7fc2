/* vector.h: vectors of LS__WIDTH floats, for loops that the compiler does not keep in registers.
 * Each float is rounded like a scalar, so every width gives the same bits. In memory, vectors are
 * elements (element.h) or f32.
 *
 * The width is that of the instruction set, or LS__VECTOR_WIDTH where the build defines it. A width
 * of 16 without AVX-512 is a pair of AVX2 registers, so that kernels of 16 are tested on every
 * machine. */
#ifndef LS_CPU_SIMD_VECTOR_H
#define LS_CPU_SIMD_VECTOR_H

#include "cpu/simd/element.h"
#include "cpu/simd/half.h"
#include <string.h>

#if !defined(LS__VECTOR_WIDTH) && defined(__AVX2__)
/* 8 with AVX-512 too: an instruction does half the work, but blocks of 8 channels fit. */
#define LS__VECTOR_WIDTH 8
#elif !defined(LS__VECTOR_WIDTH)
#define LS__VECTOR_WIDTH 4
#endif
enum { LS__WIDTH = LS__VECTOR_WIDTH };

#if LS__VECTOR_WIDTH == 16 && !defined(__AVX512F__)
typedef struct ls__vf {
    __m256 low, high;
} ls__vf;
#define LS__MAP(operation, x, y)                                                                   \
    (ls__vf)                                                                                       \
    {                                                                                              \
        (x).low operation(y).low, (x).high operation(y).high                                       \
    }

LS__ALWAYS_INLINE ls__vf ls__broadcast(float a)
{
    return (ls__vf){ _mm256_set1_ps(a), _mm256_set1_ps(a) };
}

/* x y + z, rounded once */
LS__ALWAYS_INLINE ls__vf ls__fma(ls__vf x, ls__vf y, ls__vf z)
{
    return (ls__vf){ _mm256_fmadd_ps(x.low, y.low, z.low),
                     _mm256_fmadd_ps(x.high, y.high, z.high) };
}

LS__ALWAYS_INLINE ls__vf ls__load_bf16(const uint16_t *from)
{
    return (ls__vf){ ls__load_8_bf16(from), ls__load_8_bf16(from + 8) };
}

LS__ALWAYS_INLINE void ls__store_bf16(uint16_t *to, ls__vf v)
{
    ls__store_8_bf16(to, v.low);
    ls__store_8_bf16(to + 8, v.high);
}
#else
typedef float ls__vf __attribute__((vector_size(LS__VECTOR_WIDTH * 4)));
#define LS__MAP(operation, x, y) ((x)operation(y))

#if LS__VECTOR_WIDTH == 16
#define LS__INTRINSIC(operation, ...) _mm512_##operation##_ps(__VA_ARGS__)
#define ls__load_bf16                 ls__load_16_bf16
#define ls__store_bf16                ls__store_16_bf16
#elif LS__VECTOR_WIDTH == 8
#define LS__INTRINSIC(operation, ...) _mm256_##operation##_ps(__VA_ARGS__)
#define ls__load_bf16                 ls__load_8_bf16
#define ls__store_bf16                ls__store_8_bf16
#endif

#if defined(LS__INTRINSIC)
LS__ALWAYS_INLINE ls__vf ls__broadcast(float a)
{
    return LS__INTRINSIC(set1, a);
}

#if defined(__FMA__)
/* x y + z, rounded once */
LS__ALWAYS_INLINE ls__vf ls__fma(ls__vf x, ls__vf y, ls__vf z)
{
    return LS__INTRINSIC(fmadd, x, y, z);
}
#endif
#else
LS__ALWAYS_INLINE ls__vf ls__load_bf16(const uint16_t *from)
{
    ls__vf v;
    for (int i = 0; i < LS__WIDTH; i++) v[i] = ls__bf16_to_f32(from[i]);
    return v;
}

LS__ALWAYS_INLINE void ls__store_bf16(uint16_t *to, ls__vf v)
{
    for (int i = 0; i < LS__WIDTH; i++) to[i] = ls__f32_to_bf16(v[i]);
}
#endif
#endif

LS__ALWAYS_INLINE ls__vf ls__add(ls__vf x, ls__vf y)
{
    return LS__MAP(+, x, y);
}

LS__ALWAYS_INLINE ls__vf ls__sub(ls__vf x, ls__vf y)
{
    return LS__MAP(-, x, y);
}

#if defined(__FMA__)
/* The value at `from`. With 8 floats it is a load that GCC does not version a loop for. */
LS__ALWAYS_INLINE ls__vf ls__broadcast_from(const float *from)
{
#if LS__VECTOR_WIDTH == 8
    return _mm256_broadcast_ss(from);
#else
    return ls__broadcast(*from);
#endif
}

/* a x */
LS__ALWAYS_INLINE ls__vf ls__scale(float a, ls__vf x)
{
    return LS__MAP(*, ls__broadcast(a), x);
}

/* a x + y, rounded once */
LS__ALWAYS_INLINE ls__vf ls__scale_add(float a, ls__vf x, ls__vf y)
{
    return ls__fma(ls__broadcast(a), x, y);
}
#endif

LS__ALWAYS_INLINE ls__vf ls__load_f32(const float *from)
{
    ls__vf v;
    memcpy(&v, from, sizeof v);
    return v;
}

LS__ALWAYS_INLINE void ls__store_f32(float *to, ls__vf v)
{
    memcpy(to, &v, sizeof v);
}

#if defined(LS__ELEMENT_BF16)
#define ls__load  ls__load_bf16
#define ls__store ls__store_bf16
#else
#define ls__load  ls__load_f32
#define ls__store ls__store_f32
#endif

/* The first n elements, 1 <= n <= LS__WIDTH, the others 0; nothing beyond them is read. */
LS__ALWAYS_INLINE ls__vf ls__load_first(const ls__element *from, int n)
{
    if (n == LS__WIDTH) return ls__load(from);
#if LS__VECTOR_WIDTH == 8 && !defined(LS__ELEMENT_BF16)
    const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_maskload_ps(from, _mm256_cmpgt_epi32(_mm256_set1_epi32(n), index));
#else
    ls__element all[LS__WIDTH] = { 0 };
    memcpy(all, from, (size_t)n * sizeof *from);
    return ls__load(all);
#endif
}

/* n < LS__WIDTH values of `size` bytes, by halves, not masked: a masked store takes AMD's
 * processors dozens of cycles. */
LS__ALWAYS_INLINE void ls__copy_first(void *to, const void *from, int n, size_t size)
{
    size_t at = 0;
#define LS__COPY(count)                                                                            \
    if (LS__WIDTH > (count) && (n & (count))) {                                                    \
        memcpy((char *)to + at, (const char *)from + at, (count)*size);                            \
        at += (count)*size;                                                                        \
    }
    LS__COPY(8)
    LS__COPY(4)
    LS__COPY(2)
    if (n & 1) memcpy((char *)to + at, (const char *)from + at, size);
#undef LS__COPY
}

/* The first n values, 1 <= n <= LS__WIDTH; nothing beyond them is written. */
LS__ALWAYS_INLINE void ls__store_first(ls__element *to, ls__vf v, int n)
{
    if (n == LS__WIDTH) {
        ls__store(to, v);
        return;
    }
    ls__element all[LS__WIDTH];
    ls__store(all, v);
    ls__copy_first(to, all, n, sizeof *to);
}

LS__ALWAYS_INLINE void ls__store_first_f32(float *to, ls__vf v, int n)
{
    if (n == LS__WIDTH)
        ls__store_f32(to, v);
    else
        ls__copy_first(to, &v, n, sizeof *to);
}

#endif
