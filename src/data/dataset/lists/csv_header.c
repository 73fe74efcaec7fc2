/* csv_header.c: which columns of a CSV list hold images and labels: see csv.h. */
#include "data/dataset/lists/csv.h"

#include "base/error.h"
#include "base/text.h"
#include <string.h>
#include <strings.h>

/* ---- Columns ---- */

/* The first column of the row with one of the n names, in any case; -1: none. */
static int find_column(const ls__csv *c, int n, const char *const *names)
{
    for (int i = 0; i < c->n_fields; i++)
        for (int k = 0; k < n; k++)
            if (strcasecmp(c->fields[i], names[k]) == 0) return i;
    return -1;
}

static bool is_target(const char *name)
{
    static const char prefix[] = "target_";
    return strcasecmp(name, "target") == 0 || strncasecmp(name, prefix, strlen(prefix)) == 0;
}

/* Names are compared in any case, except for targets. */
static ls_status check_unique(const ls__csv *c, int column)
{
    int (*const compare)(const char *, const char *) =
        c->kind == LS__CSV_NUMBERS && column != c->path_column ? strcmp : strcasecmp;
    for (int i = 0; i < c->n_fields; i++)
        if (i != column && compare(c->fields[i], c->fields[column]) == 0)
            return ls__fail(c->ctx, LS_ERR_DATA, "csv file '%s', line %lld: two columns '%s'",
                            c->path, (long long)c->line, c->fields[column]);
    return LS_OK;
}

/* A column that the config has is the one that is meant, although another one has its name. */
static ls_status check_columns(const ls__csv *c)
{
    if (!c->config->path_column) LS_TRY(check_unique(c, c->path_column));
    if (c->config->label_column) return LS_OK;
    if (c->kind != LS__CSV_NUMBERS) return check_unique(c, c->label_column);
    for (int i = 0; i < c->n_targets; i++) LS_TRY(check_unique(c, c->target_columns[i]));
    return LS_OK;
}

/* ---- The header ---- */

/* In the order of preference. The first four are a header beside a column of labels, whatever the
 * rows hold. */
enum { N_SURE_PATHS = 4, N_SURE_CLASSES = 2 };
static const char *const path_names[] = {
    "path",      "file",       "filename",  "image",      "file_name", "filepath",   "file_path",
    "file name", "image_path", "imagepath", "image_name", "imagename", "image name", "image_file",
    "img_path",  "img_name",   "image_id",  "imageid",    "image id",  "img",        "id",
};
static const char *const class_names[] = { "label",      "class",      "category", "class_name",
                                           "class name", "label_name", "class_id", "classid" };
static const char *const labels_names[] = { "labels" };
enum {
    N_PATH_NAMES = sizeof(path_names) / sizeof(path_names[0]),
    N_CLASS_NAMES = sizeof(class_names) / sizeof(class_names[0]),
    N_EXAMINED = 16, /* rows after the first one */
    EXAMINED_BYTES = 1 << 16
};

/* Prefers the first n_sure names. */
static int find_named(const ls__csv *c, int n_sure, int n, const char *const *names)
{
    const int sure = find_column(c, n_sure, names);
    return sure >= 0 ? sure : find_column(c, n - n_sure, names + n_sure);
}

/* What the first row says, and the rows after it. Columns are -1 where there is none. */
typedef struct first_rows {
    int class, labels, n_targets; /* by their names in the first row */
    int path;                     /* of the images */
    int n_rows;
    /* In how many of the rows a column has an image by its extension, or by being there; and
     * whether one of them has the field of the first row. */
    int n_named[LS__CSV_MAX_FIELDS], n_there[LS__CSV_MAX_FIELDS];
    bool recurs[LS__CSV_MAX_FIELDS];
} first_rows;

/* Counts the images in the columns of the rows after the first one. The rows are copied, because
 * reading them changes them, and their errors are those of a later pass. */
static ls_status examine(const ls__csv *c, first_rows *f)
{
    ls_context silent = { .allocator = c->ctx->allocator };
    const size_t left = (size_t)(c->end - c->at);
    const size_t n = left < EXAMINED_BYTES ? left : EXAMINED_BYTES;
    char *copy = ls__alloc(c->ctx, n + 1);
    if (!copy) return ls__fail_memory(c->ctx, c->path, n);
    memcpy(copy, c->at, n);
    copy[n] = '\0';
    ls__csv rows = *c;
    rows.ctx = &silent;
    rows.at = copy;
    rows.end = copy + n;
    for (bool found = true; found && f->n_rows < N_EXAMINED; f->n_rows += found) {
        if (ls__csv_read_row(&rows, &found) != LS_OK || (n < left && rows.at >= rows.end)) break;
        for (int i = 0; found && i < rows.n_fields && i < c->n_fields; i++) {
            f->n_named[i] += ls__csv_is_image_name(rows.fields[i]);
            f->n_there[i] += ls__csv_is_image(c, rows.fields[i]);
            f->recurs[i] |= strcmp(rows.fields[i], c->fields[i]) == 0;
        }
    }
    ls__free(c->ctx, copy);
    return LS_OK;
}

/* Whether the column holds no images, by its name or the config. */
static bool is_label(const ls__csv *c, const first_rows *f, int column)
{
    bool found = column == f->class || column == f->labels || column == c->split_column ||
                 column == c->group_column;
    for (int i = 0; i < f->n_targets; i++) found |= column == c->target_columns[i];
    return found;
}

/* The first column of the usual names whose rows have images; with `any` of all usual names. */
static int find_usual(const ls__csv *c, const first_rows *f, bool any)
{
    for (int k = 0; k < N_PATH_NAMES; k++) {
        const int i = find_column(c, 1, &path_names[k]);
        if (i >= 0 && !is_label(c, f, i) && (any || (f->n_rows > 0 && f->n_there[i] == f->n_rows)))
            return i;
    }
    return -1;
}

/* The column of images in all rows, of those that have no name of labels; *n: how many there are.
 * Extensions count more than files that are there, because numbers may be names of files. */
static int find_images(const ls__csv *c, const first_rows *f, int *n)
{
    int found = -1;
    *n = 0;
    for (int named = 1; named >= 0 && *n == 0 && f->n_rows > 0; named--)
        for (int i = 0; i < c->n_fields; i++) {
            if (is_label(c, f, i) || (named ? f->n_named : f->n_there)[i] < f->n_rows) continue;
            if ((*n)++ == 0) found = i;
        }
    return found;
}

/* Whether the name begins with one of n words. */
static bool begins_with(const char *name, int n, const char *const *words)
{
    for (int i = 0; i < n; i++)
        if (strncasecmp(name, words[i], strlen(words[i])) == 0) return true;
    return false;
}

static bool is_group_name(const char *name)
{
    static const char *const words[] = { "patient", "group", "subject", "video", "camera" };
    return begins_with(name, (int)(sizeof(words) / sizeof(words[0])), words);
}

char *ls__csv_find_group_name(const ls__csv *c)
{
    for (int i = 0; i < c->n_fields; i++)
        if (i != c->path_column && i != c->label_column && is_group_name(c->fields[i]))
            return c->fields[i];
    return NULL;
}

/* The only column that may have the classes: not the images, and by its name no split and no group;
 * -1: there is none, or several. For a message alone. */
static int guess_label(const ls__csv *c, int path)
{
    static const char *const splits[] = { "split", "set", "subset", "fold", "partition" };
    const int n_splits = (int)(sizeof(splits) / sizeof(splits[0]));
    int found = -1;
    for (int i = 0; i < c->n_fields; i++) {
        if (i == path || i == c->split_column || i == c->group_column ||
            begins_with(c->fields[i], n_splits, splits) || is_group_name(c->fields[i]))
            continue;
        if (found >= 0) return -1;
        found = i;
    }
    return found;
}

/* A header that is not understood: which columns it has, and which are missing. path, label: those
 * that were found, or -1. */
static ls_status fail_header(const ls__csv *c, int path, int label)
{
    char text[LS__CSV_FIELDS_TEXT_SIZE];
    const int guess = guess_label(c, path);
    static const char of_labels[] =
        "that of the classes 'label' (several in each row: 'labels'; numbers: 'target')";
    ls__csv_fields_text(c, text);
    if (path >= 0)
        return ls__fail(c->ctx, LS_ERR_DATA,
                        "csv file '%s', line %lld: a header with the columns %s; '%s' has the "
                        "images; name %s, or choose it%s%s%s (label_column)",
                        c->path, (long long)c->line, text, c->fields[path], of_labels,
                        guess >= 0 ? ", such as '" : "", guess >= 0 ? c->fields[guess] : "",
                        guess >= 0 ? "'" : "");
    if (label >= 0)
        return ls__fail(c->ctx, LS_ERR_DATA,
                        "csv file '%s', line %lld: a header with the columns %s; '%s' has the "
                        "labels; name the column of the images 'path', or choose it (path_column)",
                        c->path, (long long)c->line, text, c->fields[label]);
    return ls__fail(c->ctx, LS_ERR_DATA,
                    "csv file '%s', line %lld: a header with the columns %s; name the column of "
                    "the images 'path', and %s, or choose them (path_column, label_column)",
                    c->path, (long long)c->line, text, of_labels);
}

/* The column of labels that was found, or -1. */
static int label_of(const ls__csv *c, const first_rows *f)
{
    return f->class >= 0      ? f->class
           : f->labels >= 0   ? f->labels
           : f->n_targets > 0 ? c->target_columns[0]
                              : -1;
}

/* "labels_2" and "targets" are not taken for names of classes. */
static bool is_near_miss(const char *name)
{
    return strncasecmp(name, "label", 5) == 0 || strncasecmp(name, "target", 6) == 0;
}

static ls_status use_header(ls__csv *c, const first_rows *f)
{
    const int other = c->n_fields == 2 ? 1 - f->path : -1; /* the only other column */
    int class = f->class;
    if (class < 0 && f->labels < 0 && f->n_targets == 0) {
        if (other < 0 || is_near_miss(c->fields[other])) return fail_header(c, f->path, -1);
        class = other;
    }
    c->has_header = true;
    c->kind = class >= 0 ? LS__CSV_CLASS : f->labels >= 0 ? LS__CSV_LABELS : LS__CSV_NUMBERS;
    c->path_column = f->path;
    c->label_column = class >= 0 ? class : f->labels;
    c->n_columns = c->n_fields;
    return check_columns(c);
}

/* The first row is data if it has an image there, too, or the label of another row. */
static bool is_data(const ls__csv *c, const first_rows *f, int path)
{
    return ls__csv_is_image(c, c->fields[path]) || (c->n_fields == 2 && f->recurs[1 - path]);
}

/* Sets the columns and what they hold. The first row is a header if it names them in the usual way,
 * or if the rows after it have images in a column where it has none. */
ls_status ls__csv_read_header(ls__csv *c)
{
    first_rows f = { .class = find_named(c, N_SURE_CLASSES, N_CLASS_NAMES, class_names),
                     .labels = find_column(c, 1, labels_names),
                     .path = find_column(c, N_SURE_PATHS, path_names) };
    for (int i = 0; i < c->n_fields && f.class < 0 && f.labels < 0; i++)
        if (is_target(c->fields[i])) c->target_columns[f.n_targets++] = i;
    c->n_targets = f.n_targets;
    LS_TRY(ls__csv_list_folders(c));
    const bool has_labels = f.class >= 0 || f.labels >= 0 || f.n_targets > 0;
    if (has_labels && f.path >= 0) return use_header(c, &f);
    LS_TRY(examine(c, &f));
    f.path = find_usual(c, &f, false);
    if (f.path >= 0) return use_header(c, &f);
    int n_images;
    const int images = find_images(c, &f, &n_images);
    if (images >= 0 && !is_data(c, &f, images)) {
        f.path = images;
        return n_images == 1 ? use_header(c, &f) : fail_header(c, -1, label_of(c, &f));
    }
    f.path = find_usual(c, &f, true); /* the rows have no image that is there */
    if (images < 0 && (f.path == 0 || (f.path > 0 && has_labels))) return use_header(c, &f);
    c->n_targets = 0;
    c->n_columns = 2;
    c->path_column = images == 1 && c->n_fields == 2 ? 1 : 0;
    c->label_column = 1 - c->path_column;
    return LS_OK;
}

/* ---- Columns of the config ---- */

/* The column of images, where the config has none. */
static int find_path(const ls__csv *c, const first_rows *f)
{
    int n;
    const int sure = find_column(c, N_SURE_PATHS, path_names);
    if (sure >= 0 && !is_label(c, f, sure)) return sure;
    const int usual = find_usual(c, f, false);
    if (usual >= 0) return usual;
    const int images = find_images(c, f, &n);
    return n == 1 ? images : find_usual(c, f, true);
}

/* The only column that is not another one. */
static int find_other(const ls__csv *c, const first_rows *f)
{
    int found = -1, n = 0;
    for (int i = 0; i < c->n_fields; i++)
        if (i != f->path && !is_label(c, f, i) && n++ == 0) found = i;
    return n == 1 ? found : -1;
}

/* The label column is `label`, or that of the usual names. */
static void set_label(ls__csv *c, first_rows *f, int label)
{
    if (label < 0) {
        f->class = find_named(c, N_SURE_CLASSES, N_CLASS_NAMES, class_names);
        f->labels = find_column(c, 1, labels_names);
        for (int i = 0; i < c->n_fields && f->class < 0 && f->labels < 0; i++)
            if (is_target(c->fields[i])) c->target_columns[f->n_targets++] = i;
    } else if (is_target(c->fields[label])) {
        c->target_columns[f->n_targets++] = label;
    } else if (find_column(c, 1, labels_names) == label) {
        f->labels = label;
    } else {
        f->class = label;
    }
    c->n_targets = f->n_targets;
}

ls_status ls__csv_read_given_header(ls__csv *c)
{
    int path = -1, label = -1;
    bool is_named = false;
    LS_TRY(ls__csv_find_columns(c, &path, &label, &is_named));
    first_rows f = { .class = -1, .labels = -1, .path = path };
    set_label(c, &f, label);
    LS_TRY(ls__csv_list_folders(c));
    LS_TRY(examine(c, &f));
    if (path < 0) f.path = find_path(c, &f);
    const int group = c->group_column;
    if (f.path < 0 && group >= 0 && f.n_rows > 0 &&
        (f.n_there[group] == f.n_rows || f.n_named[group] == f.n_rows))
        return ls__fail(c->ctx, LS_ERR_DATA,
                        "csv file '%s', line %lld: column %d (group_column) has the images; "
                        "expected a column with the same field in the rows of a group",
                        c->path, (long long)c->line, group + 1);
    if (f.path >= 0 && f.class < 0 && f.labels < 0 && f.n_targets == 0) f.class = find_other(c, &f);
    if (f.path < 0 || label_of(c, &f) < 0) return fail_header(c, f.path, label_of(c, &f));
    const bool rows_have_images = f.n_rows > 0 && f.n_there[f.path] == f.n_rows;
    c->has_header = is_named || (!ls__csv_is_image(c, c->fields[f.path]) &&
                                 (rows_have_images || find_usual(c, &f, true) == f.path));
    c->kind = f.class >= 0 ? LS__CSV_CLASS : f.labels >= 0 ? LS__CSV_LABELS : LS__CSV_NUMBERS;
    c->path_column = f.path;
    c->label_column = f.class >= 0 ? f.class : f.labels;
    c->n_columns = c->n_fields;
    return c->has_header ? check_columns(c) : LS_OK;
}

ls_status ls__csv_choose_targets(ls__csv *c)
{
    const char *names[LS__CSV_MAX_FIELDS];
    for (int i = 0; i < c->n_targets; i++) names[i] = c->fields[c->target_columns[i]];
    if (!c->given) return ls__csv_set_labels(c, c->n_targets, names);
    int columns[LS__CSV_MAX_FIELDS];
    for (int i = 0; i < c->n_given; i++) {
        int k = 0;
        while (k < c->n_targets && strcmp(names[k], c->given[i]) != 0) k++;
        if (k == c->n_targets || i == LS__CSV_MAX_FIELDS)
            return ls__fail(c->ctx, LS_ERR_MISMATCH,
                            "csv file '%s', line %lld: no column of numbers '%s'", c->path,
                            (long long)c->line, c->given[i]);
        columns[i] = c->target_columns[k];
    }
    memcpy(c->target_columns, columns, (size_t)c->n_given * sizeof(*columns));
    c->n_targets = c->n_given;
    return LS_OK;
}
