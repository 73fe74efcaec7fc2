/* progress.h: what a checkpoint keeps of a half-done epoch, and of the best one, so that a resumed
 * run reports and ends as an uninterrupted one would have. */
#ifndef LS_RUN_PROGRESS_H
#define LS_RUN_PROGRESS_H

#include <lockstep/checkpoint.h>

/* Sums over images, so that batches of different sizes count rightly. */
typedef struct ls__sums {
    double loss, top1, top5;
    int64_t n_images;
} ls__sums;

typedef struct ls__progress {
    int64_t best_epoch;           /* after which the best metric was reached; 0 = none yet */
    ls__sums sums;                /* of the epoch's steps so far */
    double seconds, wait_seconds; /* they took; of that, waiting for data */
} ls__progress;

/* The text of the key "progress" in a checkpoint's metadata. */
enum { LS__PROGRESS_TEXT = 256 };
void ls__progress_write(const ls__progress *progress, char out[LS__PROGRESS_TEXT]);
/* False when the text, which may be NULL, is none. */
bool ls__progress_read(const char *text, ls__progress *out);

/* ls_checkpoint_load and the file's progress. */
ls_status ls__progress_load(const char *path, ls_training_state *state, ls__progress *out);

#endif
