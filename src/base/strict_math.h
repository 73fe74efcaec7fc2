/* strict_math.h: for every header that kernels, draws, rates or resizing begin with. Under these
 * options a compiler reorders sums and replaces divisions, so that a build has other bits than the
 * one whose number own_kernels.h gives. */
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
