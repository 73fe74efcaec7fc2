/* readback.h: a few bytes that the device works out and the host reads when they have come:
 * digests, losses. What fills them is queued; nobody waits for it before the bytes are needed. */
#ifndef LS_BACKEND_READBACK_H
#define LS_BACKEND_READBACK_H

#include "backend/backend.h"

/* How many steps behind the one that runs the host reads such bytes: as many as it takes for
 * neither to wait for the other. */
static inline int ls__readback_lag(const ls__device *device)
{
    return device->backend->host_memory ? 0 : 1;
}

typedef struct ls__readback {
    ls_context *ctx; /* NULL: not open */
    size_t bytes;
    void *memory; /* device memory, to be filled by queued work */
    void *host;   /* its copy, once it has come */
    ls__event *come;
    bool sent;
} ls__readback;

/* call: for errors. */
ls_status ls__readback_open(ls__readback *late, ls_context *ctx, const char *call, size_t bytes);
/* Waits for what was sent. Accepts one that was not opened, or not wholly. */
void ls__readback_close(ls__readback *late);

/* Fills the device's bytes with zeros, before new work fills them; queued. The host's stay. */
ls_status ls__readback_clear(ls__readback *late);
/* Sends the device's bytes on their way; queued. They replace those that came before. */
ls_status ls__readback_send(ls__readback *late);
/* Waits until what was sent has come. */
ls_status ls__readback_wait(ls__readback *late);

#endif
