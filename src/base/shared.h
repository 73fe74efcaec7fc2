/* shared.h: functions that the CPU's and the GPU's kernels both compile, so that they compute the
 * same. They stand in headers as LS__SHARED functions, in what C11 and CUDA's C++ have in common,
 * and are compiled without contraction: a fused multiply-add is where fmaf says so. */
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
#else
#define LS__SHARED static inline
#endif

#endif
