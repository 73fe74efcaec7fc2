/* pack_file.c: writes the data as they come, and the index at the end. */
#include "data/dataset/packs/pack_file.h"

#include "base/error.h"
#include "base/hash.h"
#include <stddef.h>
#include <string.h>

enum { BUFFER_BYTES = 1 << 20 };

static ls_status flush(ls__pack_file *file)
{
    const size_t n = file->n_buffered;
    file->n_buffered = 0;
    return ls__atomic_file_write(file->file, file->buffer, n);
}

static ls_status append(ls__pack_file *file, const void *bytes, size_t size)
{
    file->bytes += size;
    if (size > BUFFER_BYTES - file->n_buffered) LS_TRY(flush(file));
    if (size > BUFFER_BYTES) return ls__atomic_file_write(file->file, bytes, size);
    memcpy(file->buffer + file->n_buffered, bytes, size);
    file->n_buffered += size;
    return LS_OK;
}

static ls_status add_name(ls__pack_file *file, const char *name, uint64_t *out)
{
    *out = file->names.n_bytes;
    return ls__text_list_add(&file->names, name)
               ? LS_OK
               : ls__fail_memory(file->ctx, "ls_pack_write", file->names.n_bytes);
}

ls_status ls__pack_file_open(ls_context *ctx, const char *path, const ls__pack_header *settings,
                             const char *decoders, int64_t n_splits, int64_t n_classes,
                             int64_t n_samples, ls__pack_file *out)
{
    *out = (ls__pack_file){ .ctx = ctx, .names.ctx = ctx };
    out->splits = ls__zalloc(ctx, (size_t)n_splits * sizeof(*out->splits));
    out->classes = ls__zalloc(ctx, (size_t)n_classes * sizeof(*out->classes));
    out->samples = ls__zalloc(ctx, (size_t)n_samples * sizeof(*out->samples));
    out->buffer = ls__alloc(ctx, BUFFER_BYTES);
    if (!out->splits || !out->classes || !out->samples || !out->buffer)
        return ls__fail_memory(ctx, "ls_pack_write", (size_t)n_samples * sizeof(*out->samples));
    LS_TRY(add_name(out, decoders, &out->decoders));
    LS_TRY(ls__atomic_file_open(ctx, path, &out->file));
    ls__atomic_file_sweep(out->file);
    ls__pack_header header = *settings;
    header.version = LS__PACK_VERSION;
    memcpy(header.magic, LS__PACK_MAGIC, sizeof(header.magic));
    header.hash = ls__hash(&header, offsetof(ls__pack_header, hash), 0);
    out->header_hash = ls__hash(&header, sizeof(header), 0);
    return append(out, &header, sizeof(header));
}

ls_status ls__pack_file_split(ls__pack_file *file, const char *name)
{
    ls__pack_group *split = &file->splits[file->n_splits++];
    split->first = (uint64_t)file->n_classes;
    return add_name(file, name, &split->name);
}

ls_status ls__pack_file_class(ls__pack_file *file, const char *name)
{
    ls__pack_group *class = &file->classes[file->n_classes++];
    class->first = (uint64_t)file->n_samples;
    file->splits[file->n_splits - 1].n++;
    return add_name(file, name, &class->name);
}

ls_status ls__pack_file_sample(ls__pack_file *file, const char *name, const ls__pack_sample *sample,
                               const void *data)
{
    static const uint8_t zeros[LS__PACK_BLOCK];
    ls__pack_sample *s = &file->samples[file->n_samples++];
    *s = *sample;
    s->offset = file->bytes;
    file->classes[file->n_classes - 1].n++;
    LS_TRY(add_name(file, name, &s->name));
    LS_TRY(append(file, data, (size_t)s->bytes));
    return append(file, zeros, (size_t)(-s->bytes % LS__PACK_BLOCK));
}

ls_status ls__pack_file_finish(ls__pack_file *file)
{
    const ls__pack_index head = { .n_splits = (uint64_t)file->n_splits,
                                  .n_classes = (uint64_t)file->n_classes,
                                  .n_samples = (uint64_t)file->n_samples,
                                  .text_bytes = file->names.n_bytes,
                                  .decoders = file->decoders };
    const struct {
        const void *memory;
        size_t bytes;
    } tables[] = {
        { &head, sizeof(head) },
        { file->splits, (size_t)file->n_splits * sizeof(*file->splits) },
        { file->classes, (size_t)file->n_classes * sizeof(*file->classes) },
        { file->samples, (size_t)file->n_samples * sizeof(*file->samples) },
        { file->names.text, file->names.n_bytes },
    };
    enum { N_TABLES = sizeof(tables) / sizeof(tables[0]) };
    size_t bytes = 0;
    for (int i = 0; i < N_TABLES; i++) bytes += tables[i].bytes;
    uint8_t *index = ls__alloc(file->ctx, bytes), *at = index;
    if (!index) return ls__fail_memory(file->ctx, "ls_pack_write", bytes);
    for (int i = 0; i < N_TABLES; at += tables[i++].bytes)
        memcpy(at, tables[i].memory, tables[i].bytes);

    ls__pack_trailer trailer = { .bytes = file->bytes + bytes + sizeof(trailer),
                                 .index_offset = file->bytes,
                                 .index_bytes = bytes,
                                 .index_hash = ls__hash(index, bytes, 0),
                                 .header_hash = file->header_hash };
    memcpy(trailer.magic, LS__PACK_END_MAGIC, sizeof(trailer.magic));
    trailer.hash = ls__hash(&trailer, offsetof(ls__pack_trailer, hash), 0);
    ls_status status = append(file, index, bytes);
    ls__free(file->ctx, index);
    if (status == LS_OK) status = append(file, &trailer, sizeof(trailer));
    if (status == LS_OK) status = flush(file);
    return status == LS_OK ? ls__atomic_file_commit(&file->file) : status;
}

void ls__pack_file_close(ls__pack_file *file)
{
    ls__atomic_file_abandon(&file->file);
    ls__free(file->ctx, file->buffer);
    ls__free(file->ctx, file->splits);
    ls__free(file->ctx, file->classes);
    ls__free(file->ctx, file->samples);
    ls__text_list_free(&file->names);
}
