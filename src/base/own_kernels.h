/* own_kernels.h: a number for the arithmetic of our own code, in runs' identities beside the
 * versions of libraries. */
#ifndef LS_BASE_OWN_KERNELS_H
#define LS_BASE_OWN_KERNELS_H

#include "base/strict_math.h"

/* Increase it when our code computes other bits under an unchanged name: a kernel, the order in
 * which src/nn adds gradients, a draw, the shuffle, a schedule. */
enum { LS__OWN_KERNELS = 2 };
/* The same for changes on CUDA devices only. */
enum { LS__CUDA_KERNELS = 1 };

#endif
