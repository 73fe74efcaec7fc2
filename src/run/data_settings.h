/* data_settings.h: the settings that say how a list or the names of files are read, and the opening
 * of images with them. */
#ifndef LS_RUN_DATA_SETTINGS_H
#define LS_RUN_DATA_SETTINGS_H

#include <lockstep/dataset_path.h>

/* NULL = not given. */
typedef struct ls__data_settings {
    const char *csv_columns, *image_root, *label_pattern, *group_column, *group_pattern;
    ls_csv_config of_model; /* the columns of a checkpoint's list, where others are not given */
} ls__data_settings;

/* Sizes of a path, and of the name of a folder or list in a dataset. */
enum { LS__PATH_SIZE = 4096, LS__FOLDER_NAME_SIZE = 600 };

/* Whether the path is a CSV file, by its name. */
bool ls__is_csv(const char *path);

/* The name of the first setting that is given, or NULL. */
const char *ls__data_settings_first_given(const ls__data_settings *o);

/* Whether the settings can be used together. */
bool ls__data_settings_check(ls_context *ctx, const ls__data_settings *o);

/* Whether the settings fit what is at the path; else false with LS_ERR_SETTING. */
bool ls__data_settings_fit(ls_context *ctx, const char *path, const ls__data_settings *o);

/* How the images at a path are opened. */
typedef struct ls__data_opening {
    const ls__data_settings *settings; /* NULL: none */
    ls_csv_rows rows;                  /* of a CSV list */
    bool in_groups;                    /* to be divided: with the groups of the settings */
    int n_classes;                     /* 0, with classes NULL: those found */
    const char *const *classes;
} ls__data_opening;

/* Opens a folder, a pack or a CSV file. LS_ERR_SETTING for settings that do not fit it. */
ls_dataset *ls__data_open(ls_context *ctx, const char *path, const ls__data_opening *how);

/* LS_ERR_DATA says how many images of a list are not there, because it was moved without them or
 * its paths are wrong, unless the others can be used; what: "training". skips: missing images are
 * replaced; then it is a warning. */
ls_status ls__data_check_missing(ls_context *ctx, const char *dir, const ls_dataset *data,
                                 const char *what, bool skips);

/* How many rows a list has of each split by its column of splits; false if it has none, or can't be
 * read, which opening it reports. */
bool ls__data_count_splits(const char *path, const ls__data_settings *o,
                           int64_t counts[LS_N_SPLITS]);

/* Adds to an error about the columns of a list the setting that chooses them, unless it has a hint.
 */
void ls__data_hint_columns(ls_context *ctx);

/* The column that the library's message about a list takes for that of the classes, if it names
 * one. */
enum { LS__COLUMN_SIZE = 128 };
bool ls__guessed_column(const char *message, char column[LS__COLUMN_SIZE]);

/* The settings of lists and names of files that a program gives; config NULL: none. */
ls__data_settings ls__data_settings_of(const ls_dataset_config *config);

#endif
