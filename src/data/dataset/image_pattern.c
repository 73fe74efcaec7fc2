/* image_pattern.c: a dataset of the images below a folder, whose classes are in their names. */
#include "data/dataset/dataset.h"

#include "base/error.h"
#include "base/file.h"
#include "base/path.h"
#include "data/dataset/label_order.h"
#include "data/dataset/name_pattern.h"
#include <stdlib.h>
#include <string.h>

static const char what[] = "ls_image_pattern_open";

typedef struct reading {
    ls_context *ctx;
    ls__bump bump;
    char *dir; /* without slashes at the end */
    ls__folder_files files;
    ls__text_list sorted, labels; /* of the images */
    const char **texts, **classes;
    int n_classes;
} reading;

static ls_status fail_memory(const reading *r)
{
    return ls__fail_memory(r->ctx, what, (size_t)r->sorted.n * sizeof(char *));
}

/* The paths of all images, sorted. */
static ls_status list_images(reading *r)
{
    LS_TRY(ls__folder_read(r->ctx, r->dir, true, &r->files));
    if (r->files.images.n == 0)
        return ls__fail(r->ctx, LS_ERR_DATA,
                        "image folder '%s': no images at any depth; found %lld other files; "
                        "expected names that end in " LS__IMAGE_EXTENSIONS,
                        r->dir, (long long)r->files.n_ignored);
    r->texts = ls__text_list_sort(&r->files.images, what);
    if (!r->texts) return LS_ERR_MEMORY;
    for (int64_t i = 0; i < r->files.images.n; i++)
        LS_TRY(ls__text_list_add(&r->sorted, what, r->texts[i]));
    return LS_OK;
}

/* The classes found, or those given. */
static ls_status set_classes(reading *r, int n_classes, const char *const *classes)
{
    const int64_t n = classes ? n_classes : r->labels.n;
    r->classes = ls__bump_alloc(&r->bump, (size_t)n * sizeof(*r->classes));
    if (!r->classes) return fail_memory(r);
    if (classes) {
        memcpy(r->classes, classes, (size_t)n * sizeof(*classes));
        r->n_classes = n_classes;
        return LS_OK;
    }
    ls__text_list_get(&r->labels, r->classes);
    const int64_t n_found = ls__sort_labels(n, r->classes);
    if (n_found > INT32_MAX)
        return ls__fail(r->ctx, LS_ERR_UNSUPPORTED, "image folder '%s': too many classes", r->dir);
    r->n_classes = (int)n_found;
    return LS_OK;
}

static ls_status fill_labels(reading *r, ls_dataset *dataset)
{
    ls__label *all = ls__bump_alloc(&r->bump, (size_t)r->n_classes * sizeof(*all));
    if (!all) return fail_memory(r);
    ls__index_labels(r->n_classes, r->classes, all);
    for (int64_t i = 0; i < dataset->n_samples; i++) {
        const ls__label *found = ls__find_label(r->n_classes, all, r->texts[i]);
        if (!found)
            return ls__fail(r->ctx, LS_ERR_MISMATCH,
                            "image '%s': the class '%s' is not among the %d known classes, such "
                            "as '%s'",
                            dataset->paths[i], r->texts[i], r->n_classes, r->classes[0]);
        dataset->labels[i] = (int32_t)found->number;
    }
    return LS_OK;
}

static ls_status fill(reading *r, int n_classes, const char *const *classes, ls_dataset *dataset)
{
    LS_TRY(set_classes(r, n_classes, classes));
    if (!ls__dataset_take_paths(dataset, &r->sorted) ||
        !ls__dataset_name_classes(dataset, r->n_classes, r->classes))
        return fail_memory(r);
    dataset->root_length = strlen(r->dir) + 1;
    dataset->n_ignored = r->files.n_ignored;
    dataset->ignored_example = r->files.example;
    r->files.example = NULL;
    ls__text_list_get(&r->labels, r->texts);
    return fill_labels(r, dataset);
}

static ls_status match(reading *r, const char *pattern)
{
    const char **names = ls__bump_alloc(&r->bump, (size_t)r->sorted.n * sizeof(*names));
    if (!names) return fail_memory(r);
    ls__text_list_get(&r->sorted, names);
    for (int64_t i = 0; i < r->sorted.n; i++) names[i] += strlen(r->dir) + 1;
    return ls__match_names(r->ctx, what, pattern, r->sorted.n, names, &r->labels);
}

ls_dataset *ls_image_pattern_open(ls_context *ctx, const char *dir, const char *label_pattern,
                                  int n_classes, const char *const *classes)
{
    LS__ENTER_NULL(ctx);
    bool given = classes ? n_classes > 0 : n_classes == 0;
    for (int i = 0; given && i < n_classes; i++) given = classes[i] != NULL;
    if (!dir || !label_pattern || !given) {
        ls__fail(ctx, LS_ERR_INVALID, "%s: %s", what,
                 !dir             ? "no folder given"
                 : !label_pattern ? "no pattern given"
                                  : "expected n_classes names of classes, or 0 and NULL");
        return NULL;
    }
    reading r = { .ctx = ctx,
                  .files = { .images.ctx = ctx, .folders.ctx = ctx },
                  .sorted.ctx = ctx,
                  .labels.ctx = ctx };
    ls__bump_open(&r.bump, ctx);
    r.dir = ls__bump_strdup(&r.bump, dir);
    ls_dataset *dataset = NULL;
    ls_status status = r.dir ? LS_OK : ls__fail_memory(ctx, dir, strlen(dir));
    if (r.dir) ls__path_trim(r.dir);
    if (status == LS_OK) status = list_images(&r);
    if (status == LS_OK) status = match(&r, label_pattern);
    if (status == LS_OK) dataset = ls__dataset_open(ctx, r.dir);
    const char *const chosen[LS__N_OPENED_BY] = { [LS__BY_LABEL_PATTERN] = label_pattern };
    if (dataset && (fill(&r, n_classes, classes, dataset) != LS_OK ||
                    ls__dataset_note_opening(dataset, what, chosen) != LS_OK))
        ls_dataset_close(&dataset);
    ls__bump_close(&r.bump);
    ls__free(ctx, r.texts);
    ls__folder_files_free(&r.files);
    ls__text_list_free(&r.sorted);
    ls__text_list_free(&r.labels);
    return dataset;
}
