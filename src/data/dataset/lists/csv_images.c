/* csv_images.c: the image files that the paths of a CSV list name: see csv.h. */
#include "data/dataset/lists/csv.h"

#include "base/error.h"
#include "data/dataset/folder.h"
#include "data/dataset/splits.h"
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool is_file(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

/* Writes the path of an image in a folder of the list, with an extension if `name` has none and
 * such a file is there. False: there is no such file; the path is then without an extension. */
static bool find_image(const ls__csv *c, const char *folder, const char *name, char out[PATH_MAX])
{
    static const char *const extensions[] = { "",      ".jpg", ".png", ".jpeg", ".JPG", ".PNG",
                                              ".JPEG", ".bmp", ".ppm", ".pgm",  ".webp" };
    const int n = ls__is_image_name(name) || ls__is_other_image_name(name)
                      ? 1
                      : (int)(sizeof(extensions) / sizeof(extensions[0]));
    const int root = *name == '/' ? 0 : (int)c->root_length;
    for (int i = 0; i <= n; i++) {
        const int length = snprintf(out, PATH_MAX, "%.*s%s%s%s", root, c->root,
                                    *name == '/' ? "" : folder, name, i < n ? extensions[i] : "");
        if (length < PATH_MAX && i < n && is_file(out)) return true;
    }
    return false;
}

/* The path of a row, with '/' for Windows' separators and without "./" before it. */
static char *normalize(const ls__csv *c, char *field, char buffer[PATH_MAX])
{
    while (field[0] == '.' && field[1] == '/') field += 2;
    if (!strchr(field, '\\') || strchr(field, '/') || find_image(c, "", field, buffer))
        return field;
    for (char *at = field; (at = strchr(at, '\\'));) *at = '/';
    while (field[0] == '.' && field[1] == '/') field += 2;
    return field;
}

/* Folders with the list's split in their names ("train" for train.csv) come first. */
typedef struct folder {
    char name[256];
    bool is_split;
} folder;

static int compare_folders(const void *a, const void *b)
{
    const folder *x = a, *y = b;
    return x->is_split != y->is_split ? y->is_split - x->is_split : strcmp(x->name, y->name);
}

/* Appends the folders in the root, in the order in which the system lists them. */
static ls_status read_folders(ls__csv *c, folder **found, int *n)
{
    char path[PATH_MAX];
    ls_split split, other;
    size_t room = 0;
    const bool has_split = ls__split_of_list(c->name, &split);
    snprintf(path, sizeof(path), "%.*s.", (int)c->root_length, c->root);
    DIR *dir = opendir(path);
    ls_status status = LS_OK;
    for (const struct dirent *e; dir && status == LS_OK && (e = readdir(dir));) {
        struct stat there;
        if (e->d_name[0] == '.' ||
            snprintf(path, sizeof(path), "%.*s%s", (int)c->root_length, c->root, e->d_name) >=
                (int)sizeof(path) ||
            stat(path, &there) != 0 || !S_ISDIR(there.st_mode))
            continue;
        folder *all = ls__bump_room(&c->bump, *found, (size_t)*n, 1, &room, sizeof(*all));
        if (all) {
            const bool is_split =
                has_split && ls_split_of_name(e->d_name, &other) && other == split;
            snprintf(all[*n].name, sizeof(all->name), "%s", e->d_name);
            all[(*n)++].is_split = is_split;
            *found = all;
        } else {
            status = ls__fail_memory(c->ctx, c->path, room * sizeof(*all));
        }
    }
    if (dir) closedir(dir);
    return status;
}

ls_status ls__csv_list_folders(ls__csv *c)
{
    folder *found = NULL;
    int n = 0;
    LS_TRY(read_folders(c, &found, &n));
    if (n > 0) qsort(found, (size_t)n, sizeof(*found), compare_folders);
    if (n > LS__CSV_MAX_FOLDERS) n = LS__CSV_MAX_FOLDERS;
    c->folders = ls__bump_alloc(&c->bump, (size_t)(n + 1) * sizeof(*c->folders));
    if (!c->folders) return ls__fail_memory(c->ctx, c->path, (size_t)n * sizeof(*c->folders));
    c->folders[c->n_folders++] = "";
    for (int i = 0; i < n; i++) {
        c->n_split_folders += found[i].is_split;
        c->folders[c->n_folders] = ls__bump_format(&c->bump, "%s/", found[i].name);
        if (!c->folders[c->n_folders++]) return ls__fail_memory(c->ctx, c->path, 0);
    }
    return LS_OK;
}

bool ls__csv_is_image_name(const char *field)
{
    return ls__is_image_name(field) || ls__is_other_image_name(field);
}

bool ls__csv_is_image(const ls__csv *c, const char *field)
{
    char path[PATH_MAX];
    if (ls__csv_is_image_name(field)) return true;
    for (int i = 0; i < c->n_folders && *field; i++)
        if (find_image(c, c->folders[i], field, path)) return true;
    return false;
}

/* Adds the path of a file; below: the folder of the list in which it is, or "". */
static ls_status add_path(ls__csv *c, const char *below, const char *name)
{
    const bool is_absolute = *name == '/';
    char *path = ls__format(c->ctx, "%.*s%s%s", is_absolute ? 0 : (int)c->root_length, c->root,
                            is_absolute ? "" : below, name);
    const bool added = path && ls__text_list_add(&c->images, path);
    ls__free(c->ctx, path);
    return added ? LS_OK : ls__fail_memory(c->ctx, c->path, c->images.n_bytes);
}

/* Sets the folder that has the image: one called like the list's split, else the only one. */
static ls_status choose_folder(ls__csv *c, const char *name, bool *found)
{
    char path[PATH_MAX];
    const char *other = NULL;
    for (int i = 1; i < c->n_folders; i++) {
        if (!find_image(c, c->folders[i], name, path)) continue;
        if (*found) other = c->folders[i];
        if (!*found) c->folder = c->folders[i];
        *found = true;
        if (i <= c->n_split_folders) break;
    }
    if (!other) return LS_OK;
    return ls__fail(c->ctx, LS_ERR_DATA,
                    "csv file '%s', line %lld: both '%s' and '%s' have the image '%s'; write the "
                    "folder in the paths of the list",
                    c->path, (long long)c->line, c->folder, other, name);
}

ls_status ls__csv_add_image(ls__csv *c, char *field)
{
    char path[PATH_MAX];
    const char *name = normalize(c, field, path);
    c->is_absolute = c->is_absolute || *name == '/';
    enum { MAX_TRIED = 256 };
    const bool is_decided = c->is_folder_found || c->n_tried >= MAX_TRIED;
    if (is_decided && ls__is_image_name(name)) return add_path(c, c->folder, name);
    bool found = find_image(c, c->folder, name, path);
    /* The first image that is there decides in which folder the paths begin. */
    if (!found && !is_decided) LS_TRY(choose_folder(c, name, &found));
    c->is_folder_found = c->is_folder_found || found;
    c->n_tried += !found;
    if (found) find_image(c, c->folder, name, path);
    return found ? add_path(c, "", path + (*name == '/' ? 0 : c->root_length))
                 : add_path(c, c->folder, name);
}
