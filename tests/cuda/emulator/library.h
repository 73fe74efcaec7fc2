/* library.h: the emulated library of kernels, see library.c. */
#ifndef LS_TEST_EMULATED_LIBRARY_H
#define LS_TEST_EMULATED_LIBRARY_H

#include "cuda/kernels/kernels.h"
#include "cuda/provider.h"

extern const ls__cuda_provider emulated_library;

#ifdef __cplusplus
extern "C" {
#endif

/* Runs an optional convolution; scratch holds a double for every element of its activations. */
int emulate_fused(const ls__op *op, void *const *buffers, double *scratch, void *stream);

#ifdef __cplusplus
}
#endif

#endif
