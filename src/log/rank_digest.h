/* rank_digest.h: digests of a step whose batch is in several ranks: each rank adds up those of its
 * own samples. Words of 8 bytes that hold bytes of several ranks are put together first. */
#ifndef LS_LOG_RANK_DIGEST_H
#define LS_LOG_RANK_DIGEST_H

#include "comm/comm.h"
#include "tensor/tensor.h"

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

#endif
