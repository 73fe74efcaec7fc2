/* folders.h: finding the training and validation images in a folder. */
#ifndef LS_CLI_RUNS_FOLDERS_H
#define LS_CLI_RUNS_FOLDERS_H

#include "options/data_options.h"

/* DIR may be a pack in all of these. Where images are opened, DIR may be a CSV file, which holds
 * training images. Its folders and CSV files are those of ls_split_find. `o` may be
 * NULL. */

/* Whether DIR is a folder or a file, which may be a pack; else prints what it is. */
bool folders_check(const char *dir);

/* Whether DIR has image files of its own, or a pack of them: no CSV list and no idx files; else
 * prints what it has. */
bool folders_check_files(const char *dir);

/* Opens an image folder, and prints a warning about ignored files. */
ls_dataset *folders_open(ls_context *ctx, const char *dir);

/* Prints why DIR could not be opened, and returns the command's answer. */
int folders_fail(ls_context *ctx, const char *dir);

/* Whether the training images of DIR are listed in a CSV file: DIR itself, or DIR/train.csv. */
bool folders_has_csv(const char *dir);

/* Whether DIR has files of MNIST's names: {train,t10k}-{images-idx3,labels-idx1}-ubyte[.gz]. The
 * functions below read them as training and validation data. */
bool folders_has_idx(const char *dir);

/* Whether DIR has a folder or CSV file of training or validation images; copies its path below DIR.
 */
enum { FOLDER_NAME_SIZE = 600, PATH_SIZE = 4096 };
bool folders_has_train(const char *dir, char name[FOLDER_NAME_SIZE]);
bool folders_has_val(const char *dir, char name[FOLDER_NAME_SIZE]);
/* The same for test images, and for MNIST's t10k files. */
bool folders_has_test(const char *dir, char name[FOLDER_NAME_SIZE]);

/* The training images. dir_itself: else DIR itself, when it holds class folders. On failure prints
 * why and returns the command's answer, as the next one does. */
int folders_open_train(ls_context *ctx, const char *dir, const data_options *o, bool dir_itself,
                       ls_dataset **out);

/* The same images with given classes, for --val-split. */
int folders_open_unsplit(ls_context *ctx, const char *dir, const data_options *o, int n_classes,
                         const char *const *classes, ls_dataset **out);

/* The validation images, or those for tests where there are no others, with the classes of the
 * training data, or with those of its own folders if classes is NULL. dir_itself: else DIR itself,
 * when it holds no such folder. */
int folders_open_val(ls_context *ctx, const char *dir, const data_options *o, bool dir_itself,
                     int n_classes, const char *const *classes, ls_dataset **out);

/* Whether the samples of both have the same: a class, labels or numbers; else prints the two files.
 * For data that folders_open_train and folders_open_val opened, dir_itself false. */
bool folders_check_kinds(const char *dir, const ls_dataset *train, const ls_dataset *val);

#endif
