/* check_groups.c: finds groups, such as the images of a patient, that are in several splits. */
#include "data/dataset/check/check.h"

#include "base/error.h"
#include "data/dataset/groups.h"
#include "data/dataset/name_pattern.h"
#include <stdlib.h>
#include <string.h>

/* An image of a group. */
typedef struct member {
    const char *group, *path; /* borrowed */
    int split;                /* its number in the report */
} member;

static int compare_members(const void *a, const void *b)
{
    const member *x = a, *y = b;
    const int order = strcmp(x->group, y->group);
    if (order) return order;
    if (x->split != y->split) return x->split < y->split ? -1 : 1;
    return strcmp(x->path, y->path);
}

/* The members [begin, end) of one group, sorted by split: a finding if there are two splits. */
static ls_status add_group(ls_dataset_report *r, const member *all, int64_t begin, int64_t end)
{
    int64_t last = end - 1, n_first = 0;
    if (all[begin].split == all[last].split) return LS_OK;
    while (all[last - 1].split == all[end - 1].split) last--;
    while (all[begin + n_first].split == all[begin].split) n_first++;
    const char *first_split = r->splits[all[begin].split], *split = r->splits[all[last].split];
    const char *path = ls__bump_strdup(&r->bump, ls__check_name(r, all[last].path));
    const char *other = ls__bump_strdup(&r->bump, ls__check_name(r, all[begin].path));
    return ls__check_add(r, LS_FINDING_GROUP_LEAK, path, other,
                         "group '%s': %lld in '%s', %lld in '%s'", all[begin].group,
                         (long long)(end - last), split, (long long)n_first, first_split);
}

static ls_status check_groups(ls_dataset_report *r, int64_t n, member *members)
{
    qsort(members, (size_t)n, sizeof(*members), compare_members);
    for (int64_t begin = 0, end; begin < n; begin = end) {
        for (end = begin; end < n && strcmp(members[end].group, members[begin].group) == 0;) end++;
        LS_TRY(add_group(r, members, begin, end));
    }
    return LS_OK;
}

ls_status ls__check_part_groups(ls_dataset_report *r, int n, const ls_check_part *parts)
{
    ls_context *ctx = r->owned.ctx;
    int64_t n_samples = 0, n_members = 0;
    for (int s = 0; s < n; s++) n_samples += parts[s].dataset->n_samples;
    member *members = ls__alloc(ctx, (size_t)n_samples * sizeof(*members));
    if (!members) return ls__fail_memory(ctx, "groups", (size_t)n_samples * sizeof(*members));
    for (int s = 0; s < n; s++)
        for (int64_t i = 0; i < parts[s].dataset->n_samples; i++) {
            const char *group = ls__group_of(parts[s].dataset, i);
            if (group)
                members[n_members++] =
                    (member){ group, ls_dataset_sample_path(parts[s].dataset, i), s };
        }
    const ls_status status = check_groups(r, n_members, members);
    ls__free(ctx, members);
    return status;
}

/* The split of a file, and its name there. */
static member place_file(const ls_dataset_report *r, int64_t file)
{
    const char *split = r->groups[r->files[file].group].count.split;
    const char *path = r->files[file].path;
    member out = { .path = path };
    while (r->splits[out.split] != split) out.split++;
    out.group = ls__check_name(r, path) + (*split ? strlen(split) + 1 : 0);
    return out;
}

ls_status ls__check_pattern_groups(ls_dataset_report *r, const char *pattern)
{
    static const char what[] = "ls_dataset_check: group_pattern";
    ls_context *ctx = r->owned.ctx;
    const int64_t n = r->n_images;
    ls__text_list groups = { .ctx = ctx };
    if (!pattern) return LS_OK;
    member *members = ls__alloc(ctx, (size_t)n * sizeof(*members));
    const char **texts = ls__alloc(ctx, (size_t)n * sizeof(*texts));
    ls_status status =
        members && texts ? LS_OK : ls__fail_memory(ctx, what, (size_t)n * sizeof(*members));
    for (int64_t i = 0; i < n && status == LS_OK; i++) {
        members[i] = place_file(r, i);
        texts[i] = members[i].group;
    }
    if (status == LS_OK) status = ls__match_names(ctx, what, pattern, n, texts, &groups);
    if (status == LS_OK) {
        ls__text_list_get(&groups, texts);
        for (int64_t i = 0; i < n; i++) members[i].group = texts[i];
        status = check_groups(r, n, members);
    }
    ls__text_list_free(&groups);
    ls__free(ctx, texts);
    ls__free(ctx, members);
    return status;
}
