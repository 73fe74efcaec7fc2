/* folders_idx.h: MNIST's files in a data folder. */
#ifndef LS_RUN_FOLDERS_IDX_H
#define LS_RUN_FOLDERS_IDX_H

#include "run/data_settings.h"

/* Whether DIR has files of MNIST's names: {train,t10k}-{images-idx3,labels-idx1}-ubyte[.gz]. */
bool ls__folders_has_idx(const char *dir);

/* MNIST's files of a split, "train" or "t10k", each plain or compressed. False when neither is
 * there; of a file that is missing the plain name. */
bool ls__folders_find_idx(const char *dir, const char *split, char images[LS__PATH_SIZE],
                          char labels[LS__PATH_SIZE]);

/* n_classes 0: as many as the labels have. classes NULL: any. */
ls_dataset *ls__folders_open_idx(ls_context *ctx, const char *images, const char *labels,
                                 int n_classes, const char *const *classes);

#endif
