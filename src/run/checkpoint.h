/* checkpoint.h: the parts of a checkpoint, for saving and loading: its tensors, one ls__record
 * each, and its metadata. */
#ifndef LS_RUN_CHECKPOINT_H
#define LS_RUN_CHECKPOINT_H

#include "base/bump.h"
#include <lockstep/checkpoint.h>

/* ---- Records ---- */

/* One tensor of a checkpoint. Convolution weights are [O,I,H,W] in the file, [O,H,W,I] here. */
typedef struct ls__record {
    const char *name;
    ls_spec spec;   /* in the file */
    int64_t count;  /* elements */
    float *memory;  /* device memory, in our order; NULL = `number` */
    int64_t number; /* an I64 scalar that only the file holds */
    bool transposed;
} ls__record;

typedef struct ls__records {
    ls__record *items;
    int64_t n;
    int64_t largest; /* elements */
} ls__records;

/* Weights, buffers and torch's batch counters; nothing for NULL. */
ls_status ls__records_of_net(ls__bump *bump, const ls_net *net, int64_t n_steps, ls__records *out);
/* The state's tensors, and the loss scale's; nothing for NULL. */
ls_status ls__records_of_optimizer(ls__bump *bump, const ls_optimizer *opt, ls__records *out);

/* Converts a convolution's weights between both orders; shape is the file's [O,I,H,W]. */
void ls__weights_to_file(float *out, const float *in, const ls_shape *shape);
void ls__weights_from_file(float *out, const float *in, const ls_shape *shape);

/* True for tensors that loading a net ignores. */
bool ls__is_optimizer_name(const char *name);
bool ls__is_torch_counter(const char *name);

/* ---- Metadata ---- */

/* The key of the digest of the rest of the file. */
#define LS__CHECKPOINT_DIGEST "lockstep digest"

/* key, value, key, value, ..., NULL, with state->metadata's pairs at the end. */
ls_status ls__metadata_make(ls__bump *bump, ls_context *ctx, const ls_training_state *state,
                            const char *const **out);

/* Samples that a loader could not read. */
typedef struct ls__bad_samples {
    int64_t n;
    int64_t *samples;
    const char **reasons;
} ls__bad_samples;

/* The values read from a file's metadata. */
typedef struct ls__position {
    int64_t epoch, step, n_steps, skipped_before;
    double best;
    double schedule[LS_SCHEDULE_STATE];
    ls__bad_samples of_loader, of_validation;
} ls__position;

/* Compares the metadata with the members of state, then reads the position. Errors name the field
 * that differs. n_steps, skipped_before and schedule are set only if state has an optimizer and a
 * schedule; bad samples only without `force`, because then the data is the same. */
ls_status ls__metadata_check(ls__bump *bump, ls_context *ctx, const char *path,
                             const ls_tensor_file *file, const ls_training_state *state,
                             ls__position *out);

/* A number of epochs or steps, 0 to 2^40, in a file's metadata; false if missing. file may be NULL.
 */
bool ls__metadata_count(const ls_tensor_file *file, const char *key, int64_t *out);

/* ---- Both ---- */

/* Fails unless a checkpoint can be read and its digest matches its contents.
 * LS_ERR_NOT_FOUND, LS_ERR_IO, LS_ERR_FORMAT, LS_ERR_MEMORY; LS_ERR_DEVICE without a file handle.
 */
ls_status ls__checkpoint_check(ls_context *ctx, const char *path);

/* The one context of state's members, without an error. */
ls_status ls__state_context(const char *call, const ls_training_state *state, ls_context **out);
/* path with the extension; NULL and an error if path is NULL or memory is short. */
const char *ls__checkpoint_path(ls_context *ctx, ls__bump *bump, const char *call,
                                const char *path);

#endif
