/* folder.h: lists the folders in a folder, or the image files below it. */
#ifndef LS_DATA_DATASET_FOLDER_H
#define LS_DATA_DATASET_FOLDER_H

#include "base/alloc.h"

/* n texts one after the other in one growing block. */
typedef struct ls__text_list {
    ls_context *ctx;
    char *text;
    size_t n_bytes, capacity;
    int64_t n;
} ls__text_list;

/* Add a copy of a text, or what printf makes of it. LS_ERR_MEMORY is kept in ctx; `what` is for its
 * text. */
ls_status ls__text_list_add(ls__text_list *list, const char *what, const char *text);
ls_status ls__text_list_format(ls__text_list *list, const char *what, const char *format, ...)
    LS_PRINTF(3, 4);
/* out[n]: the texts in the order in which they were added. */
void ls__text_list_get(const ls__text_list *list, const char **out);
/* The texts in byte order, in an array that the caller frees; NULL with the error kept. */
const char **ls__text_list_sort(const ls__text_list *list, const char *what);
void ls__text_list_free(ls__text_list *list);
/* Compares two const char * in byte order, for qsort and bsearch. */
int ls__compare_texts(const void *a, const void *b);

/* The files and folders that were found in folders. Names that begin with a dot, and __MACOSX, are
 * skipped, folders with all that is in them. */
typedef struct ls__folder_files {
    ls__text_list images;  /* whole paths, unsorted */
    ls__text_list folders; /* names of those that were not read, unsorted */
    int64_t n_ignored;     /* files that are not read */
    int64_t n_other;       /* of these, images of other formats (ls__is_other_image_name) */
    char *example;         /* the path of the first image of another format in byte order, else of
                              the first ignored file; NULL when none */
    /* Where whole paths are added: of the files that are no images, and of the names that begin
     * with a dot. NULL = nowhere. */
    ls__text_list *ignored, *hidden;
    /* Where the path and then the reason of each folder that can't be read are added; NULL = it is
     * an error. */
    ls__text_list *unreadable;
} ls__folder_files;

/* Adds what lies in a folder to `out`, which begins with all zero but the lists' ctx: with
 * `below`, the files at any depth; else folders are listed, links to folders included. Errors are
 * kept in ctx: no such folder, not a folder, unreadable, a link that leads back to a folder above
 * it. A link to nowhere is listed if its name is an image's; decoding it will fail. */
ls_status ls__folder_read(ls_context *ctx, const char *path, bool below, ls__folder_files *out);
void ls__folder_files_free(ls__folder_files *files);

/* The extensions of ls__is_image_name, for messages. */
#define LS__IMAGE_EXTENSIONS "jpg, jpeg, png, webp, bmp, ppm or pgm"

/* True if the name has the extension of an image format that is read, in any case. */
bool ls__is_image_name(const char *name);
/* True if it has that of WebP. */
bool ls__is_webp_name(const char *name);
/* True if it has that of another format. */
bool ls__is_other_image_name(const char *name);
/* "ImageMagick converts HEIC: mogrify -format jpg FOLDER/" and "*.HEIC", for the path of an image
 * of another format. The caller frees it by ls__free. NULL without memory. */
char *ls__conversion_text(ls_context *ctx, const char *path);

#endif
