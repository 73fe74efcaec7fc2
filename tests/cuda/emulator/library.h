/* library.h: the emulated library of kernels, see library.c. */
#ifndef LS_TEST_EMULATED_LIBRARY_H
#define LS_TEST_EMULATED_LIBRARY_H

#include "cuda/cuda.h"

extern const ls__cuda_provider emulated_library;

#endif
