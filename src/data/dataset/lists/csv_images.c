/* csv_images.c: the image files that the paths of a CSV list name: see csv.h. */
#include "data/dataset/lists/csv.h"

#include "base/error.h"
#include "base/path.h"
#include "data/dataset/folder.h"
#include "data/dataset/splits.h"
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
        if (length < PATH_MAX && i < n && ls__is_file(out)) return true;
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
    size_t capacity = 0;
    const bool has_split = ls__split_of_list(c->name, &split);
    snprintf(path, sizeof(path), "%.*s.", (int)c->root_length, c->root);
    DIR *dir = opendir(path);
    ls_status status = LS_OK;
    for (const struct dirent *e; dir && status == LS_OK && (e = readdir(dir));) {
        if (e->d_name[0] == '.' ||
            snprintf(path, sizeof(path), "%.*s%s", (int)c->root_length, c->root, e->d_name) >=
                (int)sizeof(path) ||
            !ls__is_folder(path))
            continue;
        folder *all = ls__bump_room(&c->bump, *found, (size_t)*n, 1, &capacity, sizeof(*all));
        if (all) {
            const bool is_split =
                has_split && ls_split_of_name(e->d_name, &other) && other == split;
            snprintf(all[*n].name, sizeof(all->name), "%s", e->d_name);
            all[(*n)++].is_split = is_split;
            *found = all;
        } else {
            status = ls__fail_memory(c->ctx, c->path, capacity * sizeof(*all));
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
    return ls__text_list_format(&c->images, c->path, "%.*s%s%s",
                                is_absolute ? 0 : (int)c->root_length, c->root,
                                is_absolute ? "" : below, name);
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
    return ls__csv_fail(
        c, LS_ERR_DATA,
        "both '%s' and '%s' have the image '%s'; write the folder in the paths of the list",
        c->folder, other, name);
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

/* ---- Names of absolute paths ---- */

/* The absolute paths so far. */
typedef struct roots {
    const ls__csv *csv;
    struct stat folder;   /* of relative paths: image_root, else the CSV file's */
    const char *inside;   /* the last path below it by another spelling; NULL = none */
    size_t inside_length; /* bytes up to that folder */
    const char *outside;  /* the last path that is not below it; NULL = none */
    size_t shared;        /* bytes up to the deepest folder that all of these share */
} roots;

static ls_status stat_folder(roots *r)
{
    const ls__csv *c = r->csv;
    char *text = ls__format(c->ctx, "%.*s.", (int)c->root_length, c->root);
    if (!text) return ls__fail_memory(c->ctx, c->path, c->root_length);
    const int error = stat(text, &r->folder) == 0 ? 0 : errno;
    ls__free(c->ctx, text);
    if (error == 0) return LS_OK;
    return ls__fail_errno(c->ctx, error, "csv file '%s': the folder of relative paths, '%.*s'",
                          c->path, (int)(c->root_length > 0 ? c->root_length : 1),
                          c->root_length > 0 ? c->root : ".");
}

/* Bytes of an absolute path up to the folder of relative paths, with its slash; 0: it is not
 * below it. Folders are compared by inode, because links and mounts give a folder several paths. */
static ls_status find_folder(const roots *r, const char *path, size_t *out)
{
    const ls__csv *c = r->csv;
    char *above = ls__strdup(c->ctx, path);
    if (!above) return ls__fail_memory(c->ctx, c->path, strlen(path));
    ls_status status = LS_OK;
    *out = 0;
    for (size_t n = 1; above[n - 1] && *out == 0 && status == LS_OK; n++) {
        struct stat there;
        if (above[n - 1] != '/') continue;
        const char next = above[n];
        above[n] = '\0';
        if (stat(above, &there) == 0)
            *out = there.st_ino == r->folder.st_ino && there.st_dev == r->folder.st_dev ? n : 0;
        else if (errno == ENOENT || errno == ENOTDIR || errno == EACCES)
            break;
        else
            status = ls__csv_fail_file(c, LS_ERR_IO, "'%s': %s", above, strerror(errno));
        above[n] = next;
    }
    ls__free(c->ctx, above);
    return status;
}

/* Bytes up to the last slash, with it, in the first n. */
static size_t folder_length(const char *path, size_t n)
{
    while (n > 0 && path[n - 1] != '/') n--;
    return n;
}

/* The length of the part that both begin with. */
static size_t shared_length(const char *a, const char *b)
{
    size_t n = 0;
    while (a[n] && a[n] == b[n]) n++;
    return n;
}

static void add_outside(roots *r, const char *path)
{
    const size_t max = r->outside ? shared_length(path, r->outside) : strlen(path);
    r->shared = folder_length(path, r->outside && r->shared < max ? r->shared : max);
    r->outside = path;
}

/* The root of an absolute path that does not begin with the folder of relative paths as it was
 * typed; 0 = it is outside. A path in the folder of the one before it is not examined again. */
static ls_status find_root(roots *r, const char *path, size_t *out)
{
    *out = 0;
    if (r->inside && strncmp(path, r->inside, r->inside_length) == 0)
        *out = r->inside_length;
    else if (!r->outside || shared_length(path, r->outside) < folder_length(path, strlen(path)))
        LS_TRY(find_folder(r, path, out));
    if (*out == 0) {
        add_outside(r, path);
    } else {
        r->inside = path;
        r->inside_length = *out;
    }
    return LS_OK;
}

ls_status ls__csv_find_roots(const ls__csv *c, int64_t n, const char *const *paths, uint32_t *out)
{
    roots r = { .csv = c };
    LS_TRY(stat_folder(&r));
    for (int64_t i = 0; i < n; i++) {
        const char *path = paths[i];
        size_t root = c->root_length;
        if (*path == '/' && (root == 0 || strncmp(path, c->root, root) != 0))
            LS_TRY(find_root(&r, path, &root));
        while (root > 0 && path[root] == '/') root++;
        out[i] = (uint32_t)root;
    }
    for (int64_t i = 0; i < n; i++)
        if (*paths[i] == '/' && out[i] == 0) out[i] = (uint32_t)r.shared;
    return LS_OK;
}
