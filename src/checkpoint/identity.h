/* identity.h: a run's identity as JSON, and the differences between two identities. Workers,
 * threads and restarts change no bit of a result and are not part of it. */
#ifndef LS_CHECKPOINT_IDENTITY_H
#define LS_CHECKPOINT_IDENTITY_H

#include <jansson.h>
#include <lockstep/checkpoint.h>

/* An object with a section for each member of the state and for the context:
 *
 *   "seed", "shards", "sync_batch_norm", "device", "libraries", "precision" (libraries ends with
 *   base/own_kernels.h's number)
 *   "processor", "environment"   unless results do not depend on the processor
 *   "data"        samples, classes, digest of them, by paths and sizes or by contents, "decoders":
 *                 those that make or made its pixels (data/decode/decoder.h)
 *   "loader"      settings that are not 0
 *   "validation"  the same two of state->validation
 *   "model"       digest, parameters, names of frozen parameters, if any, digest of the weights
 *                 that the run began with, if they were loaded
 *   "optimizer", "schedule"   name and settings; "optimizer 2" of the second optimizer
 *   "kernels"     op: kernel, for ops that the net has used
 *
 * NULL if memory is short, with the error in the context. */
json_t *ls__identity_make(ls_context *ctx, const ls_training_state *state);

/* The names of the parameters that were frozen when the training began, or that are now. NULL if
 * memory is short. */
json_t *ls__identity_frozen(const ls_net *net, bool began);

/* The section "data" of a dataset as an identity has it. NULL on failure, with the error in the
 * context. */
json_t *ls__identity_data(ls_context *ctx, ls_dataset *dataset);

/* The identity of a net that was built to resume has no digest of the weights that the run began
 * with, because they are not loaded again: takes it from the stored identity. Returns it; NULL if
 * `here` has its own, or `there` has none. */
const char *ls__identity_adopt_weights(json_t *here, const json_t *there);

/* The list of {"field": "optimizer.momentum", "there": 0.9, "here": 0.8}, in the order of `here`;
 * null stands for a missing value. Kernels are compared only for ops that both have, because a run
 * may plan other shapes later. Unless `whole`, only the sections of `here` are compared. NULL if
 * memory is short. */
json_t *ls__identity_differences(const json_t *there, const json_t *here, bool whole);

/* "'run/last.safetensors' was saved by another run: seed is 5 there, 6 here, and 2 more differ":
 * `what` is 'run/last.safetensors'. The differences must not be empty. */
ls_status ls__identity_fail(ls_context *ctx, const char *what, const json_t *differences);

/* Whether the decoders of images differ. */
bool ls__identity_is_of_decoders(const json_t *difference);

/* One difference as "seed is 5 there, 6 here", with these names of the sides, cut to the buffer;
 * returns buffer. For decoders it appends an explanation. */
const char *ls__identity_text(const json_t *difference, const char *there, const char *here,
                              char *buffer, size_t size);

/* The class names, or without classes those of the targets, escaped like that. */
json_t *ls__json_classes(ls_context *ctx, const ls_dataset *dataset);
/* The names of the targets, escaped like that. */
json_t *ls__json_targets(ls_context *ctx, const ls_dataset *dataset);

#endif
