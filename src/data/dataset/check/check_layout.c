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
} split;

/* "train/cat/sub"; empty parts are left out. */
static char *join(ls_dataset_report *r, const char *a, const char *b)
{
    return ls__bump_format(&r->bump, "%s%s%s", a, *a && *b ? "/" : "", b);
}

/* The folder of an image below its class folder, "sub/"; NULL: the image lies in the class folder
 * itself. */
static const char *sub_folder(const ls_dataset_report *r, const ls__check_group *g, int64_t file,
                              size_t *length)
{
    const size_t above = *g->count.split ? strlen(g->count.split) + 1 : 0;
    const char *name = ls__check_name(r, r->files[file].path) + above + strlen(g->count.name) + 1;
    const char *slash = strchr(name, '/');
    *length = slash ? (size_t)(slash - name) : 0;
    return slash ? name : NULL;
}

/* Parts may have equal names, so their groups are found by the pointer. */
static split find_split(const ls_dataset_report *r, const char *name)
{
    split s = { .name = name };
    for (int64_t i = 0; i < r->n_groups; i++) {
        const ls__check_group *g = &r->groups[i];
        const bool is_same =
            r->is_of_parts ? g->count.split == name : strcmp(g->count.split, name) == 0;
        if (!is_same) continue;
        if (!g->count.name) {
            s.n_loose = g->count.n_images;
            continue;
        }
        if (s.end == 0) s.begin = i;
        s.end = i + 1;
        s.n_images += g->count.n_images;
    }
    return s;
}

/* Whether there are images, and all lie below the class folders. */
static bool is_deep(const ls_dataset_report *r, const split *s)
{
    size_t length;
    bool deep = s->n_images > 0;
    for (int64_t i = s->begin; i < s->end; i++) {
        const ls__check_group *g = &r->groups[i];
        for (int64_t k = g->begin; k < g->end && deep; k++)
            deep = sub_folder(r, g, k, &length) != NULL;
    }
    return deep;
}

/* ---- How folders are arranged ---- */

static ls_status add_loose(ls_dataset_report *r, const split *s)
{
    return ls__check_add(r, LS_FINDING_LAYOUT, s->name, "",
                         "%lld image%s outside of class folders, which training does not read",
                         (long long)s->n_loose, ls__plural(s->n_loose));
}

/* A split whose classes have all their images in further folders. */
static ls_status add_deep(ls_dataset_report *r, const split *s)
{
    int64_t i = s->begin;
    while (r->groups[i].count.n_images == 0) i++;
    const ls__check_group *g = &r->groups[i];
    size_t length;
    const char *below = sub_folder(r, g, g->begin, &length);
    if (s->end - s->begin == 1)
        return ls__check_add(r, LS_FINDING_LAYOUT, s->name, "",
                             "one folder too many: '%s' holds no images, but folders such as "
                             "'%.*s', and is taken for a class",
                             g->count.name, (int)length, below);
    return ls__check_add(r, LS_FINDING_LAYOUT, s->name, "",
                         "no class folder holds images itself; they lie in folders below, such as "
                         "'%s/%.*s'",
                         g->count.name, (int)length, below);
}

/* Whether the path of a split, "train/train", begins with a name of this one. */
static bool is_split(const char *path, ls_split wanted)
{
    char name[256];
    ls_split found;
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(path, "/"), path);
    return ls_split_of_name(name, &found) && found == wanted;
}

/* Images without classes are an arrangement of their own, which prediction reads: alone in a
 * folder, or for tests. */
static bool may_be_unlabelled(const split *s)
{
    return s->n_loose > 0 && (!*s->name || is_split(s->name, LS_SPLIT_TEST));
}

static ls_status check_split(ls_dataset_report *r, const split *s)
{
    const int64_t n_classes = s->end - s->begin;
    if (n_classes == 0 && may_be_unlabelled(s)) return LS_OK;
    if (n_classes == 0)
        return ls__check_add(r, LS_FINDING_LAYOUT, s->name, "",
                             "no class folders; found %lld image%s", (long long)s->n_loose,
                             ls__plural(s->n_loose));
    if (s->n_loose > 0) LS_TRY(add_loose(r, s));
    if (is_deep(r, s)) return add_deep(r, s);
    if (n_classes > 1) return LS_OK;
    return ls__check_add(r, LS_FINDING_LAYOUT, s->name, "",
                         "one class only, '%s'; expected at least two",
                         r->groups[s->begin].count.name);
}

/* ---- Class folders ---- */

static ls_status check_empty(ls_dataset_report *r, const ls__check_group *g)
{
    if (g->count.n_images > 0) return LS_OK;
    return ls__check_add(r, LS_FINDING_EMPTY_CLASS, join(r, g->count.split, g->count.name), "",
                         "no images; training stops at such a folder");
}

/* One finding for each folder in a class folder that has images at any depth. Sorted paths with the
 * same beginning are neighbours. */
static ls_status check_nested(ls_dataset_report *r, const ls__check_group *g)
{
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
                             ls__bump_format(&r->bump, "%.*s", (int)(name + length - path), path),
                             "", "%lld image%s of class '%s'", (long long)(end - begin),
                             ls__plural(end - begin), g->count.name));
    }
    return LS_OK;
}

/* A class of split `there` that split `here` lacks. One without images is an empty class only. */
static ls_status add_missing(ls_dataset_report *r, ls_finding_kind kind, const split *here,
                             const ls_class_summary *there)
{
    if (there->n_images == 0) return LS_OK;
    if (r->is_of_parts)
        return ls__check_add(r, kind, here->name, "", "no image of class '%s'; '%s' has %lld",
                             there->name, there->split, (long long)there->n_images);
    return ls__check_add(r, kind, join(r, here->name, there->name), "",
                         "no readable folder; %s/%s has %lld image%s", there->split, there->name,
                         (long long)there->n_images, ls__plural(there->n_images));
}

/* Both lists of classes are sorted. */
static ls_status compare_classes(ls_dataset_report *r, const split *train, const split *other)
{
    for (int64_t i = train->begin, k = other->begin; i < train->end || k < other->end;) {
        const ls_class_summary *a = &r->groups[i].count;
        const ls_class_summary *b = &r->groups[k].count;
        const int order = i == train->end ? 1 : k == other->end ? -1 : strcmp(a->name, b->name);
        if (order < 0) LS_TRY(add_missing(r, LS_FINDING_NO_VALIDATION, other, a));
        if (order > 0) LS_TRY(add_missing(r, LS_FINDING_NO_TRAINING, train, b));
        i += order <= 0;
        k += order >= 0;
    }
    return LS_OK;
}

ls_status ls__check_layout(ls_dataset_report *r)
{
    const split train = find_split(r, r->splits[0]), top = find_split(r, "");
    const bool has_splits = *r->splits[0] != '\0';
    const bool has_train = is_split(r->splits[0], LS_SPLIT_TRAIN);
    if (has_splits && top.n_loose > 0) LS_TRY(add_loose(r, &top));
    if (has_splits && !has_train)
        LS_TRY(ls__check_add(r, LS_FINDING_LAYOUT, "", "", "no folder 'train' beside '%s'",
                             r->splits[0]));
    for (int s = 0; s < r->n_splits; s++) {
        const split here = find_split(r, r->splits[s]);
        const bool deep = is_deep(r, &here);
        LS_TRY(check_split(r, &here));
        for (int64_t i = here.begin; i < here.end; i++) {
            LS_TRY(check_empty(r, &r->groups[i]));
            if (!deep) LS_TRY(check_nested(r, &r->groups[i]));
        }
        if (s > 0 && has_train && train.end > 0 && here.end > 0 && !is_deep(r, &train) && !deep)
            LS_TRY(compare_classes(r, &train, &here));
    }
    return LS_OK;
}

ls_status ls__check_part_classes(ls_dataset_report *r)
{
    const split train = find_split(r, r->splits[0]);
    for (int s = 1; s < r->n_splits; s++) {
        const split other = find_split(r, r->splits[s]);
        LS_TRY(compare_classes(r, &train, &other));
    }
    return LS_OK;
}
