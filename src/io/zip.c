/* zip.c: see zip.h. The end record of an archive says where its directory is, which lists the
 * entries. Archives whose sizes or counts exceed 32 or 16 bits, and all of torch.save's, have a
 * zip64 end record before it, whose place is in a locator. Numbers are little-endian. */
#include "io/zip.h"

#include "base/alloc.h"
#include "base/crc.h"
#include "base/error.h"
#include "base/minmax.h"
#include "base/text.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the fixed parts, and the signatures with which they begin. */
enum { ENTRY_BYTES = 46, LOCAL_BYTES = 30, END_BYTES = 22, LOCATOR_BYTES = 20, END64_BYTES = 56 };
static const char entry_signature[] = "PK\1\2", local_signature[] = "PK\3\4",
                  end_signature[] = "PK\5\6", locator_signature[] = "PK\6\7",
                  end64_signature[] = "PK\6\6";

enum {
    MAX_DIRECTORY_BYTES = 64 << 20, /* torch.save takes about 100 bytes per tensor */
    MAX_COMMENT_BYTES = 65535,
    MAX_NAME_BYTES = 1024, /* of an entry that is read */
    CHUNK_BYTES = 1 << 16  /* of a checksum */
};

static uint64_t read_le(const unsigned char *bytes, int n)
{
    uint64_t out = 0;
    while (n > 0) out = out << 8 | bytes[--n];
    return out;
}

static bool begins_with(const unsigned char *bytes, const char signature[5])
{
    return memcmp(bytes, signature, 4) == 0;
}

static ls_status fail_entry(const ls_tensor_file *file, const char *name, const char *problem)
{
    return ls__tensor_file_fail(file, "zip entry '%.*s': %s", LS__CUT(name, 100), problem);
}

/* ---- The end ---- */

typedef struct zip_end {
    uint64_t n_entries, directory_bytes, directory;
    uint64_t at; /* its own offset */
} zip_end;

/* The last end record whose comment fits into the file, whose last bytes are given; NULL if none.
 * As in PyTorch's reader, other bytes may follow. */
static const unsigned char *find_end(const unsigned char *tail, size_t bytes)
{
    for (size_t n = END_BYTES; n <= bytes; n++) {
        const unsigned char *at = tail + bytes - n;
        if (begins_with(at, end_signature) && read_le(at + 20, 2) <= n - END_BYTES) return at;
    }
    return NULL;
}

/* Replaces *out by the zip64 end record, if a locator precedes the end record. */
static ls_status read_end64(const ls_tensor_file *file, zip_end *out)
{
    unsigned char locator[LOCATOR_BYTES], bytes[END64_BYTES];
    if (out->at < LOCATOR_BYTES) return LS_OK;
    const uint64_t locator_at = out->at - LOCATOR_BYTES;
    LS_TRY(ls__tensor_file_read_at(file, locator, sizeof(locator), (int64_t)locator_at));
    if (!begins_with(locator, locator_signature)) return LS_OK;
    const uint64_t at = read_le(locator + 8, 8);
    if (at > locator_at || locator_at - at < END64_BYTES)
        return ls__tensor_file_fail(file, "the zip64 end record is not in the file");
    LS_TRY(ls__tensor_file_read_at(file, bytes, sizeof(bytes), (int64_t)at));
    if (!begins_with(bytes, end64_signature))
        return ls__tensor_file_fail(file, "the zip64 end record is damaged");
    *out = (zip_end){ read_le(bytes + 32, 8), read_le(bytes + 40, 8), read_le(bytes + 48, 8), at };
    return LS_OK;
}

static ls_status find_ends(const ls_tensor_file *file, unsigned char *tail, size_t bytes,
                           zip_end *out)
{
    const int64_t begin = file->file_bytes - (int64_t)bytes;
    LS_TRY(ls__tensor_file_read_at(file, tail, bytes, begin));
    const unsigned char *at = find_end(tail, bytes);
    if (!at)
        return ls__tensor_file_fail(file, "the zip archive has no end record: it is truncated");
    *out = (zip_end){ read_le(at + 10, 2), read_le(at + 12, 4), read_le(at + 16, 4),
                      (uint64_t)(begin + (at - tail)) };
    return read_end64(file, out);
}

static ls_status read_end(const ls_tensor_file *file, zip_end *out)
{
    const size_t bytes =
        (size_t)ls__min_i64(file->file_bytes, (int64_t)END_BYTES + MAX_COMMENT_BYTES);
    unsigned char *tail = ls__alloc(file->owned.ctx, bytes);
    if (!tail) return ls__fail_memory(file->owned.ctx, file->path, bytes);
    const ls_status status = find_ends(file, tail, bytes, out);
    ls__free(file->owned.ctx, tail);
    if (status != LS_OK) return status;
    if (out->directory > out->at || out->directory_bytes > out->at - out->directory ||
        out->n_entries > out->directory_bytes / ENTRY_BYTES)
        return ls__tensor_file_fail(
            file, "the zip directory of %" PRIu64 " entries is not before its end record",
            out->n_entries);
    if (out->directory_bytes > MAX_DIRECTORY_BYTES)
        return ls__tensor_file_fail(file,
                                    "the zip directory has %" PRIu64 " bytes, expected %d at most",
                                    out->directory_bytes, (int)MAX_DIRECTORY_BYTES);
    return LS_OK;
}

/* ---- The directory ---- */

/* Replaces the values that have all bits set by those of the zip64 extra field; false if it is
 * missing or too short. */
static bool read_extra64(const unsigned char *extra, size_t bytes, uint64_t *const values[3])
{
    enum { ZIP64 = 1 };
    size_t n = 0;
    while (bytes >= 4) {
        n = (size_t)read_le(extra + 2, 2);
        if (n > bytes - 4) return false;
        if (read_le(extra, 2) == ZIP64) break;
        extra += 4 + n;
        bytes -= 4 + n;
        n = 0;
    }
    for (int i = 0, at = 0; i < 3; i++) {
        if (*values[i] != UINT32_MAX) continue;
        if ((size_t)at + 8 > n) return false;
        *values[i] = read_le(extra + 4 + at, 8);
        at += 8;
    }
    return true;
}

/* Reads an entry of the directory, which takes *used of at most `bytes` bytes. */
static ls_status read_entry(ls_tensor_file *file, const unsigned char *at, size_t bytes,
                            ls__zip_entry *out, size_t *used)
{
    enum { ENCRYPTED = 1 };
    if (bytes < ENTRY_BYTES || !begins_with(at, entry_signature))
        return ls__tensor_file_fail(file, "the zip directory is damaged");
    const size_t name_bytes = (size_t)read_le(at + 28, 2),
                 extra_bytes = (size_t)read_le(at + 30, 2);
    *used = ENTRY_BYTES + name_bytes + extra_bytes + (size_t)read_le(at + 32, 2);
    if (*used > bytes || memchr(at + ENTRY_BYTES, 0, name_bytes))
        return ls__tensor_file_fail(file, "the zip directory is damaged");
    char *name = ls__bump_alloc(&file->bump, name_bytes + 1);
    if (!name) return ls__fail_memory(file->owned.ctx, file->path, name_bytes);
    memcpy(name, at + ENTRY_BYTES, name_bytes);

    uint64_t packed = read_le(at + 20, 4), size = read_le(at + 24, 4), local = read_le(at + 42, 4);
    const unsigned char *extra = at + ENTRY_BYTES + name_bytes;
    if (!read_extra64(extra, extra_bytes, (uint64_t *[]){ &size, &packed, &local }))
        return fail_entry(file, name,
                          "its extra field of sizes with 64 bits is missing or damaged");
    if (size > INT64_MAX || local > (uint64_t)file->file_bytes)
        return fail_entry(file, name, "it lies beyond the end of the file");
    *out = (ls__zip_entry){ .name = name,
                            .bytes = (int64_t)size,
                            .local_header = (int64_t)local,
                            .crc = (uint32_t)read_le(at + 16, 4),
                            .is_stored = read_le(at + 10, 2) == 0 && packed == size &&
                                         (read_le(at + 8, 2) & ENCRYPTED) == 0 };
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
    if (bytes > 0)
        return ls__tensor_file_fail(
            file, "the zip directory has %zu bytes more than its %" PRId64 " entries", bytes,
            zip->n_entries);
    qsort(zip->entries, (size_t)zip->n_entries, sizeof(*zip->entries), compare_names);
    for (int64_t i = 1; i < zip->n_entries; i++)
        if (compare_names(&zip->entries[i - 1], &zip->entries[i]) == 0)
            return ls__tensor_file_fail(file, "two zip entries have the name '%.*s'",
                                        LS__CUT(zip->entries[i].name, 100));
    return LS_OK;
}

ls_status ls__zip_open(ls_tensor_file *file, ls__zip *zip)
{
    zip_end end = { 0 };
    LS_TRY(read_end(file, &end));
    ls_context *ctx = file->owned.ctx;
    const size_t bytes = (size_t)end.directory_bytes;
    const size_t list_bytes = (size_t)(end.n_entries + 1) * sizeof(*zip->entries);
    *zip = (ls__zip){ .n_entries = (int64_t)end.n_entries, .directory = (int64_t)end.directory };
    zip->entries = ls__bump_alloc(&file->bump, list_bytes);
    unsigned char *directory = ls__alloc(ctx, bytes + 1);
    ls_status status = directory && zip->entries
                           ? LS_OK
                           : ls__fail_memory(ctx, file->path, directory ? list_bytes : bytes);
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

/* ---- Reading ---- */

/* The entry's local header has its name again, and an extra field of another length. */
static ls_status find_data(const ls_tensor_file *file, const ls__zip *zip, ls__zip_entry *entry)
{
    unsigned char header[LOCAL_BYTES];
    char name[MAX_NAME_BYTES];
    const size_t length = strlen(entry->name);
    if (length > MAX_NAME_BYTES) return fail_entry(file, entry->name, "its name is too long");
    if (entry->local_header > zip->directory - LOCAL_BYTES - (int64_t)length)
        return fail_entry(file, entry->name, "its local header is not before the directory");
    LS_TRY(ls__tensor_file_read_at(file, header, sizeof(header), entry->local_header));
    LS_TRY(ls__tensor_file_read_at(file, name, length, entry->local_header + LOCAL_BYTES));
    if (!begins_with(header, local_signature) || read_le(header + 26, 2) != length ||
        memcmp(name, entry->name, length) != 0)
        return fail_entry(file, entry->name, "its local header is damaged, or another entry's");
    entry->data =
        entry->local_header + LOCAL_BYTES + (int64_t)length + (int64_t)read_le(header + 28, 2);
    if (entry->data > zip->directory || entry->bytes > zip->directory - entry->data)
        return fail_entry(file, entry->name, "its data reach into the directory");
    return LS_OK;
}

/* torch.save writes 0 where torch.serialization.set_crc32_options(False) was called. */
static ls_status compare_checksum(const ls_tensor_file *file, const ls__zip_entry *entry,
                                  uint32_t crc)
{
    if (crc == entry->crc || entry->crc == 0) return LS_OK;
    return fail_entry(file, entry->name, "its checksum is wrong: the file is damaged");
}

/* Reads all data, and drops them. */
static ls_status check_all(const ls_tensor_file *file, const ls__zip_entry *entry)
{
    unsigned char *chunk = ls__alloc(file->owned.ctx, CHUNK_BYTES);
    if (!chunk) return ls__fail_memory(file->owned.ctx, file->path, CHUNK_BYTES);
    uint32_t crc = 0;
    ls_status status = LS_OK;
    for (int64_t at = 0; at < entry->bytes && status == LS_OK; at += CHUNK_BYTES) {
        const size_t n = (size_t)ls__min_i64(CHUNK_BYTES, entry->bytes - at);
        status = ls__tensor_file_read_at(file, chunk, n, entry->data + at);
        if (status == LS_OK) crc = ls__crc_add(LS__CRC32, crc, chunk, n);
    }
    ls__free(file->owned.ctx, chunk);
    return status == LS_OK ? compare_checksum(file, entry, crc) : status;
}

ls_status ls__zip_read(const ls_tensor_file *file, const ls__zip *zip, ls__zip_entry *entry,
                       void *out, size_t bytes, int64_t offset)
{
    const bool first = !entry->is_checked, whole = (int64_t)bytes == entry->bytes;
    if (first) LS_TRY(find_data(file, zip, entry));
    if (first && !whole) LS_TRY(check_all(file, entry));
    LS_TRY(ls__tensor_file_read_at(file, out, bytes, entry->data + offset));
    if (first && whole)
        LS_TRY(compare_checksum(file, entry, ls__crc_add(LS__CRC32, 0, out, bytes)));
    entry->is_checked = true;
    return LS_OK;
}
