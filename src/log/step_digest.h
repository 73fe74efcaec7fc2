/* step_digest.h: digests of a step, read back asynchronously, and their line in a run log. */
#ifndef LS_LOG_STEP_DIGEST_H
#define LS_LOG_STEP_DIGEST_H

#include "backend/readback.h"
#include "comm/comm.h"
#include "tensor/tensor.h"
#include <lockstep/run_log.h>

/* ---- rank_digest.c: a step whose batch is in several ranks. Each rank adds up the digests of its
 * own samples. Words of 8 bytes that hold bytes of several ranks are put together first. ---- */

/* A word of a tensor, with the bytes of one rank; the others are 0. Unused: position UINT64_MAX. */
typedef struct ls__partial_word {
    uint64_t position, word;
} ls__partial_word;

/* The words that a rank shares with its neighbours: at its first and last byte. */
typedef struct ls__partial_words {
    ls__partial_word ends[2];
} ls__partial_words;

enum { LS__BATCH_IMAGES, LS__BATCH_LABELS, LS__BATCH_TARGETS, LS__N_BATCH_TENSORS };

/* What the ranks gather. */
typedef struct ls__rank_digest {
    ls__digest_sum tensors[LS__N_BATCH_TENSORS], samples;
    ls__partial_words partial[LS__N_BATCH_TENSORS];
    ls__digest_sum gradients, weights;
} ls__rank_digest;
_Static_assert(sizeof(ls__rank_digest) <= LS__GATHER_BYTES, "it is sent in one message");

/* Queues the digest of the words that hold samples of this rank alone, and reads the others. */
ls_status ls__rank_digest_queue(const ls_tensor *tensor, ls__digest_sum *sum,
                                ls__partial_words *partial);

/* Replaces the digests by those of the whole batch. LS_ERR_MISMATCH names the ranks whose gradients
 * or weights differ from those of the largest group of equal ranks (of several, the one with the
 * lowest rank). */
ls_status ls__rank_digest_gather(ls_context *ctx, ls__rank_digest *digest);

/* ---- run_log_digest.c ---- */

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
/* run_log.c */
void ls__run_log_format(int64_t step, const ls_step_digest *digest, char out[LS__LINE_SIZE + 1]);

#endif
