/* vector.h: LS__GEMM_LANES floats as one value: a register of AVX2 (8) or AVX-512 (16), or, where
 * the 16-wide kernels are built for AVX2, a pair of registers, so that they can be tested without
 * an AVX-512 machine. Lane by lane all three round alike. */
#ifndef LS_CPU_CONV_IMPLICIT_GEMM_VECTOR_H
#define LS_CPU_CONV_IMPLICIT_GEMM_VECTOR_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define LS__ALWAYS_INLINE static inline __attribute__((always_inline))

enum { LANES = LS__GEMM_LANES };

#if LS__GEMM_LANES == 8
typedef __m256 vec;
#define MAP_2(operation, a, b)    _mm256_##operation##_ps(a, b)
#define MAP_3(operation, a, b, c) _mm256_##operation##_ps(a, b, c)

LS__ALWAYS_INLINE vec all(float a)
{
    return _mm256_set1_ps(a);
}

LS__ALWAYS_INLINE vec load(const float *from)
{
    return _mm256_loadu_ps(from);
}

LS__ALWAYS_INLINE void store(float *to, vec v)
{
    _mm256_storeu_ps(to, v);
}
#elif defined(__AVX512F__)
typedef __m512 vec;
#define MAP_2(operation, a, b)    _mm512_##operation##_ps(a, b)
#define MAP_3(operation, a, b, c) _mm512_##operation##_ps(a, b, c)

LS__ALWAYS_INLINE vec all(float a)
{
    return _mm512_set1_ps(a);
}

LS__ALWAYS_INLINE vec load(const float *from)
{
    return _mm512_loadu_ps(from);
}

LS__ALWAYS_INLINE void store(float *to, vec v)
{
    _mm512_storeu_ps(to, v);
}
#else
typedef struct vec {
    __m256 low, high;
} vec;
#define MAP_2(operation, a, b)                                                                     \
    (vec)                                                                                          \
    {                                                                                              \
        _mm256_##operation##_ps((a).low, (b).low), _mm256_##operation##_ps((a).high, (b).high)     \
    }
#define MAP_3(operation, a, b, c)                                                                  \
    (vec)                                                                                          \
    {                                                                                              \
        _mm256_##operation##_ps((a).low, (b).low, (c).low),                                        \
            _mm256_##operation##_ps((a).high, (b).high, (c).high)                                  \
    }

LS__ALWAYS_INLINE vec all(float a)
{
    return (vec){ _mm256_set1_ps(a), _mm256_set1_ps(a) };
}

LS__ALWAYS_INLINE vec load(const float *from)
{
    return (vec){ _mm256_loadu_ps(from), _mm256_loadu_ps(from + 8) };
}

LS__ALWAYS_INLINE void store(float *to, vec v)
{
    _mm256_storeu_ps(to, v.low);
    _mm256_storeu_ps(to + 8, v.high);
}
#endif

LS__ALWAYS_INLINE vec add(vec x, vec y)
{
    return MAP_2(add, x, y);
}

LS__ALWAYS_INLINE vec sub(vec x, vec y)
{
    return MAP_2(sub, x, y);
}

/* a x */
LS__ALWAYS_INLINE vec times(float a, vec x)
{
    return MAP_2(mul, all(a), x);
}

/* x y + z, rounded once */
LS__ALWAYS_INLINE vec fused(vec x, vec y, vec z)
{
    return MAP_3(fmadd, x, y, z);
}

/* a x + y, rounded once */
LS__ALWAYS_INLINE vec times_add(float a, vec x, vec y)
{
    return fused(all(a), x, y);
}

/* The first n lanes, at most all of them. */
LS__ALWAYS_INLINE void store_part(float *to, vec v, int64_t n)
{
    if (n >= LANES) {
        store(to, v);
        return;
    }
    float lanes[LANES];
    store(lanes, v);
    memcpy(to, lanes, (size_t)n * sizeof(float));
}

/* Eight rows of eight floats become columns. */
static inline void transpose_8x8(const float *from, int64_t from_stride, float *to,
                                 int64_t to_stride)
{
    __m256 r[8], a[8], b[8];
    for (int i = 0; i < 8; i++) r[i] = _mm256_loadu_ps(from + i * from_stride);
    for (int i = 0; i < 4; i++) {
        a[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        a[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        b[4 * i] = _mm256_shuffle_ps(a[4 * i], a[4 * i + 2], 0x44);
        b[4 * i + 1] = _mm256_shuffle_ps(a[4 * i], a[4 * i + 2], 0xee);
        b[4 * i + 2] = _mm256_shuffle_ps(a[4 * i + 1], a[4 * i + 3], 0x44);
        b[4 * i + 3] = _mm256_shuffle_ps(a[4 * i + 1], a[4 * i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(to + i * to_stride, _mm256_permute2f128_ps(b[i], b[i + 4], 0x20));
        _mm256_storeu_ps(to + (i + 4) * to_stride, _mm256_permute2f128_ps(b[i], b[i + 4], 0x31));
    }
}

#endif
