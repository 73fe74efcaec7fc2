/* image_folder.c: DIR/<class>/<...>/<image>. Everything is sorted by bytes (strcmp), never by the
 * locale: the numbers of classes and samples are part of a run's identity. */
#include "data/dataset/dataset.h"

#include "base/error.h"
#include "base/file.h"
#include "base/path.h"
#include "base/text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct reading {
    ls_context *ctx;
    ls__bump bump;
    char *dir; /* without slashes at the end */
    ls_dataset *dataset;
    ls__folder_files top; /* in dir; of a pack, its classes as folders */
    const char **found;   /* names of top.folders, sorted */
    ls__folder_files files;
    int64_t *class_ends; /* n_classes: samples of class i end here */
    ls__pack *pack;      /* NULL: a folder */
    int64_t first_class; /* of the part of the pack */
    int64_t *offsets;    /* of a pack: see ls_dataset.pack_offsets */
} reading;

/* The index in `names`, which must be sorted; -1: not found. */
static int64_t find_name(const char *const *names, int64_t n, const char *name)
{
    const char *const *at = bsearch(&name, names, (size_t)n, sizeof(char *), ls__compare_texts);
    return at ? at - names : -1;
}

/* "'cat', 'dog', ... (10 in all)" into a buffer; reads at most SHOWN_NAMES names. */
enum { SHOWN_NAMES = 4 };
static const char *some_names(const char *const *names, int64_t n, char *buffer, size_t size)
{
    ls__text text = { buffer, size, 0 };
    buffer[0] = '\0';
    for (int64_t i = 0; i < n && i < SHOWN_NAMES; i++)
        ls__text_put(&text, "%s'%.*s'", i ? ", " : "", LS__CUT(names[i], 40));
    if (n > SHOWN_NAMES) ls__text_put(&text, ", ... (%lld in all)", (long long)n);
    return buffer;
}

/* ---- From a pack ---- */

static ls_status fail_part(reading *r, const char *file)
{
    const char *names[SHOWN_NAMES];
    for (int64_t i = 0; i < r->pack->n_splits && i < SHOWN_NAMES; i++)
        names[i] = ls__pack_text(r->pack, r->pack->splits[i].name);
    char text[256];
    return ls__fail(r->ctx, LS_ERR_NOT_FOUND, "image folder '%s': the pack '%s' holds %s", r->dir,
                    file, some_names(names, r->pack->n_splits, text, sizeof(text)));
}

/* The classes of the split `name` become the folders found. */
static ls_status list_pack(reading *r, const char *file, const char *name)
{
    char reason[LS__REASON_SIZE];
    ls__pack *pack = ls__alloc(r->ctx, sizeof(*pack));
    if (!pack) return ls__fail_memory(r->ctx, r->dir, sizeof(*pack));
    const ls_status status = ls__pack_open(r->ctx, file, pack, reason);
    r->pack = pack;
    if (status != LS_OK)
        return ls__fail(r->ctx, status, "image folder '%s': file '%s': %s", r->dir, file, reason);
    const int64_t p = ls__pack_find_split(pack, name);
    if (p < 0) return fail_part(r, file);
    r->first_class = (int64_t)pack->splits[p].first;
    const ls__pack_group *class = &pack->classes[r->first_class];
    for (uint64_t i = 0; i < pack->splits[p].n; i++)
        LS_TRY(ls__text_list_add(&r->top.folders, r->dir, ls__pack_text(pack, class[i].name)));
    return LS_OK;
}

/* A folder or a pack. */
static ls_status list(reading *r)
{
    const char *split;
    char *file = ls__bump_alloc(&r->bump, strlen(r->dir) + 1);
    if (!file) return ls__fail_memory(r->ctx, r->dir, strlen(r->dir));
    return ls__pack_parse_path(r->dir, file, &split)
               ? list_pack(r, file, split)
               : ls__folder_read(r->ctx, r->dir, false, &r->top);
}

/* The paths that the samples of class number `label` had below the folder. The pack's classes are
 * sorted, like the names found, and so are the samples of each class, like the dataset's. */
static ls_status list_packed_class(reading *r, int label, int64_t found)
{
    const ls__pack_group *class = &r->pack->classes[r->first_class + found];
    const ls__pack_sample *samples = &r->pack->samples[class->first];
    r->offsets[label] = (int64_t) class->first - r->files.images.n;
    for (uint64_t i = 0; i < class->n; i++)
        LS_TRY(ls__text_list_format(&r->files.images, r->dir, "%s/%s", r->dir,
                                    ls__pack_text(r->pack, samples[i].name)));
    return LS_OK;
}

/* ---- From a folder ---- */

/* A class folder without images that are read. */
static ls_status fail_class(const reading *r, const char *name, const ls__folder_files *files)
{
    if (files->n_ignored == 0)
        return ls__fail(r->ctx, LS_ERR_DATA,
                        "image folder '%s': class folder '%s' is empty; expected %s/%s/<image>",
                        r->dir, name, r->dir, name);
    char *conversion = files->n_other > 0 ? ls__conversion_text(r->ctx, files->example) : NULL;
    if (files->n_other > 0 && !conversion) return ls__fail_memory(r->ctx, r->dir, 0);
    if (conversion)
        ls__fail(r->ctx, LS_ERR_DATA,
                 "image folder '%s': class folder '%s' has no images that can be read, but %lld "
                 "file%s such as '%s'; %s",
                 r->dir, name, (long long)files->n_other, files->n_other == 1 ? "" : "s",
                 files->example, conversion);
    else
        ls__fail(r->ctx, LS_ERR_DATA,
                 "image folder '%s': class folder '%s' has no images; found %lld other files, "
                 "such as '%s'; expected names that end in " LS__IMAGE_EXTENSIONS,
                 r->dir, name, (long long)files->n_ignored, files->example);
    ls__free(r->ctx, conversion);
    return LS_ERR_DATA;
}

static ls_status list_class(reading *r, const char *name)
{
    const int64_t n_before = r->files.images.n;
    const char *path = ls__bump_format(&r->bump, "%s/%s", r->dir, name);
    if (!path) return ls__fail_memory(r->ctx, r->dir, strlen(name));
    LS_TRY(ls__folder_read(r->ctx, path, true, &r->files));
    if (r->files.images.n > n_before) return LS_OK;
    /* For the message, because r->files has also what lies in the classes before this one. */
    ls__folder_files files = { .images.ctx = r->ctx, .folders.ctx = r->ctx };
    ls_status status = ls__folder_read(r->ctx, path, true, &files);
    if (status == LS_OK) status = fail_class(r, name, &files);
    ls__folder_files_free(&files);
    return status;
}

/* ---- Both ---- */

/* Copies the names and reads the folder of each class that has one. */
static ls_status read_classes(reading *r, int n_classes, const char *const *names)
{
    r->class_ends = ls__bump_alloc(&r->bump, (size_t)n_classes * sizeof(int64_t));
    if (r->pack)
        r->offsets = ls__bump_alloc(&r->dataset->bump, (size_t)n_classes * sizeof(int64_t));
    if (!r->class_ends || (r->pack && !r->offsets) ||
        !ls__dataset_name_classes(r->dataset, n_classes, names))
        return ls__fail_memory(r->ctx, r->dir, (size_t)n_classes * sizeof(int64_t));
    for (int i = 0; i < n_classes; i++) {
        const int64_t found = find_name(r->found, r->top.folders.n, names[i]);
        if (found >= 0) LS_TRY(r->pack ? list_packed_class(r, i, found) : list_class(r, names[i]));
        r->class_ends[i] = r->files.images.n;
    }
    return LS_OK;
}

/* What was read becomes the dataset's. */
static ls_status take_samples(reading *r)
{
    ls_dataset *dataset = r->dataset;
    const int64_t n = r->files.images.n;
    if (!ls__dataset_take_paths(dataset, &r->files.images))
        return ls__fail_memory(r->ctx, r->dir, (size_t)n * sizeof(char *));
    int64_t begin = 0;
    for (int label = 0; label < dataset->n_classes; label++) {
        const int64_t end = r->class_ends[label];
        qsort(dataset->paths + begin, (size_t)(end - begin), sizeof(char *), ls__compare_texts);
        for (int64_t i = begin; i < end; i++) dataset->labels[i] = label;
        begin = end;
    }
    dataset->root_length = strlen(r->dir) + 1;
    dataset->in_class_folders = true;
    dataset->n_ignored = r->files.n_ignored;
    dataset->ignored_example = r->files.example;
    r->files.example = NULL;
    if (!r->pack) return LS_OK;
    dataset->packed_sound =
        ls__bump_alloc(&dataset->bump, (size_t)n * sizeof(*dataset->packed_sound));
    if (!dataset->packed_sound) return ls__fail_memory(r->ctx, r->dir, (size_t)n);
    dataset->pack_offsets = r->offsets;
    dataset->pack = r->pack;
    r->pack = NULL;
    return LS_OK;
}

static ls_status begin(reading *r, ls_context *ctx, const char *call, const char *dir)
{
    const ls__folder_files none = { .images.ctx = ctx, .folders.ctx = ctx };
    *r = (reading){ .ctx = ctx, .top = none, .files = none };
    ls__bump_open(&r->bump, ctx);
    if (!dir) return ls__fail(ctx, LS_ERR_INVALID, "%s: no folder given", call);
    r->dir = ls__bump_strdup(&r->bump, dir);
    if (!r->dir) return ls__fail_memory(ctx, dir, strlen(dir));
    ls__path_trim(r->dir);

    LS_TRY(list(r));
    const int64_t n = r->top.folders.n, n_images = r->top.images.n;
    if (n == 0)
        return ls__fail(ctx, LS_ERR_DATA,
                        "image folder '%s': no class folders; found %lld files, %lld of them "
                        "images; expected %s/<class>/<image>",
                        r->dir, (long long)(n_images + r->top.n_ignored), (long long)n_images,
                        r->dir);
    if (n > INT32_MAX)
        return ls__fail(ctx, LS_ERR_UNSUPPORTED, "image folder '%s': too many classes", r->dir);
    r->found = ls__text_list_sort(&r->top.folders, r->dir);
    if (!r->found) return LS_ERR_MEMORY;
    r->dataset = ls__dataset_open(ctx, r->dir);
    return r->dataset ? LS_OK : LS_ERR_MEMORY;
}

static ls_dataset *finish(reading *r, ls_status status)
{
    if (status != LS_OK) ls_dataset_close(&r->dataset);
    ls__free(r->ctx, r->found);
    ls__folder_files_free(&r->top);
    ls__folder_files_free(&r->files);
    ls__bump_close(&r->bump);
    if (r->pack) ls__pack_close(r->pack);
    ls__free(r->ctx, r->pack);
    return r->dataset;
}

/* Sets has_images[class] for the classes that have an image in the class folder itself. */
static void find_images(const ls_dataset *dataset, bool *has_images)
{
    for (int64_t i = 0; i < dataset->n_samples; i++) {
        const char *name = ls__dataset_name(dataset, i);
        if (!strchr(strchr(name, '/') + 1, '/')) has_images[ls_dataset_label(dataset, i)] = true;
    }
}

/* Warnings about likely mistakes. */
static ls_status warn(reading *r)
{
    const char *splits[2], *deep = NULL; /* classes called like a split; one of folders only */
    const int64_t n = r->top.folders.n;
    int n_splits = 0, n_deep = 0;
    bool *has_images = ls__bump_alloc(&r->bump, (size_t)n);
    if (!has_images) return ls__fail_memory(r->ctx, r->dir, (size_t)n);
    find_images(r->dataset, has_images);
    for (int i = 0; i < (int)n; i++) {
        ls_split split = LS_N_SPLITS;
        if (ls_split_of_name(r->found[i], &split) && n_splits++ < 2)
            splits[n_splits - 1] = r->found[i];
        if (has_images[i]) continue;
        if (n_deep++ == 0 || split == LS_SPLIT_TRAIN) deep = r->found[i];
    }
    const bool are_splits = n_splits >= 2 && n <= 3;
    if (n_deep == n || (n_deep > 0 && !are_splits))
        ls__warn(r->ctx, LS_LOG_DATA,
                 "image folder '%s': %d of %d class folders, such as '%s', hold%s folders instead "
                 "of images, whose images are all taken for one class; if these folders are the "
                 "classes, open '%s/%s' instead",
                 r->dir, n_deep, (int)n, deep, n_deep == 1 ? "s" : "", r->dir, deep);
    else if (n == 1)
        ls__warn(r->ctx, LS_LOG_DATA, "image folder '%s': one class only, '%s'", r->dir,
                 r->found[0]);
    else if (are_splits)
        ls__warn(r->ctx, LS_LOG_DATA,
                 "image folder '%s': the classes are called '%s' and '%s'; is '%s/%s' meant?",
                 r->dir, splits[0], splits[1], r->dir, splits[0]);
    return LS_OK;
}

ls_dataset *ls_image_folder_open(ls_context *ctx, const char *dir)
{
    LS__ENTER_NULL(ctx);
    reading r;
    ls_status status = begin(&r, ctx, "ls_image_folder_open", dir);
    if (status == LS_OK) status = read_classes(&r, (int)r.top.folders.n, r.found);
    if (status == LS_OK) status = take_samples(&r);
    if (status == LS_OK) status = warn(&r);
    return finish(&r, status);
}

/* The classes given must differ, and the folders found must be among them. */
static ls_status check_classes(reading *r, int n_classes, const char *const *classes)
{
    const char **known = ls__bump_alloc(&r->bump, (size_t)n_classes * sizeof(char *));
    if (!known) return ls__fail_memory(r->ctx, r->dir, (size_t)n_classes * sizeof(char *));
    memcpy(known, classes, (size_t)n_classes * sizeof(char *));
    qsort(known, (size_t)n_classes, sizeof(char *), ls__compare_texts);
    for (int i = 1; i < n_classes; i++)
        if (strcmp(known[i - 1], known[i]) == 0)
            return ls__fail(r->ctx, LS_ERR_INVALID,
                            "ls_image_folder_open_classes: class '%s' is given twice", known[i]);
    for (int64_t i = 0; i < r->top.folders.n; i++) {
        char text[256];
        if (find_name(known, n_classes, r->found[i]) < 0)
            return ls__fail(r->ctx, LS_ERR_MISMATCH,
                            "image folder '%s': found class folder '%s', which is not among the "
                            "known classes %s",
                            r->dir, r->found[i],
                            some_names(classes, n_classes, text, sizeof(text)));
    }
    return LS_OK;
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
    ls_status status = begin(&r, ctx, "ls_image_folder_open_classes", dir);
    if (status == LS_OK) status = check_classes(&r, n_classes, classes);
    if (status == LS_OK) status = read_classes(&r, n_classes, classes);
    if (status == LS_OK) status = take_samples(&r);
    return finish(&r, status);
}
