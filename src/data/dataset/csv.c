/* csv.c: a list of image files and their classes in a CSV file (RFC 4180). */
#include "data/dataset/dataset.h"

#include "base/error.h"
#include "base/file.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { MAX_FIELDS = 64 };

/* A class's name and number. */
typedef struct csv_class {
    const char *name;
    int32_t label;
} csv_class;

typedef struct csv {
    ls_context *ctx;
    const char *path;
    unsigned char *bytes; /* a field is unquoted and terminated where it stands */
    char *at, *end;
    int64_t line;      /* of the row, from 1 */
    int64_t next_line; /* of `at` */
    int n_fields;      /* of the row */
    char *fields[MAX_FIELDS];
    int path_column, label_column, n_columns;
    size_t root_length; /* bytes of `path` up to the file's name */
    bool is_absolute;   /* a path of the list is */
    int n_classes;
    csv_class
        *classes; /* sorted by name. Before the rows are read: those that were given, or NULL */
    ls__text_list images, labels;
} csv;

static ls_status fail(const csv *c, const char *reason)
{
    return ls__fail(c->ctx, LS_ERR_DATA, "csv file '%s', line %lld: %s", c->path,
                    (long long)c->line, reason);
}

/* ---- Known classes ---- */

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static ls_status set_classes(csv *c, int n, const char *const *names)
{
    c->classes = ls__alloc(c->ctx, (size_t)n * sizeof(*c->classes));
    if (!c->classes) return ls__fail_memory(c->ctx, c->path, (size_t)n * sizeof(*c->classes));
    c->n_classes = n;
    for (int i = 0; i < n; i++) c->classes[i] = (csv_class){ names[i], i };
    qsort(c->classes, (size_t)n, sizeof(*c->classes), compare_texts); /* the name comes first */
    return LS_OK;
}

static const csv_class *find_class(const csv *c, const char *name)
{
    const csv_class key = { name, 0 };
    return bsearch(&key, c->classes, (size_t)c->n_classes, sizeof(key), compare_texts);
}

/* ---- Rows ---- */

/* Moves `at` behind the field, and terminates it. *last: it ends its row. */
static ls_status read_field(csv *c, char **out, bool *last)
{
    char *to = c->at;
    *out = to;
    if (c->at < c->end && *c->at == '"') {
        for (c->at++;; c->at++) {
            if (c->at >= c->end) return fail(c, "a quoted field without its closing quote");
            if (*c->at == '"' && (c->at + 1 >= c->end || c->at[1] != '"')) break;
            if (*c->at == '"') c->at++;
            if (*c->at == '\n') c->next_line++;
            *to++ = *c->at;
        }
        c->at++;
    } else {
        for (; c->at < c->end && !strchr(",\r\n", *c->at); c->at++) {
            if (*c->at == '"') return fail(c, "a quote inside a field that is not quoted");
            *to++ = *c->at;
        }
    }
    if (c->end - c->at >= 2 && c->at[0] == '\r' && c->at[1] == '\n') c->at++;
    *last = c->at >= c->end || *c->at == '\n';
    if (!*last && *c->at != ',')
        return fail(c, *c->at == '\r' ? "a carriage return inside a field that is not quoted"
                                      : "text after the closing quote of a field");
    c->next_line += *last;
    if (c->at < c->end) c->at++;
    *to = '\0'; /* in place of a quote, a comma or the end of the line, or after the file */
    return LS_OK;
}

/* The next row that is not empty; false in *found at the end of the file. */
static ls_status read_row(csv *c, bool *found)
{
    *found = false;
    while (!*found && c->at < c->end) {
        bool last = false;
        c->line = c->next_line;
        for (c->n_fields = 0; !last; c->n_fields++) {
            if (c->n_fields == MAX_FIELDS) return fail(c, "more than 64 fields");
            LS_TRY(read_field(c, &c->fields[c->n_fields], &last));
        }
        *found = c->n_fields > 1 || *c->fields[0];
    }
    return LS_OK;
}

/* ---- Columns ---- */

/* The first column of the row with one of the n names, in any case; -1: none. */
static int find_column(const csv *c, int n, const char *const *names)
{
    for (int i = 0; i < c->n_fields; i++)
        for (int k = 0; k < n; k++)
            if (strcasecmp(c->fields[i], names[k]) == 0) return i;
    return -1;
}

/* Whether the first row is a header, which then names the columns. */
static bool read_header(csv *c)
{
    static const char *const paths[] = { "path", "file", "filename", "image" };
    static const char *const labels[] = { "label", "class" };
    const int path = find_column(c, 4, paths), label = find_column(c, 2, labels);
    const bool is_header = path >= 0 && label >= 0;
    c->path_column = is_header ? path : 0;
    c->label_column = is_header ? label : 1;
    c->n_columns = is_header ? c->n_fields : 2;
    return is_header;
}

static ls_status add_row(csv *c)
{
    if (c->n_fields != c->n_columns)
        return ls__fail(c->ctx, LS_ERR_DATA, "csv file '%s', line %lld: %d field%s, expected %d%s",
                        c->path, (long long)c->line, c->n_fields, c->n_fields == 1 ? "" : "s",
                        c->n_columns, c->n_columns == 2 ? ": a path and a label" : "");
    const char *image = c->fields[c->path_column], *label = c->fields[c->label_column];
    if (!*image) return fail(c, "an empty path");
    if (!*label) return fail(c, "an empty label");
    if (c->classes && !find_class(c, label))
        return ls__fail(c->ctx, LS_ERR_MISMATCH,
                        "csv file '%s', line %lld: the label '%s' is not among the %d known "
                        "classes, such as '%s'",
                        c->path, (long long)c->line, label, c->n_classes, c->classes[0].name);
    const int root = *image == '/' ? 0 : (int)c->root_length;
    c->is_absolute = c->is_absolute || *image == '/';
    char *whole = ls__format(c->ctx, "%.*s%s", root, c->path, image);
    const bool good =
        whole && ls__text_list_add(&c->images, whole) && ls__text_list_add(&c->labels, label);
    ls__free(c->ctx, whole);
    return good ? LS_OK : ls__fail_memory(c->ctx, c->path, c->images.n_bytes);
}

static ls_status read_rows(csv *c)
{
    bool found;
    LS_TRY(read_row(c, &found));
    if (found && !read_header(c)) LS_TRY(add_row(c));
    while (found) {
        LS_TRY(read_row(c, &found));
        if (found) LS_TRY(add_row(c));
    }
    if (c->images.n > 0) return LS_OK;
    return ls__fail(c->ctx, LS_ERR_DATA, "csv file '%s': no rows with a path and a label", c->path);
}

static ls_status open_file(csv *c, ls_context *ctx, const char *path)
{
    char message[LS__MESSAGE_SIZE];
    size_t size;
    *c = (csv){ .ctx = ctx, .path = path, .next_line = 1, .images.ctx = ctx, .labels.ctx = ctx };
    const ls_status status =
        ls__read_file(ctx, path, LS__MAX_FILE_BYTES, &c->bytes, &size, message, sizeof(message));
    if (status != LS_OK) return ls__fail(ctx, status, "csv file '%s': %s", path, message);
    const char *slash = strrchr(path, '/');
    c->root_length = slash ? (size_t)(slash + 1 - path) : 0;
    c->at = (char *)c->bytes;
    c->end = c->at + size; /* a 0 byte is there */
    if (size >= 3 && memcmp(c->at, "\xef\xbb\xbf", 3) == 0) c->at += 3;
    const char *zero = memchr(c->at, '\0', (size_t)(c->end - c->at));
    c->line = 1;
    for (const char *at = c->at; zero && at < zero; at++) c->line += *at == '\n';
    return zero ? fail(c, "a 0 byte; expected text in UTF-8") : LS_OK;
}

/* ---- Classes ---- */

/* The value of a number without leading zeros; -1: another text, or a number of 10 digits. */
static int64_t number_of(const char *text)
{
    const size_t n = strlen(text);
    const bool good =
        n > 0 && n < 10 && strspn(text, "0123456789") == n && (*text != '0' || n == 1);
    return good ? atol(text) : -1;
}

static int compare_numbers(const void *a, const void *b)
{
    const int64_t x = number_of(*(const char *const *)a), y = number_of(*(const char *const *)b);
    return (x > y) - (x < y);
}

/* Sorts the labels of all rows, and keeps one of each. Returns how many. */
static int64_t sort_classes(int64_t n, const char **labels)
{
    bool are_numbers = true;
    for (int64_t i = 0; i < n; i++) are_numbers = are_numbers && number_of(labels[i]) >= 0;
    qsort(labels, (size_t)n, sizeof(*labels), are_numbers ? compare_numbers : compare_texts);
    int64_t n_classes = 0;
    for (int64_t i = 0; i < n; i++)
        if (i == 0 || strcmp(labels[i], labels[n_classes - 1]) != 0)
            labels[n_classes++] = labels[i];
    return n_classes;
}

/* The classes that were not given: those of the rows. */
static ls_status find_classes(csv *c, const char *const *texts, ls_dataset *dataset)
{
    const int64_t n = c->labels.n;
    const char **sorted = ls__alloc(c->ctx, (size_t)n * sizeof(*sorted));
    if (!sorted) return ls__fail_memory(c->ctx, c->path, (size_t)n * sizeof(*sorted));
    memcpy(sorted, texts, (size_t)n * sizeof(*sorted));
    const int64_t n_found = sort_classes(n, sorted);
    ls_status status = LS_OK;
    if (n_found > INT32_MAX)
        status = ls__fail(c->ctx, LS_ERR_UNSUPPORTED, "csv file '%s': too many classes", c->path);
    else if (!ls__dataset_name_classes(dataset, (int)n_found, sorted))
        status = ls__fail_memory(c->ctx, c->path, (size_t)n_found * sizeof(char *));
    if (status == LS_OK) status = set_classes(c, (int)n_found, sorted);
    ls__free(c->ctx, sorted);
    return status;
}

/* ---- Names of absolute paths ---- */

/* Bytes of an absolute path up to the CSV file's folder, with its slash; 0: it is not below it.
 * Folders are compared by inode, because links and mounts give a folder several paths. */
static ls_status find_folder(const csv *c, const struct stat *folder, const char *path, size_t *out)
{
    char *above = ls__strdup(c->ctx, path);
    if (!above) return ls__fail_memory(c->ctx, c->path, strlen(path));
    ls_status status = LS_OK;
    *out = 0;
    for (size_t n = 1; above[n - 1] && *out == 0 && status == LS_OK; n++) {
        struct stat there;
        if (above[n - 1] != '/') continue;
        const char next = above[n];
        above[n] = '\0';
        if (stat(above, &there) == 0)
            *out = there.st_ino == folder->st_ino && there.st_dev == folder->st_dev ? n : 0;
        else if (errno == ENOENT || errno == ENOTDIR || errno == EACCES)
            break;
        else
            status = ls__fail(c->ctx, LS_ERR_IO, "csv file '%s': '%s': %s", c->path, above,
                              strerror(errno));
        above[n] = next;
    }
    ls__free(c->ctx, above);
    return status;
}

/* Bytes up to the last slash, with it, in the first n. */
static size_t folder_length(const char *path, size_t n)
{
    while (n > 0 && path[n - 1] != '/') n--;
    return n;
}

/* The length of the part that both begin with. */
static size_t shared_length(const char *a, const char *b)
{
    size_t n = 0;
    while (a[n] && a[n] == b[n]) n++;
    return n;
}

/* roots[i]: the bytes of path i before its name, where some paths are absolute. Below the CSV
 * file's folder the name is that of a relative path; else what follows the deepest folder that all
 * such paths share. So neither depends on where the data lie, or how `path` was typed. */
static ls_status find_roots(const csv *c, int64_t n, const char *const *paths, uint32_t *roots)
{
    const char *inside = NULL, *outside = NULL; /* the last path of either kind */
    size_t inside_length = 0, shared = 0;
    struct stat folder;
    char *text = ls__format(c->ctx, "%.*s.", (int)c->root_length, c->path);
    if (!text) return ls__fail_memory(c->ctx, c->path, c->root_length);
    const int error = stat(text, &folder) == 0 ? 0 : errno;
    ls__free(c->ctx, text);
    if (error != 0)
        return ls__fail(c->ctx, LS_ERR_IO, "csv file '%s': its folder: %s", c->path,
                        strerror(error));
    for (int64_t i = 0; i < n; i++) {
        const char *path = paths[i];
        size_t root = c->root_length;
        if (*path == '/' && (root == 0 || strncmp(path, c->path, root) != 0)) {
            root = 0;
            if (inside && strncmp(path, inside, inside_length) == 0)
                root = inside_length;
            else if (!outside || shared_length(path, outside) < folder_length(path, strlen(path)))
                LS_TRY(find_folder(c, &folder, path, &root));
            if (root > 0) {
                inside = path;
                inside_length = root;
            } else {
                const size_t most = outside ? shared_length(path, outside) : strlen(path);
                shared = folder_length(path, outside && shared < most ? shared : most);
                outside = path;
            }
        }
        while (root > 0 && path[root] == '/') root++;
        roots[i] = (uint32_t)root;
    }
    for (int64_t i = 0; i < n; i++)
        if (*paths[i] == '/' && roots[i] == 0) roots[i] = (uint32_t)shared;
    return LS_OK;
}

static ls_status set_names(const csv *c, ls_dataset *dataset)
{
    const size_t bytes = (size_t)dataset->n_samples * sizeof(*dataset->root_lengths);
    dataset->root_length = c->root_length;
    if (!c->is_absolute) return LS_OK;
    dataset->root_lengths = ls__alloc(c->ctx, bytes);
    if (!dataset->root_lengths) return ls__fail_memory(c->ctx, c->path, bytes);
    return find_roots(c, dataset->n_samples, dataset->paths, dataset->root_lengths);
}

static ls_status fill(csv *c, ls_dataset *dataset, const char *const *given)
{
    const int64_t n = c->labels.n;
    const char **texts = ls__alloc(c->ctx, (size_t)n * sizeof(*texts));
    if (!texts || !ls__dataset_take_paths(dataset, &c->images) ||
        (given && !ls__dataset_name_classes(dataset, c->n_classes, given))) {
        ls__free(c->ctx, texts);
        return ls__fail_memory(c->ctx, c->path, (size_t)n * sizeof(*texts));
    }
    ls__text_list_get(&c->labels, texts);
    ls_status status = set_names(c, dataset);
    if (status == LS_OK && !given) status = find_classes(c, texts, dataset);
    for (int64_t i = 0; status == LS_OK && i < n; i++)
        dataset->labels[i] = find_class(c, texts[i])->label;
    ls__free(c->ctx, texts);
    return status;
}

ls_dataset *ls_csv_open(ls_context *ctx, const char *path, int n_classes,
                        const char *const *classes)
{
    LS__ENTER_NULL(ctx);
    bool given = classes ? n_classes > 0 : n_classes == 0;
    for (int i = 0; given && i < n_classes; i++) given = classes[i] != NULL;
    if (!path || !given) {
        ls__fail(ctx, LS_ERR_INVALID, "ls_csv_open: %s",
                 path ? "expected n_classes names of classes, or 0 and NULL" : "no file given");
        return NULL;
    }
    csv c;
    ls_dataset *dataset = NULL;
    ls_status status = open_file(&c, ctx, path);
    if (status == LS_OK && classes) status = set_classes(&c, n_classes, classes);
    if (status == LS_OK) status = read_rows(&c);
    if (status == LS_OK) dataset = ls__dataset_open(ctx, path);
    if (dataset && fill(&c, dataset, classes) != LS_OK) ls_dataset_close(&dataset);
    ls__free(ctx, c.classes);
    ls__text_list_free(&c.images);
    ls__text_list_free(&c.labels);
    ls__free(ctx, c.bytes);
    return dataset;
}
