/* provider_list.c: the providers of the module. */
#include "cuda/provider.h"

const ls__cuda_provider *const ls__cuda_providers[] = { &ls__cuda_cudnn, &ls__cuda_cublaslt,
                                                        &ls__cuda_our_kernels, NULL };
