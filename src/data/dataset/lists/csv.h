/* csv.h: what the files that read a CSV list share: its rows, and the names of its paths. */
#ifndef LS_DATA_DATASET_LISTS_CSV_H
#define LS_DATA_DATASET_LISTS_CSV_H

#include "base/bump.h"
#include "data/dataset/dataset.h"
#include "data/dataset/label_order.h"

/* Folders: the first ones are searched, because each costs time for each name without a file. */
enum { LS__CSV_MAX_FIELDS = 64, LS__CSV_MAX_FOLDERS = 1024 };

typedef enum ls__csv_kind { LS__CSV_CLASS, LS__CSV_LABELS, LS__CSV_NUMBERS } ls__csv_kind;

typedef struct ls__csv_row {
    int64_t line, end; /* end: where its labels end in the list of all */
} ls__csv_row;

typedef struct ls__csv {
    ls_context *ctx;
    const char *path, *name; /* name: of the file, without its folder */
    const ls_csv_config *config;
    unsigned char *bytes; /* a field is unquoted and terminated where it stands */
    char *at, *end;
    char separator;
    const char *last_blank; /* the separator of the row where that is a blank */
    int64_t line;           /* of the row, from 1 */
    int64_t next_line;      /* of `at` */
    int n_fields;           /* of the row */
    char *fields[LS__CSV_MAX_FIELDS];

    bool has_header;
    ls__csv_kind kind;
    int path_column, label_column, n_columns;
    int n_targets, target_columns[LS__CSV_MAX_FIELDS]; /* of LS__CSV_NUMBERS */
    int split_column, group_column;                    /* -1: there is none */
    /* The fields of a header, or NULL. A row that repeats the first two is skipped. */
    char *header_path, *header_label, *header_split, *header_group;
    char *unused_group; /* by its name a column of groups, which was not chosen; or NULL */
    int64_t *counts;    /* LS_N_SPLITS: rows are only counted; else NULL */
    bool is_split_given, has_unknown_split;
    unsigned splits_seen; /* bit s: a row of split s */
    const char *root;     /* begins with the folder of relative paths, "images/", */
    size_t root_length;   /* of so many bytes */
    bool is_absolute;     /* a path of the list is */
    /* Where the images may be: the root, "", and the folders in it: "images/". */
    const char **folders;
    int n_folders, n_split_folders; /* those called like the list's split come after "" */
    const char *folder;             /* the one that has the first image that is there */
    int n_tried;                    /* images that no folder has, before `folder` was found */
    bool is_folder_found;

    /* The names that the caller gave, or NULL. */
    int n_given;
    const char *const *given;
    int n_labels;
    ls__label *known; /* sorted by name. Before the rows are read: those given, or NULL */

    ls__text_list images;
    ls__text_list labels; /* of LS__CSV_CLASS one in each row */
    ls__text_list groups; /* one in each row, if there is a column */
    ls__bump bump;        /* of the arrays below */
    ls__csv_row *rows;
    float *numbers; /* of LS__CSV_NUMBERS: n_targets in each row */
    size_t row_capacity, number_capacity;
} ls__csv;

/* An error of the row that was read last: "csv file 'PATH', line 3: ...", or of the file. */
ls_status ls__csv_fail(const ls__csv *c, ls_status status, const char *format, ...) LS_PRINTF(3, 4);
ls_status ls__csv_fail_file(const ls__csv *c, ls_status status, const char *format, ...)
    LS_PRINTF(3, 4);

/* Opens the file, reads all rows into the lists above. */
ls_status ls__csv_read(ls__csv *c);

char ls__csv_find_separator(const ls__csv *c);
/* The next row that is not empty; false in *found at the end of the file. */
ls_status ls__csv_read_row(ls__csv *c, bool *found);
/* Sets the columns, and has_header if the row that was read is one. */
ls_status ls__csv_read_header(ls__csv *c);
/* The same where the config has columns. */
ls_status ls__csv_read_given_header(ls__csv *c);
/* Finds the column of splits by its name, unless the config has one. */
void ls__csv_find_split_column(ls__csv *c);
/* A field of the header whose name is one of groups, such as "patient_id"; NULL: there is none. */
char *ls__csv_find_group_name(const ls__csv *c);
/* Whether the row is of the splits that are read. */
ls_status ls__csv_selects_row(ls__csv *c, bool *selected);
/* Makes the names of the columns of numbers the labels; with given names, finds their columns. */
ls_status ls__csv_choose_targets(ls__csv *c);

/* Whether the config has columns. */
static inline bool ls__csv_has_columns(const ls__csv *c)
{
    const ls_csv_config *g = c->config;
    return g->path_column || g->label_column || g->split_column || g->group_column;
}

ls_status ls__csv_list_folders(ls__csv *c);
/* True if the field has an image's extension. */
bool ls__csv_is_image_name(const char *field);
/* True if it has one, or names an image that is there. */
bool ls__csv_is_image(const ls__csv *c, const char *field);
/* Adds the image that a field names, which may be changed. */
ls_status ls__csv_add_image(ls__csv *c, char *field);

ls_status ls__csv_set_labels(ls__csv *c, int n, const char *const *names);
/* NULL if it is not among them. */
const ls__label *ls__csv_find_label(const ls__csv *c, const char *name);

/* roots[i]: the bytes of path i before its name, where some paths are absolute. Below the
 * folder of relative paths the name is that of such a path; else what follows the deepest folder
 * that all such paths share. So neither depends on where the data lie, or how `path` was typed. */
ls_status ls__csv_find_roots(const ls__csv *c, int64_t n, const char *const *paths,
                             uint32_t *roots);

#endif
