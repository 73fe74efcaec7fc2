/* folders_idx.c: see folders_idx.h. */
#include "runs/folders_idx.h"
#include <stdio.h>
#include <string.h>

bool folders_find_idx(const char *dir, const char *split, char images[PATH_SIZE],
                      char labels[PATH_SIZE])
{
    static const char *const names[] = { "images-idx3-ubyte", "labels-idx1-ubyte" };
    int n_found = 0;
    for (int i = 0; i < 2; i++) {
        char *path = i ? labels : images;
        const int length = snprintf(path, PATH_SIZE, "%s/%s-%s.gz", dir, split, names[i]);
        if (length >= PATH_SIZE) return false;
        if (!is_file(path)) path[length - (int)strlen(".gz")] = '\0';
        n_found += is_file(path);
    }
    return n_found > 0;
}

bool folders_has_idx(const char *dir)
{
    char images[PATH_SIZE], labels[PATH_SIZE];
    return folders_find_idx(dir, "train", images, labels) ||
           folders_find_idx(dir, "t10k", images, labels);
}

int folders_open_idx(ls_context *ctx, const char *images, const char *labels, int n_classes,
                     const char *const *classes, ls_dataset **out)
{
    *out = ls_idx_open(ctx, images, labels, n_classes);
    if (!*out) return print_error(ctx, EXIT_DATA);
    for (int i = 0; classes && i < n_classes; i++) {
        const char *name = ls_dataset_class_name(*out, i);
        if (strcmp(name, classes[i]) == 0) continue;
        print_message("%s: class %d is '%s', expected '%s'", images, i, name, classes[i]);
        ls_dataset_close(out);
        return EXIT_DATA;
    }
    return EXIT_DONE;
}
