/* folder.h: walking folders: which folders lie in one, and which image files below one. */
#ifndef LS_DATA_DATASET_FOLDER_H
#define LS_DATA_DATASET_FOLDER_H

#include "base/alloc.h"

/* Texts one after the other in one growing block; offsets stay valid when it moves. */
typedef struct ls__text_list {
    const ls_context *ctx;
    char *text;
    size_t n_bytes, byte_capacity;
    size_t *offsets;
    int64_t n, capacity;
} ls__text_list;

bool ls__text_list_add(ls__text_list *list, const char *text);
static inline const char *ls__text_list_get(const ls__text_list *list, int64_t i)
{
    return list->text + list->offsets[i];
}
void ls__text_list_free(ls__text_list *list);

/* Whether the name has the extension of an image format that is read, in any case. */
bool ls__is_image_name(const char *name);

/* The contents of one folder, without names that begin with a dot. */
typedef struct ls__folder_content {
    ls__text_list folders; /* names, unsorted; links to folders count */
    int64_t n_files, n_images;
} ls__folder_content;
/* Errors are kept in ctx: no such folder, not a folder, unreadable. */
ls_status ls__folder_list(ls_context *ctx, const char *path, ls__folder_content *out);

/* All image files below a folder, at any depth, unsorted, appended to `images` as whole paths.
 * Others are counted; *example is the first of them in byte order, owned, NULL when none. A link
 * that leads back to a folder above it is an error. A link to nowhere is listed if its name is an
 * image's; decoding it will fail. */
typedef struct ls__folder_files {
    ls__text_list images;
    int64_t n_ignored;
    char *example;
} ls__folder_files;
ls_status ls__folder_walk(ls_context *ctx, const char *path, ls__folder_files *out);

#endif
