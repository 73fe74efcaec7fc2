/* fake_backend.h: a device whose memory the host cannot read: every byte lies there inverted, so
 * who reads it directly sees it. It has a capacity, and counts what was taken. */
#ifndef LS_TESTS_FAKE_BACKEND_H
#define LS_TESTS_FAKE_BACKEND_H

#include "base/context.h"
#include "backend/backend.h"

typedef struct fake_device {
    ls__device device; /* first */
    ls__device *cpu;   /* does the arithmetic */
    size_t capacity_bytes, taken_bytes;
    int64_t n_blocks, n_host_blocks;
    ls__backend table; /* the device's own: segment_bytes is 0 */
    int64_t now;       /* the test's clock, and what it was at the last wait of one stream for */
    int64_t waited[LS__N_STREAMS][LS__N_STREAMS], n_waits; /* another */
    int64_t n_calls; /* of all that moves bytes, of events and waits of streams */
    int64_t fail_at; /* which of them fails, from 1; 0 = none */
} fake_device;

/* A context whose device is a fake one with a capacity of 1 GiB. */
ls_context *fake_context_open(const ls_context_config *config);
fake_device *fake_device_of(ls_context *ctx);

#endif
