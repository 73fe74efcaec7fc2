/* image_folder.c: DIR/<class>/<...>/<image>. Everything is sorted by bytes (strcmp), never by the
 * locale: the numbers of classes and samples are part of a run's identity. */
#include "data/dataset.h"
#include "data/folder.h"

#include "base/error.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct reading {
    ls_context *ctx;
    char *dir; /* without slashes at the end */
    ls_dataset *dataset;
    ls__folder_content top;
    const char **found; /* names of the folders in dir, sorted; top.folders.n */
    ls__folder_files files;
    int64_t *class_ends; /* n_classes: samples of class i end here */
} reading;

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* `names` must be sorted. */
static bool contains(const char *const *names, int64_t n, const char *name)
{
    return bsearch(&name, names, (size_t)n, sizeof(char *), compare_texts) != NULL;
}

/* "'cat', 'dog', ... (10 in all)" into a buffer. */
static const char *some_names(const char *const *names, int64_t n, char *buffer, size_t size)
{
    size_t used = 0;
    buffer[0] = '\0';
    for (int64_t i = 0; i < n && i < 4 && used < size; i++)
        used += (size_t)snprintf(buffer + used, size - used, "%s'%.40s'", i ? ", " : "", names[i]);
    if (n > 4 && used < size)
        snprintf(buffer + used, size - used, ", ... (%lld in all)", (long long)n);
    return buffer;
}

static ls_status fail_no_classes(reading *r)
{
    return ls__fail(r->ctx, LS_ERR_DATA,
                    "image folder '%s': no class folders; found %lld files, %lld of them images; "
                    "expected %s/<class>/<image>",
                    r->dir, (long long)r->top.n_files, (long long)r->top.n_images, r->dir);
}

static ls_status fail_empty_class(reading *r, const char *name, int64_t n_ignored)
{
    if (n_ignored == 0)
        return ls__fail(r->ctx, LS_ERR_DATA,
                        "image folder '%s': class folder '%s' is empty; expected %s/%s/<image>",
                        r->dir, name, r->dir, name);
    return ls__fail(r->ctx, LS_ERR_DATA,
                    "image folder '%s': class folder '%s' has no images; found %lld other files, "
                    "such as '%s'; expected names that end in jpg, jpeg, png, bmp, ppm or pgm",
                    r->dir, name, (long long)n_ignored, r->files.example);
}

/* Copies the names and reads the folder of each class that has one. */
static ls_status read_classes(reading *r, int n_classes, const char *const *names)
{
    r->class_ends = ls__alloc(r->ctx, (size_t)n_classes * sizeof(int64_t));
    if (!r->class_ends || !ls__dataset_make_classes(r->dataset, n_classes))
        return ls__fail_memory(r->ctx, r->dir, (size_t)n_classes * sizeof(int64_t));
    for (int i = 0; i < n_classes; i++) {
        r->dataset->class_names[i] = ls__strdup(r->ctx, names[i]);
        if (!r->dataset->class_names[i]) return ls__fail_memory(r->ctx, r->dir, strlen(names[i]));
        if (contains(r->found, r->top.folders.n, names[i])) {
            const int64_t n_before = r->files.images.n, n_ignored = r->files.n_ignored;
            char *path = ls__format(r->ctx, "%s/%s", r->dir, names[i]);
            if (!path) return ls__fail_memory(r->ctx, r->dir, strlen(names[i]));
            const ls_status status = ls__folder_walk(r->ctx, path, &r->files);
            ls__free(r->ctx, path);
            LS_TRY(status);
            if (r->files.images.n == n_before)
                return fail_empty_class(r, names[i], r->files.n_ignored - n_ignored);
        }
        r->class_ends[i] = r->files.images.n;
    }
    return LS_OK;
}

/* The list of paths becomes the data set's. */
static ls_status take_samples(reading *r)
{
    ls_dataset *dataset = r->dataset;
    const int64_t n = r->files.images.n;
    dataset->paths = ls__alloc(r->ctx, (size_t)n * sizeof(char *));
    dataset->labels = ls__alloc(r->ctx, (size_t)n * sizeof(int32_t));
    if (!dataset->paths || !dataset->labels)
        return ls__fail_memory(r->ctx, r->dir, (size_t)n * sizeof(char *));
    for (int64_t i = 0; i < n; i++) dataset->paths[i] = ls__text_list_get(&r->files.images, i);
    int64_t begin = 0;
    for (int label = 0; label < dataset->n_classes; label++) {
        const int64_t end = r->class_ends[label];
        qsort(dataset->paths + begin, (size_t)(end - begin), sizeof(char *), compare_texts);
        for (int64_t i = begin; i < end; i++) dataset->labels[i] = label;
        begin = end;
    }
    dataset->n_samples = n;
    dataset->channels = 3;
    dataset->root_length = strlen(r->dir) + 1;
    dataset->path_text = r->files.images.text;
    r->files.images.text = NULL;
    dataset->n_ignored = r->files.n_ignored;
    dataset->ignored_example = r->files.example;
    r->files.example = NULL;
    return LS_OK;
}

static ls_status begin(reading *r, ls_context *ctx, const char *dir)
{
    *r = (reading){ .ctx = ctx, .top.folders.ctx = ctx, .files.images.ctx = ctx };
    if (!dir) return ls__fail(ctx, LS_ERR_INVALID, "ls_image_folder_open: no folder given");
    r->dir = ls__strdup(ctx, dir);
    if (!r->dir) return ls__fail_memory(ctx, dir, strlen(dir));
    for (size_t n = strlen(r->dir); n > 1 && r->dir[n - 1] == '/'; n--) r->dir[n - 1] = '\0';

    LS_TRY(ls__folder_list(ctx, r->dir, &r->top));
    const int64_t n = r->top.folders.n;
    if (n == 0) return fail_no_classes(r);
    if (n > INT32_MAX)
        return ls__fail(ctx, LS_ERR_UNSUPPORTED, "image folder '%s': too many classes", r->dir);
    r->found = ls__alloc(ctx, (size_t)n * sizeof(char *));
    if (!r->found) return ls__fail_memory(ctx, r->dir, (size_t)n * sizeof(char *));
    for (int64_t i = 0; i < n; i++) r->found[i] = ls__text_list_get(&r->top.folders, i);
    qsort(r->found, (size_t)n, sizeof(char *), compare_texts);
    r->dataset = ls__dataset_open(ctx, r->dir);
    return r->dataset ? LS_OK : LS_ERR_MEMORY;
}

static ls_dataset *finish(reading *r, ls_status status)
{
    if (status != LS_OK) ls_dataset_close(&r->dataset);
    ls__free(r->ctx, r->dir);
    ls__free(r->ctx, r->found);
    ls__text_list_free(&r->top.folders);
    ls__text_list_free(&r->files.images);
    ls__free(r->ctx, r->files.example);
    ls__free(r->ctx, r->class_ends);
    return r->dataset;
}

/* Mistakes that are no errors. */
static void warn(reading *r)
{
    static const char *const splits[] = { "test", "train", "val", "valid", "validation" };
    const int64_t n = r->top.folders.n;
    const char *const *names = r->found;
    if (n == 1) ls__warn(r->ctx, "image folder '%s': one class only, '%s'", r->dir, names[0]);
    if (n >= 2 && n <= 3 && contains(splits, 5, names[0]) && contains(splits, 5, names[1]))
        ls__warn(r->ctx,
                 "image folder '%s': the classes are called '%s' and '%s'; is '%s/train' meant?",
                 r->dir, names[0], names[1], r->dir);
}

ls_dataset *ls_image_folder_open(ls_context *ctx, const char *dir)
{
    LS__ENTER_NULL(ctx);
    reading r;
    ls_status status = begin(&r, ctx, dir);
    if (status == LS_OK) status = read_classes(&r, (int)r.top.folders.n, r.found);
    if (status == LS_OK) status = take_samples(&r);
    if (status == LS_OK) warn(&r);
    return finish(&r, status);
}

/* The classes given must differ, and the folders found must be among them. */
static ls_status check_classes(reading *r, int n_classes, const char *const *classes)
{
    ls_status status = LS_OK;
    const char **known = ls__alloc(r->ctx, (size_t)n_classes * sizeof(char *));
    if (!known) return ls__fail_memory(r->ctx, r->dir, (size_t)n_classes * sizeof(char *));
    memcpy(known, classes, (size_t)n_classes * sizeof(char *));
    qsort(known, (size_t)n_classes, sizeof(char *), compare_texts);
    for (int i = 1; i < n_classes && status == LS_OK; i++) {
        if (strcmp(known[i - 1], known[i]) == 0)
            status = ls__fail(r->ctx, LS_ERR_INVALID,
                              "ls_image_folder_open_classes: class '%s' is given twice", known[i]);
    }
    for (int64_t i = 0; i < r->top.folders.n && status == LS_OK; i++) {
        char text[256];
        if (!contains(known, n_classes, r->found[i]))
            status =
                ls__fail(r->ctx, LS_ERR_MISMATCH,
                         "image folder '%s': found class folder '%s', which is not among the "
                         "known classes %s",
                         r->dir, r->found[i], some_names(classes, n_classes, text, sizeof(text)));
    }
    ls__free(r->ctx, known);
    return status;
}

ls_dataset *ls_image_folder_open_classes(ls_context *ctx, const char *dir, int n_classes,
                                         const char *const *classes)
{
    LS__ENTER_NULL(ctx);
    bool given = n_classes > 0 && classes;
    for (int i = 0; given && i < n_classes; i++) given = classes[i] != NULL;
    if (!given) {
        ls__fail(ctx, LS_ERR_INVALID, "ls_image_folder_open_classes: no classes given, or a NULL");
        return NULL;
    }
    reading r;
    ls_status status = begin(&r, ctx, dir);
    if (status == LS_OK) status = check_classes(&r, n_classes, classes);
    if (status == LS_OK) status = read_classes(&r, n_classes, classes);
    if (status == LS_OK) status = take_samples(&r);
    return finish(&r, status);
}
