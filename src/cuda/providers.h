/* providers.h: all providers of a device together. */
#ifndef LS_CUDA_PROVIDERS_H
#define LS_CUDA_PROVIDERS_H

#include "base/text.h"
#include "cuda/device/device.h"

/* Loads the libraries and opens the providers. A library that can't be loaded, or that
 * LOCKSTEP_CUDA_LIBRARIES=none excludes, is left out, and our own kernels run instead. close also
 * closes what a failed open has opened. */
ls_status ls__cuda_providers_open(ls__cuda *cuda);
void ls__cuda_providers_close(ls__cuda *cuda);
/* Appends ", cuDNN 9.19.0, no cuBLASLt". */
void ls__cuda_providers_describe(const ls__cuda *cuda, ls__text *out);

/* Slots of ls__backend. */
int64_t ls__cuda_channel_multiple(const ls__device *device);
int ls__cuda_candidates(ls__device *device, const ls__op *op, ls__candidate *out, int max);
ls_status ls__cuda_kernel_open(ls__device *device, const ls__op *op, const char *name,
                               ls__kernel **out);

#endif
