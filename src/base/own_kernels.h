/* own_kernels.h: a number for the arithmetic of our own code, in runs' identities beside the
 * versions of libraries. */
#ifndef LS_BASE_OWN_KERNELS_H
#define LS_BASE_OWN_KERNELS_H

#include "base/strict_math.h"

/* One more whenever something of ours gives other bits under an unchanged name: a kernel, the order
 * in which src/nn adds gradients, a draw, the shuffle, a function of the schedules. */
enum { LS__OWN_KERNELS = 2 };
/* One more for what only CUDA devices do otherwise under an unchanged name. */
enum { LS__CUDA_KERNELS = 1 };

#endif
