/* groups.c: see groups.h. */
#include "data/dataset/groups.h"

#include "base/error.h"
#include "data/dataset/label_order.h"
#include "data/dataset/name_pattern.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- Images ---- */

/* The last folder that was resolved, because images of one folder follow each other. */
typedef struct resolver {
    char folder[PATH_MAX], real[PATH_MAX];
} resolver;

/* No file is there. After another error, such as EIO, the same image may be there by two paths. */
static bool is_absent(int error)
{
    return error == ENOENT || error == ENOTDIR || error == ELOOP;
}

/* The path without links, "." and ".."; of a file that is not there, its folder without them.
 * Returns 0 or errno. */
static int resolve(resolver *r, const char *path, char out[PATH_MAX + 256])
{
    struct stat there;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const size_t n = (size_t)(name - path);
    if (n >= sizeof(r->folder)) return ENAMETOOLONG;
    if (!*r->real || strncmp(r->folder, path, n) != 0 || r->folder[n]) {
        snprintf(r->folder, sizeof(r->folder), "%.*s", (int)n, path);
        if (!realpath(n > 0 ? r->folder : ".", r->real)) {
            if (!is_absent(errno)) return errno;
            snprintf(r->real, sizeof(r->real), "%s", r->folder);
        }
    }
    if (lstat(path, &there) != 0) {
        if (!is_absent(errno)) return errno;
    } else if (S_ISLNK(there.st_mode)) {
        if (realpath(path, out)) return 0;
        if (!is_absent(errno)) return errno;
    }
    snprintf(out, PATH_MAX + 256, "%s/%s", r->real, name);
    return 0;
}

/* first[i]: the first sample whose text equals that of sample i. Samples with an empty text are
 * alone. */
static ls_status find_first(ls_context *ctx, const char *what, int64_t n, const char *const *texts,
                            int64_t *first)
{
    ls__label *all = ls__alloc(ctx, (size_t)n * sizeof(*all));
    if (!all) return ls__fail_memory(ctx, what, (size_t)n * sizeof(*all));
    for (int64_t i = 0; i < n; i++) all[i] = (ls__label){ texts[i], i };
    qsort(all, (size_t)n, sizeof(*all), ls__compare_labels);
    for (int64_t i = 0, begin = 0; i < n; i++) {
        if (!*all[i].name || strcmp(all[i].name, all[begin].name) != 0) begin = i;
        first[all[i].number] = all[begin].number;
    }
    ls__free(ctx, all);
    return LS_OK;
}

ls_status ls__find_images(ls_dataset *dataset, const char *what, int64_t *image)
{
    ls_context *ctx = dataset->owned.ctx;
    const int64_t n = dataset->n_samples;
    for (int64_t i = 0; i < n; i++) image[i] = i;
    if (!dataset->paths || dataset->in_class_folders) return LS_OK;
    ls__text_list files = { .ctx = ctx };
    resolver r = { "", "" };
    const char **texts = ls__alloc(ctx, (size_t)n * sizeof(*texts));
    ls_status status = texts ? LS_OK : ls__fail_memory(ctx, what, (size_t)n * sizeof(*texts));
    for (int64_t i = 0; i < n && status == LS_OK; i++) {
        char file[PATH_MAX + 256];
        const int error = resolve(&r, dataset->paths[i], file);
        if (error != 0)
            status = ls__fail_errno(ctx, error, "%s: '%s'", what, dataset->paths[i]);
        else
            status = ls__text_list_add(&files, what, file);
    }
    if (status == LS_OK) {
        ls__text_list_get(&files, texts);
        status = find_first(ctx, what, n, texts, image);
    }
    ls__free(ctx, texts);
    ls__text_list_free(&files);
    return status;
}

/* ---- Groups ---- */

const char *ls__group_of(const ls_dataset *dataset, int64_t sample)
{
    dataset = ls__dataset_source(dataset, &sample);
    return dataset->groups && *dataset->groups[sample] ? dataset->groups[sample] : NULL;
}

static int64_t find_root(int64_t *joined, int64_t i)
{
    while (joined[i] != i) i = joined[i] = joined[joined[i]];
    return i;
}

/* The smaller root stays, so that a root is the first sample of what is joined. */
static void join(int64_t *joined, int64_t a, int64_t b)
{
    a = find_root(joined, a);
    b = find_root(joined, b);
    joined[a > b ? a : b] = a < b ? a : b;
}

ls_status ls__join_groups(ls_dataset *dataset, const char *what, const int64_t *image,
                          int64_t *joined)
{
    ls_context *ctx = dataset->owned.ctx;
    const int64_t n = dataset->n_samples;
    memcpy(joined, image, (size_t)n * sizeof(*joined));
    if (!ls__dataset_whole(dataset)->groups) return LS_OK;
    const char **texts = ls__alloc(ctx, (size_t)n * sizeof(*texts));
    int64_t *first = ls__alloc(ctx, (size_t)n * sizeof(*first));
    ls_status status = LS_OK;
    if (texts && first) {
        for (int64_t i = 0; i < n; i++) {
            const char *group = ls__group_of(dataset, i);
            texts[i] = group ? group : "";
        }
        status = find_first(ctx, what, n, texts, first);
        for (int64_t i = 0; i < n && status == LS_OK; i++) join(joined, i, first[i]);
        for (int64_t i = 0; i < n && status == LS_OK; i++) joined[i] = joined[joined[i]];
    } else {
        status = ls__fail_memory(ctx, what, (size_t)n * sizeof(*texts));
    }
    ls__free(ctx, texts);
    ls__free(ctx, first);
    return status;
}

/* The samples that have a group, sorted by it; NULL with an error kept. */
static ls__label *sort_by_group(ls_dataset *dataset, const char *what, int64_t *n)
{
    ls_context *ctx = dataset->owned.ctx;
    const size_t bytes = (size_t)(dataset->n_samples + 1) * sizeof(ls__label);
    ls__label *all = ls__alloc(ctx, bytes);
    if (!all) return ls__fail_memory(ctx, what, bytes), NULL;
    *n = 0;
    for (int64_t i = 0; i < dataset->n_samples; i++) {
        const char *group = ls__group_of(dataset, i);
        if (group) all[(*n)++] = (ls__label){ group, i };
    }
    qsort(all, (size_t)*n, sizeof(*all), ls__compare_labels);
    return all;
}

static void count_shared(const ls__label *train, int64_t n_train, const ls__label *validation,
                         int64_t n_validation, ls_shared_groups *out)
{
    const char *last = NULL;
    for (int64_t i = 0, k = 0; i < n_validation; i++) {
        while (k < n_train && strcmp(train[k].name, validation[i].name) < 0) k++;
        if (k == n_train || strcmp(train[k].name, validation[i].name) != 0) continue;
        out->n_samples++;
        out->n_groups += !last || strcmp(last, validation[i].name) != 0;
        last = validation[i].name;
        if (!out->example) out->example = last;
    }
}

ls_status ls_dataset_shared_groups(ls_dataset *train, ls_dataset *validation, ls_shared_groups *out)
{
    static const char what[] = "ls_dataset_shared_groups";
    int64_t n_train, n_validation;
    if (!train || !validation) return LS_ERR_EARLIER;
    LS__ENTER(train->owned.ctx);
    if (!out) return ls__fail(train->owned.ctx, LS_ERR_INVALID, "%s: out is NULL", what);
    if (validation->owned.ctx != train->owned.ctx)
        return ls__fail(train->owned.ctx, LS_ERR_MISMATCH,
                        "%s: both datasets must belong to one context", what);
    *out = (ls_shared_groups){ 0 };
    ls__label *a = sort_by_group(train, what, &n_train);
    ls__label *b = a ? sort_by_group(validation, what, &n_validation) : NULL;
    if (b) count_shared(a, n_train, b, n_validation, out);
    const ls_status status = b ? LS_OK : LS_ERR_MEMORY;
    ls__free(train->owned.ctx, a);
    ls__free(train->owned.ctx, b);
    return status;
}

void ls__remove_groups(ls_dataset *dataset)
{
    const ls_context *ctx = dataset->owned.ctx;
    ls__free(ctx, dataset->groups);
    ls__free(ctx, dataset->group_text);
    dataset->groups = NULL;
    dataset->group_text = dataset->grouped_by = NULL;
}

ls_status ls__set_groups(ls_dataset *dataset, const char *what, ls__text_list *texts,
                         const char *by, bool is_pattern)
{
    const ls_context *ctx = dataset->owned.ctx;
    const char **groups = ls__alloc(ctx, (size_t)texts->n * sizeof(*groups));
    char *copy = ls__bump_strdup(&dataset->bump, by);
    if (!groups || !copy) {
        ls__free(ctx, groups);
        return ls__fail_memory(dataset->owned.ctx, what, texts->n_bytes);
    }
    ls__remove_groups(dataset);
    ls__text_list_get(texts, groups);
    dataset->groups = groups;
    dataset->group_text = texts->text;
    dataset->grouped_by = copy;
    dataset->grouped_by_pattern = is_pattern;
    texts->text = NULL;
    return LS_OK;
}

ls_status ls_dataset_group_by_pattern(ls_dataset *dataset, const char *pattern)
{
    static const char what[] = "ls_dataset_group_by_pattern";
    ls_context *ctx = dataset ? dataset->owned.ctx : NULL;
    LS__ENTER(ctx);
    const int64_t n = dataset->n_samples;
    if (!pattern || !dataset->paths || dataset->whole)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: %s", what,
                        !pattern         ? "pattern is NULL"
                        : dataset->whole ? "the dataset is a split of another one; expected that"
                                         : "the samples have no paths; expected image files");
    ls__text_list groups = { .ctx = ctx };
    const char **names = ls__alloc(ctx, (size_t)n * sizeof(*names));
    if (!names) return ls__fail_memory(ctx, what, (size_t)n * sizeof(*names));
    for (int64_t i = 0; i < n; i++) names[i] = ls__dataset_name(dataset, i);
    ls_status status = ls__match_names(ctx, what, pattern, n, names, &groups);
    if (status == LS_OK) status = ls__set_groups(dataset, what, &groups, pattern, true);
    ls__free(ctx, names);
    ls__text_list_free(&groups);
    return status;
}
