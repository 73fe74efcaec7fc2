/* step_digest.h: digests of a step, read back asynchronously, and their line in a run log. */
#ifndef LS_LOG_STEP_DIGEST_H
#define LS_LOG_STEP_DIGEST_H

#include "backend/readback.h"
#include "log/rank_digest.h"
#include "tensor/tensor.h"
#include <lockstep/run_log.h>

typedef struct ls__step_digest {
    ls__readback readback; /* device_digests of run_log_digest.c */
    /* Type and shape only: the memory may hold another batch by now. Context NULL = none. */
    ls_tensor tensors[LS__N_BATCH_TENSORS];
    ls__rank_digest ranks; /* of this rank's samples; at the end, of all */
    int64_t n_samples;
    size_t gradient_bytes, value_bytes;
    int n_losses;
    double *weights;      /* of the losses */
    const float **losses; /* their addresses on the device */
} ls__step_digest;

/* Queues the computation and the readback of the digests. */
ls_status ls__step_digest_begin(ls__step_digest *digest, const char *call, ls_net *net,
                                const ls_batch *batch);
/* Waits for the readback. */
ls_status ls__step_digest_end(ls__step_digest *digest, ls_step_digest *out);
void ls__step_digest_close(ls__step_digest *digest);

enum {
    LS__STEP_DIGITS = 12,
    LS__LINE_SIZE = LS__STEP_DIGITS + 1 + 32 + 1 + 16 + 1 + 32 + 1 + 32 + 1 /* with its '\n' */
};
void ls__run_log_format(int64_t step, const ls_step_digest *digest, char out[LS__LINE_SIZE + 1]);

#endif
