/* wide.h: LS__WIDTH doubles, for sums of the floats of a vector. Each double is rounded like a
 * scalar. */
#ifndef LS_CPU_SIMD_WIDE_H
#define LS_CPU_SIMD_WIDE_H

#include "cpu/simd/vector.h"

#if LS__VECTOR_WIDTH == 16
#error "ls__widen has no code for vectors of 16 floats"
#elif defined(__AVX512F__)
#define LS__WIDE_BYTES 64
#elif defined(__AVX2__)
#define LS__WIDE_BYTES 32
#else
#define LS__WIDE_BYTES 16
#endif
typedef double ls__doubles __attribute__((vector_size(LS__WIDE_BYTES)));

/* The doubles of a vector of floats, which stay in registers. */
enum { LS__WIDE_PARTS = LS__WIDTH * 8 / LS__WIDE_BYTES };
typedef struct ls__wide {
    ls__doubles part[LS__WIDE_PARTS];
} ls__wide;

LS__ALWAYS_INLINE ls__wide ls__widen(ls__vf v)
{
#if LS__WIDE_BYTES == 64
    return (ls__wide){ { _mm512_cvtps_pd(v) } };
#elif LS__WIDE_BYTES == 32
    return (ls__wide){ { _mm256_cvtps_pd(_mm256_castps256_ps128(v)),
                         _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1)) } };
#else
    return (ls__wide){ { { (double)v[0], (double)v[1] }, { (double)v[2], (double)v[3] } } };
#endif
}

/* This is ls__widen(ls__load(from)), but needs no shuffle if the elements are floats. */
LS__ALWAYS_INLINE ls__wide ls__widen_from(const ls__element *from)
{
#if LS__WIDE_BYTES == 32 && !defined(LS__ELEMENT_BF16)
    return (ls__wide){ { _mm256_cvtps_pd(_mm_loadu_ps(from)),
                         _mm256_cvtps_pd(_mm_loadu_ps(from + 4)) } };
#else
    return ls__widen(ls__load(from));
#endif
}

/* Each part is copied by itself: GCC copies the whole through memory in smaller pieces, for which
 * the load of a part then waits. */
LS__ALWAYS_INLINE ls__wide ls__wide_load(const double *from)
{
    ls__wide w;
    LS__UNROLL
    for (int i = 0; i < LS__WIDE_PARTS; i++)
        memcpy(&w.part[i], from + i * LS__WIDE_BYTES / 8, sizeof w.part[i]);
    return w;
}

LS__ALWAYS_INLINE void ls__wide_store(double *to, ls__wide w)
{
    LS__UNROLL
    for (int i = 0; i < LS__WIDE_PARTS; i++)
        memcpy(to + i * LS__WIDE_BYTES / 8, &w.part[i], sizeof w.part[i]);
}

#define LS__WIDE_OPERATION(name, operation)                                                        \
    LS__ALWAYS_INLINE ls__wide name(ls__wide x, ls__wide y)                                        \
    {                                                                                              \
        LS__UNROLL                                                                                 \
        for (int i = 0; i < LS__WIDE_PARTS; i++) x.part[i] = x.part[i] operation y.part[i];        \
        return x;                                                                                  \
    }
LS__WIDE_OPERATION(ls__wide_add, +)
LS__WIDE_OPERATION(ls__wide_sub, -)
LS__WIDE_OPERATION(ls__wide_mul, *)
#undef LS__WIDE_OPERATION

/* sum + ((x0 + x1) + (x2 + x3)) */
LS__ALWAYS_INLINE ls__wide ls__wide_add_4(ls__wide sum, const ls__wide x[4])
{
    return ls__wide_add(sum, ls__wide_add(ls__wide_add(x[0], x[1]), ls__wide_add(x[2], x[3])));
}

#endif
