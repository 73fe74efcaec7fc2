/* host.h: the table of the core's functions. */
#ifndef LS_CUDA_DEVICE_HOST_H
#define LS_CUDA_DEVICE_HOST_H

#include "backend/module.h"

/* To be called before any other function of the module. Any thread. */
void ls__cuda_set_host(const ls__host *host);

#endif
