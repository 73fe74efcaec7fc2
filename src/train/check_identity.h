/* check_identity.h: all ranks of a run have one identity. */
#ifndef LS_TRAIN_CHECK_IDENTITY_H
#define LS_TRAIN_CHECK_IDENTITY_H

#include <lockstep/checkpoint.h>

/* All ranks call it, and all fail with LS_ERR_MISMATCH, which names the first setting, library or
 * kernel, if a rank has another identity than rank 0. With one rank, nothing. */
ls_status ls__check_identity_of_ranks(ls_context *ctx, const ls_training_state *state);

#endif
