/* checkpoint.h: saving and restoring a training run, and weights alone. Files are safetensors with
 * torchvision's names and O,I,H,W order for convolution weights. They appear whole or not at all.
 */
#ifndef LOCKSTEP_CHECKPOINT_H
#define LOCKSTEP_CHECKPOINT_H

#include <lockstep/optim.h>

LS_BEGIN_DECLARATIONS

/* The objects of a run, all of one context; members may be NULL. */
typedef struct ls_training_state {
    ls_net *net;
    ls_optimizer *optimizer;
    ls_schedule *schedule;
    ls_loader *loader;
    ls_loader *validation;       /* the loader whose metric decides which epoch is best */
    int64_t epoch, step;         /* the next step to run */
    double best;                 /* best metric so far */
    bool force;                  /* load: resume although the identity differs; each difference is a
                                    warning */
    const char *const *metadata; /* further key, value, ..., NULL; may be NULL itself */
} ls_training_state;

/* Weights and buffers are stored under their names, optimizer state under
 * "optimizer.<state>.<parameter>", and with loss scaling "optimizer.loss_scale" (scale, updates
 * since it last changed, updates skipped). All are F32 in every precision. The rest is metadata:
 *
 *   "identity"       what the run's bits depend on: the seed, device, libraries (the C library too)
 *                    and processor, the data with a digest (ls_dataset_digest), the settings of
 *                    loaders, optimizer (with the loss scale's) and schedule, the precision, a
 *                    digest of the model, which parameters are frozen, the kernels used
 *   "classes"        a JSON array of names, from the loader
 *   "mean", "std"    JSON arrays of numbers, from the loader or else the net
 *   "crop"           the side of the images, likewise
 *   "bad_images"     what the loaders have found unreadable
 *   "epoch", "step", "best"
 *   "kernels"        the kernel selections with their origins, also those for ops that have not run
 *                    yet
 *   "lockstep digest" of all the rest of the file
 *
 * and the entries of `state->metadata`, whose keys must differ from these. ".safetensors" is
 * appended to path when it is missing. A symbolic link at path is replaced, not followed. Errors:
 * LS_ERR_IO, LS_ERR_NOT_FOUND name the path; the previous file is unchanged. */
LS_API ls_status ls_checkpoint_save(const ls_training_state *state, const char *path);
/* Resumes a run: restores the objects that `state` points to, and sets epoch, step and best. Names,
 * shapes and the identity of these objects, and with an optimizer also seed, device, libraries,
 * processor, model and kernels, are checked before anything is changed. Errors name the file and
 * both values of what differs: LS_ERR_MISMATCH, LS_ERR_SHAPE, LS_ERR_TYPE; LS_ERR_FORMAT when the
 * file is not a checkpoint of a run, or its digest shows that it was changed after it was saved.
 * With `force` a different identity and a missing digest are not errors. Members that are NULL are
 * neither compared nor restored: to resume with another schedule, set `schedule` to NULL. With an
 * optimizer and without `force` the net also uses the run's kernels for ops that it has not planned
 * yet. The kernels of ops that it has already planned are compared. So a run whose kernels were
 * selected by timing or by an algorithm cache file requires ls_checkpoint_load_algorithms before
 * the net is built. */
LS_API ls_status ls_checkpoint_load(ls_training_state *state, const char *path);
/* Replaces the context's algorithm cache (algorithm_cache.h) by the kernel selections of the
 * checkpoint's run; call it before the net is built. They are the selections that the run has used,
 * and those that were loaded or timed when its net was built, for ops that have not run yet.
 * Previous selections of the context are dropped, so an algorithm cache file that was written or
 * edited later changes no bit: the run resumes with the same kernels, also if they were selected by
 * timing. Errors are those of ls_algorithm_cache_load; LS_ERR_FORMAT when the file has no kernel
 * selections. */
LS_API ls_status ls_checkpoint_load_algorithms(ls_context *ctx, const char *path);
/* Weights and buffers only, into a net with the same names and shapes; optimizer state and torch's
 * batch counters in the file are ignored. Accepts files of other programs with torchvision's names,
 * in F32, F16 or BF16. LS_ERR_FORMAT when the file has a Lockstep digest that does not match its
 * contents. */
LS_API ls_status ls_checkpoint_load_weights(ls_net *net, const char *path);

LS_END_DECLARATIONS

#endif
