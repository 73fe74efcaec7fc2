/* image_list.c: a dataset over a list of files. */
#include "data/dataset/dataset.h"

#include "base/error.h"
#include <string.h>

static const char what[] = "ls_image_list_open";

static ls_status check_list(ls_context *ctx, int64_t n, const char *const *paths,
                            const int32_t *labels, int n_classes)
{
    if (n < 1 || !paths)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: %lld paths, wanted 1 or more", what,
                        paths ? (long long)n : 0);
    if (labels ? n_classes < 1 : n_classes != 0)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: %d classes %s labels", what, n_classes,
                        labels ? "with" : "without");
    for (int64_t i = 0; i < n; i++) {
        if (!paths[i])
            return ls__fail(ctx, LS_ERR_INVALID, "%s: path %lld is NULL", what, (long long)i);
        if (labels && (labels[i] < 0 || labels[i] >= n_classes))
            return ls__fail(ctx, LS_ERR_DATA, "%s: '%s' has label %d, wanted 0 to %d", what,
                            paths[i], labels[i], n_classes - 1);
    }
    return LS_OK;
}

/* All paths one after the other in one block of text. */
static bool copy_paths(ls_dataset *dataset, int64_t n, const char *const *paths)
{
    const ls_context *ctx = dataset->owned.ctx;
    size_t bytes = 0, list_bytes;
    for (int64_t i = 0; i < n; i++)
        if (!ls__add_size(bytes, strlen(paths[i]) + 1, &bytes)) return false;
    if (!ls__mul_size((size_t)n, sizeof(char *), &list_bytes)) return false;
    dataset->path_text = ls__alloc(ctx, bytes);
    dataset->paths = ls__alloc(ctx, list_bytes);
    if (!dataset->path_text || !dataset->paths) return false;
    char *at = dataset->path_text;
    for (int64_t i = 0; i < n; i++) {
        const size_t size = strlen(paths[i]) + 1;
        memcpy(at, paths[i], size);
        dataset->paths[i] = at;
        at += size;
    }
    return true;
}

static bool copy_labels(ls_dataset *dataset, int64_t n, const int32_t *labels, int n_classes)
{
    dataset->labels = ls__alloc(dataset->owned.ctx, (size_t)n * sizeof(int32_t));
    if (!dataset->labels) return false;
    for (int64_t i = 0; i < n; i++) dataset->labels[i] = labels ? labels[i] : -1;
    return !labels || ls__dataset_name_classes(dataset, n_classes, NULL);
}

ls_dataset *ls_image_list_open(ls_context *ctx, int64_t n, const char *const *paths,
                               const int32_t *labels, int n_classes)
{
    LS__ENTER_NULL(ctx);
    if (check_list(ctx, n, paths, labels, n_classes) != LS_OK) return NULL;
    ls_dataset *dataset = ls__dataset_open(ctx, what);
    if (!dataset) return NULL;
    dataset->n_samples = n;
    dataset->channels = 3;
    if (!copy_paths(dataset, n, paths) || !copy_labels(dataset, n, labels, n_classes)) {
        ls__fail_memory(ctx, what, (size_t)n * sizeof(char *));
        ls_dataset_close(&dataset);
    }
    return dataset;
}
