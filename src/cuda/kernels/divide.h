/* divide.h: division by a number that is fixed at launch. A GPU has no integer division: 32 bits
 * take about 20 instructions, 64 bits up to 100. */
#ifndef LS_CUDA_DIVIDE_H
#define LS_CUDA_DIVIDE_H

#include "cuda/kernels/portable.h"

/* int32_t: dividends from 0 to 2^31 - 1, divisors from 1. int64_t: the same up to 2^63 - 1. */
template <typename I> struct ls__divisor;

/* n / by = n * factor >> shift (Granlund & Montgomery 1994, "Division by invariant integers using
 * multiplication"): with 2^(l-1) < by <= 2^l, shift = 31 + l and factor = 2^shift / by + 1, the
 * product is too large by at most n < 2^shift / by, so that no quotient reaches the next one. */
template <> struct ls__divisor<int32_t> {
    int32_t by;
    uint32_t factor, shift;

    static ls__divisor of(int64_t by)
    {
        ls__divisor d = { (int32_t)by, 0, 31 };
        while ((int64_t)1 << (d.shift - 31) < by) d.shift++;
        d.factor = (uint32_t)(((uint64_t)1 << d.shift) / (uint64_t)by + 1);
        return d;
    }

    __device__ int32_t quotient(int32_t n) const
    {
        return (int32_t)((uint64_t)(uint32_t)n * factor >> shift);
    }
};

template <> struct ls__divisor<int64_t> {
    int64_t by;

    static ls__divisor of(int64_t by)
    {
        return { by };
    }

    __device__ int64_t quotient(int64_t n) const
    {
        return n / by;
    }
};

#endif
