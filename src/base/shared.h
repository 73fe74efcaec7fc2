/* shared.h: LS__SHARED functions are compiled for CPU and GPU kernels, so that both compute the
 * same bits. They use the common subset of C11 and CUDA's C++ and are compiled without contraction:
 * only fmaf is a fused multiply-add. */
#ifndef LS_BASE_SHARED_H
#define LS_BASE_SHARED_H

#include "base/strict_math.h"
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define LS__SHARED __host__ __device__ static inline
/* Stands before a loop with a constant number of iterations: on a GPU, arrays that it indexes stay
 * in registers. */
#define LS__UNROLL_ON_GPU _Pragma("unroll")
#else
#define LS__SHARED static inline
#define LS__UNROLL_ON_GPU
#endif

#endif
