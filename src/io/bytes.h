/* bytes.h: a growing list of bytes. */
#ifndef LS_IO_BYTES_H
#define LS_IO_BYTES_H

#include <lockstep/context.h>

/* ctx must be set, the rest zero. */
typedef struct ls__bytes {
    ls_context *ctx;
    unsigned char *data;
    size_t size, capacity;
    bool failed; /* memory was short, so that bytes are missing */
} ls__bytes;

/* Room for `size` more bytes at the end, which belong to the list; NULL without memory. */
unsigned char *ls__bytes_extend(ls__bytes *bytes, size_t size);
void ls__bytes_put(ls__bytes *bytes, const void *data, size_t size);
void ls__bytes_clear(ls__bytes *bytes);
void ls__bytes_free(ls__bytes *bytes);

#endif
