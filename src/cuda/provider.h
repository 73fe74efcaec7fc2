/* provider.h: providers of kernels: cuDNN for convolutions (cudnn/), cuBLASLt for linear layers
 * (cublaslt/), and our own kernels (our_kernels.c, kernels/) for all other ops, and for shapes that
 * the libraries do not support. */
#ifndef LS_CUDA_PROVIDER_H
#define LS_CUDA_PROVIDER_H

#include "cuda/device/device.h"

/* candidates and kernel_open are ls__backend's slots of the same names. `state` is what open
 * returned. */
typedef struct ls__cuda_provider {
    const char *name; /* the first word of its kernels' names */
    /* The library's title, "cuDNN", and the function that loads it (libraries.h); both NULL for our
     * own kernels. A library that can't be loaded is left out. */
    const char *title;
    bool (*load)(char *text, size_t size);
    int64_t channel_multiple; /* ls__backend's slot; 0: any number of channels is as fast */
    ls_status (*open)(ls__cuda *cuda, void **state); /* these two may be NULL */
    void (*close)(ls__cuda *cuda, void *state);
    const char *(*library)(void *state); /* "cuDNN 9.19.0"; may be NULL */
    int (*candidates)(ls__cuda *cuda, void *state, const ls__op *op, ls__candidate *out, int max);
    ls_status (*kernel_open)(ls__cuda *cuda, void *state, const ls__op *op, const char *name,
                             ls__kernel **out);
} ls__cuda_provider;

extern const ls__cuda_provider ls__cuda_cudnn, ls__cuda_cublaslt, ls__cuda_our_kernels;
/* The build's, preferred first; ends with NULL. */
extern const ls__cuda_provider *const ls__cuda_providers[];

/* The relative error of rounding to a type; 0 for f32. */
static inline float ls__cuda_rounding(ls_dtype dtype)
{
    return dtype == LS_BF16 ? 0x1p-8f : dtype == LS_F16 ? 0x1p-11f : 0;
}

#endif
