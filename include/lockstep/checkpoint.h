/* checkpoint.h: saving and restoring a training run, and weights alone. Files are safetensors with
 * torchvision's names and O,I,H,W order for convolution weights. They appear whole or not at all.
 */
#ifndef LOCKSTEP_CHECKPOINT_H
#define LOCKSTEP_CHECKPOINT_H

#include <lockstep/optim.h>

LS_BEGIN_DECLARATIONS

/* What belongs to a run, all from one context; members may be NULL. */
typedef struct ls_training_state {
    ls_net *net;
    ls_optimizer *optimizer;
    ls_schedule *schedule;
    ls_loader *loader;
    ls_loader *validation;       /* whose data decide what is best */
    int64_t epoch, step;         /* the next step to run */
    double best;                 /* best metric so far */
    bool force;                  /* load: go on as another run; what differs is warned of */
    const char *const *metadata; /* further key, value, ..., NULL; may be NULL itself */
} ls_training_state;

/* Weights and buffers go by their names, optimizer state as "optimizer.<state>.<parameter>", with
 * loss scaling "optimizer.loss_scale" (scale, updates since it last changed, updates skipped), all
 * F32 in every precision; the rest into metadata:
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
 * and what `state->metadata` adds, whose keys must be others.
 * ".safetensors" is appended to path when it is missing. A symbolic link at path is replaced, not
 * followed. Errors: LS_ERR_IO, LS_ERR_NOT_FOUND name the path; what was there before stays. */
LS_API ls_status ls_checkpoint_save(const ls_training_state *state, const char *path);
/* Goes on with a run: restores what state's members point to, and sets epoch, step and best.
 * Everything is checked before anything is changed: names, shapes, and the identity of what state
 * points to; with an optimizer also seed, device, libraries, processor, model and kernels. Errors
 * name the file and what differs, there and here: LS_ERR_MISMATCH, LS_ERR_SHAPE, LS_ERR_TYPE;
 * LS_ERR_FORMAT when the file is no checkpoint of a run, or is not as it was saved, which the
 * digest shows. With `force` another identity is no error, nor is a missing digest.
 * What is NULL is neither compared nor restored: to go on with another schedule, leave it out.
 * With an optimizer and without `force` the net also takes over the run's kernels for ops that it
 * has not come to yet. Those of ops that it has are compared: a run with kernels chosen by timing,
 * or by a plan file, needs ls_checkpoint_load_algorithms before the net is built. */
LS_API ls_status ls_checkpoint_load(ls_training_state *state, const char *path);
/* Makes the context's table of kernel choices (algorithm_cache.h) that of the checkpoint's run,
 * before the net is built: those that the run has used, and those that were loaded or timed when
 * its net was built for ops that it has not come to yet. What the table had before is gone, so no
 * plan file that was written or edited since changes a bit: the run goes on with the same kernels,
 * also when they were chosen by timing. Errors as ls_algorithm_cache_load (algorithm_cache.h);
 * LS_ERR_FORMAT when there are none in the file.
 */
LS_API ls_status ls_checkpoint_load_algorithms(ls_context *ctx, const char *path);
/* Weights and buffers only, into a net whose names and shapes are the same; optimizer entries and
 * torch's batch counters in the file are ignored. Accepts files from elsewhere with torchvision's
 * names, in F32, F16 or BF16. LS_ERR_FORMAT when the file has a digest of ours and is not as it was
 * saved. */
LS_API ls_status ls_checkpoint_load_weights(ls_net *net, const char *path);

LS_END_DECLARATIONS

#endif
