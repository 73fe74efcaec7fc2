/* readback.h: asynchronous copies of a few bytes from the device to the host: digests, losses. The
 * host waits only when it needs the bytes. */
#ifndef LS_BACKEND_READBACK_H
#define LS_BACKEND_READBACK_H

#include "backend/backend.h"

/* The number of steps after which the host reads results, so that no side waits for the other. */
static inline int ls__readback_lag(const ls__device *device)
{
    return device->backend->host_memory ? 0 : 1;
}

typedef struct ls__readback {
    ls_context *ctx; /* NULL: not open */
    size_t bytes;
    void *memory;      /* device memory that queued work fills */
    void *host;        /* its copy, valid after ls__readback_wait */
    ls__event *copied; /* recorded after the copy */
    bool sent;         /* a copy is pending */
} ls__readback;

/* call: for errors. */
ls_status ls__readback_open(ls__readback *readback, ls_context *ctx, const char *call,
                            size_t bytes);
/* Waits for a pending copy. Accepts a readback that was not opened, or whose opening failed. */
void ls__readback_close(ls__readback *readback);

/* Queues clearing of the device's bytes. The host's copy is not changed. */
ls_status ls__readback_clear(ls__readback *readback);
/* Queues the copy of the device's bytes to the host. */
ls_status ls__readback_send(ls__readback *readback);
/* Waits for the last copy. */
ls_status ls__readback_wait(ls__readback *readback);

#endif
