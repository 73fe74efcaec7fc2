/* ranks.h: the communicator of device memory. It moves bytes by NCCL's sends and receives, and adds
 * nothing: NCCL's reductions have no order that is the same for any number of ranks. */
#ifndef LS_CUDA_NCCL_RANKS_H
#define LS_CUDA_NCCL_RANKS_H

#include "comm/comm.h"
#include "cuda/device/device.h"

/* Loads NCCL and sets cuda->index, before the device of one of several ranks is opened. Each rank
 * of a machine takes the next one of the devices that it sees. */
ls_status ls__nccl_prepare(ls__cuda *cuda, int n_devices);

/* See ls__backend.comm_open. Fails if two ranks have the same GPU. */
ls_status ls__nccl_open(ls__device *device, ls__comm **out);

/* Tests a stream or an event until it has ended; called before a wait for it. Returns an error,
 * after the device's exchanges have been aborted, if NCCL reports one, or after the timeout of the
 * ranks. Returns LS_OK at once without ranks, and after an abort, because then the work ends. */
ls_status ls__nccl_wait(ls__cuda *cuda, int (*query)(void *awaited, bool *ended), void *awaited);

#endif
