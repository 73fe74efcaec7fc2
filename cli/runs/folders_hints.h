/* folders_hints.h: which folder was meant, where one holds no training images. */
#ifndef LS_CLI_RUNS_FOLDERS_HINTS_H
#define LS_CLI_RUNS_FOLDERS_HINTS_H

#include "runs/folders.h"

/* Counts the folders in DIR that have training images, which DIR is one level above; path: that of
 * the first one by name. */
int folders_find_nested(const char *dir, char path[PATH_SIZE]);

/* Prints what to do with boxes, and with several folders that hold splits each; false: DIR is none
 * of both. */
bool folders_print_nested(const char *dir, int n_nested, const char *nested);

/* DIR can be read and holds no folders, so no classes. */
bool folders_is_flat(const char *dir);

/* DIR is "ABOVE/train", so one level too low. */
bool folders_find_above(const char *dir, char path[PATH_SIZE]);

/* The first list (.csv, .tsv) in the folder DIR, by strcmp: "DIR/labels.csv". False:
 * there is none. */
bool folders_find_list(const char *dir, char path[PATH_SIZE]);
/* "DIR/labels.csv --csv-columns 'label=kind'": the same with the option that it requires. */
bool folders_find_list_words(const char *dir, char words[PATH_SIZE]);

/* A --label-pattern by which the names of all images in the flat folder DIR have 2 or more classes,
 * but several images of each on average; NULL: none is found. Static. */
const char *folders_find_pattern(const char *dir);

#endif
