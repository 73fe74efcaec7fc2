/* folders_idx.c: see folders.h. */
#include "run/folders.h"

#include "base/error.h"
#include "base/path.h"
#include <stdio.h>
#include <string.h>

bool ls__folders_find_idx(const char *dir, const char *split, char images[LS__PATH_SIZE],
                          char labels[LS__PATH_SIZE])
{
    static const char *const names[] = { "images-idx3-ubyte", "labels-idx1-ubyte" };
    int n_found = 0;
    for (int i = 0; i < 2; i++) {
        char *path = i ? labels : images;
        const int length = snprintf(path, LS__PATH_SIZE, "%s/%s-%s.gz", dir, split, names[i]);
        if (length >= LS__PATH_SIZE) return false;
        if (!ls__is_file(path)) path[length - (int)strlen(".gz")] = '\0';
        n_found += ls__is_file(path);
    }
    return n_found > 0;
}

bool ls__folders_has_idx(const char *dir)
{
    char images[LS__PATH_SIZE], labels[LS__PATH_SIZE];
    return ls__folders_find_idx(dir, "train", images, labels) ||
           ls__folders_find_idx(dir, "t10k", images, labels);
}

ls_dataset *ls__folders_open_idx(ls_context *ctx, const char *images, const char *labels,
                                 int n_classes, const char *const *classes)
{
    ls_dataset *dataset = ls_idx_open(ctx, images, labels, n_classes);
    for (int i = 0; dataset && classes && i < n_classes; i++) {
        const char *name = ls_dataset_class_name(dataset, i);
        if (strcmp(name, classes[i]) == 0) continue;
        ls__fail(ctx, LS_ERR_DATA, "%s: class %d is '%s', expected '%s'", images, i, name,
                 classes[i]);
        ls_dataset_close(&dataset);
    }
    return dataset;
}
