/* folder.c: see folder.h. */
#include "data/dataset/folder.h"

#include "base/error.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <lockstep/text.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { MAX_DEPTH = 64 }; /* each level holds a file handle while the levels below are read */

ls_status ls__text_list_add(ls__text_list *list, const char *what, const char *text)
{
    return ls__text_list_format(list, what, "%s", text);
}

ls_status ls__text_list_format(ls__text_list *list, const char *what, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const size_t bytes = (size_t)vsnprintf(NULL, 0, format, args) + 1;
    char *text = ls__grow(list->ctx, list->text, list->n_bytes, bytes, &list->capacity, 1);
    if (text) {
        vsnprintf(text + list->n_bytes, bytes, format, again);
        list->text = text;
        list->n_bytes += bytes;
        list->n++;
    }
    va_end(again);
    va_end(args);
    return text ? LS_OK : ls__fail_memory(list->ctx, what, list->n_bytes);
}

void ls__text_list_get(const ls__text_list *list, const char **out)
{
    const char *at = list->text;
    for (int64_t i = 0; i < list->n; i++, at += strlen(at) + 1) out[i] = at;
}

const char **ls__text_list_sort(const ls__text_list *list, const char *what)
{
    const size_t n = (size_t)list->n, bytes = n * sizeof(char *);
    const char **sorted = ls__alloc(list->ctx, bytes);
    if (!sorted) return ls__fail_memory(list->ctx, what, bytes), NULL;
    ls__text_list_get(list, sorted);
    qsort(sorted, n, sizeof(*sorted), ls__compare_texts);
    return sorted;
}

void ls__text_list_free(ls__text_list *list)
{
    ls__free(list->ctx, list->text);
    *list = (ls__text_list){ .ctx = list->ctx };
}

int ls__compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool has_extension(const char *name, int n, const char *const *extensions)
{
    const char *dot = strrchr(name, '.');
    for (int i = 0; dot && i < n; i++)
        if (strcasecmp(dot + 1, extensions[i]) == 0) return true;
    return false;
}

bool ls__is_image_name(const char *name)
{
    static const char *const extensions[] = { "jpg", "jpeg", "png", "webp", "bmp", "ppm", "pgm" };
    return has_extension(name, sizeof(extensions) / sizeof(extensions[0]), extensions);
}

bool ls__is_other_image_name(const char *name)
{
    static const char *const extensions[] = { "gif",  "tif", "tiff", "heic", "heif",
                                              "avif", "jxl", "jp2",  "pbm",  "psd" };
    return has_extension(name, sizeof(extensions) / sizeof(extensions[0]), extensions);
}

/* Whether an image of another format loses by a conversion to JPEG: its exact pixels or alpha. */
static bool requires_png(const char *name)
{
    static const char *const extensions[] = { "gif", "tif", "tiff", "pbm", "psd" };
    return has_extension(name, sizeof(extensions) / sizeof(extensions[0]), extensions);
}

char *ls__conversion_text(ls_context *ctx, const char *path)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    char format[16],
        *folder = ls__format(ctx, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    char *word = folder ? ls_shell_word(folder) : NULL;
    size_t n = 0;
    for (; dot[n + 1] && n < sizeof(format) - 1; n++)
        format[n] = (char)toupper((unsigned char)dot[n + 1]);
    format[n] = '\0';
    char *out = word ? ls__format(ctx, "ImageMagick converts %s: mogrify -format %s %s/*%s", format,
                                  requires_png(path) ? "png" : "jpg", word, dot)
                     : NULL;
    free(word);
    ls__free(ctx, folder);
    return out;
}

/* A minimal build reads no WebP. */
bool ls__is_webp_name(const char *name)
{
#ifdef LOCKSTEP_MINIMAL
    (void)name;
    return false;
#else
    return has_extension(name, 1, &(const char *){ "webp" });
#endif
}

/* A link to nowhere counts as a file. Most file systems return the type with the name, which saves
 * a system call for each file. */
static mode_t type_of(DIR *folder, const struct dirent *item)
{
    if (item->d_type == DT_REG || item->d_type == DT_DIR) return DTTOIF(item->d_type);
    struct stat info;
    return fstatat(dirfd(folder), item->d_name, &info, 0) == 0 ? info.st_mode & S_IFMT : S_IFREG;
}

static ls_status fail_errno(ls_context *ctx, const char *path, int error)
{
    return ls__fail_errno(ctx, error, "image folder '%s'", path);
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

/* Whether a file is a better example of those that are ignored: an image of a format that is not
 * read is lost to the training, other files are not. */
static bool is_better_example(const char *path, const char *than)
{
    const bool a = ls__is_other_image_name(path), b = ls__is_other_image_name(than);
    return a == b ? strcmp(path, than) < 0 : a;
}

static ls_status ignore_file(ls_context *ctx, ls__folder_files *files, const char *path)
{
    files->n_ignored++;
    files->n_other += ls__is_other_image_name(path);
    if (files->ignored) LS_TRY(ls__text_list_add(files->ignored, path, path));
    if (files->example && !is_better_example(path, files->example)) return LS_OK;
    char *example = ls__strdup(ctx, path);
    if (!example) return ls__fail_memory(ctx, path, strlen(path));
    ls__free(ctx, files->example);
    files->example = example;
    return LS_OK;
}

static bool is_this_or_above(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static ls_status read_level(ls_context *ctx, const char *path, bool below, const level *above,
                            ls__folder_files *out);

/* read_level, where a failure other than of memory may be listed. */
static ls_status try_level(ls_context *ctx, const char *path, bool below, const level *above,
                           ls__folder_files *out)
{
    const ls_status status = read_level(ctx, path, below, above, out);
    if (status == LS_OK || status == LS_ERR_MEMORY || !out->unreadable) return status;
    const size_t n = strlen(path) + strlen("': ");
    const char *message = ls_context_message(ctx), *at = strstr(message, path);
    ls_context_clear_error(ctx); /* its message stays */
    LS_TRY(ls__text_list_add(out->unreadable, path, path));
    return ls__text_list_add(out->unreadable, path, at && strlen(at) > n ? at + n : message);
}

static ls_status read_level(ls_context *ctx, const char *path, bool below, const level *above,
                            ls__folder_files *out)
{
    DIR *folder = opendir(path);
    if (!folder) return fail_errno(ctx, path, errno);
    level here;
    ls_status status = enter_level(ctx, folder, path, above, &here);
    while (status == LS_OK) {
        errno = 0;
        const struct dirent *item = readdir(folder);
        if (!item && errno != 0) status = fail_errno(ctx, path, errno);
        if (!item) break;
        if (strcmp(item->d_name, "__MACOSX") == 0) continue; /* of archives made by macOS */
        const bool is_hidden = item->d_name[0] == '.';
        if (is_hidden && (!out->hidden || is_this_or_above(item->d_name))) continue;
        char *file = ls__format(ctx, "%s/%s", path, item->d_name);
        const mode_t type = type_of(folder, item);
        if (!file)
            status = ls__fail_memory(ctx, path, strlen(path) + sizeof(item->d_name));
        else if (is_hidden)
            status = ls__text_list_add(out->hidden, file, file);
        else if (type == S_IFDIR)
            status = below ? try_level(ctx, file, below, &here, out)
                           : ls__text_list_add(&out->folders, path, item->d_name);
        else if (type == S_IFREG && ls__is_image_name(file))
            status = ls__text_list_add(&out->images, file, file);
        else
            status = ignore_file(ctx, out, file);
        ls__free(ctx, file);
    }
    closedir(folder);
    return status;
}

ls_status ls__folder_read(ls_context *ctx, const char *path, bool below, ls__folder_files *out)
{
    return try_level(ctx, path, below, NULL, out);
}

void ls__folder_files_free(ls__folder_files *files)
{
    const ls_context *ctx = files->images.ctx;
    ls__text_list_free(&files->images);
    ls__text_list_free(&files->folders);
    ls__free(ctx, files->example);
}
