/* checkpoint.h: saving and restoring a training run, and weights alone. Files are safetensors with
 * torchvision's names and O,I,H,W order for convolution weights. They appear whole or not at all.
 */
#ifndef LOCKSTEP_CHECKPOINT_H
#define LOCKSTEP_CHECKPOINT_H

#include <lockstep/optim.h>

/* What belongs to a run; members may be NULL. On saving, `loader` gives the class names and the
 * normalisation. */
typedef struct ls_state {
    ls_net *net;
    ls_optimizer *optimizer;
    ls_schedule *schedule;
    ls_loader *loader;
    int64_t epoch, step;         /* the next step to run */
    double best;                 /* best metric so far */
    const char *const *metadata; /* further key, value, ..., NULL; may be NULL itself */
} ls_state;

/* Weights and buffers go by their names, optimizer state as "optimizer.<state>.<parameter>", the
 * rest into metadata: "classes", a JSON array of names; "mean" and "std", JSON arrays of numbers,
 * and "crop", the side of the pictures, as the loader has them; and what `state->metadata` adds.
 * ".safetensors" is appended to path when it is missing. */
LS_API ls_status ls_checkpoint_save(const char *path, const ls_state *state);
/* Restores what state's members point to, and sets epoch, step and best. Everything is checked
 * before anything is changed: names, shapes, optimizer, classes; errors name the file and what
 * differs. */
LS_API ls_status ls_checkpoint_load(const char *path, ls_state *state);
/* Weights and buffers only, into a net whose names and shapes are the same; optimizer entries in
 * the file are ignored. Accepts files from elsewhere with torchvision's names. */
LS_API ls_status ls_checkpoint_load_weights(const char *path, ls_net *net);

#endif
