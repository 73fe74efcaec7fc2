/* image_folder.c: DIR/<class>/<...>/<image>. Everything is sorted by bytes (strcmp), never by the
 * locale: the numbers of classes and samples are part of a run's identity. */
#include "data/dataset/dataset.h"
#include "data/dataset/folder.h"

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
    ls__pack *pack;      /* NULL: a folder */
    int64_t first_class; /* of the part of the pack */
    int64_t *packed_as;  /* n_classes: where in the pack those of class i begin */
} reading;

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The index in `names`, which must be sorted; -1: not found. */
static int64_t find_name(const char *const *names, int64_t n, const char *name)
{
    const char *const *at = bsearch(&name, names, (size_t)n, sizeof(char *), compare_texts);
    return at ? at - names : -1;
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

/* ---- From a pack ---- */

static ls_status fail_part(reading *r, const char *file)
{
    const char **names = ls__alloc(r->ctx, (size_t)r->pack->n_parts * sizeof(char *));
    if (!names) return ls__fail_memory(r->ctx, r->dir, 0);
    for (int64_t i = 0; i < r->pack->n_parts; i++)
        names[i] = ls__pack_text(r->pack, ls__pack_part(r->pack, i).name);
    char text[256];
    some_names(names, r->pack->n_parts, text, sizeof(text));
    ls__free(r->ctx, names);
    return ls__fail(r->ctx, LS_ERR_NOT_FOUND, "image folder '%s': the pack '%s' holds %s", r->dir,
                    file, text);
}

/* The part's classes become the folders found. */
static ls_status list_part(reading *r, const char *file, const char *name)
{
    const ls__pack *pack = r->pack;
    const int64_t p = ls__pack_find_part(pack, name);
    if (p < 0) return fail_part(r, file);
    const ls__pack_group part = ls__pack_part(pack, p);
    r->first_class = (int64_t)part.first;
    for (int64_t c = r->first_class; c < r->first_class + (int64_t)part.n; c++)
        if (!ls__text_list_add(&r->top.folders, ls__pack_text(pack, ls__pack_class(pack, c).name)))
            return ls__fail_memory(r->ctx, r->dir, r->top.folders.n_bytes);
    return LS_OK;
}

static ls_status list_pack(reading *r, const char *file, const char *name)
{
    char reason[LS__REASON_SIZE];
    r->top = (ls__folder_content){ .folders.ctx = r->ctx };
    r->pack = ls__alloc(r->ctx, sizeof(*r->pack));
    if (!r->pack) return ls__fail_memory(r->ctx, r->dir, sizeof(*r->pack));
    const ls_status status = ls__pack_open(r->ctx, file, r->pack, reason);
    return status == LS_OK
               ? list_part(r, file, name)
               : ls__fail(r->ctx, status, "image folder '%s': file '%s': %s", r->dir, file, reason);
}

/* A folder or a pack. */
static ls_status list(reading *r)
{
    const char *part;
    char *file = ls__alloc(r->ctx, strlen(r->dir) + 1);
    if (!file) return ls__fail_memory(r->ctx, r->dir, strlen(r->dir));
    const ls_status status = ls__pack_split(r->dir, file, &part)
                                 ? list_pack(r, file, part)
                                 : ls__folder_list(r->ctx, r->dir, &r->top);
    ls__free(r->ctx, file);
    return status;
}

/* The paths that the samples of class number `label` had below the folder. The pack's classes are
 * sorted, as what was found is. */
static ls_status list_packed_class(reading *r, int label, int64_t found)
{
    const ls__pack_group class = ls__pack_class(r->pack, r->first_class + found);
    r->packed_as[label] = (int64_t) class.first;
    for (uint64_t i = 0; i < class.n; i++) {
        const ls__pack_sample sample = ls__pack_sample_at(r->pack, (int64_t)(class.first + i));
        char *path = ls__format(r->ctx, "%s/%s", r->dir, ls__pack_text(r->pack, sample.name));
        const bool good = path && ls__text_list_add(&r->files.images, path);
        ls__free(r->ctx, path);
        if (!good) return ls__fail_memory(r->ctx, r->dir, r->files.images.n_bytes);
    }
    return LS_OK;
}

/* ---- From a folder ---- */

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

static ls_status list_class(reading *r, const char *name)
{
    const int64_t n_before = r->files.images.n, n_ignored = r->files.n_ignored;
    char *path = ls__format(r->ctx, "%s/%s", r->dir, name);
    if (!path) return ls__fail_memory(r->ctx, r->dir, strlen(name));
    const ls_status status = ls__folder_walk(r->ctx, path, &r->files);
    ls__free(r->ctx, path);
    LS_TRY(status);
    if (r->files.images.n == n_before)
        return fail_empty_class(r, name, r->files.n_ignored - n_ignored);
    return LS_OK;
}

/* ---- Both ---- */

/* Copies the names and reads the folder of each class that has one. */
static ls_status read_classes(reading *r, int n_classes, const char *const *names)
{
    r->class_ends = ls__alloc(r->ctx, (size_t)n_classes * sizeof(int64_t));
    r->packed_as = ls__alloc(r->ctx, (size_t)n_classes * sizeof(int64_t));
    if (!r->class_ends || !r->packed_as || !ls__dataset_name_classes(r->dataset, n_classes, names))
        return ls__fail_memory(r->ctx, r->dir, (size_t)n_classes * sizeof(int64_t));
    for (int i = 0; i < n_classes; i++) {
        const int64_t found = find_name(r->found, r->top.folders.n, names[i]);
        if (found >= 0) LS_TRY(r->pack ? list_packed_class(r, i, found) : list_class(r, names[i]));
        r->class_ends[i] = r->files.images.n;
    }
    return LS_OK;
}

/* The pack becomes the dataset's. A class's samples are sorted in both. */
static ls_status take_pack(reading *r)
{
    ls_dataset *dataset = r->dataset;
    const size_t n = (size_t)r->files.images.n;
    dataset->packed_as = ls__alloc(r->ctx, n * sizeof(int64_t));
    dataset->packed_sound = ls__zalloc(r->ctx, n * sizeof(*dataset->packed_sound));
    if (!dataset->packed_as || !dataset->packed_sound)
        return ls__fail_memory(r->ctx, r->dir, n * sizeof(int64_t));
    int64_t i = 0;
    for (int label = 0; label < dataset->n_classes; label++)
        for (int64_t k = 0; i < r->class_ends[label]; i++, k++)
            dataset->packed_as[i] = r->packed_as[label] + k;
    dataset->pack = r->pack;
    r->pack = NULL;
    return LS_OK;
}

/* The list of paths becomes the dataset's. */
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
    return r->pack ? take_pack(r) : LS_OK;
}

static ls_status begin(reading *r, ls_context *ctx, const char *dir)
{
    *r = (reading){ .ctx = ctx, .top.folders.ctx = ctx, .files.images.ctx = ctx };
    if (!dir) return ls__fail(ctx, LS_ERR_INVALID, "ls_image_folder_open: no folder given");
    r->dir = ls__strdup(ctx, dir);
    if (!r->dir) return ls__fail_memory(ctx, dir, strlen(dir));
    for (size_t n = strlen(r->dir); n > 1 && r->dir[n - 1] == '/'; n--) r->dir[n - 1] = '\0';

    LS_TRY(list(r));
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
    ls__free(r->ctx, r->packed_as);
    if (r->pack) ls__pack_close(r->pack);
    ls__free(r->ctx, r->pack);
    return r->dataset;
}

static const char *const splits[] = { LS_SPLIT_NAMES };
enum { N_SPLITS = sizeof(splits) / sizeof(splits[0]) };

/* The split number i or the next one that was found; NULL: no more. */
static const char *next_split(const reading *r, int *i)
{
    while (*i < N_SPLITS && find_name(r->found, r->top.folders.n, splits[*i]) < 0) (*i)++;
    return *i < N_SPLITS ? splits[(*i)++] : NULL;
}

/* Whether all images lie in folders below the class folders. */
static bool has_folders_in_classes(const ls_dataset *dataset)
{
    for (int64_t i = 0; i < dataset->n_samples; i++) {
        const char *name = dataset->paths[i] + dataset->root_length;
        if (!strchr(strchr(name, '/') + 1, '/')) return false;
    }
    return true;
}

/* Warnings about likely mistakes. */
static void warn(reading *r)
{
    int i = 0, n_splits = 0;
    const char *const first = next_split(r, &i), *const second = next_split(r, &i);
    const int64_t n = r->top.folders.n;
    for (int s = 0; s < N_SPLITS; s++) n_splits += find_name(r->found, n, splits[s]) >= 0;
    if (n_splits == n && has_folders_in_classes(r->dataset)) {
        ls__warn(
            r->ctx,
            "image folder '%s': one level too high: '%s' holds class folders and no images, but "
            "is taken for a class; open '%s/%s' instead",
            r->dir, first, r->dir, first);
    } else if (n == 1) {
        ls__warn(r->ctx, "image folder '%s': one class only, '%s'", r->dir, r->found[0]);
    } else if (n_splits >= 2 && n <= 3) {
        ls__warn(r->ctx,
                 "image folder '%s': the classes are called '%s' and '%s'; is '%s/%s' meant?",
                 r->dir, first, second, r->dir, first);
    }
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
        if (find_name(known, n_classes, r->found[i]) < 0)
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
