/* image_list.c: a dataset over a list of files. */
#include "data/dataset/dataset.h"

#include "base/error.h"

static const char what[] = "ls_image_list_open";

static ls_status check_list(ls_context *ctx, int64_t n, const char *const *paths,
                            const int32_t *labels, int n_classes)
{
    if (n < 1 || !paths)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: %lld paths, expected 1 or more", what,
                        paths ? (long long)n : 0);
    if (labels ? n_classes < 1 : n_classes != 0)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: %d classes %s labels", what, n_classes,
                        labels ? "with" : "without");
    for (int64_t i = 0; i < n; i++) {
        if (!paths[i])
            return ls__fail(ctx, LS_ERR_INVALID, "%s: path %lld is NULL", what, (long long)i);
        if (labels && (labels[i] < 0 || labels[i] >= n_classes))
            return ls__fail(ctx, LS_ERR_DATA, "%s: '%s' has label %d, expected 0 to %d", what,
                            paths[i], labels[i], n_classes - 1);
    }
    return LS_OK;
}

static bool copy_list(ls_dataset *dataset, int64_t n, const char *const *paths,
                      const int32_t *labels, int n_classes)
{
    ls__text_list list = { .ctx = dataset->owned.ctx };
    bool done = true;
    for (int64_t i = 0; i < n && done; i++) done = ls__text_list_add(&list, paths[i]);
    done = done && ls__dataset_take_paths(dataset, &list);
    ls__text_list_free(&list);
    for (int64_t i = 0; i < n && done; i++) dataset->labels[i] = labels ? labels[i] : -1;
    return done && (!labels || ls__dataset_name_classes(dataset, n_classes, NULL));
}

ls_dataset *ls_image_list_open(ls_context *ctx, int64_t n, const char *const *paths,
                               const int32_t *labels, int n_classes)
{
    LS__ENTER_NULL(ctx);
    if (check_list(ctx, n, paths, labels, n_classes) != LS_OK) return NULL;
    ls_dataset *dataset = ls__dataset_open(ctx, what);
    if (dataset && !copy_list(dataset, n, paths, labels, n_classes)) {
        ls__fail_memory(ctx, what, (size_t)n * sizeof(char *));
        ls_dataset_close(&dataset);
    }
    return dataset;
}
