/* strict_math.h: rejects compiler options that reorder sums and replace divisions, because such a
 * build has other bits than the version in own_kernels.h. The basic headers of kernels, draws,
 * schedules and resizing include it. */
#ifndef LS_BASE_STRICT_MATH_H
#define LS_BASE_STRICT_MATH_H

#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__)
#error                                                                                             \
    "Lockstep's results are a function of the run: build without -ffast-math, -Ofast and the like"
#endif
#if defined(__FINITE_MATH_ONLY__)
#if __FINITE_MATH_ONLY__
#error "Lockstep computes with infinities and NaN: build without -ffinite-math-only, -ffast-math"
#endif
#endif

#endif
