/* step_digest.h: a step's digests on their way from the device. */
#ifndef LS_RUN_STEP_DIGEST_H
#define LS_RUN_STEP_DIGEST_H

#include "backend/readback.h"
#include "tensor/tensor.h"
#include <lockstep/run_log.h>

typedef struct ls__step_digest {
    ls__readback late; /* a device_part of record_digest.c */
    ls_tensor images;  /* type and shape alone; the memory may hold another batch by now */
    ls_tensor labels;  /* no context: there are none */
    ls__digest_sum samples;
    int64_t n_samples;
    size_t gradient_bytes, value_bytes;
    int n_losses;
    double *weights; /* of the losses */
} ls__step_digest;

/* Queues what ls_net_digest waits for. */
ls_status ls__step_digest_begin(ls__step_digest *digest, ls_net *net, const ls_batch *batch);
/* Waits for it. */
ls_status ls__step_digest_end(ls__step_digest *digest, ls_step_digest *out);
void ls__step_digest_close(ls__step_digest *digest);

#endif
