/* pack_read.c: opens a pack: copies its index into memory and checks all of it; reads the samples.
 */
#include "data/dataset/packs/pack.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static ls_status refuse(char reason[LS__REASON_SIZE], const char *format, ...) LS_PRINTF(2, 3);
static ls_status refuse(char reason[LS__REASON_SIZE], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    ls__vsnprintf(reason, LS__REASON_SIZE, format, args);
    va_end(args);
    return LS_ERR_FORMAT;
}

ls_status ls__pack_pread(const ls__pack *pack, uint64_t offset, size_t bytes, void *out,
                         char reason[LS__REASON_SIZE])
{
    const unsigned long long at = offset;
    for (size_t done = 0; done < bytes;) {
        const ssize_t n =
            pread(pack->fd, (uint8_t *)out + done, bytes - done, (off_t)(offset + done));
        const int error = errno;
        char text[LS__ERRNO_TEXT_SIZE];
        if (n > 0) {
            done += (size_t)n;
        } else if (n == 0) {
            struct stat now;
            if (fstat(pack->fd, &now) != 0) now.st_size = -1;
            refuse(reason,
                   "truncated pack: read %zu of %zu bytes at offset %llu; the file has %lld bytes, "
                   "it had %llu when it was opened",
                   done, bytes, at, (long long)now.st_size, (unsigned long long)pack->bytes);
            return LS_ERR_IO;
        } else if (error != EINTR) {
            refuse(reason, "reading %zu bytes at offset %llu of the pack: %s", bytes, at,
                   ls__errno_text(error, text, sizeof(text)));
            return ls__file_status(error);
        }
    }
    return LS_OK;
}

int64_t ls__pack_find_split(const ls__pack *pack, const char *name)
{
    for (int64_t i = 0; i < pack->n_splits; i++)
        if (strcmp(ls__pack_text(pack, pack->splits[i].name), name) == 0) return i;
    return -1;
}

/* ---- Checks, from the outside in ---- */

static ls_status check_header(ls__pack *pack, const ls__pack_header *header,
                              char reason[LS__REASON_SIZE])
{
    if (memcmp(header->magic, LS__PACK_MAGIC, sizeof(header->magic)) != 0)
        return refuse(reason, "neither a folder nor a pack");
    if (ls__hash(header, offsetof(ls__pack_header, hash), 0) != header->hash)
        return refuse(reason, "damaged pack: header");
    if (header->version != LS__PACK_VERSION)
        return refuse(reason, "a pack of version %u, expected %d", header->version,
                      LS__PACK_VERSION);
    if (header->form > LS__PACK_PIXELS || header->resize > LS__MAX_PIXELS ||
        (header->resize > 0 && header->form != LS__PACK_PIXELS) ||
        ((header->alpha > 0 || header->depth > 0) && header->form != LS__PACK_PIXELS) ||
        header->alpha > 2 || header->depth > 16 || (header->depth > 0 && header->depth <= 8))
        return refuse(reason, "a pack of unknown form %u, resized to %u, alpha %u, depth %u",
                      header->form, header->resize, header->alpha, header->depth);
    pack->form = (ls__pack_form)header->form;
    pack->resize = header->resize;
    static const ls_alpha alphas[] = { LS_ALPHA_IGNORE, LS_ALPHA_WHITE, LS_ALPHA_BLACK };
    pack->alpha = alphas[header->alpha];
    pack->depth = header->depth > 0 ? (int)header->depth : 16;
    return LS_OK;
}

static ls_status check_trailer(const ls__pack *pack, const ls__pack_header *header,
                               const ls__pack_trailer *trailer, char reason[LS__REASON_SIZE])
{
    if (memcmp(trailer->magic, LS__PACK_END_MAGIC, sizeof(trailer->magic)) != 0)
        return refuse(reason, "truncated or damaged pack: no end mark in %llu bytes",
                      (unsigned long long)pack->bytes);
    if (ls__hash(trailer, offsetof(ls__pack_trailer, hash), 0) != trailer->hash)
        return refuse(reason, "damaged pack: trailer");
    if (trailer->bytes != pack->bytes)
        return refuse(reason, "damaged pack: %llu bytes, %llu were written",
                      (unsigned long long)pack->bytes, (unsigned long long)trailer->bytes);
    if (trailer->header_hash != ls__hash(header, sizeof(*header), 0))
        return refuse(reason, "damaged pack: header and trailer belong to different packs");
    const uint64_t offset = trailer->index_offset, end = pack->bytes - sizeof(*trailer);
    if (offset < sizeof(*header) || offset > end || trailer->index_bytes != end - offset ||
        trailer->index_bytes < sizeof(ls__pack_index))
        return refuse(reason, "damaged pack: place of the index");
    return LS_OK;
}

/* The index, whose size was compared with the file's, into memory of the pack. */
static ls_status read_index(ls__pack *pack, const ls__pack_trailer *trailer,
                            char reason[LS__REASON_SIZE])
{
    const size_t bytes = (size_t)trailer->index_bytes;
    pack->data_end = trailer->index_offset;
    pack->index = ls__alloc(pack->ctx, bytes);
    if (!pack->index) {
        refuse(reason, "no memory for an index of %zu bytes", bytes);
        return LS_ERR_MEMORY;
    }
    LS_TRY(ls__pack_pread(pack, pack->data_end, bytes, pack->index, reason));
    if (ls__hash(pack->index, bytes, 0) == trailer->index_hash) return LS_OK;
    return refuse(reason, "damaged pack: index");
}

/* Cuts n rows off the rest of the index. */
static bool cut_table(uint64_t n, size_t row_bytes, uint64_t *rest)
{
    if (n > *rest / row_bytes) return false;
    *rest -= n * row_bytes;
    return true;
}

static bool place_tables(ls__pack *pack, uint64_t bytes)
{
    const ls__pack_index *index = pack->index;
    uint64_t rest = bytes - sizeof(*index);
    if (index->n_splits == 0 || index->n_classes > INT32_MAX ||
        !cut_table(index->n_splits, sizeof(ls__pack_group), &rest) ||
        !cut_table(index->n_classes, sizeof(ls__pack_group), &rest) ||
        !cut_table(index->n_samples, sizeof(ls__pack_sample), &rest) || rest != index->text_bytes ||
        index->decoders >= rest)
        return false;
    pack->n_splits = (int64_t)index->n_splits;
    pack->n_classes = (int64_t)index->n_classes;
    pack->n_samples = (int64_t)index->n_samples;
    pack->splits = (const ls__pack_group *)(index + 1);
    pack->classes = pack->splits + index->n_splits;
    pack->samples = (const ls__pack_sample *)(pack->classes + index->n_classes);
    pack->text = (const char *)(pack->samples + index->n_samples);
    pack->decoders = pack->text + index->decoders;
    return pack->text[rest - 1] == '\0';
}

/* Groups follow each other up to n, none is empty, and their names lie in the text. */
static bool follows(const ls__pack *pack, const ls__pack_group *group, uint64_t *next, int64_t n)
{
    if (group->first != *next || group->n == 0 || group->n > (uint64_t)n - *next ||
        group->name >= pack->index->text_bytes)
        return false;
    *next += group->n;
    return true;
}

static bool check_sample(const ls__pack *pack, const ls__pack_sample *s)
{
    if (s->offset < LS__PACK_BLOCK || s->offset > pack->data_end ||
        s->bytes > pack->data_end - s->offset || s->state >= LS__PACK_N_STATES)
        return false;
    const bool none = s->height == 0 && s->width == 0 && s->orientation == 0;
    if (s->state != LS__PACK_SOUND) return none && s->bytes < LS__REASON_SIZE;
    if (pack->form == LS__PACK_FILES) return none && s->bytes <= LS__MAX_FILE_BYTES;
    return s->height > 0 && s->width > 0 && s->width <= (uint32_t)LS__MAX_PIXELS / s->height &&
           s->bytes == 3 * (uint64_t)s->height * s->width && s->orientation >= 1 &&
           s->orientation <= 8;
}

/* The samples of one class, and that their names are "CLASS/...", ascending. */
static ls_status check_class(const ls__pack *pack, const ls__pack_group *class,
                             char reason[LS__REASON_SIZE])
{
    const char *name = ls__pack_text(pack, class->name), *before = NULL;
    const size_t length = strlen(name);
    if (length == 0 || strchr(name, '/'))
        return refuse(reason, "damaged pack: index row of class '%.*s': its name",
                      LS__CUT(name, 80));
    for (uint64_t i = class->first; i < class->first + class->n; i++) {
        const ls__pack_sample *s = &pack->samples[i];
        const char *text = s->name < pack->index->text_bytes ? ls__pack_text(pack, s->name) : "";
        if (strncmp(text, name, length) != 0 || text[length] != '/' ||
            (before && strcmp(before, text) >= 0))
            return refuse(reason,
                          "damaged pack: index row of image %llu, '%.*s': its name, in class "
                          "'%.*s'",
                          (unsigned long long)i, LS__CUT(text, 80), LS__CUT(name, 80));
        if (!check_sample(pack, s))
            return refuse(reason,
                          "damaged pack: index row of image '%.*s': state %u, %llu bytes at "
                          "offset %llu, %u x %u pixels; the data end at %llu",
                          LS__CUT(text, 80), s->state, (unsigned long long)s->bytes,
                          (unsigned long long)s->offset, s->width, s->height,
                          (unsigned long long)pack->data_end);
        before = text;
    }
    return LS_OK;
}

static ls_status check_groups(const ls__pack *pack, char reason[LS__REASON_SIZE])
{
    uint64_t next_class = 0, next_sample = 0;
    for (int64_t p = 0; p < pack->n_splits; p++) {
        const ls__pack_group *split = &pack->splits[p];
        if (!follows(pack, split, &next_class, pack->n_classes))
            return refuse(reason, "damaged pack: index row of split %lld", (long long)p);
        const char *before = NULL;
        for (uint64_t c = split->first; c < next_class; c++) {
            const ls__pack_group *class = &pack->classes[c];
            if (!follows(pack, class, &next_sample, pack->n_samples))
                return refuse(reason, "damaged pack: index row of class %llu",
                              (unsigned long long)c);
            LS_TRY(check_class(pack, class, reason));
            const char *name = ls__pack_text(pack, class->name);
            if (before && strcmp(before, name) >= 0)
                return refuse(reason, "damaged pack: class '%.*s' comes after '%.*s'",
                              LS__CUT(name, 80), LS__CUT(before, 80));
            before = name;
        }
    }
    if (next_class == (uint64_t)pack->n_classes && next_sample == (uint64_t)pack->n_samples)
        return LS_OK;
    return refuse(reason,
                  "damaged pack: %llu of %lld classes and %llu of %lld images are in splits",
                  (unsigned long long)next_class, (long long)pack->n_classes,
                  (unsigned long long)next_sample, (long long)pack->n_samples);
}

/* ---- Opening ---- */

static ls_status read_and_check(ls__pack *pack, char reason[LS__REASON_SIZE])
{
    ls__pack_header header;
    ls__pack_trailer trailer;
    if (pack->bytes < sizeof(header) + sizeof(trailer))
        return refuse(reason, "neither a folder nor a whole pack: a file of %llu bytes",
                      (unsigned long long)pack->bytes);
    LS_TRY(ls__pack_pread(pack, 0, sizeof(header), &header, reason));
    LS_TRY(check_header(pack, &header, reason));
    LS_TRY(ls__pack_pread(pack, pack->bytes - sizeof(trailer), sizeof(trailer), &trailer, reason));
    LS_TRY(check_trailer(pack, &header, &trailer, reason));
    LS_TRY(read_index(pack, &trailer, reason));
    if (!place_tables(pack, trailer.index_bytes))
        return refuse(reason, "damaged pack: sizes in the index");
    return check_groups(pack, reason);
}

ls_status ls__pack_open(const ls_context *ctx, const char *path, ls__pack *out,
                        char reason[LS__REASON_SIZE])
{
    _Static_assert((int)LS__REASON_SIZE >= (int)LS__ERRNO_TEXT_SIZE, "of ls__open_regular");
    int64_t bytes;
    *out = (ls__pack){ .ctx = ctx };
    LS_TRY(ls__open_regular(path, O_RDONLY, &out->fd, &bytes, reason));
    out->bytes = (uint64_t)bytes;
    const ls_status status = read_and_check(out, reason);
    if (status != LS_OK) ls__pack_close(out);
    return status;
}

void ls__pack_close(ls__pack *pack)
{
    ls__free(pack->ctx, pack->index);
    if (pack->fd >= 0) close(pack->fd);
    *pack = (ls__pack){ .fd = -1 };
}

bool ls__pack_parse_path(const char *path, char *file, const char **split)
{
    const size_t length = strlen(path);
    memcpy(file, path, length + 1);
    for (size_t n = length; n > 0; n--) {
        if (n < length && path[n] != '/') continue;
        file[n] = '\0';
        struct stat info;
        if (stat(file, &info) != 0) continue; /* what lies below a file is ENOTDIR */
        *split = path + n + (n < length);
        while (**split == '/') (*split)++;
        return S_ISREG(info.st_mode);
    }
    return false;
}

/* ---- Samples ---- */

static const ls_status status_of[LS__PACK_N_STATES] = { [LS__PACK_NOT_FOUND] = LS_ERR_NOT_FOUND,
                                                        [LS__PACK_UNREAD] = LS_ERR_IO,
                                                        [LS__PACK_UNUSABLE] = LS_ERR_DATA };

bool ls__pack_is_sound(const ls__pack_sample *sample, const void *data)
{
    return ls__hash(data, (size_t)sample->bytes, 0) == sample->hash;
}

/* Reads a range of the sample's data into decoder->buffer. */
static ls_status load(const ls__pack *pack, uint64_t offset, size_t bytes, ls__decoder *decoder)
{
    /* Pixels are borrowed until the next sample, so a huge buffer is released only here. */
    if (decoder->buffer.capacity > LS__KEEP_BYTES) ls__buffer_free(decoder->ctx, &decoder->buffer);
    if (!ls__buffer_reserve(decoder->ctx, &decoder->buffer, bytes))
        return ls__undecodable(decoder, LS_ERR_MEMORY, "no memory for %zu bytes", bytes);
    return ls__pack_pread(pack, offset, bytes, decoder->buffer.bytes, decoder->reason);
}

static ls_status load_and_check(const ls__pack *pack, const ls__pack_sample *sample, bool *sound,
                                ls__decoder *decoder)
{
    LS_TRY(load(pack, sample->offset, (size_t)sample->bytes, decoder));
    *sound = *sound || ls__pack_is_sound(sample, decoder->buffer.bytes);
    if (*sound) return LS_OK;
    return ls__undecodable(decoder, LS_ERR_DATA, "damaged in the pack: %llu bytes at offset %llu",
                           (unsigned long long)sample->bytes, (unsigned long long)sample->offset);
}

ls_status ls__pack_probe(const ls__pack *pack, const ls__pack_sample *sample, bool honour_exif,
                         bool *sound, ls__decoder *decoder)
{
    const bool upright = !honour_exif || sample->orientation <= 1;
    const bool later = *sound && sample->height > 0 && upright;
    decoder->file = NULL;
    if (!later) LS_TRY(load_and_check(pack, sample, sound, decoder));
    if (sample->state != LS__PACK_SOUND)
        return ls__undecodable(decoder, status_of[sample->state], "%.*s", (int)sample->bytes,
                               sample->bytes ? (const char *)decoder->buffer.bytes : "");
    if (pack->form == LS__PACK_FILES)
        return ls__decoder_probe_memory(decoder, decoder->buffer.bytes, (size_t)sample->bytes,
                                        honour_exif);
    if (!later) decoder->file = decoder->buffer.bytes;
    return ls__decoder_probe_pixels(decoder, sample->height, sample->width,
                                    upright ? 1 : sample->orientation);
}

ls_status ls__pack_decode(const ls__pack *pack, const ls__pack_sample *sample,
                          const ls__region *region, ls__decoder *decoder)
{
    if (pack->form == LS__PACK_FILES) return ls__decode_region(decoder, region);
    const int64_t row_bytes = 3 * (int64_t)sample->width;
    const ls__image_view view = { decoder->file, row_bytes, sample->height, sample->width, 3 };
    if (decoder->orientation > 1) return ls__decode_pixels(decoder, &view);
    ls__source *out = &decoder->source;
    *out = ls__source_of_all(&view);
    if (decoder->file) return LS_OK;
    if (region) { /* its rows */
        out->top = region->window.top;
        out->view.height = region->window.height;
    }
    LS_TRY(load(pack, sample->offset + (uint64_t)(out->top * row_bytes),
                (size_t)(out->view.height * row_bytes), decoder));
    out->view.pixels = decoder->buffer.bytes;
    return LS_OK;
}
