/* model_file.h: the file of 'lockstep eval' and 'predict': a checkpoint, which stores its model, or
 * weights of another program with --model. */
#ifndef LS_CLI_RUNS_MODEL_FILE_H
#define LS_CLI_RUNS_MODEL_FILE_H

#include "cli.h"

typedef struct model_file {
    const char *path, *model;     /* model: NULL = stored in the file */
    const char *key;              /* of the weights in the file, or NULL */
    ls_size image_size;           /* 0 = the model's */
    int stem, resize_mode, alpha; /* ls_stem, ls_resize_mode, ls_alpha */
    int64_t depth;                /* 0 = 16 */
    bool parameter_free_shortcuts, grey;
} model_file;

/* Rows for the members of a model_file with which the command's struct of values begins. */
extern const ls_setting model_file_options[];

#define TEST_TIME_FLIP_HELP                                                                        \
    "average the class probabilities of each image and its mirror image; takes twice the time"

/* A bundled model; on failure prints the reason and returns NULL. */
const ls_model *find_model(const char *name);
/* Prints an error and returns false if an option of ResNets alone is given for another model. */
bool check_resnet_options(const cli_parsed *parsed, const ls_model *model);

/* Prints the error of an option that has no effect without --model; `more`: a further such option,
 * or NULL. */
bool model_file_check(const cli_parsed *parsed, const model_file *file, const char *more);

/* Opens the model; with --model its classes have these names. On failure, also where ctx has an
 * error, prints the reason and returns NULL. */
const ls_saved_model *model_file_open(ls_context *ctx, const model_file *file, int n_classes,
                                      const char *const *classes);

#endif
