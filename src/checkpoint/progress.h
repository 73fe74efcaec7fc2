/* progress.h: the state of an incomplete epoch, and of the best epoch, in a checkpoint. A resumed
 * run then reports and stops like an uninterrupted one. */
#ifndef LS_CHECKPOINT_PROGRESS_H
#define LS_CHECKPOINT_PROGRESS_H

#include <lockstep/checkpoint.h>

/* Sums over images, so that batches of different sizes are weighted correctly. */
typedef struct ls__sums {
    double loss, top1, top5;
    int64_t n_images;
    double loss_weight;         /* the divisor of `loss` (ls_results); n_images without weights */
    double own[LS_MAX_METRICS]; /* the net's other metrics */
    int n_own;
} ls__sums;

typedef struct ls__progress {
    int64_t best_epoch;           /* the epoch of the best metric; 0 = none yet */
    ls__sums sums;                /* of the epoch's steps so far */
    double seconds, wait_seconds; /* duration of these steps, and waiting for data */
} ls__progress;

/* The text of the key "progress" in a checkpoint's metadata. The sums of loss weights and of own
 * metrics are in it only if there are any. */
enum { LS__PROGRESS_TEXT = 512 };
void ls__progress_write(const ls__progress *progress, char out[LS__PROGRESS_TEXT]);
/* False if the text is NULL or malformed. */
bool ls__progress_read(const char *text, ls__progress *out);

/* ls_checkpoint_load and the file's progress. */
ls_status ls__progress_load(const char *path, ls_training_state *state, ls__progress *out);

#endif
