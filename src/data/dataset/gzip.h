/* gzip.h: decodes a gzip file (RFC 1952) in memory, by zlib. */
#ifndef LS_DATA_DATASET_GZIP_H
#define LS_DATA_DATASET_GZIP_H

#include <lockstep/context.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct ls__gzip ls__gzip;

/* The most bytes that one byte of a deflate stream makes (zlib's technical notes, "Maximum
 * compression factor"). */
enum { LS__GZIP_MAX_INFLATION = 1032 };

/* `bytes` must stay valid until the close; `path` is for messages. */
ls_status ls__gzip_open(ls_context *ctx, const char *path, unsigned char *bytes, size_t n,
                        ls__gzip **out);
void ls__gzip_close(ls__gzip **gzip);
/* Decodes up to n <= UINT32_MAX bytes, and returns how many: fewer at the end, or at damage. */
size_t ls__gzip_read(ls__gzip *gzip, void *out, size_t n);
/* After a read of fewer bytes: NULL at the end of sound data, or what is wrong. */
const char *ls__gzip_damage(const ls__gzip *gzip);
bool ls__gzip_out_of_memory(const ls__gzip *gzip);
/* The file's bytes that were not read yet. */
size_t ls__gzip_rest(const ls__gzip *gzip);

#endif
