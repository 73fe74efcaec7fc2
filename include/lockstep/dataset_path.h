/* dataset_path.h: datasets at paths, whatever is there, as the commands find them. Errors say often
 * by ls_context_hint what may be meant; they write a setting as the command's option,
 * --csv-columns. */
#ifndef LOCKSTEP_DATASET_PATH_H
#define LOCKSTEP_DATASET_PATH_H

#include <lockstep/dataset_check.h>
#include <lockstep/pack.h>
#include <lockstep/trainer.h>

LS_BEGIN_DECLARATIONS

/* What is at a path; links are followed. */
typedef enum ls_path_kind {
    LS_PATH_NONE,
    LS_PATH_FOLDER,
    LS_PATH_IDX_FOLDER, /* a folder that holds a file of MNIST's names, such as
                           "train-images-idx3-ubyte.gz" */
    LS_PATH_LIST,       /* a regular file whose name ends, in any case, with .csv, .tsv or .txt */
    LS_PATH_FILE,       /* another regular file, such as a pack or an image */
    LS_PATH_OTHER       /* a device, a pipe or a socket */
} ls_path_kind;
LS_API ls_path_kind ls_path_kind_of(const char *path);

typedef struct ls_dataset_config {
    /* LS_SPLIT_TRAIN, the default: the training images, or all of a folder, list or pack that is
     * not divided. LS_SPLIT_VALIDATION: those for validation, or for tests where there are no
     * others; LS_ERR_DATA without any. A path that is itself named so, "data/val", is opened whole.
     * LS_SPLIT_TEST is LS_ERR_INVALID: open its folder. */
    ls_split split;
    /* The classes that validation images must have: those of the training data. 0 and NULL: those
     * found. */
    int n_classes;
    const char *const *classes;
    /* These are the settings csv-columns, image-root, label-pattern, group-column and
     * group-pattern; NULL = not given. A path that is named for validation has no groups. */
    const char *csv_columns, *image_root, *label_pattern, *group_column, *group_pattern;
    LS_RESERVED(8);
} ls_dataset_config;

/* Opens the images at a path, whatever is there: a folder with train/ and val/ (or their other
 * names, or lists of these names: ls_split_find), of which it opens config's split; a folder of
 * class folders, alone or in another folder; MNIST's idx files; a pack; a CSV list, of which it
 * opens the rows of the split where a column divides them. config NULL = all defaults. Errors:
 * LS_ERR_DATA and others of the functions of data.h; LS_ERR_SETTING for a text of config that does
 * not fit the images. */
LS_API ls_dataset *ls_dataset_open(ls_context *ctx, const char *path,
                                   const ls_dataset_config *config);

/* Which images ls_dataset_open_for_model opened: if both are false, those for validation at the
 * path, or all of it. */
typedef struct ls_model_images {
    bool is_split; /* those that the model's training had split off the dataset at the path */
    bool is_other; /* all of the path, which is not the dataset that training had split */
    int64_t n_all; /* images at the path, before they were divided */
    LS_RESERVED(4);
} ls_model_images;

/* Opens the images at a path on which a saved model is evaluated: those for validation, or for
 * tests where there are no others; if the model's training split its validation images off this
 * dataset, those (ls_saved_model_validation_split); else all. Lists and names of files are read as
 * in training where `config` does not say otherwise, and the classes are those of the model. model
 * NULL, for weights that do not store their model: the classes are those found. Of config the split
 * and the classes are not read; NULL = all defaults. `images` may be NULL. Errors: those of
 * ls_dataset_open; LS_ERR_SETTING for images without what the model's loss reads, a class or
 * targets. */
LS_API ls_dataset *ls_dataset_open_for_model(ls_context *ctx, const char *path,
                                             const ls_dataset_config *config,
                                             const ls_saved_model *model, ls_model_images *images);

/* LS_ERR_DATA if files are missing that a list at `path` names, because they or the list were
 * moved: with their number, one of them and ls_context_hint. dataset: what was opened there. With
 * another on_bad_image than LS_BAD_IMAGE_FAIL it is a warning, unless all are missing. LS_OK for a
 * path without a list. */
LS_API ls_status ls_dataset_check_missing(ls_context *ctx, const char *path,
                                          const ls_dataset *dataset, ls_bad_image on_bad_image);

/* Checks the images at a path: of a list by ls_dataset_check_parts the parts into which a column of
 * splits divides it; of a folder with lists for training or validation, or with a label_pattern,
 * also by that, the parts that training reads; of another folder by ls_dataset_check all images, or
 * those of the only folder in it (ls_dataset_report_dir). Notes name parts without classes, which
 * are not checked, and other ways to read the folder. `dataset` is read for its texts alone, with
 * its group_pattern in place of that of `config`; both may be NULL. Errors: LS_ERR_SETTING for a
 * text that does not fit the path; LS_ERR_DATA for packs and idx files; those of both functions. */
LS_API ls_dataset_report *ls_dataset_check_path(ls_context *ctx, const char *path,
                                                const ls_dataset_config *dataset,
                                                const ls_dataset_check_config *config);

LS_END_DECLARATIONS

#endif
