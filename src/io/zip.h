/* zip.h: the entries of a zip archive that are stored without compression, as torch.save writes
 * them (PKWARE's APPNOTE.TXT, version 6.3). */
#ifndef LS_IO_ZIP_H
#define LS_IO_ZIP_H

#include "io/tensor_file.h"

typedef struct ls__zip_entry {
    const char *name; /* any bytes but 0 */
    int64_t bytes;
    int64_t local_header; /* its offset */
    int64_t data;         /* the offset of the entry's bytes; set at the first read */
    uint32_t crc;
    bool is_stored;  /* neither compressed nor encrypted */
    bool is_checked; /* its checksum was right */
} ls__zip_entry;

typedef struct ls__zip {
    ls__zip_entry *entries; /* sorted by name; names are unique */
    int64_t n_entries;
    int64_t directory; /* its offset; the entries are before it */
} ls__zip;

/* Lists the entries, in the file's bump. Errors are those of ls__tensor_file_fail. */
ls_status ls__zip_open(ls_tensor_file *file, ls__zip *zip);
/* The entry of that name, or NULL. */
ls__zip_entry *ls__zip_find(const ls__zip *zip, const char *name);
/* Reads bytes of a stored entry, which must be within it. The first read compares the checksum of
 * the whole entry. */
ls_status ls__zip_read(const ls_tensor_file *file, const ls__zip *zip, ls__zip_entry *entry,
                       void *out, size_t bytes, int64_t offset);

#endif
