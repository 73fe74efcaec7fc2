/* vector.h: vectors of LS__WIDTH floats, for loops that the compiler does not keep in registers.
 * Each float is rounded like a scalar, so every width gives the same bits. In memory, vectors are
 * elements (element.h) or f32.
 *
 * The width is that of the instruction set, or LS__VECTOR_WIDTH where the build defines it. A
 * vector that is twice as wide as the registers is a pair of them: 16 floats with AVX2, so that
 * kernels of 16 are tested on every machine, and 8 floats without AVX2. */
#ifndef LS_CPU_SIMD_VECTOR_H
#define LS_CPU_SIMD_VECTOR_H

#include "cpu/simd/element.h"
#include "cpu/simd/fma.h"
#include "cpu/simd/half.h"
#include <string.h>

#if !defined(LS__VECTOR_WIDTH) && defined(__AVX2__)
/* 8 with AVX-512 too: what has no kernel for vectors of 16 is as fast as the memory. */
#define LS__VECTOR_WIDTH 8
#elif !defined(LS__VECTOR_WIDTH)
#define LS__VECTOR_WIDTH 4
#endif
enum { LS__WIDTH = LS__VECTOR_WIDTH };

#if LS__VECTOR_WIDTH == 16 && defined(__AVX512F__)
#define LS__REGISTER_WIDTH 16
#elif LS__VECTOR_WIDTH >= 8 && defined(__AVX2__)
#define LS__REGISTER_WIDTH 8
#else
#define LS__REGISTER_WIDTH 4
#endif
typedef float ls__register __attribute__((vector_size(LS__REGISTER_WIDTH * 4)));

#if LS__REGISTER_WIDTH == 4
#define ls__register_fma ls__fma_4

LS__ALWAYS_INLINE ls__register ls__register_broadcast(float a)
{
    return (ls__register){ a, a, a, a };
}

LS__ALWAYS_INLINE ls__register ls__register_load_bf16(const uint16_t *from)
{
    ls__register v;
    for (int i = 0; i < LS__REGISTER_WIDTH; i++) v[i] = ls__bf16_to_f32(from[i]);
    return v;
}

LS__ALWAYS_INLINE void ls__register_store_bf16(uint16_t *to, ls__register v)
{
    for (int i = 0; i < LS__REGISTER_WIDTH; i++) to[i] = ls__f32_to_bf16(v[i]);
}
#else
#if LS__REGISTER_WIDTH == 16
#define LS__INTRINSIC(operation, ...) _mm512_##operation##_ps(__VA_ARGS__)
#define ls__register_load_bf16        ls__load_16_bf16
#define ls__register_store_bf16       ls__store_16_bf16
#else
#define LS__INTRINSIC(operation, ...) _mm256_##operation##_ps(__VA_ARGS__)
#define ls__register_load_bf16        ls__load_8_bf16
#define ls__register_store_bf16       ls__store_8_bf16
#endif

LS__ALWAYS_INLINE ls__register ls__register_broadcast(float a)
{
    return LS__INTRINSIC(set1, a);
}

LS__ALWAYS_INLINE ls__register ls__register_fma(ls__register x, ls__register y, ls__register z)
{
    return LS__INTRINSIC(fmadd, x, y, z);
}
#undef LS__INTRINSIC
#endif

#if LS__VECTOR_WIDTH == LS__REGISTER_WIDTH
typedef ls__register ls__vf;
#define LS__MAP(operation, x, y) ((x)operation(y))
#define ls__broadcast            ls__register_broadcast
#define ls__fma                  ls__register_fma
#define ls__load_bf16            ls__register_load_bf16
#define ls__store_bf16           ls__register_store_bf16
#else
typedef struct ls__vf {
    ls__register low, high;
} ls__vf;
#define LS__MAP(operation, x, y)                                                                   \
    (ls__vf)                                                                                       \
    {                                                                                              \
        (x).low operation(y).low, (x).high operation(y).high                                       \
    }

LS__ALWAYS_INLINE ls__vf ls__broadcast(float a)
{
    return (ls__vf){ ls__register_broadcast(a), ls__register_broadcast(a) };
}

/* x y + z, rounded once */
LS__ALWAYS_INLINE ls__vf ls__fma(ls__vf x, ls__vf y, ls__vf z)
{
    return (ls__vf){ ls__register_fma(x.low, y.low, z.low),
                     ls__register_fma(x.high, y.high, z.high) };
}

LS__ALWAYS_INLINE ls__vf ls__load_bf16(const uint16_t *from)
{
    return (ls__vf){ ls__register_load_bf16(from),
                     ls__register_load_bf16(from + LS__REGISTER_WIDTH) };
}

LS__ALWAYS_INLINE void ls__store_bf16(uint16_t *to, ls__vf v)
{
    ls__register_store_bf16(to, v.low);
    ls__register_store_bf16(to + LS__REGISTER_WIDTH, v.high);
}
#endif

LS__ALWAYS_INLINE ls__vf ls__add(ls__vf x, ls__vf y)
{
    return LS__MAP(+, x, y);
}

LS__ALWAYS_INLINE ls__vf ls__sub(ls__vf x, ls__vf y)
{
    return LS__MAP(-, x, y);
}

/* The value at `from`. With AVX2 it is a load that GCC does not version a loop for. */
LS__ALWAYS_INLINE ls__vf ls__broadcast_from(const float *from)
{
#if LS__VECTOR_WIDTH == 8 && LS__REGISTER_WIDTH == 8
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
#if LS__VECTOR_WIDTH == 8 && LS__REGISTER_WIDTH == 8 && !defined(LS__ELEMENT_BF16)
    const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_maskload_ps(from, _mm256_cmpgt_epi32(_mm256_set1_epi32(n), index));
#elif LS__REGISTER_WIDTH == 16 && !defined(LS__ELEMENT_BF16)
    return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), from);
#else
    ls__element all[LS__WIDTH] = { 0 };
    memcpy(all, from, (size_t)n * sizeof *from);
    return ls__load(all);
#endif
}

/* n < LS__WIDTH values of `size` bytes, by halves, not masked: a masked store of AVX2 takes AMD's
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
#if LS__REGISTER_WIDTH == 16 && !defined(LS__ELEMENT_BF16)
    _mm512_mask_storeu_ps(to, (__mmask16)((1u << n) - 1), v);
#else
    ls__element all[LS__WIDTH];
    ls__store(all, v);
    ls__copy_first(to, all, n, sizeof *to);
#endif
}

LS__ALWAYS_INLINE void ls__store_first_f32(float *to, ls__vf v, int n)
{
    if (n == LS__WIDTH)
        ls__store_f32(to, v);
    else
#if LS__REGISTER_WIDTH == 16
        _mm512_mask_storeu_ps(to, (__mmask16)((1u << n) - 1), v);
#else
        ls__copy_first(to, &v, n, sizeof *to);
#endif
}

#endif
