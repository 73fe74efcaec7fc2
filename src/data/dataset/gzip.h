/* gzip.h: decodes an idx file that is compressed by gzip (RFC 1952), in memory, by zlib. */
#ifndef LS_DATA_DATASET_GZIP_H
#define LS_DATA_DATASET_GZIP_H

#include <lockstep/context.h>
#include <stddef.h>

typedef struct ls__gzip ls__gzip;

/* The most bytes that one byte of a deflate stream makes (zlib's technical notes, "Maximum
 * compression factor"). */
enum { LS__GZIP_MAX_INFLATION = 1032 };

/* `bytes` and `path`, which is for messages, must stay valid until the close. */
ls_status ls__gzip_open(ls_context *ctx, const char *path, unsigned char *bytes, size_t n,
                        ls__gzip **out);
/* Decodes up to n <= UINT32_MAX bytes; *got are fewer at the end of all members. LS_ERR_DATA for
 * damage, and for other bytes after the last member. */
ls_status ls__gzip_read(ls__gzip *gzip, void *out, size_t n, size_t *got);
void ls__gzip_close(ls__gzip **gzip);

#endif
