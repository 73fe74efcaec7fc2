/* folders_idx.h: MNIST's files in a data folder. */
#ifndef LS_CLI_RUNS_FOLDERS_IDX_H
#define LS_CLI_RUNS_FOLDERS_IDX_H

#include "runs/folders.h"

/* MNIST's files of a split, "train" or "t10k", each plain or compressed. False when neither is
 * there; of a file that is missing the plain name. */
bool folders_find_idx(const char *dir, const char *split, char images[PATH_SIZE],
                      char labels[PATH_SIZE]);

/* n_classes 0: as many as the labels have. classes NULL: any. Returns the exit status; on failure
 * prints the reason. */
int folders_open_idx(ls_context *ctx, const char *images, const char *labels, int n_classes,
                     const char *const *classes, ls_dataset **out);

#endif
