/* folder.c: walking folders. */
#include "data/dataset/folder.h"

#include "base/error.h"
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { MAX_DEPTH = 64 }; /* each level holds a file handle while those below are read */

bool ls__text_list_add(ls__text_list *list, const char *text)
{
    const size_t bytes = strlen(text) + 1;
    if (list->byte_capacity - list->n_bytes < bytes) {
        const size_t wanted = 2 * list->byte_capacity + bytes + 256;
        char *memory = ls__realloc(list->ctx, list->text, list->n_bytes, wanted);
        if (!memory) return false;
        list->text = memory;
        list->byte_capacity = wanted;
    }
    if (list->n == list->capacity) {
        const int64_t wanted = 2 * list->capacity + 16;
        size_t *memory = ls__realloc(list->ctx, list->offsets, (size_t)list->n * sizeof(size_t),
                                     (size_t)wanted * sizeof(size_t));
        if (!memory) return false;
        list->offsets = memory;
        list->capacity = wanted;
    }
    memcpy(list->text + list->n_bytes, text, bytes);
    list->offsets[list->n++] = list->n_bytes;
    list->n_bytes += bytes;
    return true;
}

void ls__text_list_free(ls__text_list *list)
{
    ls__free(list->ctx, list->text);
    ls__free(list->ctx, list->offsets);
    *list = (ls__text_list){ .ctx = list->ctx };
}

bool ls__is_image_name(const char *name)
{
    static const char *const extensions[] = { "jpg", "jpeg", "png", "bmp", "ppm", "pgm" };
    const char *dot = strrchr(name, '.');
    if (!dot) return false;
    for (size_t i = 0; i < sizeof(extensions) / sizeof(extensions[0]); i++)
        if (strcasecmp(dot + 1, extensions[i]) == 0) return true;
    return false;
}

typedef enum kind { KIND_FILE, KIND_FOLDER, KIND_BROKEN_LINK, KIND_OTHER } kind;

/* Most file systems give the kind in the entry, which saves a system call for each file. */
static kind kind_of(DIR *folder, const struct dirent *entry)
{
    if (entry->d_type == DT_REG) return KIND_FILE;
    if (entry->d_type == DT_DIR) return KIND_FOLDER;
    struct stat info;
    if (fstatat(dirfd(folder), entry->d_name, &info, 0) != 0) return KIND_BROKEN_LINK;
    return S_ISREG(info.st_mode) ? KIND_FILE : S_ISDIR(info.st_mode) ? KIND_FOLDER : KIND_OTHER;
}

static ls_status fail_errno(ls_context *ctx, const char *path, int error)
{
    return ls__fail_errno(ctx, error, "image folder '%s'", path);
}

/* The next entry whose name does not begin with a dot. NULL with *status LS_OK at the end. */
static const struct dirent *next_entry(ls_context *ctx, const char *path, DIR *folder,
                                       ls_status *status)
{
    const struct dirent *entry;
    do {
        errno = 0;
        entry = readdir(folder);
    } while (entry && entry->d_name[0] == '.');
    *status = !entry && errno != 0 ? fail_errno(ctx, path, errno) : LS_OK;
    return entry;
}

ls_status ls__folder_list(ls_context *ctx, const char *path, ls__folder_content *out)
{
    *out = (ls__folder_content){ .folders.ctx = ctx };
    DIR *folder = opendir(path);
    if (!folder) return fail_errno(ctx, path, errno);
    ls_status status;
    const struct dirent *entry;
    while ((entry = next_entry(ctx, path, folder, &status)) != NULL) {
        if (kind_of(folder, entry) == KIND_FOLDER) {
            if (!ls__text_list_add(&out->folders, entry->d_name)) {
                status = ls__fail_memory(ctx, path, out->folders.n_bytes);
                break;
            }
        } else {
            out->n_files++;
            out->n_images += ls__is_image_name(entry->d_name);
        }
    }
    closedir(folder);
    if (status != LS_OK) ls__text_list_free(&out->folders);
    return status;
}

/* The folders from the first one down to the one being read. */
typedef struct level {
    const struct level *above;
    dev_t device;
    ino_t inode;
    int depth;
} level;

static ls_status enter_level(ls_context *ctx, DIR *folder, const char *path, const level *above,
                             level *out)
{
    struct stat info;
    if (fstat(dirfd(folder), &info) != 0) return fail_errno(ctx, path, errno);
    *out = (level){ above, info.st_dev, info.st_ino, above ? above->depth + 1 : 0 };
    for (const level *l = above; l; l = l->above) {
        if (l->device == out->device && l->inode == out->inode)
            return ls__fail(ctx, LS_ERR_DATA,
                            "image folder '%s': a link that leads back to a folder above it", path);
    }
    if (out->depth >= MAX_DEPTH)
        return ls__fail(ctx, LS_ERR_UNSUPPORTED, "image folder '%s': %d folders deep, the limit",
                        path, MAX_DEPTH);
    return LS_OK;
}

static ls_status ignore_file(ls_context *ctx, ls__folder_files *files, const char *path)
{
    files->n_ignored++;
    if (files->example && strcmp(files->example, path) <= 0) return LS_OK;
    char *example = ls__strdup(ctx, path);
    if (!example) return ls__fail_memory(ctx, path, strlen(path));
    ls__free(ctx, files->example);
    files->example = example;
    return LS_OK;
}

static ls_status walk(ls_context *ctx, const char *path, const level *above,
                      ls__folder_files *files)
{
    DIR *folder = opendir(path);
    if (!folder) return fail_errno(ctx, path, errno);
    level here;
    ls_status status = enter_level(ctx, folder, path, above, &here);
    while (status == LS_OK) {
        const struct dirent *entry = next_entry(ctx, path, folder, &status);
        if (!entry) break;
        char *below = ls__format(ctx, "%s/%s", path, entry->d_name);
        if (!below) {
            status = ls__fail_memory(ctx, path, strlen(path) + sizeof(entry->d_name));
            break;
        }
        const kind k = kind_of(folder, entry);
        if (k == KIND_FOLDER) {
            status = walk(ctx, below, &here, files);
        } else if (k != KIND_OTHER && ls__is_image_name(below)) {
            if (!ls__text_list_add(&files->images, below))
                status = ls__fail_memory(ctx, below, files->images.n_bytes);
        } else {
            status = ignore_file(ctx, files, below);
        }
        ls__free(ctx, below);
    }
    closedir(folder);
    return status;
}

ls_status ls__folder_walk(ls_context *ctx, const char *path, ls__folder_files *out)
{
    return walk(ctx, path, NULL, out);
}
