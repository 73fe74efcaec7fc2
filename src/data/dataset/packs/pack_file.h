/* pack_file.h: writes a pack, sample by sample. */
#ifndef LS_DATA_DATASET_PACKS_PACK_FILE_H
#define LS_DATA_DATASET_PACKS_PACK_FILE_H

#include "base/file.h"
#include "data/dataset/folder.h"
#include "data/dataset/packs/pack.h"

/* Start with ls__pack_file_open; close frees everything, and the file is gone unless finished. */
typedef struct ls__pack_file {
    ls_context *ctx;
    ls__atomic_file *file;
    uint64_t bytes;  /* of the file so far, with those in the buffer */
    uint8_t *buffer; /* bytes that are not written yet, so that writes are large */
    size_t n_buffered;
    uint64_t header_hash;
    ls__pack_group *splits, *classes;
    ls__pack_sample *samples;
    int64_t n_splits, n_classes, n_samples; /* so far; room for all was made by open */
    ls__text_list names;
    uint64_t decoders; /* in names */
} ls__pack_file;

/* Writes the header with the form, resize, alpha and depth of `settings`; has room for so many of
 * each. Errors are kept in ctx, here and below. */
ls_status ls__pack_file_open(ls_context *ctx, const char *path, const ls__pack_header *settings,
                             const char *decoders, int64_t n_splits, int64_t n_classes,
                             int64_t n_samples, ls__pack_file *out);
/* A new split or class, to which the next classes or samples belong. */
ls_status ls__pack_file_split(ls__pack_file *file, const char *name);
ls_status ls__pack_file_class(ls__pack_file *file, const char *name);
/* All of `sample` is read but its offset and name. */
ls_status ls__pack_file_sample(ls__pack_file *file, const char *name, const ls__pack_sample *sample,
                               const void *data);
/* Writes index and trailer; the file appears at its path. */
ls_status ls__pack_file_finish(ls__pack_file *file);
void ls__pack_file_close(ls__pack_file *file);

#endif
