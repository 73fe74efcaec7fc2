/* image_list.c: datasets over lists of files. */
#include "data/dataset/dataset.h"

#include "base/error.h"
#include "base/file.h"
#include "base/path.h"
#include <stdlib.h>
#include <string.h>

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
    for (int64_t i = 0; i < n && done; i++)
        done = ls__text_list_add(&list, what, paths[i]) == LS_OK;
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

/* ---- Files and folders ---- */

static ls_status add_images(ls_context *ctx, ls__folder_files *files, const char *path,
                            ls__text_list *list)
{
    LS_TRY(ls__folder_read(ctx, path, true, files));
    const char *at = files->unreadable->text;
    for (int64_t i = 0; i < files->unreadable->n; i += 2) {
        const char *reason = at + strlen(at) + 1;
        ls__warn(ctx, LS_LOG_DATA, "image folder '%s': %s", at, reason);
        LS_TRY(ls__text_list_add(&files->images, path, at));
        at = reason + strlen(reason) + 1;
    }
    at = files->ignored->text;
    for (int64_t i = 0; i < files->ignored->n; i++, at += strlen(at) + 1)
        if (ls__is_other_image_name(at)) LS_TRY(ls__text_list_add(&files->images, path, at));
    if (files->images.n == 0)
        return ls__fail(
            ctx, LS_ERR_DATA,
            "folder '%s': no images at any depth; expected names that end in " LS__IMAGE_EXTENSIONS,
            path);
    const char **sorted = ls__text_list_sort(&files->images, path);
    ls_status status = sorted ? LS_OK : LS_ERR_MEMORY;
    for (int64_t i = 0; i < files->images.n && status == LS_OK; i++)
        status = ls__text_list_add(list, path, sorted[i]);
    ls__free(ctx, sorted);
    return status;
}

static ls_status add_folder(ls_context *ctx, const char *path, ls__text_list *list)
{
    ls__text_list unreadable = { .ctx = ctx }, ignored = { .ctx = ctx };
    ls__folder_files files = {
        .images.ctx = ctx, .folders.ctx = ctx, .ignored = &ignored, .unreadable = &unreadable
    };
    char *plain = ls__strdup(ctx, path);
    if (!plain) return ls__fail_memory(ctx, path, strlen(path));
    ls__path_trim(plain);
    const ls_status status = add_images(ctx, &files, plain, list);
    ls__folder_files_free(&files);
    ls__text_list_free(&unreadable);
    ls__text_list_free(&ignored);
    ls__free(ctx, plain);
    return status;
}

ls_dataset *ls_image_files_open(ls_context *ctx, int64_t n, const char *const *paths)
{
    LS__ENTER_NULL(ctx);
    ls__text_list list = { .ctx = ctx };
    const char **all = NULL;
    ls_dataset *dataset = NULL;
    ls_status status = check_list(ctx, n, paths, NULL, 0);
    for (int64_t i = 0; i < n && status == LS_OK; i++)
        status = ls__is_folder(paths[i]) ? add_folder(ctx, paths[i], &list)
                                         : ls__text_list_add(&list, paths[i], paths[i]);
    if (status == LS_OK) all = ls__alloc(ctx, (size_t)list.n * sizeof(*all));
    if (status == LS_OK && !all) ls__fail_memory(ctx, "ls_image_files_open", (size_t)list.n);
    if (all) {
        ls__text_list_get(&list, all);
        dataset = ls_image_list_open(ctx, list.n, all, NULL, 0);
    }
    ls__free(ctx, all);
    ls__text_list_free(&list);
    return dataset;
}
