/* folders.h: finding the training and validation images in a folder. */
#ifndef LS_CLI_FOLDERS_H
#define LS_CLI_FOLDERS_H

#include "cli.h"

/* Names of folders in a data folder, the training data's first, then validation's in the order in
 * which they are looked for. */
enum { N_SPLITS = 5 };
extern const char *const split_names[N_SPLITS];

/* DIR may be a pack in all of these. */

/* Which of the splits are in DIR. */
int folders_find_splits(const char *dir, const char *found[N_SPLITS]);

/* Whether DIR is a folder or a file, which may be a pack; else prints what it is. */
bool folders_check(const cli_verb *verb, const char *dir);

/* Opens an image folder, and prints a warning about ignored files. */
ls_dataset *folders_open(ls_context *ctx, const char *dir);

/* Prints why DIR could not be opened, and returns the command's answer. */
int folders_fail(const cli_verb *verb, ls_context *ctx, const char *dir);

/* DIR/train. On failure prints why and returns the command's answer, as the next one does. */
int folders_open_train(const cli_verb *verb, ls_context *ctx, const char *dir, ls_dataset **out);

/* DIR/val, DIR/validation, DIR/valid or DIR/test, the first that is there, with the classes of the
 * training data. dir_itself: else DIR itself, when it holds no such folder. */
int folders_open_val(const cli_verb *verb, ls_context *ctx, const char *dir, bool dir_itself,
                     int n_classes, const char *const *classes, ls_dataset **out);

#endif
