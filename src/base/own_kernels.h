/* own_kernels.h: a version number of our own arithmetic. Like the versions of libraries, it is part
 * of a run's identity. */
#ifndef LS_BASE_OWN_KERNELS_H
#define LS_BASE_OWN_KERNELS_H

#include "base/strict_math.h"

/* Increase it when the results of a kernel, a sum of gradients in src/nn, a draw, the shuffle or a
 * schedule change without a change of its name. */
enum { LS__OWN_KERNELS = 5 };
/* Increase it when such results change on CUDA devices only. */
enum { LS__CUDA_KERNELS = 1 };
/* Increase it when they change with native arithmetic on CPUs only. */
enum { LS__NATIVE_KERNELS = 2 };

#endif
