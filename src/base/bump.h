/* bump.h: many small pieces of memory that are freed together. */
#ifndef LS_BASE_BUMP_H
#define LS_BASE_BUMP_H

#include <lockstep/context.h>

typedef struct ls__bump {
    const ls_context *ctx;
    struct ls__bump_chunk *chunks; /* newest first */
} ls__bump;

void ls__bump_open(ls__bump *bump, const ls_context *ctx);
/* Zeroed memory, aligned to 16 bytes; NULL when there is none. */
void *ls__bump_alloc(ls__bump *bump, size_t bytes);
char *ls__bump_strdup(ls__bump *bump, const char *text);
/* A larger copy of an array: room for `count` elements of `size` bytes, the first `used` of them
 * copied. The old array stays allocated until the end, so double the room each time. */
void *ls__bump_grow(ls__bump *bump, const void *array, size_t used, size_t count, size_t size);
void ls__bump_close(ls__bump *bump);

#endif
