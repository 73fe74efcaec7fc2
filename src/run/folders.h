/* folders.h: finding the training and validation images in a folder. */
#ifndef LS_RUN_FOLDERS_H
#define LS_RUN_FOLDERS_H

#include "run/data_settings.h"

/* DIR may be a pack in all of these. Where images are opened, DIR may be a CSV file, which holds
 * training images. Its folders and CSV files are those of ls_split_find. `o` may be NULL. MNIST's
 * idx files (folders_idx.h) are read as training and validation data. */

/* LS_ERR_DATA unless DIR is a folder or a file, which may be a pack, or nothing. */
ls_status ls__folders_check(ls_context *ctx, const char *dir);

/* LS_ERR_DATA unless DIR has image files of its own, or a pack of them: no CSV list and no idx
 * files. */
ls_status ls__folders_check_files(ls_context *ctx, const char *dir);

/* Opens an image folder, with a warning about ignored files. */
ls_dataset *ls__folders_open(ls_context *ctx, const char *dir);

/* Completes the error of a DIR that could not be opened: it may be a single image. */
void ls__folders_explain(ls_context *ctx, const char *dir);

/* Whether the training images of DIR are listed in a CSV file: DIR itself, or DIR/train.csv. */
bool ls__folders_has_csv(const char *dir);

/* Whether DIR has a folder or CSV file of training or validation images; copies its path below DIR.
 */
bool ls__folders_has_train(const char *dir, char name[LS__FOLDER_NAME_SIZE]);
bool ls__folders_has_val(const char *dir, char name[LS__FOLDER_NAME_SIZE]);
/* Finds test images in the same way, and MNIST's t10k files. */
bool ls__folders_has_test(const char *dir, char name[LS__FOLDER_NAME_SIZE]);

/* The training images. dir_itself: else DIR itself, when it holds class folders. This and the next
 * ones return NULL with the error. */
ls_dataset *ls__folders_open_train(ls_context *ctx, const char *dir, const ls__data_settings *o,
                                   bool dir_itself);

/* Opens the same images with given classes, for --val-split. */
ls_dataset *ls__folders_open_unsplit(ls_context *ctx, const char *dir, const ls__data_settings *o,
                                     int n_classes, const char *const *classes);

/* The validation images, or those for tests where there are no others, with the classes of the
 * training data, or with those of its own folders if classes is NULL. dir_itself: else DIR itself,
 * when it holds no such folder. */
ls_dataset *ls__folders_open_val(ls_context *ctx, const char *dir, const ls__data_settings *o,
                                 bool dir_itself, int n_classes, const char *const *classes);

/* LS_ERR_DATA unless the samples of both have the same: a class, labels or numbers. For data that
 * ls__folders_open_train and ls__folders_open_val opened, dir_itself false. */
ls_status ls__folders_check_kinds(ls_context *ctx, const char *dir, const ls_dataset *train,
                                  const ls_dataset *val);

#endif
