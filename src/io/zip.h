/* zip.h: the entries of a zip archive that are stored without compression, as torch.save writes
 * them (PKWARE's APPNOTE.TXT, version 6.3). */
#ifndef LS_IO_ZIP_H
#define LS_IO_ZIP_H

#include "io/tensor_file.h"

typedef struct ls__zip_entry {
    const char *name; /* any bytes but 0 */
    int64_t bytes;
    int64_t header; /* the offset of the entry's own header */
    int64_t data;   /* of its bytes; 0 before they are read */
    uint32_t crc;
    bool stored; /* neither compressed nor encrypted */
} ls__zip_entry;

typedef struct ls__zip {
    ls__zip_entry *entries; /* by name, which is different for each */
    int64_t n_entries;
    int64_t directory; /* its offset, where the entries end */
    /* What was read last, in order from an entry's begin: its CRC so far. */
    const ls__zip_entry *last;
    int64_t last_bytes;
    uint32_t last_crc;
} ls__zip;

/* Lists the entries, in the file's bump. Errors are those of ls__tensor_file_fail. */
ls_status ls__zip_open(ls_tensor_file *file, ls__zip *zip);
/* The entry of that name, or NULL. */
ls__zip_entry *ls__zip_find(const ls__zip *zip, const char *name);
/* An error unless every entry is stored, and all of them together are no larger than the file. */
ls_status ls__zip_check_stored(const ls_tensor_file *file, const ls__zip *zip);
/* Reads bytes of a stored entry. If all were read in order, compares the CRC after the last one. */
ls_status ls__zip_read(const ls_tensor_file *file, ls__zip *zip, ls__zip_entry *entry, void *out,
                       size_t bytes, int64_t offset);

#endif
