/* folders.h: finding the training and validation pictures in a folder. */
#ifndef LS_CLI_FOLDERS_H
#define LS_CLI_FOLDERS_H

#include "cli.h"

/* DIR/train. On failure prints why and returns NULL, as the next one does. */
ls_dataset *folders_open_train(const cli_verb *verb, ls_context *ctx, const char *dir);

/* DIR/val, DIR/validation, DIR/valid or DIR/test, the first that is there, with the classes of the
 * training data. dir_itself: else DIR itself, when it holds no such folder. */
ls_dataset *folders_open_val(const cli_verb *verb, ls_context *ctx, const char *dir,
                             bool dir_itself, int n_classes, const char *const *classes);

#endif
