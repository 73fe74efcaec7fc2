/* bump.h: many small allocations that are freed together. */
#ifndef LS_BASE_BUMP_H
#define LS_BASE_BUMP_H

#include <lockstep/context.h>

typedef struct ls__bump {
    const ls_context *ctx;
    struct ls__bump_chunk *chunks; /* newest first */
} ls__bump;

void ls__bump_open(ls__bump *bump, const ls_context *ctx);
/* Zeroed memory, aligned to 16 bytes; NULL if memory is short. */
void *ls__bump_alloc(ls__bump *bump, size_t bytes);
char *ls__bump_strdup(ls__bump *bump, const char *text);
/* An array with room for `more` elements of `size` bytes behind its first n: the array itself, or a
 * copy with at least twice the room, which *room counts in elements. NULL without memory: then
 * nothing has changed. What was outgrown stays allocated until the end. */
void *ls__bump_room(ls__bump *bump, void *array, size_t n, size_t more, size_t *room, size_t size);
void ls__bump_close(ls__bump *bump);

#endif
