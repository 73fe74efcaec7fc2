/* csv_header.c: which columns of a CSV list hold images, labels, splits and groups, by their names
 * or as a caller names them: see csv.h. */
#include "data/dataset/lists/csv.h"

#include "base/error.h"
#include "base/text.h"
#include <string.h>
#include <strings.h>

/* ---- Columns ---- */

/* The first fields of the row that was read last: "'path', 'label'". */
enum { FIELDS_TEXT_SIZE = 512 };
static const char *fields_text(const ls__csv *c, char buffer[FIELDS_TEXT_SIZE])
{
    enum { MAX_NAMES = 8 };
    ls__text text = { buffer, FIELDS_TEXT_SIZE, 0 };
    for (int i = 0; i < c->n_fields && i < MAX_NAMES; i++)
        ls__text_put(&text, "%s'%.*s'", i > 0 ? ", " : "", LS__CUT(c->fields[i], 40));
    if (c->n_fields > MAX_NAMES) ls__text_put(&text, ", ... (%d in all)", c->n_fields);
    return buffer;
}

static ls_status fail_column(const ls__csv *c, const char *member, const char *given)
{
    char text[FIELDS_TEXT_SIZE];
    return ls__csv_fail(c, LS_ERR_DATA, "no column '%s' (%s); found %s", given, member,
                        fields_text(c, text));
}

/* given: a number, or a name. A number is never a name, because the first row may be data. */
static ls_status find_given(const ls__csv *c, const char *member, const char *given, int *out,
                            bool *is_named)
{
    *out = -1;
    if (!given) return LS_OK;
    const int number = ls__parse_digits(given, 4);
    if (number == 0)
        return ls__csv_fail_file(c, LS_ERR_INVALID, "column 0 (%s); expected 1 or more", member);
    if (number > 0 && number <= c->n_fields) *out = number - 1;
    for (int i = 0; number < 0 && i < c->n_fields; i++) {
        if (strcasecmp(c->fields[i], given) != 0) continue;
        if (*out >= 0)
            return ls__csv_fail(c, LS_ERR_DATA, "two columns '%s'; expected a number (%s)", given,
                                member);
        *out = i;
        *is_named = true;
    }
    return *out >= 0 ? LS_OK : fail_column(c, member, given);
}

/* The columns of the config, -1 where it has none; those of splits and groups are set in c.
 * *is_named: one of them is a name. */
static ls_status find_columns(ls__csv *c, int *path, int *label, bool *is_named)
{
    const ls_csv_config *g = c->config;
    const struct {
        const char *member, *given;
        int *column;
    } all[] = { { "path_column", g->path_column, path },
                { "label_column", g->label_column, label },
                { "split_column", g->split_column, &c->split_column },
                { "group_column", g->group_column, &c->group_column } };
    enum { N = sizeof(all) / sizeof(all[0]) };
    for (int i = 0; i < N; i++)
        LS_TRY(find_given(c, all[i].member, all[i].given, all[i].column, is_named));
    /* Groups may be those of the labels. */
    for (int i = 1; i < N - 1; i++)
        for (int k = 0; k < i; k++)
            if (*all[i].column >= 0 && *all[i].column == *all[k].column)
                return ls__csv_fail_file(c, LS_ERR_INVALID, "%s and %s are both column %d",
                                         all[k].member, all[i].member, *all[i].column + 1);
    c->is_split_given = c->split_column >= 0;
    return LS_OK;
}

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
            return ls__csv_fail(c, LS_ERR_DATA, "two columns '%s'", c->fields[column]);
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
    char text[FIELDS_TEXT_SIZE];
    const int guess = guess_label(c, path);
    static const char of_labels[] =
        "that of the classes 'label' (several in each row: 'labels'; numbers: 'target')";
    fields_text(c, text);
    if (path >= 0)
        return ls__csv_fail(c, LS_ERR_DATA,
                            "a header with the columns %s; '%s' has the images; name %s, or choose "
                            "it%s%s%s (label_column)",
                            text, c->fields[path], of_labels, guess >= 0 ? ", such as '" : "",
                            guess >= 0 ? c->fields[guess] : "", guess >= 0 ? "'" : "");
    if (label >= 0)
        return ls__csv_fail(c, LS_ERR_DATA,
                            "a header with the columns %s; '%s' has the labels; name the column of "
                            "the images 'path', or choose it (path_column)",
                            text, c->fields[label]);
    return ls__csv_fail(c, LS_ERR_DATA,
                        "a header with the columns %s; name the column of the images 'path', and "
                        "%s, or choose them (path_column, label_column)",
                        text, of_labels);
}

/* The label column is `label`, or where that is below 0 that of the usual names. */
static void set_label(ls__csv *c, first_rows *f, int label)
{
    f->class = f->labels = -1;
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

static void set_columns(ls__csv *c, const first_rows *f, int class)
{
    c->kind = class >= 0 ? LS__CSV_CLASS : f->labels >= 0 ? LS__CSV_LABELS : LS__CSV_NUMBERS;
    c->path_column = f->path;
    c->label_column = class >= 0 ? class : f->labels;
    c->n_columns = c->n_fields;
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
    set_columns(c, f, class);
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
    first_rows f = { .path = find_column(c, N_SURE_PATHS, path_names) };
    set_label(c, &f, -1);
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

ls_status ls__csv_read_given_header(ls__csv *c)
{
    int path = -1, label = -1;
    bool is_named = false;
    LS_TRY(find_columns(c, &path, &label, &is_named));
    first_rows f = { .path = path };
    set_label(c, &f, label);
    LS_TRY(ls__csv_list_folders(c));
    LS_TRY(examine(c, &f));
    if (path < 0) f.path = find_path(c, &f);
    const int group = c->group_column;
    if (f.path < 0 && group >= 0 && f.n_rows > 0 &&
        (f.n_there[group] == f.n_rows || f.n_named[group] == f.n_rows))
        return ls__csv_fail(c, LS_ERR_DATA,
                            "column %d (group_column) has the images; expected a column with the "
                            "same field in the rows of a group",
                            group + 1);
    if (f.path >= 0 && f.class < 0 && f.labels < 0 && f.n_targets == 0) f.class = find_other(c, &f);
    if (f.path < 0 || label_of(c, &f) < 0) return fail_header(c, f.path, label_of(c, &f));
    const bool rows_have_images = f.n_rows > 0 && f.n_there[f.path] == f.n_rows;
    c->has_header = is_named || (!ls__csv_is_image(c, c->fields[f.path]) &&
                                 (rows_have_images || find_usual(c, &f, true) == f.path));
    set_columns(c, &f, f.class);
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
            return ls__csv_fail(c, LS_ERR_MISMATCH, "no column of numbers '%s'", c->given[i]);
        columns[i] = c->target_columns[k];
    }
    memcpy(c->target_columns, columns, (size_t)c->n_given * sizeof(*columns));
    c->n_targets = c->n_given;
    return LS_OK;
}

/* ---- The column of splits ---- */

void ls__csv_find_split_column(ls__csv *c)
{
    static const char *const names[] = { "split", "subset", "partition", "set" };
    enum { N = sizeof(names) / sizeof(names[0]) };
    for (int k = 0; k < N && c->has_header && c->split_column < 0; k++)
        for (int i = 0; i < c->n_fields && c->split_column < 0; i++)
            if (i != c->path_column && i != c->label_column &&
                strcasecmp(c->fields[i], names[k]) == 0)
                c->split_column = i;
}

ls_status ls__csv_selects_row(ls__csv *c, bool *selected)
{
    const ls_csv_rows rows = c->config->rows;
    *selected = rows == LS_CSV_ROWS_ALL && !c->counts;
    if (c->split_column < 0 && rows != LS_CSV_ROWS_ALL)
        return ls__csv_fail_file(c, LS_ERR_DATA,
                                 "no column of splits, such as 'split' (split_column)");
    if (c->split_column < 0) return LS_OK;
    ls_split split;
    const char *field = c->fields[c->split_column];
    if (!ls_split_of_name(field, &split)) {
        c->has_unknown_split = true;
        if (rows == LS_CSV_ROWS_ALL && !c->is_split_given) return LS_OK;
        return ls__csv_fail(c, LS_ERR_DATA,
                            "'%s' is no split; expected one such as 'train', 'val' or 'test'",
                            field);
    }
    c->splits_seen |= 1U << split;
    if (c->counts) c->counts[split]++;
    if (rows != LS_CSV_ROWS_ALL) *selected = (int)split == (int)rows - LS_CSV_ROWS_TRAIN;
    return LS_OK;
}
