/* folders_hints.h: which folder was meant, where one holds no training images. */
#ifndef LS_RUN_FOLDERS_HINTS_H
#define LS_RUN_FOLDERS_HINTS_H

#include "run/data_settings.h"

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

#endif
