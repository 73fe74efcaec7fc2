/* zip.c: see zip.h. The end of an archive says where its directory is, which lists the entries.
 * Archives whose sizes or counts exceed 32 or 16 bits, and all of torch.save's, have a second end
 * with 64 bits (zip64) before the first, found by its locator. Numbers are little-endian. */
#include "io/zip.h"

#include "base/alloc.h"
#include "base/crc.h"
#include "base/error.h"
#include "base/text.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the fixed parts, and the signatures with which they begin. */
enum { ENTRY_BYTES = 46, HEADER_BYTES = 30, END_BYTES = 22, LOCATOR_BYTES = 20, END64_BYTES = 56 };
static const char entry_mark[4] = "PK\1\2", header_mark[4] = "PK\3\4", end_mark[4] = "PK\5\6",
                  locator_mark[4] = "PK\6\7", end64_mark[4] = "PK\6\6";

enum { MAX_DIRECTORY_BYTES = 1 << 30, MAX_COMMENT_BYTES = 65535 };

static uint64_t number(const unsigned char *bytes, int n)
{
    uint64_t out = 0;
    while (n > 0) out = out << 8 | bytes[--n];
    return out;
}

static bool begins_with(const unsigned char *bytes, const char mark[4])
{
    return memcmp(bytes, mark, 4) == 0;
}

/* ---- The end ---- */

typedef struct end {
    uint64_t n_entries, directory_bytes, directory;
} end;

/* The last end whose comment fits into the file, whose last bytes are given; NULL if none. As in
 * PyTorch's reader, other bytes may follow. */
static const unsigned char *find_end(const unsigned char *tail, size_t bytes)
{
    for (size_t n = END_BYTES; n <= bytes; n++) {
        const unsigned char *at = tail + bytes - n;
        if (begins_with(at, end_mark) && number(at + 20, 2) <= n - END_BYTES) return at;
    }
    return NULL;
}

/* Replaces `out` by the end with 64 bits, if a locator precedes the end at offset `at`. */
static ls_status read_end64(const ls_tensor_file *file, int64_t at, end *out)
{
    unsigned char locator[LOCATOR_BYTES], bytes[END64_BYTES];
    if (at < LOCATOR_BYTES) return LS_OK;
    LS_TRY(ls__tensor_file_read_at(file, locator, sizeof(locator), at - LOCATOR_BYTES));
    if (!begins_with(locator, locator_mark)) return LS_OK;
    const uint64_t end64 = number(locator + 8, 8);
    if (end64 > (uint64_t)at || (uint64_t)at - end64 < END64_BYTES)
        return ls__tensor_file_fail(file, "the zip archive's second end is not in the file");
    LS_TRY(ls__tensor_file_read_at(file, bytes, sizeof(bytes), (int64_t)end64));
    if (!begins_with(bytes, end64_mark))
        return ls__tensor_file_fail(file, "the zip archive's second end is damaged");
    *out = (end){ number(bytes + 32, 8), number(bytes + 40, 8), number(bytes + 48, 8) };
    return LS_OK;
}

static ls_status read_end(const ls_tensor_file *file, end *out)
{
    const size_t max = END_BYTES + MAX_COMMENT_BYTES;
    const size_t bytes = file->file_bytes < (int64_t)max ? (size_t)file->file_bytes : max;
    const int64_t begin = file->file_bytes - (int64_t)bytes;
    ls_context *ctx = file->owned.ctx;
    unsigned char *tail = ls__alloc(ctx, bytes);
    if (!tail) return ls__fail_memory(ctx, file->path, bytes);
    ls_status status = ls__tensor_file_read_at(file, tail, bytes, begin);
    const unsigned char *at = status == LS_OK ? find_end(tail, bytes) : NULL;
    if (at) {
        *out = (end){ number(at + 10, 2), number(at + 12, 4), number(at + 16, 4) };
        status = read_end64(file, begin + (at - tail), out);
    } else if (status == LS_OK) {
        status = ls__tensor_file_fail(file, "the zip archive has no end: the file is truncated");
    }
    ls__free(ctx, tail);
    if (status != LS_OK) return status;
    const uint64_t size = (uint64_t)file->file_bytes;
    if (out->directory > size || out->directory_bytes > size - out->directory ||
        out->directory_bytes > MAX_DIRECTORY_BYTES ||
        out->n_entries > out->directory_bytes / ENTRY_BYTES)
        return ls__tensor_file_fail(
            file, "the zip archive's directory of %" PRIu64 " entries is not in the file",
            out->n_entries);
    return LS_OK;
}

/* ---- The directory ---- */

/* Replaces the values that have all bits set by those of the extra field with 64 bits. */
static bool read_extra64(const unsigned char *extra, size_t bytes, uint64_t *const values[3])
{
    enum { ZIP64 = 1 };
    while (bytes >= 4) {
        const size_t n = (size_t)number(extra + 2, 2);
        if (n > bytes - 4) return false;
        if (number(extra, 2) == ZIP64) {
            size_t at = 0;
            for (int i = 0; i < 3; i++) {
                if (*values[i] != UINT32_MAX) continue;
                if (at + 8 > n) return false;
                *values[i] = number(extra + 4 + at, 8);
                at += 8;
            }
            return true;
        }
        extra += 4 + n;
        bytes -= 4 + n;
    }
    return *values[0] != UINT32_MAX && *values[1] != UINT32_MAX && *values[2] != UINT32_MAX;
}

/* Reads an entry of the directory, which takes *used of at most `bytes` bytes. */
static ls_status read_entry(ls_tensor_file *file, const unsigned char *at, size_t bytes,
                            ls__zip_entry *out, size_t *used)
{
    enum { ENCRYPTED = 1 };
    if (bytes < ENTRY_BYTES || !begins_with(at, entry_mark))
        return ls__tensor_file_fail(file, "the zip archive's directory is damaged");
    const size_t name_bytes = (size_t)number(at + 28, 2), extra_bytes = (size_t)number(at + 30, 2);
    *used = ENTRY_BYTES + name_bytes + extra_bytes + (size_t)number(at + 32, 2);
    if (*used > bytes || memchr(at + ENTRY_BYTES, 0, name_bytes))
        return ls__tensor_file_fail(file, "the zip archive's directory is damaged");
    char *name = ls__bump_alloc(&file->bump, name_bytes + 1);
    if (!name) return ls__fail_memory(file->owned.ctx, file->path, name_bytes);
    memcpy(name, at + ENTRY_BYTES, name_bytes);
    name[name_bytes] = '\0';

    uint64_t packed = number(at + 20, 4), size = number(at + 24, 4), header = number(at + 42, 4);
    const unsigned char *extra = at + ENTRY_BYTES + name_bytes;
    if (!read_extra64(extra, extra_bytes, (uint64_t *[]){ &size, &packed, &header }) ||
        size > INT64_MAX || header > (uint64_t)file->file_bytes)
        return ls__tensor_file_fail(file, "zip entry '%.*s' is damaged", LS__CUT(name, 100));
    *out = (ls__zip_entry){ .name = name,
                            .bytes = (int64_t)size,
                            .header = (int64_t)header,
                            .crc = (uint32_t)number(at + 16, 4),
                            .stored = number(at + 10, 2) == 0 && packed == size &&
                                      (number(at + 8, 2) & ENCRYPTED) == 0 };
    return LS_OK;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const ls__zip_entry *)a)->name, ((const ls__zip_entry *)b)->name);
}

static ls_status read_entries(ls_tensor_file *file, ls__zip *zip, const unsigned char *directory,
                              size_t bytes)
{
    for (int64_t i = 0; i < zip->n_entries; i++) {
        size_t used = 0;
        LS_TRY(read_entry(file, directory, bytes, &zip->entries[i], &used));
        directory += used;
        bytes -= used;
    }
    qsort(zip->entries, (size_t)zip->n_entries, sizeof(*zip->entries), compare_names);
    for (int64_t i = 1; i < zip->n_entries; i++)
        if (compare_names(&zip->entries[i - 1], &zip->entries[i]) == 0)
            return ls__tensor_file_fail(file, "two zip entries have the name '%.*s'",
                                        LS__CUT(zip->entries[i].name, 100));
    return LS_OK;
}

ls_status ls__zip_open(ls_tensor_file *file, ls__zip *zip)
{
    end last = { 0 };
    LS_TRY(read_end(file, &last));
    ls_context *ctx = file->owned.ctx;
    const size_t bytes = (size_t)last.directory_bytes;
    *zip = (ls__zip){ .n_entries = (int64_t)last.n_entries, .directory = (int64_t)last.directory };
    zip->entries = ls__bump_alloc(&file->bump, (last.n_entries + 1) * sizeof(*zip->entries));
    unsigned char *directory = ls__alloc(ctx, bytes + 1);
    ls_status status = directory && zip->entries ? LS_OK : ls__fail_memory(ctx, file->path, bytes);
    if (status == LS_OK) status = ls__tensor_file_read_at(file, directory, bytes, zip->directory);
    if (status == LS_OK) status = read_entries(file, zip, directory, bytes);
    ls__free(ctx, directory);
    return status;
}

ls__zip_entry *ls__zip_find(const ls__zip *zip, const char *name)
{
    const ls__zip_entry key = { .name = name };
    return bsearch(&key, zip->entries, (size_t)zip->n_entries, sizeof(key), compare_names);
}

ls_status ls__zip_check_stored(const ls_tensor_file *file, const ls__zip *zip)
{
    int64_t rest = file->file_bytes;
    for (const ls__zip_entry *e = zip->entries; e < zip->entries + zip->n_entries; e++) {
        if (!e->stored)
            return ls__tensor_file_fail(
                file, "zip entry '%.*s' is compressed or encrypted; torch.save stores entries",
                LS__CUT(e->name, 100));
        if (e->bytes > rest)
            return ls__tensor_file_fail(file, "the zip entries up to '%.*s' exceed the file",
                                        LS__CUT(e->name, 100));
        rest -= e->bytes;
    }
    return LS_OK;
}

/* ---- Reading ---- */

/* The entry's own header has a name and an extra field of its own length. */
static ls_status find_data(const ls_tensor_file *file, const ls__zip *zip, ls__zip_entry *entry)
{
    unsigned char header[HEADER_BYTES];
    if (entry->data > 0) return LS_OK;
    if (entry->header > zip->directory - HEADER_BYTES)
        return ls__tensor_file_fail(file, "zip entry '%.*s' is damaged", LS__CUT(entry->name, 100));
    LS_TRY(ls__tensor_file_read_at(file, header, sizeof(header), entry->header));
    const int64_t data =
        entry->header + HEADER_BYTES + (int64_t)(number(header + 26, 2) + number(header + 28, 2));
    if (!begins_with(header, header_mark) || data > zip->directory ||
        entry->bytes > zip->directory - data)
        return ls__tensor_file_fail(file, "zip entry '%.*s' is damaged", LS__CUT(entry->name, 100));
    entry->data = data;
    return LS_OK;
}

ls_status ls__zip_read(const ls_tensor_file *file, ls__zip *zip, ls__zip_entry *entry, void *out,
                       size_t bytes, int64_t offset)
{
    LS_TRY(find_data(file, zip, entry));
    if (offset > entry->bytes || (int64_t)bytes > entry->bytes - offset)
        return ls__tensor_file_fail(file, "zip entry '%.*s' has %" PRId64 " bytes",
                                    LS__CUT(entry->name, 100), entry->bytes);
    LS_TRY(ls__tensor_file_read_at(file, out, bytes, entry->data + offset));
    if (offset == 0) {
        zip->last = entry;
        zip->last_bytes = 0;
        zip->last_crc = 0;
    }
    if (zip->last != entry || zip->last_bytes != offset) return LS_OK;
    zip->last_crc = ls__crc_add(LS__CRC32, zip->last_crc, out, bytes);
    zip->last_bytes += (int64_t)bytes;
    if (zip->last_bytes == entry->bytes && zip->last_crc != entry->crc)
        return ls__tensor_file_fail(file, "the checksum of zip entry '%.*s' is wrong",
                                    LS__CUT(entry->name, 100));
    return LS_OK;
}
