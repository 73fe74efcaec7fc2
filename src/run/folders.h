/* folders.h: finding the training and validation images in a folder. */
#ifndef LS_RUN_FOLDERS_H
#define LS_RUN_FOLDERS_H

#include "run/data_settings.h"

/* DIR may be a pack in all of these. Where images are opened, DIR may be a CSV file, which holds
 * training images. Its folders and CSV files are those of ls_split_find. `o` may be NULL. MNIST's
 * idx files are read as training and validation data. */

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

/* Whether DIR has a folder or CSV file of the split, or for tests MNIST's t10k files; copies its
 * path below DIR. */
bool ls__folders_has(const char *dir, ls_split split, char name[LS__FOLDER_NAME_SIZE]);

/* The path of the images of a split below the folder DIR: with --label-pattern a folder, no list.
 * LS_ERR_NOT_FOUND, without an error, where there are none; LS_ERR_IO for a folder that can't be
 * read. `o` and ctx may be NULL. */
ls_status ls__folders_find_split(ls_context *ctx, const char *dir, ls_split split,
                                 const ls__data_settings *o, char path[LS__PATH_SIZE],
                                 ls_split_kind *kind);

/* DIR itself, or with a note that begins with "DIR: DOES" the folder that stands for it. */
void ls__folders_take_whole(ls_context *ctx, const char *dir, const char *does,
                            char path[LS__PATH_SIZE]);

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

/* ---- Lists and names of files with classes in a folder: folders_lists.c, folders_hints.c ---- */

/* Counts the folders in DIR that have training images, which DIR is one level above; path: that of
 * the first one by name. */
int ls__folders_find_nested(const char *dir, char path[LS__PATH_SIZE]);

/* LS_ERR_DATA, with what to do, for boxes and for several folders that hold splits each. */
ls_status ls__folders_check_nested(ls_context *ctx, const char *dir, int n_nested,
                                   const char *nested);

/* DIR can be read and holds no folders, so no classes. */
bool ls__folders_is_flat(const char *dir);

/* DIR is "ABOVE/train", so one level too low. */
bool ls__folders_find_above(const char *dir, char path[LS__PATH_SIZE]);

/* The first list in the folder DIR, by strcmp, whose images are there: "DIR/labels.csv". False:
 * there is none. */
bool ls__folders_find_list(const char *dir, char path[LS__PATH_SIZE]);
/* All of them with the settings that they require, for --data-dir: "DIR/a.csv or DIR/b.csv
 * --csv-columns 'label=kind'"; without any the first file that is a list by its name. divides: also
 * " --val-split 0.2" where a list has no column of splits. */
bool ls__folders_find_list_words(const char *dir, bool divides, char words[LS__PATH_SIZE]);
/* Writes those of the lists in the folder DIR or the one above it whose first image is in DIR. */
bool ls__folders_find_lists_of(const char *dir, bool divides, char words[LS__PATH_SIZE]);

/* A --label-pattern by which the names of all images in the flat folder DIR have two classes or
 * more, and several images of each on average; NULL: none is found. Static. */
const char *ls__folders_find_pattern(const char *dir);

/* For a flat folder DIR without class folders: adds that pattern to the error, else an example.
 * divides: with --val-split. */
void ls__folders_hint_pattern(ls_context *ctx, const char *dir, bool divides);

/* The folder that stands for DIR: the only one in it, where that holds folders; else DIR. */
void ls__folders_unwrap(const char *dir, char path[LS__PATH_SIZE]);

/* ---- MNIST's files: folders_idx.c ---- */

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
