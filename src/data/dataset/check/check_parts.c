/* check_parts.c: lists the images of open datasets that are checked, with findings about their
 * classes. */
#include "data/dataset/check/check.h"

#include "base/error.h"
#include "data/dataset/dataset.h"
#include <stdlib.h>
#include <string.h>

typedef struct labelled {
    const char *class, *path; /* class: "" for samples without one */
} labelled;

static int compare_labelled(const void *a, const void *b)
{
    const labelled *x = a, *y = b;
    const int order = strcmp(x->class, y->class);
    return order ? order : strcmp(x->path, y->path);
}

/* The images of one class, from number `begin` on, each once. */
static ls_status add_class(ls_dataset_report *r, const char *split, const labelled *all,
                           int64_t begin, int64_t end)
{
    const int64_t first = r->found.images.n;
    for (int64_t i = begin; i < end; i++) {
        if (i > begin && strcmp(all[i].path, all[i - 1].path) == 0) continue;
        LS_TRY(ls__text_list_add(&r->found.images, split, all[i].path));
    }
    return ls__check_add_group(r, split, *all[begin].class ? all[begin].class : NULL, first);
}

static ls_status add_part(ls_dataset_report *r, const ls_check_part *part)
{
    const ls_dataset *d = part->dataset;
    const int64_t n = ls_dataset_sample_count(d);
    LS_TRY(ls__check_add_split(r, part->split));
    const char *split = r->splits[r->n_splits - 1];
    labelled *all = ls__alloc(r->owned.ctx, (size_t)n * sizeof(*all));
    if (!all) return ls__fail_memory(r->owned.ctx, split, (size_t)n * sizeof(*all));
    for (int64_t i = 0; i < n; i++) {
        const char *class = ls_dataset_class_name(d, ls_dataset_label(d, i));
        all[i] = (labelled){ class ? class : "", ls_dataset_sample_path(d, i) };
    }
    qsort(all, (size_t)n, sizeof(*all), compare_labelled);
    ls_status status = LS_OK;
    for (int64_t begin = 0, end; begin < n && status == LS_OK; begin = end) {
        for (end = begin; end < n && strcmp(all[end].class, all[begin].class) == 0;) end++;
        status = add_class(r, split, all, begin, end);
    }
    ls__free(r->owned.ctx, all);
    return status;
}

ls_status ls__check_list_parts(ls_dataset_report *r, int n, const ls_check_part *parts)
{
    for (int i = 0; i < n; i++) LS_TRY(add_part(r, &parts[i]));
    LS_TRY(ls__check_part_classes(r));
    LS_TRY(ls__check_part_groups(r, n, parts));
    return ls__check_take_paths(r);
}
