/* identity.h: what a run's bits depend on, as JSON, and where two runs' differ. Not in it is what
 * never changes a bit: workers, threads, restarts. */
#ifndef LS_RUN_IDENTITY_H
#define LS_RUN_IDENTITY_H

#include <jansson.h>
#include <lockstep/checkpoint.h>

/* An object with a section for each member of the state and for the context:
 *
 *   "seed", "device", "libraries", "libc", "processor", "precision"
 *   (libraries ends with base/own_kernels.h's number)
 *   "data"        samples, classes, digest of them, by paths and sizes or by contents
 *   "decoders"    of images, with their versions
 *   "loader"      settings that are not 0
 *   "validation"  the same two of state->validation
 *   "model"       digest, parameters, names of those that are frozen, if any
 *   "optimizer", "schedule"   name and settings
 *   "kernels"     op: kernel, of those that the net has used
 *
 * NULL without memory, with the error kept. */
json_t *ls__identity_make(ls_context *ctx, const ls_training_state *state);

/* The list of {"field": "optimizer.momentum", "there": 0.9, "here": 0.8}, in the order of `here`;
 * null stands for what one side lacks. Of kernels, those of ops that both have are compared: other
 * shapes may be planned later. Unless `whole`, only the sections that `here` has. NULL without
 * memory. */
json_t *ls__identity_differences(const json_t *there, const json_t *here, bool whole);

/* "'run/last.safetensors' was saved by another run: seed is 5 there, 6 here, and 2 more differ":
 * `what` is 'run/last.safetensors'. The differences must not be empty. */
ls_status ls__identity_fail(ls_context *ctx, const char *what, const json_t *differences);

/* One difference as "seed is 5 there, 6 here", with such words for the sides, cut to the buffer;
 * returns it. */
const char *ls__identity_text(const json_t *difference, const char *there, const char *here,
                              char *buffer, size_t size);

#endif
