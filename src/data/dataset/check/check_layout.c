/* check_layout.c: findings about the folders and classes of a folder that is checked. */
#include "data/dataset/check/check.h"

#include "base/error.h"
#include "base/text.h"
#include <stdio.h>
#include <string.h>

/* The groups of a split: at most one of images outside of class folders, then the classes. */
typedef struct split {
    const char *name;
    int64_t begin, end;        /* of the classes */
    int64_t n_loose, n_images; /* n_images: of the classes */
    bool is_deep; /* there are images, and all lie in folders below the class folders */
} split;

/* "train/cat/sub"; empty parts are left out. */
static char *join(const ls_dataset_report *r, const char *a, const char *b)
{
    return ls__format(r->owned.ctx, "%s%s%s", a, *a && *b ? "/" : "", b);
}

/* The folder of an image below its class folder, "sub/"; NULL: the image lies in the class folder
 * itself. */
static const char *sub_folder(const ls_dataset_report *r, const ls__check_group *g, int64_t file,
                              size_t *length)
{
    const size_t above = *g->count.split ? strlen(g->count.split) + 1 : 0;
    const char *name = ls__check_name(r, r->files[file].path) + above + strlen(g->name) + 1;
    const char *slash = strchr(name, '/');
    *length = slash ? (size_t)(slash - name) : 0;
    return slash ? name : NULL;
}

static split find_split(const ls_dataset_report *r, const char *name)
{
    split s = { .name = name, .is_deep = true };
    size_t length;
    for (int64_t i = 0; i < r->groups.n; i++) {
        const ls__check_group *g = ls__check_group_at(r, i);
        if (strcmp(g->count.split, name) != 0) continue;
        if (!g->name) {
            s.n_loose = g->count.n_images;
            continue;
        }
        if (s.end == 0) s.begin = i;
        s.end = i + 1;
        s.n_images += g->count.n_images;
        for (int64_t k = g->begin; k < g->end && s.is_deep; k++)
            s.is_deep = sub_folder(r, g, k, &length) != NULL;
    }
    s.is_deep = s.is_deep && s.n_images > 0;
    return s;
}

/* ---- How folders are arranged ---- */

static ls_status add_layout(ls_dataset_report *r, const char *folder, char *reason)
{
    return ls__check_add(r, LS_FINDING_LAYOUT, ls__strdup(r->owned.ctx, folder), "", reason);
}

static ls_status add_loose(ls_dataset_report *r, const split *s)
{
    return add_layout(r, s->name,
                      ls__format(r->owned.ctx,
                                 "%lld image%s outside of class folders, which training does not "
                                 "read",
                                 (long long)s->n_loose, ls__plural(s->n_loose)));
}

/* A split whose classes have all their images in further folders. */
static ls_status add_deep(ls_dataset_report *r, const split *s)
{
    const ls_context *ctx = r->owned.ctx;
    int64_t i = s->begin;
    while (ls__check_group_at(r, i)->count.n_images == 0) i++;
    const ls__check_group *g = ls__check_group_at(r, i);
    size_t length;
    const char *below = sub_folder(r, g, g->begin, &length);
    return add_layout(
        r, s->name,
        s->end - s->begin == 1
            ? ls__format(ctx,
                         "one folder too many: '%s' holds no images, but folders such as '%.*s', "
                         "and is taken for a class",
                         g->name, (int)length, below)
            : ls__format(ctx,
                         "no class folder holds images itself; they lie in folders below, such as "
                         "'%s/%.*s'",
                         g->name, (int)length, below));
}

static ls_status check_split(ls_dataset_report *r, const split *s)
{
    const int64_t n_classes = s->end - s->begin;
    if (n_classes == 0)
        return add_layout(r, s->name,
                          ls__format(r->owned.ctx, "no class folders; found %lld image%s",
                                     (long long)s->n_loose, ls__plural(s->n_loose)));
    if (s->n_loose > 0) LS_TRY(add_loose(r, s));
    if (s->is_deep) return add_deep(r, s);
    if (n_classes > 1) return LS_OK;
    return add_layout(r, s->name,
                      ls__format(r->owned.ctx, "one class only, '%s'; expected at least two",
                                 ls__check_group_at(r, s->begin)->name));
}

/* ---- Class folders ---- */

static ls_status check_empty(ls_dataset_report *r, const ls__check_group *g)
{
    if (g->count.n_images > 0) return LS_OK;
    return ls__check_add(r, LS_FINDING_EMPTY_CLASS, join(r, g->count.split, g->name), "",
                         ls__strdup(r->owned.ctx, "no images; training stops at such a folder"));
}

/* One finding for each folder in a class folder that has images at any depth. Sorted paths with the
 * same beginning are neighbours. */
static ls_status check_nested(ls_dataset_report *r, const ls__check_group *g)
{
    const ls_context *ctx = r->owned.ctx;
    for (int64_t begin = g->begin, end; begin < g->end; begin = end) {
        size_t length, other;
        const char *name = sub_folder(r, g, begin, &length);
        end = begin + 1;
        if (!name) continue;
        for (; end < g->end; end++) {
            const char *next = sub_folder(r, g, end, &other);
            if (!next || other != length || memcmp(name, next, length) != 0) break;
        }
        const char *path = ls__check_name(r, r->files[begin].path);
        LS_TRY(ls__check_add(r, LS_FINDING_NESTED,
                             ls__format(ctx, "%.*s", (int)(name + length - path), path), "",
                             ls__format(ctx, "%lld image%s of class '%s'", (long long)(end - begin),
                                        ls__plural(end - begin), g->name)));
    }
    return LS_OK;
}

/* A class of split `there` without a folder in split `here`. One without images is an empty class
 * only. */
static ls_status add_missing(ls_dataset_report *r, ls_finding_kind kind, const split *here,
                             const ls_class_summary *there)
{
    if (there->n_images == 0) return LS_OK;
    return ls__check_add(r, kind, join(r, here->name, there->name), "",
                         ls__format(r->owned.ctx, "no readable folder; %s/%s has %lld image%s",
                                    there->split, there->name, (long long)there->n_images,
                                    ls__plural(there->n_images)));
}

/* Both lists of classes are sorted. */
static ls_status compare_classes(ls_dataset_report *r, const split *train, const split *other)
{
    for (int64_t i = train->begin, k = other->begin; i < train->end || k < other->end;) {
        const ls_class_summary *a = &ls__check_group_at(r, i)->count;
        const ls_class_summary *b = &ls__check_group_at(r, k)->count;
        const int order = i == train->end ? 1 : k == other->end ? -1 : strcmp(a->name, b->name);
        if (order < 0) LS_TRY(add_missing(r, LS_FINDING_NO_VALIDATION, other, a));
        if (order > 0) LS_TRY(add_missing(r, LS_FINDING_NO_TRAINING, train, b));
        i += order <= 0;
        k += order >= 0;
    }
    return LS_OK;
}

/* path: "train", "train/train". */
static bool is_train(const char *path)
{
    char name[256];
    ls_split part;
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(path, "/"), path);
    return ls_split_of_name(name, &part) && part == LS_SPLIT_TRAIN;
}

ls_status ls__check_layout(ls_dataset_report *r)
{
    const split train = find_split(r, r->splits[0]), top = find_split(r, "");
    const bool has_splits = *r->splits[0] != '\0';
    const bool has_train = is_train(r->splits[0]);
    if (has_splits && top.n_loose > 0) LS_TRY(add_loose(r, &top));
    if (has_splits && !has_train)
        LS_TRY(add_layout(r, "",
                          ls__format(r->owned.ctx, "no folder 'train' beside '%s'", r->splits[0])));
    for (int s = 0; s < r->n_splits; s++) {
        const split here = find_split(r, r->splits[s]);
        LS_TRY(check_split(r, &here));
        for (int64_t i = here.begin; i < here.end; i++) {
            LS_TRY(check_empty(r, ls__check_group_at(r, i)));
            if (!here.is_deep) LS_TRY(check_nested(r, ls__check_group_at(r, i)));
        }
        if (s > 0 && has_train && train.end > 0 && here.end > 0 && !train.is_deep && !here.is_deep)
            LS_TRY(compare_classes(r, &train, &here));
    }
    return LS_OK;
}
