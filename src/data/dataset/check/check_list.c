/* check_list.c: lists the images of a folder that is checked: splits, class folders, and what lies
 * outside of them. */
#include "data/dataset/check/check.h"

#include "base/error.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

ls_status ls__check_add_group(ls_dataset_report *r, const char *split, const char *name,
                              int64_t begin)
{
    const int64_t end = r->found.images.n;
    const char *copy = name ? ls__bump_strdup(&r->bump, name) : NULL;
    ls__check_group *groups = ls__bump_room(&r->bump, r->groups, (size_t)r->n_groups, 1,
                                            &r->group_capacity, sizeof(*groups));
    if (!groups || (name && !copy)) return ls__fail_memory(r->owned.ctx, r->dir, 0);
    r->groups = groups;
    groups[r->n_groups++] = (ls__check_group){ { split, copy, end - begin, 0 }, begin, end };
    return LS_OK;
}

/* Images of a split, outside of class folders. */
static ls_status add_loose(ls_dataset_report *r, const char *split, const ls__text_list *images)
{
    const int64_t begin = r->found.images.n;
    const char *at = images->text;
    if (images->n == 0) return LS_OK;
    for (int64_t i = 0; i < images->n; i++, at += strlen(at) + 1)
        LS_TRY(ls__text_list_add(&r->found.images, at, at));
    return ls__check_add_group(r, split, NULL, begin);
}

static ls_status add_class(ls_dataset_report *r, const char *split, const char *dir,
                           const char *name)
{
    const int64_t begin = r->found.images.n, n_unreadable = r->unreadable.n;
    const char *path = ls__bump_format(&r->bump, "%s/%s", dir, name);
    if (!path) return ls__fail_memory(r->owned.ctx, name, strlen(dir));
    LS_TRY(ls__folder_read(r->owned.ctx, path, true, &r->found));
    const bool is_unreadable = r->unreadable.n > n_unreadable && r->found.images.n == begin;
    /* an unreadable folder is a finding, and may have images */
    return is_unreadable ? LS_OK : ls__check_add_group(r, split, name, begin);
}

static ls_status read_top(ls_dataset_report *r, const char *path, ls__folder_files *top)
{
    ls_context *ctx = r->owned.ctx;
    *top = (ls__folder_files){ .images.ctx = ctx,
                               .folders.ctx = ctx,
                               .hidden = &r->hidden,
                               .unreadable = path == r->dir ? NULL : &r->unreadable };
    return ls__folder_read(ctx, path, false, top);
}

/* What lies in the folder `dir` of a split, which was read into `top`. */
static ls_status list_split(ls_dataset_report *r, const char *split, const char *dir,
                            const ls__folder_files *top)
{
    const char **names = ls__text_list_sort(&top->folders, r->dir);
    ls_status status = names ? add_loose(r, split, &top->images) : LS_ERR_MEMORY;
    for (int64_t i = 0; i < top->folders.n && status == LS_OK; i++)
        status = add_class(r, split, dir, names[i]);
    ls__free(r->owned.ctx, names);
    return status;
}

static ls_status list_folder(ls_dataset_report *r, const char *split)
{
    ls__folder_files top;
    const char *dir = ls__bump_format(&r->bump, "%s/%s", r->dir, split);
    if (!dir) return ls__fail_memory(r->owned.ctx, split, strlen(r->dir));
    ls_status status = read_top(r, dir, &top);
    if (status == LS_OK) status = list_split(r, split, dir, &top);
    ls__folder_files_free(&top);
    return status;
}

ls_status ls__check_add_split(ls_dataset_report *r, const char *path)
{
    r->splits[r->n_splits] = ls__bump_strdup(&r->bump, path);
    if (!r->splits[r->n_splits]) return ls__fail_memory(r->owned.ctx, path, strlen(path));
    r->n_splits++;
    return LS_OK;
}

/* The folders of splits, without lists. */
static ls_status find_splits(ls_dataset_report *r)
{
    char path[4096];
    ls_split_kind kind;
    for (int split = 0; split < LS_N_SPLITS; split++)
        for (int i = 0; r->n_splits < LS__MAX_SPLITS; i++) {
            const ls_status status =
                ls_split_find(r->dir, (ls_split)split, i, path, sizeof(path), &kind);
            if (status == LS_ERR_IO)
                return ls__fail_errno(r->owned.ctx, errno, "image folder '%s'", r->dir);
            if (status != LS_OK) break;
            if (kind != LS_SPLIT_LIST) LS_TRY(ls__check_add_split(r, path));
        }
    return LS_OK;
}

/* The splits in `top`, or the folder itself. */
static ls_status list_splits(ls_dataset_report *r, const ls__folder_files *top)
{
    LS_TRY(find_splits(r));
    if (r->n_splits == 0) {
        LS_TRY(ls__check_add_split(r, ""));
        return list_split(r, r->splits[0], r->dir, top);
    }
    LS_TRY(add_loose(r, "", &top->images));
    for (int s = 0; s < r->n_splits; s++) LS_TRY(list_folder(r, r->splits[s]));
    return LS_OK;
}

ls_status ls__check_take_paths(ls_dataset_report *r)
{
    ls_context *ctx = r->owned.ctx;
    const int64_t n_images = r->found.images.n, n_files = n_images + r->ignored.n;
    const int64_t n = n_files + r->hidden.n;
    r->paths = ls__bump_alloc(&r->bump, (size_t)n * sizeof(*r->paths));
    r->files = ls__zalloc(ctx, (size_t)n_files * sizeof(*r->files));
    if (!r->paths || !r->files)
        return ls__fail_memory(ctx, r->dir, (size_t)n_files * sizeof(*r->files));
    r->n_images = n_images;
    r->n_files = n_files;
    ls__text_list_get(&r->found.images, r->paths);
    ls__text_list_get(&r->ignored, r->paths + n_images);
    ls__text_list_get(&r->hidden, r->paths + n_files);
    qsort(r->paths + n_images, (size_t)r->ignored.n, sizeof(*r->paths), ls__compare_texts);
    for (int64_t i = 0; i < r->n_groups; i++) {
        const ls__check_group *g = &r->groups[i];
        qsort(r->paths + g->begin, (size_t)(g->end - g->begin), sizeof(*r->paths),
              ls__compare_texts);
        for (int64_t k = g->begin; k < g->end; k++) r->files[k].group = (int32_t)i;
    }
    for (int64_t k = 0; k < n_files; k++) {
        r->files[k].path = r->paths[k];
        if (k >= n_images) r->files[k].group = -1;
    }
    return LS_OK;
}

static ls_status report_unreadable(ls_dataset_report *r)
{
    const char *at = r->unreadable.text;
    for (int64_t i = 0; i < r->unreadable.n; i += 2) {
        const char *reason = at + strlen(at) + 1;
        LS_TRY(ls__check_add(r, LS_FINDING_UNREADABLE, ls__check_name(r, at), "", "%s", reason));
        at = reason + strlen(reason) + 1;
    }
    return LS_OK;
}

ls_status ls__check_list(ls_dataset_report *r)
{
    ls__folder_files top;
    ls_status status = read_top(r, r->dir, &top);
    if (status == LS_OK) status = list_splits(r, &top);
    ls__folder_files_free(&top);
    if (status == LS_OK) status = report_unreadable(r);
    return status == LS_OK ? ls__check_take_paths(r) : status;
}

/* ---- Folders ---- */

static int compare_folders(const void *a, const void *b)
{
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    const size_t n = (size_t)(strrchr(x, '/') - x), m = (size_t)(strrchr(y, '/') - y);
    const int order = memcmp(x, y, n < m ? n : m);
    return order ? order : (n > m) - (n < m);
}

/* The folder of n_images images, of which this is one. */
static ls_status add_folder_of(ls_dataset_report *r, const char *path, int64_t n_images)
{
    const char *slash = strrchr(path, '/'), *name = ls__check_name(r, path);
    r->folders[r->n_folders++].n_images = n_images;
    return ls__text_list_format(&r->folder_names, r->dir, "%.*s",
                                slash < name ? 0 : (int)(slash - name), name);
}

static ls_status count_images(ls_dataset_report *r, const char **paths)
{
    memcpy(paths, r->paths, (size_t)r->n_images * sizeof(*paths));
    qsort(paths, (size_t)r->n_images, sizeof(*paths), compare_folders);
    for (int64_t begin = 0, end; begin < r->n_images; begin = end) {
        for (end = begin; end < r->n_images && compare_folders(&paths[begin], &paths[end]) == 0;)
            end++;
        LS_TRY(add_folder_of(r, paths[begin], end - begin));
    }
    return LS_OK;
}

/* A slash comes before all other characters, so that a folder is followed by those in it. */
static int compare_counts(const void *a, const void *b)
{
    const char *x = ((const ls_folder_summary *)a)->path, *y = ((const ls_folder_summary *)b)->path;
    for (; *x && *x == *y; x++) y++;
    if (*x == *y || !*x || !*y) return (*x != '\0') - (*y != '\0');
    if (*x == '/' || *y == '/') return *x == '/' ? -1 : 1;
    return (unsigned char)*x < (unsigned char)*y ? -1 : 1;
}

ls_status ls__check_count_folders(ls_dataset_report *r)
{
    const size_t max = (size_t)(r->n_images + r->n_groups);
    const char **paths = ls__bump_alloc(&r->bump, max * sizeof(*paths));
    r->folders = ls__bump_alloc(&r->bump, max * sizeof(*r->folders));
    if (!paths || !r->folders) return ls__fail_memory(r->owned.ctx, r->dir, max * sizeof(*paths));
    LS_TRY(count_images(r, paths));
    for (int64_t i = 0; i < r->n_groups; i++) {
        const ls_class_summary *c = &r->groups[i].count;
        if (c->n_images > 0) continue;
        r->n_folders++;
        LS_TRY(ls__text_list_format(&r->folder_names, r->dir, "%s%s%s", c->split,
                                    *c->split ? "/" : "", c->name));
    }
    ls__text_list_get(&r->folder_names, paths);
    for (int64_t i = 0; i < r->n_folders; i++) r->folders[i].path = paths[i];
    qsort(r->folders, (size_t)r->n_folders, sizeof(*r->folders), compare_counts);
    return LS_OK;
}
