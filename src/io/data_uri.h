/* data_uri.h: bytes as a data URI (RFC 2397), for files that contain their images. */
#ifndef LS_IO_DATA_URI_H
#define LS_IO_DATA_URI_H

#include <lockstep/context.h>

/* "data:image/jpeg;base64,..." from the context's allocator; NULL if memory is short. */
char *ls__data_uri(const ls_context *ctx, const char *type, const uint8_t *bytes, size_t n);

#endif
