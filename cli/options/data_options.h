/* data_options.h: the options that say how a list or the names of files are read, and the opening
 * of images with them. */
#ifndef LS_CLI_OPTIONS_DATA_OPTIONS_H
#define LS_CLI_OPTIONS_DATA_OPTIONS_H

#include "cli.h"

/* NULL = not given. */
typedef struct data_options {
    const char *csv_columns, *image_root, *label_pattern, *group_column, *group_pattern;
    ls_csv_config of_model; /* the columns of a checkpoint's list, where others are not given */
} data_options;

/* Rows of an option table; `values` is the command's struct, with data_options `member`. */
#define DATA_OPTIONS(values, member) LIST_OPTIONS(values, member), GROUP_OPTIONS(values, member)

/* Those that say which images and classes there are. */
#define LIST_OPTIONS(values, member)                                                               \
    { OPTION_TEXT,                                                                                 \
      0,                                                                                           \
      "csv-columns",                                                                               \
      offsetof(values, member.csv_columns),                                                        \
      "columns of CSV lists by name or number: path=NAME,label=NAME,split=NAME,group=NAME; those " \
      "that are left out are recognized",                                                          \
      "COLUMNS",                                                                                   \
      .note = "recognized",                                                                        \
      .optional = true,                                                                            \
      .images = true },                                                                            \
        { OPTION_TEXT,                                                                             \
          0,                                                                                       \
          "image-root",                                                                            \
          offsetof(values, member.image_root),                                                     \
          "folder that the relative paths of CSV lists begin in",                                  \
          "DIR",                                                                                   \
          .note = "that of the list",                                                              \
          .execution = true,                                                                       \
          .optional = true,                                                                        \
          .images = true },                                                                        \
    {                                                                                              \
        OPTION_TEXT, 0, "label-pattern", offsetof(values, member.label_pattern),                   \
            "the class of an image is what the group of this POSIX extended regular expression "   \
            "matches in its path below the folder: '([a-z]+)[.][0-9]+' for cat.12.jpg",            \
            "REGEX", .note = "none: class folders", .optional = true, .images = true               \
    }

/* Those that say which images stay together. */
#define GROUP_OPTIONS(values, member)                                                              \
    { OPTION_TEXT,                                                                                 \
      0,                                                                                           \
      "group-column",                                                                              \
      offsetof(values, member.group_column),                                                       \
      "column of a CSV list, such as 'patient': images with the same field stay together in "      \
      "--val-split; given validation images are checked for it",                                   \
      "NAME",                                                                                      \
      .note = "none",                                                                              \
      .optional = true,                                                                            \
      .images = true },                                                                            \
    {                                                                                              \
        OPTION_TEXT, 0, "group-pattern", offsetof(values, member.group_pattern),                   \
            "images stay together if the group of this regular expression matches the same text "  \
            "in their paths: '(patient[0-9]+)_'; as --group-column",                               \
            "REGEX", .note = "none", .optional = true, .images = true                              \
    }

/* Whether the path is a CSV file, by its name. */
bool data_is_csv(const char *path);

/* The name of the first option that is given, or NULL. */
const char *data_options_given(const data_options *o);

/* Whether the options can be used together; else prints why not. */
bool data_options_check(const data_options *o);

/* How the images at a path are opened. */
typedef struct data_opening {
    const data_options *options; /* NULL: none */
    ls_csv_rows rows;            /* of a CSV list */
    bool in_groups;              /* to be divided: with the groups of the options */
    int n_classes;               /* 0, with classes NULL: those found */
    const char *const *classes;
} data_opening;

/* Opens a folder, a pack or a CSV file. On failure prints nothing but wrong options, and returns
 * NULL. */
ls_dataset *data_open(ls_context *ctx, const char *path, const data_opening *how);

/* Prints how many images of a list are not there, because it was moved without them or its paths
 * are wrong; what: "training". Returns whether the others can be used. skips: missing images are
 * replaced. */
bool data_check_missing(const char *dir, const ls_dataset *data, const char *what, bool skips);

/* How many rows a list has of each split by its column of splits; false if it has none, or can't be
 * read, which opening it reports. */
bool data_count_splits(const char *path, const data_options *o, int64_t counts[LS_N_SPLITS]);

#endif
