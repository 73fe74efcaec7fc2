/* pack_open.c: opens a pack: copies its index into memory and checks all of it. */
#include "data/dataset/pack.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static ls_status refuse(char reason[LS__REASON_SIZE], const char *format, ...) LS_PRINTF(2, 3);
static ls_status refuse(char reason[LS__REASON_SIZE], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(reason, LS__REASON_SIZE, format, args);
    va_end(args);
    return LS_ERR_FORMAT;
}

/* How many bytes the file has now, for the message about a short read; -1 = not known. */
static long long size_now(int fd)
{
    struct stat info;
    return fstat(fd, &info) == 0 ? (long long)info.st_size : -1;
}

ls_status ls__pack_pread(const ls__pack *pack, uint64_t offset, size_t bytes, void *out,
                         char reason[LS__REASON_SIZE])
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t n =
            pread(pack->fd, (uint8_t *)out + done, bytes - done, (off_t)(offset + done));
        if (n > 0) {
            done += (size_t)n;
        } else if (n == 0) {
            refuse(reason,
                   "truncated pack: read %zu of %zu bytes at offset %llu; the file has %lld bytes, "
                   "it had %llu when it was opened",
                   done, bytes, (unsigned long long)offset, size_now(pack->fd),
                   (unsigned long long)pack->bytes);
            return LS_ERR_IO;
        } else if (errno != EINTR) {
            const int number = errno;
            char text[LS__ERRNO_TEXT_SIZE];
            refuse(reason, "reading %zu bytes at offset %llu of the pack: %s", bytes,
                   (unsigned long long)offset, ls__errno_text(number, text, sizeof(text)));
            return ls__file_status(number);
        }
    }
    return LS_OK;
}

/* ---- Records ---- */

static ls__pack_group group_at(const uint8_t *groups, int64_t i)
{
    const uint8_t *at = groups + i * LS__PACK_GROUP_BYTES;
    return (ls__pack_group){ ls__le64(at), ls__le64(at + 8), ls__le64(at + 16) };
}

ls__pack_group ls__pack_part(const ls__pack *pack, int64_t i)
{
    return group_at(pack->parts, i);
}

ls__pack_group ls__pack_class(const ls__pack *pack, int64_t i)
{
    return group_at(pack->classes, i);
}

int64_t ls__pack_find_part(const ls__pack *pack, const char *name)
{
    for (int64_t i = 0; i < pack->n_parts; i++)
        if (strcmp(ls__pack_text(pack, ls__pack_part(pack, i).name), name) == 0) return i;
    return -1;
}

ls__pack_sample ls__pack_sample_at(const ls__pack *pack, int64_t i)
{
    const uint8_t *at = pack->samples + i * LS__PACK_SAMPLE_BYTES;
    return (ls__pack_sample){ .offset = ls__le64(at),
                              .bytes = ls__le64(at + 8),
                              .hash = ls__le64(at + 16),
                              .file_bytes = ls__le64(at + 24),
                              .file_hash = ls__le64(at + 32),
                              .name = ls__le64(at + 40),
                              .height = ls__le32(at + 48),
                              .width = ls__le32(at + 52),
                              .state = (uint16_t)ls__le16(at + 56),
                              .orientation = (uint16_t)ls__le16(at + 58) };
}

/* ---- Checks, from the outside in ---- */

static bool block_is_sound(const uint8_t *block)
{
    return ls__hash(block, LS__PACK_BLOCK - 8, 0) == ls__le64(block + LS__PACK_BLOCK - 8);
}

static ls_status check_header(ls__pack *pack, const uint8_t *header, char reason[LS__REASON_SIZE])
{
    if (memcmp(header, LS__PACK_MAGIC, 8) != 0)
        return refuse(reason, "neither a folder nor a pack");
    const uint32_t version = ls__le32(header + 8), form = ls__le32(header + 12);
    if (!block_is_sound(header)) return refuse(reason, "damaged pack: header");
    if (version != LS__PACK_VERSION)
        return refuse(reason, "a pack of version %u, wanted %d", version, LS__PACK_VERSION);
    const uint32_t resize = ls__le32(header + 16);
    if (form > LS__PACK_PIXELS || resize > LS__MAX_PIXELS ||
        (resize > 0 && form != LS__PACK_PIXELS))
        return refuse(reason, "a pack of unknown form %u, resized to %u", form, resize);
    pack->form = (ls__pack_form)form;
    pack->resize = resize;
    return LS_OK;
}

/* Sets pack->data_end, where the index begins; *bytes is the size of the index. */
static ls_status check_trailer(ls__pack *pack, const uint8_t *header, const uint8_t *trailer,
                               uint64_t *bytes, char reason[LS__REASON_SIZE])
{
    if (memcmp(trailer, LS__PACK_END_MAGIC, 8) != 0)
        return refuse(reason, "truncated or damaged pack: no end mark in %llu bytes",
                      (unsigned long long)pack->bytes);
    if (!block_is_sound(trailer)) return refuse(reason, "damaged pack: trailer");
    if (ls__le64(trailer + 8) != pack->bytes)
        return refuse(reason, "damaged pack: %llu bytes, %llu were written",
                      (unsigned long long)pack->bytes, (unsigned long long)ls__le64(trailer + 8));
    if (ls__le64(trailer + 40) != ls__hash(header, LS__PACK_BLOCK, 0))
        return refuse(reason, "damaged pack: header and trailer belong to different packs");
    const uint64_t offset = ls__le64(trailer + 16), end = pack->bytes - LS__PACK_BLOCK;
    *bytes = ls__le64(trailer + 24);
    if (offset < LS__PACK_BLOCK || offset > end || *bytes != end - offset ||
        *bytes < LS__PACK_INDEX_BYTES)
        return refuse(reason, "damaged pack: place of the index");
    pack->data_end = offset;
    return LS_OK;
}

/* The index, whose size was compared with the file's, into memory of the pack. */
static ls_status read_index(ls__pack *pack, uint64_t bytes, uint64_t hash,
                            char reason[LS__REASON_SIZE])
{
    pack->index = ls__alloc(pack->ctx, (size_t)bytes);
    if (!pack->index) {
        refuse(reason, "no memory for an index of %llu bytes", (unsigned long long)bytes);
        return LS_ERR_MEMORY;
    }
    LS_TRY(ls__pack_pread(pack, pack->data_end, (size_t)bytes, pack->index, reason));
    return ls__hash(pack->index, (size_t)bytes, 0) == hash ? LS_OK
                                                           : refuse(reason, "damaged pack: index");
}

/* Cuts the index into its tables. */
static bool place_tables(ls__pack *pack, uint64_t bytes)
{
    const uint8_t *index = pack->index;
    const uint64_t n_parts = ls__le64(index), n_classes = ls__le64(index + 8),
                   n_samples = ls__le64(index + 16), n_text = ls__le64(index + 24),
                   decoders = ls__le64(index + 32);
    uint64_t left = bytes - LS__PACK_INDEX_BYTES;
    if (n_parts == 0 || n_parts > left / LS__PACK_GROUP_BYTES) return false;
    left -= n_parts * LS__PACK_GROUP_BYTES;
    if (n_classes > left / LS__PACK_GROUP_BYTES || n_classes > INT32_MAX) return false;
    left -= n_classes * LS__PACK_GROUP_BYTES;
    if (n_samples > left / LS__PACK_SAMPLE_BYTES) return false;
    left -= n_samples * LS__PACK_SAMPLE_BYTES;
    if (left != n_text || n_text == 0 || decoders >= n_text) return false;
    pack->n_parts = (int64_t)n_parts;
    pack->n_classes = (int64_t)n_classes;
    pack->n_samples = (int64_t)n_samples;
    pack->parts = index + LS__PACK_INDEX_BYTES;
    pack->classes = pack->parts + n_parts * LS__PACK_GROUP_BYTES;
    pack->samples = pack->classes + n_classes * LS__PACK_GROUP_BYTES;
    pack->text = (const char *)pack->samples + n_samples * LS__PACK_SAMPLE_BYTES;
    pack->decoders = pack->text + decoders;
    return pack->text[n_text - 1] == '\0';
}

/* Groups follow each other up to n, none is empty, and their names lie in the text. */
static bool follow(uint64_t *next, const ls__pack_group *group, uint64_t n, uint64_t n_text)
{
    if (group->first != *next || group->n == 0 || group->n > n - *next || group->name >= n_text)
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

static ls_status refuse_sample(const ls__pack *pack, const ls__pack_sample *s, const char *name,
                               char reason[LS__REASON_SIZE])
{
    return refuse(
        reason,
        "damaged pack: index entry of image '%.80s': state %u, %llu bytes at offset %llu, "
        "%u x %u pixels; the data end at %llu",
        name, s->state, (unsigned long long)s->bytes, (unsigned long long)s->offset, s->width,
        s->height, (unsigned long long)pack->data_end);
}

/* The samples of one class, and that their names are "CLASS/...", ascending. */
static ls_status check_class(const ls__pack *pack, const ls__pack_group *class, uint64_t n_text,
                             char reason[LS__REASON_SIZE])
{
    const char *name = ls__pack_text(pack, class->name), *before = NULL;
    const size_t length = strlen(name);
    if (length == 0 || strchr(name, '/'))
        return refuse(reason, "damaged pack: index entry of class '%.80s': its name", name);
    for (uint64_t i = class->first; i < class->first + class->n; i++) {
        const ls__pack_sample s = ls__pack_sample_at(pack, (int64_t)i);
        const char *text = s.name < n_text ? ls__pack_text(pack, s.name) : "";
        if (strncmp(text, name, length) != 0 || text[length] != '/' ||
            (before && strcmp(before, text) >= 0))
            return refuse(reason,
                          "damaged pack: index entry of image %llu, '%.80s': its name, in class "
                          "'%.80s'",
                          (unsigned long long)i, text, name);
        if (!check_sample(pack, &s)) return refuse_sample(pack, &s, text, reason);
        before = text;
    }
    return LS_OK;
}

static ls_status check_groups(const ls__pack *pack, char reason[LS__REASON_SIZE])
{
    const uint64_t n_text = ls__le64(pack->index + 24);
    uint64_t next_class = 0, next_sample = 0;
    for (int64_t p = 0; p < pack->n_parts; p++) {
        const ls__pack_group part = ls__pack_part(pack, p);
        if (!follow(&next_class, &part, (uint64_t)pack->n_classes, n_text))
            return refuse(reason, "damaged pack: index entry of part %lld", (long long)p);
        const char *before = NULL;
        for (uint64_t c = part.first; c < part.first + part.n; c++) {
            const ls__pack_group class = ls__pack_class(pack, (int64_t)c);
            if (!follow(&next_sample, &class, (uint64_t)pack->n_samples, n_text))
                return refuse(reason, "damaged pack: index entry of class %llu",
                              (unsigned long long)c);
            LS_TRY(check_class(pack, &class, n_text, reason));
            const char *name = ls__pack_text(pack, class.name);
            if (before && strcmp(before, name) >= 0)
                return refuse(reason, "damaged pack: class '%.80s' comes after '%.80s'", name,
                              before);
            before = name;
        }
    }
    if (next_class == (uint64_t)pack->n_classes && next_sample == (uint64_t)pack->n_samples)
        return LS_OK;
    return refuse(reason, "damaged pack: %llu of %lld classes and %llu of %lld images are in parts",
                  (unsigned long long)next_class, (long long)pack->n_classes,
                  (unsigned long long)next_sample, (long long)pack->n_samples);
}

/* ---- Opening ---- */

static ls_status read_and_check(ls__pack *pack, char reason[LS__REASON_SIZE])
{
    uint8_t header[LS__PACK_BLOCK], trailer[LS__PACK_BLOCK];
    uint64_t bytes = 0;
    if (pack->bytes < 2 * LS__PACK_BLOCK)
        return refuse(reason, "neither a folder nor a whole pack: a file of %llu bytes",
                      (unsigned long long)pack->bytes);
    LS_TRY(ls__pack_pread(pack, 0, sizeof(header), header, reason));
    LS_TRY(check_header(pack, header, reason));
    LS_TRY(ls__pack_pread(pack, pack->bytes - sizeof(trailer), sizeof(trailer), trailer, reason));
    LS_TRY(check_trailer(pack, header, trailer, &bytes, reason));
    LS_TRY(read_index(pack, bytes, ls__le64(trailer + 32), reason));
    if (!place_tables(pack, bytes)) return refuse(reason, "damaged pack: sizes in the index");
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

bool ls__pack_split(const char *path, char *file, const char **part)
{
    const size_t length = strlen(path);
    memcpy(file, path, length + 1);
    for (size_t n = length; n > 0; n--) {
        if (n < length && path[n] != '/') continue;
        file[n] = '\0';
        struct stat info;
        if (stat(file, &info) != 0) continue; /* what lies below a file is ENOTDIR */
        *part = path + n + (n < length);
        while (**part == '/') (*part)++;
        return S_ISREG(info.st_mode);
    }
    return false;
}
