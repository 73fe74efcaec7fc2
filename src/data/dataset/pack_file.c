/* pack_file.c: writes a pack from front to end; the index is kept until all data are written. */
#include "data/dataset/pack_file.h"

#include "base/error.h"
#include "base/hash.h"
#include <string.h>

static void put32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++) at[i] = (uint8_t)(value >> 8 * i);
}

static void put64(uint8_t *at, uint64_t value)
{
    put32(at, (uint32_t)value);
    put32(at + 4, (uint32_t)(value >> 32));
}

static void seal(uint8_t block[LS__PACK_BLOCK])
{
    put64(block + LS__PACK_BLOCK - 8, ls__hash(block, LS__PACK_BLOCK - 8, 0));
}

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

ls_status ls__pack_file_open(ls_context *ctx, const char *path, ls__pack_form form, int64_t resize,
                             int64_t n_parts, int64_t n_classes, int64_t n_samples,
                             ls__pack_file *out)
{
    *out = (ls__pack_file){ .ctx = ctx, .names.ctx = ctx };
    out->parts = ls__zalloc(ctx, (size_t)n_parts * sizeof(*out->parts));
    out->classes = ls__zalloc(ctx, (size_t)n_classes * sizeof(*out->classes));
    out->samples = ls__zalloc(ctx, (size_t)n_samples * sizeof(*out->samples));
    out->buffer = ls__alloc(ctx, BUFFER_BYTES);
    if (!out->parts || !out->classes || !out->samples || !out->buffer)
        return ls__fail_memory(ctx, "ls_pack_write", (size_t)n_samples * sizeof(*out->samples));
    LS_TRY(add_name(out, ls__decoders(), &out->decoders));
    LS_TRY(ls__atomic_file_open(ctx, path, &out->file));
    ls__atomic_file_sweep(out->file);
    memcpy(out->header, LS__PACK_MAGIC, 8);
    put32(out->header + 8, LS__PACK_VERSION);
    put32(out->header + 12, form);
    put32(out->header + 16, (uint32_t)resize);
    seal(out->header);
    return append(out, out->header, sizeof(out->header));
}

ls_status ls__pack_file_part(ls__pack_file *file, const char *name)
{
    ls__pack_group *part = &file->parts[file->n_parts++];
    part->first = (uint64_t)file->n_classes;
    return add_name(file, name, &part->name);
}

ls_status ls__pack_file_class(ls__pack_file *file, const char *name)
{
    ls__pack_group *class = &file->classes[file->n_classes++];
    class->first = (uint64_t)file->n_samples;
    file->parts[file->n_parts - 1].n++;
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

static uint8_t *put_groups(uint8_t *at, int64_t n, const ls__pack_group *groups)
{
    for (int64_t i = 0; i < n; i++, at += LS__PACK_GROUP_BYTES) {
        put64(at, groups[i].name);
        put64(at + 8, groups[i].first);
        put64(at + 16, groups[i].n);
    }
    return at;
}

static uint8_t *put_samples(uint8_t *at, int64_t n, const ls__pack_sample *samples)
{
    for (int64_t i = 0; i < n; i++, at += LS__PACK_SAMPLE_BYTES) {
        const ls__pack_sample *s = &samples[i];
        const uint64_t words[6] = { s->offset,     s->bytes,     s->hash,
                                    s->file_bytes, s->file_hash, s->name };
        for (int w = 0; w < 6; w++) put64(at + 8 * w, words[w]);
        put32(at + 48, s->height);
        put32(at + 52, s->width);
        put32(at + 56, (uint32_t)s->orientation << 16 | s->state);
    }
    return at;
}

ls_status ls__pack_file_finish(ls__pack_file *file)
{
    const size_t bytes = LS__PACK_INDEX_BYTES +
                         (size_t)(file->n_parts + file->n_classes) * LS__PACK_GROUP_BYTES +
                         (size_t)file->n_samples * LS__PACK_SAMPLE_BYTES + file->names.n_bytes;
    uint8_t *index = ls__zalloc(file->ctx, bytes), trailer[LS__PACK_BLOCK] = { 0 };
    if (!index) return ls__fail_memory(file->ctx, "ls_pack_write", bytes);
    const uint64_t numbers[5] = { (uint64_t)file->n_parts, (uint64_t)file->n_classes,
                                  (uint64_t)file->n_samples, file->names.n_bytes, file->decoders };
    for (int i = 0; i < 5; i++) put64(index + 8 * i, numbers[i]);
    uint8_t *at = put_groups(index + LS__PACK_INDEX_BYTES, file->n_parts, file->parts);
    at = put_groups(at, file->n_classes, file->classes);
    at = put_samples(at, file->n_samples, file->samples);
    memcpy(at, file->names.text, file->names.n_bytes);

    memcpy(trailer, LS__PACK_END_MAGIC, 8);
    put64(trailer + 8, file->bytes + bytes + sizeof(trailer));
    put64(trailer + 16, file->bytes);
    put64(trailer + 24, bytes);
    put64(trailer + 32, ls__hash(index, bytes, 0));
    put64(trailer + 40, ls__hash(file->header, sizeof(file->header), 0));
    seal(trailer);
    ls_status status = append(file, index, bytes);
    ls__free(file->ctx, index);
    if (status == LS_OK) status = append(file, trailer, sizeof(trailer));
    if (status == LS_OK) status = flush(file);
    return status == LS_OK ? ls__atomic_file_commit(&file->file) : status;
}

void ls__pack_file_close(ls__pack_file *file)
{
    ls__atomic_file_abandon(&file->file);
    ls__free(file->ctx, file->buffer);
    ls__free(file->ctx, file->parts);
    ls__free(file->ctx, file->classes);
    ls__free(file->ctx, file->samples);
    ls__text_list_free(&file->names);
}
